"""Moving descriptors between words when words come and go: arrays in, arrays out.

``rank`` is each descriptor's place in its ranked list, ``FAR`` where no listed word is kept. The
arrays of a far descriptor: ``far_word`` (position, -1 while it has none), its score and the bound
of that score's error. ``column`` gives the column of a word, -1 for a pruned one and for the
padding at the end of a list. ``counts`` and ``table`` are (n_columns, n_bags).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.nearest._scan_kernel import squared_distance

FAR = np.uint8(255)


@njit(nogil=True, cache=True)
def count_entries(lists: NDArray[np.uint16], n: NDArray[np.int64]) -> None:
    """Count how often each word is listed; the last entry of ``n`` counts the padding."""
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            n[lists[i, r]] += 1


@njit(nogil=True, cache=True)
def place_entries(
    lists: NDArray[np.uint16],
    first_row: int,
    place: NDArray[np.int64],
    rows: NDArray[np.int32],
    ranks: NDArray[np.uint8],
) -> None:
    """Write (descriptor, rank) of every listed word to where that word's entries go on."""
    n_words = len(place) - 1
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            word = lists[i, r]
            if word < n_words:
                e = place[word]
                rows[e] = first_row + i
                ranks[e] = r
                place[word] = e + 1


@njit(nogil=True, cache=True)
def walk(
    lists: NDArray[np.uint16],
    rows: NDArray[np.int32],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None:
    """Write the rank of the first kept word after the present one, for each of ``rows``."""
    n_ranked = lists.shape[1]
    for a in range(len(rows)):
        i = rows[a]
        here = FAR
        for r in range(rank[i] + 1, n_ranked):
            if column[lists[i, r]] >= 0:
                here = np.uint8(r)
                break
        found[a] = here


@njit(nogil=True, cache=True)
def walk_all(lists: NDArray[np.uint16], column: NDArray[np.int32], rank: NDArray[np.uint8]) -> None:
    """Write the rank of each descriptor's first kept word."""
    n_ranked = lists.shape[1]
    for i in range(len(rank)):
        here = FAR
        for r in range(n_ranked):
            if column[lists[i, r]] >= 0:
                here = np.uint8(r)
                break
        rank[i] = here


@njit(nogil=True, cache=True)
def fill_counts(
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    far_word: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> None:
    """Count every descriptor for its word."""
    for i in range(len(rank)):
        if rank[i] == FAR:
            counts[column[far_word[i]], bag_of[i]] += 1
        else:
            counts[column[lists[i, rank[i]]], bag_of[i]] += 1


@njit(nogil=True, cache=True)
def divide(
    counts: NDArray[np.int32], sizes: NDArray[np.float32], table: NDArray[np.float32]
) -> None:
    """Turn counts into shares of each bag's descriptors."""
    for c in range(counts.shape[0]):
        for b in range(counts.shape[1]):
            table[c, b] = np.float32(counts[c, b]) / sizes[b]


@njit(nogil=True, cache=True, inline="always")
def _add(
    c: int,
    b: int,
    amount: int,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    counts[c, b] += amount
    table[c, b] = np.float32(counts[c, b]) / sizes[b]
    touched[c] = 1


@njit(nogil=True, cache=True)
def owned(
    words: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.int32],
    entry_ranks: NDArray[np.uint8],
    rank: NDArray[np.uint8],
    rows: NDArray[np.int32],
    n_of: NDArray[np.int64],
) -> int:
    """Collect the descriptors that have these words in their lists and as codes.

    They are written to ``rows`` one word after another, and how many each word has to ``n_of``.
    """
    n = 0
    for j in range(len(words)):
        before = n
        begin, end = starts[words[j]], starts[words[j] + 1]
        some_rows, some_ranks = entry_rows[begin:end], entry_ranks[begin:end]
        for e in range(end - begin):
            i = some_rows[e]
            if rank[i] == some_ranks[e]:
                rows[n] = i
                n += 1
        n_of[j] = n - before
    return n


@njit(nogil=True, cache=True)
def release(
    rows: NDArray[np.int32],
    n_of: NDArray[np.int64],
    out_columns: NDArray[np.int64],
    found: NDArray[np.uint8],
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    sizes: NDArray[np.float32],
    rank: NDArray[np.uint8],
    far_word: NDArray[np.int32],
    counts: NDArray[np.int32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Move descriptors from outgoing words to the ranks found for them; return how many found none.

    Those become far, without a word for now.
    """
    a = 0
    n_lost = 0
    for j in range(len(n_of)):
        for _ in range(n_of[j]):
            i = rows[a]
            r = found[a]
            a += 1
            _add(out_columns[j], bag_of[i], -1, counts, sizes, table, touched)
            rank[i] = r
            if r == FAR:
                far_word[i] = -1
                n_lost += 1
            else:
                _add(column[lists[i, r]], bag_of[i], 1, counts, sizes, table, touched)
    return n_lost


@njit(nogil=True, cache=True)
def release_far(
    far_rows: NDArray[np.int32],
    column: NDArray[np.int32],
    out_column: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    sizes: NDArray[np.float32],
    far_word: NDArray[np.int32],
    counts: NDArray[np.int32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Take their word from the far descriptors whose word is pruned; return how many lost it.

    ``out_column`` is the column that each word had, -1 for words that do not go.
    """
    n_lost = 0
    for a in range(len(far_rows)):
        i = far_rows[a]
        word = far_word[i]
        if column[word] < 0:
            _add(out_column[word], bag_of[i], -1, counts, sizes, table, touched)
            far_word[i] = -1
            n_lost += 1
    return n_lost


@njit(nogil=True, cache=True)
def claim(
    words: NDArray[np.int64],
    in_columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.int32],
    entry_ranks: NDArray[np.uint8],
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    sizes: NDArray[np.float32],
    rank: NDArray[np.uint8],
    far_word: NDArray[np.int32],
    counts: NDArray[np.int32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Give each incoming word the descriptors that list it before their code.

    Returns how many of them were far and are no longer.
    """
    n_back = 0
    for j in range(len(words)):
        begin, end = starts[words[j]], starts[words[j] + 1]
        some_rows, some_ranks = entry_rows[begin:end], entry_ranks[begin:end]
        touched[in_columns[j]] = 1
        for e in range(end - begin):
            i = some_rows[e]
            r = rank[i]
            if some_ranks[e] < r:
                b = bag_of[i]
                if r == FAR:
                    n_back += 1
                    if far_word[i] >= 0:
                        _add(column[far_word[i]], b, -1, counts, sizes, table, touched)
                else:
                    _add(column[lists[i, r]], b, -1, counts, sizes, table, touched)
                rank[i] = some_ranks[e]
                _add(in_columns[j], b, 1, counts, sizes, table, touched)
    return n_back


@njit(nogil=True, cache=True)
def far_rows(rank: NDArray[np.uint8], rows: NDArray[np.int32]) -> int:
    """Write the numbers of the far descriptors, ascending."""
    n = 0
    for i in range(len(rank)):
        rows[n] = i
        n += 1 if rank[i] == FAR else 0
    return n


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _dot(a: NDArray[np.float32], b: NDArray[np.float32]) -> np.float32:
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _centred(row: NDArray[np.uint8], centre: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    for d in range(len(out)):
        out[d] = np.float32(row[d]) - centre[d]


@njit(nogil=True, error_model="numpy", cache=True)
def challenge(
    far_rows: NDArray[np.int32],
    words: NDArray[np.int64],
    values: NDArray[np.uint8],
    centre: NDArray[np.float32],
    all_words: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    exact_words: NDArray[np.float32],
    far_word: NDArray[np.int32],
    far_score: NDArray[np.float32],
    far_error: NDArray[np.float32],
    winner: NDArray[np.int32],
) -> None:
    """Let incoming words stand against the word of each far descriptor.

    Writes the winner, which may be the present word, and the score of a new one. Scores too close
    for float32 are settled by exact distances; on a tie the lower position wins.
    """
    n_dims = values.shape[1]
    row = np.empty(n_dims, np.float32)
    exact = np.empty(n_dims, np.float32)
    for a in range(len(far_rows)):
        i = far_rows[a]
        winner[a] = far_word[i]
        if far_word[i] < 0:
            continue
        _centred(values[i], centre, row)
        twice = 2 * far_error[i]
        for j in range(len(words)):
            k = words[j]
            score = _dot(row, all_words[k]) - half_norms[k]
            if score < far_score[i] - twice:
                continue
            wins = score > far_score[i] + twice
            if not wins:
                for d in range(n_dims):
                    exact[d] = values[i, d]
                ours = squared_distance(exact, exact_words[k])
                theirs = squared_distance(exact, exact_words[winner[a]])
                wins = ours < theirs or (ours == theirs and k < winner[a])
            if wins:
                winner[a] = k
                far_score[i] = score


@njit(nogil=True, cache=True)
def settle_far(
    rows: NDArray[np.int32],
    winner: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    sizes: NDArray[np.float32],
    far_word: NDArray[np.int32],
    counts: NDArray[np.int32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Give far descriptors the words that won them."""
    for a in range(len(rows)):
        i = rows[a]
        if winner[a] != far_word[i]:
            if far_word[i] >= 0:
                _add(column[far_word[i]], bag_of[i], -1, counts, sizes, table, touched)
            _add(column[winner[a]], bag_of[i], 1, counts, sizes, table, touched)
            far_word[i] = winner[a]


@njit(nogil=True, error_model="numpy", cache=True)
def score_rows(
    centred: NDArray[np.float32],
    codes: NDArray[np.int32],
    all_words: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    scores: NDArray[np.float32],
) -> None:
    """Write the score of each row's word."""
    for a in range(len(codes)):
        scores[a] = _dot(centred[a], all_words[codes[a]]) - half_norms[codes[a]]
