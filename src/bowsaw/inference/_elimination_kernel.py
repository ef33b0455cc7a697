"""Pruning words one by one, each passing its mass on: arrays in, arrays out.

A *plan* is a list of words in the order in which they go, with who gets what of each:
``targets[starts[p] : starts[p + 1]]`` and ``shares`` for the p-th word. Targets are survivors or
words that go later.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bowsaw.inference._transfer_kernel import gather_by_dim, nearest_among, walk_list


@njit(nogil=True, error_model="numpy", cache=True)
def push(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    targets: NDArray[np.int32],
    shares: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> None:
    """Let each word pass on its mass, ``(n_words, n_bags)``, in place."""
    n_bags = mass.shape[1]
    for p in range(order.shape[0]):
        row = mass[order[p]]
        for e in range(starts[p], starts[p + 1]):
            target = mass[targets[e]]
            share = shares[e]
            for i in range(n_bags):
                target[i] += share * row[i]


@njit(nogil=True, error_model="numpy", cache=True)
def nearest_alive(
    order: NDArray[np.int64],
    words: NDArray[np.float32],
    ranked: NDArray[Any],
    alive: NDArray[np.bool_],
    neighbours: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Plan: each word of ``order`` gives equal parts to its nearest words still alive then.

    ``alive`` is that before the first goes; it is changed.
    """
    n_alive = alive.sum()
    starts = np.zeros(order.shape[0] + 1, np.int64)
    targets = np.empty(order.shape[0] * neighbours, np.int32)
    shares = np.empty(order.shape[0] * neighbours, np.float64)
    for p in range(order.shape[0]):
        word = order[p]
        alive[word] = False
        n_alive -= 1
        n = neighbours if neighbours < n_alive else n_alive
        begin = starts[p]
        row = targets[begin : begin + n]
        if walk_list(ranked[word], alive, n, row) == ranked.shape[1]:
            left = np.flatnonzero(alive)
            nearest_among(word, words, left, gather_by_dim(words, left), n, row)
        shares[begin : begin + n] = 1.0 / n
        starts[p + 1] = begin + n
    return starts, targets[: starts[-1]], shares[: starts[-1]]


@njit(nogil=True, error_model="numpy", cache=True)
def nearest_table(
    words: NDArray[np.float32], ranked: NDArray[Any], neighbours: int
) -> NDArray[np.int32]:
    """Return the ``neighbours`` nearest other words of every word, nearest first."""
    n_words = words.shape[0]
    table = np.empty((n_words, neighbours), np.int32)
    if neighbours == 0:
        return table
    alive = np.ones(n_words + 1, np.bool_)
    alive[n_words] = False
    everyone = np.arange(n_words)
    by_dim = np.empty((0, 0), np.float32)
    for word in range(n_words):
        alive[word] = False
        if walk_list(ranked[word], alive, neighbours, table[word]) == ranked.shape[1]:
            if not by_dim.size:
                by_dim = gather_by_dim(words, everyone)
            nearest_among(word, words, everyone, by_dim, neighbours, table[word])
        alive[word] = True
    return table


@njit(nogil=True, error_model="numpy", cache=True)
def reaches(
    table: NDArray[np.int32],
    starts: NDArray[np.int64],
    listers: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which words can come to a kept word along ``table``, kept ones included.

    ``starts`` and ``listers`` are the table inverted: who names a word.
    """
    found = kept.copy()
    waiting = np.empty(table.shape[0], np.int64)
    n_waiting = 0
    for word in range(table.shape[0]):
        if kept[word]:
            waiting[n_waiting] = word
            n_waiting += 1
    while n_waiting:
        n_waiting -= 1
        word = waiting[n_waiting]
        for e in range(starts[word], starts[word + 1]):
            if not found[listers[e]]:
                found[listers[e]] = True
                waiting[n_waiting] = listers[e]
                n_waiting += 1
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def _receive(
    p: int,
    targets: NDArray[np.int32],
    shares: NDArray[np.float64],
    passed: float,
    place: NDArray[np.int64],
    seen: NDArray[np.int64],
    share_of: NDArray[np.float64],
    gone: Any,
    members: NDArray[np.int32],
    n_members: int,
) -> int:
    """Add a row times ``passed`` to that of the p-th word; return how many it names that are left.

    Names that are gone already are put on the heap.
    """
    for e in range(targets.shape[0]):
        target = targets[e]
        if seen[target] != p:
            seen[target] = p
            if place[target] < p:
                heapq.heappush(gone, place[target])
            elif place[target] > p:
                members[n_members] = target
                n_members += 1
        share_of[target] += passed * shares[e]
    return n_members


@njit(nogil=True, error_model="numpy", cache=True)
def eliminate(
    order: NDArray[np.int64], table: NDArray[np.int32], place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Plan: each word gives what a walk along ``table`` gives when it first meets who is left.

    ``place`` is each word's place in ``order``, and beyond its end for words where walks stop. The
    row of a word starts with equal parts for its neighbours. Whoever of them has gone before is
    replaced by its own row, first gone first replaced; what comes back to the word itself is left
    out, and the rest scaled up. Shares are only added, multiplied and divided, so that none is lost
    to cancellation, however rarely a walk gets away (Grassmann, Taksar and Heyman's elimination).
    """
    n_words, neighbours = table.shape
    starts = np.zeros(order.shape[0] + 1, np.int64)
    targets = np.empty(4 * table.size, np.int32)
    shares = np.empty(4 * table.size, np.float64)
    equal = np.full(neighbours, 1.0 / neighbours)
    share_of = np.zeros(n_words, np.float64)
    seen = np.full(n_words, -1, np.int64)
    members = np.empty(n_words, np.int32)
    for p in range(order.shape[0]):
        word = order[p]
        gone = [np.int64(0)]
        gone.clear()
        n = _receive(p, table[word], equal, 1.0, place, seen, share_of, gone, members, 0)
        while len(gone):
            q = heapq.heappop(gone)
            passed = share_of[order[q]]
            share_of[order[q]] = 0.0
            row = slice(starts[q], starts[q + 1])
            n = _receive(
                p, targets[row], shares[row], passed, place, seen, share_of, gone, members, n
            )
        share_of[word] = 0.0
        leaving = 0.0
        for t in range(n):
            leaving += share_of[members[t]]
        begin = starts[p]
        if begin + n > targets.shape[0]:
            targets = np.concatenate((targets, np.empty(targets.shape[0] + n, np.int32)))
            shares = np.concatenate((shares, np.empty(shares.shape[0] + n, np.float64)))
        for t in range(n):
            targets[begin + t] = members[t]
            shares[begin + t] = share_of[members[t]] / leaving
            share_of[members[t]] = 0.0
        starts[p + 1] = begin + n
    return starts, targets[: starts[-1]], shares[: starts[-1]]
