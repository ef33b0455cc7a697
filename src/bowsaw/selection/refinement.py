r"""Refinement: moving the kept words a little, so that their histograms tell the classes better.

**The problem.** A subset of a codebook can do no better than its words allow. Words that k-means
put where descriptors are many are not where classes differ. Once few words are left, letting them
move gains more than any choice among the old ones.

**The step.** With the histograms f of the present words, the gradient G of the leave-one-out error
(:mod:`bowsaw.scores.leave_one_out`) says for each bag which words should be found more often. For a
descriptor x of bag b with soft codes q (softmax of −s‖x − c_k‖²) the chain rule gives

    ∂error/∂c_k = Σ_x 2s (x − c_k) q_k (G_bk − Σ_j q_j G_bj) / n_x.

For *soft* coding f and q are those codes. For *hard* coding f counts the nearest words, as the
result will be used, and only the direction is taken from soft codes (the straight-through
estimator of Bengio, Léonard and Courville, 2013): histograms of hard codes are flat almost
everywhere and have no gradient. Soft codes that are nearly hard are treated alike. Optimising soft
histograms and using hard ones instead was worse by two to three points on real images.

**Length of a step.** As in Adam (Kingma and Ba, 2015), with one second moment a *word* in place of
one a dimension, so that a step turns with the descriptors' space. It starts at ``rate`` times the
root mean squared distance of a descriptor from its nearest word and falls linearly to 0. The
softness of hard coding's gradient is in units of that distance too, so nothing depends on the
descriptors' norm.

**Honesty.** The result is no longer a subset: the ids tell which words it began with, ``moved`` how
far they went, and provenance says so. It is supervised by the labels of ``bags``. It is not in the
paper.

**How far.** With few images words can be moved to fit just these. :mod:`bowsaw.selection.nested`
holds some out and stops where their error is least.

**Cost.** Of each bag ``per_bag`` descriptors a step, of at most ``max_bags`` bags: 4 · rows ·
n_dims · n_words operations in BLAS, one exponential a row and word, and one gradient of the error.
Memory: 4 bytes a row and word, and the descriptors (at most 2048 of each bag) as they are
stored.

**The same on any number of threads**: blocks of bags have fixed limits and are added up in order.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.progress import Task
from bowsaw.random_streams import seed_from
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selection, Selector
from bowsaw.selection.checkpoint import SearchCheckpoint
from bowsaw.selection.descent import check_walk, refined
from bowsaw.selection.folds import check_groups
from bowsaw.selection.nested import N_PARTS, Check, check_steps, usual_folds
from bowsaw.selection.routing import handed_on, of_rows, router
from bowsaw.selection.slopes import usual_per_bag

START_STEPS = 500
"""Swaps that choose the words to begin with."""
MAX_BAGS = 1500
"""Bags that a step looks at."""


class Refinement(Selector):
    """Choose words and move them so that their histograms tell the classes best.

    The strongest small codebook that we know, where there are images enough; with few, the check
    on bags held out lets words move less, or not at all. See the chapter of this module.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from, or what learns them first, such as ``KMeansCodebook``.
    n_kept : int, default=50
        How many words to keep.
    start : Selector or None, default=None
        Chooses the words to begin with; it is cloned and told ``codebook`` and ``n_kept``. It must
        code with the pruned words. None for :class:`~bowsaw.selection.annealing.Annealing` by 500
        swaps, with hard coding.
    n_steps : int, default=300
        Steps of the refinement at most; 0 leaves the words as they were chosen.
    n_folds : int or None, default=None
        Times that a fifth of the bags is held out to decide how many of the steps to do, from 1 to
        5; 0 does all of them unchecked. None for 1 with many bags, and more with fewer.
    rate, per_bag
        As in :func:`bowsaw.selection.descent.refined`.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    sharpness : float, default=40.0
        For soft coding.
    checkpoint : path-like or None, default=None
        A file to write the steps to, every few seconds, and beside it files of the stages before
        (a search every few seconds, a check after each fold): a fit that was interrupted goes on
        from them and gives the same words; removed at the end.
    random_state : int, RandomState or None, default=0
        Draws the words and the descriptors that steps look at.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    selection_ : Selection
        The ids that the words began as, the path of scores (minus the error of each step's sample,
        or that of ``start`` where no step was done), how far the words moved, and in how many
        steps.
    codebook_ : Codebook
        The moved words; the large codebook can be deleted.
    check_ : Check or None
        The errors on bags held out, by steps; None where it was not checked.
    moved_ : float
        The mean distance that words moved, in unit-norm units.
    errors_ : ndarray of float64, shape (n_done,)
        The leave-one-out error of each step's sample.
    interrupted_ : bool
        Whether Ctrl-C or a callback ended the fit before its time; the words are the best so far.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> bags = [rng.normal([label, 0.0], 1.0, size=(40, 2)) for label in y]
    >>> book = bs.KMeansCodebook(10, random_state=0).fit(bags).codebook_
    >>> saw = bs.Refinement(codebook=book, n_kept=3, n_steps=50).fit(bags, y)
    >>> saw.codebook_.n_words, saw.transform(bags).shape, len(saw.errors_) == saw.check_.n_steps
    (3, (20, 3), True)
    """

    def __init__(
        self,
        codebook: Any,
        n_kept: int = 50,
        *,
        start: Selector | None = None,
        n_steps: int = 300,
        n_folds: int | None = None,
        rate: float = 0.15,
        per_bag: int | None = None,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.start = start
        self.n_steps = n_steps
        self.n_folds = n_folds
        self.rate = rate
        self.per_bag = per_bag
        self.coding = coding
        self.sharpness = sharpness
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    name = "refinement"
    _n_parts = 3

    def fit(
        self,
        X: Bags | Iterable[ArrayLike],
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose the words and move them.

        Parameters
        ----------
        X : Bags or list of arrays
            The bags to choose by.
        y : array-like of shape (n_bags,)
            Their labels.
        groups : array-like of shape (n_bags,), optional
            What belongs together, such as photographs of one place: held out together.
        **params
            Metadata for ``start``, which asks for it by ``set_fit_request``, ``groups``, too; where
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
        """Return who wants which metadata: itself, and ``start``."""
        return router(self, start=self.start)

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        seed = seed_from(self.random_state)
        n_folds = self._check_folds(len(bags))
        per_bag = usual_per_bag(n_kept) if self.per_bag is None else self.per_bag
        check_walk(self.n_steps, self.rate, per_bag, MAX_BAGS, self.coding)
        start = self._start(book, n_kept, seed)
        first = clone(start)
        if self.checkpoint is not None and "checkpoint" in first.get_params():
            first.set_params(checkpoint=self._beside("start"))
        asked = {
            "version": __version__,
            "book": book.words.tobytes().hex(),
            "start": _described(start),
            "bags": "" if self.checkpoint is None else bags.digest(),
            "labels": labels.tolist(),
        }
        for name, value in self._for_start.items():
            asked[f"metadata {name}"] = repr(np.asarray(value).tolist())
        chosen = SearchCheckpoint(self._beside("chosen"), asked)
        begun, torn = self._begin(first, chosen, bags, labels, book)
        how: dict[str, Any] = {
            "n_steps": int(self.n_steps),
            "rate": float(self.rate),
            "per_bag": int(per_bag),
            "coding": self.coding,
            "sharpness": self.sharpness,
            "n_jobs": self.n_jobs,
            "verbose": self._shows(),
            "task": self._task,
        }
        self.check_: Check | None = None
        stop = 0 if torn else self.n_steps
        if stop and n_folds:
            with suppress(KeyboardInterrupt):
                self.check_ = check_steps(
                    lambda rows, task: _quietly(
                        start, bags[rows], labels[rows], task, of_rows(self._for_start, bags, rows)
                    ),
                    bags,
                    labels,
                    fingerprint=asked,
                    n_folds=n_folds,
                    max_bags=MAX_BAGS,
                    seed=seed,
                    checkpoint=self._beside("folds"),
                    groups=self._groups,
                    **how,
                )
            torn = self.check_ is None
            stop = 0 if self.check_ is None else self.check_.n_steps
        found = refined(
            begun.codebook,
            bags,
            labels,
            stop=stop,
            max_bags=MAX_BAGS,
            checkpoint=self.checkpoint,
            random_state=seed,
            **how,
        )
        self.moved_, self.errors_ = found.moved, found.errors
        self.interrupted_ = torn or len(found.errors) < stop
        if not self.interrupted_ and self.checkpoint is not None:
            for name in ("start", "chosen", "folds"):
                Path(str(self._beside(name))).unlink(missing_ok=True)
        return Selection(
            method="refinement",
            codes_with="pruned",
            codebook=found.codebook,
            kept=found.codebook.ids,
            scores=tuple((-found.errors).tolist()) or begun.scores,
            score=None if len(found.errors) else begun.final_score,
            seed=seed,
            certificate=begun.certificate if not len(found.errors) else None,
            parameters={
                "start": begun.method,
                "n_steps": len(found.errors),
                "n_steps_at_most": self.n_steps,
                "n_folds": n_folds,
                "rate": self.rate,
                "per_bag": per_bag,
                "moved": found.moved,
                "coding": self.coding,
                "sharpness": self.sharpness if self.coding == "soft" else None,
            },
        )

    def _begin(
        self,
        start: Selector,
        chosen: SearchCheckpoint,
        bags: Bags,
        labels: NDArray[np.int64],
        book: Codebook,
    ) -> tuple[Selection, bool]:
        """Choose the words to begin with, once; return whether Ctrl-C cut that short, too."""
        known = chosen.load()
        if known is not None:
            known["kept"] = np.array(known["kept"], dtype=np.int64)
            known["scores"] = tuple(known["scores"])
            words = book.only(known["kept"])
            return Selection(codes_with="pruned", codebook=words, **known), False
        with self._task.delegate("start", start):
            start._fit_shared(bags, labels, self._shared, **self._for_start)
        begun = start.selection_
        if begun.codes_with != "pruned":
            raise ParameterError(
                f"start must choose words that code alone; {begun.method} codes with the full "
                "codebook. Name another selector, or None."
            )
        # A search that keeps its best has caught it: there is a result, and nobody wants to wait.
        torn = bool(getattr(start, "interrupted_", False))
        kept = begun.kept
        # Words of its own, such as k-means makes, it must make again.
        if not torn and kept is not None and _are_words_of(begun.codebook, book):
            names = ("method", "scores", "score", "certificate")
            told = {name: getattr(begun, name) for name in names}
            chosen.save({"kept": kept.tolist(), **told})
        return begun, torn

    def _start(self, book: Codebook, n_kept: int, seed: int) -> Selector:
        """Return what chooses the words to begin with."""
        start = self.start
        if start is None:
            # By hard coding in any case: where words begin hardly matters, and the state of soft
            # codes takes two bytes for every descriptor and word of the large codebook.
            start = Annealing(
                book,
                n_steps=START_STEPS,
                random_state=seed,
                n_jobs=self.n_jobs,
                verbose=self._shows(),
            )
        made: Selector = clone(start).set_params(codebook=book, n_kept=n_kept)
        return made

    def _check_folds(self, n_bags: int) -> int:
        if self.n_folds is None:
            return usual_folds(n_bags)
        whole = isinstance(self.n_folds, numbers.Integral) and not isinstance(self.n_folds, bool)
        if not whole or not 0 <= self.n_folds <= N_PARTS:
            raise ParameterError(
                f"n_folds must be None or a whole number from 0 to {N_PARTS}; got {self.n_folds!r}."
            )
        return int(self.n_folds)

    def _beside(self, name: str) -> Path | None:
        """Return the file of an earlier stage."""
        return None if self.checkpoint is None else Path(f"{self.checkpoint}.fold-{name}")


def _are_words_of(small: Codebook, large: Codebook) -> bool:
    """Return whether the words of one codebook are some of another's, by id."""
    if not np.isin(small.ids, large.ids).all():
        return False
    return np.array_equal(small.words, large.only(small.ids).words)


def _described(start: Selector) -> dict[str, str]:
    """Return what the choice of a selector depends on, as JSON holds it."""
    told = {"class": type(start).__name__}
    for name, value in start.get_params(deep=False).items():
        if name not in ("codebook", "n_jobs", "verbose", "checkpoint"):
            plain = value is None or isinstance(value, str | numbers.Number)
            told[name] = repr(value) if plain else f"{type(value).__name__} {vars(value)}"
    return told


def _quietly(
    start: Selector, bags: Bags, labels: NDArray[np.int64], task: Task, metadata: dict[str, Any]
) -> Codebook:
    """Return what is chosen in a fold, without a bar of its own; let Ctrl-C through."""
    saw = clone(start)
    if "verbose" in saw.get_params():
        saw.set_params(verbose=False)
    with task.delegate("start", saw):
        saw.fit(bags, labels, **metadata)
    if getattr(saw, "interrupted_", False):
        # A search that keeps its best has caught it.
        raise KeyboardInterrupt
    book: Codebook = saw.codebook_
    return book
