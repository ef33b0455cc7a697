"""Dealing bags, and what belongs together, to folds."""

from __future__ import annotations

from itertools import product

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


def lacking(folds, table):
    """How many pairs of a fold and a class have no bag; the folds of groups, and their bags."""
    has = np.zeros((int(folds.max()) + 1, table.shape[1]))
    np.add.at(has, folds, table)
    return int((has == 0).sum())


@given(seeds, st.integers(2, 5), st.integers(1, 4))
def test_groups_of_one_class_bring_it_into_every_fold(seed, n_folds, n_more):
    of_group = np.concatenate([np.repeat([0, 1, 2], n_folds), rng(seed).integers(0, 3, n_more)])
    groups = np.repeat(np.arange(len(of_group)), rng(seed).integers(1, 20, len(of_group)))
    folds = deal(of_group[groups], n_folds, rng(seed), groups)
    for number in range(3):
        assert len(set(folds[of_group[groups] == number])) == n_folds


@given(seeds, st.integers(2, 5), st.integers(0, 9))
def test_groups_of_all_classes_bring_them_into_every_fold(seed, n_folds, n_more):
    table = rng(seed).integers(1, 9, (n_folds + n_more, 4))
    groups, labels = (
        np.repeat(axis, table.ravel()) for axis in np.indices(table.shape).reshape(2, -1)
    )
    folds = deal(labels, n_folds, rng(seed), groups)
    assert lacking(folds, np.eye(4)[labels]) == 0


def test_groups_of_several_classes_serve_all_of_them_nearly_wherever_that_can_be():
    n_found = n_there = 0
    for seed in range(150):
        draws, n_folds = rng(seed), 2 + seed % 2
        table = draws.integers(1, 4, (6, 3)) * (draws.random((6, 3)) < 0.6)
        table = table[table.any(axis=1)]
        labels = np.tile(np.arange(3), len(table)).repeat(table.ravel())
        groups = np.arange(len(table)).repeat(table.sum(axis=1))
        every = (np.array((0, *folds)) for folds in product(range(n_folds), repeat=len(table) - 1))
        if any(folds.max() == n_folds - 1 and not lacking(folds, table) for folds in every):
            n_there += 1
            n_found += not lacking(deal(labels, n_folds, draws, groups), np.eye(3)[labels])
    assert n_there > 80
    # By the most frequent class alone it was three in four.
    assert n_found >= 0.97 * n_there


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
