r"""Refinement: moving the kept words so that their histograms separate the classes better.

**The step.** With the histograms f of the present words, the gradient G of the leave-one-out error
(:mod:`bowsaw.scores.leave_one_out`) shows for each bag which words should be found more often. For
a descriptor x of bag b with soft codes q (softmax of −s‖x − c_k‖²) the chain rule gives

    ∂error/∂c_k = Σ_x 2s (x − c_k) q_k (G_bk − Σ_j q_j G_bj) / n_x.

For *soft* coding f and q are those codes. For *hard* coding, and for soft codes that are nearly
hard, f counts the nearest words, as the result will be used, and only the direction is taken from
soft codes (the straight-through estimator of Bengio, Léonard and Courville, 2013): histograms of
hard codes have no gradient.

**Length of a step.** As in Adam (Kingma and Ba, 2015), with one second moment per *word* in place
of one per dimension, so that a step turns with the descriptors' space. It starts at ``rate`` times
the root mean squared distance of a descriptor from its nearest word, the unit of the softness too,
and falls linearly to 0. :mod:`bowsaw.selection.holdout` decides how far to go.

**Departure.** It is not in the paper. The result is supervised by the labels and no longer a
subset: the ids are those of the words it began with, and provenance records how far they moved.

**Cost.** Per step ``per_bag`` descriptors of at most 1500 bags: 4 · rows · n_dims · n_words
operations in BLAS, one exponential per row and word, and one gradient of the error. Memory: 4 bytes
per row and word, and the descriptors (at most 2048 of each bag) as they are stored. Blocks of bags
are added up in order: the result is the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from bowsaw.bags import Bags, as_bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.errors import Interrupted, ParameterError
from bowsaw.progress import Task
from bowsaw.random_streams import seed_from, stream
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Coding, Labels, Selection, Selector, SharedCodes, work_checkpoint
from bowsaw.selection.descent import DescentPlan, refine_words, usual_steps
from bowsaw.selection.holdout import N_PARTS, Holdout, check_groups, measure_holdout, usual_folds
from bowsaw.selection.routing import handed_on, of_rows, router
from bowsaw.validation import check_int, json_value

START_STEPS, START_PER_BAG = 500, 128
SAMPLED = "leave-one-out, of each step's sample"
"""The score of its steps: of a sample, so it cannot be compared with ``leave-one-out``."""


class Refinement(Selector):
    """Choose words and move them so that their histograms separate the classes best.

    The strongest small codebook here, given enough images; with few, words move less.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, random_state, checkpoint, n_jobs, verbose
        As in :class:`~bowsaw.selection.base.Selector`.
    start : Selector or None, default=None
        Chooses the words to begin with, given ``codebook`` and ``n_kept``; it must code with the
        pruned words. None for :class:`~bowsaw.selection.annealing.Annealing` by 500 swaps, drawn on
        128 descriptors of each bag.
    n_steps : int or None, default=None
        Steps of the refinement at most; 0 leaves the words as they were chosen. None for 300 with
        up to 32 words, and 150 with more.
    n_folds : int or None, default=None
        Times (0 to 5) that a fifth of the bags is held out to decide how many of the steps to do;
        0 does all of them. None for 1 with many bags, and more with fewer.
    rate : float, default=0.15
        The first step's length, as a share of a descriptor's distance from its nearest word.
    per_bag : int, default=128
        Descriptors of each bag that a step uses.

    Attributes
    ----------
    selection_ : Selection
        The ids that the words began as. Scores are minus each step's error, which is that of the
        step's sample and so no ``leave-one-out`` of all bags; without steps, those of ``start``.
    n_steps_ : int
        Steps that were planned, at most.
    holdout_ : Holdout or None
        The errors on bags held out, by steps, and the steps that they allow; None where it was not
        checked.
    moved_, errors_ : float, ndarray of float64 of shape (n_done,)
        The mean distance that words moved, in unit-norm units, and each step's leave-one-out error.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> bags = [rng.normal([label, 0.0], 1.0, size=(40, 2)) for label in y]
    >>> book = bs.KMeansCodebook(10, random_state=0).fit(bags).codebook_
    >>> moved = bs.Refinement(book, n_kept=3, n_steps=50, random_state=0).fit(bags, y)
    >>> moved.transform(bags).shape, len(moved.errors_) == moved.holdout_.n_steps
    ((20, 3), True)
    """

    name = "refinement"
    _n_parts = 3

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        start: Selector | None = None,
        n_steps: int | None = None,
        n_folds: int | None = None,
        rate: float = 0.15,
        per_bag: int = 128,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.start = start
        self.n_steps = n_steps
        self.n_folds = n_folds
        self.rate = rate
        self.per_bag = per_bag
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Bags | Iterable[ArrayLike],
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose the words by bags and their labels, and move them.

        Bags of one group, such as images of one place, are held out together. ``params`` are
        metadata for ``start``, which requests them and ``groups`` by ``set_fit_request`` where
        scikit-learn's metadata routing is enabled.
        """
        bags = as_bags(X)
        self._groups = check_groups(groups, len(bags))
        self._for_start = handed_on(self, "start", {"groups": groups}, params)
        try:
            super().fit(bags, y)
        finally:
            del self._groups, self._for_start
        return self

    def get_metadata_routing(self) -> Any:
        """Return which metadata it and ``start`` request."""
        return router(self, start=self.start)

    def _validate(self) -> None:
        super()._validate()
        if self.n_folds is not None:
            check_int(self.n_folds, "n_folds", 0, N_PARTS)
        self._plan(1)

    def _plan(self, n_kept: int) -> DescentPlan:
        n_steps = usual_steps(n_kept) if self.n_steps is None else self.n_steps
        how = (self.coding, self.sharpness, self.n_jobs)
        return DescentPlan(n_steps, self.rate, self.per_bag, *how).checked()

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        assert labels is not None
        seed = seed_from(self.random_state)
        n_folds = usual_folds(len(bags)) if self.n_folds is None else int(self.n_folds)
        plan, start = self._plan(n_kept), self._start(codebook, n_kept, seed)
        more: Any = {
            f"metadata {k}": repr(np.asarray(v).tolist()) for k, v in self._for_start.items()
        }
        more["groups"] = None if self._groups is None else self._groups.tolist()
        saved = work_checkpoint(self, codebook, bags, labels, seed, **more)
        begun, interrupted, early = self._begin(
            start, saved.stage("chosen"), bags, labels, codebook
        )
        how: Any = {"seed": seed, "checkpoint": saved, "show": self._shows(), "task": self._task}
        self.holdout_: Holdout | None = None
        self.n_steps_ = stop = plan.n_steps
        if stop and n_folds and not early:
            try:
                self.holdout_ = measure_holdout(
                    lambda rows, task: _choose(
                        start, bags[rows], labels[rows], task, of_rows(self._for_start, bags, rows)
                    ),
                    bags,
                    labels,
                    plan,
                    n_folds=n_folds,
                    groups=self._groups,
                    **{**how, "checkpoint": saved.stage("folds")},
                )
            except KeyboardInterrupt:
                interrupted = True
            early = self.holdout_ is None
            stop = stop if self.holdout_ is None else self.holdout_.n_steps
        try:
            n_done = 0 if early else stop
            found = refine_words(begun.codebook, bags, labels, plan, stop=n_done, **how)
        except Interrupted as ended:
            found, interrupted = ended.so_far, True
        self.moved_, self.errors_ = found.moved, found.errors
        self._stopped = len(found.errors) < stop
        selection = Selection(
            method=self.name,
            codes_with="pruned",
            codebook=found.codebook,
            kept=found.codebook.ids,
            scores=tuple((-found.errors).tolist()) or begun.scores,
            score=None if len(found.errors) else begun.final_score,
            seed=seed,
            certificate=begun.certificate if not len(found.errors) else None,
            parameters={
                "start": begun.method,
                "score": SAMPLED if len(found.errors) else begun.parameters.get("score"),
                "n_steps": len(found.errors),
                "n_steps_at_most": plan.n_steps,
                "n_folds": n_folds,
                "rate": plan.rate,
                "per_bag": plan.per_bag,
                "moved": found.moved,
                "coding": self.coding,
                "sharpness": self.sharpness if self.coding == "soft" else None,
            },
        )
        if interrupted:
            raise Interrupted(selection)
        return selection

    def _begin(
        self, start: Selector, chosen: Checkpoint, bags: Bags, labels: Labels, codebook: Codebook
    ) -> tuple[Selection, bool, bool]:
        """Choose the words to begin with; return whether Ctrl-C, or anything, ended that early."""
        record = chosen.load()
        if record is not None:
            before = record[0]
            before["kept"] = np.array(before["kept"], dtype=np.int64)
            before["scores"] = tuple(before["scores"])
            words = codebook.only(before["kept"])
            return Selection(codes_with="pruned", codebook=words, **before), False, False
        first = clone(start)
        if self.checkpoint is not None and "checkpoint" in first.get_params():
            first.set_params(checkpoint=f"{self.checkpoint}.start")
        with self._task.delegate("start", first):
            interrupted = False
            try:
                begun = first._fit_shared(bags, labels, self._shared, **self._for_start).selection_
            except Interrupted as ended:
                begun, interrupted = ended.so_far, True
        if begun.codes_with != "pruned":
            raise ParameterError(
                f"start must choose words that code alone; {begun.method} codes with the full "
                "codebook. Name another selector, or None."
            )
        kept, early = begun.codebook.ids, interrupted or first._stopped
        # New words, such as those of k-means, are made again on resuming.
        known = np.isin(kept, codebook.ids).all()
        if not early and known and np.array_equal(begun.codebook.words, codebook.only(kept).words):
            names = ("method", "scores", "score", "certificate", "parameters")
            parts = {name: json_value(getattr(begun, name)) for name in names}
            chosen.save({"kept": kept.tolist(), **parts})
        return begun, interrupted, early

    def _start(self, codebook: Codebook, n_kept: int, seed: int) -> Selector:
        """Return the selector of the words to begin with."""
        start = self.start
        if start is None:
            # With hard coding in any case: the state of soft codes takes much memory.
            start = _SampledAnnealing(n_steps=START_STEPS, random_state=seed)
            start.set_params(n_jobs=self.n_jobs, verbose=self._shows())
        return cast(Selector, clone(start).set_params(codebook=codebook, n_kept=n_kept))


class _SampledAnnealing(Annealing):
    """Annealing on ``START_PER_BAG`` descriptors of each bag, at a seventh of the cost."""

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        draw = stream(seed_from(self.random_state), "refinement", "start")
        rows = [bag[np.sort(draw.permutation(len(bag))[:START_PER_BAG])] for bag in bags]
        sample = Bags.from_list(rows, scale=bags.scale, description=bags.description)
        self._shared = SharedCodes(codebook, sample)
        found = super()._select(sample, labels, codebook, n_kept)
        # Its score and its certificate are those of the sample.
        parameters = {**found.parameters, "score": SAMPLED}
        return replace(found, certificate=None, parameters=parameters)


def _choose(
    start: Selector, bags: Bags, labels: NDArray[np.int64], task: Task, metadata: dict[str, Any]
) -> Codebook | None:
    """Return the words chosen in a fold; None if a callback asked to stop."""
    selector = clone(start)
    with task.delegate("start", selector):
        selector.fit(bags, labels, **metadata)
    return None if selector._stopped else selector.codebook_
