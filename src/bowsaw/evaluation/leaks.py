"""Leaks: whether a given codebook has seen test images.

A codebook knows the digests of the images that its words were learned from, and bags know those of
their images. A test image whose digest the codebook knows is a leak, with two exceptions:

- an image that the collection holds twice (15-Scenes has eighteen such pairs) may fall both in the
  test part and in another part of the *same* split. A codebook trained on that other part has done
  nothing wrong, so digests of the split's own codebook or training images are allowed;
- digest 0 stands for a file that could not be read, whose bag is empty.

What cannot be checked gives a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike, fspath

import numpy as np

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import LeakError
from bowsaw.images.split import Split


def check_leaks(
    codebook: Codebook,
    bags: Bags,
    splits: Sequence[Split],
    paths: Sequence[str | PathLike[str]] | None = None,
) -> None:
    """Raise a LeakError when ``codebook`` was trained on test images of one of the splits."""
    if codebook.trained_on is None or bags.digests is None:
        unknown = (
            "the codebook does not say which images it was trained on"
            if codebook.trained_on is None
            else "the bags do not say which images they are of (they have no digests)"
        )
        warnings.warn(
            f"{unknown}, so it cannot be checked that no test image is among its training images. "
            "Train the codebook with bowsaw on bags that have digests.",
            UserWarning,
            stacklevel=3,
        )
        return
    for split in splits:
        digests = bags.digests[split.test]
        own = bags.digests[np.concatenate((split.codebook, split.train))]
        seen = np.isin(digests, codebook.trained_on) & ~np.isin(digests, own) & (digests != 0)
        if seen.any():
            row = int(split.test[seen][0])
            example = f"bag {row}" if paths is None else fspath(paths[row])
            raise LeakError(
                f"the codebook was trained on {int(seen.sum())} of the {len(split.test)} test "
                f"images of split {split.index} (such as {example}). {_remedy(codebook)}"
            )


def _remedy(codebook: Codebook) -> str:
    origin = codebook.provenance.get("split")
    which = "the split that it was trained on"
    if isinstance(origin, Mapping):
        which += " (" + ", ".join(f"{key} {value}" for key, value in origin.items()) + ")"
    return (
        f"Evaluate it on {which} alone, with the same --train-codebook, --train and --seed, and "
        "its index as --first-split; or give no codebook, and each split trains its own."
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
