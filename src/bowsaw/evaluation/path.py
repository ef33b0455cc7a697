r"""Every size in one run, and the size to take.

``PruningPath`` finds the words of every size by one elimination from all of them to a few
(:mod:`bowsaw.selection.elimination`), and estimates the cost of each size by cross-validation.

**Why the whole path.** Words that were chosen with the labels of some images look better on those
images than on any others, also under cross-validation of the classifier alone. So words are chosen
again in every fold, on the fold's training images, and tested on images that had no part in it.

**The error bar.** With accuracies a_j of the J folds, the variance over the folds is too small, as
their training images overlap. Nadeau and Bengio (2003) correct it:

.. math:: \mathrm{se}^2 = \Bigl(\frac1J + \frac{n_\mathrm{test}}{n_\mathrm{train}}\Bigr)
          \frac{1}{J - 1} \sum_j (d_j - \bar d)^2 .

A size's loss is taken within each fold, against the same fold's full codebook. The smallest of many
sizes whose estimated loss meets a limit was partly lucky: with 22 sizes and a spread of 0.02 over
the folds, its true loss exceeded the limit in three of five simulated paths. So the loss *plus its
standard error* must meet the limit. The full codebook, whose loss is 0 by definition, meets every
limit from 0 up. The folds that choose a size also estimate its accuracy: slightly optimistic.

Cost: ``fit`` is one elimination; ``estimate`` and ``recommend`` are one in each fold, and a
classifier for each fold and stop, at their first call. With ``refine``, the words of a size are
moved when it is first asked for, and those of every stop in every fold. Not in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords, coded, learns, words_from
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.evaluation.leaks import check_not_selected_by
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.evaluation.significance import accuracy_margin, corrected_error
from bowsaw.formatting import format_bytes, format_signed
from bowsaw.inference.state import HistogramState
from bowsaw.markup import table
from bowsaw.parallel import ordered_map
from bowsaw.progress import Progress, Task, fit_task, with_callbacks
from bowsaw.random_streams import seed_from, stream
from bowsaw.scores.base import Score, make_score
from bowsaw.selection.base import (
    Selection,
    Selector,
    SharedCodes,
    check_n_kept,
    check_transfer_options,
    work_checkpoint,
)
from bowsaw.selection.descent import DescentPlan, refine_words
from bowsaw.selection.elimination import EliminationPath, check_sizes, eliminate
from bowsaw.selection.holdout import assign_folds, check_all_are_seen, check_groups, n_groups_of
from bowsaw.selection.routing import handed_on, of_rows, router
from bowsaw.validation import check_int, check_labels, check_real

Labels = NDArray[np.int64]

BYTES_OF_A_NUMBER = 4
"""Words are held in float32."""
DEFAULT_C = 4.0
"""Of the default classifier: on the benchmark images the middle of what validation chose. A search
for it in every fold and at every size would take some fifty times as long."""
TIMED_BAGS, TIMED_ROUNDS = 20, 3


class SizeEstimate(NamedTuple):
    """What a size gives on images that had no part in choosing the words."""

    n_words: int
    accuracy: float
    """Mean per-class accuracy, from 0 to 1, over the folds."""
    accuracy_se: float
    accuracy_margin: float
    """Half of its 95 % interval (:mod:`bowsaw.evaluation.significance`)."""
    loss: float
    """Accuracy of the full codebook minus that of this size, over the same folds."""
    loss_se: float
    n_bytes: int
    """Of the words, as float32."""


@dataclass(frozen=True)
class Recommendation:
    """A size, what it costs, and its words.

    Attributes
    ----------
    n_words : int
        The size.
    accuracy, accuracy_se : float
        Cross-validated mean per-class accuracy and its standard error. The same folds chose the
        size: slightly optimistic.
    accuracy_margin : float
        Half of the 95 % interval of the accuracy.
    loss, loss_se : float
        What is lost against the full codebook, and the standard error of that.
    n_bytes : int
        Size of the words as float32.
    ms_per_image : float
        Measured time to code an image with one thread, in milliseconds.
    codebook : Codebook
        The words.
    """

    n_words: int
    accuracy: float
    accuracy_se: float
    accuracy_margin: float
    loss: float
    loss_se: float
    n_bytes: int
    ms_per_image: float
    codebook: Codebook

    def __str__(self) -> str:
        side = "below" if self.loss >= 0 else "above"
        full = f"{abs(self.loss):.3f} {side} the full codebook (standard error {self.loss_se:.3f})"
        if self.loss == self.loss_se == 0:
            full = "that of the full codebook"
        return (
            f"{self.n_words} words ({self.n_bytes} bytes, {self.ms_per_image:.3g} ms per image): "
            f"accuracy {self.accuracy:.3f} ± {self.accuracy_margin:.3f} (95 % interval, nested "
            f"cross-validation; the same folds chose the size), {full}."
        )

    def _repr_html_(self) -> str:
        header = ("words", "accuracy, 95 % interval", "against all words", "size", "ms per image")
        change = f"{format_signed(-self.loss)} (standard error {self.loss_se:.3f})"
        found = (f"{self.accuracy:.3f} ± {self.accuracy_margin:.3f}", change)
        row = (self.n_words, *found, format_bytes(self.n_bytes), f"{self.ms_per_image:.3g}")
        caption = "Recommended size (nested cross-validation; the same folds chose the size)"
        return table(caption, header, [row])


def deal(
    labels: NDArray[np.int64],
    n_folds: int,
    seed: int,
    groups: NDArray[np.int64] | None = None,
    classes: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each bag, the bags of each class spread evenly.

    There are no more folds than the smallest class has bags (or groups, which stay together), so
    that each class is tested in each fold. Groups of several classes may leave a fold without bags
    of a class; folds whose *training* bags would lack a class are refused.
    """
    sizes = n_groups_of(labels, groups)
    names = np.arange(len(sizes)) if classes is None else classes
    if sizes.min() < 2:
        what = "bags" if groups is None else "groups"
        raise DataError(
            f"an estimate needs at least 2 {what} of each class; class {names[sizes.argmin()]!s} "
            f"has {int(sizes.min())}. Add {what}, or leave the class out."
        )
    rng = stream(seed, "path", "folds")
    folds = assign_folds(labels, min(n_folds, int(sizes.min())), rng, groups)
    check_all_are_seen(folds, labels, names)
    return folds


