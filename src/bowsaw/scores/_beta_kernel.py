"""Beta distributions by maximum likelihood, many at once.

The likelihood of Beta(a, b) depends on the data by two means only, of log f and of log(1 − f). Its
gradient vanishes where ψ(a) − ψ(a + b) and ψ(b) − ψ(a + b) equal them; Newton's method solves that
from the moments' estimate. The log-likelihood is concave in (a, b), so the solution is unique.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Float64, Int64

MOST_STEPS = 60
ENOUGH = 1e-7
"""Newton stops after a smaller relative step; the remaining error is of the order of its square."""
LEAST_PRODUCT = 1e-100
"""Logarithms are taken of products, when they fall below this; no factor is smaller."""
NARROW = 1e-5
"""A smaller deviation, relative to the mean: Σ log f in float64 no longer shows it."""
LARGE = 30.0
"""From here on the asymptotic series of ``_part`` is exact to float64."""


class Guards(NamedTuple):
    """The limits that ``relevance`` describes; ``cap`` is H(y)."""

    floor: float
    present: float
    least_variance: float
    min_documents: int
    cap: float


@njit(nogil=True, cache=True, error_model="numpy")
def gammas(x: float) -> tuple[float, float]:
    """Return digamma ψ(x) and trigamma ψ'(x), for x > 0; relative error near 1e-15."""
    # ψ(x) = ψ(x + 1) − 1/x until the asymptotic series is exact to float64.
    first, second = 0.0, 0.0
    while x < 9.0:
        inverse = 1.0 / x
        first -= inverse
        second += inverse * inverse
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    tail = 1 / 252 - square * (1 / 240 - square * (1 / 132 - square * (691 / 32760)))
    series = square * (1 / 12 - square * (1 / 120 - square * tail))
    first += math.log(x) - 0.5 * inverse - series
    tail = 1 / 42 - square * (1 / 30 - square * (5 / 66 - square * (691 / 2730)))
    series = square * (1 / 6 - square * (1 / 30 - square * tail))
    second += inverse * (1.0 + 0.5 * inverse + series)
    return first, second


@njit(nogil=True, cache=True, error_model="numpy")
def by_moments(mean: float, variance: float) -> tuple[float, float]:
    """Return (a, b) of the Beta distribution with this mean and variance."""
    # The variance of a Beta distribution is below mean · (1 − mean).
    size = mean * (1.0 - mean) / variance - 1.0
    size = size if size > 1e-3 else 1e-3
    return mean * size, (1.0 - mean) * size


@njit(nogil=True, cache=True, error_model="numpy")
def by_likelihood(
    mean: float, variance: float, log_mean: float, log_rest: float
) -> tuple[float, float]:
    """Return the most likely (a, b), given the means of log f and of log(1 − f)."""
    a, b = by_moments(mean, variance)
    for _ in range(MOST_STEPS):
        digamma_a, trigamma_a = gammas(a)
        digamma_b, trigamma_b = gammas(b)
        digamma_sum, trigamma_sum = gammas(a + b)
        slope_a = digamma_a - digamma_sum - log_mean
        slope_b = digamma_b - digamma_sum - log_rest
        determinant = trigamma_a * trigamma_b - trigamma_sum * (trigamma_a + trigamma_b)
        if not determinant > 0.0:
            break
        step_a = (slope_a * (trigamma_b - trigamma_sum) + slope_b * trigamma_sum) / determinant
        step_b = (slope_b * (trigamma_a - trigamma_sum) + slope_a * trigamma_sum) / determinant
        # A step that would leave the positive numbers, or run away, is cut to a factor of 8.
        next_a, next_b = a - step_a, b - step_b
        next_a = a / 8.0 if next_a < a / 8.0 else (8.0 * a if next_a > 8.0 * a else next_a)
        next_b = b / 8.0 if next_b < b / 8.0 else (8.0 * b if next_b > 8.0 * b else next_b)
        done = abs(next_a - a) <= ENOUGH * a and abs(next_b - b) <= ENOUGH * b
        a, b = next_a, next_b
        if done:
            break
    return a, b


