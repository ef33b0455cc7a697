"""Algorithm 1: choosing words by simulated annealing over what-if states.

**The search.** A state is a set of ``n_kept`` words. A move replaces some of them; the histograms
that the new words give are inferred, not re-coded, and scored. With Δ the change of the score
(larger is better), the move is accepted when a uniform number U is at most exp(Δ / temperature).

**As published** (``Annealing.paper``, as we read Algorithm 1): a random start; moves of 10 words,
each replaced by its nearest free word; temperature .9^t at step t; 100 steps for hard coding with
Eq. 6 as transfer, 500 for soft coding; the Beta relevance of Eq. 9–10 as score; the last accepted
state is the result. On the paper's scale Δ is near .002, so the temperature stays above it until
about step 58: for 100 steps this is mostly a random walk. It is here to be compared with.

**Calibrated**, the default: single swaps, exact inference, and a temperature that starts at the
median |Δ| of some moves from the start times ``warmth``, and falls geometrically to a thousandth of
that at the last step, so that the search ends as a climb. The best state seen is the result;
``last_`` is the last.

**Cost.** A move of the state and an update of the score; a rejected one moves the state twice, and
the score is a copy made before. Memory: that of the state.

**Invariants.** The number of kept words is constant and none is twice; the best score never falls;
the same seed gives the same words on any number of threads.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.inference.state import HistogramState
from bowsaw.inference.whatif import whatif
from bowsaw.progress import Progress
from bowsaw.scores.base import Score
from bowsaw.scores.make import make_score
from bowsaw.seeds import seed_from, stream
from bowsaw.selection.base import Selector
from bowsaw.selection.proposals import NearestSwaps, Proposals, RandomSwaps
from bowsaw.selection.result import Selection

FINAL_SHARE = 1e-3
N_CALIBRATION = 20


class Annealing(Selector):
    """Keep the words that simulated annealing finds.

    Parameters
    ----------
    codebook : Codebook or array-like of shape (n_words, n_dims)
        The words to choose from.
    n_kept : int, default=50
        How many words to keep.
    score : str or Score, default="leave-one-out"
        What is maximised.
    n_steps : int, default=2000
        Moves that are tried.
    move_size : int, default=1
        Words that a move replaces.
    proposals : {"random", "nearest"}, default="random"
        Incoming words: any, or each the nearest free word to the one that it replaces.
    schedule : {"calibrated", "published"}, default="calibrated"
        How the temperature falls.
    cooling : float, default=0.9
        For the published schedule: the temperature at step t is cooling^t.
    warmth : float, default=0.3
        For the calibrated schedule: the first temperature over the median |Δscore|; 0 climbs.
    returns : {"best", "last"}, default="best"
        Which state is the result.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    transfer : str, default="exact"
        How histograms are inferred, as in :func:`bowsaw.whatif`.
    sharpness : float, default=40.0
        For soft coding.
    random_state : int, RandomState or None, default=0
        Draws the start, the moves and what is accepted.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    selection_ : Selection
        The kept words, the score after every step, the seed, the certificate.
    codebook_ : Codebook
        The kept words; the large codebook can be deleted.
    accepted_ : ndarray of bool, shape (n_done,)
        Which moves were accepted.
    best_, last_ : ndarray of int64, shape (n_kept,)
        Ids of the best and of the last words, ascending by position.
    score_ : float
        The score of the result.

    Notes
    -----
    Ctrl-C ends the search and keeps the best so far; ``accepted_`` tells how far it came.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> from bowsaw.selection.annealing import Annealing
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(12) % 2
    >>> bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(30, 2)) for label in y]
    >>> book = bs.KMeansCodebook(8, random_state=0).fit(bags).codebook_
    >>> saw = Annealing(codebook=book, n_kept=3, n_steps=30).fit(bags, y)
    >>> saw.codebook_.n_words, saw.transform(bags).shape
    (3, (12, 3))
    """

    def __init__(
        self,
        codebook: Any,
        n_kept: int = 50,
        *,
        score: str | Score = "leave-one-out",
        n_steps: int = 2000,
        move_size: int = 1,
        proposals: Literal["random", "nearest"] = "random",
        schedule: Literal["calibrated", "published"] = "calibrated",
        cooling: float = 0.9,
        warmth: float = 0.3,
        returns: Literal["best", "last"] = "best",
        coding: Literal["hard", "soft"] = "hard",
        transfer: str = "exact",
        sharpness: float = 40.0,
        random_state: Any = 0,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.score = score
        self.n_steps = n_steps
        self.move_size = move_size
        self.proposals = proposals
        self.schedule = schedule
        self.cooling = cooling
        self.warmth = warmth
        self.returns = returns
        self.coding = coding
        self.transfer = transfer
        self.sharpness = sharpness
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(
        cls,
        codebook: Any,
        n_kept: int = 50,
        *,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        random_state: Any = 0,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> Self:
        """Return Algorithm 1 as published; the paper gives no sharpness."""
        return cls(
            codebook,
            n_kept,
            score="relevance",
            n_steps=100 if coding == "hard" else 500,
            move_size=10,
            proposals="nearest",
            schedule="published",
            cooling=0.9,
            returns="last",
            coding=coding,
            transfer="uniform" if coding == "hard" else "exact",
            sharpness=sharpness,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        self._validate()
        seed = seed_from(self.random_state)
        start = stream(seed, "annealing", "start").choice(book.n_words, n_kept, replace=False)
        options = {"sharpness": self.sharpness} if self.coding == "soft" else {}
        state = whatif(
            book,
            bags,
            coding=self.coding,
            transfer=self.transfer,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            **options,
        ).reset(book.ids[start])
        score = make_score(self.score)
        score.begin(labels, int(labels.max()) + 1, bags.counts)
        search = _Search(state, score, self._proposals(book), seed)
        path = self._run(search)
        self.best_, self.last_ = (
            book.ids[np.sort(found)] for found in (search.best, search.state_positions())
        )
        kept = self.best_ if self.returns == "best" else self.last_
        self.score_ = search.best_value if self.returns == "best" else search.value
        self.accepted_ = np.array(search.accepted, dtype=bool)
        state.reset(kept)
        return Selection(
            method="annealing",
            codes_with="pruned",
            codebook=book.only(kept),
            kept=kept,
            scores=tuple(path),
            seed=seed,
            certificate=state.fidelity().record(),
            parameters={
                "score": self.score if isinstance(self.score, str) else self.score.name,
                "n_steps": len(path) - 1,
                "move_size": self.move_size,
                "proposals": self.proposals,
                "schedule": self.schedule,
                "cooling": self.cooling,
                "warmth": self.warmth,
                "returns": self.returns,
                "coding": self.coding,
                "transfer": self.transfer,
            },
        )

    def _run(self, search: _Search) -> list[float]:
        """Try the moves; return the score of the present state after each, the start first."""
        path = [search.value]
        first = 1.0
        if self.schedule == "calibrated" and self.n_steps and search.can_move:
            first = max(self.warmth * search.usual_change(N_CALIBRATION), 1e-300)
        with Progress("annealing", self.n_steps, show=self.verbose) as bar:
            try:
                for step in range(self.n_steps if search.can_move else 0):
                    search.step(self._temperature(step, first))
                    path.append(search.value)
                    bar.step()
            except KeyboardInterrupt:
                if len(path) == 1:
                    raise
                # The state has moved back or not; what counts is the best, which is whole.
        return path

    def _temperature(self, step: int, first: float) -> float:
        if self.schedule == "published":
            return float(max(self.cooling**step, 1e-300))
        share = step / max(self.n_steps - 1, 1)
        return float(max(first * FINAL_SHARE**share, 1e-300))

    def _proposals(self, book: Codebook) -> Proposals:
        if self.proposals == "nearest":
            return NearestSwaps(book.words, self.move_size, self.n_jobs)
        return RandomSwaps(self.move_size)

    def _validate(self) -> None:
        for name, least in (("n_steps", 0), ("move_size", 1)):
            value = getattr(self, name)
            whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not whole or value < least:
                raise ParameterError(
                    f"{name} must be a whole number from {least} up; got {value!r}."
                )
        choices = {
            "proposals": ("random", "nearest"),
            "schedule": ("calibrated", "published"),
            "returns": ("best", "last"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name} must be {' or '.join(map(repr, allowed))}; got "
                    f"{getattr(self, name)!r}."
                )
        if not isinstance(self.cooling, numbers.Real) or not 0 < float(self.cooling) <= 1:
            raise ParameterError(f"cooling must be above 0 and at most 1; got {self.cooling!r}.")
        if not isinstance(self.warmth, numbers.Real) or not 0 <= float(self.warmth) < math.inf:
            raise ParameterError(f"warmth must be a number from 0 up; got {self.warmth!r}.")


class _Search:
    """A state, its score, and the best seen so far."""

    def __init__(
        self, state: HistogramState, score: Score, proposals: Proposals, seed: int
    ) -> None:
        self._state = state
        self._score = score
        self._proposals = proposals
        self._moves = stream(seed, "annealing", "moves")
        self._chances = stream(seed, "annealing", "chances")
        self._probes = stream(seed, "annealing", "probes")
        self._is_kept = np.zeros(state.codebook.n_words, dtype=bool)
        self._is_kept[self.state_positions()] = True
        self.value = score.update(state.histograms)
        self.best, self.best_value = self.state_positions(), self.value
        self.accepted: list[bool] = []

    @property
    def can_move(self) -> bool:
        return not bool(self._is_kept.all())

    def state_positions(self) -> NDArray[np.int64]:
        return self._state.codebook.positions(self._state.kept)

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
            self._is_kept[out], self._is_kept[in_] = False, True
            self.accepted.append(True)
            if self.value > self.best_value:
                self.best, self.best_value = self.state_positions(), self.value
        else:
            undo()
            self.accepted.append(False)

    def _try(self, rng: np.random.Generator) -> tuple[tuple[Any, Any], Any]:
        kept = self.state_positions()
        out, in_ = self._proposals.draw(np.sort(kept), self._is_kept, rng)
        ids = self._state.codebook.ids
        score, value = self._score.copy(), self.value
        self._state.swap(out=ids[out], in_=ids[in_])
        self.value = self._score.update(self._state.histograms, self._state.changed)

        def undo() -> None:
            self._state.swap(out=ids[in_], in_=ids[out])
            self._score, self.value = score, value

        return (out, in_), undo