def accuracies(
    histograms: Iterable[tuple[NDArray[Any], NDArray[Any]]],
    seen: NDArray[np.int64],
    unseen: NDArray[np.int64],
    n_classes: int,
    classifier: Any = None,
    n_jobs: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[float]:
    """Yield the mean per-class accuracy of a classifier per pair of training and test histograms.

    The classifier is cloned for every pair (None: ``HistogramClassifier(C=4.0)``); the pairs are
    read in the calling thread.
    """

    def one(pair: tuple[NDArray[Any], NDArray[Any]]) -> float:
        model = HistogramClassifier(C=DEFAULT_C) if classifier is None else clone(classifier)
        guess = model.fit(pair[0], seen, **(metadata or {})).predict(pair[1])
        return mean_class_accuracy(unseen, guess, n_classes)

    yield from ordered_map(one, histograms, n_jobs)


def summarise(
    sizes: Sequence[int],
    found: NDArray[np.float64],
    test_share: float,
    n_dims: int,
    class_counts: NDArray[np.int64],
) -> tuple[SizeEstimate, ...]:
    """Turn accuracies, ``(n_folds, n_sizes)`` with the full codebook first, into estimates.

    ``test_share`` is the number of test bags per training bag, ``class_counts`` those of each class
    in all folds.
    """
    losses = found[:, :1] - found
    errors = corrected_error(found, test_share), corrected_error(losses, test_share)
    means = found.mean(axis=0), losses.mean(axis=0)
    return tuple(
        SizeEstimate(
            int(size),
            float(means[0][column]),
            float(errors[0][column]),
            accuracy_margin(found[:, column], test_share, class_counts),
            float(means[1][column]),
            float(errors[1][column]),
            int(size) * n_dims * BYTES_OF_A_NUMBER,
        )
        for column, size in enumerate(sizes)
    )


def choose_size(
    table: Sequence[SizeEstimate], name: str, limit: float, ms: Sequence[float] = ()
) -> int:
    """Return the row of the size for a limit; refuse a limit that no size meets.

    ``max_loss`` takes the fewest words whose loss plus its standard error is within the limit.
    ``max_bytes`` and ``max_ms``, of the times ``ms``, take the most accurate of the sizes within
    it, of equally accurate ones the smallest.
    """
    check_real(limit, name, -1 if name == "max_loss" else 0)
    costs: Sequence[float] = ms
    if name != "max_ms":
        costs = [row.loss + row.loss_se if name == "max_loss" else row.n_bytes for row in table]
    fitting = [row for row, cost in enumerate(costs) if cost <= limit]
    if not fitting:
        best = int(np.argmin(costs))
        raise ParameterError(
            f"{name}={limit!r} is met by no size; the best, {table[best].n_words} words, needs "
            f"{costs[best]:.6g}. Allow that, or name other sizes to fit."
        )
    if name == "max_loss":
        return min(fitting, key=lambda row: table[row].n_words)
    return max(fitting, key=lambda row: (table[row].accuracy, -table[row].n_words))


def milliseconds_per_image(
    codebook: Codebook, bags: Bags, coding: Any = "hard", sharpness: float = 40.0
) -> float:
    """Measure how long coding an image takes with one thread, in the best of three rounds.

    A coder prepares its words once: a single image measures that, and it is taken off. Where noise
    makes one image seem to take as long as all, each has its share of the whole.
    """
    some = bags[np.linspace(0, len(bags) - 1, min(len(bags), TIMED_BAGS)).astype(int)]
    coder = BagOfWords(codebook, coding=coding, sharpness=sharpness, n_jobs=1)
    coder.transform(some[:1])
    one, all_of_them = (
        min(_seconds(coder, group) for _ in range(TIMED_ROUNDS)) for group in (some[:1], some)
    )
    if len(some) == 1 or all_of_them <= one:
        return 1000 * all_of_them / len(some)
    return 1000 * (all_of_them - one) / (len(some) - 1)


def _seconds(coder: BagOfWords, bags: Bags) -> float:
    begin = time.perf_counter()
    coder.transform(bags)
    return time.perf_counter() - begin


class PruningPath(Selector):
    """Prune a codebook to every size in one run, and recommend a size.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from. An estimator such as ``KMeansCodebook`` learns them from the bags
        first, and again in every fold of the estimate.
    n_kept : int or None, default=None
        The size that ``transform`` codes with; None for the smallest of the path.
    sizes : sequence of int or None, default=None
        The sizes to stop at; the full size is added. None for about 24 in equal ratios down to 10.
    score : str or Score, default="leave-one-out"
        What is kept high on the way. Others than ``leave-one-out`` take longer: see
        :mod:`bowsaw.selection.elimination`.
    repair : int, default=20
        Pruned words that each stop tries to bring back, fewer above 100 words.
    refine : int, default=0
        Steps by which :func:`bowsaw.selection.descent.refine_words` moves the words of a size after
        the choice; the full codebook stays as it is.
    classifier : estimator or None, default=None
        Any scikit-learn classifier of histograms, cloned for every fold and stop; None for
        ``HistogramClassifier(C=4.0)``.
    cv : int, default=5
        Folds of the estimate; as many as the smallest class has bags (or groups), if that is less.
    transfer_options : mapping or None, default=None
        Options of the exact state, as in :func:`bowsaw.whatif`: ``{"n_ranked": 32}``.
    checkpoint : path-like or None, default=None
        A file that is written after every stop: a fit that was interrupted continues from it and
        gives the same words. Folds of the estimate have files of their own beside it. Remove them
        by ``bowsaw.checkpoint.remove_checkpoint`` when the result is saved.
    coding, sharpness, random_state, n_jobs, verbose
        As in :class:`bowsaw.Selector`; the random state draws swaps and folds.

    Attributes
    ----------
    path_ : EliminationPath
        The stops, with their words (positions), scores and swaps.
    sizes_ : list of int
        Sizes of the stops, falling.
    selection_, codebook_ : Selection, Codebook
        At the size of ``n_kept``.
    seed_ : int
        What drove the random choices.

    Notes
    -----
    The estimate needs bags and labels again, so a fitted path holds on to them.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> bags = [rng.normal([3.0 * label, 0.0], 1.0, size=(30, 2)) for label in y]
    >>> book = bs.KMeansCodebook(8, random_state=0).fit(bags).codebook_
    >>> path = bs.PruningPath(codebook=book, sizes=[4, 2], cv=2, random_state=0).fit(bags, y)
    >>> path.sizes_, path.codebook_at(3).n_words
    ([8, 4, 2], 3)
    >>> path.recommend(max_loss=0.05).n_words
    2
    """

    name = "elimination"
    n_kept: Any

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int | None = None,
        *,
        sizes: Sequence[int] | None = None,
        score: str | Score = "leave-one-out",
        repair: int = 20,
        refine: int = 0,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        classifier: Any = None,
        cv: int = 5,
        transfer_options: Mapping[str, Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.sizes = sizes
        self.score = score
        self.repair = repair
        self.refine = refine
        self.coding = coding
        self.sharpness = sharpness
        self.classifier = classifier
        self.cv = cv
        self.transfer_options = transfer_options
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: Bags | Iterable[ArrayLike],
        y: ArrayLike | None = None,
        *,
        estimate: bool = False,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Walk the path.

        Parameters
        ----------
        X : Bags or list of arrays
            The bags to choose by.
        y : array-like of shape (n_bags,)
            Their labels.
        estimate : bool, default=False
            Make the estimate at once, so that a checkpoint serves both.
        groups : array-like of shape (n_bags,), optional
            What belongs together, such as photographs of one place: no group is on both sides of a
            fold of the estimate.
        **params
            Metadata for ``classifier``, which asks for it by ``set_fit_request``, ``groups``, too;
            where scikit-learn's metadata routing is enabled.
        """
        bags = as_bags(X)
        self._validate()
        self.classes_, labels = check_labels(y, len(bags))
        self._groups = check_groups(groups, len(bags))
        self._for_classifier = handed_on(self, "classifier", {"groups": groups}, params)
        with fit_task(self, 1 + learns(self.codebook) + bool(estimate), X=bags, y=y) as task:
            book = words_from(self.codebook, bags, y, task)
            book.project(bags)
            if estimate:
                check_not_selected_by(book, bags)
            sizes = check_sizes(self.sizes, book.n_words)
            n_kept = sizes[-1] if self.n_kept is None else check_n_kept(self.n_kept, book.n_words)
            if n_kept < sizes[-1]:
                sizes.append(n_kept)
            self.seed_, self.sizes_ = seed_from(self.random_state), sizes
            self._bags, self._labels, self._book = bags, labels, book
            self._refined: dict[int, Codebook] = {}
            self._table: tuple[SizeEstimate, ...] | None = None
            self.path_, _ = self._eliminate(book, bags, labels, task=task)
            self.selection_ = self.selection_at(n_kept)
            self.codebook_ = self.selection_.codebook
            self.n_features_in_, self.n_features_out_ = bags.n_dims, n_kept
            if estimate:
                self._table = self._estimate(task)
        return self

    def get_metadata_routing(self) -> Any:
        """Return who wants which metadata: itself, and ``classifier``."""
        return router(self, classifier=self.classifier)

    def codebook_at(self, n_words: int) -> Codebook:
        """Return the codebook of any size from the smallest stop to the full one.

        Between two stops it holds the words of the larger stop without those removed first.
        """
        check_is_fitted(self, "path_")
        words = self._book.only(self._book.ids[self.path_.at(n_words)])
        if not self._is_refined(n_words):
            full = n_words == self._book.n_words
            return words if full else words.learned_from(self._bags, selected_by=self.name)
        if n_words not in self._refined:
            moved = self._refine(words, self._bags, self._labels)
            self._refined[n_words] = moved.learned_from(self._bags, selected_by=self.name)
        return self._refined[n_words]

    def selection_at(self, n_words: int) -> Selection:
        """Return the selection of a size; its scores are those of the stops down to it."""
        book = self.codebook_at(n_words)
        stops = [stop for stop in self.path_.stops if stop.n_kept >= n_words]
        at_stop = stops[-1].n_kept == n_words and not self._is_refined(n_words)
        return Selection(
            method=self.name,
            codes_with="pruned",
            codebook=book,
            kept=book.ids,
            scores=tuple(stop.score for stop in stops),
            seed=self.seed_,
            certificate=stops[-1].certificate if at_stop else None,
            parameters={
                "n_kept": int(n_words),
                "score": make_score(self.score).name,
                **{name: int(getattr(self, name)) for name in ("repair", "refine")},
                "coding": self.coding,
                "n_stops": len(stops),
            },
        )

    def estimate(self) -> tuple[SizeEstimate, ...]:
        """Return what each stop's size gives on bags that had no part in choosing its words.

        Cross-validated at the first call, with the whole path walked in each fold; the full
        codebook comes first, and losses are against it in the same folds. Words that were chosen
        by labels of these bags before are refused: no fold can test them.
        """
        check_is_fitted(self, "path_")
        if self._table is None:
            check_not_selected_by(self._book, self._bags)
            self._table = self._estimate(Task())
        return self._table

    def _estimate(self, task: Task) -> tuple[SizeEstimate, ...]:
        """Make the table of the estimate, as a part of a task."""
        folds = deal(self._labels, self.cv, self.seed_, self._groups, self.classes_)
        n_folds = int(folds.max()) + 1
        found = np.empty((n_folds, len(self.sizes_)))
        with (
            task.part("estimate", n_folds) as estimate,
            Progress("folds", found.size, show=bool(self.verbose) and not task.observed) as bar,
        ):
            for fold in range(n_folds):
                with estimate.part("fold", learns(self.codebook) + len(self.sizes_)) as parts:
                    rights = self._fold(folds == fold, f"fold{fold}", parts)
                    for column, size in enumerate(self.sizes_):
                        with parts.part(f"{size} words"):
                            right = next(rights)
                        found[fold, column] = right
                        bar.step(note=f"{size} words {right:.3f}")
        counts = np.bincount(self._labels)
        return summarise(self.sizes_, found, 1 / (n_folds - 1), self._book.n_dims, counts)

    def recommend(
        self,
        *,
        max_loss: float | None = None,
        max_bytes: float | None = None,
        max_ms: float | None = None,
    ) -> Recommendation:
        """Return the size for one limit, with what it costs.

        Parameters
        ----------
        max_loss : float, optional
            The smallest stop whose estimated loss against the full codebook, plus one standard
            error, is at most this (0.01: one point of accuracy). From 0 up, the full codebook
            always meets it.
        max_bytes : int, optional
            The most accurate stop whose words take no more, as float32.
        max_ms : float, optional
            The most accurate stop that codes an image of the training bags in no more
            milliseconds, with one thread of this machine.
        """
        check_is_fitted(self, "path_")
        limits = {"max_loss": max_loss, "max_bytes": max_bytes, "max_ms": max_ms}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if len(given) != 1:
            raise ParameterError(
                "recommend needs exactly one of max_loss, max_bytes and max_ms; got "
                f"{max_loss!r}, {max_bytes!r} and {max_ms!r}."
            )
        ((name, limit),) = given.items()
        table = self.estimate()
        ms = [self._milliseconds(row.n_words) for row in table] if name == "max_ms" else []
        pick = choose_size(table, name, limit, ms)
        n_words = table[pick].n_words
        return Recommendation(
            **table[pick]._asdict(),
            ms_per_image=ms[pick] if ms else self._milliseconds(n_words),
            codebook=self.codebook_at(n_words),
        )

    def _fold(self, held: NDArray[np.bool_], name: str, task: Task) -> Iterator[float]:
        """Walk without the bags held out; return the accuracies of its stops on them."""
        train, test = self._bags[np.flatnonzero(~held)], self._bags[np.flatnonzero(held)]
        seen, unseen = self._labels[~held], self._labels[held]
        book = words_from(self.codebook, train, self.classes_[seen], task)
        found, state = self._eliminate(book, train, seen, stage=name)

        def histograms() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
            for size in self.sizes_:
                words = book.only(book.ids[found.at(size)])
                if self._is_refined(size):
                    words = self._refine(words, train, seen)
                    learned: NDArray[Any] = self._coded(train, words)
                else:
                    # The state is exact, or for soft codes within its bound, so these are the
                    # histograms of re-encoding.
                    learned = state.reset(words.ids).histograms.copy()
                yield learned, self._coded(test, words)

        metadata = of_rows(self._for_classifier, self._bags, np.flatnonzero(~held))
        how = (len(self.classes_), self.classifier, self.n_jobs, metadata)
        return accuracies(histograms(), seen, unseen, *how)

    def _eliminate(
        self,
        book: Codebook,
        bags: Bags,
        labels: Labels,
        *,
        stage: str = "",
        task: Task | None = None,
    ) -> tuple[EliminationPath, HistogramState]:
        """Remove words from all to the fewest; return the path and the state at its end."""
        shared = self.__dict__.get("_shared")
        if shared is None or not shared.describes(book, bags):
            shared = SharedCodes(book, bags)
        show = bool(self.verbose) and task is not None and not task.observed
        how = (self.sharpness, self.n_jobs, show, self.transfer_options)
        score = make_score(self.score)
        score.begin(labels, len(self.classes_), bags.counts, self.coding)
        state = shared.state(self.coding, "exact", *how).reset(book.ids)
        saved = work_checkpoint(self, book, bags, labels, self.seed_)
        more: Any = {"checkpoint": saved.stage(stage) if stage else saved, "show": show}
        more |= {"repair": self.repair, "seed": self.seed_, "task": task}
        return eliminate(state, score, self.sizes_, **more), state

    def _is_refined(self, n_words: int) -> bool:
        return self.refine > 0 and n_words < self._book.n_words

    def _refine(self, words: Codebook, bags: Bags, labels: Labels) -> Codebook:
        plan = DescentPlan(
            self.refine, coding=self.coding, sharpness=self.sharpness, n_jobs=self.n_jobs
        )
        return refine_words(words, bags, labels, plan, seed=self.seed_).codebook

    def _coded(self, bags: Bags, words: Codebook) -> NDArray[np.float32]:
        return coded(bags, words, self.coding, self.sharpness, self.n_jobs)

    def _milliseconds(self, n_words: int) -> float:
        words = self.codebook_at(n_words)
        return milliseconds_per_image(words, self._bags, self.coding, self.sharpness)

    def _validate(self) -> None:
        super()._validate()
        check_transfer_options(self.coding, "exact", self.transfer_options)
        for name, least in (("repair", 0), ("refine", 0), ("cv", 2)):
            check_int(getattr(self, name), name, least)
