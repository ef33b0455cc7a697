"""One round of Lloyd's algorithm: the sums of each word's descriptors, and what becomes of them.

Descriptors are taken a part of ``PART_ROWS`` at a time. Within a part sums are taken in float64 in
the order of the descriptors, the parts of a group are added in order, and so are the groups. These
limits depend on the number of descriptors alone. So a sum has one value, to the bit, whether the
parts of a group are summed by threads of this process or a group by a worker on another machine,
of which only the sums come back: 8 · n_words · (n_dims + 1) bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.clustering._lloyd_kernel import add_rows
from bowsaw.nearest.search import WordSearch

PART_ROWS = 16384
GROUP_PARTS, MOST_GROUPS = 4, 4096
"""A group has so many parts, or more where there would be more than so many groups."""

_FARTHEST = 32


def parts_in_group(n_descriptors: int) -> int:
    """Return how many parts a group has.

    Examples
    --------
    >>> parts_in_group(10**6), parts_in_group(10**11)
    (4, 1491)
    """
    n_parts = -(-n_descriptors // PART_ROWS)
    return max(GROUP_PARTS, -(-n_parts // MOST_GROUPS))


@dataclass
class Sums:
    """What a part, a group or all of the descriptors amount to.

    Attributes
    ----------
    sums : ndarray of float64, shape (n_words, n_dims)
        Of each word's descriptors.
    counts : ndarray of int64, shape (n_words,)
        Descriptors of each word.
    totals : list of float
        The squared distances of each part, added up: a list, so that the order of adding them does
        not depend on groups.
    rows, distances : ndarray of float32, shapes (n, n_dims) and (n,)
        The descriptors that are farthest from their words, farthest first.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]
    totals: list[float]
    rows: NDArray[np.float32]
    distances: NDArray[np.float32]

    def add(self, other: Sums) -> None:
        """Add what follows in the order of the descriptors."""
        self.sums += other.sums
        self.counts += other.counts
        self.totals += other.totals
        rows = np.concatenate([self.rows, other.rows])
        distances = np.concatenate([self.distances, other.distances])
        order = np.argsort(-distances, kind="stable")[:_FARTHEST]
        self.rows, self.distances = rows[order], distances[order]


def sum_part(
    data: Bags, limits: tuple[int, int], search: WordSearch, guess: NDArray[np.int32] | None
) -> Sums:
    """Assign a part of the descriptors and sum up; ``guess`` (of all) is read and renewed."""
    n_words, n_dims = search.exact_words.shape
    sums = np.zeros((n_words, n_dims), dtype=np.float64)
    counts = np.zeros(n_words, dtype=np.int64)
    far_rows, far_distances, total = [], [], 0.0
    for start in range(*limits, search.block_rows):
        stop = min(start + search.block_rows, limits[1])
        rows = search.read(data, start, stop)
        # A guess of -1 marks the first round, when there is nothing to go by.
        known = guess is not None and guess[start] >= 0
        found = search.find(rows, guess[start:stop] if known and guess is not None else None)
        if guess is not None:
            guess[start:stop] = found.code
        add_rows(rows, found.code, sums, counts)
        total += float(found.nearest.sum(dtype=np.float64))
        order = np.argsort(-found.nearest, kind="stable")[:_FARTHEST]
        far_rows.append(rows[order])
        far_distances.append(found.nearest[order])
    rows, distances = np.concatenate(far_rows), np.concatenate(far_distances)
    order = np.argsort(-distances, kind="stable")[:_FARTHEST]
    return Sums(sums, counts, [total], rows[order], distances[order])


def fold(parts: Iterable[Sums], size: int) -> Iterator[Sums]:
    """Yield the sums of each group of ``size`` consecutive parts; the last may have fewer."""
    group: Sums | None = None
    for number, part in enumerate(parts, start=1):
        if group is None:
            group = part
        else:
            group.add(part)
        if number % size == 0:
            yield group
            group = None
    if group is not None:
        yield group


@dataclass(frozen=True)
class Round:
    """One assignment of all descriptors.

    ``sums`` and ``counts`` are those of each word's descriptors, ``objective`` the mean squared
    distance in stored units, ``farthest`` the rows farthest from their words, farthest first.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]
    objective: float
    farthest: NDArray[np.float32]

    @classmethod
    def of(cls, groups: Iterator[Sums]) -> Round:
        """Add up all groups of the descriptors, in their order; there must be one."""
        whole = next(groups)
        for group in groups:
            whole.add(group)
        total = 0.0
        for part in whole.totals:
            total += part
        return cls(whole.sums, whole.counts, total / int(whole.counts.sum()), _unlike(whole.rows))

    def words(self, old: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the means; a word without descriptors moves to a far descriptor instead."""
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        words = np.where(self.counts[:, None] > 0, means, old).astype(np.float32)
        empty = np.flatnonzero(self.counts == 0)[: len(self.farthest)]
        words[empty] = self.farthest[: len(empty)]
        return np.ascontiguousarray(words)


def _unlike(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop repeated rows and keep the order, so that two empty words do not move to one place."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
