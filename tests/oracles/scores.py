"""Scores, the slow and obvious way."""

import numpy as np
from scipy.stats import beta


def entropy(shares):
    return -sum(p * np.log(p) for p in shares if p > 0)


def beta_relevance(values, labels, n_classes):
    """Eq. 10 with scipy's fits and entropies, for values strictly between 0 and 1."""

    def fitted(part):
        a, b, _, _ = beta.fit(part, floc=0, fscale=1)
        return float(beta.entropy(a, b))

    found = fitted(values)
    for y in range(n_classes):
        part = values[labels == y]
        found -= len(part) / len(values) * fitted(part)
    return found


def mutual_information(table):
    """Of a table of masses, in nats, cell by cell."""
    table = np.asarray(table, dtype=np.float64) / np.sum(table)
    found = 0.0
    for i, row in enumerate(table):
        for j, p in enumerate(row):
            if p > 0:
                found += p * np.log(p / (table[i].sum() * table[:, j].sum()))
    return found


def leave_one_out(histograms, labels, n_classes, ridges, balanced=False):
    """Fit n times, each time without one bag; the least mean squared error over the ridges.

    Ridges are relative to the mean eigenvalue of the full weighted, centred problem, and the same
    for every fit.
    """
    x = np.sqrt(np.asarray(histograms, dtype=np.float64))
    n, p = x.shape
    y = np.eye(n_classes)[labels]
    weights = np.ones(n)
    if balanced:
        sizes = np.bincount(labels, minlength=n_classes)
        weights = n / (np.count_nonzero(sizes) * sizes[labels])
    centred = x - np.average(x, axis=0, weights=weights)
    mean = np.trace(centred.T @ (weights[:, None] * centred)) / p
    errors = []
    for ridge in np.asarray(ridges) * (mean if mean > 0 else 1):
        total = 0.0
        for i in range(n):
            rest = np.arange(n) != i
            w = weights[rest]
            x_mean = np.average(x[rest], axis=0, weights=w)
            y_mean = np.average(y[rest], axis=0, weights=w)
            a, b = x[rest] - x_mean, y[rest] - y_mean
            slopes = np.linalg.solve(
                a.T @ (w[:, None] * a) + ridge * np.eye(p), a.T @ (w[:, None] * b)
            )
            total += weights[i] * ((y[i] - y_mean - (x[i] - x_mean) @ slopes) ** 2).sum()
        errors.append(total / n)
    return -min(errors)


def plain_greedy(costs, n_kept):
    """One row after another, every row looked at every time."""
    so_far, chosen = costs.max(axis=0), []
    for _ in range(n_kept):
        gains = [
            -np.inf if k in chosen else np.maximum(so_far - row, 0).sum(dtype=np.float64)
            for k, row in enumerate(costs)
        ]
        chosen.append(int(np.argmax(gains)))
        so_far = np.minimum(so_far, costs[chosen[-1]])
    return chosen
