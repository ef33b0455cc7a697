"""Histograms a chunk of bags at a time: here, or on the machines of a cluster.

The histogram of a bag does not depend on its company, so chunks change nothing. On a cluster the
words are sent to the workers, and to each chunk the names and places of its bags; workers read
them from the store and return the rows, 4 · n_words bytes a bag.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import soft_histograms
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel.cluster import Cluster
from bowsaw.parallel.dealing import block_size
from bowsaw.store.located import Located

CHUNK_BAGS = 128
"""Bags of a chunk that this process codes."""


@dataclass(frozen=True)
class Coder:
    """How bags are coded.

    Attributes
    ----------
    words : ndarray of shape (n_words, n_dims), float32
        In the bags' stored units.
    sharpness : float or None
        Of soft coding; None for hard coding.
    """

    words: NDArray[np.float32]
    sharpness: float | None = None

    def code(
        self,
        bags: Bags,
        out: NDArray[np.float32] | None = None,
        n_jobs: int | None = 1,
        verbose: bool = False,
    ) -> NDArray[np.float32]:
        """Return the histograms, ``(n_bags, n_words)``, in ``out`` where it is given."""
        if self.sharpness is None:
            return hard_histograms(bags, self._search, out=out, n_jobs=n_jobs, verbose=verbose)
        return soft_histograms(
            bags, self.words, self.sharpness, out=out, n_jobs=n_jobs, verbose=verbose
        )

    @cached_property
    def _search(self) -> WordSearch:
        """The words prepared for a search, once for all chunks that a process codes."""
        return WordSearch(self.words)


def code_on(
    cluster: Cluster, bags: Bags, coder: Coder
) -> Generator[tuple[int, NDArray[np.float32]], None, None]:
    """Yield ``(first bag, histograms)`` of consecutive chunks, coded by the workers of a cluster.

    Parameters
    ----------
    cluster : Cluster
        Where the work is done.
    bags : Bags
        The descriptors, in a store that workers see.
    coder : Coder
        How.
    """
    located = Located.of(bags)
    cluster.check(located.landmarks())
    size = block_size(len(bags))
    starts = range(0, len(bags), size)
    chunks = (located.bags(start, start + size) for start in starts)
    with (
        cluster.shared(Coder, coder.words, coder.sharpness) as shared,
        closing(cluster.ordered_map(code_chunk, chunks, shared)) as coded,
    ):
        yield from zip(starts, coded, strict=True)


def code_chunk(located: Located, coder: Coder) -> NDArray[np.float32]:
    """Code one chunk, on a worker."""
    return coder.code(located.open())
