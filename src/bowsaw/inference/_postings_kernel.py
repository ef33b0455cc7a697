"""Soft codes cut to the nearest words, listed by word: arrays in, arrays out.

The *postings* of a word are the descriptors that list it among their nearest words, ascending, with
the word's weight for each; those of word k lie from ``starts[k]`` to ``starts[k + 1]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

SMALLEST = np.float32(2.0**-126)


@njit(nogil=True, error_model="numpy", cache=True)
def count_listed(ranked: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """Count how many rows list each word; lists may end early with ``n_words``."""
    for i in range(len(ranked)):
        for rank in range(ranked.shape[1]):
            if ranked[i, rank] < len(counts):
                counts[ranked[i, rank]] += 1


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _squared_distance(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    total = 0.0
    for d in range(len(a)):
        difference = np.float64(a[d]) - np.float64(b[d])
        total += difference * difference
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def fill_postings(
    ranked: NDArray[Any],
    rows: NDArray[np.float32],
    words: NDArray[np.float32],
    factor: float,
    first_row: int,
    places: NDArray[np.int64],
    posting_rows: NDArray[Any],
    posting_weights: NDArray[np.float32],
    last: NDArray[np.float32],
) -> None:
    """Write the postings of a block of rows, and the weight of each row's last listed word.

    Weights are exp(−factor · (distance² − that of the nearest word)); ``places`` says where each
    word's next posting goes. A last weight is not below the smallest normal float32, so that it
    bounds what comes after it.
    """
    for i in range(len(rows)):
        nearest = 0.0
        last[i] = np.float32(1)
        for rank in range(ranked.shape[1]):
            k = ranked[i, rank]
            if k >= len(words):
                break
            distance = _squared_distance(rows[i], words[k])
            if rank == 0:
                nearest = distance
            weight = np.float32(np.exp(-factor * (distance - nearest)))
            posting_rows[places[k]] = first_row + i
            posting_weights[places[k]] = weight
            places[k] += 1
            last[i] = weight if weight > SMALLEST else SMALLEST


@njit(nogil=True, error_model="numpy", cache=True)
def add_postings(
    words: NDArray[np.int64],
    sign: int,
    starts: NDArray[np.int64],
    posting_rows: NDArray[Any],
    posting_weights: NDArray[np.float32],
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    n_listed: NDArray[np.int32],
) -> None:
    """Let words come (sign 1) or go (−1): update the rows' totals and numbers of listed words.

    A total is ``high + low``, as in ``add_columns``.
    """
    for word in words:
        for p in range(starts[word], starts[word + 1]):
            i = posting_rows[p]
            more = sign * np.float64(posting_weights[p])
            before = high[i]
            after = before + more
            taken = after - before
            low[i] += (before - (after - taken)) + (more - taken)
            high[i] = after
            n_listed[i] += sign


@njit(nogil=True, error_model="numpy", cache=True)
def certify(
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    n_listed: NDArray[np.int32],
    last: NDArray[np.float32],
    n_kept: int,
    tolerance: float,
    least: float,
    inverse: NDArray[np.float32],
    errors: NDArray[np.float64],
) -> int:
    """Bound each row's error and write 1 / total, or 0 for both where it has to be coded anew.

    Returns how many rows that are: those above ``tolerance``, or with a total below ``least``.
    """
    n_above = 0
    for i in range(len(high)):
        total = high[i] + low[i]
        low[i] -= total - high[i]
        high[i] = total
        outside = (n_kept - n_listed[i]) * np.float64(last[i])
        error = 2 * outside / (total + outside) * (1 + 2.0**-20) if total >= least else 2.0
        is_above = error > tolerance or total < least
        n_above += is_above
        inverse[i] = 0.0 if is_above else 1.0 / total
        errors[i] = 0.0 if is_above else error
    return n_above


@njit(nogil=True, error_model="numpy", cache=True)
def pool_postings(
    words: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    posting_rows: NDArray[Any],
    posting_weights: NDArray[np.float32],
    inverse: NDArray[np.float32],
    offsets: NDArray[np.int64],
    table: NDArray[np.float32],
) -> None:
    """Write the means over each bag of weight · inverse to ``table[column of the word, bag]``."""
    for j in range(len(words)):
        column = table[columns[j]]
        column[:] = 0
        bag = 0
        summed = 0.0
        for p in range(starts[words[j]], starts[words[j] + 1]):
            i = posting_rows[p]
            while i >= offsets[bag + 1]:
                column[bag] = summed / max(offsets[bag + 1] - offsets[bag], 1)
                summed = 0.0
                bag += 1
            summed += np.float64(posting_weights[p]) * np.float64(inverse[i])
        if bag < len(column):
            column[bag] = summed / max(offsets[bag + 1] - offsets[bag], 1)