@njit(nogil=True, cache=True, error_model="numpy")
def _part(x: float) -> float:
    """Return log Γ(x) − (x − 1) ψ(x) + x, which grows as log(2πe x) / 2."""
    if x < LARGE:
        return math.lgamma(x) - (x - 1.0) * gammas(x)[0] + x
    i = 1.0 / x
    series = 1 / 120 + i * (1 / 210 - i * (1 / 252 + i * (1 / 210 - i * (1 / 240))))
    series = -i * (1 / 3 + i * (1 / 12 + i * (1 / 90 - i * series)))
    return 0.5 * math.log(2 * math.pi * math.e * x) + series


@njit(nogil=True, cache=True, error_model="numpy")
def beta_entropy(a: float, b: float) -> float:
    """Return the differential entropy of Beta(a, b), in nats.

    log B(a, b) − (a − 1) ψ(a) − (b − 1) ψ(b) + (a + b − 2) ψ(a + b), whose terms grow as a log a,
    in parts of the size of log a.
    """
    return _part(a) + _part(b) - _part(a + b) - gammas(a + b)[0]


@njit(nogil=True, cache=True, error_model="numpy")
def fit_group(
    n: float, total: float, squares: float, logs: float, rests: float, least_variance: float
) -> tuple[float, float]:
    """Return (a, b) for n values from their sums; by moments where they hardly vary."""
    mean = total / n
    variance = squares / n
    least = max(least_variance, (NARROW * mean) ** 2)
    if not variance > least:
        return by_moments(mean, least)
    return by_likelihood(mean, variance, logs / n, rests / n)


@njit(nogil=True, cache=True, error_model="numpy")
def sum_up(values: Float64, out: Float64) -> None:
    """Write Σ f, Σ (f − mean)², Σ log f and Σ log(1 − f)."""
    total, logs, rests = 0.0, 0.0, 0.0
    product, rest = 1.0, 1.0
    for f in values:
        total += f
        product *= f
        rest *= 1.0 - f
        if product < LEAST_PRODUCT:
            logs += math.log(product)
            product = 1.0
        if rest < LEAST_PRODUCT:
            rests += math.log(rest)
            rest = 1.0
    mean = total / max(len(values), 1)
    squares = 0.0
    for f in values:
        squares += (f - mean) * (f - mean)
    out[0], out[1] = total, squares
    out[2], out[3] = logs + math.log(product), rests + math.log(rest)


@njit(nogil=True, cache=True, error_model="numpy")
def relevances(
    rows: AnyArray, order: Int64, class_sizes: Int64, guards: Guards, out: Float64
) -> None:
    """Write I(f; y) of each row of values; ``order`` lists the bags class by class."""
    floor, least_variance = guards.floor, guards.least_variance
    n_rows, n_bags = rows.shape
    n_classes = len(class_sizes)
    sums = np.empty((n_classes, 4))
    held = np.empty(n_bags)
    ceiling = 1.0 - floor
    for k in range(n_rows):
        out[k] = 0.0
        least = rows[k, 0]
        most = rows[k, 0]
        documents = 0
        for i in range(n_bags):
            f = rows[k, order[i]]
            least = f if f < least else least
            most = f if f > most else most
            documents += 1 if f > guards.present else 0
            inside: float = np.float64(f)
            inside = inside if inside > floor else floor
            held[i] = inside if inside < ceiling else ceiling
        if least == most or documents < guards.min_documents:
            continue
        begin = 0
        for y in range(n_classes):
            sum_up(held[begin : begin + class_sizes[y]], sums[y])
            begin += class_sizes[y]
        total = sums[:, 0].sum()
        squares = 0.0
        for y in range(n_classes):
            if class_sizes[y] > 0:
                away = sums[y, 0] / class_sizes[y] - total / n_bags
                squares += sums[y, 1] + class_sizes[y] * away * away
        least = max(least_variance, (NARROW * total / n_bags) ** 2)
        if not squares / n_bags > least:
            continue
        logs, rests = sums[:, 2].sum(), sums[:, 3].sum()
        a, b = fit_group(n_bags, total, squares, logs, rests, least_variance)
        found = beta_entropy(a, b)
        for y in range(n_classes):
            n = class_sizes[y]
            if n == 0:
                continue
            a, b = fit_group(n, sums[y, 0], sums[y, 1], sums[y, 2], sums[y, 3], least_variance)
            found -= n / n_bags * beta_entropy(a, b)
        found = found if found > 0.0 else 0.0
        out[k] = found if found < guards.cap else guards.cap
