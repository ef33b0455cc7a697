import numpy as np
import pytest
from tests.oracles import nearest
from tests.oracles import transfer as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.inference import sampled
from bowsaw.inference.sampled import (
    EmpiricalState,
    GaussianState,
    empirical_samples,
    gaussian_samples,
    residual_covariance,
    sigma_or_estimate,
)


def corpus(random, n_words=30, n_dims=4, n_bags=6, n_rows=400):
    """Words, and bags of descriptors around some of them; the third bag is empty."""
    words = random.normal(size=(n_words, n_dims)).astype(np.float32)
    noise = 0.3 * random.normal(size=(n_rows, n_dims))
    rows = words[random.integers(0, n_words - 5, n_rows)] + noise
    offsets = np.sort(random.integers(0, n_rows, n_bags - 1))
    offsets[2] = offsets[1]
    return words, Bags(rows.astype(np.float32), [0, *offsets, n_rows])


def empirical(random, **options):
    words, bags = corpus(random)
    full = hard_histograms(bags, words)
    return EmpiricalState(Codebook(words), full, bags=bags, n_jobs=1, **options), words, bags


def shares_by_counting(rows, words, kept, neighbours, smoothing):
    """Row l: how often each kept word is the first survivor of l's rows, smoothed."""
    order = np.argsort(nearest.squared_distances(rows, words), axis=1, kind="stable")
    place = {int(word): j for j, word in enumerate(kept)}
    uniform = oracle.nearest_surviving(words, kept, neighbours)
    matrix = np.zeros((len(words), len(kept)))
    for word in range(len(words)):
        own = order[order[:, 0] == word]
        prior = smoothing if len(own) else 1
        for ranked in own:
            matrix[word, next(place[int(w)] for w in ranked if int(w) in place)] += 1
        matrix[word] = (matrix[word] + prior * uniform[word]) / (len(own) + prior)
    return matrix


@pytest.mark.parametrize("smoothing", [0, 1, 2.5])
def test_empirical_shares_are_counted_and_smoothed(smoothing):
    random = np.random.default_rng(0)
    state, words, bags = empirical(random, smoothing=smoothing, neighbours=3)
    # Words that no descriptor has give as the uniform transfer does.
    assert not state.n_samples.all()
    for n_kept in (29, 12, 2, 1):
        kept = random.choice(30, n_kept, replace=False)
        expected = shares_by_counting(bags.values, words, kept, 3, smoothing)
        state.reset(kept)
        np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)
        full = hard_histograms(bags, words)
        np.testing.assert_allclose(state.histograms, full @ expected, atol=1e-6)


def test_a_sample_of_each_words_descriptors():
    random = np.random.default_rng(4)
    words, bags = corpus(random)
    book = Codebook(words)
    everyone = empirical_samples(book, bags, None, 0, n_jobs=1)
    codes = nearest.nearest(bags.values, words)
    for word in range(30):
        np.testing.assert_array_equal(everyone[word], bags.values[codes == word])
    few = empirical_samples(book, bags, 7, 0, n_jobs=1)
    assert few.counts.tolist() == np.minimum(everyone.counts, 7).tolist()
    for word in range(30):
        rows = [tuple(row) for row in few[word].tolist()]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= {tuple(row) for row in everyone[word].tolist()}
    again = empirical_samples(book, bags, 7, 0, n_jobs=2)
    np.testing.assert_array_equal(again.values, few.values)
    other = empirical_samples(book, bags, 7, 1, n_jobs=1)
    assert not np.array_equal(other.values, few.values)


