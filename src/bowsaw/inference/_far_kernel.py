"""Finding words for far descriptors, of whose lists no word is kept: arrays in, arrays out.

Names are those of ``_move_kernel``. ``score`` of a far descriptor is that of its word; two scores
within ``margin`` are too close to tell. ``place`` and the arrays that begin with ``at`` are those
of a ``Gathering``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.inference._exact_kernel import BATCH, BLOCK_ROWS, FAR
from bowsaw.nearest._ranking_kernel import comes_before
from bowsaw.nearest._search_kernel import LOWEST, squared_distance

N_ACROSS = 64
"""Places of a block, fixed so that loops over a block need no code for what is left over."""


@njit(nogil=True, error_model="numpy", cache=True)
def centre_rows(
    values: NDArray[np.uint8],
    rows: NDArray[np.int32],
    centre: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write some descriptors relative to the mean word."""
    ignored = 0.0
    for a in range(len(rows)):
        if a % BATCH == 0:
            for ahead in range(a, a + BATCH if a + BATCH < len(rows) else len(rows)):
                ignored += float(values[rows[ahead], 0])
                ignored += float(values[rows[ahead], values.shape[1] // 2])
            if ignored == np.inf:
                break
        row = out[a]
        here = values[rows[a]]
        for d in range(len(row)):
            row[d] = np.float32(here[d]) - centre[d]


@njit(nogil=True, error_model="numpy", cache=True)
def best_of_rows(
    products: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    rows: NDArray[np.int32],
    margin: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return each row's best word and its score, (n_words, n_rows) given; -1 where in doubt."""
    n_words, n_rows = products.shape
    code = np.zeros(n_rows, np.int32)
    best = np.full(n_rows, LOWEST)
    second = np.full(n_rows, LOWEST)
    for j in range(n_words):
        scores = products[j]
        half_norm = half_norms[j]
        word = np.int32(j)
        for a in range(n_rows):
            v = scores[a] - half_norm
            less = v if v < best[a] else best[a]
            second[a] = less if less > second[a] else second[a]
            code[a] = word if v > best[a] else code[a]
            best[a] = v if v > best[a] else best[a]
    for a in range(n_rows):
        if best[a] - second[a] <= margin[rows[a]]:
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
    """Decide by exact distances where ``code`` is -1; the lowest word on a tie.

    ``exact_words`` are those of ``products``. Words that are no rival by their score are left out.
    """
    for a in range(len(rows)):
        if code[a] >= 0:
            continue
        row = values[rows[a]].astype(np.float32)
        least = best[a] - margin[rows[a]]
        nearest = np.inf
        for j in range(len(half_norms)):
            if products[j, a] - half_norms[j] >= least:
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
    row = values[i]
    word = words[j]
    for d in range(len(row)):
        total += (np.float32(row[d]) - centre[d]) * word[d]
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def seat(
    rows: NDArray[np.int32],
    segment: int,
    first_rows: NDArray[np.int64],
    sketch: NDArray[np.int8],
    rest: NDArray[np.float32],
    rank: NDArray[np.uint8],
    place: NDArray[np.int32],
    starts: NDArray[np.int64],
    n_seated: NDArray[np.int64],
    at_row: NDArray[np.int32],
    at_rest: NDArray[np.float32],
    at_sketch: NDArray[np.int8],
) -> None:
    """Give places to the far among these that have none.

    They are in the order of segments, and none is before ``segment``.
    """
    for a in range(len(rows)):
        i = rows[a]
        if rank[i] != FAR or place[i] >= 0:
            continue
        while i >= first_rows[segment + 1]:
            segment += 1
        at = starts[segment] + n_seated[segment]
        n_seated[segment] += 1
        place[i] = at
        at_row[at] = i
        at_rest[at] = rest[i]
        row = sketch[i]
        block = at_sketch[at // N_ACROSS]
        for p in range(len(row)):
            block[p, at % N_ACROSS] = row[p]


@njit(nogil=True, error_model="numpy", cache=True)
def note(
    rows: NDArray[np.int32],
    margin: NDArray[np.float32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    score: NDArray[np.float32],
    place: NDArray[np.int32],
    at_code: NDArray[np.int32],
    at_least: NDArray[np.float32],
) -> None:
    """Write down the words and scores of the far among these that have places.

    Not of others: when a move is taken back, who was far before finds its place as it left it.
    """
    for a in range(len(rows)):
        i = rows[a]
        at = place[i]
        if rank[i] == FAR and at >= 0:
            at_code[at] = code[i]
            at_least[at] = score[i] - margin[i]


@njit(nogil=True, error_model="numpy", cache=True)
def without_places(
    rows: NDArray[np.int32],
    rank: NDArray[np.uint8],
    place: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Collect the far among these that have no place."""
    n = 0
    for a in range(len(rows)):
        if rank[rows[a]] == FAR and place[rows[a]] < 0:
            out[n] = rows[a]
            n += 1
    return n


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _bounds(
    sketch: NDArray[np.int8],
    rest: NDArray[np.float32],
    word: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write bounds of the products of a word and a block, (n_directions, N_ACROSS) given.

    Four directions at a time, so that the sums are read and written a quarter as often.
    """
    n_directions = sketch.shape[0]
    for b in range(N_ACROSS):
        out[b] = rest[b] * word[n_directions]
    for p in range(0, n_directions, 4):
        first, second, third, fourth = word[p], word[p + 1], word[p + 2], word[p + 3]
        ones, twos, threes, fours = sketch[p], sketch[p + 1], sketch[p + 2], sketch[p + 3]
        for b in range(N_ACROSS):
            out[b] += (
                first * np.float32(ones[b])
                + second * np.float32(twos[b])
                + third * np.float32(threes[b])
                + fourth * np.float32(fours[b])
            )


@njit(nogil=True, error_model="numpy", cache=True)
def challenge(
    begin: int,
    end: int,
    words: NDArray[np.int64],
    sketched: NDArray[np.float32],
    slack: NDArray[np.float32],
    in_words: NDArray[np.float32],
    in_half_norms: NDArray[np.float32],
    values: NDArray[np.uint8],
    centre: NDArray[np.float32],
    exact_words: NDArray[np.float32],
    column: NDArray[np.int32],
    margin: NDArray[np.float32],
    rank: NDArray[np.uint8],
    score: NDArray[np.float32],
    lost: NDArray[np.int32],
    won: NDArray[np.int32],
    winners: NDArray[np.int32],
    won_from: NDArray[np.float32],
    n_lost: int,
    starts: NDArray[np.int64],
    n_seated: NDArray[np.int64],
    at_row: NDArray[np.int32],
    at_code: NDArray[np.int32],
    at_least: NDArray[np.float32],
    at_rest: NDArray[np.float32],
    at_sketch: NDArray[np.int8],
) -> tuple[int, int]:
    """Let incoming words stand against those of the far descriptors of segments begin to end.

    Collects the descriptors whose word is gone (``lost``, after the ``n_lost`` already there), and
    those that an incoming word wins (``won``, with their ``winners`` and new scores; ``won_from``
    gets the scores before). Most are ruled out by a bound; scores too close for float32 are settled
    by exact distances, and on a tie the lower position wins. Places whose descriptors are far no
    more are passed over.
    """
    bounds = np.empty(N_ACROSS, np.float32)
    found = np.empty(BLOCK_ROWS + 1, np.int64)
    # Which of ``won`` a place is, from the first place of a block on.
    entry = np.empty(BLOCK_ROWS, np.int64)
    ignored = 0.0
    n_won = 0
    for s in range(begin, end):
        last = starts[s] + n_seated[s]
        for first in range(starts[s], last, BLOCK_ROWS):
            stop = first + BLOCK_ROWS if first + BLOCK_ROWS < last else last
            # Appending always and counting only some avoids branches that nobody can predict.
            n = 0
            for at in range(first, stop):
                found[n] = at
                n += 1 if column[at_code[at]] < 0 else 0
            for a in range(n):
                lost[n_lost] = at_row[found[a]]
                n_lost += 1 if rank[at_row[found[a]]] == FAR else 0
            entry[:] = -1
            for j in range(len(words)):
                ahead_by = slack[j]
                half_norm = in_half_norms[j]
                n = 0
                for at in range(first, stop, N_ACROSS):
                    some = slice(at, at + N_ACROSS)
                    _bounds(at_sketch[at // N_ACROSS], at_rest[some], sketched[j], bounds)
                    least = at_least[some]
                    for b in range(N_ACROSS if at + N_ACROSS < stop else stop - at):
                        found[n] = at + b
                        n += 1 if bounds[b] + ahead_by - half_norm >= least[b] else 0
                for a in range(n):
                    if a % BATCH == 0:
                        for ahead in range(a, a + BATCH if a + BATCH < n else n):
                            i = at_row[found[ahead]]
                            ignored += float(values[i, 0])
                            ignored += float(values[i, values.shape[1] // 2])
                        if ignored == np.inf:
                            break
                    at = found[a]
                    i = at_row[at]
                    value = _product(values, i, centre, in_words, j) - half_norm
                    if value < at_least[at] or rank[i] != FAR or column[at_code[at]] < 0:
                        continue
                    if value > score[i] + margin[i] or comes_before(
                        values[i].astype(np.float32), exact_words, words[j], at_code[at]
                    ):
                        if entry[at - first] < 0:
                            entry[at - first] = n_won
                            won[n_won] = i
                            won_from[n_won] = score[i]
                            n_won += 1
                        winners[entry[at - first]] = words[j]
                        score[i] = value
                        at_code[at] = words[j]
                        at_least[at] = value - margin[i]
    return n_lost, n_won
