import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowsaw.scores.leave_one_out import LeaveOneOut, leave_one_out_gradient


def problem(n_bags, n_words, n_classes, seed):
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % n_classes
    histograms = random.dirichlet(np.ones(n_words), n_bags) + 0.05 * labels[:, None] / n_words
    return histograms, labels, np.eye(n_classes)[labels]


@pytest.mark.parametrize(("n_bags", "n_words"), [(30, 4), (12, 20), (15, 15)])
def test_the_error_is_minus_the_score(n_bags, n_words):
    histograms, labels, targets = problem(n_bags, n_words, 3, seed=0)
    error, _ = leave_one_out_gradient(histograms, targets, floor=0.0)
    score = LeaveOneOut().begin(labels, 3).update(histograms)
    assert error == pytest.approx(-score, rel=1e-9)


@settings(deadline=None, max_examples=20)
@given(
    n_bags=st.integers(6, 20),
    n_words=st.integers(1, 24),
    seed=st.integers(0, 1000),
)
def test_the_gradient_is_the_limit_of_differences(n_bags, n_words, seed):
    # One ridge, for the best of several may change between the two sides of a difference. It is
    # relative to the mean eigenvalue, which moves with the histograms: α is held fixed in the
    # gradient, so the ridge of each side is scaled to keep it.
    histograms, _, targets = problem(n_bags, n_words, 2, seed)

    def mean_eigenvalue(entries):
        rooted = np.sqrt(entries + 1e-2)
        return ((rooted - rooted.mean(axis=0)) ** 2).sum() / n_words

    def error_at(entries):
        ridge = 0.3 * mean_eigenvalue(histograms) / mean_eigenvalue(entries)
        return leave_one_out_gradient(entries, targets, ridges=[ridge], floor=1e-2)[0]

    _, gradient = leave_one_out_gradient(histograms, targets, ridges=[0.3], floor=1e-2)
    direction = np.random.default_rng(seed + 1).normal(size=histograms.shape)
    step = 1e-6
    difference = error_at(histograms + step * direction) - error_at(histograms - step * direction)
    expected = float((gradient * direction).sum())
    assert difference / (2 * step) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_constant_histograms_have_no_slope():
    error, gradient = leave_one_out_gradient(np.full((6, 3), 1 / 3), np.eye(2)[[0, 1] * 3])
    # Knowing only the mean, the residual ±½ of each of two classes grows by 1 / (1 − 1/6).
    assert error == pytest.approx(2 * (0.5 * 6 / 5) ** 2)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)
