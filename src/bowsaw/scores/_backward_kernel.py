"""What each word is worth to a ridge regression, and letting one go: arrays in, arrays out.

Words are rows here and bags run along them, so that the inner loops are over neighbours in memory.
``scale`` is (A⁻¹)_kk of each word, ``lines`` z_k = X A⁻¹ e_k, ``slopes`` B: see ``backward``.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def errors_without(
    lines: NDArray[np.float64],
    scale: NDArray[np.float64],
    slope_squares: NDArray[np.float64],
    crossed: NDArray[np.float64],
    residual_squares: NDArray[np.float64],
    left: NDArray[np.float64],
    least_left: float,
    errors: NDArray[np.float64],
) -> None:
    """Write the mean squared leave-one-out error without each word alone.

    ``crossed`` is R B' (one row a word), ``left`` 1 − H_ii, ``residual_squares`` ‖R_i‖².
    """
    n_words, n_bags = lines.shape
    for k in range(n_words):
        inverse = 1.0 / scale[k]
        square = slope_squares[k] * inverse * inverse
        line, cross = lines[k], crossed[k]
        total = 0.0
        for i in range(n_bags):
            z = line[i]
            rest = left[i] + z * z * inverse
            rest = rest if rest > least_left else least_left
            residual = residual_squares[i] + 2.0 * z * cross[i] * inverse + z * z * square
            total += residual / (rest * rest)
        errors[k] = total / n_bags


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def let_go(
    word: int,
    ridge: float,
    least_scale: float,
    columns: NDArray[np.float64],
    lines: NDArray[np.float64],
    scale: NDArray[np.float64],
    slopes: NDArray[np.float64],
    residuals: NDArray[np.float64],
    left: NDArray[np.float64],
    is_gone: NDArray[np.bool_],
) -> None:
    """Take a word out of the regression: everything but ``columns`` changes in place."""
    n_words, n_bags = lines.shape
    n_classes = slopes.shape[1]
    column, own = columns[word], lines[word]
    inverse = 1.0 / scale[word]
    is_gone[word] = True
    for k in range(n_words):
        if is_gone[k]:
            continue
        line = lines[k]
        product = 0.0
        for i in range(n_bags):
            product += column[i] * line[i]
        # (A⁻¹)_kj, for X'XA⁻¹ = I − αA⁻¹.
        share = -product / ridge * inverse
        for i in range(n_bags):
            line[i] -= share * own[i]
        for c in range(n_classes):
            slopes[k, c] -= share * slopes[word, c]
        rest = scale[k] - share * share * scale[word]
        scale[k] = rest if rest > least_scale else least_scale
    for i in range(n_bags):
        left[i] += own[i] * own[i] * inverse
        for c in range(n_classes):
            residuals[i, c] += own[i] * slopes[word, c] * inverse
