"""The descriptors that words are learned from: here, or on the machines of a cluster.

``LocalRows`` and ``RemoteRows`` offer the same, and give the same to the bit:

- ``n_descriptors``: how many;
- ``blocks()``: all of them in order, some at a time, read by this process;
- ``draw(n, rng)``: some of them at random, read by this process;
- ``assign(words)``: a round of Lloyd's algorithm;
- ``close()``: at the end.

**On a cluster** a round sends the words to the workers, and to each group of parts the names and
places of its bags. Workers read their groups from the store and return sums. Where a sample was
asked for, each worker reads its share of the sampled rows once and holds it, because reading single
rows all over a store takes longer than a round. A worker that is lost loses its share; another
reads it again.

**Guesses.** The word of the round before is where the search for the nearest word begins; it
changes the time alone. Each process keeps those of its own descriptors, up to ``GUESS_BYTES``.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.clustering import rounds
from bowsaw.clustering.rounds import Round, Sums, fold, parts_in_group, sum_part
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import ordered_map
from bowsaw.parallel.cluster import Cluster
from bowsaw.store.located import Located, rows_at

GUESS_BYTES = 256 * 2**20


class LocalRows:
    """Descriptors that this process reads.

    Parameters
    ----------
    bags : Bags
        The descriptors; may lie on disk.
    n_jobs : int or None
        Threads.
    chosen : ndarray of int64, optional
        The rows of a sample, rising; they are read into memory.
    """

    def __init__(
        self, bags: Bags, n_jobs: int | None, chosen: NDArray[np.int64] | None = None
    ) -> None:
        self._data = bags if chosen is None else Bags(rows_at(bags, chosen))
        self._n_jobs = n_jobs
        self.n_descriptors = self._data.n_descriptors
        keeps_guess = 4 * self.n_descriptors <= GUESS_BYTES
        self._guess = np.full(self.n_descriptors, -1, dtype=np.int32) if keeps_guess else None

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all descriptors in order, in stored units and dtype."""
        for start, stop in self._data.blocks(rounds.PART_ROWS):
            yield self._data.read(start, stop, dtype=self._data.dtype)

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw descriptors without replacement, in their order."""
        return rows_at(self._data, draw_numbers(self.n_descriptors, n_rows, rng))

    def assign(self, words: NDArray[np.float32]) -> Round:
        """Assign every descriptor to its nearest word and sum up."""
        one = partial(sum_part, self._data, search=WordSearch(words), guess=self._guess)
        parts = ordered_map(one, self._data.blocks(rounds.PART_ROWS), self._n_jobs)
        return Round.of(fold(parts, parts_in_group(self.n_descriptors)))

    def close(self) -> None:
        """Do nothing: what is in memory goes with this."""


class RemoteRows:
    """Descriptors that the workers of a cluster read.

    Parameters
    ----------
    bags : Bags
        The descriptors, in a store that workers see.
    cluster : Cluster
        Where the work is done.
    chosen : ndarray of int64, optional
        The rows of a sample, rising.
    """

    def __init__(
        self, bags: Bags, cluster: Cluster, chosen: NDArray[np.int64] | None = None
    ) -> None:
        self._bags = bags
        self._cluster = cluster
        self._chosen = chosen
        self._located = Located.of(bags)
        self._offsets = bags.offsets
        self.n_descriptors = bags.n_descriptors if chosen is None else len(chosen)
        self._group_rows = rounds.PART_ROWS * parts_in_group(self.n_descriptors)
        self._name = uuid.uuid4().hex
        cluster.check(self._located.landmarks())
        self._held = cluster.keep(read_share, () if chosen is None else self._shares(chosen))

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all descriptors in order, in stored units and dtype."""
        for start in range(0, self.n_descriptors, rounds.PART_ROWS):
            stop = min(start + rounds.PART_ROWS, self.n_descriptors)
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
            self._cluster.shared(WordSearch, words) as search,
            closing(
                self._cluster.ordered_map(sum_group, groups, search, self._name, homes=True)
            ) as sums,
        ):
            return Round.of(sums)

    def close(self) -> None:
        """Let workers forget the rows that they hold."""
        for future in self._held:
            future.release()

    def _groups(self) -> Iterator[tuple[int, Located]]:
        for number, start in enumerate(range(0, self.n_descriptors, self._group_rows)):
            stop = min(start + self._group_rows, self.n_descriptors)
            yield number, self._located.rows(start, stop, self._offsets)

    def _shares(self, chosen: NDArray[np.int64]) -> Iterator[tuple[int, Located, NDArray[Any]]]:
        for number, start in enumerate(range(0, len(chosen), self._group_rows)):
            rows = chosen[start : start + self._group_rows]
            yield number, *self._located.around(rows, self._offsets)


def draw_numbers(n: int, n_drawn: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw numbers below ``n`` without replacement, rising."""
    numbers: NDArray[np.int64] = rng.choice(n, n_drawn, replace=False, shuffle=False)
    return np.sort(numbers)


# -- what workers do -------------------------------------------------------------------------------


def read_share(share: tuple[int, Located, NDArray[np.int64]]) -> tuple[int, NDArray[Any]]:
    """Read the sampled rows of a group."""
    number, located, rows = share
    return number, rows_at(located.open(), rows)


def sum_group(group: tuple[int, Located | NDArray[Any]], search: WordSearch, name: str) -> Sums:
    """Assign a group of the descriptors and sum up."""
    number, where = group
    n_rows = int(where.counts.sum()) if isinstance(where, Located) else len(where)
    guess = _guesses.take((name, number), n_rows)
    limits = [(s, min(s + rounds.PART_ROWS, n_rows)) for s in range(0, n_rows, rounds.PART_ROWS)]
    parts = (
        sum_part(data, (0, stop - start), search, guess[start:stop])
        for (start, stop), data in zip(limits, _open_parts(where, limits), strict=True)
    )
    whole = next(fold(parts, len(limits)))
    _guesses.put((name, number), guess)
    return whole


def _open_parts(where: Located | NDArray[Any], limits: list[tuple[int, int]]) -> Iterator[Bags]:
    """Yield the parts of a group, one open at a time.

    Dask counts pages of mapped files as memory of the worker: a large group that stays open would
    have it paused, or killed.
    """
    if not isinstance(where, Located):
        yield from (Bags(where[start:stop]) for start, stop in limits)
        return
    offsets = np.concatenate(([0], np.cumsum(where.counts)))
    yield from (where.rows(start, stop, offsets).open() for start, stop in limits)


class _Guesses:
    """The words of the round before, of those groups that this process has summed last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], NDArray[np.int32]] = OrderedDict()

    def take(self, key: tuple[str, int], n_rows: int) -> NDArray[np.int32]:
        """Take out what is known of a group, or -1 for each row."""
        with self._lock:
            known = self._known.pop(key, None)
        return np.full(n_rows, -1, dtype=np.int32) if known is None else known

    def put(self, key: tuple[str, int], guess: NDArray[np.int32]) -> None:
        """Put in what is known of a group; what was put in longest ago makes room."""
        with self._lock:
            self._known[key] = guess
            while sum(known.nbytes for known in self._known.values()) > GUESS_BYTES:
                self._known.popitem(last=False)


_guesses = _Guesses()
