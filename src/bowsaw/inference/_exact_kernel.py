"""Moving the descriptors of segments when words come and go: arrays in, arrays out.

A *segment* is a run of whole bags with an inverted index of its own, in which descriptors are
numbered from its first, so that two bytes suffice. Segments can be worked on by several threads:
they share no entry of any array but ``column`` and ``held``, which are read, and ``touched``, in
which all write the same.

A move can be taken back: it writes down the place and the word that each descriptor had before, in
order, as often as it changes them. ``past_rows``, ``past_ranks`` and ``past_codes`` are that
journal, with room for every index entry of the words that come and go; ``n_past`` says how full it
is.

``rank`` is each descriptor's place in its ranked list, ``FAR`` where no listed word is kept, and
``code`` its word (a position; n_words for none). ``column`` gives the column of a word, -1 for a
pruned one and for n_words; ``held`` is the same but outgoing words still have theirs. ``table`` is
(n_columns, n_bags).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FAR = np.uint8(255)

DEEP = 32
"""Entries of ranks from this on are kept apart: with many words kept, no code is that deep."""

BLOCK_ROWS = 4096

BATCH = 32
"""How many places in memory are asked for at once. What is read then is summed up and never used,
but for a comparison that always fails: without one, the compiler would see that nobody needs it."""


@njit(nogil=True, error_model="numpy", cache=True)
def to_counts(sizes: NDArray[np.float32], table: NDArray[np.float32]) -> None:
    """Turn shares of bags back into counts, exactly: see ``_add``."""
    for c in range(table.shape[0]):
        for b in range(table.shape[1]):
            table[c, b] = np.rint(table[c, b] * sizes[b])


@njit(nogil=True, error_model="numpy", cache=True)
def to_shares(sizes: NDArray[np.float32], table: NDArray[np.float32]) -> None:
    """Turn counts into shares of bags."""
    for c in range(table.shape[0]):
        for b in range(table.shape[1]):
            table[c, b] = table[c, b] / sizes[b]


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _add(
    c: int,
    b: int,
    amount: float,
    often: bool,
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Change a count of which the table has the share, or the count itself if that is ``often``.

    The share of a count below 2²², times the size, is within half a unit of the count: so it need
    not be kept besides, and a move touches one place of memory instead of two.
    """
    if often:
        table[c, b] += np.float32(amount)
    else:
        table[c, b] = (np.rint(table[c, b] * sizes[b]) + np.float32(amount)) / sizes[b]
    # Written once: a line of memory that two threads write goes to and fro between their caches.
    if touched[c] == 0:
        touched[c] = 1


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
    first_row: int,
    often: bool,
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
    tally: NDArray[np.int64],
    past_rows: NDArray[np.int32],
    past_ranks: NDArray[np.uint8],
    past_codes: NDArray[np.int32],
    n_past: int,
) -> int:
    """Let the descriptors of outgoing words walk on to the next kept word of their lists.

    Those that find none become far, without a word for now. Returns how full the journal is.
    """
    n_none = len(column) - 1
    n_ranked = lists.shape[1]
    last = 2 if tally[1] else 1
    n_lines = 0 if tally[1] == 0 else 2 if tally[0] == 0 else 4
    ignored = 0
    n_far = 0
    n_deep = 0
    mine = np.empty(BLOCK_ROWS, np.int32)
    for j in range(len(words)):
        end = starts[2 * words[j] + last]
        e = starts[2 * words[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                i = first_row + entry_rows[at]
                mine[n] = i
                n += 1 if rank[i] == entry_ranks[at] else 0
            e = stop
            for a in range(n):
                # Lists lie far apart in memory. Asked for one by one, each would be waited for; so
                # a batch is touched first, and memory answers many questions in the time of one.
                if a % BATCH == 0:
                    for ahead in range(a, a + BATCH if a + BATCH < n else n):
                        i = mine[ahead]
                        for line in range(n_lines):
                            r = rank[i] + 1 + 32 * line
                            ignored += lists[i, r if r < n_ranked else n_ranked - 1]
                    if ignored < 0:
                        return 0
                i = mine[a]
                here = FAR
                word = n_none
                for r in range(rank[i] + 1, n_ranked):
                    if column[lists[i, r]] >= 0:
                        here = np.uint8(r)
                        word = lists[i, r]
                        break
                b = bag_of[i]
                _add(columns[j], b, -1, often, sizes, table, touched)
                past_rows[n_past] = i
                past_ranks[n_past] = rank[i]
                past_codes[n_past] = code[i]
                n_past += 1
                n_deep += (1 if here >= DEEP else 0) - (1 if rank[i] >= DEEP else 0)
                rank[i] = here
                code[i] = word
                if here == FAR:
                    n_far += 1
                else:
                    _add(column[word], b, 1, often, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep
    return n_past


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
    first_row: int,
    often: bool,
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
    tally: NDArray[np.int64],
    past_rows: NDArray[np.int32],
    past_ranks: NDArray[np.uint8],
    past_codes: NDArray[np.int32],
    n_past: int,
) -> int:
    """Give each incoming word the descriptors that list it before their code.

    Returns how full the journal is.
    """
    last = 2 if tally[1] else 1
    n_far = 0
    n_deep = 0
    mine = np.empty(BLOCK_ROWS, np.int64)
    for j in range(len(words)):
        end = starts[2 * words[j] + last]
        e = starts[2 * words[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                mine[n] = at
                n += 1 if entry_ranks[at] < rank[first_row + entry_rows[at]] else 0
            e = stop
            for a in range(n):
                i = first_row + entry_rows[mine[a]]
                b = bag_of[i]
                before = held[code[i]]
                if before >= 0:
                    _add(before, b, -1, often, sizes, table, touched)
                here = entry_ranks[mine[a]]
                past_rows[n_past] = i
                past_ranks[n_past] = rank[i]
                past_codes[n_past] = code[i]
                n_past += 1
                n_far -= 1 if rank[i] == FAR else 0
                n_deep += (1 if here >= DEEP else 0) - (1 if rank[i] >= DEEP else 0)
                rank[i] = here
                code[i] = words[j]
                _add(columns[j], b, 1, often, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep
    return n_past


@njit(nogil=True, error_model="numpy", cache=True)
def move(
    begin: int,
    end: int,
    first_rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    entry_rows: NDArray[np.uint16],
    entry_ranks: NDArray[np.uint8],
    out: NDArray[np.int64],
    out_columns: NDArray[np.int64],
    in_: NDArray[np.int64],
    in_columns: NDArray[np.int64],
    lists: NDArray[np.uint16],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    held: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    often: bool,
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
    tally: NDArray[np.int64],
    past_rows: NDArray[np.int32],
    past_ranks: NDArray[np.uint8],
    past_codes: NDArray[np.int32],
) -> tuple[int, int]:
    """Follow a move in segments ``begin`` to ``end`` as far as lists go.

    ``starts`` and ``tally`` have a row a segment; the tally of far and deep descriptors follows.
    Returns how many are far, and how full the journal is.
    """
    n_far = 0
    n_past = 0
    for s in range(begin, end):
        n_past = _release(
            out,
            out_columns,
            starts[s],
            entry_rows,
            entry_ranks,
            lists,
            bag_of,
            column,
            rank,
            code,
            first_rows[s],
            often,
            sizes,
            table,
            touched,
            tally[s],
            past_rows,
            past_ranks,
            past_codes,
            n_past,
        )
        n_past = _claim(
            in_,
            in_columns,
            starts[s],
            entry_rows,
            entry_ranks,
            bag_of,
            held,
            rank,
            code,
            first_rows[s],
            often,
            sizes,
            table,
            touched,
            tally[s],
            past_rows,
            past_ranks,
            past_codes,
            n_past,
        )
        n_far += tally[s, 0]
    return n_far, n_past


@njit(nogil=True, error_model="numpy", cache=True)
def settle(
    rows: NDArray[np.int32],
    words: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    held: NDArray[np.int32],
    code: NDArray[np.int32],
    often: bool,
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
            _add(before, b, -1, often, sizes, table, touched)
        _add(column[words[a]], b, 1, often, sizes, table, touched)
        code[i] = words[a]


@njit(nogil=True, error_model="numpy", cache=True)
def take_back(
    rows: NDArray[np.int32],
    ranks: NDArray[np.uint8],
    codes: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    held: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    often: bool,
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
    touched: NDArray[np.uint8],
) -> None:
    """Give descriptors the ranks and words of a journal, the last entry first."""
    for a in range(len(rows) - 1, -1, -1):
        i = rows[a]
        b = bag_of[i]
        now = column[code[i]]
        before = held[codes[a]]
        if now >= 0:
            _add(now, b, -1, often, sizes, table, touched)
        if before >= 0:
            _add(before, b, 1, often, sizes, table, touched)
        rank[i] = ranks[a]
        code[i] = codes[a]
