"""Algorithm 1: choosing words by simulated annealing over what-if states.

**The search.** A state is a set of ``n_kept`` words. A move replaces some of them; the histograms
of the new words are inferred, not re-encoded, and scored. With Δ the change of the score (larger is
better), the move is accepted with probability exp(Δ / temperature), at most 1.

**As published** (``Annealing.paper``, as we read Algorithm 1): a random start, judged at t = 0 and
always accepted; moves at t = 1 to t_max − 1, of 10 words, each replaced by its nearest free word;
temperature 0.9^t; t_max 100 for hard coding with Eq. 6 as transfer, 500 for soft coding; the Beta
relevance of Eq. 9-10 as score; the last accepted state is the result. Δ is near 0.002 there, below
the temperature until about t = 58: this is mostly a random walk. ``docs/methods/paper.md`` lists
where it departs from the paper.

**Calibrated**, the default: single swaps, exact inference, and a temperature that starts at
``start_temperature`` times the median |Δ| of some moves from the start and falls geometrically to a
thousandth of that. The best state seen is the result.

**Cost.** A move of the state and an update of the score; undoing a rejected move costs a tenth of
that where the state is exact.

**Invariants.** The same seed gives the same words on any number of threads. Resuming gives the bits
of a search that never stopped: scores and soft states, whose rounding depends on earlier moves, are
renewed every ``RENEWAL`` steps, interrupted or not, and records are made then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.errors import Interrupted
from bowsaw.inference.state import HistogramState
from bowsaw.nearest.ranking import ranked_words
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import seed_from, stream
from bowsaw.scores.base import Score, make_score
from bowsaw.selection.base import (
    Coding,
    Labels,
    Selection,
    Selector,
    check_transfer_options,
    try_swap,
    work_checkpoint,
)
from bowsaw.validation import check_choice, check_int, check_real

FINAL_SHARE = 1e-3
N_CALIBRATION, N_NEIGHBOURS, N_RECENT = 20, 128, 100
RENEWAL, USUAL_STEPS = 25, 2000
_RECORDED = ("move_size", "proposals", "schedule", "cooling", "returns", "coding")

Words = NDArray[np.int64]
Mask = NDArray[np.bool_]
Draw = Callable[[Words, Mask, Generator], tuple[Words, Words]]
"""Draws a move: from the kept words (positions) and a mask of them, words to remove and to add."""


class Annealing(Selector):
    """Keep the words that simulated annealing finds.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, random_state, checkpoint, n_jobs, verbose
        As in :class:`~bowsaw.selection.base.Selector`.
    score : str or Score, default="leave-one-out"
        What is maximised.
    n_steps : int or None, default=None
        Moves to try; None is 2000. Published, it is t_max: one move fewer, since t = 0 judges the
        start; None is 100 with hard and 500 with soft coding.
    move_size : int, default=1
        Words that a move replaces.
    proposals : {"random", "nearest"}, default="random"
        Incoming words: any, or each the nearest free word to the one that it replaces.
    schedule : {"calibrated", "published"}, default="calibrated"
        How the temperature falls.
    cooling : float, default=0.9
        Published: the temperature at t is cooling^t; the first move has t = 1.
    start_temperature : float, default=0.3
        Calibrated: the first temperature over the median |Δscore|; 0 only climbs.
    returns : {"best", "last"}, default="best"
        Which state is the result.
    transfer : str or None, default=None
        As in :func:`bowsaw.whatif`. None is ``"exact"``; published with hard coding, ``"uniform"``.
    transfer_options : mapping or None, default=None
        Options of that transfer, as in :func:`bowsaw.whatif`: ``{"policy": "chain"}``.

    Attributes
    ----------
    n_steps_ : int
        Moves that were planned.
    accepted_, temperatures_ : ndarray of bool and of float64, shape (n_done,)
        Which moves were accepted, and the temperature that each was judged at.
    best_, last_ : ndarray of int64, shape (n_kept,)
        Ids of the best and of the last words, ascending by position.
    score_ : float
        The score of the result.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(12) % 2
    >>> bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(30, 2)) for label in y]
    >>> book = bs.KMeansCodebook(8, random_state=0).fit(bags).codebook_
    >>> search = bs.Annealing(book, n_kept=3, n_steps=30, random_state=0).fit(bags, y)
    >>> search.transform(bags).shape
    (12, 3)
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
        >>> Annealing.paper(n_kept=20, coding="soft").schedule
        'published'
        """
        published = {"score": "relevance", "proposals": "nearest", "schedule": "published"}
        more = {"move_size": 10, "returns": "last", **parameters}
        return cls(codebook, n_kept, **{**published, **more})

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

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        assert labels is not None
        how_scored = (labels, int(labels.max()) + 1, bags.counts, self.coding)
        score = make_score(self.score).begin(*how_scored)
        self.n_steps_ = USUAL_STEPS if self.n_steps is None else int(self.n_steps)
        if self.schedule == "published":
            t_max = 100 if self.coding == "hard" else 500
            self.n_steps_ = max((t_max if self.n_steps is None else self.n_steps_) - 1, 0)
        seed = seed_from(self.random_state)
        saved = work_checkpoint(self, codebook, bags, labels, seed)
        record = saved.load()
        start = stream(seed, "annealing", "start").choice(codebook.n_words, n_kept, replace=False)
        how = (self._transfer(), self.sharpness, self.n_jobs, self._shows(), self.transfer_options)
        state = self._shared.state(self.coding, *how).reset(codebook.ids[start])
        draw: Draw = partial(random_swap, self.move_size)
        if self.proposals == "nearest":
            draw = nearest_swaps(codebook.words, self.move_size, self.n_jobs)
        search = Search(state, lambda: score.copy().begin(*how_scored), draw, seed)
        if record is not None:
            search.resume(record[0])
        elif self.schedule == "calibrated" and self.n_steps_ and search.can_move:
            usual = search.usual_change(N_CALIBRATION)
            search.first = max(self.start_temperature * usual, 1e-300)
        with self._task.part("annealing", self.n_steps_) as task:
            interrupted = self._run(search, saved, codebook, task)
        self._stopped = search.can_move and search.n_steps < self.n_steps_
        best, last = np.sort(search.best), np.sort(search.present)
        self.best_, self.last_ = codebook.ids[best], codebook.ids[last]
        self.score_ = search.best_value if self.returns == "best" else search.path[-1]
        self.accepted_ = np.array(search.accepted, dtype=bool)
        temperatures = [self._temperature(t, search.first) for t in range(search.n_steps)]
        self.temperatures_ = np.array(temperatures, dtype=np.float64)
        found = best if self.returns == "best" else last
        selection = self._subset(
            codebook,
            found,
            method="paper" if self.schedule == "published" else self.name,
            scores=tuple(search.path),
            score=self.score_,
            seed=seed,
            certificate=state.reset(codebook.ids[found]).fidelity().record(),
            parameters={
                **{name: getattr(self, name) for name in _RECORDED},
                "score": score.name,
                "n_steps": search.n_steps,
                "start_temperature": self.start_temperature,
                "transfer": self._transfer(),
                "transfer_options": dict(self.transfer_options or {}),
            },
        )
        if interrupted:
            raise Interrupted(selection)
        return selection

    def _run(self, search: Search, saved: Checkpoint, codebook: Codebook, task: Task) -> bool:
        """Try the moves; return whether Ctrl-C ended it, after one at least."""
        record = search.record()
        with Progress("annealing", self.n_steps_, show=self._shows()) as bar:
            bar.begin_at(search.n_steps)
            try:
                for step in range(search.n_steps, self.n_steps_ if search.can_move else 0):
                    if step % RENEWAL == 0 and step > 0:
                        search.renew()
                        record = search.record()
                        if saved.due:
                            saved.save(record)
                    with task.part("step", fitted=lambda: self._so_far(search, codebook)):
                        search.step(self._temperature(step, search.first))
                    recent = np.mean(search.accepted[-N_RECENT:])
                    bar.step(note=f"score {search.best_value:.5g}, {recent:.0%} accepted")
                    if task.stopped and search.n_steps < self.n_steps_:
                        break
                else:
                    record = search.record()
            except KeyboardInterrupt:
                # The last step may be half done; the best and the record are complete.
                saved.save(record)
                if not search.n_steps:
                    raise
                return True
            saved.save(record)
        return False

    def _so_far(self, search: Search, codebook: Codebook) -> dict[str, Any]:
        """Return the fitted attributes of a fit that ended here."""
        found = self._subset(codebook, search.best if self.returns == "best" else search.present)
        n_features = {"n_features_in_": codebook.n_dims, "n_features_out_": found.n_columns}
        return {"selection_": found, "codebook_": found.codebook, **n_features}

    def _temperature(self, step: int, first: float) -> float:
        if self.schedule == "published":
            return float(max(self.cooling ** (step + 1), 1e-300))
        share = step / max(self.n_steps_ - 1, 1)
        return float(max(first * FINAL_SHARE**share, 1e-300))


class Search:
    """A state, its score, and the best seen so far.

    ``present`` and ``best`` are positions in the order of the columns; ``path`` has the score at
    the start and after each step; ``first`` is the first temperature.
    """

    def __init__(
        self, state: HistogramState, begin_score: Callable[[], Score], draw: Draw, seed: int
    ) -> None:
        self._state = state
        self._begin_score = begin_score
        self._draw = draw
        self._moves, self._chances, self._probes = (
            stream(seed, "annealing", name) for name in ("moves", "chances", "probes")
        )
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
        before, changes = self.value, []
        for _ in range(n):
            tried = self._try(self._probes)
            if tried is not None:
                changes.append(abs(self.value - before))
                tried[1]()
        return float(np.median(changes or [0.0]))

    def step(self, temperature: float) -> None:
        """Try a move and accept it or undo it; one that the state refuses is not accepted."""
        before, accepted, tried = self.value, False, self._try(self._moves)
        if tried is not None:
            (removed, added), undo = tried
            gain = self.value - before
            chance = math.exp(max(min(gain, 0.0) / temperature, -700.0))
            accepted = gain >= 0 or self._chances.random() <= chance
        if accepted:
            self.present = self._state.codebook.positions(self._state.kept)
            self._is_kept[removed], self._is_kept[added] = False, True
            if self.value > self.best_value:
                self.best, self.best_value = self.present, self.value
        elif tried is not None:
            undo()
        self.path.append(self.value)
        self.accepted.append(accepted)

    def _try(self, rng: Generator) -> tuple[tuple[Words, Words], Callable[[], None]] | None:
        """Make a move; return its words and how to undo it, None if the state refuses it."""
        removed, added = self._draw(np.sort(self.present), self._is_kept, rng)
        ids = self._state.codebook.ids
        score, value = self._score.copy(), self.value
        if not try_swap(self._state, ids[removed], ids[added]):
            return None
        self.value = self._score.update(self._state.histograms, self._state.changed)

        def undo() -> None:
            self._state.undo()
            self._score, self.value = score, value

        return (removed, added), undo

    def renew(self) -> None:
        """Make score and state depend on the present words alone."""
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


def random_swap(n_moved: int, kept: Words, is_kept: Mask, rng: Generator) -> tuple[Words, Words]:
    """Propose any kept words for any pruned ones."""
    pruned = np.flatnonzero(~is_kept)
    n = min(n_moved, len(kept), len(pruned))
    return rng.choice(kept, n, replace=False), rng.choice(pruned, n, replace=False)


def nearest_swaps(words: NDArray[np.float32], n_moved: int, n_jobs: int | None = -1) -> Draw:
    """Propose kept words, each for its nearest free word; the lower position on a tie."""
    exact = words.astype(np.float64)
    lists = ranked_words(Bags(words), words, min(len(words), N_NEIGHBOURS), n_jobs=n_jobs)

    def draw(kept: Words, is_kept: Mask, rng: Generator) -> tuple[Words, Words]:
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
