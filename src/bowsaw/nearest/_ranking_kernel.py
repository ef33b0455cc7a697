"""Each descriptor's nearest words in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Float32, Float64, Int32
from bowsaw.nearest._search_kernel import (
    LOWEST,
    ScoreError,
    Words,
    error_of,
    longest_near,
    squared_distance,
)

MANY = 512
"""Above this many candidates a row is sorted by merging instead of by counting."""


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _group_tops(scores: Float32, half_norms: Float32, top: Float32) -> None:
    """Subtract the half norms in place; write the best score of each strided group."""
    n_groups = len(top)
    n_words = len(scores)
    top[:] = LOWEST
    for begin in range(0, n_words, n_groups):
        part = scores[begin : begin + n_groups]
        half = half_norms[begin : begin + n_groups]
        for c in range(len(part)):
            v = part[c] - half[c]
            part[c] = v
            top[c] = v if v > top[c] else top[c]


@njit(nogil=True, error_model="numpy", cache=True)
def _count_from(values: Float32, limit: np.float32) -> int:
    n = 0
    for c in range(len(values)):
        n += 1 if values[c] >= limit else 0
    return n


@njit(nogil=True, error_model="numpy", cache=True)
def _limit(top: Float32, n_wanted: int) -> Any:
    """Return a number that at least ``n_wanted`` of the group tops reach, and few more."""
    low = top[0]
    high = top[0]
    for c in range(len(top)):
        low = top[c] if top[c] < low else low
        high = top[c] if top[c] > high else high
    for _ in range(14):
        middle = np.float32(0.5) * (low + high)
        n = _count_from(top, middle)
        if n >= n_wanted:
            low = middle
            if n <= n_wanted + 4:
                break
        else:
            high = middle
    return low


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _n_above(keys: Float32, key: np.float32) -> int:
    # Counted in float32: exact for integers of this size, and vectorised.
    n = np.float32(0)
    for j in range(len(keys)):
        n += np.float32(1) if keys[j] > key else np.float32(0)
    return int(n)


@njit(nogil=True, error_model="numpy", cache=True)
def _merge_sort(keys: Float32, n: int, order: Int32) -> None:
    """Write what ``_order`` does; numba compiles it in 0.3 s, NumPy's stable sort in 2 s."""
    other = np.empty(n, np.int32)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for begin in range(0, n, 2 * width):
            middle = min(begin + width, n)
            end = min(begin + 2 * width, n)
            left = begin
            right = middle
            for at in range(begin, end):
                if left < middle and (right == end or keys[order[left]] >= keys[order[right]]):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
        for i in range(n):
            order[i] = other[i]
        width *= 2


@njit(nogil=True, error_model="numpy", cache=True)
def _order(keys: Float32, n: int, order: Int32) -> None:
    """Write the stable order of the first ``n`` keys, largest first; may change those behind."""
    if n > MANY:
        _merge_sort(keys, n, order)
        return
    padded = n + (-n) % 16
    padded = padded if padded < len(keys) else len(keys)
    keys[n:padded] = LOWEST
    some = keys[:padded]
    order[:n] = -1
    for i in range(n):
        place = _n_above(some, keys[i])
        while order[place] >= 0:
            place += 1
        order[place] = i


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _nearer_by(row: Float32, words: Float32, first: int, second: int) -> tuple[float, float]:
    """Return by how much the first word is nearer, and the size of the terms, in any order."""
    total = 0.0
    size = 0.0
    for d in range(row.shape[0]):
        a = np.float64(row[d]) - np.float64(words[first, d])
        b = np.float64(row[d]) - np.float64(words[second, d])
        total += b * b - a * a
        size += b * b + a * a
    return total, size


@njit(nogil=True, error_model="numpy", cache=True)
def comes_before(row: Float32, exact_words: Float32, first: Any, second: Any) -> bool:
    """Compare two words of a row by exact distance, then by position.

    Sums of n squares in two orders differ by less than 2 (n + 2) 2⁻⁵³ of themselves, and so does
    a sum of differences from the difference of sums. Where that is not certain, the sums in the
    fixed order decide.
    """
    nearer_by, size = _nearer_by(row, exact_words, first, second)
    doubt = (row.shape[0] + 3) * 2.0**-50 * size
    if abs(nearer_by) > doubt:
        return nearer_by > 0
    a = squared_distance(row, exact_words[first])
    b = squared_distance(row, exact_words[second])
    return a < b or (a == b and first < second)


