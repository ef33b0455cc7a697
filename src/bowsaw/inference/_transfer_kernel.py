"""Who inherits from pruned words, and the histograms that follow: arrays in, arrays out.

Words are positions; lists are padded with ``n_words``, and ``column`` has an entry more for it, -1
like that of a pruned word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, error_model="numpy", cache=True)
def mix_columns(
    full: NDArray[np.float32],
    words: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    sources: NDArray[np.int64],
    weights: NDArray[np.float64],
    table: NDArray[np.float32],
) -> None:
    """Write each word's own row of ``full`` plus the weighted rows of its givers, in their order.

    Sums are in float64, so that rows of a thousand givers still sum to 1 in float32.
    """
    n_bags = full.shape[1]
    total = np.empty(n_bags, np.float64)
    for j in range(words.shape[0]):
        own = full[words[j]]
        for i in range(n_bags):
            total[i] = own[i]
        # Four givers at a time: the rows come from far memory, and four can be on their way.
        last = starts[j + 1]
        whole = last - (last - starts[j]) % 4
        for e in range(starts[j], whole, 4):
            r0 = full[sources[e]]
            r1 = full[sources[e + 1]]
            r2 = full[sources[e + 2]]
            r3 = full[sources[e + 3]]
            w0 = weights[e]
            w1 = weights[e + 1]
            w2 = weights[e + 2]
            w3 = weights[e + 3]
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


# -- the nearest surviving words -------------------------------------------------------------------


@njit(nogil=True, error_model="numpy", cache=True)
def gather_by_dim(words: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return some words with dimensions down and words across, as distances are vectorised."""
    out = np.empty((words.shape[1], chosen.shape[0]), np.float32)
    for j in range(chosen.shape[0]):
        for d in range(words.shape[1]):
            out[d, j] = words[chosen[j], d]
    return out


@njit(nogil=True, error_model="numpy", cache=True)
def squared_distances(
    row: NDArray[np.float32], by_dim: NDArray[np.float32], total: NDArray[np.float64]
) -> None:
    """Write the squared distance to each column, summed in the order of the dimensions.

    The bits are those of ``nearest``'s exact distances, so that both agree on every order.
    """
    total[:] = 0.0
    for d in range(by_dim.shape[0]):
        line = by_dim[d]
        x = np.float64(row[d])
        for j in range(total.shape[0]):
            difference = x - np.float64(line[j])
            total[j] += difference * difference


