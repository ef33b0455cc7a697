"""k-means, the slow and obvious way."""

import numpy as np


def squared_distances(rows, words):
    return ((rows[:, None].astype(np.float64) - words[None].astype(np.float64)) ** 2).sum(axis=2)


def lloyd(rows, start, n_rounds):
    """Rounds of assigning and moving until nothing moves: words and the objective of each round.

    Every word must keep a row: repairing empty ones is no part of this.
    """
    words, objectives = start.astype(np.float32), []
    for _ in range(n_rounds):
        distances = squared_distances(rows, words)
        codes = distances.argmin(axis=1)
        objectives.append(distances.min(axis=1).mean())
        moved = np.empty_like(words)
        for k in range(len(words)):
            own = rows[codes == k].astype(np.float64)
            assert len(own), "the twin knows no empty word"
            moved[k] = own.sum(axis=0) / len(own)
        if np.array_equal(moved, words):
            break
        words = moved
    return words, objectives


def chance_of_drawing(rows, drawn):
    """The exact probability that k-means++ draws these rows in this order."""
    chance = 1 / len(rows)
    for i in range(1, len(drawn)):
        weights = squared_distances(rows, rows[list(drawn[:i])]).min(axis=1)
        chance *= weights[drawn[i]] / weights.sum()
    return chance


def chances_of_sets(rows, n_words):
    """The exact probability of each set of rows that k-means++ may have drawn after ``n_words``.

    What is drawn next depends on the set drawn so far and not on its order.
    """
    distances = squared_distances(rows, rows)
    chances = {frozenset([i]): 1 / len(rows) for i in range(len(rows))}
    for _ in range(n_words - 1):
        larger = {}
        for drawn, chance in chances.items():
            weights = distances[:, sorted(drawn)].min(axis=1)
            for i in np.flatnonzero(weights):
                grown = drawn | {int(i)}
                larger[grown] = larger.get(grown, 0) + chance * weights[i] / weights.sum()
        chances = larger
    return chances
