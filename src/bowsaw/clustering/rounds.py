"""Rounds of Lloyd's algorithm, by threads of this process or on a cluster.

``LocalRows`` and ``RemoteRows`` have the same interface (``n_descriptors``, ``blocks``, ``draw``,
``assign``, ``close``) and give the same results, bit for bit: descriptors are summed in parts of
``PART_ROWS`` rows, in float64 and in order; the parts of a group are added in order, and so are the
groups. These limits depend on the number of descriptors alone. From a worker only the sums of a
group come back: 8 · n_words · (n_dims + 1) bytes.

On a cluster a round sends the words to the workers, and for each group the names and places of its
bags; workers read their groups from the store. The rows of a ``sample`` are read once and held by
the workers, because reading single rows of a store takes longer than a round; those of a lost
worker are read again by another.

The search for the nearest word starts at what is *known* from the round before, which changes the
time only: the nearest word, and where descriptors are searched by integers, lower bounds of the
distances from groups of words (Ding and others 2015, "Yinyang k-means"). A group whose bound, less
what its words have moved, exceeds the distance to the known word is not compared: on dense SIFT
with 5000 words two thirds of the products of 20 rounds. Each process stores what is known of its
own descriptors, up to ``KNOWN_BYTES``.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.clustering._lloyd_kernel import add_rows
from bowsaw.nearest.integer import Groups
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import ordered_map
from bowsaw.parallel.dask import Cluster
from bowsaw.store.shards import ShardRefs, rows_at

PART_ROWS = 16384
GROUP_PARTS, MOST_GROUPS = 4, 4096
"""Parts per group, or more where there would be more than ``MOST_GROUPS`` groups."""
KNOWN_BYTES = 256 * 2**20
_N_FARTHEST = 32


def parts_in_group(n_descriptors: int) -> int:
    """Return the number of parts per group."""
    n_parts = -(-n_descriptors // PART_ROWS)
    return max(GROUP_PARTS, -(-n_parts // MOST_GROUPS))


@dataclass(eq=False)
class Sums:
    """Sums over a part, a group or all of the descriptors."""

    sums: NDArray[np.float64]
    """Of each word's descriptors, ``(n_words, n_dims)``."""
    counts: NDArray[np.int64]
    """Descriptors of each word, ``(n_words,)``."""
    totals: list[float]
    """The summed squared distance of each part; a list, so that groups do not change the order."""
    rows: NDArray[np.float32]
    """The descriptors farthest from their words, farthest first."""
    distances: NDArray[np.float64]
    """Their squared distances."""

    def add(self, other: Sums) -> None:
        """Add the sums of the descriptors that follow."""
        self.sums += other.sums
        self.counts += other.counts
        self.totals += other.totals
        rows = np.concatenate([self.rows, other.rows])
        distances = np.concatenate([self.distances, other.distances])
        self.rows, self.distances = _farthest(rows, distances)


