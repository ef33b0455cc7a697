"""Which words take over pruned ones, and the histograms that follow: arrays in, arrays out.

Words are positions; lists are padded with ``n_words``, and ``column`` has an entry more for it, -1
like that of a pruned word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from bowsaw._arrays import AnyArray, Bools, Float32, Float64, Int32, Int64, UInt16


@njit(nogil=True, error_model="numpy", cache=True)
def mix_columns(
    full: Float32,
    words: Int64,
    columns: Int64,
    starts: Int64,
    sources: Int64,
    weights: Float64,
    table: Float32,
) -> None:
    """Write each word's own row of ``full`` plus the weighted rows of its sources, in order."""
    n_bags = full.shape[1]
    # In float64, so that rows of a thousand sources still sum to 1 in float32.
    total = np.empty(n_bags, np.float64)
    for j in range(words.shape[0]):
        own = full[words[j]]
        for i in range(n_bags):
            total[i] = own[i]
        # Four sources at a time: the rows come from far memory, and four reads overlap.
        last = starts[j + 1]
        whole = last - (last - starts[j]) % 4
        for e in range(starts[j], whole, 4):
            r0, r1 = full[sources[e]], full[sources[e + 1]]
            r2, r3 = full[sources[e + 2]], full[sources[e + 3]]
            w0, w1, w2, w3 = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
            for i in range(n_bags):
                total[i] = total[i] + w0 * r0[i] + w1 * r1[i] + w2 * r2[i] + w3 * r3[i]
        for e in range(whole, last):
            row = full[sources[e]]
            weight = weights[e]
            for i in range(n_bags):
                total[i] += weight * row[i]
        out = table[columns[j]]
        for i in range(n_bags):
            out[i] = total[i]


@njit(nogil=True, error_model="numpy", cache=True)
def gather_by_dim(words: Float32, chosen: Int64) -> Float32:
    """Return some words with dimensions down and words across, as distances are vectorised."""
    out = np.empty((words.shape[1], chosen.shape[0]), np.float32)
    for j in range(chosen.shape[0]):
        for d in range(words.shape[1]):
            out[d, j] = words[chosen[j], d]
    return out


@njit(nogil=True, error_model="numpy", cache=True)
def squared_distances(row: Float32, by_dim: Float32, total: Float64) -> None:
    """Write the squared distance to each column, with the bits of ``nearest``'s exact ones."""
    total[:] = 0.0
    for d in range(by_dim.shape[0]):
        line = by_dim[d]
        x = np.float64(row[d])
        for j in range(total.shape[0]):
            difference = x - np.float64(line[j])
            total[j] += difference * difference


@njit(nogil=True, error_model="numpy", cache=True)
def nearest_among(
    own: int, words: Float32, chosen: Int64, by_dim: Float32, n_wanted: int, out: Int32
) -> float:
    """Write the ``n_wanted`` nearest of the chosen words but for ``own``, nearest first.

    ``chosen`` ascends, so that of equally near words the lowest comes first. Returns the squared
    distance of the last.
    """
    total = np.empty(chosen.shape[0], np.float64)
    squared_distances(words[own], by_dim, total)
    best = np.full(n_wanted, np.inf)
    for j in range(chosen.shape[0]):
        if chosen[j] == own or total[j] >= best[n_wanted - 1]:
            continue
        place = n_wanted - 1
        while place > 0 and total[j] < best[place - 1]:
            best[place] = best[place - 1]
            out[place] = out[place - 1]
            place -= 1
        best[place] = total[j]
        out[place] = chosen[j]
    return float(best[n_wanted - 1])


@njit(nogil=True, error_model="numpy", cache=True)
def walk_list(ranked: AnyArray, alive: Bools, n_wanted: int, out: Int32) -> int:
    """Write the first ``n_wanted`` words alive; return the last one's rank, or the length."""
    found = 0
    for rank in range(ranked.shape[0]):
        word = ranked[rank]
        if alive[word]:
            out[found] = word
            found += 1
            if found == n_wanted:
                return rank
    return int(ranked.shape[0])


class Survivors(NamedTuple):
    """The nearest survivors of every pruned word, followed from move to move.

    ``ranked`` are each word's nearest words; ``starts``, ``listers`` and ``ranks`` are its inverted
    index. ``nearest`` has per pruned word its nearest survivors (n_words for none). ``reach`` is
    the rank of the last one, -1 for a kept word; where the list is too short for all, its length,
    and ``farthest`` is the squared distance of the last one.
    """

    words: Float32
    ranked: AnyArray
    starts: Int64
    listers: Int32
    ranks: UInt16
    nearest: Int32
    reach: Int32
    farthest: Float64


@njit(nogil=True, error_model="numpy", cache=True)
def find_stale(removed: Int64, added: Int64, alive: Bools, n_nearest: int, s: Survivors) -> Int64:
    """Return the pruned words whose nearest survivors a move may change, ascending."""
    n_words = s.nearest.shape[0]
    gone = np.zeros(n_words + 1, np.bool_)
    stale = np.zeros(n_words, np.bool_)
    for word in removed:
        gone[word] = True
        stale[word] = True
    for word in added:
        for e in range(s.starts[word], s.starts[word + 1]):
            if s.ranks[e] < s.reach[s.listers[e]]:
                stale[s.listers[e]] = True
    for word in range(n_words):
        for t in range(n_nearest):
            if gone[s.nearest[word, t]]:
                stale[word] = True
    by_dim = gather_by_dim(s.words, added)
    total = np.empty(added.shape[0], np.float64)
    for word in range(n_words):
        # The list does not show words behind its end: the distances do.
        if s.reach[word] == s.ranked.shape[1] and not stale[word] and not alive[word]:
            squared_distances(s.words[word], by_dim, total)
            for j in range(total.shape[0]):
                if total[j] <= s.farthest[word]:
                    stale[word] = True
    for word in added:
        stale[word] = False
    return np.flatnonzero(stale)


