"""Ranked lists under moves of words: arrays in, arrays out.

A *segment* is a run of whole bags with an inverted index of its own, in which descriptors are
numbered from its first, so that two bytes suffice. Several threads can work on segments: they share
no entry of any array but ``column`` and ``held``, which are read, and ``touched``, in which all
write the same.

A move can be undone: it writes down the rank and the word that each descriptor had before, in
order, as often as it changes them (``Journal``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Float32, Int32, Int64, UInt8
from bowsaw.nearest._search_kernel import ScoreError

FAR = np.uint8(255)
DEEP = 32
"""Entries of ranks from this on are stored apart: with many words kept, no code is that deep."""
BLOCK_ROWS = 4096
BATCH = 32
"""How many places in memory are requested at once. The values read are summed up and never used
but for a comparison that always fails, so that the compiler does not remove the reads."""


class Index(NamedTuple):
    """The inverted lists: the (descriptor, rank) entries of each word, segment by segment.

    Segment s begins with descriptor ``rows[s]`` of bag ``bags[s]``. Its entries of word w with
    ranks below ``DEEP`` begin at ``starts[s, 2 w]``, the others at ``starts[s, 2 w + 1]``.
    """

    bags: Int64
    rows: Int64
    starts: Int64
    entry_rows: AnyArray
    entry_ranks: UInt8


class Doubt(NamedTuple):
    """What makes scores too close for float32: see ``nearest.search``."""

    norms: Float32
    """Squared, of the descriptors relative to the mean word."""
    error: ScoreError
    widening: float
    """The error of a bound by a sketch, relative to ‖x‖ ‖c‖ + ‖c‖²."""


class Descriptors(NamedTuple):
    """Per descriptor: its ranked list, bag, rank, word and score.

    ``rank`` is its place in the list, ``FAR`` where no listed word is kept. ``code`` is the
    position of its word, n_words for none. ``score`` is that of the word of a far descriptor, and
    ``doubt`` shows which others are too close to it for float32.
    """

    lists: AnyArray
    bag_of: Int32
    rank: UInt8
    code: Int32
    score: Float32
    doubt: Doubt


class Counts(NamedTuple):
    """The histograms, ``(n_columns, n_bags)``, as shares of the bags' sizes or as counts."""

    as_counts: bool
    sizes: Float32
    table: Float32
    touched: UInt8


class Move(NamedTuple):
    """A move: words with their columns, and the columns of all words.

    ``column`` is -1 for a pruned word and for n_words; ``held`` is the same but removed words still
    have their columns.
    """

    removed: Int64
    removed_columns: Int64
    added: Int64
    added_columns: Int64
    column: Int32
    held: Int32


class Journal(NamedTuple):
    """What descriptors had before a move, in the order in which it changed them."""

    rows: Int32
    ranks: UInt8
    codes: Int32


@njit(nogil=True, error_model="numpy", cache=True)
def invert(lists: AnyArray, starts: Int64, rows: AnyArray, ranks: UInt8) -> None:
    """Write the inverted index of a segment; ``starts``, (2 n_words + 3,), is relative to it."""
    starts[:] = 0
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            starts[2 * lists[i, r] + (1 if r < DEEP else 2)] += 1
    for k in range(len(starts) - 1):
        starts[k + 1] += starts[k]
    place = starts.copy()
    for i in range(lists.shape[0]):
        for r in range(lists.shape[1]):
            k = 2 * lists[i, r] + (0 if r < DEEP else 1)
            e = place[k]
            rows[e] = i
            ranks[e] = r
            place[k] = e + 1


@njit(nogil=True, error_model="numpy", cache=True)
def first_kept(
    lists: AnyArray, column: Int32, rank: UInt8, code: Int32, far: Int32, tally: Int64
) -> None:
    """Find each descriptor's first kept word, and those without; ``tally``: far and deep ones."""
    n_none = len(column) - 1
    n_far, n_deep = 0, 0
    for i in range(len(rank)):
        here, word = FAR, n_none
        for r in range(lists.shape[1]):
            if column[lists[i, r]] >= 0:
                here = np.uint8(r)
                word = lists[i, r]
                break
        rank[i] = here
        code[i] = word
        n_deep += 1 if here >= DEEP else 0
        if here == FAR:
            far[n_far] = i
            n_far += 1
    tally[0], tally[1] = n_far, n_deep


