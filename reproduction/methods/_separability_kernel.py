"""Merging by a ratio of traces: arrays in, arrays out.

A pair's worth, (b + 2 B) / (t + 2 T), moves with the traces b and t at every step, so no row can
keep its best partner. Each row keeps a bound instead. At the ratio r it was last scanned with it
knows the largest B - r T of its pairs and the range of their T. At another ratio r' none of its
B - r' T is above that plus the larger of (r - r') T over the range, and the worth is
r' + 2 (B - r' T) / (t + 2 T) for r' = b / t. Rows are scanned while a bound is above the best
found.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_GONE = -1e300
"""Between-class entry of pairs with a group that is gone."""


@njit(nogil=True, error_model="numpy", cache=True)
def _scan(
    between: NDArray[np.float64],
    total: NDArray[np.float64],
    i: int,
    b: float,
    t: float,
    floor: float,
    known: NDArray[np.float64],
) -> tuple[float, int]:
    """Return the best worth of a row's pairs and the partner; renew what the row knows."""
    ratio = b / t
    best = -np.inf
    partner = -1
    excess = -np.inf
    low = np.inf
    high = -np.inf
    n = len(between)
    row_b = between[i, :n]
    row_t = total[i, :n]
    for j in range(i + 1, n):
        e = row_b[j] - ratio * row_t[j]
        excess = e if e > excess else excess
        low = row_t[j] if row_t[j] < low else low
        high = row_t[j] if row_t[j] > high else high
        below = t + 2.0 * row_t[j]
        # Where nothing varies any more nothing is told apart.
        worth = (b + 2.0 * row_b[j]) / below if below > floor else 0.0
        if row_b[j] > _GONE and worth > best:
            best = worth
            partner = j
    known[0] = ratio
    known[1] = excess
    known[2] = low
    known[3] = high
    return best, partner


@njit(nogil=True, error_model="numpy", cache=True)
def _bound(known: NDArray[np.float64], b: float, t: float, floor: float) -> float:
    """Return a number that no pair of the row is worth more than."""
    if known[1] <= 0.5 * _GONE:
        return -np.inf
    ratio = b / t
    step = known[0] - ratio
    drift = step * known[2] if step * known[2] > step * known[3] else step * known[3]
    excess = known[1] + drift
    if t + 2.0 * known[2] <= floor:
        return np.inf
    widest = t + 2.0 * (known[2] if excess > 0 else known[3])
    # The margin covers rounding: a row scanned for nothing does no harm.
    return float(ratio + 2.0 * excess / widest + 1e-12 * ratio)


@njit(nogil=True, error_model="numpy", cache=True)
def merge_by_ratio(
    between: NDArray[np.float64],
    total: NDArray[np.float64],
    merges: NDArray[np.int64],
    ratios: NDArray[np.float64],
) -> int:
    """Merge the pair that leaves the largest ratio of traces until one group is left.

    ``between`` and ``total``, (n_groups, n_groups), are used up. Writes the groups of each merge to
    ``merges`` and the ratio after it to ``ratios``; returns how many rows were scanned.
    """
    n_first = len(between)
    n = n_first
    names = np.arange(n)
    alive = np.ones(n, dtype=np.bool_)
    known = np.empty((n, 4))
    bounds = np.empty(n)
    b = 0.0
    t = 0.0
    for i in range(n):
        b += between[i, i]
        t += total[i, i]
    floor = 1e-12 * t
    for i in range(n):
        _scan(between[:n, :n], total[:n, :n], i, b, t, floor, known[i])
    n_scans = n
    for step in range(n_first - 1):
        first = -1
        second = -1
        best = -np.inf
        for i in range(n):
            bounds[i] = _bound(known[i], b, t, floor) if alive[i] else -np.inf
        while True:
            row = int(np.argmax(bounds[:n]))
            if first >= 0 and bounds[row] <= best:
                break
            if bounds[row] == -np.inf:
                break
            bounds[row] = -np.inf
            n_scans += 1
            worth, partner = _scan(between[:n, :n], total[:n, :n], row, b, t, floor, known[row])
            if partner >= 0 and (worth > best or (worth == best and row < first)):
                best = worth
                first = row
                second = partner
        merges[step, 0] = names[first]
        merges[step, 1] = names[second]
        b += 2.0 * between[first, second]
        t += 2.0 * total[first, second]
        ratios[step] = b / t if t > floor else 0.0
        if step == n_first - 2:
            break
        if t <= floor:
            # Every group is constant: all merges left are alike, and none of them tells anything.
            b = 0.0
            t = 2.0 * floor
        alive[second] = False
        for j in range(n):
            if alive[j] and j != first:
                between[first, j] += between[second, j]
                total[first, j] += total[second, j]
                between[j, first] = between[first, j]
                total[j, first] = total[first, j]
                between[j, second] = _GONE
                total[j, second] = 0.0
        between[first, second] = _GONE
        total[first, second] = 0.0
        for j in range(first):
            e = between[j, first] - known[j, 0] * total[j, first]
            known[j, 1] = e if e > known[j, 1] else known[j, 1]
            known[j, 2] = total[j, first] if total[j, first] < known[j, 2] else known[j, 2]
            known[j, 3] = total[j, first] if total[j, first] > known[j, 3] else known[j, 3]
        if n_first - 1 - step < 0.8 * n:
            n = _compact(between, total, alive, names, known, n)
            first = int(np.argmax(names[:n] == merges[step, 0]))
        _scan(between[:n, :n], total[:n, :n], first, b, t, floor, known[first])
        n_scans += 1
    return n_scans


@njit(nogil=True, error_model="numpy", cache=True)
def _compact(
    between: NDArray[np.float64],
    total: NDArray[np.float64],
    alive: NDArray[np.bool_],
    names: NDArray[np.int64],
    known: NDArray[np.float64],
    n: int,
) -> int:
    """Move the groups that are left together, in their order; return how many there are."""
    slots = np.flatnonzero(alive[:n])
    for a in range(len(slots)):
        for c in range(len(slots)):
            between[a, c] = between[slots[a], slots[c]]
            total[a, c] = total[slots[a], slots[c]]
        names[a] = names[slots[a]]
        known[a] = known[slots[a]]
    alive[: len(slots)] = True
    return len(slots)
