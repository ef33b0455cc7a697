"""Sums of the descriptors of each word, and distances in float64."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy", cache=True)
def _distance(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return the squared distance; summed in any order, which vectorises."""
    total = 0.0
    for d in range(a.shape[0]):
        gap = np.float64(a[d]) - np.float64(b[d])
        total += gap * gap
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def add_rows(
    rows: NDArray[np.float32],
    words: NDArray[np.float32],
    code: NDArray[np.int32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    distances: NDArray[np.float64],
) -> None:
    """Add each row to the sum of its word, in order, in float64; write its squared distance."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = sums[code[i]]
        for d in range(rows.shape[1]):
            total[d] += row[d]
        counts[code[i]] += 1
        distances[i] = _distance(row, words[code[i]])


@njit(nogil=True, error_model="numpy", cache=True)
def write_distances(
    products: NDArray[np.float32],
    norms: NDArray[np.float32],
    rows: NDArray[np.float32],
    picked: NDArray[np.float32],
    picked_norms: NDArray[np.float32],
    nearest: NDArray[np.float64],
    noise: float,
    start: int,
    out: NDArray[np.float32],
) -> None:
    """Write the squared distances of rows ``start`` onwards to the picked ones.

    ``out``, (n_picked, n of all rows), is passed as a whole: parts of it differ in layout, and each
    layout is compiled. Distances follow from ``products``, (n_picked, n_rows), and squared
    norms of centred rows, up to ``noise`` of the sum of the norms. Where that is more than a
    hundredth of a distance that may be below ``nearest``, the rows themselves are compared.
    """
    least = np.float32(100 * noise)
    for j in range(len(picked)):
        norm = picked_norms[j]
        row = out[j, start : start + len(rows)]
        for i in range(len(rows)):
            size = norms[i] + norm
            row[i] = size - np.float32(2) * products[j, i]
        for i in range(len(rows)):
            size = norms[i] + norm
            if row[i] <= least * size and row[i] - noise * size < nearest[i]:
                row[i] = _distance(rows[i], picked[j])
