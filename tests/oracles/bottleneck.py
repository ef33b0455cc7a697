"""The information bottleneck, the slow and obvious ways."""

import numpy as np


def information(table):
    """Mutual information of rows and columns, in nats, one cell after another."""
    total = 0.0
    for w in range(table.shape[0]):
        for c in range(table.shape[1]):
            if table[w, c] > 0:
                expected = table[w].sum() * table[:, c].sum()
                total += table[w, c] * np.log(table[w, c] / expected)
    return total


def divergence(first, second):
    """Jensen-Shannon divergence of two class profiles, weighted by their masses."""
    weights = first.sum(), second.sum()
    union = (first + second) / sum(weights)
    total = 0.0
    for part, weight in zip((first, second), weights, strict=True):
        profile = part / weight
        there = profile > 0
        total += weight * (profile[there] * np.log(profile[there] / union[there])).sum()
    return total


def brute_force(table):
    """O(n³): at each step, the divergence of every pair. Groups are sets of rows."""
    groups = {frozenset([w]): table[w] for w in range(len(table)) if table[w].sum() > 0}
    merges, losses = [], []
    while len(groups) > 1:
        names = list(groups)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        costs = [divergence(groups[a], groups[b]) for a, b in pairs]
        a, b = pairs[int(np.argmin(costs))]
        merges.append({a, b})
        losses.append(min(costs))
        groups[a | b] = groups.pop(a) + groups.pop(b)
    return merges, losses


def _terms(masses):
    """Σ x log x over the classes, less that of the sum."""
    logs = np.log(masses, out=np.zeros_like(masses), where=masses > 0)
    totals = masses.sum(axis=1)
    return (masses * logs).sum(axis=1) - totals * np.log(totals)


def row(masses, i, terms=None):
    """Losses of merging row ``i`` with every row, by NumPy; infinite with itself."""
    terms = _terms(masses) if terms is None else terms
    losses = terms + terms[i] - _terms(masses[i] + masses)
    losses[i] = np.inf
    return losses


def row_scan(table):
    """Each row keeps its best partner; rows that lose theirs are scanned at once. NumPy only.

    The peer that the fast version is timed against: a scan is O(n), and a step takes one for the
    merged group and one for each row that lost its partner.
    """
    masses = table[table.sum(axis=1) > 0]
    terms = _terms(masses)
    scans = [row(masses, i, terms) for i in range(len(masses))]
    partner = np.array([losses.argmin() for losses in scans])
    best = np.array([losses.min() for losses in scans])
    losses = []
    while len(masses) > 1:
        i = int(best.argmin())
        i, j = sorted((i, int(partner[i])))
        losses.append(best[[i, j]].min())
        masses[i] += masses[j]
        terms[i] = _terms(masses[[i]])[0]
        lost = (partner == i) | (partner == j)
        masses, terms = np.delete(masses, j, axis=0), np.delete(terms, j)
        partner, best, lost = (np.delete(a, j) for a in (partner, best, lost))
        partner[partner > j] -= 1
        if len(masses) == 1:
            break
        merged = row(masses, i, terms)
        closer = merged < best
        closer[i] = False
        partner[closer], best[closer] = i, merged[closer]
        partner[i], best[i] = merged.argmin(), merged.min()
        lost[i] = False
        for k in np.flatnonzero(lost & ~closer):
            again = row(masses, k, terms)
            partner[k], best[k] = again.argmin(), again.min()
    return np.array(losses)
