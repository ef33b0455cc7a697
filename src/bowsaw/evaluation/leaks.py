"""Leaks: whether a given codebook has seen test images.

A test image whose digest is among those that the codebook was learned from is a leak, except:

- an image that the collection holds twice (15-Scenes has eighteen such pairs) may fall both in the
  test part and in another part of the *same* split. A codebook trained on that other part has done
  nothing wrong, so digests of the split's own codebook or training images are allowed;
- digest 0 stands for a file that could not be read, whose bag is empty.

What cannot be checked gives a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, LeakError
from bowsaw.images.split import Rows, Split

SPLIT_KEYS = ("codebook", "train", "seed", "index")
"""What draws a split: images per class in two parts, and which one it is."""


def seen_by(
    codebook: Codebook, bags: Bags, rows: Rows, own: Rows | Sequence[int] = ()
) -> NDArray[np.bool_] | None:
    """Return which rows' images the words were learned from, but for ``own``; None if unknown."""
    if codebook.trained_on is None or bags.digests is None:
        return None
    digests, allowed = bags.digests[rows], bags.digests[np.asarray(own, dtype=np.int64)]
    seen = np.isin(digests, codebook.trained_on) & ~np.isin(digests, allowed) & (digests != 0)
    if not seen.any() and codebook.provenance.get("trained_on_others"):
        return None
    return np.asarray(seen)


def leaked_images(codebook: Codebook, bags: Bags, split: Split) -> NDArray[np.bool_] | None:
    """Return which of a split's test images the words were learned from; None where unknown."""
    return seen_by(codebook, bags, split.test, np.concatenate((split.codebook, split.train)))


def own_split(codebook: Codebook, bags: Bags, draw: Callable[..., Split]) -> dict[str, int] | None:
    """Return the split that a codebook records, by ``draw``, if its test images can test it."""
    record: Any = codebook.provenance.get("split")
    if not isinstance(record, Mapping) or not set(record) >= set(SPLIT_KEYS):
        return None
    own = {name: record[name] for name in SPLIT_KEYS}
    try:
        seen = leaked_images(codebook, bags, draw(**own))
    except (BowsawError, TypeError):
        return None
    return None if seen is None or seen.any() else own


def check_leaks(
    codebook: Codebook,
    bags: Bags,
    splits: Sequence[Split],
    paths: Sequence[str | PathLike[str]] | None = None,
    draw: Callable[..., Split] | None = None,
) -> None:
    """Raise a LeakError when ``codebook`` was trained on test images of one of the splits.

    ``draw`` is that of :func:`own_split`: the remedy names the split that can be used.
    """
    unknown = False
    for split in splits:
        seen = leaked_images(codebook, bags, split)
        unknown |= seen is None
        if seen is not None and seen.any():
            row = int(split.test[seen][0])
            example = f"bag {row}" if paths is None else fspath(paths[row])
            own = None if draw is None else own_split(codebook, bags, draw)
            remedy = "Give a codebook of the part codebook"
            if own is not None and own["index"] == 0:
                remedy = (
                    "Evaluate it on its own split alone, with codebook_images={codebook}, "
                    "train={train}, seed={seed} and n_splits=1"
                ).format(**own)
            raise LeakError(
                f"the codebook was trained on {int(seen.sum())} of the {len(split.test)} test "
                f"images of split {split.index} (such as {example}). {remedy}; or give no "
                "codebook, and each split trains its own."
            )
    if unknown:
        of_what = (
            "the codebook does not say which images it was trained on"
            if bags.digests is not None
            else "the bags do not say which images they are of (they have no digests)"
        )
        warnings.warn(
            f"{of_what}, so it cannot be checked that no test image is among its training images. "
            "Train the codebook with bowsaw on bags that have digests.",
            UserWarning,
            stacklevel=3,
        )


def check_not_selected_by(codebook: Codebook, bags: Bags) -> None:
    """Raise a LeakError when labels of some of these bags have chosen the words before."""
    by = codebook.provenance.get("selected_by")
    if by is None or codebook.trained_on is None or bags.digests is None:
        return
    n_seen = int(np.isin(bags.digests, codebook.trained_on).sum())
    if n_seen:
        raise LeakError(
            f"the labels of {n_seen} of the {len(bags)} bags may have chosen the words before (by "
            f"{by}), so no fold of them can test the words. Give the codebook before that choice, "
            "or bags that it has not seen."
        )