@dataclass(eq=False)
class LastRound:
    """What is known of descriptors from the round before; arrays are updated in place."""

    guess: NDArray[np.int32]
    """The nearest word, -1 before the first round; or empty."""
    bounds: NDArray[np.uint16]
    """``n_bounds`` per descriptor, of a block together, for as many as fit."""
    n_bounds: int

    @classmethod
    def nothing(cls, n_rows: int, n_bounds: int) -> LastRound:
        """Return memory for so many descriptors, within ``KNOWN_BYTES``."""
        n_guesses = n_rows if 4 * n_rows <= KNOWN_BYTES else 0
        n_bounded = min((KNOWN_BYTES - 4 * n_guesses) // max(2 * n_bounds, 1), n_guesses)
        bounds = np.empty(n_bounded * n_bounds, dtype=np.uint16)
        return cls(np.full(n_guesses, -1, dtype=np.int32), bounds, n_bounds)

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays."""
        return self.guess.nbytes + self.bounds.nbytes

    def rows(self, start: int, stop: int) -> LastRound:
        """Return what is known of some rows, in the same memory."""
        some = slice(start * self.n_bounds, stop * self.n_bounds)
        return LastRound(self.guess[start:stop], self.bounds[some], self.n_bounds)

    def find(self, search: WordSearch, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Return the nearest words of these rows, and remember them."""
        guess = self.guess if len(self.guess) and self.guess[0] >= 0 else None
        whole = self.n_bounds and len(self.bounds) == len(rows) * self.n_bounds
        code = search.find(rows, guess, self.bounds if whole else None)
        self.guess[:] = code[: len(self.guess)]
        return code


def sum_part(data: Bags, limits: tuple[int, int], search: WordSearch, known: LastRound) -> Sums:
    """Assign a part of the descriptors and sum up; what is ``known`` (of all) is updated."""
    n_words, n_dims = search.exact_words.shape
    sums = np.zeros((n_words, n_dims), dtype=np.float64)
    counts = np.zeros(n_words, dtype=np.int64)
    far = np.empty((0, n_dims), dtype=np.float32), np.empty(0)
    total = 0.0
    for start in range(*limits, search.block_rows):
        stop = min(start + search.block_rows, limits[1])
        rows = search.read(data, start, stop)
        code = known.rows(start, stop).find(search, rows)
        rows = np.asarray(rows, dtype=np.float32)
        nearest = np.empty(len(rows), dtype=np.float64)
        add_rows(rows, search.exact_words, code, sums, counts, nearest)
        total += float(nearest.sum())
        # Only what can be among the farthest: sorting every block took as long as the sums.
        some = nearest > (far[1][-1] if len(far[1]) == _N_FARTHEST else -1.0)
        if some.any():
            far = _farthest(np.concatenate([far[0], rows[some]]), np.append(far[1], nearest[some]))
    return Sums(sums, counts, [total], *far)


def _farthest(
    rows: NDArray[np.float32], distances: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    order = np.arange(len(distances))
    if len(distances) > _N_FARTHEST:
        # Only what is far is sorted: sorting all took longer than the sums.
        least = np.partition(distances, -_N_FARTHEST)[-_N_FARTHEST]
        order = np.flatnonzero(distances >= least)
    order = order[np.argsort(-distances[order], kind="stable")[:_N_FARTHEST]]
    return rows[order], distances[order]


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


@dataclass(frozen=True, eq=False)
class Round:
    """One assignment of all descriptors: the fields of ``Sums``."""

    sums: NDArray[np.float64]
    counts: NDArray[np.int64]
    objective: float
    """Mean squared distance, in stored units."""
    farthest: NDArray[np.float32]

    @classmethod
    def of(cls, groups: Iterator[Sums]) -> Round:
        """Add all groups of the descriptors, in order; there must be at least one."""
        every = next(groups)
        for group in groups:
            every.add(group)
        total = 0.0
        for part in every.totals:
            total += part
        return cls(every.sums, every.counts, total / int(every.counts.sum()), _unlike(every.rows))

    def words(self, old: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the means; a word without descriptors moves to a far descriptor instead."""
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        words = np.where(self.counts[:, None] > 0, means, old).astype(np.float32)
        empty = np.flatnonzero(self.counts == 0)[: len(self.farthest)]
        words[empty] = self.farthest[: len(empty)]
        return np.ascontiguousarray(words)


def _unlike(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop repeated rows and keep the order, so that no two empty words become equal."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


class _Movement:
    """How far groups of words have moved since the first round of this process."""

    def __init__(self) -> None:
        self._last: tuple[NDArray[np.float32], Groups] | None = None

    def groups(self, words: NDArray[np.float32]) -> Groups:
        """Return the groups of the next round's words."""
        if self._last is None:
            groups = Groups.of(words)
        else:
            groups = self._last[1].moved(self._last[0], words)
        self._last = words, groups
        return groups


class LocalRows:
    """Descriptors that this process reads; ``chosen`` are the rows of a sample, rising."""

    def __init__(
        self, bags: Bags, n_jobs: int | None, chosen: NDArray[np.int64] | None = None
    ) -> None:
        self._data = bags if chosen is None else Bags(rows_at(bags, chosen))
        self._n_jobs = n_jobs
        self.n_descriptors = self._data.n_descriptors
        self._movement = _Movement()
        self._known: LastRound | None = None

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all descriptors in order, in stored units and dtype."""
        for start, stop in self._data.blocks(PART_ROWS):
            yield self._data.read(start, stop, dtype=self._data.dtype)

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw descriptors without replacement, in their order."""
        return rows_at(self._data, draw_numbers(self.n_descriptors, n_rows, rng))

    def assign(self, words: NDArray[np.float32]) -> Round:
        """Assign every descriptor to its nearest word and sum up."""
        search = WordSearch(words, self._movement.groups(words))
        if self._known is None:
            self._known = LastRound.nothing(self.n_descriptors, search.n_bounds(self._data))
        one = partial(sum_part, self._data, search=search, known=self._known)
        parts = ordered_map(one, self._data.blocks(PART_ROWS), self._n_jobs)
        return Round.of(fold(parts, parts_in_group(self.n_descriptors)))

    def close(self) -> None:
        """Do nothing."""


class RemoteRows:
    """Descriptors of a store that the workers of a cluster read; ``chosen`` as in LocalRows."""

    def __init__(
        self, bags: Bags, cluster: Cluster, chosen: NDArray[np.int64] | None = None
    ) -> None:
        self._bags = bags
        self._cluster = cluster
        self._chosen = chosen
        self._located = ShardRefs.of(bags)
        self._offsets = bags.offsets
        self.n_descriptors = bags.n_descriptors if chosen is None else len(chosen)
        self._group_rows = PART_ROWS * parts_in_group(self.n_descriptors)
        self._name = uuid.uuid4().hex
        self._movement = _Movement()
        cluster.check(self._located.landmarks())
        self._held = cluster.keep(read_share, () if chosen is None else self._shares(chosen))

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all descriptors in order, in stored units and dtype."""
        for start in range(0, self.n_descriptors, PART_ROWS):
            stop = min(start + PART_ROWS, self.n_descriptors)
            if self._chosen is None:
                yield self._bags.read(start, stop, dtype=self._bags.dtype)
            else:
                yield rows_at(self._bags, self._chosen[start:stop])

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw descriptors without replacement, in their order."""
        numbers = draw_numbers(self.n_descriptors, n_rows, rng)
        return rows_at(self._bags, numbers if self._chosen is None else self._chosen[numbers])

    def assign(self, words: NDArray[np.float32]) -> Round:
        """Assign every descriptor to its nearest word and sum up."""
        groups = self._groups() if self._chosen is None else self._held
        with (
            self._cluster.shared(WordSearch, words, self._movement.groups(words)) as search,
            closing(
                self._cluster.ordered_map(sum_group, groups, search, self._name, homes=True)
            ) as sums,
        ):
            return Round.of(sums)

    def close(self) -> None:
        """Release the rows that workers hold."""
        for future in self._held:
            future.release()

    def _groups(self) -> Iterator[tuple[int, ShardRefs]]:
        for number, start in enumerate(range(0, self.n_descriptors, self._group_rows)):
            stop = min(start + self._group_rows, self.n_descriptors)
            yield number, self._located.rows(start, stop, self._offsets)

    def _shares(self, chosen: NDArray[np.int64]) -> Iterator[tuple[int, ShardRefs, NDArray[Any]]]:
        for number, start in enumerate(range(0, len(chosen), self._group_rows)):
            rows = chosen[start : start + self._group_rows]
            yield number, *self._located.around(rows, self._offsets)


def draw_numbers(n: int, n_drawn: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw numbers below ``n`` without replacement, rising."""
    numbers: NDArray[np.int64] = rng.choice(n, n_drawn, replace=False, shuffle=False)
    return np.sort(numbers)


def read_share(share: tuple[int, ShardRefs, NDArray[np.int64]]) -> tuple[int, NDArray[Any]]:
    """Read the sampled rows of a group."""
    number, located, rows = share
    return number, rows_at(located.open(), rows)


def sum_group(group: tuple[int, ShardRefs | NDArray[Any]], search: WordSearch, name: str) -> Sums:
    """Assign a group of the descriptors and sum up."""
    number, where = group
    n_rows = int(where.counts.sum()) if isinstance(where, ShardRefs) else len(where)
    limits = [(s, min(s + PART_ROWS, n_rows)) for s in range(0, n_rows, PART_ROWS)]
    known: LastRound | None = None

    def parts() -> Iterator[Sums]:
        nonlocal known
        for (start, stop), data in zip(limits, _open_parts(where, limits), strict=True):
            if known is None:
                known = _memory.take((name, number), n_rows, search.n_bounds(data))
            yield sum_part(data, (0, stop - start), search, known.rows(start, stop))

    total = next(fold(parts(), len(limits)))
    if known is not None:
        _memory.put((name, number), known)
    return total


def _open_parts(where: ShardRefs | NDArray[Any], limits: list[tuple[int, int]]) -> Iterator[Bags]:
    """Yield the parts of a group, one open at a time.

    Dask counts pages of mapped files as memory of the worker: a large group that stays open would
    pause or kill it.
    """
    if not isinstance(where, ShardRefs):
        yield from (Bags(where[start:stop]) for start, stop in limits)
        return
    offsets = np.concatenate(([0], np.cumsum(where.counts)))
    yield from (where.rows(start, stop, offsets).open() for start, stop in limits)


class _Memory:
    """What this process knows of the groups of descriptors that it has summed last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], LastRound] = OrderedDict()

    def take(self, key: tuple[str, int], n_rows: int, n_bounds: int) -> LastRound:
        with self._lock:
            known = self._known.pop(key, None)
        return LastRound.nothing(n_rows, n_bounds) if known is None else known

    def put(self, key: tuple[str, int], known: LastRound) -> None:
        """Remember a group; other fits are forgotten first, then its own bounds."""
        with self._lock:
            for other in [other for other in self._known if other[0] != key[0]]:
                if self._n_bytes() + known.n_bytes > KNOWN_BYTES:
                    del self._known[other]
            if self._n_bytes() + known.n_bytes > KNOWN_BYTES:
                known = LastRound(known.guess, known.bounds[:0].copy(), known.n_bounds)
            self._known[key] = known
            while self._n_bytes() > KNOWN_BYTES:
                self._known.popitem(last=False)

    def _n_bytes(self) -> int:
        return sum(known.n_bytes for known in self._known.values())


_memory = _Memory()
