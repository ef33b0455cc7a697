"""Hard coding: each descriptor counts for its nearest word (paper, Eq. 1), then average pooling.

A bag's histogram holds, per word, the share of its descriptors that are nearest to the word. Ties
go to the first word. Cost and memory are those of the nearest-word search.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.coding._pooling_kernel import count_codes
from bowsaw.nearest.search import WordSearch, find_blocks
from bowsaw.progress import Progress

BLOCK_BAGS = 64
"""Bags whose counts become shares at a time."""


def hard_histograms(
    bags: Bags,
    words: NDArray[np.float32] | WordSearch,
    *,
    out: NDArray[np.float32] | None = None,
    n_jobs: int | None = -1,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Return the average-pooled hard codes, ``(n_bags, n_words)``; an empty bag's row is 0."""
    search = words if isinstance(words, WordSearch) else WordSearch(words)
    if out is None:
        out = np.empty((len(bags), len(search.exact_words)), dtype=np.float32)
    # Counted in the memory of the result: whole numbers up to 2³², where float32 ends at 2²⁴.
    counts = out.view(np.uint32)
    counts[:] = 0
    offsets = bags.offsets
    with Progress("coding", bags.n_descriptors, show=verbose) as bar:
        for start, found in find_blocks(bags, search, n_jobs=n_jobs):
            bag = int(np.searchsorted(offsets, start, side="right")) - 1
            count_codes(found, start, offsets, bag, counts)
            bar.step(len(found))
    sizes = np.maximum(bags.counts, 1)
    for begin in range(0, len(bags), BLOCK_BAGS):
        some = slice(begin, begin + BLOCK_BAGS)
        out[some] = counts[some] / sizes[some, None]
    return out
