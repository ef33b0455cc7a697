"""Coding and pooling, the slow and obvious way: one descriptor after another, in float64."""

import numpy as np


def hard_histogram(rows, words):
    """The share of rows whose nearest word is each word; the lowest index on a tie."""
    counts = np.zeros(len(words))
    for row in rows.astype(np.float64):
        counts[((row - words.astype(np.float64)) ** 2).sum(axis=1).argmin()] += 1
    return counts / max(len(rows), 1)


def soft_code(row, words, sharpness):
    """How one descriptor is shared among the words: Eq. 2 of the paper."""
    distances = ((row.astype(np.float64) - words.astype(np.float64)) ** 2).sum(axis=1)
    weights = np.exp(-sharpness * (distances - distances.min()))
    return weights / weights.sum()


def soft_histogram(rows, words, sharpness):
    """The mean of the rows' soft codes; zeros without rows."""
    codes = [soft_code(row, words, sharpness) for row in rows]
    return np.mean(codes, axis=0) if codes else np.zeros(len(words))


def perplexity(rows, words, sharpness):
    """The mean over rows of exp(entropy of the code)."""
    found = []
    for row in rows:
        code = soft_code(row, words, sharpness)
        held = code[code > 0]
        found.append(np.exp(-(held * np.log(held)).sum()))
    return float(np.mean(found))