@njit(nogil=True, error_model="numpy", cache=True)
def nearest_among(
    own: int,
    words: NDArray[np.float32],
    chosen: NDArray[np.int64],
    by_dim: NDArray[np.float32],
    n_wanted: int,
    out: NDArray[np.int32],
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
def walk_list(
    ranked: NDArray[Any], alive: NDArray[np.bool_], n_wanted: int, out: NDArray[np.int32]
) -> int:
    """Write the first ``n_wanted`` words of a list that are alive.

    Returns the rank of the last, or the length of the list where it does not hold as many.
    """
    found = 0
    for rank in range(ranked.shape[0]):
        word = ranked[rank]
        if alive[word]:
            out[found] = word
            found += 1
            if found == n_wanted:
                return rank
    return int(ranked.shape[0])


@njit(nogil=True, error_model="numpy", cache=True)
def find_stale(
    out: NDArray[np.int64],
    in_: NDArray[np.int64],
    words: NDArray[np.float32],
    n_listed: int,
    starts: NDArray[np.int64],
    listers: NDArray[np.int32],
    ranks: NDArray[Any],
    alive: NDArray[np.bool_],
    heirs: NDArray[np.int32],
    n_heirs: int,
    reach: NDArray[np.int32],
    farthest: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return the pruned words whose heirs a move may change, ascending.

    ``starts``, ``listers`` and ``ranks`` tell which words list a word, and where.
    """
    n_words = heirs.shape[0]
    gone = np.zeros(n_words + 1, np.bool_)
    stale = np.zeros(n_words, np.bool_)
    for word in out:
        gone[word] = True
        stale[word] = True
    for word in in_:
        for e in range(starts[word], starts[word + 1]):
            if ranks[e] < reach[listers[e]]:
                stale[listers[e]] = True
    for word in range(n_words):
        for t in range(n_heirs):
            if gone[heirs[word, t]]:
                stale[word] = True
    by_dim = gather_by_dim(words, in_)
    total = np.empty(in_.shape[0], np.float64)
    for word in range(n_words):
        # The list says nothing of words behind its end: the distances do.
        if reach[word] == n_listed and not stale[word] and not alive[word]:
            squared_distances(words[word], by_dim, total)
            for j in range(total.shape[0]):
                if total[j] <= farthest[word]:
                    stale[word] = True
    for word in in_:
        stale[word] = False
    return np.flatnonzero(stale)


@njit(nogil=True, error_model="numpy", cache=True)
def renew_heirs(
    stale: NDArray[np.int64],
    words: NDArray[np.float32],
    ranked: NDArray[Any],
    alive: NDArray[np.bool_],
    heirs: NDArray[np.int32],
    n_heirs: int,
    reach: NDArray[np.int32],
    farthest: NDArray[np.float64],
    touched: NDArray[np.bool_],
) -> None:
    """Find the heirs of the stale words anew; mark every word that gained or lost one of them."""
    n_listed = ranked.shape[1]
    before = np.empty(n_heirs, np.int32)
    kept = np.empty(0, np.int64)
    by_dim = np.empty((0, 0), np.float32)
    for word in stale:
        row = heirs[word]
        for t in range(n_heirs):
            before[t] = row[t]
        reach[word] = walk_list(ranked[word], alive, n_heirs, row)
        if reach[word] == n_listed:
            if not kept.shape[0]:
                kept = np.flatnonzero(alive)
                by_dim = gather_by_dim(words, kept)
            farthest[word] = nearest_among(word, words, kept, by_dim, n_heirs, row)
        for t in range(n_heirs):
            same = False
            other = False
            for s in range(n_heirs):
                same |= before[s] == row[t]
                other |= before[t] == row[s]
            if not same:
                touched[row[t]] = True
            if not other:
                touched[before[t]] = True


@njit(nogil=True, error_model="numpy", cache=True)
def list_givers(
    words: NDArray[np.int64], heirs: NDArray[np.int32], n_heirs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pruned words that give to each of ``words``: starts and ascending sources."""
    n_words = heirs.shape[0]
    place = np.full(n_words + 1, -1, np.int64)
    for j in range(words.shape[0]):
        place[words[j]] = j
    starts = np.zeros(words.shape[0] + 2, np.int64)
    for word in range(n_words):
        for t in range(n_heirs):
            j = place[heirs[word, t]]
            if j >= 0:
                starts[j + 2] += 1
    for j in range(words.shape[0]):
        starts[j + 2] += starts[j + 1]
    sources = np.empty(starts[-1], np.int64)
    for word in range(n_words):
        for t in range(n_heirs):
            j = place[heirs[word, t]]
            if j >= 0:
                sources[starts[j + 1]] = word
                starts[j + 1] += 1
    return starts[:-1], sources


@njit(nogil=True, error_model="numpy", cache=True)
def weigh_samples(
    words: NDArray[np.int64],
    columns: NDArray[np.int32],
    shares: NDArray[np.float32],
    n_samples: NDArray[np.int64],
    priors: NDArray[np.float64],
    starts: NDArray[np.int64],
    sources: NDArray[np.int64],
    n_heirs: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return who gives to ``words``, by the samples of each word and, as a prior, by its heirs.

    ``shares[columns[j]]`` are the shares of every word's samples that word j takes, ``starts`` and
    ``sources`` who has it as heir. Returns starts, ascending sources and weights.
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
        heir = starts[j]
        for word in range(n_words):
            inherits = heir < starts[j + 1] and sources[heir] == word
            heir += inherits
            if word == words[j] or not (inherits or row[word] > 0):
                continue
            # A share in float32 times its number of samples is whole but for rounding.
            count = np.rint(row[word] * n_samples[word])
            if inherits:
                count += priors[word] / n_heirs
            if count > 0:
                out_sources[n] = word
                weights[n] = count / (n_samples[word] + priors[word])
                n += 1
        out_starts[j + 1] = n
    return out_starts, out_sources[:n], weights[:n]
