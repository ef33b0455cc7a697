"""Folds of bags and groups, and the error on bags held out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bowsaw as bs
from bowsaw.checkpoint import Checkpoint
from bowsaw.errors import DataError
from bowsaw.selection.descent import DescentPlan
from bowsaw.selection.holdout import (
    Holdout,
    assign_folds,
    check_all_are_seen,
    check_groups,
    classes_in_one_fold,
    held_out_losses,
    measure_holdout,
    n_groups_of,
    usual_folds,
)

seeds = st.integers(0, 10**6)


def rng(seed=0):
    return np.random.default_rng(seed)


@given(seeds, st.integers(2, 6))
def test_each_class_is_spread_evenly(seed, n_folds):
    labels = rng(seed).integers(0, 3, 25)
    folds = assign_folds(labels, n_folds, rng(seed))
    for number in range(3):
        counts = np.bincount(folds[labels == number], minlength=n_folds)
        assert counts.max() - counts.min() <= 1


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(2, 5), st.integers(2, 9))
def test_groups_stay_together_and_leave_a_class_that_has_two(seed, n_folds, n_groups):
    # Groups of one class: each has two groups at least.
    of_group = np.concatenate([[0, 0, 1, 1, 2, 2], rng(seed).integers(0, 3, n_groups)])
    groups = np.concatenate([np.arange(len(of_group)), rng(seed).integers(0, len(of_group), 20)])
    labels = of_group[groups]
    folds = assign_folds(labels, n_folds, rng(seed), groups)
    assert all(len(set(folds[groups == group])) == 1 for group in range(len(of_group)))
    assert classes_in_one_fold(folds, labels) == []
    assert n_groups_of(labels, groups).tolist() == np.bincount(of_group, minlength=3).tolist()
    assert folds.tolist() == assign_folds(labels, n_folds, rng(seed), groups).tolist()


def test_one_group_or_tiny_classes_are_no_special_case():
    labels = np.array([0, 1, 0, 1])
    assert assign_folds(labels, 5, rng(), np.zeros(4, dtype=np.int64)).tolist() == [0] * 4
    folds = assign_folds(np.array([0, 0, 1]), 5, rng(), np.array([0, 1, 2]))
    assert set(folds.tolist()) <= {0, 1}
    # Fewer bags are checked more often.
    assert [usual_folds(n) for n in (2, 100, 166, 250, 333, 10**6)] == [5, 5, 3, 2, 2, 1]


def test_names_of_groups_do_not_matter():
    assert check_groups(None, 3) is None
    assert check_groups(["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]
    assert check_groups([7, -1, 7, 3], 4).tolist() == [0, 1, 0, 2]
    for wrong in (["a"], [["a"]] * 4, "abcd"):
        with pytest.raises(DataError, match=r"groups must have one entry per bag \(4\)"):
            check_groups(wrong, 4)


def test_a_class_that_could_not_be_learned_is_named():
    labels = np.array([0, 0, 1, 1])
    assert check_all_are_seen(np.array([0, 1, 0, 1]), labels, np.array(["oak", "elm"])) is None
    with pytest.raises(DataError, match=r"class elm fall into one fold \(1\), because of their"):
        check_all_are_seen(np.array([0, 1, 1, 1]), labels, np.array(["oak", "elm"]))


def test_the_error_held_out_is_that_of_ridge_regression(monkeypatch):
    random = np.random.default_rng(0)
    labels = np.arange(30) % 3
    rows = random.dirichlet(np.ones(6), 40)
    rows[:30, 0] += 0.3 * labels
    truth = np.arange(10) % 3
    monkeypatch.setattr("bowsaw.selection.holdout.RIDGE", 0.1)
    found = held_out_losses(rows[:30], rows[30:], labels, truth)
    # By the normal equations, the intercept not shrunk.
    X, Z, Y = np.sqrt(rows[:30]), np.sqrt(rows[30:]), np.eye(3)[labels]
    centred = X - X.mean(axis=0)
    gram = centred.T @ centred
    ridge = 0.1 * np.trace(gram) / 6
    slopes = np.linalg.solve(gram + ridge * np.eye(6), centred.T @ (Y - Y.mean(axis=0)))
    guess = (Z - X.mean(axis=0)) @ slopes + Y.mean(axis=0)
    np.testing.assert_allclose(found, ((guess - np.eye(3)[truth]) ** 2).sum(axis=1))


def test_words_move_only_where_the_gain_is_many_standard_errors():
    random, marks = np.random.default_rng(0), np.array([0, 5, 10])
    hard, noise = random.normal(size=(40, 1)), 0.1 * random.normal(size=(40, 3))

    def steps(*gains, n_held=40, n_folds=1):
        folds = np.arange(40) % n_folds
        losses = 1 + hard + noise - np.array([0.0, *gains])
        return Holdout(marks, losses[:n_held], folds[:n_held]).n_steps

    # What a bag costs in any case cancels; the differences spread by 0.14, their mean by 0.022.
    assert [steps(gain, -9) for gain in (-0.1, 0.02, 0.2)] == [0, 0, 5]
    # The last that is not reliably worse than the best, and better than none.
    assert [steps(0.2, gain) for gain in (0.05, 0.19, 0.3)] == [5, 10, 10]
    assert [steps(9.0, -9, n_held=n_held) for n_held in (0, 1, 2)] == [0, 0, 5]
    # A paired t-test of each mark, by Bonferroni; folds are not independent.
    for gain in np.linspace(0.0, 0.1, 21):
        t = stats.ttest_rel(noise[:, 0], noise[:, 1] - gain).statistic
        for n_folds, share in ((1, 1.0), (2, 1.25), (5, 2.0)):
            reliable = stats.t.sf(t / np.sqrt(share), 39) < 0.05 / 2
            assert (steps(gain, -9, n_folds=n_folds) == 5) == reliable


def test_bags_of_one_group_count_as_one():
    random, labels = np.random.default_rng(1), np.arange(40) % 2
    bags = bs.Bags.from_list([random.normal([c, 0.0], size=(20, 2)) for c in labels])
    plan, nothing = DescentPlan(n_steps=2, per_bag=16), Checkpoint(None, {})
    how = {"n_folds": 2, "seed": 0, "checkpoint": nothing, "groups": np.arange(40) // 4}
    book = bs.Codebook([[0.0, 0.0], [1.0, 0.0]])
    found = measure_holdout(lambda rows, task: book, bags, labels, plan, **how)
    assert found.losses.shape == (4, 3)
    assert found.folds.tolist() == [0, 0, 1, 1]


def test_words_to_begin_with_are_chosen_without_the_bags_held_out():
    random, labels = np.random.default_rng(0), np.arange(40) % 2
    bags = bs.Bags.from_list([random.normal([c, 0.0], size=(20, 2)) for c in labels])
    seen = []

    def begin(rows, task):
        seen.append((len(rows), np.bincount(labels[rows]).tolist()))
        return bs.Codebook([[0.0, 0.0], [1.0, 0.0]])

    plan, nothing = DescentPlan(n_steps=2, per_bag=16), Checkpoint(None, {})
    found = measure_holdout(begin, bags, labels, plan, n_folds=3, seed=0, checkpoint=nothing)
    assert seen == [(32, [16, 16])] * 3
    assert found.marks.tolist() == [0, 1, 2]
    assert found.errors.shape == (3, 3)
