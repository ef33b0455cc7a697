"""Counting hard codes and pooling soft ones: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def count_codes(
    codes: NDArray[np.int32],
    start: int,
    offsets: NDArray[np.int64],
    first_bag: int,
    out: NDArray[np.float32],
) -> None:
    """Add 1 to ``out[bag, code]`` for each code; ``codes`` are those of rows ``start`` onwards.

    ``first_bag`` is a bag that begins at or before ``start``. Counts are exact in float32 up to
    2²⁴.
    """
    bag = first_bag
    for i in range(len(codes)):
        while offsets[bag + 1] <= start + i:
            bag += 1
        out[bag, codes[i]] += np.float32(1)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True, inline="always")
def _exp(y: Any) -> Any:
    """e^y for y ≤ 0 in float32, relative error below 4e-7; 0 below −87 (float32's smallest)."""
    y = y if y > np.float32(-87.0) else np.float32(-87.0)
    t = y * np.float32(1.4426950408889634)
    whole = np.int32(t - np.float32(0.5))
    f = (y - np.float32(whole) * np.float32(0.693359375)) - np.float32(whole) * np.float32(
        -2.12194440e-4
    )
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1)
    bits = np.int32((whole + np.int32(127)) << np.int32(23))
    value = p * bits.view(np.float32)
    return value if y > np.float32(-87.0) else np.float32(0)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def pool_soft(
    products: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    factor: float,
    sums: NDArray[np.float64],
) -> None:
    """Turn products into soft codes in place and add them to ``sums``, one number a word.

    ``products`` is (n_words, n_rows): words down, descriptors across. The weight of word j for row
    i is exp(factor · (score_ji − best score of i)), divided by the row's total: the largest is 1,
    so no row can vanish. ``factor`` is 2 · sharpness / scale²: a score is minus half a squared
    distance up to a constant of the row.
    """
    n_words, n_rows = products.shape
    best = np.empty(n_rows, np.float32)
    total = np.zeros(n_rows, np.float32)
    best[:] = -np.inf
    a = np.float32(factor)
    for j in range(n_words):
        row = products[j]
        h = half_norms[j]
        for i in range(n_rows):
            v = row[i] - h
            row[i] = v
            best[i] = v if v > best[i] else best[i]
    for j in range(n_words):
        row = products[j]
        for i in range(n_rows):
            e = _exp(a * (row[i] - best[i]))
            row[i] = e
            total[i] += e
    for i in range(n_rows):
        total[i] = np.float32(1) / total[i]
    for j in range(n_words):
        row = products[j]
        pooled = np.float32(0)
        for i in range(n_rows):
            pooled += row[i] * total[i]
        sums[j] += pooled
