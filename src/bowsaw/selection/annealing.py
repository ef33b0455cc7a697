"""Algorithm 1: choosing words by simulated annealing over what-if states.

**The search.** A state is a set of ``n_kept`` words. A move replaces some of them; the histograms
of the new words are inferred, not re-encoded, and scored. With Δ the change of the score (larger is
better), the move is accepted when a uniform number U is at most exp(Δ / temperature).

**As published** (``Annealing.paper``, as we read Algorithm 1): a random start; moves of 10 words,
each replaced by its nearest free word (neither kept nor already chosen in this move, or the number
of kept words would shrink); temperature 0.9^t at step t; 100 steps for hard coding with Eq. 6 as
transfer, 500 for soft coding; the Beta relevance of Eq. 9-10 as score; the last accepted state is
the result. On the paper's scale Δ is near 0.002, so the temperature stays above it until about step
58: for 100 steps this is mostly a random walk. It is here to be compared with.

**Calibrated**, the default: single swaps, exact inference, and a temperature that starts at
``start_temperature`` times the median |Δ| of some moves from the start, and falls geometrically to
a thousandth of that at the last step, so that the search ends as a climb. The best state seen is
the result.

**Cost.** A move of the state and an update of the score; a rejected one is undone, which costs a
tenth of a move where the state is exact. Memory: that of the state.

**Invariants.** The number of kept words is constant and none is twice; the best score never falls;
the same seed gives the same words on any number of threads.

**Resuming** gives the bits of a search that never stopped. Two things depend on earlier moves:
scores, whose rounding depends on the columns that were updated, and soft states, whose totals
depend on the moves before. So both are renewed every ``RENEWAL`` steps, interrupted or not, and
records are made then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.inference.state import HistogramState
from bowsaw.nearest.ranking import ranked_words
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import seed_from, stream
from bowsaw.scores.base import Score, make_score
from bowsaw.selection.base import (
    Coding,
    Selection,
    Selector,
    check_transfer_options,
    work_fingerprint,
)
from bowsaw.validation import check_choice, check_int, check_real

FINAL_SHARE = 1e-3
N_CALIBRATION = 20
N_NEIGHBOURS = 128
N_RECENT = 100
"""Moves that the progress bar counts acceptance over."""
RENEWAL = 25
USUAL_STEPS = 2000
_RECORDED = ("move_size", "proposals", "schedule", "cooling", "returns", "coding")

Words = NDArray[np.int64]
Draw = Callable[[Words, NDArray[np.bool_], np.random.Generator], tuple[Words, Words]]
"""Draws a move: from the kept words (positions) and a mask of them, words to remove and to add."""


class Annealing(Selector):
    """Keep the words that simulated annealing finds.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`.
    score : str or Score, default="leave-one-out"
        What is maximised.
    n_steps : int or None, default=None
        Moves that are tried. None is 2000; for the published schedule, 100 with hard and 500 with
        soft coding.
    move_size : int, default=1
        Words that a move replaces.
    proposals : {"random", "nearest"}, default="random"
        Incoming words: any, or each the nearest free word to the one that it replaces.
    schedule : {"calibrated", "published"}, default="calibrated"
        How the temperature falls.
    cooling : float, default=0.9
        For the published schedule: the temperature at step t is cooling^t.
    start_temperature : float, default=0.3
        For the calibrated schedule: the first temperature over the median |Δscore|; 0 only climbs.
    returns : {"best", "last"}, default="best"
        Which state is the result.
    transfer : str or None, default=None
        How histograms are inferred, as in :func:`bowsaw.whatif`. None is ``"exact"``; for the
        published schedule with hard coding, ``"uniform"``, Eq. 6.
    transfer_options : mapping or None, default=None
        Options of that transfer, as in :func:`bowsaw.whatif`: ``{"policy": "chain"}``.
    random_state : int, RandomState or None, default=None
        Draws the start, the moves and what is accepted.
    checkpoint : path-like or None, default=None
        A file to keep the search in every few seconds. The same call continues from it, to the same
        result. Needs an integer as ``random_state``. Remove it by
        ``bowsaw.checkpoint.remove_checkpoint`` when the result is saved.
    verbose : bool, default=False
        Show progress on a terminal: the score, the share of recent moves that were accepted, and
        the remaining time.

    Attributes
    ----------
    selection_ : Selection
        The kept words, the score after every step, the seed, the certificate.
    codebook_ : Codebook
        The kept words; the large codebook can be deleted.
    n_steps_ : int
        Moves that were planned.
    accepted_ : ndarray of bool, shape (n_done,)
        Which moves were accepted.
    temperatures_ : ndarray of float64, shape (n_done,)
        The temperature that each move was judged at, in units of the score.
    best_, last_ : ndarray of int64, shape (n_kept,)
        Ids of the best and of the last words, ascending by position.
    score_ : float
        The score of the result.
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the search early.

    Notes
    -----
    Ctrl-C, or a callback of scikit-learn that asks to stop, ends the search and keeps the best so
    far; ``accepted_`` shows how far it came. With a checkpoint, the same call continues from there.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(12) % 2
    >>> bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(30, 2)) for label in y]
    >>> book = bs.KMeansCodebook(8, random_state=0).fit(bags).codebook_
    >>> search = bs.Annealing(book, n_kept=3, n_steps=30, random_state=0).fit(bags, y)
    >>> search.codebook_.n_words, search.transform(bags).shape
    (3, (12, 3))
    """

    name = "annealing"
    _n_parts = 1

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        score: str | Score = "leave-one-out",
        n_steps: int | None = None,
        move_size: int = 1,
        proposals: Literal["random", "nearest"] = "random",
        schedule: Literal["calibrated", "published"] = "calibrated",
        cooling: float = 0.9,
        start_temperature: float = 0.3,
        returns: Literal["best", "last"] = "best",
        coding: Coding = "hard",
        transfer: str | None = None,
        transfer_options: Mapping[str, Any] | None = None,
        sharpness: float = 40.0,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.score = score
        self.n_steps = n_steps
        self.move_size = move_size
        self.proposals = proposals
        self.schedule = schedule
        self.cooling = cooling
        self.start_temperature = start_temperature
        self.returns = returns
        self.transfer = transfer
        self.transfer_options = transfer_options
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.verbose = verbose

    @classmethod
    def paper(cls, codebook: Any = None, n_kept: int = 50, **parameters: Any) -> Self:
        """Return Algorithm 1 as published, with any other parameters; the paper has no sharpness.

        Examples
        --------
        >>> import bowsaw as bs
        >>> bs.Annealing.paper(n_kept=20, coding="soft").schedule
        'published'
        """
        published: dict[str, Any] = {
            "score": "relevance",
            "move_size": 10,
            "proposals": "nearest",
            "schedule": "published",
            "returns": "last",
        }
        return cls(codebook, n_kept, **{**published, **parameters})

    def _validate(self) -> None:
        super()._validate()
        if self.n_steps is not None:
            check_int(self.n_steps, "n_steps", 0)
        check_int(self.move_size, "move_size", 1)
        check_choice(self.proposals, "proposals", ("random", "nearest"))
        check_choice(self.schedule, "schedule", ("calibrated", "published"))
        check_choice(self.returns, "returns", ("best", "last"))
        check_real(self.cooling, "cooling", 0, 1, open_low=True)
        check_real(self.start_temperature, "start_temperature", 0)
        check_transfer_options(self.coding, self._transfer(), self.transfer_options)

    def _transfer(self) -> str:
        published = self.schedule == "published" and self.coding == "hard"
        return self.transfer or ("uniform" if published else "exact")

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, codebook: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        score, n_classes = make_score(self.score), int(labels.max()) + 1
        self.n_steps_ = USUAL_STEPS if self.n_steps is None else int(self.n_steps)
        if self.n_steps is None and self.schedule == "published":
            self.n_steps_ = 100 if self.coding == "hard" else 500
        seed = seed_from(self.random_state)
        saved = Checkpoint(self.checkpoint, work_fingerprint(self, codebook, bags, labels, seed))
        record = saved.load()
        start = stream(seed, "annealing", "start").choice(codebook.n_words, n_kept, replace=False)
        state = self._shared.state(
            self.coding,
            self._transfer(),
            self.sharpness,
            self.n_jobs,
            self._shows(),
            self.transfer_options,
        ).reset(codebook.ids[start])
        search = Search(
            state,
            lambda: score.copy().begin(labels, n_classes, bags.counts),
            nearest_swaps(codebook.words, self.move_size, self.n_jobs)
            if self.proposals == "nearest"
            else random_swaps(self.move_size),
            seed,
        )
        if record is not None:
            search.resume(record[0])
        elif self.schedule == "calibrated" and self.n_steps_ and search.can_move:
            usual = search.usual_change(N_CALIBRATION)
            search.first = max(self.start_temperature * usual, 1e-300)
        with self._task.part("annealing", self.n_steps_) as task:
            self.interrupted_ = not self._run(search, saved, codebook, task)
        self.best_, self.last_ = (
            codebook.ids[np.sort(found)] for found in (search.best, search.present)
        )
        kept = self.best_ if self.returns == "best" else self.last_
        self.score_ = search.best_value if self.returns == "best" else search.path[-1]
        self.accepted_ = np.array(search.accepted, dtype=bool)
        state.reset(kept)
        return Selection(
            method=self.name,
            codes_with="pruned",
            codebook=codebook.only(kept),
            kept=kept,
            scores=tuple(search.path),
            score=self.score_,
            seed=seed,
            certificate=state.fidelity().record(),
            parameters={
                **{name: getattr(self, name) for name in _RECORDED},
                "score": score.name,
                "n_steps": search.n_steps,
                "start_temperature": self.start_temperature,
                "transfer": self._transfer(),
                "transfer_options": dict(self.transfer_options or {}),
            },
        )

    def _run(self, search: Search, saved: Checkpoint, codebook: Codebook, task: Task) -> bool:
        """Try the moves; return whether all of them were tried."""
        record = search.record()
        # Not in the record: the temperatures follow from the first one.
        temperatures = [self._temperature(t, search.first) for t in range(search.n_steps)]
        complete = True
        with Progress("annealing", self.n_steps_, show=self._shows()) as bar:
            bar.step(search.n_steps)
            try:
                for step in range(search.n_steps, self.n_steps_ if search.can_move else 0):
                    if step % RENEWAL == 0 and step > 0:
                        search.renew()
                        record = search.record()
                        if saved.due:
                            saved.save(record)
                    temperatures.append(self._temperature(step, search.first))
                    with task.part("step", fitted=lambda: self._so_far(search, codebook)):
                        search.step(temperatures[-1])
                    bar.step(note=_note(search))
                    if task.stopped and search.n_steps < self.n_steps_:
                        complete = False
                        break
            except KeyboardInterrupt:
                # The last step may be half done, in the state and in the score; the best and the
                # record are complete.
                saved.save(record)
                if not search.n_steps:
                    raise
                complete = False
            else:
                saved.save(search.record() if complete else record)
        # The move that was cut short has a temperature and no result.
        self.temperatures_ = np.array(temperatures[: search.n_steps], dtype=np.float64)
        return complete

    def _so_far(self, search: Search, codebook: Codebook) -> dict[str, Any]:
        """Return the fitted attributes of a fit that ended here."""
        found = search.best if self.returns == "best" else search.present
        kept = codebook.ids[np.sort(found)]
        words = codebook.only(kept)
        selection = Selection(method=self.name, codes_with="pruned", codebook=words, kept=kept)
        n_features = {"n_features_in_": codebook.n_dims, "n_features_out_": len(kept)}
        return {"selection_": selection, "codebook_": words, **n_features}

    def _temperature(self, step: int, first: float) -> float:
        if self.schedule == "published":
            return float(max(self.cooling**step, 1e-300))
        share = step / max(self.n_steps_ - 1, 1)
        return float(max(first * FINAL_SHARE**share, 1e-300))


def _note(search: Search) -> str:
    recent = search.accepted[-N_RECENT:]
    return f"score {search.best_value:.5g}, {sum(recent) / len(recent):.0%} accepted"


# -- the search ----------------------------------------------------------------------------------


class Search:
    """A state, its score, and the best seen so far.

    A rejected move is undone by the state, and the score is replaced by a copy made before, so
    every bit is as it was. ``present`` and ``best`` are positions in the order of the columns;
    ``path`` has the score at the start and after each step; ``first`` is the first temperature.
    """

    def __init__(
        self, state: HistogramState, begin_score: Callable[[], Score], draw: Draw, seed: int
    ) -> None:
        self._state = state
        self._begin_score = begin_score
        self._draw = draw
        self._moves = stream(seed, "annealing", "moves")
        self._chances = stream(seed, "annealing", "chances")
        self._probes = stream(seed, "annealing", "probes")
        self._is_kept = np.zeros(state.codebook.n_words, dtype=bool)
        self.first = 1.0
        self._begin_at(state.codebook.positions(state.kept))
        self.best, self.best_value = self.present, self.value
        self.path = [self.value]
        self.accepted: list[bool] = []

    def _begin_at(self, words: Words) -> None:
        """Be at these words, in columns of this order, with a new score."""
        self.present = words
        self._is_kept[:] = False
        self._is_kept[words] = True
        self._score = self._begin_score()
        self.value = self._score.update(self._state.histograms)

    @property
    def can_move(self) -> bool:
        """Whether there is a word to add."""
        return not bool(self._is_kept.all())

    @property
    def n_steps(self) -> int:
        """Steps made."""
        return len(self.accepted)

    def usual_change(self, n: int) -> float:
        """Return the median size of a move's change of the score; the moves are undone."""
        changes = []
        for _ in range(n):
            before = self.value
            _, undo = self._try(self._probes)
            changes.append(abs(self.value - before))
            undo()
        return float(np.median(changes))

    def step(self, temperature: float) -> None:
        """Try a move and accept it or undo it."""
        before = self.value
        (removed, added), undo = self._try(self._moves)
        gain = self.value - before
        accepted = gain >= 0 or (
            self._chances.random() <= math.exp(max(gain / temperature, -700.0))
        )
        if accepted:
            self.present = self._state.codebook.positions(self._state.kept)
            self._is_kept[removed], self._is_kept[added] = False, True
            if self.value > self.best_value:
                self.best, self.best_value = self.present, self.value
        else:
            undo()
        self.path.append(self.value)
        self.accepted.append(accepted)

    def _try(self, rng: np.random.Generator) -> tuple[tuple[Words, Words], Callable[[], None]]:
        removed, added = self._draw(np.sort(self.present), self._is_kept, rng)
        ids = self._state.codebook.ids
        score, value = self._score.copy(), self.value
        self._state.swap(remove=ids[removed], add=ids[added])
        self.value = self._score.update(self._state.histograms, self._state.changed)

        def undo() -> None:
            self._state.undo()
            self._score, self.value = score, value

        return (removed, added), undo

    def renew(self) -> None:
        """Make score and state depend on the present words alone; the path keeps its values."""
        if self._state.history_dependent:
            self._state.reset(self._state.codebook.ids[self.present])
        self._begin_at(self.present)

    def record(self) -> dict[str, Any]:
        """Return what ``resume`` needs, JSON-able."""
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

    def resume(self, record: Mapping[str, Any]) -> None:
        """Continue from a record that was made just after ``renew``, or at the end."""
        words = np.array(record["present"], dtype=np.int64)
        self._state.reset(self._state.codebook.ids[words])
        self._begin_at(words)
        self.best = np.array(record["best"], dtype=np.int64)
        self.best_value = float(record["best_value"])
        self.first = float(record["first"])
        self.path = [float(value) for value in record["path"]]
        self.accepted = [letter == "1" for letter in record["accepted"]]
        self._moves.bit_generator.state = record["moves"]
        self._chances.bit_generator.state = record["chances"]


# -- proposals -----------------------------------------------------------------------------------


def random_swaps(n_moved: int) -> Draw:
    """Propose any kept words for any pruned ones."""

    def draw(
        kept: Words, is_kept: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[Words, Words]:
        pruned = np.flatnonzero(~is_kept)
        n = min(n_moved, len(kept), len(pruned))
        return rng.choice(kept, n, replace=False), rng.choice(pruned, n, replace=False)

    return draw


def nearest_swaps(words: NDArray[np.float32], n_moved: int, n_jobs: int | None = -1) -> Draw:
    """Propose kept words, each for its nearest free word; the lower position on a tie."""
    exact = words.astype(np.float64)
    lists = ranked_words(Bags(words), words, min(len(words), N_NEIGHBOURS), n_jobs=n_jobs)

    def draw(
        kept: Words, is_kept: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[Words, Words]:
        n = min(n_moved, len(kept), int((~is_kept).sum()))
        removed = rng.choice(kept, n, replace=False)
        taken = np.append(is_kept, True)
        added = np.empty(n, dtype=np.int64)
        for j, word in enumerate(removed):
            listed = lists[word].astype(np.int64)
            free = listed[~taken[listed]]
            if not len(free):
                free = np.flatnonzero(~taken[:-1])
                gaps = exact[free] - exact[word]
                free = free[[np.argmin((gaps**2).sum(axis=1))]]
            added[j] = free[0]
            taken[added[j]] = True
        return removed, added

    return draw
