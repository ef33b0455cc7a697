"""Dealing bags, and what belongs together, to folds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowsaw.errors import DataError
from bowsaw.selection.folds import (
    check_all_are_seen,
    check_groups,
    deal,
    n_groups_of,
    only_there,
)


def rng(seed=0):
    return np.random.default_rng(seed)


seeds = st.integers(0, 10**6)


@given(seeds, st.integers(2, 6))
def test_a_bag_a_group_is_no_groups(seed, n_folds):
    labels = rng(seed).integers(0, 3, 25)
    one = deal(labels, n_folds, rng(seed))
    assert one.tolist() == deal(labels, n_folds, rng(seed), np.arange(25)).tolist()
    # Each class is spread evenly.
    for number in range(3):
        counts = np.bincount(one[labels == number], minlength=n_folds)
        assert counts.max() - counts.min() <= 1


@given(seeds, st.integers(2, 6), st.integers(2, 9))
def test_groups_are_dealt_whole_and_leave_a_class_that_has_two(seed, n_folds, n_groups):
    # Groups of one class: each has two groups at least.
    of_group = np.concatenate([[0, 0, 1, 1, 2, 2], rng(seed).integers(0, 3, n_groups)])
    groups = np.concatenate([np.arange(len(of_group)), rng(seed).integers(0, len(of_group), 20)])
    labels = of_group[groups]
    folds = deal(labels, n_folds, rng(seed), groups)
    assert all(len(set(folds[groups == group])) == 1 for group in range(len(of_group)))
    assert only_there(folds, labels) == []
    assert n_groups_of(labels, groups).tolist() == np.bincount(of_group, minlength=3).tolist()


def test_groups_of_several_classes_go_by_the_most_frequent():
    labels, groups = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    assert n_groups_of(labels, groups).tolist() == [2, 2]
    assert set(deal(labels, 2, rng(), groups).tolist()) == {0, 1}


def test_names_of_groups_do_not_matter():
    assert check_groups(None, 3) is None
    assert check_groups(["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]
    assert check_groups([7, -1, 7, 3], 4).tolist() == [0, 1, 0, 2]
    for wrong in (["a"], [["a"]] * 4, "abcd"):
        with pytest.raises(DataError, match=r"groups must have one entry a bag \(4\)"):
            check_groups(wrong, 4)


def test_a_class_that_nobody_could_learn_is_named():
    labels = np.array([0, 0, 1, 1])
    assert check_all_are_seen(np.array([0, 1, 0, 1]), labels, np.array(["oak", "elm"])) is None
    with pytest.raises(DataError, match=r"class elm fall into one fold \(1\), because of their"):
        check_all_are_seen(np.array([0, 1, 1, 1]), labels, np.array(["oak", "elm"]))
