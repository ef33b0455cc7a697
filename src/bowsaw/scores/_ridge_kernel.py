"""Ridge regression: many ridges from one tridiagonal matrix, and removal of single columns.

With G = Q T Q', T tridiagonal, G + αI = Q (T + αI) Q' for every α, and T + αI = L D L' with L unit
bidiagonal: solving with it costs no more than reading the right-hand side. The pivots D of a matrix
whose least eigenvalue is at least α are at least α, which limits rounding.

Words are rows here and bags run along them, so that the inner loops are over adjacent memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import Bools, Float64

_REORDERED = {"reassoc", "contract", "nsz"}


class Tridiagonal(NamedTuple):
    """X'X = Q T Q': the diagonals of T, X along Q ``(p, n_bags)`` and Y's moments along Q."""

    diagonal: Float64
    beside: Float64
    along: Float64
    moments: Float64


class Regression(NamedTuple):
    """A fit with removable columns: X' (never changed), z, (A⁻¹)_kk, B, R and 1 − H_ii."""

    columns: Float64
    lines: Float64
    scale: Float64
    slopes: Float64
    residuals: Float64
    left: Float64
    is_removed: Bools


@njit(nogil=True, cache=True, error_model="numpy")
def solve_ridges(matrix: Tridiagonal, ridges: Float64, slopes: Float64, leverages: Float64) -> None:
    """Write (T + αI)⁻¹ moments and the diagonal of along' (T + αI)⁻¹ along, for each ridge α.

    ``slopes`` is (p, n_ridges, n_classes) and ``leverages`` (n_ridges, n_bags).
    """
    diagonal, beside, along, moments = matrix
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
    fitted: Float64,
    targets: Float64,
    leverages: Float64,
    shares: Float64,
    least_left: float,
    errors: Float64,
) -> None:
    """Write the mean over bags of the squared leave-one-out residuals, for each ridge.

    ``fitted`` is (n_bags, n_ridges, n_classes); ``leverages`` lack the intercept's, ``shares``.
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
