from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import scores as oracle

from bowsaw.errors import ParameterError
from bowsaw.scores.leave_one_out import RIDGES, LeaveOneOut


def corpus(n_bags, n_words, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), random.integers(0, n_classes, n_bags)])[:n_bags]
    shapes = random.uniform(0.2, 3, size=(n_classes, n_words))
    return np.array([random.dirichlet(shapes[y]) for y in labels]), labels


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(("n_bags", "n_words"), [(30, 2), (30, 6), (25, 25), (20, 35)])
def test_it_is_what_fitting_n_times_gives(n_bags, n_words, balanced):
    histograms, labels = corpus(n_bags, n_words)
    for ridges in (RIDGES, (0.05,), (100.0,)):
        found = LeaveOneOut(ridges=ridges, balanced=balanced).begin(labels, 3).update(histograms)
        expected = oracle.leave_one_out(histograms, labels, 3, ridges, balanced)
        assert found == pytest.approx(expected, rel=1e-8)


def test_degenerate_columns_and_empty_bags_are_no_special_case():
    histograms, labels = corpus(40, 6)
    wild = np.concatenate([histograms, histograms[:, :3], np.zeros((40, 2))], axis=1)
    wild[:, 10] = 0.3
    wild[[3, 8]] = 0
    found = LeaveOneOut().begin(labels, 3).update(wild)
    assert found == pytest.approx(oracle.leave_one_out(wild, labels, 3, RIDGES), rel=1e-8)


def test_words_and_bags_give_the_same_answer_on_either_side_of_the_border():
    # A constant column changes nothing but the mean eigenvalue, and so the ridge: by p / (p + 1).
    histograms, labels = corpus(30, 30)
    more = np.concatenate([histograms, np.full((30, 1), 0.5)], axis=1)
    primal = LeaveOneOut(ridges=[0.1]).begin(labels, 3).update(histograms)
    dual = LeaveOneOut(ridges=[0.1 * 31 / 30]).begin(labels, 3).update(more)
    assert primal == pytest.approx(dual, rel=1e-10)


@pytest.mark.parametrize("n_words", [3, 40])
def test_words_that_never_vary_leave_the_frequencies_of_the_classes(n_words):
    labels = np.repeat([0, 1], [10, 20])
    found = LeaveOneOut().begin(labels, 2).update(np.full((30, n_words), 1 / n_words))
    # Without bag i of a class of m, that class has frequency (m − 1) / 29; both columns err alike.
    expected = -(10 * 2 * (20 / 29) ** 2 + 20 * 2 * (10 / 29) ** 2) / 30
    assert found == pytest.approx(expected, rel=1e-10)


def test_telling_words_are_better_than_silent_ones_and_the_ridge_follows():
    random = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 15)
    telling = 0.1 + 0.5 * np.eye(4)[labels] + random.uniform(0, 0.01, size=(60, 4))
    score = LeaveOneOut().begin(labels, 4)
    good, weak = score.update(telling), score.ridge_
    bad = score.update(random.uniform(size=(60, 4)))
    assert bad < -0.7 < -0.01 < good < 0
    assert weak < score.ridge_


def test_balanced_classes_weigh_the_same():
    # Repeating each bag of the rare class would weigh it the same, but leaving one of its copies
    # out leaves the others. So only the fits are compared: with a huge ridge there is nothing but
    # the mean, of which every class has the same share.
    labels = np.repeat([0, 1], [6, 60])
    histograms = np.random.default_rng(0).dirichlet(np.ones(3), size=66)
    score = LeaveOneOut(ridges=[1e9], balanced=True).begin(labels, 2)
    # The weight of a bag is 66 / (2 m); without it its class has (½ − w) / (1 − w), w = 1 / (2 m).
    expected = 0.0
    for m in (6, 60):
        w = 1 / (2 * m)
        expected -= 0.5 * 2 * (0.5 / (1 - w)) ** 2
    assert score.update(histograms) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("ridges", [(), (0.0,), (np.inf,), (-1.0, 1.0)])
def test_ridges_must_be_above_zero(ridges):
    with pytest.raises(ParameterError, match="ridges"):
        LeaveOneOut(ridges=ridges)
