"""Leave-one-out: how well a linear classifier of the kept words tells bags it has not seen.

**The problem.** Scores of single words do not know what words tell together. A classifier does, and
for ridge regression its error on bags left out has a closed form. X are the square-rooted
histograms, centred; Y the classes as columns of 0 and 1; the intercept is not shrunk. With
A = X'X + αI and H = 1/n + X A⁻¹ X', leaving bag i out changes its residual r_i to

    r_i / (1 − H_ii)

(the PRESS statistic; Allen, 1974), so no bag is ever left out in fact. The score is minus the mean
over bags of ‖r_i / (1 − H_ii)‖², summed over the classes, at the α of a grid where it is largest.
Knowing only how frequent classes are gives about −(1 − Σ p(y)²); 0 would be perfect. The grid is
relative to the mean eigenvalue of X'X, so it means the same for any size of histogram.

This is not in the paper, whose Eq. 9 prefers redundant words. ``balanced=True`` weighs bags so that
all classes weigh the same: X, Y and the mean become weighted ones, and H_ii gets the weight w_i.

**Cost.** X'X and the class sums are kept; a changed column redoes its row of X'X. X'X = QTQ' with T
tridiagonal then serves the whole grid, for T + αI is solved in no time (``_ridge_kernel``); the
eigenvectors, four times the work, are not needed. That is n p² + O(p³) for any number of changed
columns. With more words than bags the n × n matrix XX' and its eigenvectors take the place. Entries
of X'X are computed anew, never added to, so errors do not pile up; a different history changes the
value by rounding alone.

**What may go.** The same regression tells for all columns at once what the score would be without
each: ``without_each`` and ``least_missed``, by :mod:`bowsaw.scores.backward`.

**Invariants.** Duplicate and constant columns, empty bags and p > n are no special cases: the ridge
is never 0. Where all columns are constant, the classes' frequencies are all that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lapack

from bowsaw.errors import ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.scores._ridge_kernel import left_out_errors, solve_ridges
from bowsaw.scores.backward import LEAST_LEFT, BackwardRidge
from bowsaw.scores.base import Score, clear_constant

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges to choose from, relative to the mean eigenvalue."""


