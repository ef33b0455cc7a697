"""Ridge regression for many ridges from one tridiagonal matrix: arrays in, arrays out.

With G = Q T Q', T tridiagonal, G + αI = Q (T + αI) Q' for every α, and T + αI = L D L' with L unit
bidiagonal: solving with it costs no more than reading the right-hand side. The pivots D of a matrix
whose least eigenvalue is at least α are at least α, which holds back rounding.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True, error_model="numpy")
def solve_ridges(
    diagonal: NDArray[np.float64],
    beside: NDArray[np.float64],
    ridges: NDArray[np.float64],
    moments: NDArray[np.float64],
    along: NDArray[np.float64],
    slopes: NDArray[np.float64],
    leverages: NDArray[np.float64],
) -> None:
    """Write (T + αI)⁻¹ moments and the diagonal of along' (T + αI)⁻¹ along, for each ridge α.

    ``moments`` is (p, n_classes), ``along`` (p, n_bags), ``slopes`` (p, n_ridges, n_classes) and
    ``leverages`` (n_ridges, n_bags).
    """
    p, n_classes = moments.shape
    n_bags = along.shape[1]
    pivots, below = np.empty(p), np.empty(p)
    forward = np.empty(n_bags)
    for r in range(len(ridges)):
        ridge = ridges[r]
        leverage = leverages[r]
        leverage[:] = 0.0
        forward[:] = 0.0
        factor = 0.0
        for j in range(p):
            pivot = diagonal[j] + ridge
            if j > 0:
                pivot -= beside[j - 1] * factor
            pivot = pivot if pivot > ridge else ridge
            inverse = 1.0 / pivot
            row = along[j]
            for i in range(n_bags):
                u = row[i] - factor * forward[i]
                forward[i] = u
                leverage[i] += u * u * inverse
            for c in range(n_classes):
                before = slopes[j - 1, r, c] if j > 0 else 0.0
                slopes[j, r, c] = moments[j, c] - factor * before
            pivots[j] = inverse
            factor = beside[j] * inverse if j < p - 1 else 0.0
            below[j] = factor
        for j in range(p - 1, -1, -1):
            for c in range(n_classes):
                after = slopes[j + 1, r, c] if j < p - 1 else 0.0
                slopes[j, r, c] = slopes[j, r, c] * pivots[j] - below[j] * after


@njit(nogil=True, cache=True, error_model="numpy")
def left_out_errors(
    fitted: NDArray[np.float64],
    targets: NDArray[np.float64],
    leverages: NDArray[np.float64],
    shares: NDArray[np.float64],
    least_left: float,
    errors: NDArray[np.float64],
) -> None:
    """Write the mean over bags of the squared leave-one-out residuals, for each ridge.

    ``fitted`` is (n_bags, n_ridges, n_classes), ``targets`` (n_bags, n_classes), ``leverages``
    (n_ridges, n_bags) without the intercept's, which is ``shares``.
    """
    n_bags, n_ridges, n_classes = fitted.shape
    errors[:] = 0.0
    for i in range(n_bags):
        for r in range(n_ridges):
            left = 1.0 - shares[i] - leverages[r, i]
            left = left if left > least_left else least_left
            total = 0.0
            for c in range(n_classes):
                residual = targets[i, c] - fitted[i, r, c]
                total += residual * residual
            errors[r] += total / (left * left)
    errors /= n_bags
