"""Counting of hard codes and pooling of soft codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bowsaw._arrays import Float32, Float64, Int32, Int64, UInt32
from bowsaw.nearest._search_kernel import LOWEST


@njit(nogil=True, cache=True)
def count_codes(codes: Int32, start: int, offsets: Int64, first_bag: int, out: UInt32) -> None:
    """Add 1 to ``out[bag, code]`` per row from ``start`` on; ``first_bag`` begins before it."""
    bag = first_bag
    for i in range(len(codes)):
        while offsets[bag + 1] <= start + i:
            bag += 1
        out[bag, codes[i]] += np.uint32(1)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True, inline="always")
def _exp2(t: Any) -> Any:
    """2^t, 2⁻¹⁰⁰ at least, for t ≤ 0 in float32 by a Chebyshev fit; relative error below 2e-7."""
    t = t if t > np.float32(-100) else np.float32(-100)
    whole = np.int32(t - np.float32(0.5))
    f = t - np.float32(whole)
    p = np.float32(1.5469736536e-4)
    p = p * f + np.float32(1.3400437310e-3)
    p = p * f + np.float32(9.6180252731e-3)
    p = p * f + np.float32(5.5503271520e-2)
    p = p * f + np.float32(2.4022650719e-1)
    p = p * f + np.float32(6.9314718246e-1)
    p = p * f + np.float32(1)
    bits = np.int32((whole + np.int32(127)) << np.int32(23))
    return p * bits.view(np.float32)


@njit(nogil=True, fastmath=False, error_model="numpy", cache=True)
def _behind(product: Any, half_norm: Any, best: Any) -> Any:
    """Return a score minus the best: exactly 0 for the best itself.

    Without fastmath, which may subtract in another order: a large sharpness multiplies the rounding
    error.
    """
    return (product - half_norm) - best


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def weigh(products: Float32, half_norms: Float32, factor: float, total: Float32) -> None:
    """Turn products into weights in place, and write each row's total.

    ``products`` is (n_words, n_rows): words down, descriptors across. The weight of word j for row
    i is exp(factor · (score_ji − best score of i)): the largest is 1, so no row is 0, and the
    smallest is 2⁻¹⁰⁰. ``factor`` is 2 · sharpness / scale²: a score is minus half a
    squared distance up to a constant of the row.
    """
    n_words, n_rows = products.shape
    best = np.empty(n_rows, np.float32)
    best[:] = LOWEST
    total[:] = 0
    a = np.float32(factor * 1.4426950408889634)
    whole = n_words - n_words % 4
    # Four words at a time: the running best is read and written once for all of them.
    for j in range(0, whole, 4):
        r0, r1, r2, r3 = products[j], products[j + 1], products[j + 2], products[j + 3]
        h0, h1, h2, h3 = half_norms[j], half_norms[j + 1], half_norms[j + 2], half_norms[j + 3]
        for i in range(n_rows):
            b = best[i]
            v = r0[i] - h0
            b = v if v > b else b
            v = r1[i] - h1
            b = v if v > b else b
            v = r2[i] - h2
            b = v if v > b else b
            v = r3[i] - h3
            best[i] = v if v > b else b
    for j in range(whole, n_words):
        row = products[j]
        h = half_norms[j]
        for i in range(n_rows):
            v = row[i] - h
            best[i] = v if v > best[i] else best[i]
    for j in range(n_words):
        row = products[j]
        h = half_norms[j]
        for i in range(n_rows):
            e = _exp2(a * _behind(row[i], h, best[i]))
            row[i] = e
            total[i] += e


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def pool_soft(products: Float32, half_norms: Float32, factor: float, sums: Float64) -> None:
    """Turn products into soft codes (weights divided by their total), added to ``sums`` by word."""
    n_words, n_rows = products.shape
    total = np.empty(n_rows, np.float32)
    weigh(products, half_norms, factor, total)
    for i in range(n_rows):
        total[i] = np.float32(1) / total[i]
    for j in range(n_words):
        row = products[j]
        pooled = np.float32(0)
        for i in range(n_rows):
            pooled += row[i] * total[i]
        sums[j] += pooled
