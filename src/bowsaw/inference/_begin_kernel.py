"""Starting from ranked lists: the inverted index, codes and counts: arrays in, arrays out.

Names are those of ``_move_kernel``.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.inference._exact_kernel import DEEP, FAR, to_shares


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