class LeaveOneOut(Score):
    """Minus the mean squared leave-one-out error of ridge regression; at most 0.

    Parameters
    ----------
    ridges : sequence of float, default=RIDGES
        Ridges to choose from, above 0, relative to the mean eigenvalue of the square-rooted,
        centred histograms' X'X.
    balanced : bool, default=False
        Let all classes weigh the same.

    Attributes
    ----------
    ridge_ : float
        The relative ridge that was chosen at the last ``update``.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> telling = np.where(labels, 0.8, 0.2) + random.uniform(-0.1, 0.1, size=40)
    >>> score = LeaveOneOut().begin(labels, 2)
    >>> round(score.update(np.stack([telling, 1 - telling], axis=1)), 2)
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
        self.ridges = ridges
        self.balanced = balanced
        self._grid = grid

    def _prepare(self, n_descriptors: NDArray[np.float64] | None) -> None:
        n, sizes = len(self._labels), self._class_sizes
        weights = np.ones(n)
        if self.balanced:
            weights = n / (np.count_nonzero(sizes) * sizes[self._labels])
        self._shares = weights / n
        self._roots = np.sqrt(weights)
        targets = np.zeros((n, len(sizes)))
        targets[np.arange(n), self._labels] = 1
        centred = targets - self._shares @ targets
        # Rows times √w: weighted ridge is plain ridge on these.
        self._targets = centred * self._roots[:, None]

    def _make_room(self, n_columns: int) -> None:
        n, n_classes = len(self._labels), len(self._class_sizes)
        self._columns = np.zeros((n_columns, n))
        self._dual = n_columns > n
        size = 0 if self._dual else n_columns
        self._gram = np.zeros((size, size))
        self._moments = np.zeros((size, n_classes))

    def without_each(self, histograms: NDArray[Any]) -> NDArray[np.float64]:
        """Return the score without each column alone, ``(n_columns,)``.

        Exact at the ridge that the last ``update`` chose; the other columns are taken as they are,
        although pruning a word changes those of its heirs. The histograms may have other columns
        than those of the last ``update``.
        """
        return -self._backward(histograms).errors()

    def least_missed(
        self, histograms: NDArray[Any], n_columns: int, at_once: int = 1
    ) -> NDArray[np.int64]:
        """Return the columns that backward elimination drops first, in order.

        Parameters
        ----------
        histograms : ndarray of shape (n_bags, n_kept)
            As in ``without_each``.
        n_columns : int
            How many columns to drop, fewer than there are.
        at_once : int, default=1
            Columns that go before all are ranked again.

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

    def _centred(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        rooted = np.sqrt(rows.astype(np.float64))
        centred: NDArray[np.float64] = rooted - (rooted @ self._shares)[:, None]
        clear_constant(rooted, centred)
        centred *= self._roots
        return centred

    def _follow(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        with single_threaded_blas():
            centred = self._centred(rows)
            if len(columns) == self._n_columns:
                self._columns = centred
            else:
                self._columns[columns] = centred
            if self._dual:
                return self._by_bags()
            return self._by_words(centred, columns)

    def _by_words(self, centred: NDArray[np.float64], columns: NDArray[np.int64]) -> float:
        """Return the score by the p × p matrix of products of words."""
        if len(columns) == self._n_columns:
            self._gram = centred @ centred.T
            self._moments = centred @ self._targets
        else:
            part = centred @ self._columns.T
            self._gram[columns] = part
            self._gram[:, columns] = part.T
            self._moments[columns] = centred @ self._targets
        ridges = self._ridges(float(np.trace(self._gram)))
        diagonal, beside, along, moments = self._tridiagonal()
        n, n_classes = self._targets.shape
        slopes = np.empty((self._n_columns, len(ridges), n_classes))
        leverages = np.empty((len(ridges), n))
        solve_ridges(diagonal, beside, ridges, moments, along, slopes, leverages)
        return self._best(along, slopes, leverages)

    def _tridiagonal(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return T of X'X = Q T Q' by its two diagonals, X along Q and Y's moments along Q."""
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
        return diagonal, beside, along, moments

    def _by_bags(self) -> float:
        """Return the score by the n × n matrix of products of bags."""
        gram = self._columns.T @ self._columns
        ridges = self._ridges(float(np.trace(gram)))
        values, vectors = eigh(gram, check_finite=False, driver="evd")
        values = np.maximum(values, 0)
        along = np.sqrt(values)[:, None] * vectors.T
        inverse = 1 / (values[:, None] + ridges)
        slopes = inverse[:, :, None] * (along @ self._targets)[:, None, :]
        return self._best(along, slopes, inverse.T @ (along * along))

    def _ridges(self, trace: float) -> NDArray[np.float64]:
        """Return the grid in units of X'X; any will do where all columns are constant."""
        return self._grid * (trace / self._n_columns if trace > 0 else 1.0)

    def _best(
        self,
        along: NDArray[np.float64],
        slopes: NDArray[np.float64],
        leverages: NDArray[np.float64],
    ) -> float:
        """Return minus the least error on the grid."""
        # All ridges in one product: (n_bags, p) by (p, n_ridges · n_classes).
        fitted = along.T @ slopes.reshape(len(slopes), -1)
        errors = np.empty(len(self._grid))
        left_out_errors(
            fitted.reshape(-1, *slopes.shape[1:]),
            self._targets,
            leverages,
            self._shares,
            LEAST_LEFT,
            errors,
        )
        chosen = int(errors.argmin())
        self.ridge_ = float(self._grid[chosen])
        return -float(errors[chosen])
