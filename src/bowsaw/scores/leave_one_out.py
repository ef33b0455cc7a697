"""Leave-one-out: how well a linear classifier on the kept words predicts bags it has not seen.

**The problem.** Scores of single words ignore what words say together. A classifier does not, and
for ridge regression its error on left-out bags has a closed form. Let X be the square-rooted
histograms of p words in n bags, centred; Y the classes as columns of 0 and 1; the intercept is not
shrunk. With

    A = X'X + αI,  B = A⁻¹X'Y,  R = Y − XB,  H = 1/n + X A⁻¹ X',

leaving bag i out changes its residual R_i to R_i / (1 − H_ii) (the PRESS statistic; Allen, 1974).
The score is minus the mean over bags of ‖R_i‖² / (1 − H_ii)², at the best α of a grid relative to
the mean eigenvalue of X'X. Class frequencies alone give about −(1 − Σ p(y)²); 0 is perfect.

**Departure.** The paper's Eq. 9 prefers redundant words; this score is not in the paper.

**Cost.** X'X is stored; a changed column recomputes its row. X'X = QTQ' with T tridiagonal serves
the whole grid (``_ridge_kernel``) at a quarter of the work of eigenvectors: n p² + O(p³) for any
number of changed columns. With more words than bags, XX' and its eigenvectors are used instead.
Entries of X'X are recomputed, never added to, so errors do not accumulate.

**Removing a column.** With z_k = XA⁻¹e_k, removing column k changes

    R to R + z_k B_k / (A⁻¹)_kk    and    H_ii to H_ii − z_ik² / (A⁻¹)_kk

(a rank-one change), so the errors without each column cost n p per class for all columns, and
removing one costs n p, at fixed α. The other columns stay as they are, whereas pruning gives a
word's descriptors to others: this ranks, and the caller moves the state every few words.

**Gradient.** To move words, a descent needs the derivative of the error by every entry of X. Let
P_i = 2 R_i / (n (1 − h_i)²), s_i = 2 ‖R_i‖² / (n (1 − h_i)³), Z = XA⁻¹, Q = A⁻¹X'P. With α fixed,

    ∂error/∂X = −PB' − RQ' + XQB' + 2 (SZ − Z X'SZ),  S = diag(s),

centred per column and divided by 2√(f + ``floor``), for the slope of the root is infinite at 0.
Cost: one eigendecomposition, and n p (n + p + n_classes). The ridge of the gradient is 3, or a
tenth of p if that is less. Words that move make the error small at the smallest ridge of a grid,
on the bags that move them: with a fixed one, 50 words were 1 to 2 points more accurate on
validation images of the benchmarks. Subsets did not gain by it (``benchmarks/tuning.py`` compares).

**Invariants.** Duplicate and constant columns, empty bags and p > n are no special cases: the ridge
is never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, lapack

from bowsaw.errors import ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.scores import _ridge_kernel as kernel
from bowsaw.scores.base import Score, clear_constant

Floats = NDArray[np.float64]

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges to choose from, relative to the mean eigenvalue."""
RIDGE, PER_WORD = 3.0, 0.1
"""The ridge of the gradient, relative to the mean eigenvalue, and its most per word."""
LEAST_LEFT = 1e-9
"""The lower limit of 1 − H_ii under rounding."""
_LEAST_SCALE = 1e-12
"""The lower limit of (A⁻¹)_kk under rounding, relative to its largest possible value, 1 / α."""


