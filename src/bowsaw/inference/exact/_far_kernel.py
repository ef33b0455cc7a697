"""Finding words for far descriptors, of whose lists no word is kept: arrays in, arrays out.

Names are those of ``_move_kernel``. ``score`` of a far descriptor is that of its word; two scores
within ``margin`` are too close to tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.inference.exact._move_kernel import BATCH, BLOCK_ROWS, FAR
from bowsaw.nearest._rank_kernel import comes_before
from bowsaw.nearest._scan_kernel import LOWEST, squared_distance


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def centre_rows(
    values: NDArray[np.uint8],
    rows: NDArray[np.int32],
    centre: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write some descriptors relative to the mean word."""
    for a in range(len(rows)):
        row = out[a]
        for d in range(len(row)):
            row[d] = np.float32(values[rows[a], d]) - centre[d]


@njit(nogil=True, error_model="numpy", cache=True)
def best_of_rows(
    products: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    rows: NDArray[np.int32],
    margin: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return each row's best column and its score, (n_rows, n_words) given; -1 where in doubt.

    Two columns at a time: each comparison waits for the one before, so two chains run beside.
    """
    n_rows, n_words = products.shape
    code = np.empty(n_rows, np.int32)
    best = np.empty(n_rows, np.float32)
    half = n_words // 2
    for a in range(n_rows):
        scores = products[a]
        low = LOWEST
        low_second = LOWEST
        low_code = 0
        high = LOWEST
        high_second = LOWEST
        high_code = half
        for j in range(half):
            v = scores[j] - half_norms[j]
            less = v if v < low else low
            low_second = less if less > low_second else low_second
            low_code = j if v > low else low_code
            low = v if v > low else low
            v = scores[half + j] - half_norms[half + j]
            less = v if v < high else high
            high_second = less if less > high_second else high_second
            high_code = half + j if v > high else high_code
            high = v if v > high else high
        if n_words % 2:
            v = scores[n_words - 1] - half_norms[n_words - 1]
            less = v if v < high else high
            high_second = less if less > high_second else high_second
            high_code = n_words - 1 if v > high else high_code
            high = v if v > high else high
        if high > low:
            second = low if low > high_second else high_second
            code[a] = high_code
            best[a] = high
        else:
            second = high if high > low_second else low_second
            code[a] = low_code
            best[a] = low
        if best[a] - second <= margin[rows[a]]:
            code[a] = -1
    return code, best


@njit(nogil=True, error_model="numpy", cache=True)
def settle_doubts(
    products: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    rows: NDArray[np.int32],
    margin: NDArray[np.float32],
    best: NDArray[np.float32],
    values: NDArray[np.uint8],
    exact_words: NDArray[np.float32],
    code: NDArray[np.int32],
) -> None:
    """Decide by exact distances where ``code`` is -1; the lowest column on a tie.

    ``exact_words`` are those of the columns. Words that are no rival by their score are left out.
    """
    for a in range(len(rows)):
        if code[a] >= 0:
            continue
        row = values[rows[a]].astype(np.float32)
        least = best[a] - margin[rows[a]]
        nearest = np.inf
        for j in range(len(half_norms)):
            if products[a, j] - half_norms[j] >= least:
                distance = squared_distance(row, exact_words[j])
                if distance < nearest:
                    nearest = distance
                    code[a] = j


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _product(
    values: NDArray[np.uint8],
    i: int,
    centre: NDArray[np.float32],
    words: NDArray[np.float32],
    j: int,
) -> Any:
    total = np.float32(0)
    for d in range(values.shape[1]):
        total += (np.float32(values[i, d]) - centre[d]) * words[j, d]
    return total


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _widen(sketch: NDArray[np.int8], i: int, out: NDArray[np.float32]) -> None:
    for p in range(sketch.shape[1]):
        out[p] = np.float32(sketch[i, p])


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _along(row: NDArray[np.float32], words: NDArray[np.float32], j: int) -> Any:
    total = np.float32(0)
    for p in range(len(row)):
        total += row[p] * words[j, p]
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def challenge(
    first_row: int,
    last_row: int,
    sketch: NDArray[np.int8],
    rest: NDArray[np.float32],
    words: NDArray[np.int64],
    sketched: NDArray[np.float32],
    slack: NDArray[np.float32],
    in_words: NDArray[np.float32],
    in_half_norms: NDArray[np.float32],
    values: NDArray[np.uint8],
    centre: NDArray[np.float32],
    exact_words: NDArray[np.float32],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    score: NDArray[np.float32],
    margin: NDArray[np.float32],
    lost: NDArray[np.int32],
    won: NDArray[np.int32],
    winners: NDArray[np.int32],
    won_from: NDArray[np.float32],
) -> tuple[int, int]:
    """Let incoming words stand against the words of the far descriptors from first to last row.

    Collects the descriptors whose word is gone (``lost``), and those that an incoming word wins
    (``won``, with their ``winners`` and new scores; ``won_from`` gets the scores before). Most are
    ruled out by a bound; scores too close for float32 are settled by exact distances, and on a tie
    the lower position wins.
    """
    far = np.empty(BLOCK_ROWS + 1, np.int32)
    row = np.empty(sketch.shape[1], np.float32)
    at_row = np.empty(BLOCK_ROWS * len(words) + 1, np.int32)
    at_word = np.empty(BLOCK_ROWS * len(words) + 1, np.int32)
    ignored = 0.0
    n_lost = 0
    n_won = 0
    for begin in range(first_row, last_row, BLOCK_ROWS):
        end = begin + BLOCK_ROWS if begin + BLOCK_ROWS < last_row else last_row
        n_far = 0
        for i in range(begin, end):
            # Appending always and counting only some avoids branches that nobody can predict.
            far[n_far] = i
            n_far += 1 if rank[i] == FAR else 0
        n = 0
        for a in range(n_far):
            i = far[a]
            if column[code[i]] < 0:
                lost[n_lost] = i
                n_lost += 1
                continue
            least = score[i] - margin[i]
            _widen(sketch, i, row)
            for j in range(len(words)):
                bound = _along(row, sketched, j) + rest[i] * sketched[j, len(row)]
                at_row[n] = i
                at_word[n] = j
                n += 1 if bound + slack[j] - in_half_norms[j] >= least else 0
        for a in range(n):
            if a % BATCH == 0:
                for ahead in range(a, a + BATCH if a + BATCH < n else n):
                    ignored += float(values[at_row[ahead], 0])
                    ignored += float(values[at_row[ahead], values.shape[1] // 2])
                if ignored == np.inf:
                    break
            i = at_row[a]
            j = at_word[a]
            # The candidates of a descriptor follow each other; what won it last is in front.
            again = n_won > 0 and won[n_won - 1] == i
            present = winners[n_won - 1] if again else code[i]
            value = _product(values, i, centre, in_words, j) - in_half_norms[j]
            if value < score[i] - margin[i]:
                continue
            if value > score[i] + margin[i] or comes_before(
                values[i].astype(np.float32), exact_words, words[j], present
            ):
                if not again:
                    won_from[n_won] = score[i]
                    n_won += 1
                score[i] = value
                won[n_won - 1] = i
                winners[n_won - 1] = words[j]
    return n_lost, n_won
