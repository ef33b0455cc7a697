"""The score against n fits, removal against fitting without, the gradient by differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import scores as oracle

from bowsaw.errors import ParameterError
from bowsaw.scores.leave_one_out import RIDGES, BackwardRidge, LeaveOneOut, leave_one_out_gradient

SHAPES = pytest.mark.parametrize(("n_bags", "n_words"), [(24, 2), (14, 14), (12, 20)])


def corpus(n_bags, n_words, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), random.integers(0, n_classes, n_bags)])[:n_bags]
    shapes = random.uniform(0.2, 3, size=(n_classes, n_words))
    return np.array([random.dirichlet(shapes[y]) for y in labels]), labels


@SHAPES
@pytest.mark.parametrize("balanced", [False, True])
def test_score_equals_fitting_n_times(n_bags, n_words, balanced):
    histograms, labels = corpus(n_bags, n_words)
    for ridges in (RIDGES, (0.05,), (100.0,)):
        found = LeaveOneOut(ridges=ridges, balanced=balanced).begin(labels, 3).update(histograms)
        expected = oracle.leave_one_out(histograms, labels, 3, ridges, balanced)
        assert found == pytest.approx(expected, rel=1e-8)
        if not balanced:
            targets = np.eye(3)[labels]
            error, _ = leave_one_out_gradient(histograms, targets, ridges=ridges, floor=0.0)
            assert error == pytest.approx(-found, rel=1e-9)


def test_degenerate_columns_and_empty_bags_are_no_special_case():
    histograms, labels = corpus(40, 6)
    wild = np.concatenate([histograms, histograms[:, :3], np.zeros((40, 2))], axis=1)
    wild[:, 10] = 0.3
    wild[[3, 8]] = 0
    found = LeaveOneOut().begin(labels, 3).update(wild)
    assert found == pytest.approx(oracle.leave_one_out(wild, labels, 3, RIDGES), rel=1e-8)


@pytest.mark.parametrize("n_words", [3, 40])
def test_constant_words_leave_the_frequencies_of_the_classes(n_words):
    labels = np.repeat([0, 1], [10, 20])
    found = LeaveOneOut().begin(labels, 2).update(np.full((30, n_words), 1 / n_words))
    # Without bag i of a class of m, that class has frequency (m − 1) / 29; both columns err alike.
    expected = -(10 * 2 * (20 / 29) ** 2 + 20 * 2 * (10 / 29) ** 2) / 30
    assert found == pytest.approx(expected, rel=1e-10)


def test_informative_words_score_better_and_choose_a_smaller_ridge():
    random = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 15)
    informative = 0.1 + 0.5 * np.eye(4)[labels] + random.uniform(0, 0.01, size=(60, 4))
    score = LeaveOneOut().begin(labels, 4)
    good, weak = score.update(informative), score.ridge_
    bad = score.update(random.uniform(size=(60, 4)))
    assert bad < -0.7 < -0.01 < good < 0
    assert weak < score.ridge_
    for ridges in ((), (0.0,), (np.inf,), (-1.0, 1.0)):
        with pytest.raises(ParameterError, match="ridges"):
            LeaveOneOut(ridges=ridges)


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
def test_score_without_each_word_equals_fitting_without_it(n_bags, n_words, balanced):
    histograms, labels = corpus(n_bags, n_words)
    score = LeaveOneOut(ridges=[0.2], balanced=balanced).begin(labels, 3)
    value = score.update(histograms)
    found = score.without_each(histograms)
    whole = trace(histograms, labels, balanced) / n_words
    for k in range(n_words):
        rest = np.delete(histograms, k, axis=1)
        # The ridge is relative to the mean eigenvalue, and here it must stay as it was.
        same = 0.2 * whole / (trace(rest, labels, balanced) / (n_words - 1))
        expected = oracle.leave_one_out(rest, labels, 3, [same], balanced)
        assert found[k] == pytest.approx(expected, rel=1e-8)
    assert score.value == value
    assert score.update(histograms, [0]) == pytest.approx(value, rel=1e-12)


def model_of(columns, labels, ridge):
    targets = np.eye(labels.max() + 1)[labels]
    n = len(labels)
    centred = columns - columns.mean(axis=1, keepdims=True)
    return BackwardRidge(centred, targets - targets.mean(axis=0), np.full(n, 1 / n), ridge)


@SHAPES
def test_removal_equals_plain_greedy_elimination(n_bags, n_words):
    histograms, labels = corpus(n_bags, n_words, seed=3)
    columns = np.sqrt(histograms).T.copy()
    for ridge in (0.01, 1.0):
        left, expected = list(range(n_words)), []
        while len(left) > 1:
            errors = model_of(columns[left], labels, ridge).errors()
            expected.append(left.pop(int(errors.argmin())))
        model = model_of(columns, labels, ridge)
        removed = model.drop(n_words // 2)
        assert removed.tolist() == expected[: n_words // 2]
        rest = np.setdiff1d(np.arange(n_words), removed)
        fresh = model_of(columns[rest], labels, ridge).errors()
        np.testing.assert_allclose(model.errors()[rest], fresh, rtol=1e-7)
        assert np.isinf(model.errors()[removed]).all()
        assert model_of(columns, labels, ridge).drop(n_words - 1).tolist() == expected


def test_several_words_are_removed_by_one_ranking():
    histograms, labels = corpus(30, 12)
    columns = np.sqrt(histograms).T.copy()
    model = model_of(columns, labels, 0.1)
    ranked = np.argsort(model.errors())
    assert model.drop(5, at_once=5).tolist() == ranked[:5].tolist()
    fresh = model_of(columns[ranked[5:]], labels, 0.1).errors()
    np.testing.assert_allclose(model.errors()[ranked[5:]], fresh, rtol=1e-7)
    assert len(set(model_of(columns, labels, 0.1).drop(11, at_once=4).tolist())) == 11


@pytest.mark.parametrize("n_words", [6, 40])
def test_constant_and_duplicate_words_are_removed_before_the_informative_one(n_words):
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 15)
    histograms = np.full((30, n_words), 0.25)
    histograms[:, 1] = histograms[:, 4] = np.where(labels, 0.6, 0.1) + random.uniform(0, 0.1, 30)
    histograms[:, 2] = 0
    score = LeaveOneOut().begin(labels, 2)
    score.update(histograms)
    assert np.isfinite(score.without_each(histograms)).all()
    order = score.least_missed(histograms, n_words - 1)
    assert len(set(order.tolist())) == n_words - 1
    assert set(range(n_words)) - set(order.tolist()) <= {1, 4}


@settings(deadline=None, max_examples=20)
@given(n_bags=st.integers(6, 20), n_words=st.integers(1, 24), seed=st.integers(0, 1000))
def test_gradient_is_the_limit_of_differences(n_bags, n_words, seed):
    # One ridge, for the best of several may change between the sides; it is relative to the mean
    # eigenvalue, and the gradient holds α fixed, so the ridge of each side is scaled to keep it.
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 2
    histograms = random.dirichlet(np.ones(n_words), n_bags) + 0.05 * labels[:, None] / n_words
    targets = np.eye(2)[labels]

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


def test_constant_histograms_have_no_gradient():
    error, gradient = leave_one_out_gradient(np.full((6, 3), 1 / 3), np.eye(2)[[0, 1] * 3])
    # Knowing only the mean, the residual ±½ of each of two classes grows by 1 / (1 − 1/6).
    assert error == pytest.approx(2 * (0.5 * 6 / 5) ** 2)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)
