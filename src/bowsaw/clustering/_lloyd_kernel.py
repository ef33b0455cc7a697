"""Sums of the descriptors of each word."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, error_model="numpy", cache=True)
def add_rows(
    rows: NDArray[np.float32],
    code: NDArray[np.int32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Add each row to the sum of its word, in order, in float64."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = sums[code[i]]
        for d in range(rows.shape[1]):
            total[d] += row[d]
        counts[code[i]] += 1
