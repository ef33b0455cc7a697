"""The frame of bottom-up merging, with losses of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from bowsaw.errors import ParameterError
from bowsaw.selection.bottleneck import BottleneckSelector
from bowsaw.selection.merging import MergeTree, add_up, merge_greedily


class ArbitraryLosses:
    """Losses that only the members of two groups decide, in no orderly way.

    A sine of sums over the members: a merged group may be nearer to a third than both of its parts
    were, or farther, and losses may be negative. Nothing but an honest search finds the least.
    """

    def __init__(self, values):
        self.values = np.array(values, dtype=np.float64)
        self.gone = np.zeros(len(values), dtype=bool)

    @property
    def n_slots(self):
        return len(self.values)

    def row(self, slot, start):
        others = self.values[start:]
        losses = np.sin(self.values[slot] * others) + 0.1 * np.cos(self.values[slot] + others)
        return np.where(self.gone[start:], np.inf, losses)

    def merge(self, slot, other):
        loss = float(self.row(slot, other)[0])
        self.values[slot] += self.values[other]
        self.gone[other] = True
        return loss

    def keep(self, slots):
        self.values, self.gone = self.values[slots], self.gone[slots]


def all_pairs(values):
    """The merges and losses of a search over all pairs at every step."""
    groups = dict(enumerate(values))
    merges, costs = [], []
    while len(groups) > 1:
        names = sorted(groups)
        losses = ArbitraryLosses([groups[name] for name in names])
        found = [
            (losses.row(i, j)[0], names[i], names[j])
            for i in range(len(names))
            for j in range(i + 1, len(names))
        ]
        loss, first, second = min(found)
        merges.append([first, second])
        costs.append(loss)
        groups[first] += groups.pop(second)
    return merges, costs


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 16), st.sampled_from([1, 2]))
def test_the_least_loss_of_all_pairs_is_always_found(seed, n, n_jobs):
    values = np.random.default_rng(seed).normal(0, 2, n)
    merges, costs = merge_greedily(ArbitraryLosses(values), n_jobs)
    expected, losses = all_pairs(values)
    assert merges.tolist() == expected
    np.testing.assert_allclose(costs, losses, atol=1e-12)


def test_more_rows_than_a_block_are_merged_alike_on_any_number_of_threads():
    values = np.random.default_rng(0).normal(0, 2, 300)
    one, two = (merge_greedily(ArbitraryLosses(values), n) for n in (1, 2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])
    assert sorted(one[0][:, 1].tolist()) == list(range(1, 300))


def test_groups_follow_chains_of_merges():
    # 3 into 2, 2 into 1, 1 into 0: each group changes its name by each merge.
    merges = np.array([[2, 3], [1, 2], [0, 1]])
    tree = MergeTree(4, np.arange(4), merges, np.zeros(3))
    cuts = [tree.groups_at(n).tolist() for n in (4, 3, 2, 1)]
    assert cuts == [[0, 1, 2, 3], [0, 1, 2, 2], [0, 1, 1, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("n_groups", [0, -1, 1.5, True, None])
def test_a_number_of_groups_that_is_none_is_refused(n_groups):
    tree = MergeTree(2, np.arange(2), np.array([[0, 1]]), np.zeros(1))
    with pytest.raises(ParameterError, match="whole number, 1 or more"):
        tree.groups_at(n_groups)


def test_columns_are_added_up_by_group_and_set_aside():
    histograms = np.array([[1, 2, 4, 8, 16]], dtype=np.float32)
    summed = add_up(histograms, np.array([1, -1, 0, 1, -1]))
    assert (summed.tolist(), summed.dtype) == ([[4, 9]], np.float32)


def test_a_selector_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        BottleneckSelector([[0.0]]).selection_at(1)
