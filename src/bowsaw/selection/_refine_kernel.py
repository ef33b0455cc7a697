"""Codes of sampled descriptors and the pull on each word: arrays in, arrays out.

Products are (n_words, n_rows): words down, descriptors across, ``per_bag`` rows per bag.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bowsaw._arrays import Float32, Float64


@njit(nogil=True, cache=True, error_model="numpy")
def count_nearest(products: Float32, half_norms: Float32, per_bag: int, counts: Float64) -> None:
    """Add each row to its nearest word's count of its bag, ``(n_bags, n_words)``."""
    n_words, n_rows = products.shape
    best = np.empty(n_rows, np.float32)
    word = np.zeros(n_rows, np.int32)
    for i in range(n_rows):
        best[i] = products[0, i] - half_norms[0]
    for j in range(1, n_words):
        row = products[j]
        h = half_norms[j]
        index = np.int32(j)
        for i in range(n_rows):
            v = row[i] - h
            word[i] = index if v > best[i] else word[i]
            best[i] = v if v > best[i] else best[i]
    for i in range(n_rows):
        counts[i // per_bag, word[i]] += 1


@njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def normalise(weights: Float32, total: Float32, per_bag: int, sums: Float64) -> None:
    """Divide each row's weights by their total, and add them up for each bag."""
    n_words, n_rows = weights.shape
    for i in range(n_rows):
        total[i] = np.float32(1) / total[i]
    for j in range(n_words):
        row = weights[j]
        for bag in range(n_rows // per_bag):
            part = row[bag * per_bag : (bag + 1) * per_bag]
            share = total[bag * per_bag : (bag + 1) * per_bag]
            pooled = np.float32(0)
            for i in range(per_bag):
                part[i] *= share[i]
                pooled += part[i]
            sums[bag, j] += pooled


@njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
def pull(codes: Float32, slopes: Float32, per_bag: int) -> None:
    """Turn codes into q_j (g_j − Σ_k q_k g_k) for ``slopes`` g of the error, (n_bags, n_words)."""
    n_words, n_rows = codes.shape
    n_bags = n_rows // per_bag
    usual = np.zeros(n_rows, np.float32)
    for j in range(n_words):
        row = codes[j]
        for bag in range(n_bags):
            part = row[bag * per_bag : (bag + 1) * per_bag]
            sums = usual[bag * per_bag : (bag + 1) * per_bag]
            slope = slopes[bag, j]
            for i in range(per_bag):
                sums[i] += part[i] * slope
    for j in range(n_words):
        row = codes[j]
        for bag in range(n_bags):
            part = row[bag * per_bag : (bag + 1) * per_bag]
            sums = usual[bag * per_bag : (bag + 1) * per_bag]
            slope = slopes[bag, j]
            for i in range(per_bag):
                part[i] *= slope - sums[i]
