"""What an arena compares methods on: labelled sets of images, and the panels of each.

A collection that comes from a store is sent to another process as its store: workers open the
descriptors themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.evaluation.fingerprint import data_digest
from bowsaw.store import Store

Coding = Literal["hard", "soft"]


@dataclass
class Collection:
    """A labelled set of images to compare methods on.

    Attributes
    ----------
    name : str
        What it is called in records.
    bags : Bags
        The descriptors of every image.
    y : ndarray of int64, shape (n_bags,)
        Their classes, places in ``classes``.
    classes : sequence of str
        The names of the classes.
    codebook_images, train : int
        Images of each class for the codebook, and to choose words and train machines with.
    about : mapping
        What records say of it beside.
    store : Store, optional
        Where the bags come from: another process then opens them itself.
    """

    name: str
    bags: Bags
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    codebook_images: int = 50
    train: int = 50
    about: Mapping[str, Any] = field(default_factory=dict)
    store: Store | None = None

    @classmethod
    def from_store(
        cls,
        store: Store,
        name: str | None = None,
        *,
        codebook_images: int = 50,
        train: int = 50,
        **about: Any,
    ) -> Collection:
        """Return the usable images of a store, named as its folder unless a name is given."""
        called = name or store.path.resolve().name.removesuffix(".store")
        about = {"descriptor": dict(store.description or {}), **about}
        y = np.asarray(store.y, dtype=np.int64)
        return cls(called, store.bags, y, store.classes, codebook_images, train, about, store)

    def __getstate__(self) -> dict[str, Any]:
        hidden = () if self.store is None else ("bags",)
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.store is not None:
            self.bags = self.store.bags

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the collection."""
        return data_digest(self.bags, self.y, self.classes)

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of it."""
        return {
            "classes": list(self.classes),
            "n_images": len(self.bags),
            "n_descriptors": self.bags.n_descriptors,
            "n_dims": self.bags.n_dims,
            "digest": self.digest,
            "codebook_images": self.codebook_images,
            "train": self.train,
            **self.about,
        }


@dataclass(frozen=True)
class Panel:
    """A coding and the size of the full codebook."""

    coding: Coding
    full_words: int
    sharpness: float
