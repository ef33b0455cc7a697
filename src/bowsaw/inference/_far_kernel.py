"""Words for far descriptors, of whose lists no word is kept: arrays in, arrays out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Float32, Int8, Int32, Int64, UInt8
from bowsaw.inference._exact_kernel import BATCH, BLOCK_ROWS, FAR, Descriptors, Doubt
from bowsaw.nearest._ranking_kernel import comes_before
from bowsaw.nearest._search_kernel import LOWEST, error_of, longest_near, squared_distance

N_ACROSS = 64
"""Slots of a block, fixed so that loops over a block need no code for a remainder."""


class Corpus(NamedTuple):
    """Descriptors and words as they are, and the mean word that products are relative to."""

    values: AnyArray
    centre: Float32
    exact_words: Float32


class KeptWords(NamedTuple):
    """The kept words, ascending: relative to the mean word of the full codebook, and as is."""

    positions: Int64
    words: Float32
    half_norms: Float32
    exact: Float32


class AddedWords(NamedTuple):
    """The words that a move adds, as they are compared with far descriptors."""

    positions: Int64
    words: Float32
    half_norms: Float32
    sketched: Float32
    slack: Float32


class Slots(NamedTuple):
    """The slots of far descriptors: see ``far_blocks``.

    Segment s has the slots from ``starts[s]`` on, of which ``n_assigned[s]`` are in use. Per slot:
    its descriptor, the descriptor's word, the score that another word must reach, and its sketch.
    ``of_row`` is the slot of a descriptor, -1 for none.
    """

    starts: Int64
    n_assigned: Int64
    of_row: Int32
    row: Int32
    code: Int32
    least: Float32
    rest: Float32
    sketch: Int8


class Changes(NamedTuple):
    """Far descriptors that lost their word; those an added word wins, with the score before."""

    lost: Int32
    won: Int32
    winners: Int32
    won_from: Float32


@njit(nogil=True, error_model="numpy", cache=True)
def centre_rows(corpus: Corpus, rows: Int32, out: Float32) -> None:
    """Write some descriptors relative to the mean word."""
    values, centre = corpus.values, corpus.centre
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
def _margin(doubt: Doubt, i: int, score: float) -> Any:
    """Return by how much another score of a descriptor must differ from its best to be certain."""
    length = np.sqrt(np.float64(doubt.norms[i]))
    longest = longest_near(length, score, doubt.error)
    size = (length + longest) * longest
    wide = 2 * error_of(length, longest, doubt.error) + 1.0001 * doubt.widening * size
    return np.float32(wide)


@njit(nogil=True, error_model="numpy", cache=True)
def best_of_rows(
    products: Float32, half_norms: Float32, rows: Int32, doubt: Doubt
) -> tuple[Int32, Float32]:
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
        if best[a] - second[a] <= _margin(doubt, rows[a], best[a]):
            code[a] = -1
    return code, best


@njit(nogil=True, error_model="numpy", cache=True)
def settle_doubts(
    products: Float32,
    kept: KeptWords,
    rows: Int32,
    doubt: Doubt,
    best: Float32,
    values: AnyArray,
    code: Int32,
) -> None:
    """Decide by exact distances where ``code`` is -1; the lowest word on a tie."""
    for a in range(len(rows)):
        if code[a] >= 0:
            continue
        row = values[rows[a]].astype(np.float32)
        least = best[a] - _margin(doubt, rows[a], best[a])
        nearest = np.inf
        for j in range(len(kept.half_norms)):
            if products[j, a] - kept.half_norms[j] >= least:
                distance = squared_distance(row, kept.exact[j])
                if distance < nearest:
                    nearest = distance
                    code[a] = j


@njit(nogil=True, error_model="numpy", cache=True)
def assign_slots(
    rows: Int32,
    segment: int,
    first_rows: Int64,
    sketch: Int8,
    rest: Float32,
    rank: UInt8,
    slots: Slots,
) -> None:
    """Assign slots to the far ones of these descriptors that have none.

    They are in the order of segments, and none is before ``segment``.
    """
    starts, n_assigned, of_row, slot_row, _, _, slot_rest, slot_sketch = slots
    for a in range(len(rows)):
        i = rows[a]
        if rank[i] != FAR or of_row[i] >= 0:
            continue
        while i >= first_rows[segment + 1]:
            segment += 1
        at = starts[segment] + n_assigned[segment]
        n_assigned[segment] += 1
        of_row[i] = at
        slot_row[at] = i
        slot_rest[at] = rest[i]
        row = sketch[i]
        block = slot_sketch[at // N_ACROSS]
        for p in range(len(row)):
            block[p, at % N_ACROSS] = row[p]


@njit(nogil=True, error_model="numpy", cache=True)
def write_slots(rows: Int32, descriptors: Descriptors, slots: Slots) -> None:
    """Write the words and scores of the far ones of these descriptors that have slots.

    Not of others: when a move is undone, a descriptor that was far before finds its slot unchanged.
    """
    _, _, rank, code, score, doubt = descriptors
    _, _, of_row, _, slot_code, slot_least, _, _ = slots
    for a in range(len(rows)):
        i = rows[a]
        at = of_row[i]
        if rank[i] == FAR and at >= 0:
            slot_code[at] = code[i]
            slot_least[at] = score[i] - _margin(doubt, i, score[i])


@njit(nogil=True, error_model="numpy", cache=True)
def without_slots(rows: Int32, rank: UInt8, slots: Slots, out: Int32) -> int:
    """Collect the far ones of these descriptors that have no slot."""
    n = 0
    of_row = slots.of_row
    for a in range(len(rows)):
        if rank[rows[a]] == FAR and of_row[rows[a]] < 0:
            out[n] = rows[a]
            n += 1
    return n


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _product(values: AnyArray, i: int, centre: Float32, words: Float32, j: int) -> Any:
    total = np.float32(0)
    row = values[i]
    word = words[j]
    for d in range(len(row)):
        total += (np.float32(row[d]) - centre[d]) * word[d]
    return total


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _bounds(sketch: Int8, rest: Float32, word: Float32, out: Float32) -> None:
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
def compare_added_words(
    begin: int,
    end: int,
    added: AddedWords,
    corpus: Corpus,
    column: Int32,
    descriptors: Descriptors,
    slots: Slots,
    changes: Changes,
    n_lost: int,
) -> tuple[int, int]:
    """Compare added words with the words of the far descriptors of segments begin to end.

    Collects the descriptors whose word is removed (``lost``, after the ``n_lost`` already there),
    and those that an added word wins; writes their new scores. Scores too close for float32 are
    settled by exact distances, and on a tie the lower position wins. Returns the numbers of both.
    """
    _, _, rank, _, score, doubt = descriptors
    values, centre, exact_words = corpus
    positions, words, half_norms, sketched, slack = added
    starts, n_assigned, _, slot_row, slot_code, slot_least, slot_rest, slot_sketch = slots
    lost, won, winners, won_from = changes
    bounds = np.empty(N_ACROSS, np.float32)
    found = np.empty(BLOCK_ROWS + 1, np.int64)
    # The index into ``won`` of each slot, from the first slot of a block on.
    entry = np.empty(BLOCK_ROWS, np.int64)
    ignored = 0.0
    n_won = 0
    for s in range(begin, end):
        last = starts[s] + n_assigned[s]
        for first in range(starts[s], last, BLOCK_ROWS):
            stop = first + BLOCK_ROWS if first + BLOCK_ROWS < last else last
            # Appending always and counting only some avoids unpredictable branches.
            n = 0
            for at in range(first, stop):
                found[n] = at
                n += 1 if column[slot_code[at]] < 0 else 0
            for a in range(n):
                lost[n_lost] = slot_row[found[a]]
                n_lost += 1 if rank[slot_row[found[a]]] == FAR else 0
            entry[:] = -1
            for j in range(len(positions)):
                ahead_by = slack[j]
                half_norm = half_norms[j]
                n = 0
                for at in range(first, stop, N_ACROSS):
                    some = slice(at, at + N_ACROSS)
                    _bounds(slot_sketch[at // N_ACROSS], slot_rest[some], sketched[j], bounds)
                    least = slot_least[some]
                    for b in range(N_ACROSS if at + N_ACROSS < stop else stop - at):
                        found[n] = at + b
                        n += 1 if bounds[b] + ahead_by - half_norm >= least[b] else 0
                for a in range(n):
                    if a % BATCH == 0:
                        for ahead in range(a, a + BATCH if a + BATCH < n else n):
                            i = slot_row[found[ahead]]
                            ignored += float(values[i, 0])
                            ignored += float(values[i, values.shape[1] // 2])
                        if ignored == np.inf:
                            break
                    at = found[a]
                    i = slot_row[at]
                    value = _product(values, i, centre, words, j) - half_norm
                    if value < slot_least[at] or rank[i] != FAR or column[slot_code[at]] < 0:
                        continue
                    if value > score[i] + _margin(doubt, i, score[i]) or comes_before(
                        values[i].astype(np.float32),
                        exact_words,
                        np.int32(positions[j]),
                        slot_code[at],
                    ):
                        if entry[at - first] < 0:
                            entry[at - first] = n_won
                            won[n_won] = i
                            won_from[n_won] = score[i]
                            n_won += 1
                        winners[entry[at - first]] = positions[j]
                        score[i] = value
                        slot_code[at] = positions[j]
                        slot_least[at] = value - _margin(doubt, i, value)
    return n_lost, n_won
