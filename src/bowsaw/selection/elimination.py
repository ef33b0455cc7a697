r"""Elimination: from all words down to a few, with stops on the way and swaps that repair.

**Which words go.** For the ``leave-one-out`` score one ridge regression gives for all p words at
once the error without each (:mod:`bowsaw.scores.leave_one_out`). That is exact for dropping a
column; pruning a word also gives its descriptors to other words. So only p² / ``PACE`` words, at
most a tenth, go by one regression; then the state moves and everything is computed again. From
``EXACT_BELOW`` words down they go one at a time: the ``N_TRIED`` that promise most are removed in
fact, and the best of them stays removed. Other scores have no such formula: there a random sample
of the words (twice as many as go, at least ``N_SAMPLED``) is tried in fact, and the best go.

**Swaps.** At each stop some random pruned words come back one at a time, so sets need not be
nested. The regression with p + 1 words ranks the others by how much each is missed; where it
promises a gain, the first ``N_SWAPPED`` go in fact, one at a time, until the score rises. With
other scores both words of a swap are random.

**Cost.** Some 80 regressions from 1000 words to 100, each n p min(n, p) for n bags; below, some 20
moves of the state for each word. A stop of p > ``FULL_REPAIR`` words tries fewer swaps, in
proportion to 1/p, since each costs more and matters less.

**Invariants.** Swaps do not lower the score; one that the state refuses is skipped. State and score
are renewed at every stop, so the rest depends on the stop alone: interrupted or not, on any number
of threads, the words are the same. This is not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bowsaw.checkpoint import Checkpoint
from bowsaw.errors import ParameterError
from bowsaw.inference.state import HistogramState
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import stream
from bowsaw.scores.base import Score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.base import try_swap
from bowsaw.validation import check_int, json_value

Words = NDArray[np.int64]
N_STOPS, SMALLEST = 24, 10
PACE, MOST = 8000, 0.1
SAME_RANKING = 128
"""One word in so many goes by the same ranking: below twice this size, every word by its own."""
EXACT_BELOW, N_TRIED, N_SAMPLED, N_SWAPPED, FULL_REPAIR = 100, 8, 16, 4, 100


def default_sizes(n_words: int) -> list[int]:
    """Return about 24 sizes in equal ratios from all words to 10; from few words, all to 1."""
    last = SMALLEST if n_words > SMALLEST else 1
    sizes = np.unique(np.rint(np.geomspace(n_words, last, N_STOPS)).astype(int))
    return [int(size) for size in sizes[::-1]]


def check_sizes(sizes: Any, n_words: int) -> list[int]:
    """Return the sizes of all stops, falling, the full one first; None for the default ones."""
    if sizes is None:
        return default_sizes(n_words)
    remedy = f"The codebook has {n_words} words; None is about {N_STOPS} sizes."
    if isinstance(sizes, str) or not np.iterable(sizes) or not len(list(sizes)):
        raise ParameterError(f"sizes must be a list of integers, or None; got {sizes!r}.")
    found = {check_int(size, "sizes", 1, n_words, remedy=remedy) for size in sizes}
    return sorted({n_words, *found}, reverse=True)


@dataclass(frozen=True)
class Stop:
    """A size at which an elimination stopped."""

    kept: Words
    removed: Words
    score: float
    n_tried: int
    n_swapped: int
    certificate: Mapping[str, Any]

    @property
    def n_kept(self) -> int:
        """Number of kept words."""
        return len(self.kept)

    def record(self) -> dict[str, Any]:
        """Return the stop as JSON."""
        return dict(json_value(asdict(self)))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Stop:
        """Return the stop of a record."""
        arrays = {name: np.array(record[name], dtype=np.int64) for name in ("kept", "removed")}
        return cls(**{**record, **arrays})


class EliminationPath:
    """The stops of an elimination, from all words down."""

    def __init__(self, stops: Sequence[Stop]) -> None:
        self.stops = tuple(stops)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the stops, falling."""
        return [stop.n_kept for stop in self.stops]

    def at(self, n_kept: int) -> Words:
        """Return the positions of ``n_kept`` words, ascending.

        Between two stops they are those of the larger one without the words that were removed first
        on the way to the smaller.
        """
        largest, smallest = self.stops[0].n_kept, self.stops[-1].n_kept
        remedy = "These are the sizes of this path; fit with smaller sizes for fewer words."
        n_kept = check_int(n_kept, "n_words", smallest, largest, remedy=remedy)
        below = next(number for number, stop in enumerate(self.stops) if stop.n_kept <= n_kept)
        if self.stops[below].n_kept == n_kept:
            return self.stops[below].kept
        above = self.stops[below - 1]
        return np.setdiff1d(above.kept, self.stops[below].removed[: above.n_kept - n_kept])


def eliminate(
    state: HistogramState,
    score: Score,
    sizes: Sequence[int],
    *,
    repair: int = 40,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
    show: bool = False,
    task: Task | None = None,
) -> EliminationPath:
    """Remove words, one stop after the other.

    ``state`` has all words and is left at the last stop; ``score`` has begun and is not changed.
    ``sizes`` fall from all words. Each stop tries to bring ``repair`` words back, drawn by
    ``seed``. ``checkpoint`` is written after every stop. Callbacks of ``task`` cannot end it early.
    """
    saved = checkpoint or Checkpoint(None, {})
    record = saved.load()
    stops = [] if record is None else [Stop.from_record(one) for one in record[0]["stops"]]
    run = _Elimination(state, score)
    with (
        (task or Task()).part("elimination", len(sizes)) as parts,
        Progress("elimination", sizes[0] - sizes[-1], show=show) as bar,
    ):
        if not stops:
            stops.append(run.stop(np.arange(sizes[0]), np.empty(0, dtype=np.int64), 0, None))
        bar.begin_at(sizes[0] - stops[-1].n_kept)
        for size in sizes[len(stops) :]:
            rng = stream(seed, "elimination", size)
            with parts.part(f"{size} words"):
                run.begin(stops[-1].kept)
                removed = run.drop_to(size, rng, bar)
                n_tries = math.ceil(repair * min(1, FULL_REPAIR / size))
                stops.append(run.stop(run.positions(), removed, n_tries, rng))
            saved.save({"stops": [stop.record() for stop in stops]})
    return EliminationPath(stops)


