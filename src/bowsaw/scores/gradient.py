"""How the leave-one-out error changes with every entry of the histograms.

**The problem.** ``leave_one_out`` scores a set of words by ridge regression on bags left out. To
*move* words, not only to swap them, one must know which way each bag's histogram should change.
The closed form of the error has a closed form of its gradient.

With X the square-rooted histograms, centred, A = X'X + αI, Y the centred classes,

    B = A⁻¹X'Y,  R = Y − XB,  h = 1/n + diag(XA⁻¹X'),  error = mean over i of ‖R_i‖² / (1 − h_i)².

Let P_i = 2 R_i / (n (1 − h_i)²), s_i = 2 ‖R_i‖² / (n (1 − h_i)³), Z = XA⁻¹, Q = A⁻¹X'P. Then, α
held fixed (it is the best of its grid, where the error hardly depends on it),

    ∂error/∂X = −PB' − RQ' + XQB' + 2 (SZ − Z X'SZ),  S = diag(s),

from which the mean of each column is taken, for X is centred, and which is divided by 2√f, the
square root's own slope. That slope is infinite at 0, so the root is of f + ``floor`` here: this is
the score of ``leave_one_out`` at ``floor=0``, and a little smoother above.

**Cost.** The smaller of n³ and p³ for one eigendecomposition, and n p (n + p + classes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from bowsaw.parallel import single_threaded_blas
from bowsaw.scores.base import clear_constant
from bowsaw.scores.leave_one_out import RIDGES

Floats = NDArray[np.float64]


def leave_one_out_gradient(
    histograms: ArrayLike,
    targets: Floats,
    *,
    ridges: Sequence[float] = RIDGES,
    floor: float = 1e-4,
) -> tuple[float, Floats]:
    """Return the leave-one-out error and its gradient.

    Parameters
    ----------
    histograms : array-like of shape (n_bags, n_words)
        Entries from 0 up.
    targets : ndarray of float64, shape (n_bags, n_classes)
        Classes as columns of 0 and 1.
    ridges : sequence of float, default=RIDGES
        Ridges to choose from, relative to the mean eigenvalue of X'X.
    floor : float, default=1e-4
        Added to every entry before its root.

    Returns
    -------
    error : float
        The mean squared error of bags left out, at the best ridge; minus the score.
    gradient : ndarray of float64, shape (n_bags, n_words)
        Of the error by the entries of the histograms.

    Examples
    --------
    >>> import numpy as np
    >>> histograms = np.array([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
    >>> error, gradient = leave_one_out_gradient(histograms, np.eye(2)[[0, 0, 1, 1]])
    >>> gradient.shape, bool(gradient[0, 0] < 0)
    ((4, 2), True)
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
        best: tuple[float, float] | None = None
        for ridge in ridges:
            alpha = ridge * mean_value
            residuals = Y - scores @ (moments / (values + alpha)[:, None])
            left = _left(squares, values + alpha)
            error = float(((residuals**2).sum(axis=1) / left**2).mean())
            if best is None or error < best[0]:
                best = (error, alpha)
        assert best is not None
        error, alpha = best
        shrunk = values + alpha
        residuals = Y - scores @ (moments / shrunk[:, None])
        left = _left(squares, shrunk)
        if by_words:
            inverse = (vectors / shrunk) @ vectors.T
            Z = X @ inverse
        else:
            Z = ((vectors / shrunk) @ vectors.T) @ X
        pulls = residuals * (2 / (n * left**2))[:, None]
        slopes, back = Z.T @ Y, Z.T @ pulls
        weights = 2 * (residuals**2).sum(axis=1) / (n * left**3)
        weighted = Z * weights[:, None]
        gradient = X @ (back @ slopes.T) - pulls @ slopes.T - residuals @ back.T
        if by_words:
            gradient += 2 * (weighted - Z @ (X.T @ weighted))
        else:
            gradient += 2 * (weighted - (Z @ X.T) @ weighted)
        gradient -= gradient.mean(axis=0)
        gradient /= 2 * rooted
    return error, gradient


def _left(squares: Floats, shrunk: Floats) -> Floats:
    """Return 1 − h of every bag."""
    left: Floats = 1 - 1 / len(squares) - (squares / shrunk).sum(axis=1)
    return np.maximum(left, 1e-9)
