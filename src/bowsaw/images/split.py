"""Disjoint parts of a labelled collection: codebook, train, and the rest to test.

The same number of images per class goes to the codebook and to training; all others are test
images. The draw of a class depends only on the seed, the index of the split, the name of the class
and the order of its rows: adding or removing a class moves no image of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.checkpoint import json_digest
from bowsaw.errors import DataError
from bowsaw.formatting import format_count
from bowsaw.random_streams import check_seed, stream
from bowsaw.validation import ComparedByValue, check_choice, check_int

Rows = NDArray[np.int64]
Part = Literal["codebook", "train", "test", "all"]
PARTS: tuple[Part, ...] = ("codebook", "train", "test", "all")
USUAL, SMALLEST = 50, 150
"""Images per class in two parts, where every class has at least the second number."""


@dataclass(frozen=True, eq=False)
class Split(ComparedByValue):
    """The rows of a collection that belong to each part.

    Attributes
    ----------
    codebook, train, test : ndarray of int64
        Row numbers, ascending; every row is in exactly one of them.
    n_codebook, n_train : int
        Images per class in ``codebook`` and in ``train``.
    seed, index : int
        The seed of the run, and which of its splits this is.
    n_folds : int
        In a cross-validation the number of folds, and ``test`` is fold ``index``; otherwise 0.
    """

    codebook: Rows
    train: Rows
    test: Rows
    n_codebook: int
    n_train: int
    seed: int
    index: int
    n_folds: int = 0

    def part(self, name: Part | str) -> Rows:
        """Return the rows of one part, or of ``"all"`` of them.

        Examples
        --------
        >>> split = split_by_class([0] * 4, ["a"], codebook=1, train=1)
        >>> len(split.part("test")), split.part("all").tolist()
        (2, [0, 1, 2, 3])
        """
        check_choice(name, "part", PARTS)
        if name == "all":
            return np.sort(np.concatenate((self.codebook, self.train, self.test)))
        return cast(Rows, getattr(self, name))

    @property
    def sizes(self) -> str:
        """The sizes as on the command line, such as ``"50/50/rest"``."""
        return f"{self.n_codebook}/{self.n_train}/rest"

    @property
    def digest(self) -> str:
        """SHA-256 of the rows of all parts, the seed and the index.

        Examples
        --------
        >>> split = split_by_class([0] * 4, ["a"], codebook=1, train=1)
        >>> split.digest == split_by_class([0] * 4, ["a"], codebook=1, train=2).digest
        False
        """
        rows = [part.tolist() for part in (self.codebook, self.train, self.test)]
        return json_digest([rows, self.seed, self.index])

    def record(self) -> dict[str, Any]:
        """Return what codebooks and classifiers record of the split that they belong to."""
        sizes = {"codebook": self.n_codebook, "train": self.n_train}
        return {**sizes, "seed": self.seed, "index": self.index, "digest": self.digest}

    def seed_for(self, purpose: str) -> int:
        """Return the seed of one purpose in this split, such as ``"kmeans"``.

        Examples
        --------
        >>> split = split_by_class([0] * 4, ["a"], codebook=1, train=1)
        >>> split.seed_for("kmeans") == split.seed_for("kmeans") != split.seed_for("coding")
        True
        """
        return int(stream(self.seed, purpose, self.index).integers(2**31 - 1))

    def __repr__(self) -> str:
        return (
            f"Split(codebook={len(self.codebook)}, train={len(self.train)}, "
            f"test={len(self.test)}, seed={self.seed}, index={self.index})"
        )


def split_by_class(
    y: ArrayLike,
    classes: Sequence[str],
    *,
    codebook: int,
    train: int,
    seed: int = 0,
    index: int = 0,
) -> Split:
    """Draw split ``index`` of a seed: images per class, and the rest to test."""
    n_codebook, n_train = check_int(codebook, "codebook", 0), check_int(train, "train", 1)
    seed, index = check_seed(seed), check_int(index, "index", 0)
    labels = _labels(y, len(classes))
    check_sizes(labels, classes, n_codebook, n_train)
    drawn: list[list[Rows]] = []
    for label, name in enumerate(classes):
        rows = np.flatnonzero(labels == label)
        # Sorting uniform numbers, because NumPy may change how ``permutation`` draws.
        order = np.argsort(stream(seed, "split", index, name).random(len(rows)))
        drawn.append(np.split(rows[order], (n_codebook, n_codebook + n_train)))
    for_codebook, to_train, to_test = map(_ascending, zip(*drawn, strict=True))
    return Split(for_codebook, to_train, to_test, n_codebook, n_train, seed, index)


def check_sizes(
    y: ArrayLike, classes: Sequence[str], codebook: int, train: int, flag: str = ""
) -> None:
    """Raise a DataError where a class cannot fill the parts; ``flag`` is the option to name."""
    named = f"{flag} " if flag else ""
    for name, n_images in zip(classes, _counts(y, classes), strict=True):
        if n_images <= codebook + train:
            each = n_images // 3
            smaller = f"Give smaller parts, such as {named}{each}/{each}/rest, or move"
            raise DataError(
                f"class {name!r} has {format_count(n_images, 'image')}, and "
                f"{named or 'a split of '}{codebook}/{train}/rest needs at least "
                f"{codebook + train + 1} per class. {smaller if each else 'Move'} its folder away."
            )


def auto_sizes(y: ArrayLike, classes: Sequence[str]) -> tuple[int, int] | None:
    """Return the usual images per class in parts codebook and train.

    They are 50 and 50 where every class has at least 150 images, else a third of the smallest
    class. None where a class has fewer than 3 images, which no split can divide.
    """
    smallest = min(_counts(y, classes), default=0)
    each = USUAL if smallest >= SMALLEST else smallest // 3
    return (each, each) if each else None


def _counts(y: ArrayLike, classes: Sequence[str]) -> list[int]:
    return list(map(int, np.bincount(np.asarray(y, dtype=np.int64), minlength=len(classes))))


def _ascending(parts: tuple[Rows, ...]) -> Rows:
    rows = np.sort(np.concatenate(parts)).astype(np.int64)
    rows.setflags(write=False)
    return rows


def _labels(y: ArrayLike, n_classes: int) -> Rows:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or n_classes == 0 or labels.size == 0:
        raise DataError(
            f"y must be one integer per row, a position in classes; got {labels.size} "
            f"values of type {labels.dtype}, shape {labels.shape}, and {n_classes} classes."
        )
    if labels.min() < 0 or labels.max() >= n_classes:
        raise DataError(
            f"y must be between 0 and {n_classes - 1} (there are {n_classes} classes); got "
            f"{labels.min()} to {labels.max()}."
        )
    return labels.astype(np.int64)
