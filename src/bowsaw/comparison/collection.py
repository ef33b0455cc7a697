"""A labelled set of images to measure methods on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags, as_bags
from bowsaw.checkpoint import atomic_write, fingerprint, make_folder
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.formatting import format_count
from bowsaw.images.decode import read_image
from bowsaw.images.split import Split, split_by_class
from bowsaw.random_streams import stream
from bowsaw.selection.holdout import assign_folds, check_all_are_seen
from bowsaw.store import Store

MAX_SIDE = 320
"""Pixels of the longer side of a sample image."""


@dataclass(eq=False)
class Collection:
    """A labelled set of images to measure methods on.

    Attributes
    ----------
    name : str
        Its name in records and files.
    bags : Bags or list of arrays
        The descriptors of every image.
    y : ndarray of int64, shape (n_bags,)
        The class of each image: a position in ``classes``.
    classes : sequence of str
        The names of the classes.
    codebook_images, train : int, default=50
        Images per class for the codebook, and to choose words and train classifiers with; all
        others are test images.
    n_folds : int, default=0
        Test by cross-validation instead: split ``i`` tests on fold ``i`` of this many, and learns
        words and classes from all other images. Copies of an image share a fold.
    about : mapping
        Further facts for ``run.json``.
    store : Store, optional
        The origin of the bags. Other processes then open them from disk.
    images : path-like, optional
        The folder of the store's images, if the page may show their pixels.

    Examples
    --------
    >>> import numpy as np
    >>> bags = [np.full((3, 2), i) for i in range(4)]
    >>> Collection("toys", bags, [0, 0, 1, 1], ["low", "high"]).record()["n_images"]
    4
    """

    name: str
    bags: Bags
    y: NDArray[np.int64]
    classes: Sequence[str]
    codebook_images: int = 50
    train: int = 50
    about: Mapping[str, Any] = field(default_factory=dict)
    store: Store | None = None
    images: str | os.PathLike[str] | None = None
    n_folds: int = 0

    def __post_init__(self) -> None:
        if self.name != Path(self.name).name or "\0" in self.name:
            raise ParameterError(f"name must be usable as a file name; got {self.name!r}.")
        self.bags = as_bags(cast(Iterable[ArrayLike], self.bags))
        self.y, self.classes = np.asarray(self.y), tuple(self.classes)
        if self.y.shape != (len(self.bags),):
            raise DataError(
                f"y must have one label per bag ({len(self.bags)}); got shape {self.y.shape}."
            )
        n_classes = len(np.unique(self.y))
        if n_classes < 2:
            raise DataError(
                f"{self.name} has usable images of {format_count(n_classes, 'class', 'classes')}, "
                "and a comparison needs at least 2. Add images of other classes."
            )

    @classmethod
    def from_store(
        cls,
        store: Store,
        name: str | None = None,
        *,
        codebook_images: int | None = None,
        train: int | None = None,
        images: str | os.PathLike[str] | None = None,
        n_folds: int = 0,
        **about: Any,
    ) -> Collection:
        """Return the usable images of a store, named after its folder unless a name is given.

        All other arguments are as in the class; ``about`` is given as keywords. Sizes that are not
        given are those of the store's split, or 50 where it has none.
        """
        kept = store.split
        codebook_kept, train_kept = (50, 50) if kept is None else (kept.n_codebook, kept.n_train)
        called = name or store.path.resolve().name.removesuffix(".store") or "images"
        known = {"descriptor": dict(store.description or {}), "n_set_aside": len(store.set_aside)}
        about = {**known, **about}
        y = np.asarray(store.y, dtype=np.int64)
        sizes = (
            codebook_kept if codebook_images is None else codebook_images,
            train_kept if train is None else train,
        )
        return cls(called, store.bags, y, store.classes, *sizes, about, store, images, n_folds)

    def __getstate__(self) -> dict[str, Any]:
        hidden = () if self.store is None else ("bags",)
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.store is not None:
            self.bags = self.store.bags

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of bags, labels and class names."""
        return fingerprint(bags=self.bags.digest(), y=self.y.tolist(), classes=list(self.classes))

    def split(self, seed: int, index: int) -> Split:
        """Return one of the run's splits: random parts, or a fold and the rest."""
        if not self.n_folds:
            sizes = {"codebook": self.codebook_images, "train": self.train}
            return split_by_class(self.y, list(self.classes), **sizes, seed=seed, index=index)
        if index >= self.n_folds:
            raise ParameterError(
                f"there are {self.n_folds} folds, and split {index} asks for another. Ask for at "
                f"most {self.n_folds} splits."
            )
        test = self._folds(seed) == index
        parts = (np.empty(0, dtype=np.int64), np.flatnonzero(~test), np.flatnonzero(test))
        return Split(*parts, 0, 0, seed, index, self.n_folds)

    def _folds(self, seed: int) -> NDArray[np.int64]:
        counts = np.bincount(self.y, minlength=len(self.classes))
        if counts.min() < self.n_folds:
            raise DataError(
                f"class {self.classes[int(counts.argmin())]!r} has {int(counts.min())} usable "
                f"images, and {self.n_folds} folds need as many. Ask for fewer folds, add images, "
                "or move the folder of that class away."
            )
        digests, copies = self.bags.digests, None
        if digests is not None and len(np.unique(digests)) < len(digests):
            copies = np.unique(digests, return_inverse=True)[1]
        folds = assign_folds(self.y, self.n_folds, stream(seed, "folds"), copies)
        check_all_are_seen(folds, self.y, np.array(self.classes))
        return folds

    def record(self) -> dict[str, Any]:
        """Return the entry of ``run.json``."""
        return {
            "classes": list(self.classes),
            "n_images": len(self.bags),
            "n_descriptors": self.bags.n_descriptors,
            "n_dims": self.bags.n_dims,
            "digest": self.digest,
            "codebook_images": int(self.codebook_images),
            "train": int(self.train),
            **({"n_folds": int(self.n_folds)} if self.n_folds else {}),
            **self.about,
        }

    def write_samples(
        self, path: Path, shown: NDArray[np.int64], others: NDArray[np.int64]
    ) -> None:
        """Write sample images for the page: descriptors, places, and pixels of those ``shown``.

        ``pixels`` holds the grey values of all images one after another, ``pixel_shapes`` their
        height and width (0 without pixels), ``sizes`` width and height as described.
        """
        rows = np.concatenate([shown, others])
        bags, store = self.bags[rows], self.store
        positions = np.zeros((bags.n_descriptors, 3), dtype=np.float32)
        sizes = np.zeros((len(rows), 2), dtype=np.int64)
        paths = [b""] * len(rows)
        pixels = [np.empty((0, 0), dtype=np.uint8)] * len(rows)
        if store is not None:
            positions = np.concatenate([store.positions(row) for row in rows.tolist()])
            sizes = np.asarray(store.sizes[rows], dtype=np.int64)
            paths = [os.fsencode(store.paths[row]) for row in rows.tolist()]
            pixels[: len(shown)] = [self._pixels(row) for row in shown.tolist()]
        make_folder(path.parent)
        with atomic_write(path) as file:
            np.savez(
                file,
                descriptors=bags.values,
                offsets=bags.offsets,
                scale=np.float64(1.0 if bags.scale is None else bags.scale),
                positions=positions,
                sizes=sizes,
                labels=self.y[rows],
                paths=np.array(paths),
                pixels=np.concatenate([image.ravel() for image in pixels]),
                pixel_shapes=np.array([image.shape for image in pixels], dtype=np.int64),
            )

    def _pixels(self, row: int) -> NDArray[np.uint8]:
        """Return an image as it was described, but small; empty if it is gone or has changed."""
        nothing = np.empty((0, 0), dtype=np.uint8)
        if self.store is None or self.images is None:
            return nothing
        try:
            path = Path(self.images) / self.store.paths[row]
            image = read_image(path, max_side=min(MAX_SIDE, int(max(self.store.sizes[row]))))
        except ImageError:
            return nothing
        digests = self.bags.digests
        is_same = digests is not None and image.digest == int(digests[row])
        return image.grey if is_same else nothing
