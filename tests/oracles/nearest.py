"""The nearest word, the slow and obvious way: every distance in float64, the lowest index on a tie.

Sums run in the order of the dimensions, as the search defines its answer, so that results must be
equal and not just close, whatever the data.
"""

import numpy as np


def squared_distances(rows, words):
    """``(n_rows, n_words)``, float64."""
    total = np.zeros((len(rows), len(words)))
    for d in range(words.shape[1]):
        difference = rows[:, d, None].astype(np.float64) - words[None, :, d].astype(np.float64)
        total += difference * difference
    return total


def nearest(rows, words):
    """``(n_rows,)``: NumPy's argmin returns the first of equal values."""
    return squared_distances(rows, words).argmin(axis=1)


def scan_best_two(scores, half_norms, first_word, best, second, code):
    """Twin of the kernel of that name, one row and one word after another."""
    best, second, code = best.copy(), second.copy(), code.copy()
    for i in range(scores.shape[1]):
        for j in range(scores.shape[0]):
            value = scores[j, i] - half_norms[j]
            if value > best[i]:
                best[i], second[i], code[i] = value, best[i], first_word + j
            elif value > second[i]:
                second[i] = value
    return best, second, code