class _Elimination:
    """A state and its score between two stops."""

    def __init__(self, state: HistogramState, score: Score) -> None:
        self._state = state
        self._fresh = score.copy()
        self._ids = state.codebook.ids
        self._value = float("nan")

    def positions(self) -> Words:
        return np.sort(self._state.codebook.positions(self._state.kept))

    def begin(self, kept: Words) -> None:
        """Reset to these words, so that no bit depends on the moves before."""
        self._state.reset(self._ids[kept])
        self._score = self._fresh.copy()
        self._value = self._score.update(self._state.histograms)

    def stop(self, kept: Words, removed: Words, n_tries: int, rng: Generator | None) -> Stop:
        """Reset, try swaps, and return the result."""
        self.begin(kept)
        n_tried, n_swapped = (0, 0) if rng is None else self._repair(n_tries, rng)
        certificate = self._state.fidelity().record()
        return Stop(self.positions(), removed, self._value, n_tried, n_swapped, certificate)

    def drop_to(self, size: int, rng: Generator, bar: Progress) -> Words:
        """Remove words until ``size`` are left; return their positions, in order."""
        removed: list[int] = []
        while self._state.n_kept > size:
            n_kept = self._state.n_kept
            n_gone = max(1, int(min(n_kept / PACE, MOST) * n_kept)) if n_kept > EXACT_BELOW else 1
            words = self._least_missed(min(n_kept - size, n_gone), rng)
            self._state.swap(remove=words)
            self._value = self._score.update(self._state.histograms)
            removed.extend(self._state.codebook.positions(words).tolist())
            bar.step(len(words), note=f"{self._state.n_kept} words, score {self._value:.4f}")
        return np.array(removed, dtype=np.int64)

    def _least_missed(self, n_gone: int, rng: Generator) -> Words:
        """Return the ids of the words to remove."""
        kept, score = self._state.kept, self._score
        if not isinstance(score, LeaveOneOut):
            n_tried = min(len(kept), max(N_SAMPLED, 2 * n_gone))
            drawn = kept[np.sort(rng.choice(len(kept), n_tried, replace=False))]
            return drawn[np.argsort(-self._tried(drawn), kind="stable")[:n_gone]]
        histograms = self._state.histograms
        if len(kept) > EXACT_BELOW:
            at_once = max(1, len(kept) // SAME_RANKING)
            return kept[score.least_missed(histograms, n_gone, at_once)]
        promising = np.argsort(-score.without_each(histograms), kind="stable")[:N_TRIED]
        words = kept[promising]
        return words[[int(self._tried(words).argmax())]]

    def _tried(self, words: Words) -> NDArray[np.float64]:
        """Return the score without each of these words; -inf if the state refuses to lose it."""
        values = np.empty(len(words))
        trial = self._score.copy()
        for number, word in enumerate(words):
            if not try_swap(self._state, remove=[word]):
                values[number] = -np.inf
                continue
            values[number] = trial.update(self._state.histograms)
            self._state.swap(add=[word])
        return values

    def _repair(self, n_tries: int, rng: Generator) -> tuple[int, int]:
        """Try to bring words back; return how many were tried, and how many stay."""
        pruned = np.ones(len(self._ids), dtype=bool)
        pruned[self.positions()] = False
        coming = self._ids[rng.permutation(np.flatnonzero(pruned))[:n_tries]]
        swap = self._guided if isinstance(self._score, LeaveOneOut) else self._blind
        return len(coming), sum(swap(word, rng) for word in coming)

    def _guided(self, word: int, rng: Generator) -> bool:
        """Add a word and remove one that is missed little, if the score rises."""
        assert isinstance(self._score, LeaveOneOut)
        if not try_swap(self._state, add=[word]):
            return False
        kept = self._state.kept
        values = self._score.without_each(self._state.histograms)
        ranked = [j for j in np.argsort(-values, kind="stable").tolist() if kept[j] != word]
        for column in ranked[:N_SWAPPED]:
            if not values[column] > self._value:
                break
            if not try_swap(self._state, remove=[kept[column]]):
                continue
            # Columns have moved since the last update of the score: it updates all of them.
            if self._judge(None):
                return True
            self._state.swap(add=[kept[column]])
        self._state.swap(remove=[word])
        return False

    def _blind(self, word: int, rng: Generator) -> bool:
        """Swap a word for a random kept one, if the score rises."""
        gone = self._state.kept[rng.integers(self._state.n_kept)]
        if not try_swap(self._state, [gone], [word]):
            return False
        if self._judge(self._state.changed):
            return True
        self._state.swap(remove=[word], add=[gone])
        return False

    def _judge(self, changed: Words | None) -> bool:
        """Return whether the score has risen, and keep it if so."""
        trial = self._score.copy()
        value = trial.update(self._state.histograms, changed)
        if not value > self._value:
            return False
        self._score, self._value = trial, value
        return True