class LeaveOneOut(Score):
    """Minus the mean squared leave-one-out error of ridge regression; at most 0.

    Parameters
    ----------
    ridges : sequence of float, default=RIDGES
        Ridges to choose from, above 0, relative to the mean eigenvalue of the square-rooted,
        centred histograms' X'X.
    balanced : bool, default=False
        Give all classes the same weight.

    Attributes
    ----------
    ridge_ : float
        The relative ridge that was chosen at the last ``update``.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> informative = np.where(labels, 0.8, 0.2) + random.uniform(-0.1, 0.1, size=40)
    >>> score = LeaveOneOut().begin(labels, 2)
    >>> round(score.update(np.stack([informative, 1 - informative], axis=1)), 2)
    -0.03
    >>> round(score.update(random.uniform(size=(40, 3))), 2)
    -0.53
    """

    name = "leave-one-out"
    _own = ("_columns", "_gram", "_moments")

    def __init__(self, *, ridges: Sequence[float] = RIDGES, balanced: bool = False) -> None:
        grid = np.asarray(ridges, dtype=np.float64)
        if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
            raise ParameterError(f"ridges must be finite numbers above 0; got {ridges!r}.")
        self.ridges, self.balanced, self._grid = ridges, balanced, grid

    def without_each(self, histograms: NDArray[Any]) -> Floats:
        """Return the score without each column alone, ``(n_columns,)``.

        Exact at the ridge that the last ``update`` chose, the other columns unchanged. The
        histograms may have other columns than those of the last ``update``.
        """
        return -self._backward(histograms).errors()

    def least_missed(
        self, histograms: NDArray[Any], n_columns: int, at_once: int = 1
    ) -> NDArray[np.int64]:
        """Return the ``n_columns`` that backward elimination removes first, in order.

        ``at_once`` of them are removed before all are ranked again.

        Examples
        --------
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], 20)
        >>> random = np.random.default_rng(0)
        >>> words = random.uniform(size=(40, 3))
        >>> words[:, 1] = labels
        >>> score = LeaveOneOut().begin(labels, 2)
        >>> _ = score.update(words)
        >>> sorted(score.least_missed(words, 2).tolist())
        [0, 2]
        """
        return self._backward(histograms).drop(n_columns, at_once)

    def _backward(self, histograms: NDArray[Any]) -> BackwardRidge:
        with single_threaded_blas():
            centred = self._centred(histograms.T)
        trace = float(np.einsum("ki,ki->", centred, centred))
        ridge = self.ridge_ * (trace / len(centred) if trace > 0 else 1.0)
        return BackwardRidge(centred, self._targets, self._shares, ridge)

    def _prepare(self, n_descriptors: Floats | None) -> None:
        n, sizes = len(self._labels), self._class_sizes
        weights = np.ones(n)
        if self.balanced:
            weights = n / (np.count_nonzero(sizes) * sizes[self._labels])
        self._shares, self._roots = weights / n, np.sqrt(weights)
        targets = np.eye(len(sizes))[self._labels]
        centred = targets - self._shares @ targets
        # Rows times √w: weighted ridge is plain ridge on these.
        self._targets = centred * self._roots[:, None]

    def _allocate(self, n_columns: int) -> None:
        n, n_classes = len(self._labels), len(self._class_sizes)
        self._columns = np.zeros((n_columns, n))
        self._dual = n_columns > n
        size = 0 if self._dual else n_columns
        self._gram = np.zeros((size, size))
        self._moments = np.zeros((size, n_classes))

    def _centred(self, rows: NDArray[Any]) -> Floats:
        rooted = np.sqrt(rows.astype(np.float64))
        centred: Floats = rooted - (rooted @ self._shares)[:, None]
        clear_constant(rooted, centred)
        centred *= self._roots
        return centred

    def _recompute(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        with single_threaded_blas():
            centred = self._centred(rows)
            if len(columns) == self._n_columns:
                self._columns = centred
            else:
                self._columns[columns] = centred
            if self._dual:
                return self._by_bags()
            return self._by_words(centred, columns)

    def _by_words(self, centred: Floats, columns: NDArray[np.int64]) -> float:
        """Return the score by X'X."""
        if len(columns) == self._n_columns:
            self._gram = centred @ centred.T
            self._moments = centred @ self._targets
        else:
            part = centred @ self._columns.T
            self._gram[columns] = part
            self._gram[:, columns] = part.T
            self._moments[columns] = centred @ self._targets
        ridges = self._grid * self._mean_eigenvalue(float(np.trace(self._gram)))
        matrix = self._tridiagonal()
        n, n_classes = self._targets.shape
        slopes = np.empty((self._n_columns, len(ridges), n_classes))
        leverages = np.empty((len(ridges), n))
        kernel.solve_ridges(matrix, ridges, slopes, leverages)
        return self._best(matrix.along, slopes, leverages)

    def _tridiagonal(self) -> kernel.Tridiagonal:
        p = self._n_columns
        work = int(lapack.dsytrd_lwork(p, lower=1)[0])
        reflectors, diagonal, beside, scales, _ = lapack.dsytrd(self._gram, lower=1, lwork=work)
        along, moments = self._columns.copy(), self._moments.copy()
        if p > 1:
            # Q leaves the first word as it is; the reflectors of the others are those of a QR.
            below = np.asfortranarray(reflectors[1:, :-1])
            turn, _, _ = lapack.dorgqr(below, scales, lwork=work, overwrite_a=True)
            np.dot(turn.T, self._columns[1:], out=along[1:])
            np.dot(turn.T, self._moments[1:], out=moments[1:])
        return kernel.Tridiagonal(diagonal, beside, along, moments)

    def _by_bags(self) -> float:
        """Return the score by XX'."""
        gram = self._columns.T @ self._columns
        ridges = self._grid * self._mean_eigenvalue(float(np.trace(gram)))
        values, vectors = eigh(gram, check_finite=False, driver="evd")
        values = np.maximum(values, 0)
        along = np.sqrt(values)[:, None] * vectors.T
        inverse = 1 / (values[:, None] + ridges)
        slopes = inverse[:, :, None] * (along @ self._targets)[:, None, :]
        return self._best(along, slopes, inverse.T @ (along * along))

    def _mean_eigenvalue(self, trace: float) -> float:
        # Where all columns are constant, any ridge gives the same.
        return trace / self._n_columns if trace > 0 else 1.0

    def _best(self, along: Floats, slopes: Floats, leverages: Floats) -> float:
        """Return minus the least error on the grid."""
        # All ridges in one product: (n_bags, p) by (p, n_ridges · n_classes).
        fitted = (along.T @ slopes.reshape(len(slopes), -1)).reshape(-1, *slopes.shape[1:])
        errors = np.empty(len(self._grid))
        kernel.left_out_errors(fitted, self._targets, leverages, self._shares, LEAST_LEFT, errors)
        chosen = int(errors.argmin())
        self.ridge_ = float(self._grid[chosen])
        return -float(errors[chosen])


class BackwardRidge:
    """A ridge regression on centred ``columns``, ``(n_words, n_bags)``, with removal."""

    def __init__(self, columns: Floats, targets: Floats, shares: Floats, ridge: float) -> None:
        self._ridge = ridge
        self._least = _LEAST_SCALE / ridge
        n_words, n_bags = columns.shape
        by_bags = n_words > n_bags
        with single_threaded_blas():
            gram = columns.T @ columns if by_bags else columns @ columns.T
            gram[np.diag_indices(len(gram))] += ridge
            factor = cho_factor(gram, overwrite_a=True, check_finite=False)
            solved = cho_solve(factor, columns.T if by_bags else columns, check_finite=False)
            # C order, one word per row: the kernels run along the bags.
            lines = np.ascontiguousarray(solved.T if by_bags else solved)
            slopes = lines @ targets
            residuals = targets - columns.T @ slopes
        explained = np.einsum("ki,ki->k", columns, lines)
        scale = np.maximum((1 - explained) / ridge, self._least)
        left = 1 - shares - np.einsum("ki,ki->i", columns, lines)
        is_removed = np.zeros(n_words, dtype=bool)
        self._fit = kernel.Regression(columns, lines, scale, slopes, residuals, left, is_removed)

    def errors(self) -> Floats:
        """Return the mean squared leave-one-out error without each word, inf for removed ones."""
        slopes, residuals = self._fit.slopes, self._fit.residuals
        with single_threaded_blas():
            crossed = slopes @ residuals.T
        squares = np.einsum("kc,kc->k", slopes, slopes), np.einsum("ic,ic->i", residuals, residuals)
        errors = np.empty(len(slopes))
        kernel.errors_without(self._fit, crossed, *squares, LEAST_LEFT, errors)
        errors[self._fit.is_removed] = np.inf
        return errors

    def drop(self, n_words: int, at_once: int = 1) -> NDArray[np.int64]:
        """Remove the words with the least error without them, ``at_once`` per ranking, in order."""
        removed: list[int] = []
        while len(removed) < n_words:
            ranked = np.argsort(self.errors(), kind="stable")
            for word in ranked[: min(at_once, n_words - len(removed))].tolist():
                kernel.remove_column(self._fit, word, self._ridge, self._least)
                removed.append(word)
        return np.array(removed, dtype=np.int64)


def leave_one_out_gradient(
    histograms: ArrayLike,
    targets: Floats,
    *,
    ridges: Sequence[float] | None = None,
    floor: float = 1e-4,
) -> tuple[float, Floats]:
    """Return the leave-one-out error (minus the score) and its gradient, ``(n_bags, n_words)``.

    ``targets`` are the classes as columns of 0 and 1; ``floor`` is added to every entry before its
    root. With ``floor=0`` the error is exactly that of :class:`LeaveOneOut` with the same ridges;
    None is ``RIDGE``, or ``PER_WORD`` times the number of words if that is less.
    """
    entries = np.asarray(histograms, dtype=np.float64)
    n, p = entries.shape
    with single_threaded_blas():
        rooted = np.sqrt(entries + floor)
        X = rooted - rooted.mean(axis=0)
        clear_constant(rooted.T, X.T)
        Y = targets - targets.mean(axis=0)
        # By words or by bags, whichever are fewer: XA⁻¹X' has the same eigenvectors either way.
        by_words = p <= n
        gram = X.T @ X if by_words else X @ X.T
        values, vectors = eigh(gram, check_finite=False)
        values = np.maximum(values, 0)
        # Left singular vectors times singular values, (n, min(n, p)).
        scores = X @ vectors if by_words else vectors * np.sqrt(values)
        squares, moments = scores * scores, scores.T @ Y
        mean_value = float(values.sum()) / p if values.sum() > 0 else 1.0

        def fit(shrunk: Floats) -> tuple[Floats, Floats, float]:
            residuals: Floats = Y - scores @ (moments / shrunk[:, None])
            left = np.maximum(1 - 1 / n - (squares / shrunk).sum(axis=1), LEAST_LEFT)
            return residuals, left, float(((residuals**2).sum(axis=1) / left**2).mean())

        usual = (min(RIDGE, PER_WORD * p),)
        alphas = [ridge * mean_value for ridge in (usual if ridges is None else ridges)]
        shrunk = values + min(alphas, key=lambda alpha: fit(values + alpha)[2])
        residuals, left, error = fit(shrunk)
        inverse = (vectors / shrunk) @ vectors.T
        Z = X @ inverse if by_words else inverse @ X
        pulls = residuals * (2 / (n * left**2))[:, None]
        slopes, back = Z.T @ Y, Z.T @ pulls
        weights = 2 * (residuals**2).sum(axis=1) / (n * left**3)
        weighted = Z * weights[:, None]
        gradient = X @ (back @ slopes.T) - pulls @ slopes.T - residuals @ back.T
        turned = Z @ (X.T @ weighted) if by_words else (Z @ X.T) @ weighted
        gradient += 2 * (weighted - turned)
        gradient -= gradient.mean(axis=0)
        gradient /= 2 * rooted
    return error, gradient
