import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from tests.oracles import scores as oracle

from bowsaw.errors import ParameterError
from bowsaw.scores import _beta_kernel as kernel
from bowsaw.scores.relevance import Relevance


def test_the_entropy_of_large_parameters_is_that_of_the_limits():
    # Both large: a Gaussian of the same variance, up to 1 / a. One small: b f is a Gamma(a), up to
    # a² / b.
    for a, b in [(1e6, 3e6), (4e12, 6e12), (1e15, 1e13)]:
        variance = a * b / ((a + b) ** 2 * (a + b + 1))
        expected = 0.5 * np.log(2 * np.pi * np.e * variance)
        assert kernel.beta_entropy(a, b) == pytest.approx(expected, abs=1e-9 + 1 / min(a, b))
        assert kernel.beta_entropy(b, a) == kernel.beta_entropy(a, b)
    for a in (0.2, 1.0, 7.0, 29.0, 31.0):
        for b in (1e9, 1e13, 1e16):
            expected = stats.gamma.entropy(a) - np.log(b)
            assert kernel.beta_entropy(a, b) == pytest.approx(
                expected, abs=(1 + a) ** 2 / b + 1e-12
            )


def test_the_two_forms_of_the_entropy_meet():
    below, above = np.nextafter(kernel.LARGE, 0), kernel.LARGE
    for b in (0.1, 5.0, below, above, 1000.0):
        expected = kernel.beta_entropy(above, b)
        assert kernel.beta_entropy(below, b) == pytest.approx(expected, abs=1e-13)
    points = np.linspace(20, 60, 200)
    found = [kernel.beta_entropy(x, 80 - x) for x in points]
    np.testing.assert_allclose(found, stats.beta.entropy(points, 80 - points), atol=1e-11)


def fit(values):
    return kernel.by_likelihood(
        values.mean(), values.var(), np.log(values).mean(), np.log1p(-values).mean()
    )


def test_digamma_trigamma_and_entropies_are_scipys():
    points = np.concatenate([np.logspace(-6, 7, 400), np.linspace(0.5, 12, 400)])
    found = np.array([kernel.gammas(x) for x in points])
    # ψ has a root at 1.4616, where only an absolute error makes sense.
    np.testing.assert_allclose(found[:, 0], special.digamma(points), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(found[:, 1], special.polygamma(1, points), rtol=1e-13)
    for a, b in [(0.1, 0.2), (1, 1), (3, 4), (0.5, 300), (2000, 30), (1, 2000)]:
        assert kernel.beta_entropy(a, b) == pytest.approx(stats.beta.entropy(a, b), abs=1e-8)


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.4), (0.5, 20), (8, 3), (40, 4000)])
def test_fits_are_those_of_scipy(a, b):
    values = np.random.default_rng(3).beta(a, b, size=300)
    expected = stats.beta.fit(values, floc=0, fscale=1)[:2]
    np.testing.assert_allclose(fit(values), expected, rtol=1e-6)


@settings(max_examples=100)
@given(st.floats(-2, 4), st.floats(-2, 4), st.integers(5, 200), st.integers(0, 2**31))
def test_at_the_fit_the_slopes_vanish_and_the_entropy_is_minus_the_mean_log_likelihood(
    log_a, log_b, n, seed
):
    draw = np.random.default_rng(seed).beta(10**log_a, 10**log_b, size=n)
    values = np.clip(draw, 5e-4, 1 - 5e-4)
    if values.var() < 2.5e-7:
        return
    a, b = fit(values)
    # The slopes of the mean log-likelihood: mean log f − ψ(a) + ψ(a + b), and for b alike.
    common = special.digamma(a + b)
    assert abs(np.log(values).mean() - special.digamma(a) + common) < 1e-8
    assert abs(np.log1p(-values).mean() - special.digamma(b) + common) < 1e-8
    likelihood = stats.beta.logpdf(values, a, b).mean()
    assert abs(kernel.beta_entropy(a, b) + likelihood) < 1e-6 * max(1, abs(likelihood))