@njit(nogil=True, error_model="numpy", cache=True)
def fill(code: Int32, bag_of: Int32, column: Int32, sizes: Float32, table: Float32) -> None:
    """Count every descriptor for its word, and divide."""
    table[:] = 0
    for i in range(len(code)):
        table[column[code[i]], bag_of[i]] += np.float32(1)
    to_shares(sizes, table)


@njit(nogil=True, error_model="numpy", cache=True)
def to_counts(sizes: Float32, table: Float32) -> None:
    """Turn shares of bags back into counts, exactly: see ``_add``."""
    for c in range(table.shape[0]):
        for b in range(table.shape[1]):
            table[c, b] = np.rint(table[c, b] * sizes[b])


@njit(nogil=True, error_model="numpy", cache=True)
def to_shares(sizes: Float32, table: Float32) -> None:
    """Turn counts into shares of bags."""
    for c in range(table.shape[0]):
        for b in range(table.shape[1]):
            table[c, b] = table[c, b] / sizes[b]


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _add(
    c: int, b: int, amount: float, as_counts: bool, sizes: Float32, table: Float32, touched: UInt8
) -> None:
    """Change a count of which the table has the share, or the count itself if ``as_counts``.

    The share of a count below 2²², times the size, is within half a unit of the count: no second
    table of counts is needed, and a move touches one place of memory instead of two.
    """
    if as_counts:
        table[c, b] += np.float32(amount)
    else:
        table[c, b] = (np.rint(table[c, b] * sizes[b]) + np.float32(amount)) / sizes[b]
    # Written once: a cache line that two threads write moves between their caches.
    if touched[c] == 0:
        touched[c] = 1


