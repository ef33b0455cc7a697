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

**Cost.** A move of the state and an update of the score; a rejected one is undone, which costs a
tenth of a move where the state is exact. Memory: that of the state.

**Invariants.** The number of kept words is constant and none is twice; the best score never falls;
the same seed gives the same words on any number of threads; a search that was killed and goes on
from its checkpoint gives what it would have given (``search``).
"""

from __future__ import annotations

import hashlib
import math
import numbers
import time
from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import seed_from, stream
from bowsaw.scores.base import Score, make_score
from bowsaw.selection.base import Selection, Selector
from bowsaw.selection.checkpoint import SearchCheckpoint
from bowsaw.selection.proposals import NearestSwaps, Proposals, RandomSwaps
from bowsaw.selection.search import RENEWAL, Search
from bowsaw.validation import check_int

FINAL_SHARE = 1e-3
N_CALIBRATION = 20
N_RECENT = 100
"""Moves that the progress bar counts acceptance over."""


class Annealing(Selector):
    """Keep the words that simulated annealing finds.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from, or what learns them first, such as ``KMeansCodebook``.
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
    checkpoint : path-like or None, default=None
        A file to keep the search in every few seconds. The same call goes on from it, to the same
        result; it is removed when the search is done. Needs a whole number as ``random_state``.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal: the score, how many of the last moves were accepted, and the
        time left.

    Attributes
    ----------
    selection_ : Selection
        The kept words, the score after every step, the seed, the certificate.
    codebook_ : Codebook
        The kept words; the large codebook can be deleted.
    accepted_ : ndarray of bool, shape (n_done,)
        Which moves were accepted.
    temperatures_ : ndarray of float64, shape (n_done,)
        The temperature that each move was judged at, in units of the score.
    best_, last_ : ndarray of int64, shape (n_kept,)
        Ids of the best and of the last words, ascending by position.
    score_ : float
        The score of the result.
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the search before its time.

    Notes
    -----
    Ctrl-C, or a callback of scikit-learn that asks to stop, ends the search and keeps the best so
    far; ``accepted_`` tells how far it came. With a checkpoint, the same call goes on from there.

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
        checkpoint: str | PathLike[str] | None = None,
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
        self.checkpoint = checkpoint
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
        checkpoint: str | PathLike[str] | None = None,
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
            checkpoint=checkpoint,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    name = "annealing"
    _n_parts = 1

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        seed = seed_from(self.random_state)
        start = stream(seed, "annealing", "start").choice(book.n_words, n_kept, replace=False)
        state = self._shared.state(
            self.coding, self.transfer, self.sharpness, self.n_jobs, self._shows()
        ).reset(book.ids[start])
        search = Search(state, self._begin(labels, bags), self._proposals(book), seed)
        saved = SearchCheckpoint(self.checkpoint, self._fingerprint(bags, labels, book, seed))
        with self._task.part("annealing", self.n_steps) as task:
            whole = self._run(search, saved, book, task)
        self.interrupted_ = not whole
        self.best_, self.last_ = (
            book.ids[np.sort(found)] for found in (search.best, search.present)
        )
        kept = self.best_ if self.returns == "best" else self.last_
        self.score_ = search.best_value if self.returns == "best" else search.path[-1]
        self.accepted_ = np.array(search.accepted, dtype=bool)
        state.reset(kept)
        selection = Selection(
            method="annealing",
            codes_with="pruned",
            codebook=book.only(kept),
            kept=kept,
            scores=tuple(search.path),
            score=self.score_,
            seed=seed,
            certificate=state.fidelity().record(),
            parameters={**self._settings(), "n_steps": search.n_steps},
        )
        if whole:
            saved.remove()
        return selection

    def _run(self, search: Search, saved: SearchCheckpoint, book: Codebook, task: Task) -> bool:
        """Try the moves; return whether all of them were, and nobody asked to stop."""
        record = saved.load()
        if record is not None:
            search.resume(record)
        elif self.schedule == "calibrated" and self.n_steps and search.can_move:
            search.first = max(self.warmth * search.usual_change(N_CALIBRATION), 1e-300)
        record, written = search.record(), time.monotonic()
        # Not kept in the record: the steps done before follow from the first temperature.
        temperatures = [self._temperature(t, search.first) for t in range(search.n_steps)]
        whole = True
        with Progress("annealing", self.n_steps, show=self._shows()) as bar:
            bar.step(search.n_steps)
            try:
                for step in range(search.n_steps, self.n_steps if search.can_move else 0):
                    if step % RENEWAL == 0 and step > 0:
                        search.renew()
                        record = search.record()
                        if time.monotonic() - written > saved.seconds:
                            saved.save(record)
                            written = time.monotonic()
                    temperatures.append(self._temperature(step, search.first))
                    with task.part("step", fitted=lambda: self._so_far(search, book)):
                        search.step(temperatures[-1])
                    bar.step(note=_note(search))
                    if task.stopped and search.n_steps < self.n_steps:
                        saved.save(record)
                        whole = False
                        break
            except KeyboardInterrupt:
                # The last step may be half done, in the state and in the score; the best and the
                # record are whole.
                saved.save(record)
                if not search.n_steps:
                    raise
                whole = False
        # The move that was cut short has a temperature and no result.
        self.temperatures_ = np.array(temperatures[: search.n_steps], dtype=np.float64)
        return whole

    def _so_far(self, search: Search, book: Codebook) -> dict[str, Any]:
        """Return what a fit that ended here would have learned."""
        found = search.best if self.returns == "best" else search.present
        kept = book.ids[np.sort(found)]
        words = book.only(kept)
        selection = Selection(method="annealing", codes_with="pruned", codebook=words, kept=kept)
        n_features = {"n_features_in_": book.n_dims, "n_features_out_": len(kept)}
        return {"selection_": selection, "codebook_": words, **n_features}

    def _temperature(self, step: int, first: float) -> float:
        if self.schedule == "published":
            return float(max(self.cooling**step, 1e-300))
        share = step / max(self.n_steps - 1, 1)
        return float(max(first * FINAL_SHARE**share, 1e-300))

    def _begin(self, labels: NDArray[np.int64], bags: Bags) -> Callable[[], Score]:
        """Return what begins the score of these bags."""
        score, n_classes = make_score(self.score), int(labels.max()) + 1
        return lambda: score.copy().begin(labels, n_classes, bags.counts)

    def _settings(self) -> dict[str, Any]:
        return {
            "score": self.score if isinstance(self.score, str) else self.score.name,
            "n_steps": self.n_steps,
            "move_size": self.move_size,
            "proposals": self.proposals,
            "schedule": self.schedule,
            "cooling": self.cooling,
            "warmth": self.warmth,
            "returns": self.returns,
            "coding": self.coding,
            "transfer": self.transfer,
        }

    def _fingerprint(
        self, bags: Bags, labels: NDArray[np.int64], book: Codebook, seed: int
    ) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        score = make_score(self.score)
        told = {k: repr(v) for k, v in vars(score).items() if not k.endswith("_") and k[0] != "_"}
        words = hashlib.sha256(np.ascontiguousarray(book.words).tobytes())
        words.update(book.ids.tobytes())
        # How the result is taken from the search is no part of it.
        parts = {k: repr(v) for k, v in self._settings().items() if k != "returns"}
        return {
            **parts,
            "score": [type(score).__name__, told],
            "sharpness": repr(self.sharpness),
            "n_kept": int(self.n_kept),
            "seed": seed,
            "words": [words.hexdigest(), repr(book.scale)],
            "bags": [bags.digest(), repr(bags.scale)],
            "labels": hashlib.sha256(labels.tobytes()).hexdigest(),
            "version": __version__,
        }

    def _proposals(self, book: Codebook) -> Proposals:
        if self.proposals == "nearest":
            return NearestSwaps(book.words, self.move_size, self.n_jobs)
        return RandomSwaps(self.move_size)

    def _validate(self) -> None:
        super()._validate()
        for name, least in (("n_steps", 0), ("move_size", 1)):
            check_int(getattr(self, name), name, least)
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


def _note(search: Search) -> str:
    """Return what a person wants to see beside the bar."""
    recent = search.accepted[-N_RECENT:]
    return f"score {search.best_value:.5g}, {sum(recent) / len(recent):.0%} accepted"