def test_gaussian_shares_are_within_four_standard_errors_of_the_integral():
    # Words −1.3, 0, .8 with σ = .7: .34088 of the middle word goes left.
    book = Codebook([[-1.3], [0.0], [0.8]])
    full = [[0.0, 1.0, 0.0]]
    state = GaussianState(book, full, sigma=0.7, n_samples=40_000).without([1])
    error = np.sqrt(0.34088 * 0.65912 / 40_000)
    assert abs(state.transfer_matrix().toarray()[1, 0] - 0.34088) < 4 * error
    ends = GaussianState(book, full, sigma=0.7, n_samples=500)
    assert ends.without([0]).transfer_matrix().toarray()[0].tolist() == [1, 0]
    assert ends.without([2]).transfer_matrix().toarray()[2].tolist() == [0, 1]


def test_samples_lie_in_their_cells_and_follow_the_seed_alone():
    random = np.random.default_rng(6)
    words = random.normal(size=(20, 3)).astype(np.float32)
    book, root = Codebook(words), 0.6 * np.eye(3)
    samples = gaussian_samples(book, root, 40, 0, n_jobs=1)
    np.testing.assert_array_equal(
        nearest.nearest(samples.values, words), np.repeat(np.arange(20), samples.counts)
    )
    assert samples.counts.max() == 40
    other = gaussian_samples(book, root, 40, 0, n_jobs=3)
    np.testing.assert_array_equal(other.values, samples.values)
    assert not np.array_equal(gaussian_samples(book, root, 40, 1).values, samples.values)
    # Each word draws by its own id, wherever it stands.
    order = random.permutation(20)
    permuted = gaussian_samples(Codebook(words[order], order), root, 40, 0)
    for j, word in enumerate(order):
        np.testing.assert_array_equal(permuted[j], samples[int(word)])


@pytest.mark.parametrize(
    ("options", "low", "high"), [({"covariance": "shared"}, 0.9, 1), ({}, 0, 0.7)]
)
def test_shared_covariance_points_where_the_residuals_do(options, low, high):
    # Descriptors spread along the first axis alone, so a word gives to its neighbours on that axis;
    # a round Gaussian gives as much to those above and below.
    random = np.random.default_rng(7)
    words = np.array([(i, j) for i in range(5) for j in range(5)], np.float32)
    rows = words[random.integers(0, 25, 4000)] + random.normal(size=(4000, 2)) * [0.2, 0.01]
    bags = Bags(rows.astype(np.float32))
    full = hard_histograms(bags, words)
    state = GaussianState(Codebook(words), full, bags=bags, **options).without([12])
    taken = dict(zip(state.kept.tolist(), state.transfer_matrix().toarray()[12], strict=True))
    assert low < taken[7] + taken[17] <= high


@pytest.mark.parametrize("most", [2**17, 100])
def test_the_covariance_is_that_of_residuals_shrunk(monkeypatch, most):
    monkeypatch.setattr(sampled, "MOST_RESIDUALS", most)
    random = np.random.default_rng(8)
    words = np.array([[0, 0, 0, 0], [60, 0, 0, 0], [0, 60, 0, 0]], np.float32)
    codes = random.integers(0, 3, 1000)
    rows = words[codes] + random.normal(size=(1000, 4)) @ random.normal(size=(4, 4))
    bags, book = Bags(rows.astype(np.float32), scale=8), Codebook(words, scale=8)
    residuals = (bags.values.astype(np.float64) - words[codes]) / 8
    sigma = sigma_or_estimate(None, book, bags, 1)
    assert sigma**2 == pytest.approx((residuals**2).mean(), rel=1e-9)
    assert sigma_or_estimate(0.5, book, None, 1) == 0.5
    found = residual_covariance(book, bags, 1)
    some = residuals[:: max(1, 1000 // most)]
    plain = some.T @ some / len(some)
    # Shrinkage keeps the trace and moves the rest toward a multiple of the identity.
    assert np.trace(found) == pytest.approx(np.trace(plain), rel=1e-9)
    away = ~np.eye(4, dtype=bool)
    weights = 1 - found[away] / plain[away]
    np.testing.assert_allclose(weights, weights[0], atol=1e-9)
    assert 0 < weights[0] < 0.1
