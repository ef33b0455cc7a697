r"""Elimination: from all words down to a few, with stops on the way and swaps that repair.

**The problem.** A search for one size says nothing about the next. Elimination visits every size:
it lets words go so that the score falls as little as possible, and remembers what it had where.

**Which words go.** For the ``leave-one-out`` score one ridge regression tells for all p words at
once what the error would be without each (:mod:`bowsaw.scores.leave_one_out`), also where words are
more than bags. That is exact for dropping a column; pruning a word also gives its descriptors to
other words. So only some words go by one regression, each time the one that is missed least; then
the state moves and everything is computed anew. They are p² / ``PACE``, at most a tenth: many where
a regression is dear and a single word matters little. From ``EXACT_BELOW`` words down they go one
at a time: the ``N_TRIED`` that promise most are taken out in fact, and the best of them goes.

Other scores have no such formula. There a random sample of the words (twice as many as go, at
least ``N_SAMPLED``) is tried in fact, one at a time, and the best go: some 2 to 16 tries for each
word that goes, each with two moves of the state and a full update of the score.

**Swaps.** What went early may be missed later. At each stop some pruned words, drawn at random,
come back one at a time. The regression with p + 1 words ranks the others by how much each is
missed; where it promises a gain, the first ``N_SWAPPED`` go in fact, one at a time, until the score
rises. So an incoming word is weighed against all p at the price of a few. With other scores both
words of a swap are random. Sets at different stops need not be nested therefore.

**Cost.** Some 80 regressions from 1000 words to 100, each n p min(n, p) for n bags; below, some 20
moves of the state for each word. A stop of p > ``FULL_REPAIR`` words tries fewer swaps, in
proportion to 1/p, since each costs more and a choice among so many words matters less.

**Invariants.** Sizes are those asked for; no word is twice in a set; swaps do not lower the score.
State and score are made anew at every stop, so the rest depends on the stop alone: interrupted or
not, on any number of threads, the words are the same.

This is not in the paper, whose search knows one size.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.errors import ParameterError
from bowsaw.inference.state import HistogramState
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import stream
from bowsaw.scores.base import Score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.trail import Stop, Trail, TrailFile

N_STOPS, SMALLEST = 24, 10
"""The default sizes: this many, down to this size."""
PACE, MOST = 8000, 0.1
"""Of p words p² / PACE go by one regression, and no larger a share than MOST."""
SAME_RANKING = 128
"""One word in so many goes by the same ranking: below twice this size, every word by its own."""
EXACT_BELOW, N_TRIED, N_SAMPLED, N_SWAPPED = 100, 8, 16, 4
FULL_REPAIR = 100
"""Up to this size a stop tries all the swaps it is asked for."""


def default_sizes(n_words: int) -> list[int]:
    """Return about 24 sizes in equal ratios from ``n_words`` to 10; from few words, all down to 1.

    Examples
    --------
    >>> default_sizes(1000)[:4], default_sizes(1000)[-3:], len(default_sizes(1000))
    ([1000, 819, 670, 548], [15, 12, 10], 24)
    >>> default_sizes(4)
    [4, 3, 2, 1]
    """
    last = SMALLEST if n_words > SMALLEST else 1
    sizes = np.unique(np.rint(np.geomspace(n_words, last, N_STOPS)).astype(int))
    return [int(size) for size in sizes[::-1]]


def check_sizes(sizes: Any, n_words: int) -> list[int]:
    """Return the sizes of all stops, falling, the full one first; None for the default ones."""
    if sizes is None:
        return default_sizes(n_words)
    found = list(sizes) if hasattr(sizes, "__iter__") and not isinstance(sizes, str) else []
    whole = all(isinstance(s, numbers.Integral) and not isinstance(s, bool) for s in found)
    if not found or not whole or not 1 <= min(found) <= max(found) <= n_words:
        raise ParameterError(
            f"sizes must be whole numbers from 1 to {n_words} (the codebook has {n_words} words); "
            f"got {sizes!r}. Name the sizes to stop at, or None for about {N_STOPS} of them."
        )
    return sorted({n_words, *(int(size) for size in found)}, reverse=True)


def eliminate(
    state: HistogramState,
    score: Score,
    sizes: Sequence[int],
    *,
    repair: int = 40,
    seed: int = 0,
    file: TrailFile | None = None,
    show: bool = False,
    task: Task | None = None,
) -> Trail:
    """Let words go, one stop after the other.

    Parameters
    ----------
    state : HistogramState
        Of all words; it is moved, and left at the last stop.
    score : Score
        What to maximise; ``begin`` was called. Not changed.
    sizes : sequence of int
        The stops, falling, the first is all words.
    repair : int, default=40
        Words that each stop tries to bring back; fewer above ``FULL_REPAIR`` words.
    seed : int, default=0
        Draws them.
    file : TrailFile, optional
        Written after every stop; stops that it holds already are not done again.
    show : bool, default=False
        Show progress on a terminal.
    task : Task, optional
        The fit that this is a part of, for callbacks, which are told of the stops. They cannot end
        it before its last: a path has all its sizes.

    Returns
    -------
    Trail

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> from bowsaw.scores.base import make_score
    >>> words = np.arange(6.0)[:, None]
    >>> bags = [words[[0, 1, 2, 3]], words[[0, 1, 2, 4]], words[[0, 1, 5, 3]], words[[0, 1, 5, 4]]]
    >>> score = make_score("leave-one-out").begin([0, 0, 1, 1], 2)
    >>> trail = eliminate(bs.whatif(words, bags), score, [6, 4, 2])
    >>> trail.sizes, len(trail.at(3))
    ([6, 4, 2], 3)
    """
    file = TrailFile(None) if file is None else file
    stops = file.load()[: len(sizes)]
    walk = _Walk(state, score)
    with (
        (task or Task()).part("elimination", len(sizes)) as told,
        Progress("elimination", sizes[0] - sizes[-1], show=show) as bar,
    ):
        if not stops:
            stops.append(walk.stop(np.arange(sizes[0]), np.empty(0, dtype=np.int64), 0, None))
            file.save(stops)
        bar.step(sizes[0] - stops[-1].n_kept)
        for size in sizes[len(stops) :]:
            rng = stream(seed, "elimination", size)
            with told.part(f"{size} words"):
                walk.begin(stops[-1].kept)
                fell = walk.drop_to(size, rng, bar)
                n_tries = math.ceil(repair * min(1, FULL_REPAIR / size))
                stops.append(walk.stop(walk.positions(), fell, n_tries, rng))
            file.save(stops)
    return Trail(stops)


class _Walk:
    """A state and its score on the way down."""

    def __init__(self, state: HistogramState, score: Score) -> None:
        self._state = state
        self._fresh = score.copy()
        self._ids = state.codebook.ids
        self._value = float("nan")

    def positions(self) -> NDArray[np.int64]:
        return np.sort(self._state.codebook.positions(self._state.kept))

    def begin(self, kept: NDArray[np.int64]) -> None:
        """Start anew from these words, so that nothing of the way here is left in any bit."""
        self._state.reset(self._ids[kept])
        self._score = self._fresh.copy()
        self._value = self._score.update(self._state.histograms)

    def stop(
        self,
        kept: NDArray[np.int64],
        fell: NDArray[np.int64],
        n_tries: int,
        rng: np.random.Generator | None,
    ) -> Stop:
        """Begin anew, try swaps, and return what there is then."""
        self.begin(kept)
        n_tried, n_swapped = (0, 0) if rng is None else self._repair(n_tries, rng)
        certificate = self._state.fidelity().record()
        return Stop(self.positions(), fell, self._value, n_tried, n_swapped, certificate)

    # -- down ------------------------------------------------------------------------------------

    def drop_to(self, size: int, rng: np.random.Generator, bar: Progress) -> NDArray[np.int64]:
        """Let words go until ``size`` are left; return their positions, first gone first."""
        fell: list[int] = []
        while self._state.n_kept > size:
            n_kept = self._state.n_kept
            share = min(n_kept / PACE, MOST)
            n_gone = max(1, int(share * n_kept)) if n_kept > EXACT_BELOW else 1
            n_gone = min(n_kept - size, n_gone)
            words = self._least_missed(n_gone, rng)
            self._state.swap(remove=words)
            self._value = self._score.update(self._state.histograms)
            fell.extend(self._state.codebook.positions(words).tolist())
            bar.step(len(words), note=f"{self._state.n_kept} words, score {self._value:.4f}")
        return np.array(fell, dtype=np.int64)

    def _least_missed(self, n_gone: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the ids of the words to let go."""
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

    def _tried(self, words: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the score without each of these words alone; the state is as before then."""
        values = np.empty(len(words))
        trial = self._score.copy()
        for number, word in enumerate(words):
            self._state.swap(remove=[word])
            values[number] = trial.update(self._state.histograms)
            self._state.swap(add=[word])
        return values

    # -- swaps -----------------------------------------------------------------------------------

    def _repair(self, n_tries: int, rng: np.random.Generator) -> tuple[int, int]:
        """Try to bring words back; return how many were tried, and how many stay."""
        pruned = np.ones(len(self._ids), dtype=bool)
        pruned[self.positions()] = False
        coming = self._ids[rng.permutation(np.flatnonzero(pruned))[:n_tries]]
        swap = self._guided if isinstance(self._score, LeaveOneOut) else self._blind
        return len(coming), sum(swap(word, rng) for word in coming)

    def _guided(self, word: int, rng: np.random.Generator) -> bool:
        """Bring a word in and let one go that is missed little, if the score rises."""
        assert isinstance(self._score, LeaveOneOut)
        self._state.swap(add=[word])
        kept = self._state.kept
        values = self._score.without_each(self._state.histograms)
        ranked = [j for j in np.argsort(-values, kind="stable").tolist() if kept[j] != word]
        for column in ranked[:N_SWAPPED]:
            if not values[column] > self._value:
                break
            self._state.swap(remove=[kept[column]])
            # Columns have moved since the score last looked: it looks at all of them.
            if self._judge(None):
                return True
            self._state.swap(add=[kept[column]])
        self._state.swap(remove=[word])
        return False

    def _blind(self, word: int, rng: np.random.Generator) -> bool:
        """Swap a word for a random kept one, if the score rises."""
        gone = self._state.kept[rng.integers(self._state.n_kept)]
        self._state.swap(remove=[gone], add=[word])
        if self._judge(self._state.changed):
            return True
        self._state.swap(remove=[word], add=[gone])
        return False

    def _judge(self, changed: NDArray[np.int64] | None) -> bool:
        """Return whether the score has risen, and keep it if so."""
        trial = self._score.copy()
        value = trial.update(self._state.histograms, changed)
        if not value > self._value:
            return False
        self._score, self._value = trial, value
        return True
