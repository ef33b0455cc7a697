"""Ridge regression: removal of single columns.

Words are rows here and bags run along them, so that the inner loops are over adjacent memory.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from bowsaw._arrays import Bools, Float64

_REORDERED = {"reassoc", "contract", "nsz"}


class Regression(NamedTuple):
    """A fit with removable columns: X' (never changed), z, (A⁻¹)_kk, B, R and 1 − H_ii."""

    columns: Float64
    lines: Float64
    scale: Float64
    slopes: Float64
    residuals: Float64
    left: Float64
    is_removed: Bools


@njit(nogil=True, cache=True, fastmath=_REORDERED, error_model="numpy")
def errors_without(
    fit: Regression,
    crossed: Float64,
    slope_squares: Float64,
    residual_squares: Float64,
    least_left: float,
    errors: Float64,
) -> None:
    """Write the mean squared error without each word; ``crossed`` is R B', one row per word."""
    lines, scale, left = fit.lines, fit.scale, fit.left
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


@njit(nogil=True, cache=True, fastmath=_REORDERED, error_model="numpy")
def remove_column(fit: Regression, word: int, ridge: float, least_scale: float) -> None:
    """Remove a word from the regression, in place."""
    lines, scale, slopes = fit.lines, fit.scale, fit.slopes
    residuals, left, is_removed = fit.residuals, fit.left, fit.is_removed
    n_words, n_bags = lines.shape
    n_classes = slopes.shape[1]
    column, own = fit.columns[word], lines[word]
    inverse = 1.0 / scale[word]
    is_removed[word] = True
    for k in range(n_words):
        if is_removed[k]:
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
