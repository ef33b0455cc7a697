"""Moving the descriptors of segments when words come and go: arrays in, arrays out.

A *segment* is a run of whole bags with an inverted index of its own, in which descriptors are
numbered from its first, so that two bytes suffice. Segments can be worked on by several threads:
they share no entry of any array but ``column`` and ``held``, which are read, and ``touched``, in
which all write the same.

``rank`` is each descriptor's place in its ranked list, ``FAR`` where no listed word is kept, and
``code`` its word (a position; n_words for none). ``column`` gives the column of a word, -1 for a
pruned one and for n_words; ``held`` is the same but outgoing words still have theirs. ``score`` of
a far descriptor is that of its word; two scores within ``margin`` are too close to tell.
``table`` is (n_columns, n_bags).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.nearest._scan_kernel import LOWEST, squared_distance

FAR = np.uint8(255)

DEEP = 32
"""Entries of ranks from this on are kept apart: with many words kept, no code is that deep."""

BLOCK_ROWS = 4096

BATCH = 32
"""How many places in memory are asked for at once. What is read then is summed up and never used,
but for a comparison that always fails: without one, the compiler would see that nobody needs it."""


@njit(nogil=True, error_model="numpy", cache=True)
def invert(
    lists: NDArray[np.uint16],
    starts: NDArray[np.int64],
    rows: NDArray[np.uint16],
    ranks: NDArray[np.uint8],
) -> None:
    """Write the inverted index of a segment: for each word its (descriptor, rank) entries.

    ``starts`` is (2 n_words + 3,), relative to ``rows`` and ``ranks``. The entries of word w with
    ranks below ``DEEP`` end up from ``starts[2 w]`` on, by descriptor, and after them the others,
    from ``starts[2 w + 1]`` to ``starts[2 w + 2]``. ``rows`` and ``ranks`` have room for all of
    ``lists``.
    """
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
def begin(
    lists: NDArray[np.uint16],
    column: NDArray[np.int32],
    rank: NDArray[np.uint8],
    code: NDArray[np.int32],
    far: NDArray[np.int32],
    tally: NDArray[np.int64],
) -> None:
    """Find each descriptor's first kept word; collect those that have none.

    ``tally`` becomes their number and the number of those whose rank is ``DEEP`` or more, the far
    ones included.
    """
    n_none = len(column) - 1
    n_far = 0
    n_deep = 0
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
        n_deep += 1 if here >= DEEP else 0
        if here == FAR:
            far[n_far] = i
            n_far += 1
    tally[0] = n_far
    tally[1] = n_deep


@njit(nogil=True, error_model="numpy", cache=True)
def fill(
    code: NDArray[np.int32],
    bag_of: NDArray[np.int32],
    column: NDArray[np.int32],
    sizes: NDArray[np.float32],
    table: NDArray[np.float32],
) -> None:
    """Count every descriptor for its word, and divide."""
    table[:] = 0
    for i in range(len(code)):
        table[column[code[i]], bag_of[i]] += np.float32(1)
    to_shares(sizes, table)


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
) -> None:
    """Let the descriptors of outgoing words walk on to the next kept word of their lists.

    Those that find none become far, without a word for now.
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
                        return
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
                n_deep += (1 if here >= DEEP else 0) - (1 if rank[i] >= DEEP else 0)
                rank[i] = here
                code[i] = word
                if here == FAR:
                    n_far += 1
                else:
                    _add(column[word], b, 1, often, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep


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
) -> None:
    """Give each incoming word the descriptors that list it before their code."""
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
                n_far -= 1 if rank[i] == FAR else 0
                n_deep += (1 if here >= DEEP else 0) - (1 if rank[i] >= DEEP else 0)
                rank[i] = here
                code[i] = words[j]
                _add(columns[j], b, 1, often, sizes, table, touched)
    tally[0] += n_far
    tally[1] += n_deep


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
) -> int:
    """Follow a move in segments ``begin`` to ``end`` as far as lists go; return how many are far.

    ``starts`` and ``tally`` have a row a segment; the tally of far and deep descriptors follows.
    """
    n_far = 0
    for s in range(begin, end):
        _release(
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
        )
        _claim(
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
        )
        n_far += tally[s, 0]
    return n_far


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
) -> tuple[int, int]:
    """Let incoming words stand against the words of the far descriptors from first to last row.

    Collects the descriptors whose word is gone (``lost``), and those that an incoming word wins
    (``won``, with their ``winners`` and new scores). Most are ruled out by a bound; scores too
    close for float32 are settled by exact distances, and on a tie the lower position wins.
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
            if value > score[i] + margin[i] or _is_nearer(
                values[i], exact_words, words[j], present
            ):
                score[i] = value
                n_won += 0 if again else 1
                won[n_won - 1] = i
                winners[n_won - 1] = words[j]
    return n_lost, n_won