@njit(nogil=True, error_model="numpy", cache=True)
def renew(stale: Int64, alive: Bools, n_nearest: int, s: Survivors, touched: Bools) -> None:
    """Find the nearest survivors of the stale words; mark every word that joined or left them."""
    n_listed = s.ranked.shape[1]
    before = np.empty(n_nearest, np.int32)
    kept = np.empty(0, np.int64)
    by_dim = np.empty((0, 0), np.float32)
    for word in stale:
        row = s.nearest[word]
        for t in range(n_nearest):
            before[t] = row[t]
        s.reach[word] = walk_list(s.ranked[word], alive, n_nearest, row)
        if s.reach[word] == n_listed:
            if not kept.shape[0]:
                kept = np.flatnonzero(alive)
                by_dim = gather_by_dim(s.words, kept)
            s.farthest[word] = nearest_among(word, s.words, kept, by_dim, n_nearest, row)
        for t in range(n_nearest):
            same, other = False, False
            for u in range(n_nearest):
                same |= before[u] == row[t]
                other |= before[t] == row[u]
            if not same:
                touched[row[t]] = True
            if not other:
                touched[before[t]] = True


@njit(nogil=True, error_model="numpy", cache=True)
def list_sources(words: Int64, nearest: Int32, n_nearest: int) -> tuple[Int64, Int64]:
    """Return the pruned words that give to each of ``words``: starts and ascending sources."""
    n_words = nearest.shape[0]
    place = np.full(n_words + 1, -1, np.int64)
    for j in range(words.shape[0]):
        place[words[j]] = j
    starts = np.zeros(words.shape[0] + 2, np.int64)
    for word in range(n_words):
        for t in range(n_nearest):
            j = place[nearest[word, t]]
            if j >= 0:
                starts[j + 2] += 1
    for j in range(words.shape[0]):
        starts[j + 2] += starts[j + 1]
    sources = np.empty(starts[-1], np.int64)
    for word in range(n_words):
        for t in range(n_nearest):
            j = place[nearest[word, t]]
            if j >= 0:
                sources[starts[j + 1]] = word
                starts[j + 1] += 1
    return starts[:-1], sources


@njit(nogil=True, error_model="numpy", cache=True)
def neighbours_in_turn(
    order: Int64,
    words: Float32,
    ranked: AnyArray,
    alive: Bools,
    neighbours: int,
    return_words: bool,
) -> tuple[Int64, Int32]:
    """Return starts and nearest words alive at each turn; words leave, or return after it."""
    n_alive = alive.sum()
    starts = np.zeros(order.shape[0] + 1, np.int64)
    targets = np.empty(order.shape[0] * neighbours, np.int32)
    for p in range(order.shape[0]):
        word = order[p]
        alive[word] = False
        n_left = n_alive - 1
        n = neighbours if neighbours < n_left else n_left
        begin = starts[p]
        row = targets[begin : begin + n]
        if n > 0 and walk_list(ranked[word], alive, n, row) == ranked.shape[1]:
            left = np.flatnonzero(alive)
            nearest_among(word, words, left, gather_by_dim(words, left), n, row)
        starts[p + 1] = begin + n
        if return_words:
            alive[word] = True
        else:
            n_alive = n_left
    return starts, targets[: starts[-1]]


@njit(nogil=True, error_model="numpy", cache=True)
def weigh_samples(
    words: Int64,
    columns: Int32,
    shares: Float32,
    n_samples: Int64,
    priors: Float64,
    starts: Int64,
    sources: Int64,
    n_nearest: int,
) -> tuple[Int64, Int64, Float64]:
    """Return what each word gives to ``words``: by its samples and, as a prior, by Eq. 6.

    ``shares[columns[j]]`` are the shares of every word's samples that word j takes; ``starts`` and
    ``sources`` list the words that have it as a nearest survivor. Returns starts, ascending sources
    and weights.
    """
    n_words = shares.shape[1]
    n_most = sources.shape[0]
    for j in range(words.shape[0]):
        row = shares[columns[j]]
        for word in range(n_words):
            n_most += 1 if row[word] > 0 else 0
    out_starts = np.zeros(words.shape[0] + 1, np.int64)
    out_sources = np.empty(n_most, np.int64)
    weights = np.empty(n_most, np.float64)
    n = 0
    for j in range(words.shape[0]):
        row = shares[columns[j]]
        e = starts[j]
        for word in range(n_words):
            is_source = e < starts[j + 1] and sources[e] == word
            e += is_source
            if word == words[j] or not (is_source or row[word] > 0):
                continue
            # A share in float32 times its number of samples is an integer but for rounding.
            count = np.rint(row[word] * n_samples[word])
            if is_source:
                count += priors[word] / n_nearest
            if count > 0:
                out_sources[n] = word
                weights[n] = count / (n_samples[word] + priors[word])
                n += 1
        out_starts[j + 1] = n
    return out_starts, out_sources[:n], weights[:n]
