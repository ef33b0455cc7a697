"""Scan of a block of scores for each descriptor's best word.

``scores`` is (n_words_of_the_tile, n_rows): words down, descriptors across. The inner loop runs
over adjacent memory and updates a running best for each descriptor; compilers do not vectorise a
reduction that carries an index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Float32, Int32

LOWEST = np.float32(np.finfo(np.float32).min)
"""Below every score. Not -inf, which fastmath may assume away."""

GROUP = 64


class Words(NamedTuple):
    """Words centred on their mean, half their squared norms, and the words as given."""

    centred: Float32
    half_norms: Float32
    exact: Float32


class Rows(NamedTuple):
    """Descriptors centred like the words, as given, and the error of their scores."""

    centred: Float32
    exact: Float32
    error: Float32


class ScoreError(NamedTuple):
    """The error of a score: relative (‖x‖ ‖c‖ + ‖c‖²) + far ‖x‖² + least."""

    relative: float
    far: float
    least: float
    reach: float
    """A word longer than this times (‖x‖ + d) is farther than d from x: see ``search``."""
    largest: float
    """The largest norm of a word."""


@njit(nogil=True, error_model="numpy", cache=True)
def error_of(length: float, word_length: float, error: ScoreError) -> Any:
    """Return the error of a score, from the norms of the row and of the word."""
    # The factor covers the roundings of this bound and of the norms.
    size = (length + word_length) * word_length
    return 1.0001 * (error.relative * size + error.far * length * length + error.least)


@njit(nogil=True, error_model="numpy", cache=True)
def longest_near(length: float, score: float, error: ScoreError) -> Any:
    """Return how long a word can be that comes as near to a row as this score."""
    squared = length * length - 2 * score
    away = np.sqrt(squared if squared > 0 else 0.0)
    # Squares may have been too small for float32.
    longest = error.reach * (length + away) + 4 * np.sqrt(error.least)
    return longest if longest < error.largest else error.largest


@njit(nogil=True, error_model="numpy", cache=True)
def write_errors(
    norms: Float32, best: Float32, error: ScoreError, widening: float, out: Float32, margin: Float32
) -> None:
    """Write the errors of scores near the best of each row, and of bounds of them.

    ``norms`` are squared; ``widening`` is the error of a bound relative to ‖x‖ ‖c‖ + ‖c‖².
    """
    for i in range(len(norms)):
        length = np.sqrt(np.float64(norms[i]))
        longest = longest_near(length, best[i], error)
        out[i] = error_of(length, longest, error)
        margin[i] = 2 * out[i] + 1.0001 * widening * (length + longest) * longest


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def scan_best_two(
    scores: Float32,
    half_norms: Float32,
    first_word: int,
    best: Float32,
    second: Float32,
    code: Int32,
) -> None:
    """Update each row's best and second best score and its best word; the earlier on a tie."""
    n_words, n_rows = scores.shape
    whole = n_words - n_words % 4
    for j in range(0, whole, 4):
        s0, s1, s2, s3 = scores[j], scores[j + 1], scores[j + 2], scores[j + 3]
        h0, h1, h2, h3 = half_norms[j], half_norms[j + 1], half_norms[j + 2], half_norms[j + 3]
        k0, k1 = np.int32(first_word + j), np.int32(first_word + j + 1)
        k2, k3 = np.int32(first_word + j + 2), np.int32(first_word + j + 3)
        for i in range(n_rows):
            m = best[i]
            s = second[i]
            k = code[i]
            v = s0[i] - h0
            low = v if v < m else m
            s = low if low > s else s
            k = k0 if v > m else k
            m = v if v > m else m
            v = s1[i] - h1
            low = v if v < m else m
            s = low if low > s else s
            k = k1 if v > m else k
            m = v if v > m else m
            v = s2[i] - h2
            low = v if v < m else m
            s = low if low > s else s
            k = k2 if v > m else k
            m = v if v > m else m
            v = s3[i] - h3
            low = v if v < m else m
            s = low if low > s else s
            k = k3 if v > m else k
            m = v if v > m else m
            best[i] = m
            second[i] = s
            code[i] = k
    for j in range(whole, n_words):
        row = scores[j]
        h = half_norms[j]
        word = np.int32(first_word + j)
        for i in range(n_rows):
            m = best[i]
            s = second[i]
            v = row[i] - h
            low = v if v < m else m
            second[i] = low if low > s else s
            code[i] = word if v > m else code[i]
            best[i] = v if v > m else m


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def squared_norms(rows: Float32, out: Float32) -> None:
    """Write the squared norm of each row."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = np.float32(0)
        for d in range(rows.shape[1]):
            total += row[d] * row[d]
        out[i] = total


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _score(row: Float32, word: Float32, half_norm: Any) -> Any:
    total = np.float32(0)
    for d in range(row.shape[0]):
        total += row[d] * word[d]
    return total - half_norm


@njit(nogil=True, error_model="numpy", cache=True)
def squared_distance(a: AnyArray, b: Float32) -> float:
    """Squared distance in float64, summed in a fixed order: equal words give equal results."""
    total = 0.0
    for d in range(a.shape[0]):
        difference = np.float64(a[d]) - np.float64(b[d])
        total += difference * difference
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def _weigh(
    i: int,
    k: Any,
    value: Any,
    error: Any,
    exact_rows: Float32,
    exact_words: Float32,
    best: Float32,
    code: Int32,
) -> None:
    """Compare word ``k`` of this score with row ``i``'s best word so far."""
    if value > best[i] + 2 * error:
        code[i] = k
    elif value >= best[i] - 2 * error and k != code[i]:
        # Too close for float32: the exact distances decide, and the lower index on a tie.
        ours = squared_distance(exact_rows[i], exact_words[k])
        theirs = squared_distance(exact_rows[i], exact_words[code[i]])
        if ours < theirs or (ours == theirs and k < code[i]):
            code[i] = k
    if value > best[i]:
        best[i] = value


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def score_guess(rows: Rows, words: Words, best: Float32, code: Int32) -> None:
    """Write the score of the word that ``code`` already names for each row."""
    centred, (vectors, half_norms, _) = rows.centred, words
    for i in range(centred.shape[0]):
        best[i] = _score(centred[i], vectors[code[i]], half_norms[code[i]])


