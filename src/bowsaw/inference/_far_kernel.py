"""Words for far descriptors, of whose lists no word is kept: arrays in, arrays out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.inference._exact_kernel import BATCH, BLOCK_ROWS, FAR, Descriptors
from bowsaw.nearest._ranking_kernel import comes_before
from bowsaw.nearest._search_kernel import LOWEST, squared_distance

N_ACROSS = 64
"""Slots of a block, fixed so that loops over a block need no code for a remainder."""


class Corpus(NamedTuple):
    """Descriptors and words as they are, and the mean word that products are relative to."""

    values: NDArray[Any]
    centre: NDArray[np.float32]
    exact_words: NDArray[np.float32]


class KeptWords(NamedTuple):
    """The kept words, ascending: relative to the mean word of the full codebook, and as is."""

    positions: NDArray[np.int64]
    words: NDArray[np.float32]
    half_norms: NDArray[np.float32]
    exact: NDArray[np.float32]


class AddedWords(NamedTuple):
    """The words that a move adds, as they are compared with far descriptors."""

    positions: NDArray[np.int64]
    words: NDArray[np.float32]
    half_norms: NDArray[np.float32]
    sketched: NDArray[np.float32]
    slack: NDArray[np.float32]


class Slots(NamedTuple):
    """The slots of far descriptors: see ``far_blocks``.

    Segment s has the slots from ``starts[s]`` on, of which ``n_assigned[s]`` are in use. Per slot:
    its descriptor, the descriptor's word, the score that another word must reach, and its sketch.
    ``of_row`` is the slot of a descriptor, -1 for none.
    """

    starts: NDArray[np.int64]
    n_assigned: NDArray[np.int64]
    of_row: NDArray[np.int32]
    row: NDArray[np.int32]
    code: NDArray[np.int32]
    least: NDArray[np.float32]
    rest: NDArray[np.float32]
    sketch: NDArray[np.int8]


class Changes(NamedTuple):
    """Far descriptors that lost their word; those an added word wins, with the score before."""

    lost: NDArray[np.int32]
    won: NDArray[np.int32]
    winners: NDArray[np.int32]
    won_from: NDArray[np.float32]


# -- a search of all kept words --------------------------------------------------------------------


@njit(nogil=True, error_model="numpy", cache=True)
def centre_rows(corpus: Corpus, rows: NDArray[np.int32], out: NDArray[np.float32]) -> None:
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
    kept: KeptWords,
    rows: NDArray[np.int32],
    margin: NDArray[np.float32],
    best: NDArray[np.float32],
    values: NDArray[Any],
    code: NDArray[np.int32],
) -> None:
    """Decide by exact distances where ``code`` is -1; the lowest word on a tie.

    Words whose score rules them out are skipped.
    """
    for a in range(len(rows)):
        if code[a] >= 0:
            continue
        row = values[rows[a]].astype(np.float32)
        least = best[a] - margin[rows[a]]
        nearest = np.inf
        for j in range(len(kept.half_norms)):
            if products[j, a] - kept.half_norms[j] >= least:
                distance = squared_distance(row, kept.exact[j])
                if distance < nearest:
                    nearest = distance
                    code[a] = j


# -- slots -----------------------------------------------------------------------------------------


@njit(nogil=True, error_model="numpy", cache=True)
def assign_slots(
    rows: NDArray[np.int32],
    segment: int,
    first_rows: NDArray[np.int64],
    sketch: NDArray[np.int8],
    rest: NDArray[np.float32],
    rank: NDArray[np.uint8],
    slots: Slots,
) -> None:
    """Assign slots to the far ones of these descriptors that have none.

    They are in the order of segments, and none is before ``segment``.
    """
    for a in range(len(rows)):
        i = rows[a]
        if rank[i] != FAR or slots.of_row[i] >= 0:
            continue
        while i >= first_rows[segment + 1]:
            segment += 1
        at = slots.starts[segment] + slots.n_assigned[segment]
        slots.n_assigned[segment] += 1
        slots.of_row[i] = at
        slots.row[at] = i
        slots.rest[at] = rest[i]
        row = sketch[i]
        block = slots.sketch[at // N_ACROSS]
        for p in range(len(row)):
            block[p, at % N_ACROSS] = row[p]


@njit(nogil=True, error_model="numpy", cache=True)
def write_slots(rows: NDArray[np.int32], descriptors: Descriptors, slots: Slots) -> None:
    """Write the words and scores of the far ones of these descriptors that have slots.

    Not of others: when a move is undone, a descriptor that was far before finds its slot unchanged.
    """
    for a in range(len(rows)):
        i = rows[a]
        at = slots.of_row[i]
        if descriptors.rank[i] == FAR and at >= 0:
            slots.code[at] = descriptors.code[i]
            slots.least[at] = descriptors.score[i] - descriptors.margin[i]


@njit(nogil=True, error_model="numpy", cache=True)
def without_slots(
    rows: NDArray[np.int32], rank: NDArray[np.uint8], slots: Slots, out: NDArray[np.int32]
) -> int:
    """Collect the far ones of these descriptors that have no slot."""
    n = 0
    for a in range(len(rows)):
        if rank[rows[a]] == FAR and slots.of_row[rows[a]] < 0:
            out[n] = rows[a]
            n += 1
    return n


# -- added words -----------------------------------------------------------------------------------


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _product(corpus: Corpus, i: int, words: NDArray[np.float32], j: int) -> Any:
    total = np.float32(0)
    row = corpus.values[i]
    centre = corpus.centre
    word = words[j]
    for d in range(len(row)):
        total += (np.float32(row[d]) - centre[d]) * word[d]
    return total


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
def compare_added_words(
    begin: int,
    end: int,
    added: AddedWords,
    corpus: Corpus,
    column: NDArray[np.int32],
    descriptors: Descriptors,
    slots: Slots,
    changes: Changes,
    n_lost: int,
) -> tuple[int, int]:
    """Compare added words with the words of the far descriptors of segments begin to end.

    Collects the descriptors whose word is removed (``lost``, after the ``n_lost`` already there),
    and those that an added word wins; writes their new scores. Most are ruled out by a bound;
    scores too close for float32 are settled by exact distances, and on a tie the lower position
    wins. Slots whose descriptors are no longer far are skipped. Returns the numbers of both.
    """
    rank, score, margin = descriptors.rank, descriptors.score, descriptors.margin
    values = corpus.values
    bounds = np.empty(N_ACROSS, np.float32)
    found = np.empty(BLOCK_ROWS + 1, np.int64)
    # The index into ``won`` of each slot, from the first slot of a block on.
    entry = np.empty(BLOCK_ROWS, np.int64)
    ignored = 0.0
    n_won = 0
    for s in range(begin, end):
        last = slots.starts[s] + slots.n_assigned[s]
        for first in range(slots.starts[s], last, BLOCK_ROWS):
            stop = first + BLOCK_ROWS if first + BLOCK_ROWS < last else last
            # Appending always and counting only some avoids unpredictable branches.
            n = 0
            for at in range(first, stop):
                found[n] = at
                n += 1 if column[slots.code[at]] < 0 else 0
            for a in range(n):
                changes.lost[n_lost] = slots.row[found[a]]
                n_lost += 1 if rank[slots.row[found[a]]] == FAR else 0
            entry[:] = -1
            for j in range(len(added.positions)):
                ahead_by = added.slack[j]
                half_norm = added.half_norms[j]
                n = 0
                for at in range(first, stop, N_ACROSS):
                    some = slice(at, at + N_ACROSS)
                    _bounds(
                        slots.sketch[at // N_ACROSS], slots.rest[some], added.sketched[j], bounds
                    )
                    least = slots.least[some]
                    for b in range(N_ACROSS if at + N_ACROSS < stop else stop - at):
                        found[n] = at + b
                        n += 1 if bounds[b] + ahead_by - half_norm >= least[b] else 0
                for a in range(n):
                    if a % BATCH == 0:
                        for ahead in range(a, a + BATCH if a + BATCH < n else n):
                            i = slots.row[found[ahead]]
                            ignored += float(values[i, 0])
                            ignored += float(values[i, values.shape[1] // 2])
                        if ignored == np.inf:
                            break
                    at = found[a]
                    i = slots.row[at]
                    value = _product(corpus, i, added.words, j) - half_norm
                    if value < slots.least[at] or rank[i] != FAR or column[slots.code[at]] < 0:
                        continue
                    if value > score[i] + margin[i] or comes_before(
                        values[i].astype(np.float32),
                        corpus.exact_words,
                        added.positions[j],
                        slots.code[at],
                    ):
                        if entry[at - first] < 0:
                            entry[at - first] = n_won
                            changes.won[n_won] = i
                            changes.won_from[n_won] = score[i]
                            n_won += 1
                        changes.winners[entry[at - first]] = added.positions[j]
                        score[i] = value
                        slots.code[at] = added.positions[j]
                        slots.least[at] = value - margin[i]
    return n_lost, n_won
