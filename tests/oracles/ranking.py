"""Ranked lists, the slow and obvious way: every distance in float64, sorted.

Sums run in the order of the dimensions, as the ranking defines its answer, so that results must be
equal and not just close, whatever the data.
"""

import numpy as np
from tests.oracles.nearest import squared_distances


def ranked(rows, words):
    """All words of each row, nearest first, equally near ones by position: (n_rows, n_words)."""
    return np.argsort(squared_distances(rows, words), axis=1, kind="stable")


def first_kept(order, kept):
    """The first word of each list that is kept: what hard coding with the kept words finds."""
    kept = set(map(int, kept))
    return np.array([next(word for word in line if word in kept) for line in order.tolist()])


def histograms(bags, words, kept):
    """Shares of each bag's descriptors by first kept word; a column each, as ``kept`` has them."""
    codes = first_kept(ranked(bags.values, words), kept) if bags.n_descriptors else np.empty(0)
    table = np.zeros((len(bags), len(kept)), dtype=np.float32)
    for bag, (begin, end) in enumerate(zip(bags.offsets[:-1], bags.offsets[1:], strict=True)):
        for column, word in enumerate(kept):
            count = np.float32((codes[begin:end] == word).sum())
            table[bag, column] = count / np.float32(max(end - begin, 1))
    return table


def falling(keys):
    """The permutation that sorts keys from the largest down, equal ones in their order."""
    return np.array(sorted(range(len(keys)), key=lambda i: -keys[i]), dtype=np.int64)


def by_distance(row, words, chosen):
    """Some words by distance, then by position."""
    distances = squared_distances(row[None], words)[0]
    return sorted(chosen, key=lambda word: (distances[word], word))