@njit(nogil=True, error_model="numpy", cache=True)
def scan_bounds(
    bounds: Float32,
    first_word: int,
    rows: Rows,
    words: Words,
    margin: Float32,
    best: Float32,
    code: Int32,
) -> None:
    """Update best and code from upper bounds of the scores of a tile of words.

    ``bounds`` minus the half norm is an upper bound of a score, up to ``margin``. Words are taken
    in groups: the best bound of a group is scored if it reaches the best score so far, and the rest
    of the group one by one only if its second best bound does too, which is rare.
    """
    # Local names: taking arrays from the tuples inside the loop made hard coding 5 % slower.
    centred, exact_rows, error = rows
    vectors, half_norms, exact_words = words
    n_words, n_rows = bounds.shape
    top = np.empty(n_rows, np.float32)
    below = np.empty(n_rows, np.float32)
    guess = np.zeros(n_rows, np.int32)
    for begin in range(0, n_words, GROUP):
        group = bounds[begin : begin + GROUP]
        half = half_norms[first_word + begin : first_word + begin + group.shape[0]]
        top[:] = LOWEST
        below[:] = LOWEST
        scan_best_two(group, half, first_word + begin, top, below, guess)
        for i in range(n_rows):
            if top[i] < best[i] - margin[i]:
                continue
            k = guess[i]
            value = _score(centred[i], vectors[k], half_norms[k])
            _weigh(i, k, value, error[i], exact_rows, exact_words, best, code)
            if below[i] < best[i] - margin[i]:
                continue
            for j in range(group.shape[0]):
                k = np.int32(first_word + begin + j)
                if group[j, i] - half[j] >= best[i] - margin[i] and k != guess[i]:
                    value = _score(centred[i], vectors[k], half_norms[k])
                    _weigh(i, k, value, error[i], exact_rows, exact_words, best, code)


@njit(nogil=True, error_model="numpy", cache=True)
def settle(rows: Rows, words: Words, best: Float32, second: Float32, code: Int32) -> int:
    """Decide, in float64, the rows whose two best scores are too close for float32.

    A row whose best two scores differ by more than twice its error is certain. For the others every
    word that could still win is compared exactly; ties go to the lowest index. Returns the number
    of rows that were not certain.
    """
    centred, exact_rows, error = rows
    vectors, half_norms, exact_words = words
    settled = 0
    for i in range(centred.shape[0]):
        if best[i] - second[i] > 2 * error[i]:
            continue
        settled += 1
        limit = best[i] - 2 * error[i]
        nearest = np.inf
        for k in range(vectors.shape[0]):
            if _score(centred[i], vectors[k], half_norms[k]) >= limit:
                distance = squared_distance(exact_rows[i], exact_words[k])
                if distance < nearest:
                    nearest = distance
                    code[i] = k
    return settled
