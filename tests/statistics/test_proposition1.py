"""Proposition 1: bags drawn from the model scatter around the inferred histogram as it says.

The model: a bag has f_l N descriptors of word l, drawn from N(c_l, σ²I) truncated to l's cell. Its
histogram under the full codebook is f by construction, and its re-coded histogram is random.
"""

import numpy as np
import pytest

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.inference.sampled import GaussianState, gaussian_samples
from bowsaw.inference.voronoi import VoronoiState

N_BAGS = 4000
SIGMA = 0.6


def simulated(n_dims):
    """A codebook, how many descriptors of each word a bag has, and many such bags."""
    random = np.random.default_rng(n_dims)
    # About one word in a unit of length, area or volume, so that every cell holds enough points.
    words = (12 ** (1 / n_dims) * random.random((12, n_dims))).astype(np.float32)
    book = Codebook(words)
    counts = random.integers(1, 6, 12)
    pools = gaussian_samples(book, SIGMA * np.eye(n_dims), int(5 * N_BAGS), seed=n_dims)
    assert (pools.counts >= counts * N_BAGS).all()
    rows = [
        pools[word][: count * N_BAGS].reshape(N_BAGS, count, n_dims)
        for word, count in enumerate(counts)
    ]
    values = np.concatenate(rows, axis=1).reshape(-1, n_dims)
    return book, counts, Bags(values, np.arange(N_BAGS + 1) * counts.sum())


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_mean_and_variance_of_recoded_histograms_are_those_of_proposition_1(n_dims):
    book, counts, bags = simulated(n_dims)
    n = int(counts.sum())
    full = hard_histograms(bags, book.words)
    np.testing.assert_allclose(full, np.tile(counts / n, (N_BAGS, 1)), atol=1e-6)
    n_random = 0
    for kept in ([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11], [1, 4, 7, 10], [2, 9]):
        state = VoronoiState(book, full[:1], n_descriptors=[n], sigma=SIGMA).reset(kept)
        recoded = hard_histograms(bags, book.words[kept]).astype(np.float64)
        mean, variance = state.histograms[0].astype(np.float64), state.variance()[0]
        n_random += int((variance > 0).sum())
        error = np.sqrt(variance / N_BAGS)
        assert (np.abs(recoded.mean(axis=0) - mean) <= 4 * error + 1e-6).all()
        # A mean of squared deviations has the variance (μ₄ − μ₂²) / n. A word's count is a sum of
        # independent draws of 0 or 1, whose μ₄ is 3 μ₂² + Σ p (1 − p) (1 − 6 p (1 − p)).
        shares = state.transfer_matrix().toarray()
        spread = shares * (1 - shares)
        fourth = 3 * variance**2 + counts @ (spread * (1 - 6 * spread)) / n**4
        found = ((recoded - mean) ** 2).mean(axis=0)
        error = np.sqrt((fourth - variance**2) / N_BAGS)
        assert (np.abs(found - variance) <= 4 * error + 1e-9).all()
    assert n_random >= 4


def test_the_gaussian_transfer_draws_from_the_same_model():
    # Its shares are means of n_samples draws, so they add their own scatter to that of the bags.
    book, counts, bags = simulated(2)
    n = int(counts.sum())
    full = hard_histograms(bags[:1], book.words)
    kept = [1, 4, 7, 10]
    state = GaussianState(book, full, n_descriptors=[n], sigma=SIGMA, n_samples=2000).reset(kept)
    recoded = hard_histograms(bags, book.words[kept]).astype(np.float64)
    shares = state.transfer_matrix().toarray()
    of_bags = state.variance()[0] / N_BAGS
    of_shares = ((counts / n) ** 2 @ (shares * (1 - shares))) / 2000
    error = np.sqrt(of_bags + of_shares)
    assert (np.abs(recoded.mean(axis=0) - state.histograms[0]) <= 4 * error + 1e-6).all()
