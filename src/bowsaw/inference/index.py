"""The inverted index of ranked lists: which descriptors list a word, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.inference._begin_kernel import invert
from bowsaw.parallel import ordered_map

SEGMENT_ROWS = 2**16


class Index:
    """The inverted lists: of each word the (descriptor, rank) entries, segment by segment.

    Parameters
    ----------
    lists : ndarray of shape (n_descriptors, n_ranked)
        Ranked words, padded with n_words.
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.
    n_words : int
        Words of the codebook.
    n_jobs : int or None
        Threads.

    Attributes
    ----------
    bags, rows : ndarray of int64, shape (n_segments + 1,)
        Where segments begin, among the bags and among the descriptors.
    starts : ndarray of int64, shape (n_segments, 2 * n_words + 3)
        Where entries begin; see ``_begin_kernel.invert``.
    entry_rows, entry_ranks : ndarray of shape (n_entries,)
        The entries; descriptors are numbered within their segment.
    """

    def __init__(
        self,
        lists: NDArray[Any],
        offsets: NDArray[np.int64],
        n_words: int,
        n_jobs: int | None,
    ) -> None:
        self.bags = np.array(cut(offsets), dtype=np.int64)
        self.rows = offsets[self.bags]
        self.starts = np.zeros((len(self), 2 * n_words + 3), dtype=np.int64)
        small = len(self) == 0 or int(np.diff(self.rows).max()) <= 2**16
        self.entry_rows: NDArray[Any] = np.empty(lists.size, dtype=np.uint16 if small else np.int32)
        self.entry_ranks = np.empty(lists.size, dtype=np.uint8)

        def one(number: int) -> None:
            part = slice(self.rows[number], self.rows[number + 1])
            room = slice(part.start * lists.shape[1], part.stop * lists.shape[1])
            invert(lists[part], self.starts[number], self.entry_rows[room], self.entry_ranks[room])
            self.starts[number] += room.start

        for _ in ordered_map(one, range(len(self)), n_jobs):
            pass

    def __len__(self) -> int:
        return len(self.bags) - 1

    def n_entries(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many entries these words have in each segment, ``(n_segments,)``."""
        starts = self.starts
        found: NDArray[np.int64] = (starts[:, 2 * words + 2] - starts[:, 2 * words]).sum(axis=1)
        return found

    @property
    def n_bytes(self) -> int:
        """Memory of the index."""
        return sum(a.nbytes for a in (self.starts, self.entry_rows, self.entry_ranks))


def cut(offsets: NDArray[np.int64]) -> list[int]:
    """Return where segments begin and end, as numbers of bags: at most 65 536 descriptors each.

    A bag that is larger than that is a segment by itself.

    Examples
    --------
    >>> cut(np.array([0, 40_000, 60_000, 90_000, 200_000, 200_000]))
    [0, 2, 3, 4, 5]
    """
    cuts = [0]
    for bag in range(1, len(offsets)):
        if offsets[bag] - offsets[cuts[-1]] > SEGMENT_ROWS and bag - 1 > cuts[-1]:
            cuts.append(bag - 1)
    return [*cuts, len(offsets) - 1] if len(offsets) > 1 else [0, 0]
