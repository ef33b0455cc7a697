"""Transfer matrices, the slow and obvious way: one word after another, dense, in float64.

Each returns Λ, ``(n_words, len(kept))``, column j being word ``kept[j]``; words are positions.
"""

import numpy as np
from scipy.special import ndtr, owens_t
from tests.oracles.nearest import squared_distances


def others_by_distance(words):
    """For each word all other words, nearest first, the lowest on a tie."""
    distances = squared_distances(words, words)
    orders = [np.argsort(row, kind="stable") for row in distances]
    return [[int(j) for j in order if j != i] for i, order in enumerate(orders)]


def identity_on(kept, n_words):
    matrix = np.zeros((n_words, len(kept)))
    matrix[kept, np.arange(len(kept))] = 1
    return matrix


def nearest_surviving(words, kept, neighbours):
    matrix = identity_on(kept, len(words))
    place = {int(word): j for j, word in enumerate(kept)}
    for word, others in enumerate(others_by_distance(words)):
        if word not in place:
            nearest = [place[other] for other in others if other in place][:neighbours]
            matrix[word, nearest] = 1 / len(nearest)
    return matrix


def sequential(words, mass, kept, neighbours):
    """Carry each word's unit of mass through the prunings, one after the other."""
    units = np.eye(len(words))
    others = others_by_distance(words)
    pruned = [word for word in range(len(words)) if word not in set(map(int, kept))]
    alive = set(range(len(words)))
    for word in sorted(pruned, key=lambda w: (-mass[w], words[w].tolist(), w)):
        alive.remove(word)
        nearest = [other for other in others[word] if other in alive][:neighbours]
        units[:, nearest] += units[:, [word]] / len(nearest)
        units[:, word] = 0
    return units[:, kept]


def chain(words, kept, neighbours):
    """Solve the absorbing chain after its closed classes are given to their nearest survivors."""
    n_words = len(words)
    others = others_by_distance(words)
    steps = np.zeros((n_words, n_words))
    for word in range(n_words):
        nearest = others[word][:neighbours]
        steps[word, nearest] = 1 / len(nearest) if nearest else 0
    steps[kept] = np.eye(n_words)[kept]
    arrives = np.linalg.matrix_power((steps > 0) | np.eye(n_words, dtype=bool), n_words)
    kept_set = set(map(int, kept))
    for word in range(n_words):
        if word not in kept_set and not arrives[word, kept].any():
            steps[word] = 0
            steps[word, next(other for other in others[word] if other in kept_set)] = 1
    pruned = np.array([word for word in range(n_words) if word not in kept_set], dtype=int)
    matrix = identity_on(kept, n_words)
    inner = np.eye(len(pruned)) - steps[np.ix_(pruned, pruned)]
    matrix[pruned] = np.linalg.solve(inner, steps[np.ix_(pruned, np.asarray(kept))])
    return matrix


def variance(full, matrix, n_descriptors):
    """Proposition 1, entry by entry."""
    found = np.zeros((len(full), matrix.shape[1]))
    for bag in range(len(full)):
        for column in range(matrix.shape[1]):
            for word in range(len(matrix)):
                share = matrix[word, column]
                found[bag, column] += full[bag, word] * share * (1 - share) / n_descriptors[bag]
    return found


def line_shares(words, word, kept, sigma):
    """Eq. 3 on a line: differences of the normal distribution function at midpoints."""
    x = (np.asarray(words, dtype=np.float64).ravel() - float(np.ravel(words)[word])) / sigma
    lower, upper = x[x < 0].max(initial=-np.inf) / 2, x[x > 0].min(initial=np.inf) / 2
    shares = []
    for k in kept:
        others = x[[j for j in kept if j != k]]
        low = max(lower, (others[others < x[k]].max(initial=-np.inf) + x[k]) / 2)
        high = min(upper, (others[others > x[k]].min(initial=np.inf) + x[k]) / 2)
        shares.append(max(ndtr(high) - ndtr(low), 0))
    return np.array(shares) / np.sum(shares)


def plane_shares(words, word, kept, sigma):
    """Eq. 3 in the plane: the divergence theorem with Owen's T function on every edge.

    With the radial field x (1 − exp(−r²/2)) / (2π r²), whose divergence is the Gaussian density, an
    edge at distance h from the centre, from t₁ to t₂ along it, has the flux
    [arctan(t/h) / 2π − T(h, t/h)] between t₁ and t₂.
    """
    x = (np.asarray(words, dtype=np.float64) - np.asarray(words, dtype=np.float64)[word]) / sigma
    box = [((1, 0), 12), ((-1, 0), 12), ((0, 1), 12), ((0, -1), 12)]
    cell = [(x[j], x[j] @ x[j] / 2) for j in range(len(x)) if j != word]
    shares = []
    for k in kept:
        ours = [(x[m] - x[k], (x[m] @ x[m] - x[k] @ x[k]) / 2) for m in kept if m != k]
        shares.append(max(polygon_mass(box + cell + ours), 0))
    return np.array(shares) / np.sum(shares)


def polygon_mass(half_planes):
    """The standard Gaussian's mass of {x : a·x ≤ b for all (a, b)}, no two of them alike."""
    total = 0.0
    lines = [(np.asarray(a) / np.hypot(*a), b / np.hypot(*a)) for a, b in half_planes]
    for i, (normal, h) in enumerate(lines):
        along = np.array([-normal[1], normal[0]])
        low, high = -np.inf, np.inf
        for other, b in lines[:i] + lines[i + 1 :]:
            slope, room = other @ along, b - h * (other @ normal)
            if slope > 0:
                high = min(high, room / slope)
            elif slope < 0:
                low = max(low, room / slope)
            elif room < 0:
                high = -np.inf
        if high > low and h != 0:
            ends = np.array([low, high]) / h
            total += np.diff(np.arctan(ends) / (2 * np.pi) - owens_t(h, ends))[0]
    return total
