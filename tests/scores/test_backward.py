"""Dropping columns from a ridge regression, against dropping them in fact."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import scores as oracle

from bowsaw.scores.leave_one_out import BackwardRidge, LeaveOneOut

SHAPES = pytest.mark.parametrize(("n_bags", "n_words"), [(24, 2), (24, 7), (14, 14), (12, 20)])


def corpus(n_bags, n_words, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), random.integers(0, n_classes, n_bags)])[:n_bags]
    shapes = random.uniform(0.2, 3, size=(n_classes, n_words))
    return np.array([random.dirichlet(shapes[y]) for y in labels]), labels


def trace(histograms, labels, balanced):
    weights = np.ones(len(labels))
    if balanced:
        sizes = np.bincount(labels)
        weights = len(labels) / (len(sizes) * sizes[labels])
    rooted = np.sqrt(histograms)
    centred = rooted - np.average(rooted, axis=0, weights=weights)
    return (weights[:, None] * centred**2).sum()


@SHAPES
@pytest.mark.parametrize("balanced", [False, True])
def test_the_score_without_each_word_is_that_of_fitting_without_it(n_bags, n_words, balanced):
    histograms, labels = corpus(n_bags, n_words)
    ridge = 0.2
    score = LeaveOneOut(ridges=[ridge], balanced=balanced).begin(labels, 3)
    score.update(histograms)
    found = score.without_each(histograms)
    whole = trace(histograms, labels, balanced) / n_words
    for k in range(n_words):
        rest = np.delete(histograms, k, axis=1)
        # The ridge is relative to the mean eigenvalue, and here it must stay as it was.
        same = ridge * whole / (trace(rest, labels, balanced) / (n_words - 1))
        expected = oracle.leave_one_out(rest, labels, 3, [same], balanced)
        assert found[k] == pytest.approx(expected, rel=1e-8)


def model_of(columns, labels, ridge):
    targets = np.eye(labels.max() + 1)[labels]
    n = len(labels)
    centred = columns - columns.mean(axis=1, keepdims=True)
    return BackwardRidge(centred, targets - targets.mean(axis=0), np.full(n, 1 / n), ridge)


@SHAPES
def test_after_words_have_gone_it_is_a_regression_on_the_others(n_bags, n_words):
    histograms, labels = corpus(n_bags, n_words)
    columns = np.sqrt(histograms).T.copy()
    for ridge in (0.01, 1.0):
        model = model_of(columns, labels, ridge)
        gone = model.drop(n_words // 2)
        rest = np.setdiff1d(np.arange(n_words), gone)
        fresh = model_of(columns[rest], labels, ridge).errors()
        np.testing.assert_allclose(model.errors()[rest], fresh, rtol=1e-7)
        assert np.isinf(model.errors()[gone]).all()


@SHAPES
def test_words_go_in_the_order_of_plain_greedy_elimination(n_bags, n_words):
    histograms, labels = corpus(n_bags, n_words, seed=3)
    columns = np.sqrt(histograms).T.copy()
    left, expected = list(range(n_words)), []
    while len(left) > 1:
        errors = model_of(columns[left], labels, 0.1).errors()
        expected.append(left.pop(int(errors.argmin())))
    assert model_of(columns, labels, 0.1).drop(n_words - 1).tolist() == expected


def test_several_words_may_go_by_one_ranking():
    histograms, labels = corpus(30, 12)
    columns = np.sqrt(histograms).T.copy()
    model = model_of(columns, labels, 0.1)
    ranked = np.argsort(model.errors())
    assert model.drop(5, at_once=5).tolist() == ranked[:5].tolist()
    # They are gone like any others.
    rest = ranked[5:]
    fresh = model_of(columns[rest], labels, 0.1).errors()
    np.testing.assert_allclose(model.errors()[rest], fresh, rtol=1e-7)
    assert len(set(model_of(columns, labels, 0.1).drop(11, at_once=4).tolist())) == 11


@pytest.mark.parametrize("n_words", [6, 40])
def test_words_that_tell_nothing_or_the_same_go_before_the_only_one_that_tells(n_words):
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 15)
    histograms = np.full((30, n_words), 0.25)
    histograms[:, 1] = histograms[:, 4] = np.where(labels, 0.6, 0.1) + random.uniform(0, 0.1, 30)
    histograms[:, 2] = 0
    score = LeaveOneOut().begin(labels, 2)
    score.update(histograms)
    values = score.without_each(histograms)
    assert np.isfinite(values).all()
    # One of two equal words can go at little loss; of what is left then, the other goes last.
    order = score.least_missed(histograms, n_words - 1)
    assert len(set(order.tolist())) == n_words - 1
    assert set(range(n_words)) - set(order.tolist()) <= {1, 4}


def test_nothing_of_the_score_is_changed_by_asking():
    histograms, labels = corpus(30, 8)
    score = LeaveOneOut().begin(labels, 3)
    value = score.update(histograms)
    score.least_missed(histograms[:, :5], 3)
    assert score.value == value
    assert score.update(histograms, [2]) == pytest.approx(value, rel=1e-12)
