"""The interval of an accuracy."""

import numpy as np
import pytest
from scipy import stats

from bowsaw.evaluation.significance import accuracy_margin, corrected_error


@pytest.mark.parametrize("n_right", [0, 7, 60, 120])
def test_a_single_split_has_the_interval_of_wilson(n_right):
    found = accuracy_margin([n_right / 120], 0.0, [40, 40, 40])
    plain = stats.binomtest(n_right, 120).proportion_ci(method="wilson")
    assert found == pytest.approx(max(plain.high - n_right / 120, n_right / 120 - plain.low))


def test_classes_with_few_images_count_as_much_as_others():
    # The variance of a mean of class accuracies: Σ p (1 − p) / n_k, over K².
    few, even = (accuracy_margin([0.5], 0.0, counts) for counts in ([10, 190], [19, 19]))
    assert few == pytest.approx(even)
    assert accuracy_margin([0.5], 0.0, [10, 190, 0]) == few


def test_splits_give_the_wider_of_their_spread_and_wilson():
    spread = [0.5, 0.6, 0.9, 0.7]
    error = np.sqrt((1 / 4 + 2) * np.var(spread, ddof=1))
    assert float(corrected_error(spread, 2.0)) == pytest.approx(error)
    margin = accuracy_margin(spread, 2.0, [500, 500])
    assert margin == pytest.approx(stats.norm.isf(0.025) * error)
    alike = accuracy_margin([1.0, 1.0, 1.0], 2.0, [50, 50])
    assert alike == accuracy_margin([1.0], 2.0, [50, 50]) > 0.03


def accuracies(rng, n_each, n_train, n_splits):
    """Accuracies of the nearest class mean on random splits of a new collection of 3 classes."""
    rows = rng.normal(size=(3, n_each, 10)) + 1.35 * np.eye(3, 10)[:, None]
    found = np.empty(n_splits)
    for split in range(n_splits):
        parts = rng.permuted(np.broadcast_to(np.arange(n_each), (3, n_each)), axis=1)
        dealt = np.take_along_axis(rows, parts[..., None], axis=1)
        means, test = dealt[:, :n_train].mean(axis=1), dealt[:, n_train:]
        guess = (test @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=2)
        found[split] = (guess == np.arange(3)[:, None]).mean()
    return found


@pytest.mark.parametrize(
    ("n_each", "n_splits", "least"), [(30, 1, 0.93), (70, 1, 0.87), (30, 2, 0.95), (70, 5, 0.95)]
)
def test_intervals_contain_the_expected_accuracy(n_each, n_splits, least):
    # The expectation is over collections and splits; a single split cannot see the spread of
    # training sets, so where the test part is large its interval is somewhat too short.
    rng = np.random.default_rng(0)
    truth = np.mean([accuracies(rng, 300, 10, 1)[0] for _ in range(1000)])
    n_inside = 0
    for _ in range(400):
        found = accuracies(rng, n_each, 10, n_splits)
        margin = accuracy_margin(found, n_each / 10 - 1, np.full(3, n_each - 10))
        n_inside += abs(found.mean() - truth) <= margin
    assert n_inside / 400 >= least
