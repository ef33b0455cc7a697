r"""A linear support vector machine for histograms, with its C chosen.

Two settings of a linear classifier would otherwise decide more than the codebook:

- **Scale.** A histogram of 1000 words has a norm near 0.05, so the same C means something else for
  each size. The mapped training rows are divided by their mean norm (``scale_``); the solver then
  converges in tens of steps, and one grid of C serves every size.
- **C** is chosen on images that nothing was fitted to: validation rows when they are given (the
  codebook's own images, whose labels no selection of words has seen), else by stratified
  cross-validation inside the training rows. The C with the best *mean per-class* accuracy wins, of
  equally good ones the smallest.

One linear machine per class (one against the rest) with squared hinge loss, for labels
:math:`t_i = \pm 1` and rows :math:`x_i`:

.. math:: \min_{w, b}\ \tfrac12 (\|w\|^2 + b^2) + C \sum_i \max(0, 1 - t_i (w x_i + b))^2

It is solved in the primal by liblinear's trust-region Newton method, in 4 to 340 steps on the
benchmark images (the dual coordinate method, with 50 words and a large C, needed more than 20 000).
A pass over the default grid, 15 classes × 50 images × 1000 words, takes three to six seconds on one
core. Dense rows that are longer than they are many (soft codes with 5000 words) are first rotated
into the space that they span: norms and products stay the same, and the best ``w`` lies in it.

The square root of a histogram makes the linear kernel the Bhattacharyya coefficient and reduces the
weight of frequent words. It is signed, so that negative entries are mapped too.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.evaluation.significance import accuracy_margin
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.progress import CallbackSupport, Task, fit_task, with_callbacks
from bowsaw.random_streams import seed_from, stream
from bowsaw.selection.holdout import assign_folds, check_all_are_seen, check_groups, n_groups_of
from bowsaw.validation import check_choice, check_int, check_real

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

Mapped = Literal["sqrt", "raw"]
MAPPINGS: tuple[Mapped, ...] = ("sqrt", "raw")
CALLED: dict[str, str] = {"sqrt": "square-rooted", "raw": "raw"}
"""Names of the mappings for readers."""

DEFAULT_GRID = tuple(4.0**k for k in range(-3, 8))
"""From 1/64 to 16384, a factor 4 apart; a factor 2 chose no better. With 50, 1000 and 3000 words, C
was 1/4 to 16 on 15-Scenes and 1 to 64 on Caltech-10; flat soft codes need 1024 to 4096."""


class _Machine(NamedTuple):
    """One trained machine per class; for two classes a single one."""

    coef: Floats
    intercept: Floats
    n_iter: int

    def decide(self, rows: Floats) -> Floats:
        return np.asarray(rows @ self.coef.T + self.intercept)

    def label(self, rows: Floats) -> Labels:
        scores = self.decide(rows)
        best = scores[:, 0] > 0 if scores.shape[1] == 1 else np.argmax(scores, axis=1)
        return np.asarray(best, dtype=np.int64)


class HistogramClassifier(CallbackSupport, ClassifierMixin, BaseEstimator):
    """Linear support vector machine on histograms, with C chosen by mean per-class accuracy.

    Parameters
    ----------
    mapping : {"sqrt", "raw"}, default="sqrt"
        What is done to each entry first: its (signed) square root, or nothing.
    C : float or "auto", default="auto"
        The weight of errors; "auto" chooses it from ``grid``.
    grid : sequence of float, optional
        The values of C to choose from; 4⁻³, 4⁻², … 4⁷ by default.
    cv : int, default=5
        Folds of the cross-validation that chooses C when no validation rows are given.
    tol : float, default=1e-3
        Where the solver stops, relative to its first gradient.
    max_iter : int, default=2000
        The most steps that the solver takes; reaching it gives a ConvergenceWarning.
    n_jobs : int or None, default=-1
        Threads that share the grid; the result does not depend on it.
    random_state : int, RandomState or None, default=None
        Assigns rows to the folds; nothing else is random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Weights of the mapped and scaled histograms.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        The constants that are added.
    scale_ : float
        What mapped rows are multiplied with: one over the mean norm of the training rows.
    C_ : float
        The C that was used.
    grid_, scores_ : ndarray of shape (n_grid,)
        The values of C that were tried, rising, and the mean per-class accuracy of each on the
        rows that chose C: their maximum is optimistic and no accuracy to report. Both are empty
        when C was given. :func:`nested_accuracy` measures one.
    n_iter_ : int
        Steps of the slowest machine.
    n_features_in_ : int
        Words of the histograms.
    feature_names_in_ : ndarray of str
        Names of the words, when ``fit`` was given a frame.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.evaluation.classifier import HistogramClassifier
    >>> X = np.array([[0.8, 0.1, 0.1], [0.7, 0.3, 0.0], [0.1, 0.2, 0.7], [0.0, 0.1, 0.9]])
    >>> model = HistogramClassifier(C=1.0).fit(X, ["sky", "sky", "sea", "sea"])
    >>> model.predict([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7]]).tolist()
    ['sky', 'sea']
    """

    def __init__(
        self,
        mapping: Mapped = "sqrt",
        *,
        C: float | Literal["auto"] = "auto",
        grid: Sequence[float] | None = None,
        cv: int = 5,
        tol: float = 1e-3,
        max_iter: int = 2000,
        n_jobs: int | None = -1,
        random_state: Any = None,
    ) -> None:
        self.mapping = mapping
        self.C = C
        self.grid = grid
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    def validate(self) -> list[float]:
        """Raise a ParameterError when a parameter is out of range; return the grid, rising."""
        check_choice(self.mapping, "mapping", MAPPINGS)
        if self.C != "auto":
            check_real(self.C, "C", 0, open_low=True, remedy='Or give "auto".')
        for name, least in (("cv", 2), ("max_iter", 1)):
            check_int(getattr(self, name), name, least)
        check_real(self.tol, "tol", 0, open_low=True)
        grid = DEFAULT_GRID if self.grid is None else self.grid
        if isinstance(grid, str) or not hasattr(grid, "__iter__") or not len(list(grid)):
            raise ParameterError(f"grid must be a list of values of C, or None; got {grid!r}.")
        return sorted({check_real(c, "grid", 0, open_low=True) for c in grid})

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_validation: ArrayLike | None = None,
        y_validation: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose C and train the machines on ``X`` and ``y``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Histograms, one per row.
        y : array-like of shape (n_samples,)
            Their classes.
        X_validation : array-like of shape (n_validation, n_features), optional
            Histograms to choose C on. They never train the machines. Not used when C is a number.
        y_validation : array-like of shape (n_validation,), optional
            Their classes, each one of ``y``'s.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together, such as images of one place: no group is on both sides of a
            fold of the cross-validation that chooses C.
        """
        grid = self.validate()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"y must name at least 2 classes; got 1 class, {self.classes_.tolist()[0]!r}. Add "
                "training rows of another class."
            )
        together = check_groups(groups, len(labels))
        mapped = self._map(X)
        norm = float(np.linalg.norm(mapped, axis=1).mean())
        self.scale_ = 1.0 / norm if norm > 0 else 1.0
        rows = mapped * self.scale_
        with fit_task(self, self.cv, X=X, y=y) as task, single_threaded_blas():
            if self.C != "auto":
                self.grid_, self.scores_ = np.empty(0), np.empty(0)
                self.C_ = float(self.C)
                machine = self._train(rows, labels, [self.C_])[0]
            elif X_validation is not None or y_validation is not None:
                held, truth = self._validation(X_validation, y_validation)
                machines = self._train(rows, labels, grid)
                scores = [self._score(truth, machine.label(held)) for machine in machines]
                machine = machines[self._choose(grid, scores)]
            else:
                self._choose(grid, self._cross_validate(rows, labels, grid, together, task))
                machine = self._train(rows, labels, [self.C_])[0]
            # Before the task ends: callbacks may ask for the fitted machine.
            self.coef_, self.intercept_, self.n_iter_ = machine
        if self.n_iter_ >= self.max_iter:
            warnings.warn(
                f"the machine with C = {self.C_:g} did not converge in max_iter = {self.max_iter} "
                "steps; its weights are rough. Raise max_iter or tol, or ask for a smaller C.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return how far each histogram lies on the side of each class.

        The result has shape (n_samples, n_classes), or (n_samples,) for two classes; numbers are
        positive on the side of the class (of ``classes_[1]`` when there are two).
        """
        scores = self._fitted_machine().decide(self._rows(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each histogram, ``(n_samples,)``."""
        machine = self._fitted_machine()
        return np.asarray(self.classes_[machine.label(self._rows(X))])

    def _fitted_machine(self) -> _Machine:
        check_is_fitted(self)
        return _Machine(self.coef_, self.intercept_, self.n_iter_)

    def _rows(self, X: ArrayLike) -> Floats:
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._map(X) * self.scale_

    def _map(self, X: Any) -> Floats:
        if self.mapping == "raw":
            return np.asarray(X)
        return np.asarray(np.copysign(np.sqrt(np.abs(X)), X))

    def _validation(
        self, X_validation: ArrayLike | None, y_validation: ArrayLike | None
    ) -> tuple[Floats, Labels]:
        if X_validation is None or y_validation is None:
            missing = "X_validation" if X_validation is None else "y_validation"
            raise DataError(f"{missing} is missing. Give X_validation and y_validation together.")
        held = self._rows(X_validation)
        names = np.asarray(y_validation)
        if names.shape != (len(held),):
            raise DataError(
                f"y_validation must have one entry per row of X_validation ({len(held)}); got "
                f"shape {names.shape}."
            )
        unknown = ~np.isin(names, self.classes_)
        if unknown.any():
            raise DataError(
                f"y_validation holds the class {names[unknown].tolist()[0]!r}, which y does not. "
                f"Choose C on the {len(self.classes_)} classes of y."
            )
        return held, np.searchsorted(self.classes_, names)

    def _cross_validate(
        self, rows: Floats, labels: Labels, grid: list[float], groups: Labels | None, task: Task
    ) -> list[float]:
        sizes = n_groups_of(labels, groups)
        if sizes.min() < 2:
            what = "row" if groups is None else "group"
            raise DataError(
                f"class {self.classes_.tolist()[sizes.argmin()]!r} has 1 {what}, and "
                "cross-validation needs 2 of each class. Give validation rows, or a number as C."
            )
        fold = assign_folds(labels, self.cv, stream(seed_from(self.random_state), "folds"), groups)
        check_all_are_seen(fold, labels, self.classes_)
        guesses = np.empty((len(grid), len(labels)), dtype=np.int64)
        for held in (fold == f for f in np.unique(fold)):
            with task.part("fold"):
                machines = self._train(rows[~held], labels[~held], grid)
                for guess, machine in zip(guesses, machines, strict=True):
                    guess[held] = machine.label(rows[held])
        return [self._score(labels, guess) for guess in guesses]

    def _score(self, truth: Labels, guess: Labels) -> float:
        return mean_class_accuracy(truth, guess, len(self.classes_))

    def _choose(self, grid: list[float], scores: list[float]) -> int:
        self.grid_, self.scores_ = np.array(grid), np.array(scores)
        # Equal shares of right answers may differ in the last bit of their mean.
        best = int(np.argmax(np.round(self.scores_, 12)))
        self.C_ = grid[best]
        return best

    def _train(self, rows: Floats, labels: Labels, costs: Sequence[float]) -> list[_Machine]:
        n_rows = len(rows)
        basis: Floats | None = None
        # liblinear skips zeros, so the square of n_rows values must be fewer than the non-zeros.
        if np.count_nonzero(rows) > n_rows * n_rows:
            basis, upper = qr(rows.T, mode="economic", check_finite=False)
            rows = np.ascontiguousarray(upper.T)

        def one(cost: float) -> _Machine:
            machine = LinearSVC(C=cost, dual=False, tol=self.tol, max_iter=self.max_iter)
            machine.fit(rows, labels)
            coef = machine.coef_ if basis is None else machine.coef_ @ basis.T
            return _Machine(coef, machine.intercept_, int(np.max(machine.n_iter_)))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return list(ordered_map(one, costs, self.n_jobs))


def labels_by_c(
    classifier: HistogramClassifier, X: ArrayLike, y: Labels, X_test: ArrayLike
) -> tuple[list[float], Labels]:
    """Train one machine per C; return the grid and the test rows' labels, (n_grid, n_test)."""
    grid = classifier.validate()
    model = clone(classifier).set_params(C=grid[0]).fit(X, y)
    with single_threaded_blas():
        machines = model._train(model._rows(X), np.searchsorted(model.classes_, y), grid)
    rows = model._rows(X_test)
    return grid, np.array([model.classes_[machine.label(rows)] for machine in machines])


def nested_accuracy(
    classifier: Any, X: ArrayLike, y: ArrayLike, *, seed: int = 0, n_folds: int = 5
) -> tuple[float, float]:
    """Return the mean per-class accuracy on rows that chose nothing, and half of its 95 % interval.

    The rows of each class are spread over the folds, no more than the smallest class has rows. For
    each fold a clone of the classifier is fitted to the other rows, and whatever its ``fit``
    chooses, such as C, is chosen again among these.

    Examples
    --------
    >>> X = np.repeat([[0.8, 0.2], [0.3, 0.7]], 10, axis=0)
    >>> mean, margin = nested_accuracy(HistogramClassifier(), X, np.repeat(["sky", "sea"], 10))
    >>> mean, round(margin, 2)
    (1.0, 0.16)
    """
    rows = np.asarray(X)
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    counts = np.bincount(labels)
    n_folds = min(n_folds, int(counts.min()))
    if n_folds < 2:
        raise DataError(
            f"class {classes.tolist()[counts.argmin()]!r} has 1 row, and cross-validation needs 2 "
            "of each class. Add rows, or leave the class out."
        )
    fold = assign_folds(labels, n_folds, stream(seed, "outer folds"))
    found = []
    for held in (fold == f for f in range(n_folds)):
        guess = clone(classifier).fit(rows[~held], labels[~held]).predict(rows[held])
        found.append(mean_class_accuracy(labels[held], guess, len(classes)))
    return float(np.mean(found)), accuracy_margin(found, 1 / (n_folds - 1), counts)
