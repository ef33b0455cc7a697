"""Coding a few descriptors anew inside a state: those for which its shortcut does not hold.

They lie scattered over the bags, so those of many bags are coded in one block: a block for each bag
would cost more than all the rest of a move. Sums over a bag are taken in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.coding._pooling_kernel import weigh
from bowsaw.coding.soft import WordScores
from bowsaw.inference._soft_kernel import add_means, exact_weights, pool_runs
from bowsaw.parallel import ordered_map, single_threaded_blas

TASK_ROWS = 512

Weigher = Callable[[NDArray[Any]], Iterator[tuple[NDArray[Any], NDArray[Any]]]]
"""Takes descriptors ``(n_rows, n_dims)``; yields, for consecutive blocks of them, the weights
``(n_words, n_rows_of_the_block)`` and their totals over the words."""


def weights_in_float32(
    words: NDArray[np.float32], centre: NDArray[np.float32], factor: float
) -> Weigher:
    """Return what weighs these words as soft coding does, centred on ``centre``."""
    scores = WordScores(words, centre)

    def weights(
        rows: NDArray[Any],
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        for block, products in scores.blocks(rows):
            total = np.empty(len(block), dtype=np.float32)
            weigh(products, scores.half_norms, factor, total)
            yield products, total

    return weights


def weights_in_float64(words: NDArray[np.float32], factor: float) -> Weigher:
    """Return what weighs these words in float64; ``factor`` multiplies squared distances."""
    wide = words.astype(np.float64)

    def weights(
        rows: NDArray[Any],
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        for start in range(0, len(rows), TASK_ROWS):
            part = rows[start : start + TASK_ROWS]
            out = np.empty((len(wide), len(part)))
            exact_weights(part.T.astype(np.float64, order="C"), wide, factor, 0, out)
            yield out, out.sum(axis=0)

    return weights


def add_rows(
    bags: Sequence[NDArray[Any]],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    weights: Weigher,
    columns: NDArray[np.int64],
    table: NDArray[Any],
    n_jobs: int | None,
) -> NDArray[np.int64]:
    """Add the mean codes of some descriptors to ``table[columns, bag]``.

    ``rows`` are ascending positions among all descriptors. Returns how many each bag has of them.
    """
    counts = np.diff(offsets)
    limits = np.searchsorted(rows, offsets)
    n_rows: NDArray[np.int64] = np.diff(limits)
    filled = np.flatnonzero(n_rows)
    # A task is some whole bags, so that no two threads add to the same entries.
    begins = np.flatnonzero(np.diff(limits[filled] // TASK_ROWS, prepend=-1))

    def one(some: NDArray[np.int64]) -> None:
        found = [bags[i][rows[limits[i] : limits[i + 1]] - offsets[i]] for i in some.tolist()]
        ends = np.concatenate(([0], np.cumsum(n_rows[some])))
        sums = np.zeros((len(columns), len(some)))
        done = 0
        for block, total in weights(np.concatenate(found)):
            first = int(np.searchsorted(ends, done, side="right")) - 1
            last = int(np.searchsorted(ends, done + len(total)))
            pool_runs(
                block, total, np.clip(ends[first : last + 1] - done, 0, len(total)), first, sums
            )
            done += len(total)
        add_means(sums, columns, some, counts, table)

    with single_threaded_blas():
        for _ in ordered_map(one, np.split(filled, begins[1:]), n_jobs, ahead=8):
            pass
    return n_rows