def test_the_relevance_of_clean_words_is_scipys():
    random = np.random.default_rng(4)
    labels = np.repeat([0, 1, 2], [30, 50, 40])
    shapes = np.array([(3, 9), (4, 8), (2, 14)])[labels]
    values = random.beta(shapes[:, 0], shapes[:, 1])
    score = Relevance(floor=1e-9).begin(labels, 3)
    expected = oracle.beta_relevance(values, labels, 3)
    assert 0 < expected < score.class_entropy
    assert score.update(values[:, None]) == pytest.approx(expected, abs=1e-7)


def test_sums_of_logarithms_survive_products_of_any_size():
    random = np.random.default_rng(8)
    tiny = 10.0 ** random.uniform(-100, 0, size=400)
    for values in (tiny, random.uniform(size=900), 1 - 2.0 ** random.uniform(-52, 0, size=300)):
        out = np.empty(4)
        kernel.sum_up(values, out)
        squares = ((values - values.mean()) ** 2).sum()
        expected = [values.sum(), squares, np.log(values).sum(), np.log1p(-values).sum()]
        np.testing.assert_allclose(out, expected, rtol=1e-11)


def test_an_uninformative_word_has_the_bias_of_a_likelihood_ratio():
    # 2 n I is χ² with 2 (C − 1) degrees of freedom when classes do not matter (Wilks), so the mean
    # of I is (C − 1) / n and its variance (C − 1) / n².
    n, n_classes, n_words = 400, 5, 300
    labels = np.arange(n) % n_classes
    values = np.random.default_rng(5).beta(2, 30, size=(n, n_words))
    found = Relevance(floor=1e-9).begin(labels, n_classes).update(values)
    error = np.sqrt((n_classes - 1) / n_words) / n
    assert abs(found - (n_classes - 1) / n) < 4 * error + 0.1 * (n_classes - 1) / n


def test_soft_shares_below_half_a_descriptor_are_taken_as_they_are():
    # Shares of 1000 words: nearly all are below half a descriptor of a bag of 900.
    random = np.random.default_rng(4)
    labels = np.repeat([0, 1, 2], [30, 50, 40])
    values = random.beta(np.array([2.5, 3.0, 2.2])[labels], 8000.0, size=(1000, 120)).T
    assert (values < 0.5 / 900).mean() > 0.8
    score = Relevance().begin(labels, 3, np.full(120, 900), coding="soft")
    score.update(values)
    assert score.floor_ == pytest.approx(0.5 / 900 / 1000)
    assert (values[:, :5] > score.floor_).all()
    expected = [oracle.beta_relevance(column, labels, 3) for column in values[:, :5].T]
    np.testing.assert_allclose(score.word_values[:5], expected, atol=1e-6)
    # A word that varies by rounding alone scores 0, and exact zeros (an empty bag) are no infinity.
    flat = (1e-3 * (1 + 1e-6 * random.normal(size=(120, 1)))).astype(np.float32)
    assert score.update(flat) == 0
    values[7] = 0
    assert 0 <= score.update(values) <= score.class_entropy
    # Nor does a word win that rises above the floor in one bag.
    values[:, 0] = 1e-9
    values[3, 0] = 0.9
    score.update(values)
    assert score.word_values[0] == 0


def test_guarded_words_never_win():
    random = np.random.default_rng(6)
    labels = np.repeat([0, 1], 30)
    sizes = random.integers(200, 2000, size=60)
    words = np.zeros((60, 6))
    words[:, 1] = 0.25
    words[7, 2] = 0.9
    words[[3, 40], 3] = 1.0
    words[:, 4] = 0.25 + 1e-6 * labels
    words[:, 5] = random.beta(2 + 2 * labels, 20)
    score = Relevance().begin(labels, 2, sizes)
    score.update(words)
    # Absent, constant, in one bag, in two bags, constant within a fraction of a descriptor: all 0.
    np.testing.assert_array_equal(score.word_values[:5], 0)
    assert 0 < score.word_values[5] < np.log(2)
    assert score.floor_ == pytest.approx(0.5 / sizes.mean())
    # No word scores more than the entropy of the classes.
    assert Relevance().begin(labels, 2).update(1.0 * labels[:, None]) == pytest.approx(np.log(2))


def test_parameters_out_of_range_are_refused():
    for name, value in (
        ("floor", 0),
        ("floor", 1e-17),
        ("floor", 0.5),
        ("least_deviation", 0),
        ("min_documents", 0),
    ):
        with pytest.raises(ParameterError, match=name):
            Relevance(**{name: value})
