"""Learning words by k-means: Lloyd's algorithm on every descriptor.

**The problem.** Choose n_words points that minimise the mean squared distance of the descriptors to
their nearest point. Lloyd's algorithm: assign each descriptor to its nearest word, move each word
to the mean of its descriptors, repeat.

**What is particular here.**

- Every descriptor is used unless the user asks for a ``sample``.
- The start is k-means++ on a sample of ``init_sample`` descriptors a word.
- The assignment is exact (``bowsaw.nearest``): the word of the round before is its first guess,
  which rules out most others.
- A word without descriptors moves to the descriptor that is farthest from its own word.
- It stops after ``max_iter`` rounds, when nothing changes, or when the objective falls by less than
  ``tol`` of itself.

**Cost** of a round: 2 · n_dims · n_words operations a descriptor at most. **Memory**: one part of
``PART_ROWS`` descriptors' sums a thread (8 · n_words · n_dims bytes), and 4 bytes a descriptor for
the word of the round before, left out when that is more than ``GUESS_BYTES``. The start holds two
float32 copies of its sample and 64 distances for each of its rows: about 200 MB for 5000 words of
128 dimensions. Descriptors are read a block at a time.

**The same on any number of threads.** Parts have fixed limits, sums are taken in float64 in the
order of the descriptors within a part, and parts are added in order.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.checks import check_whole
from bowsaw.clustering._lloyd_kernel import add_rows
from bowsaw.clustering.checkpoint import Checkpoint
from bowsaw.clustering.seeding import kmeans_plus_plus
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.progress import Progress
from bowsaw.seeds import seed_from, stream

PART_ROWS = 16384
GUESS_BYTES = 256 * 2**20
_FARTHEST = 32


class KMeansCodebook(TransformerMixin, BaseEstimator):
    """Learn a codebook by k-means.

    Parameters
    ----------
    n_words : int, default=1000
        How many words.
    max_iter : int, default=25
        Rounds at most.
    tol : float, default=1e-4
        Stop when the objective falls by less than this share of itself.
    sample : int or None, default=None
        Learn from this many descriptors, drawn at random; None uses every descriptor.
    init_sample : int, default=32
        The start is drawn from this many descriptors a word.
    random_state : int, RandomState or None, default=0
        The same seed gives the same words, on any number of threads.
    checkpoint : path-like or None, default=None
        A file to write the state to, every few seconds: a fit that was interrupted goes on from it
        and gives the same words; removed at the end.
    n_jobs : int or None, default=-1
        Threads.
    verbose : bool, default=False
        Show progress and the objective on a terminal.

    Attributes
    ----------
    codebook_ : Codebook
        The words, with their provenance.
    objective_ : float
        Mean squared distance of a descriptor to its nearest word, in unit-norm units, before the
        last move of the words.
    objectives_ : list of float
        The objective of each round.
    n_iter_ : int
        Rounds done.
    counts_ : ndarray of shape (n_words,), int64
        Descriptors of each word in the last round.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.0], [1.0]]), np.array([[8.0], [9.0]])]
    >>> book = bs.KMeansCodebook(n_words=2, random_state=0).fit(bags).codebook_
    >>> sorted(book.words[:, 0].tolist())
    [0.5, 8.5]
    """

    def __init__(
        self,
        n_words: int = 1000,
        *,
        max_iter: int = 25,
        tol: float = 1e-4,
        sample: int | None = None,
        init_sample: int = 32,
        random_state: Any = 0,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = -1,
        verbose: bool | int = False,
    ) -> None:
        self.n_words = n_words
        self.max_iter = max_iter
        self.tol = tol
        self.sample = sample
        self.init_sample = init_sample
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Bags | Iterable[ArrayLike], y: Any = None) -> Self:
        """Learn the words.

        Parameters
        ----------
        X : Bags or list of arrays
            Training bags; may lie on disk.
        y : ignored
        """
        self._validate()
        bags = as_bags(X)
        seed = seed_from(self.random_state)
        if self.sample is not None and self.sample < bags.n_descriptors:
            rows = _sample(bags, self.sample, stream(seed, "kmeans", "sample"))
            data = Bags(rows, scale=bags.scale, description=bags.description)
        else:
            data = bags
        n_distinct = _distinct_up_to(data, self.n_words)
        if n_distinct < self.n_words:
            raise DataError(
                f"n_words must be at most the number of distinct descriptors ({n_distinct}); got "
                f"{self.n_words}. Use more images or ask for fewer words."
            )
        saved = Checkpoint(self.checkpoint, self._fingerprint(data, seed))
        with (
            single_threaded_blas(),
            Progress("k-means", self.max_iter, show=bool(self.verbose)) as bar,
        ):
            words, objectives, counts = self._lloyd(data, seed, saved, bar)
        self.objectives_ = [value / bags.scale**2 for value in objectives]
        self.objective_ = self.objectives_[-1]
        self.n_iter_ = len(objectives)
        self.counts_ = counts
        self.codebook_ = Codebook(
            words,
            scale=bags.scale,
            description=bags.description,
            provenance=self._provenance(bags, data, seed),
            trained_on=bags.digests,
        )
        saved.remove()
        return self

    def transform(self, X: Bags | Iterable[ArrayLike]) -> Bags:
        """Return the bags unchanged, so that a pipeline may hold the training of its words."""
        return as_bags(X)

    def set_output(self, *, transform: Any = None) -> Self:
        """Do nothing: Bags are no table. Lets a pipeline ask for tables at its end."""
        return self

    def _lloyd(
        self, data: Bags, seed: int, saved: Checkpoint, bar: Progress
    ) -> tuple[NDArray[np.float32], list[float], NDArray[np.int64]]:
        words, objectives = saved.load(self.max_iter) or (self._start(data, seed), [])
        bar.step(len(objectives))
        keeps_guess = 4 * data.n_descriptors <= GUESS_BYTES
        guess = np.full(data.n_descriptors if keeps_guess else 0, -1, dtype=np.int32)
        written = time.monotonic()
        while True:
            round_ = assign(data, words, guess if keeps_guess else None, self.n_jobs)
            previous = objectives[-1] if objectives else np.inf
            objectives.append(round_.objective)
            bar.step(note=f"objective {round_.objective / data.scale**2:.5f}")
            moved = round_.words(words)
            settled = round_.objective >= previous * (1 - self.tol) and round_.counts.all()
            still = np.array_equal(moved, words)
            words = moved
            if settled or still or len(objectives) >= self.max_iter:
                return words, objectives, round_.counts
            if time.monotonic() - written > saved.seconds:
                saved.save(words, objectives)
                written = time.monotonic()

    def _start(self, data: Bags, seed: int) -> NDArray[np.float32]:
        rng = stream(seed, "kmeans", "start")
        n_rows = min(data.n_descriptors, self.init_sample * self.n_words)
        rows = _sample(data, n_rows, rng).astype(np.float32)
        drawn = rows[kmeans_plus_plus(rows, self.n_words, rng, self.n_jobs)]
        if len(drawn) < self.n_words:
            # The sample had too few distinct rows; the data have enough, so take them from there.
            drawn = _fill_up(data, drawn, self.n_words)
        return np.ascontiguousarray(drawn)

    def _validate(self) -> None:
        for name, least in (("n_words", 1), ("max_iter", 1), ("init_sample", 1)):
            check_whole(getattr(self, name), name, least)
        if self.sample is not None and not (_is_whole(self.sample) and self.sample >= self.n_words):
            raise ParameterError(
                f"sample must be a whole number from n_words = {self.n_words} up, or None for "
                f"every descriptor; got {self.sample!r}."
            )
        if not isinstance(self.tol, numbers.Real) or not 0 <= float(self.tol) < np.inf:
            raise ParameterError(f"tol must be a finite number from 0 up; got {self.tol!r}.")

    def _fingerprint(self, data: Bags, seed: int) -> dict[str, Any]:
        return {
            "n_words": int(self.n_words),
            "tol": float(self.tol),
            "init_sample": int(self.init_sample),
            "sample": None if self.sample is None else int(self.sample),
            "seed": seed,
            "n_descriptors": data.n_descriptors,
            "content": data.content_digest() if self.checkpoint is not None else None,
            "description": data.description,
            "version": __version__,
        }

    def _provenance(self, bags: Bags, data: Bags, seed: int) -> dict[str, Any]:
        return {
            "method": "k-means",
            "n_words": int(self.n_words),
            "max_iter": int(self.max_iter),
            "tol": float(self.tol),
            "sample": None if self.sample is None else int(self.sample),
            "init_sample": int(self.init_sample),
            "seed": seed,
            "n_iter": self.n_iter_,
            "objective": self.objective_,
            "n_images": len(bags),
            "n_descriptors": data.n_descriptors,
            "version": __version__,
        }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "codebook_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags


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

    def words(self, old: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the means; a word without descriptors moves to a far descriptor instead."""
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        words = np.where(self.counts[:, None] > 0, means, old).astype(np.float32)
        empty = np.flatnonzero(self.counts == 0)[: len(self.farthest)]
        words[empty] = self.farthest[: len(empty)]
        return np.ascontiguousarray(words)