@njit(nogil=True, error_model="numpy", cache=True)
def _follow_segment(
    segment: int,
    index: Index,
    move: Move,
    descriptors: Descriptors,
    counts: Counts,
    tally: Int64,
    journal: Journal,
    n_past: int,
) -> int:
    """Follow a move in one segment as far as lists go; return the entries of the journal.

    First the descriptors of removed words move on to the next kept word of their lists; those
    without one become far, without a word for now. Then each added word gets the descriptors that
    list it before their code.
    """
    # Fields are taken out of their tuples before the loops, where each access would be counted.
    lists, bag_of, rank, code, _, _ = descriptors
    removed, removed_columns, added, added_columns, column, held = move
    _, first_rows, all_starts, entry_rows, entry_ranks = index
    as_counts, sizes, table, touched = counts
    past_rows, past_ranks, past_codes = journal
    starts, first_row = all_starts[segment], first_rows[segment]
    n_none = len(column) - 1
    n_ranked = lists.shape[1]
    last = 2 if tally[1] else 1
    n_lines = 0 if tally[1] == 0 else 2 if tally[0] == 0 else 4
    ignored, n_far, n_deep = 0, 0, 0
    mine = np.empty(BLOCK_ROWS, np.int32)
    for j in range(len(removed)):
        end = starts[2 * removed[j] + last]
        e = starts[2 * removed[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                i = first_row + entry_rows[at]
                mine[n] = i
                n += 1 if rank[i] == entry_ranks[at] else 0
            e = stop
            for a in range(n):
                # Lists lie far apart in memory. A batch is touched first, so that the reads
                # overlap instead of waiting for each other.
                if a % BATCH == 0:
                    for ahead in range(a, a + BATCH if a + BATCH < n else n):
                        i = mine[ahead]
                        for line in range(n_lines):
                            r = rank[i] + 1 + 32 * line
                            ignored += lists[i, r if r < n_ranked else n_ranked - 1]
                    if ignored < 0:
                        return 0
                i = mine[a]
                here, word = FAR, n_none
                for r in range(rank[i] + 1, n_ranked):
                    if column[lists[i, r]] >= 0:
                        here = np.uint8(r)
                        word = lists[i, r]
                        break
                b = bag_of[i]
                _add(removed_columns[j], b, -1, as_counts, sizes, table, touched)
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
                    _add(column[word], b, 1, as_counts, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep
    n_far, n_deep = 0, 0
    last = 2 if tally[1] else 1
    entries = np.empty(BLOCK_ROWS, np.int64)
    for j in range(len(added)):
        end = starts[2 * added[j] + last]
        e = starts[2 * added[j]]
        while e < end:
            n = 0
            stop = e + BLOCK_ROWS if e + BLOCK_ROWS < end else end
            for at in range(e, stop):
                entries[n] = at
                n += 1 if entry_ranks[at] < rank[first_row + entry_rows[at]] else 0
            e = stop
            for a in range(n):
                i = first_row + entry_rows[entries[a]]
                b = bag_of[i]
                before = held[code[i]]
                if before >= 0:
                    _add(before, b, -1, as_counts, sizes, table, touched)
                here = entry_ranks[entries[a]]
                past_rows[n_past] = i
                past_ranks[n_past] = rank[i]
                past_codes[n_past] = code[i]
                n_past += 1
                n_far -= 1 if rank[i] == FAR else 0
                n_deep += (1 if here >= DEEP else 0) - (1 if rank[i] >= DEEP else 0)
                rank[i] = here
                code[i] = added[j]
                _add(added_columns[j], b, 1, as_counts, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep
    return n_past


@njit(nogil=True, error_model="numpy", cache=True)
def follow_lists(
    begin: int,
    end: int,
    index: Index,
    move: Move,
    descriptors: Descriptors,
    counts: Counts,
    tally: Int64,
    journal: Journal,
) -> tuple[int, int]:
    """Follow a move in segments ``begin`` to ``end`` as far as lists go.

    ``tally`` has per segment the far and the deep descriptors. The journal has space for every
    index entry of the moved words. Returns the far descriptors and the entries of the journal.
    """
    n_far = 0
    n_past: Any = np.int64(0)  # a literal would compile a second ``_follow_segment``
    for s in range(begin, end):
        n_past = _follow_segment(s, index, move, descriptors, counts, tally[s], journal, n_past)
        n_far += tally[s, 0]
    return n_far, n_past


@njit(nogil=True, error_model="numpy", cache=True)
def assign_words(
    rows: Int32, words: Int32, move: Move, descriptors: Descriptors, counts: Counts
) -> None:
    """Give far descriptors their new words."""
    _, bag_of, _, code, _, _ = descriptors
    _, _, _, _, column, held = move
    as_counts, sizes, table, touched = counts
    for a in range(len(rows)):
        i = rows[a]
        b = bag_of[i]
        before = held[code[i]]
        if before >= 0:
            _add(before, b, -1, as_counts, sizes, table, touched)
        _add(column[words[a]], b, 1, as_counts, sizes, table, touched)
        code[i] = words[a]


@njit(nogil=True, error_model="numpy", cache=True)
def restore(journal: Journal, move: Move, descriptors: Descriptors, counts: Counts) -> None:
    """Give descriptors the ranks and words of a journal, the last entry first."""
    _, bag_of, rank, code, _, _ = descriptors
    _, _, _, _, column, held = move
    as_counts, sizes, table, touched = counts
    rows, ranks, codes = journal
    for a in range(len(rows) - 1, -1, -1):
        i = rows[a]
        b = bag_of[i]
        now = column[code[i]]
        before = held[codes[a]]
        if now >= 0:
            _add(now, b, -1, as_counts, sizes, table, touched)
        if before >= 0:
            _add(before, b, 1, as_counts, sizes, table, touched)
        rank[i] = ranks[a]
        code[i] = codes[a]
