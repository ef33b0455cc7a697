"""Bottom-up merging, with losses of its own, and the information bottleneck."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from tests.oracles import bottleneck as oracle

from bowsaw.bags import Bags
from bowsaw.errors import DataError, ParameterError
from bowsaw.selection.merging import (
    Bottleneck,
    MergeTree,
    bottleneck_tree,
    merge_greedily,
    word_class_table,
)


class ArbitraryLosses:
    """A sine of sums over the members: losses may fall by a merge, and may be negative."""

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


def test_groups_follow_chains_of_merges():
    # 3 into 2, 2 into 1, 1 into 0: each group changes its name by each merge.
    tree = MergeTree(4, np.arange(4), np.array([[2, 3], [1, 2], [0, 1]]), np.zeros(3))
    cuts = [tree.groups_at(n).tolist() for n in (4, 3, 2, 1)]
    assert cuts == [[0, 1, 2, 3], [0, 1, 2, 2], [0, 1, 1, 1], [0, 0, 0, 0]]
    for wrong in (0, 1.5, None):
        with pytest.raises(ParameterError, match="n_kept must be an integer of at least 1"):
            tree.groups_at(wrong)
    with pytest.raises(NotFittedError):
        Bottleneck([[0.0]]).selection_at(1)


FOUR = np.array([[0.3, 0.0], [0.3, 0.0], [0.0, 0.2], [0.0, 0.2]])


def random_table(seed, n_words, n_classes, zeros=0.3):
    random = np.random.default_rng(seed)
    table = random.gamma(0.7, size=(n_words, n_classes))
    table[random.random(table.shape) < zeros] = 0
    table[0, 0] = 1
    return table / table.sum()


def groups_of(tree):
    """The two groups that each merge joined, as sets of words."""
    members = {int(word): frozenset([int(word)]) for word in tree.present}
    for first, second in tree.merges.tolist():
        yield {members[first], members[second]}
        members[first] |= members.pop(second)


tables = st.builds(random_table, st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 5))


def test_words_of_one_class_are_joined_first_and_those_without_mass_set_aside():
    tree = bottleneck_tree(FOUR)
    assert sorted(map(tuple, tree.merges[:2].tolist())) == [(0, 1), (2, 3)]
    assert tree.losses[:2].tolist() == [0, 0]
    # What is left determines the class: all of H(0.6, 0.4) is lost by the last merge.
    assert tree.losses[2] == pytest.approx(-0.6 * np.log(0.6) - 0.4 * np.log(0.4), abs=1e-15)
    tree = bottleneck_tree(np.insert(FOUR, [0, 2], 0, axis=0))
    assert tree.groups_at(2).tolist() == [-1, 0, 0, -1, 1, 1]
    assert tree.groups_at(6).tolist() == [-1, 0, 1, -1, 2, 3]


@settings(deadline=None, max_examples=40)
@given(tables)
def test_the_tree_is_that_of_a_brute_force(table):
    tree = bottleneck_tree(table)
    merges, losses = oracle.brute_force(table)
    np.testing.assert_allclose(tree.losses, losses, rtol=1e-9, atol=1e-15)
    # Where merges cost the same, as at no cost, any of their orders is right.
    if (np.diff(np.sort(losses)) > 1e-12).all():
        assert list(groups_of(tree)) == merges


@settings(deadline=None, max_examples=40)
@given(tables)
def test_losses_are_divergences_and_sum_to_the_information(table):
    tree = bottleneck_tree(table)
    members = {int(word): table[word] for word in tree.present}
    for (first, second), loss in zip(tree.merges.tolist(), tree.losses, strict=True):
        before = members[first], members.pop(second)
        assert loss >= 0
        assert loss == pytest.approx(oracle.divergence(*before), rel=1e-9, abs=1e-15)
        members[first] = sum(before)
    assert tree.losses.sum() == pytest.approx(oracle.information(table), abs=1e-13)


def test_many_words_give_the_losses_of_plain_row_scans_on_any_number_of_threads():
    # Large enough for the arrays to be compacted several times.
    table = random_table(3, 300, 6)
    one, *others = (bottleneck_tree(table, n_jobs=n) for n in (1, 2, 3))
    np.testing.assert_allclose(one.losses, oracle.row_scan(table), rtol=1e-7, atol=1e-14)
    for other in others:
        np.testing.assert_array_equal(one.merges, other.merges)
        np.testing.assert_array_equal(one.losses, other.losses)


def test_every_merge_is_a_best_one_where_many_are_alike():
    # Small counts: many words have the same profile, and any of their orders is right. So the
    # pairs are taken from the tree, and each must be as cheap as the cheapest of that moment.
    random = np.random.default_rng(1)
    counts = random.poisson(random.dirichlet(np.full(4, 0.7), 120) * random.gamma(8, 1, (120, 1)))
    table = counts[counts.sum(axis=1) > 0] / counts.sum()
    tree = bottleneck_tree(table)
    assert (tree.losses == 0).sum() > 10
    masses = table.copy()
    alive = np.ones(len(table), dtype=bool)
    for (first, second), loss in zip(tree.merges.tolist(), tree.losses, strict=True):
        left = masses[alive]
        assert loss <= min(oracle.row(left, i).min() for i in range(len(left))) + 1e-15
        masses[first] += masses[second]
        alive[second] = False


def test_cuts_are_nested_and_numbered_by_their_first_words():
    tree = bottleneck_tree(random_table(2, 60, 4))
    coarser = tree.groups_at(60)
    for n_groups in range(len(tree.present), 0, -1):
        groups, finer = tree.groups_at(n_groups), coarser
        coarser = groups
        assert len(set(groups[tree.present].tolist())) == n_groups
        firsts = [int(np.flatnonzero(groups == g)[0]) for g in range(n_groups)]
        assert firsts == sorted(firsts)
        pairs = {(int(a), int(b)) for a, b in zip(finer, groups, strict=True)}
        assert len(pairs) == len(set(finer.tolist()))


def test_the_table_is_the_mean_of_the_histograms_by_class():
    histograms = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]], dtype=np.float32)
    table = word_class_table(histograms, np.array([0, 1, 1]))
    np.testing.assert_allclose(table, np.array([[0.5, 1.25], [0.5, 0.75]]) / 3)
    with pytest.raises(DataError, match="every histogram is empty"):
        word_class_table(np.zeros((4, 3)), [0, 0, 1, 1])
    for wrong in ([[0.0, 0.0]], [[-1.0, 2.0]], [1.0, 2.0], [[np.nan, 1.0]]):
        with pytest.raises(DataError):
            bottleneck_tree(wrong)


def test_ready_histograms_can_be_merged():
    random = np.random.default_rng(4)
    X = random.random((30, 12))
    X[np.arange(30), np.repeat([2, 5, 7], 10)] += 30
    tree = bottleneck_tree(word_class_table(X, np.repeat(["cat", "dog", "owl"], 10)))
    assert len(set(tree.groups_at(3)[[2, 5, 7]].tolist())) == 3
    np.testing.assert_allclose(tree.reduce(X, 3).sum(axis=1), X.sum(axis=1))


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_the_selector_merges_the_words_of_a_codebook(coding):
    # Words 0, 2, 4 are seen in the first class and 1, 3 in the second; no image has word 5.
    random = np.random.default_rng(0)
    words = np.append(np.arange(5.0), 90.0)[:, None]
    values = [np.repeat([0.0, 2.0, 4.0], 5), np.repeat([1.0, 3.0], 5)] * 4
    bags = Bags.from_list([(v + random.normal(0, 0.05, v.shape))[:, None] for v in values])
    y = ["in", "out"] * 4
    merged = Bottleneck(words, n_kept=2, coding=coding, sharpness=20.0).fit(bags, y)
    selection = merged.selection_
    assert selection.groups[:5].tolist() == [0, 1, 0, 1, 0]
    assert (selection.codes_with, selection.n_coding_words, selection.n_columns) == ("full", 6, 2)
    out = merged.transform(bags)
    np.testing.assert_allclose(out, np.tile(np.eye(2), (4, 1)), atol=1e-4)
    assert merged.selection_at(3).n_columns == 3
    assert selection.record()["method"] == "bottleneck"