def assign(
    data: Bags,
    words: NDArray[np.float32],
    guess: NDArray[np.int32] | None,
    n_jobs: int | None,
) -> Round:
    """Assign every descriptor to its nearest word and sum up; ``guess`` is read and renewed."""
    search = WordSearch(words)
    n_words, n_dims = words.shape

    def one(limits: tuple[int, int]) -> tuple[Any, ...]:
        sums = np.zeros((n_words, n_dims), dtype=np.float64)
        counts = np.zeros(n_words, dtype=np.int64)
        far_rows, far_distances, total = [], [], 0.0
        for start in range(*limits, search.block_rows):
            stop = min(start + search.block_rows, limits[1])
            rows = data.read(start, stop)
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
        return sums, counts, total, np.concatenate(far_rows), np.concatenate(far_distances)

    sums = np.zeros((n_words, n_dims), dtype=np.float64)
    counts = np.zeros(n_words, dtype=np.int64)
    total = 0.0
    rows, distances = np.empty((0, n_dims), np.float32), np.empty(0, np.float32)
    for part in ordered_map(one, data.blocks(PART_ROWS), n_jobs):
        sums += part[0]
        counts += part[1]
        total += part[2]
        rows, distances = np.concatenate([rows, part[3]]), np.concatenate([distances, part[4]])
        order = np.argsort(-distances, kind="stable")[:_FARTHEST]
        rows, distances = rows[order], distances[order]
    return Round(sums, counts, total / data.n_descriptors, _unlike(rows))


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _unlike(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Drop repeated rows and keep the order, so that two empty words do not move to one place."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


def _sample(bags: Bags, n_rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw descriptors without replacement, in their order, in stored units and dtype."""
    chosen = np.sort(rng.choice(bags.n_descriptors, n_rows, replace=False, shuffle=False))
    out = np.empty((n_rows, bags.n_dims), dtype=bags.dtype)
    place = 0
    for start, stop in bags.blocks(PART_ROWS):
        end = int(np.searchsorted(chosen, stop))
        if end > place:
            out[place:end] = bags.read(start, stop, dtype=bags.dtype)[chosen[place:end] - start]
        place = end
    return out


def _distinct_up_to(bags: Bags, limit: int) -> int:
    """Count distinct descriptors, no further than ``limit``."""
    seen: set[bytes] = set()
    for rows in _raw_blocks(bags):
        seen.update(row.tobytes() for row in np.unique(rows, axis=0))
        if len(seen) >= limit:
            return limit
    return len(seen)


def _fill_up(bags: Bags, drawn: NDArray[np.float32], n_words: int) -> NDArray[np.float32]:
    """Add distinct descriptors, in their order, until there are ``n_words``."""
    seen = {row.tobytes() for row in drawn}
    more: list[NDArray[np.float32]] = []
    for rows in _raw_blocks(bags):
        for row in rows.astype(np.float32):
            if len(drawn) + len(more) == n_words:
                break
            if row.tobytes() not in seen:
                seen.add(row.tobytes())
                more.append(row)
    return np.concatenate([drawn, np.array(more, dtype=np.float32).reshape(-1, bags.n_dims)])


def _raw_blocks(bags: Bags) -> Iterator[NDArray[Any]]:
    # Adding zero turns -0.0 into 0.0, which is the same descriptor under other bytes.
    for start, stop in bags.blocks(PART_ROWS):
        yield bags.read(start, stop, dtype=bags.dtype) + bags.dtype.type(0)