@njit(nogil=True, error_model="numpy", cache=True)
def _settle_run(row: Float32, exact_words: Float32, words: Int32) -> None:
    """Sort a run of words, too close for float32, by exact distance and then by position."""
    for a in range(1, len(words)):
        word = words[a]
        b = a
        while b > 0 and comes_before(row, exact_words, word, words[b - 1]):
            words[b] = words[b - 1]
            b -= 1
        words[b] = word


@njit(nogil=True, error_model="numpy", cache=True)
def _write_limits(
    keys: Float32,
    order: Int32,
    words: Int32,
    lengths: Float32,
    length: float,
    error: ScoreError,
    low: Float64,
    high: Float64,
) -> None:
    """Write between which limits each score is: the upper one is that of all after it, too."""
    most = -np.inf
    for a in range(len(order) - 1, -1, -1):
        doubt = error_of(length, lengths[words[a]], error)
        low[a] = keys[order[a]] - doubt
        most = keys[order[a]] + doubt if keys[order[a]] + doubt > most else most
        high[a] = most


@njit(nogil=True, error_model="numpy", cache=True)
def rank_rows(
    products: Float32,
    words: Words,
    lengths: Float32,
    exact_rows: Float32,
    row_norms: Float32,
    error: ScoreError,
    n_groups: int,
    out: AnyArray,
) -> None:
    """Write each row's nearest words to ``out``, (n_rows, n_ranked), nearest first.

    ``products`` is (n_rows, n_words) and is overwritten; ``lengths`` are the norms of the words,
    ``row_norms`` the squared ones of the rows. Words are dealt into ``n_groups`` groups (at least
    n_ranked, or all words). Candidates are sorted by float32 scores; those whose order errors could
    change, again by exact distances. An entry that a word below the limit could precede is left
    out: padded with n_words.
    """
    half_norms, exact_words = words.half_norms, words.exact
    n_rows, n_words = products.shape
    n_ranked = out.shape[1]
    top = np.empty(n_groups, np.float32)
    keys = np.empty(n_words, np.float32)
    chosen = np.empty(n_groups + 1, np.int32)
    found = np.empty(n_words + 1, np.int32)
    order = np.empty(n_words, np.int32)
    sorted_words = np.empty(n_words, np.int32)
    low = np.empty(n_words, np.float64)
    high = np.empty(n_words, np.float64)
    for i in range(n_rows):
        scores = products[i]
        _group_tops(scores, half_norms, top)
        limit = LOWEST if n_groups == n_words else _limit(top, n_ranked)
        # Append always and count some: no branch to mispredict.
        n_chosen = 0
        for c in range(n_groups):
            chosen[n_chosen] = c
            n_chosen += 1 if top[c] >= limit else 0
        n: Any = np.int64(0)  # a literal would compile a second ``_order``
        for g in range(n_chosen):
            for k in range(chosen[g], n_words, n_groups):
                found[n] = k
                n += 1 if scores[k] >= limit else 0
        for a in range(n):
            keys[a] = scores[found[a]]
        _order(keys, n, order)
        certain = LOWEST
        length = np.sqrt(np.float64(row_norms[i]))
        if n < n_words:
            longest = longest_near(length, float(limit), error)
            certain = np.float32(limit + 2 * error_of(length, longest, error))
        most = np.float32(0)
        for a in range(n):
            word = found[order[a]]
            sorted_words[a] = word
            most = lengths[word] if lengths[word] > most else most
        twice = 2 * error_of(length, float(most), error)
        has_limits = False
        a = 0
        while a < n and a < n_ranked:
            b = a + 1
            # In doubt by the error of the longest word: each word's own may leave less in doubt.
            if not has_limits and b < n and keys[order[a]] - keys[order[b]] <= twice:
                _write_limits(keys, order[:n], sorted_words, lengths, length, error, low, high)
                has_limits = True
            if has_limits:
                least = low[a]
                while b < n and least <= high[b]:
                    least = low[b] if low[b] < least else least
                    b += 1
            if b - a > 1:
                _settle_run(exact_rows[i], exact_words, sorted_words[a:b])
            # A run is certain as a whole or not at all: a word below the limit might be in it.
            if keys[order[b - 1]] < certain:
                break
            for p in range(a, b if b < n_ranked else n_ranked):
                out[i, p] = sorted_words[p]
            a = b
        for p in range(a, n_ranked):
            out[i, p] = n_words
