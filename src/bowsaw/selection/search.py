"""A walk over sets of words: a state, its score, and what was seen on the way.

A move swaps words of the state and tells the score what changed. If the move is not wanted, the
state undoes it and the score is a copy made before, so that every bit is as it was.

**Resuming.** A search that goes on from a record must give the bits of one that never stopped. Two
things remember more than words: scores, whose rounding depends on the columns that were redone, and
soft states, whose totals depend on the moves before. So the search forgets both every ``RENEWAL``
steps, interrupted or not: the score begins anew and such a state is reset. A record is made then,
and holds the words by column, the random streams, the best and the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.inference.state import HistogramState
from bowsaw.random_streams import stream
from bowsaw.scores.base import Score
from bowsaw.selection.proposals import Proposals

RENEWAL = 25


class Search:
    """A state, its score, and the best seen so far.

    Parameters
    ----------
    state : HistogramState
        At the start; it is moved.
    begin_score : callable
        Returns the score at the beginning of a run.
    proposals : Proposals
        Which moves are tried.
    seed : int
        Draws the moves and what is accepted.

    Attributes
    ----------
    value, best_value : float
        The score of the present words, and of the best.
    present, best : ndarray of int64, shape (n_kept,)
        Their positions, in the order of the columns.
    path : list of float
        The score at the start and after each step.
    accepted : list of bool
        Which steps moved.
    """

    def __init__(
        self,
        state: HistogramState,
        begin_score: Callable[[], Score],
        proposals: Proposals,
        seed: int,
    ) -> None:
        self._state = state
        self._begin_score = begin_score
        self._proposals = proposals
        self._moves = stream(seed, "annealing", "moves")
        self._chances = stream(seed, "annealing", "chances")
        self._probes = stream(seed, "annealing", "probes")
        self._is_kept = np.zeros(state.codebook.n_words, dtype=bool)
        self.first = 1.0
        self._stand(state.codebook.positions(state.kept))
        self.best, self.best_value = self.present, self.value
        self.path = [self.value]
        self.accepted: list[bool] = []

    def _stand(self, words: NDArray[np.int64]) -> None:
        """Be at these words, in columns of this order, with nothing left of how they came."""
        self.present = words
        self._is_kept[:] = False
        self._is_kept[words] = True
        self._score = self._begin_score()
        self.value = self._score.update(self._state.histograms)

    @property
    def can_move(self) -> bool:
        """Whether there is a word to come in."""
        return not bool(self._is_kept.all())

    @property
    def n_steps(self) -> int:
        """How many steps were made."""
        return len(self.accepted)

    def usual_change(self, n: int) -> float:
        """Return the median size of a move's change of the score; the moves are taken back."""
        changes = []
        for _ in range(n):
            before = self.value
            _, undo = self._try(self._probes)
            changes.append(abs(self.value - before))
            undo()
        return float(np.median(changes))

    def step(self, temperature: float) -> None:
        """Try a move and keep it or take it back."""
        before = self.value
        (out, in_), undo = self._try(self._moves)
        gain = self.value - before
        if gain >= 0 or self._chances.random() <= math.exp(max(gain / temperature, -700.0)):
            self.present = self._state.codebook.positions(self._state.kept)
            self._is_kept[out], self._is_kept[in_] = False, True
            if self.value > self.best_value:
                self.best, self.best_value = self.present, self.value
            accepted = True
        else:
            undo()
            accepted = False
        self.path.append(self.value)
        self.accepted.append(accepted)

    def _try(self, rng: np.random.Generator) -> tuple[tuple[Any, Any], Callable[[], None]]:
        out, in_ = self._proposals.draw(np.sort(self.present), self._is_kept, rng)
        ids = self._state.codebook.ids
        score, value = self._score.copy(), self.value
        self._state.swap(remove=ids[out], add=ids[in_])
        self.value = self._score.update(self._state.histograms, self._state.changed)

        def undo() -> None:
            self._state.undo()
            self._score, self.value = score, value

        return (out, in_), undo

    # -- going on later --------------------------------------------------------------------------

    def renew(self) -> None:
        """Forget the way to the present words; the path keeps its values."""
        if self._state.history_dependent:
            self._state.reset(self._state.codebook.ids[self.present])
        self._stand(self.present)

    def record(self) -> dict[str, Any]:
        """Return what ``resume`` needs, as JSON holds it."""
        return {
            "present": self.present.tolist(),
            "best": self.best.tolist(),
            "best_value": self.best_value,
            "first": self.first,
            "path": list(self.path),
            "accepted": "".join("01"[moved] for moved in self.accepted),
            "moves": self._moves.bit_generator.state,
            "chances": self._chances.bit_generator.state,
        }

    def resume(self, record: dict[str, Any]) -> None:
        """Go on from a record that was made just after ``renew``."""
        words = np.array(record["present"], dtype=np.int64)
        self._state.reset(self._state.codebook.ids[words])
        self._stand(words)
        self.best = np.array(record["best"], dtype=np.int64)
        self.best_value = float(record["best_value"])
        self.first = float(record["first"])
        self.path = [float(value) for value in record["path"]]
        self.accepted = [letter == "1" for letter in record["accepted"]]
        self._moves.bit_generator.state = record["moves"]
        self._chances.bit_generator.state = record["chances"]
