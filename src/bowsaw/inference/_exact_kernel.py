"""Moving the descriptors of a segment when words come and go: arrays in, arrays out.

A *segment* is a run of whole bags; its descriptors are numbered from 0, and so are its bags, so
that segments can be worked on by several threads: they share no row of any array but ``column`` and
``held``, which are read, and ``touched``, in which all write the same.

``rank`` is each descriptor's place in its ranked list, ``FAR`` where no listed word is kept, and
``code`` its word (a position; n_words for none). ``column`` gives the column of a word, -1 for a
pruned one and for n_words; ``held`` is the same but outgoing words still have theirs. ``score`` of
a far descriptor is that of its word, and ``NEVER`` of the others; two scores within ``margin`` are
too close to tell. ``counts`` and ``table`` are (n_columns, n_bags).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.nearest._scan_kernel import squared_distance

FAR = np.uint8(255)

NEVER = np.float32(3e38)
"""The score of descriptors that are not far: above every bound."""

BLOCK_ROWS = 4096


@njit(nogil=True, error_model="numpy", cache=True)
def invert(
    lists: NDArray[np.uint16],
    starts: NDArray[np.int64],
    rows: NDArray[np.uint16],
    ranks: NDArray[np.uint8],
) -> None:
    """Write the inverted index of a segment: for each word its (descriptor, rank) entries.

    ``starts`` is (n_words + 2,); the entries of word w end up from ``starts[w]`` to
    ``starts[w + 1]``, by descriptor. ``rows`` and ``ranks`` have room for all of ``lists``.
    """
    n_words = len(starts) - 2
    starts[:] = 0
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            starts[lists[i, r] + 1] += 1
    for w in range(n_words + 1):
        starts[w + 1] += starts[w]
    place = starts[: n_words + 1].copy()
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            word = lists[i, r]
            e = place[word]
            rows[e] = i
            ranks[e] = r
            place[word] = e + 1


@njit(nogil=True, error_model="numpy", cache=True)
def begin(
    lists: NDArray[np.uint16],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    score: NDArray[np.float32],
    far: NDArray[np.int32],
) -> int:
    """Find each descriptor's first kept word; collect those that have none and return how many."""
    n_none = len(column) - 1
    n_far = 0
    for i in range(len(rank)):
        here = FAR
        word = n_none
        for r in range(lists.shape[1]):
            if column[lists[i, r]] >= 0:
                here = np.uint8(r)
                word = lists[i, r]
                break
        rank[i] = here
        code[i] = word
        score[i] = NEVER
        if here == FAR:
            far[n_far] = i
            n_far += 1
    return n_far


@njit(nogil=True, error_model="numpy", cache=True)
def fill(
    code: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
) -> None:
    """Count every descriptor for its word, and divide."""
    counts[:] = 0
    for i in range(len(code)):
        counts[column[code[i]], bag_of[i]] += 1
    for c in range(counts.shape[0]):
        for b in range(counts.shape[1]):
            table[c, b] = np.float32(counts[c, b]) / sizes[b]


