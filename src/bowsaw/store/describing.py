"""One image becomes rows of a store, or the reason why it does not.

Threads of this process and workers on other machines describe through the same ``Describer``, so
that it cannot matter to a store who described an image.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import DataError, ImageError
from bowsaw.store.content import OK, SET_ASIDE, Entry, Recipe
from bowsaw.store.shards import N_POSITION


@dataclass(frozen=True, slots=True)
class Target:
    """An image to describe: its name in the catalogue and the file, None for an unusable name."""

    path: str
    source: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about an image, beside its descriptors."""

    count: int = 0
    width: int | None = None
    height: int | None = None
    digest: str | None = None
    trouble: ImageError | None = None
    is_missing: bool = False
    """Whether there was trouble because there was no file."""

    def entry(self, pending: Entry, shard: int, start: int) -> Entry:
        """Return the image's line in the catalogue."""
        return replace(
            pending,
            status=OK if self.trouble is None else SET_ASIDE,
            reason="" if self.trouble is None else self.trouble.reason,
            shard=shard,
            start=start,
            count=self.count,
            width=self.width,
            height=self.height,
            digest=self.digest,
        )


Described = tuple[Finding, NDArray[Any], NDArray[np.float32]]
"""A finding, the descriptors ``(count, n_dims)`` and their positions ``(count, 3)``."""


@dataclass(frozen=True)
class Describer:
    """Describes images as a recipe says; small enough to be sent.

    Parameters
    ----------
    descriptor : Descriptor
        What to compute.
    recipe : Recipe
        Its recipe, which results are held to.
    """

    descriptor: Descriptor
    recipe: Recipe

    def describe(self, target: Target) -> Described:
        """Describe one image."""
        n_dims, dtype = self.recipe.n_dims, self.recipe.stored_dtype
        try:
            if target.source is None:
                raise ImageError(target.path, "a file name that is not Unicode")
            picture = self.descriptor.load(target.source)
            values, positions = self.descriptor.describe(picture.grey)
        except ImageError as error:
            is_missing = target.source is not None and not os.path.lexists(target.source)
            finding = Finding(trouble=error, is_missing=is_missing)
            return finding, np.empty((0, n_dims), dtype), np.empty((0, N_POSITION), np.float32)
        # A store trusts its rows from here on: what a descriptor does wrong has to end here.
        if values.dtype != dtype or values.shape != (len(values), n_dims):
            raise DataError(
                f"the descriptor says that it gives {dtype} (n, {n_dims}), but for {target.path} "
                f"it gave {values.dtype} {values.shape}. Correct its describe()."
            )
        if positions.shape != (len(values), N_POSITION):
            raise DataError(
                f"a position must be (x, y, side) for each of the {len(values)} descriptors of "
                f"{target.path}; got shape {positions.shape}. Correct the descriptor's describe()."
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"descriptors must be finite; those of {target.path} hold NaN or infinity. "
                "Correct the descriptor's describe()."
            )
        height, width = picture.grey.shape
        digest = f"{picture.digest or 0:016x}"
        return Finding(len(values), width, height, digest), values, positions

    def is_same(self, target: Target, entry: Entry) -> bool:
        """Say whether a fresh extraction would write the image as ``entry`` tells."""
        if entry.status == SET_ASIDE:
            trouble = self.describe(target)[0].trouble
            return trouble is not None and trouble.reason == entry.reason
        source = Path(target.source or "")
        try:
            # A pipe in the file's place would be waited for without end.
            if target.source is None or not source.is_file():
                return False
            with source.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()[:16] == entry.digest
        except OSError:
            return False