@njit(nogil=True, error_model="numpy", cache=True)
def divide_touched(
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Turn the counts of the touched columns into shares."""
    for c in range(len(touched)):
        if touched[c]:
            for b in range(len(sizes)):
                table[c, b] = np.float32(counts[c, b]) / sizes[b]


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _add(
    c: int,
    b: int,
    amount: int,
    often: bool,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Change a count, and its share unless that happens too ``often``."""
    counts[c, b] += amount
    touched[c] = 1
    if not often:
        table[c, b] = np.float32(counts[c, b]) / sizes[b]


@njit(nogil=True, error_model="numpy", cache=True)
def _release(
    words: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.uint16],
    entry_ranks: NDArray[np.uint8],
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    often: bool,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Let the descriptors of outgoing words walk on to the next kept word of their lists.

    Those that find none become far, without a word for now; returns how many.
    """
    n_none = len(column) - 1
    n_ranked = lists.shape[1]
    n_far = 0
    mine = np.empty(BLOCK_ROWS, np.int32)
    for j in range(len(words)):
        end = starts[words[j] + 1]
        e = starts[words[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                i = entry_rows[at]
                mine[n] = i
                n += 1 if rank[i] == entry_ranks[at] else 0
            e = stop
            for a in range(n):
                i = mine[a]
                here = FAR
                word = n_none
                for r in range(rank[i] + 1, n_ranked):
                    if column[lists[i, r]] >= 0:
                        here = np.uint8(r)
                        word = lists[i, r]
                        break
                b = bag_of[i]
                _add(columns[j], b, -1, often, counts, sizes, table, touched)
                rank[i] = here
                code[i] = word
                if here == FAR:
                    n_far += 1
                else:
                    _add(column[word], b, 1, often, counts, sizes, table, touched)
    return n_far


@njit(nogil=True, error_model="numpy", cache=True)
def _claim(
    words: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.uint16],
    entry_ranks: NDArray[np.uint8],
    bag_of: NDArray[np.int32],
    held: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    score: NDArray[np.float32],
    often: bool,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Give each incoming word the descriptors that list it before their code.

    Returns how many of them were far and are no longer.
    """
    n_back = 0
    mine = np.empty(BLOCK_ROWS, np.int64)
    for j in range(len(words)):
        end = starts[words[j] + 1]
        e = starts[words[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                mine[n] = at
                n += 1 if entry_ranks[at] < rank[entry_rows[at]] else 0
            e = stop
            for a in range(n):
                i = entry_rows[mine[a]]
                b = bag_of[i]
                if rank[i] == FAR:
                    n_back += 1
                    score[i] = NEVER
                before = held[code[i]]
                if before >= 0:
                    _add(before, b, -1, often, counts, sizes, table, touched)
                rank[i] = entry_ranks[mine[a]]
                code[i] = words[j]
                _add(columns[j], b, 1, often, counts, sizes, table, touched)
    return n_back


@njit(nogil=True, error_model="numpy", cache=True)
def move(
    out: NDArray[np.int64],
    out_columns: NDArray[np.int64],
    in_: NDArray[np.int64],
    in_columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.uint16],
    entry_ranks: NDArray[np.uint8],
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    held: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    score: NDArray[np.float32],
    often: bool,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> int:
    """Follow a move as far as lists go; return how many more descriptors are far than before."""
    n_far = _release(
        out,
        out_columns,
        starts,
        entry_rows,
        entry_ranks,
        lists,
        bag_of,
        column,
        rank,
        code,
        often,
        counts,
        sizes,
        table,
        touched,
    )
    return n_far - _claim(
        in_,
        in_columns,
        starts,
        entry_rows,
        entry_ranks,
        bag_of,
        held,
        rank,
        code,
        score,
        often,
        counts,
        sizes,
        table,
        touched,
    )


@njit(nogil=True, error_model="numpy", cache=True)
def settle(
    rows: NDArray[np.int32],
    words: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    held: NDArray[np.int32],
    code: NDArray[np.int32],
    often: bool,
    counts: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Give far descriptors their new words."""
    for a in range(len(rows)):
        i = rows[a]
        b = bag_of[i]
        before = held[code[i]]
        if before >= 0:
            _add(before, b, -1, often, counts, sizes, table, touched)
        _add(column[words[a]], b, 1, often, counts, sizes, table, touched)
        code[i] = words[a]


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def centre_row(
    values: NDArray[np.uint8], i: int, centre: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """Write a descriptor relative to the mean word."""
    for d in range(len(out)):
        out[d] = np.float32(values[i, d]) - centre[d]


@njit(nogil=True, error_model="numpy", cache=True)
def centre_rows(
    values: NDArray[np.uint8],
    rows: NDArray[np.int32],
    centre: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write some descriptors relative to the mean word."""
    for a in range(len(rows)):
        centre_row(values, rows[a], centre, out[a])


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


@njit(nogil=True, error_model="numpy", cache=True)
def _is_nearer(
    row: NDArray[np.uint8], exact_words: NDArray[np.float32], ours: int, theirs: int
) -> bool:
    """Compare two words by exact distance, then by position."""
    exact = row.astype(np.float32)
    a = squared_distance(exact, exact_words[ours])
    b = squared_distance(exact, exact_words[theirs])
    return a < b or (a == b and ours < theirs)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _bounds(
    sketch: NDArray[np.int8],
    rest: NDArray[np.float32],
    word: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write upper bounds of the products of a block of descriptors with a word.

    ``sketch`` is (n_directions, n_rows), its number of directions a multiple of 4; ``word`` has the
    word along the directions, in the sketch's units, and the norm of what they leave of it.
    """
    n_directions, n_rows = sketch.shape
    last = word[n_directions]
    for i in range(n_rows):
        out[i] = rest[i] * last
    for p in range(0, n_directions, 4):
        q0 = sketch[p]
        q1 = sketch[p + 1]
        q2 = sketch[p + 2]
        q3 = sketch[p + 3]
        w0 = word[p]
        w1 = word[p + 1]
        w2 = word[p + 2]
        w3 = word[p + 3]
        for i in range(n_rows):
            out[i] += (
                np.float32(q0[i]) * w0
                + np.float32(q1[i]) * w1
                + np.float32(q2[i]) * w2
                + np.float32(q3[i]) * w3
            )


@njit(nogil=True, error_model="numpy", cache=True)
def challenge(
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
) -> tuple[int, int]:
    """Let incoming words stand against the words of the far descriptors.

    Collects the descriptors whose word is gone (``lost``), and those that an incoming word wins
    (``won``, with their ``winners`` and new scores). Most are ruled out by a bound; scores too
    close for float32 are settled by exact distances, and on a tie the lower position wins.
    """
    bound = np.empty(BLOCK_ROWS, np.float32)
    chosen = np.empty(BLOCK_ROWS + 1, np.int32)
    winner = np.empty(BLOCK_ROWS, np.int32)
    n_lost = 0
    n_won = 0
    for begin in range(0, len(rank), BLOCK_ROWS):
        end = begin + BLOCK_ROWS if begin + BLOCK_ROWS < len(rank) else len(rank)
        n_rows = end - begin
        lost_before = n_lost
        for i in range(begin, end):
            # Appending always and counting only some avoids branches that nobody can predict.
            lost[n_lost] = i
            n_lost += 1 if rank[i] == FAR and column[code[i]] < 0 else 0
        for a in range(lost_before, n_lost):
            score[lost[a]] = NEVER
        winner[:] = -1
        here_score = score[begin:end]
        here_margin = margin[begin:end]
        for j in range(len(words)):
            _bounds(sketch[:, begin:end], rest[begin:end], sketched[j], bound)
            add = slack[j] - in_half_norms[j]
            n_chosen = 0
            for a in range(n_rows):
                chosen[n_chosen] = a
                n_chosen += 1 if bound[a] + add >= here_score[a] - here_margin[a] else 0
            for c in range(n_chosen):
                a = chosen[c]
                i = begin + a
                value = _product(values, i, centre, in_words, j) - in_half_norms[j]
                if value < here_score[a] - here_margin[a]:
                    continue
                theirs = winner[a] if winner[a] >= 0 else code[i]
                if value > here_score[a] + here_margin[a] or _is_nearer(
                    values[i], exact_words, words[j], theirs
                ):
                    winner[a] = words[j]
                    here_score[a] = value
        for a in range(n_rows):
            won[n_won] = begin + a
            winners[n_won] = winner[a]
            n_won += 1 if winner[a] >= 0 else 0
    return n_lost, n_won
