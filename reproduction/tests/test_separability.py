"""Merging by class separability against a search over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.selection.base import add_columns as add_up
from reproduction.methods.separability import (
    SeparabilityMerging,
    scatter_matrices,
    separability_tree,
)


def separability(histograms, labels):
    """Between-class over total variance, from the definition."""
    mean = histograms.mean(axis=0)
    between = sum(
        (labels == c).sum() * ((histograms[labels == c].mean(axis=0) - mean) ** 2).sum()
        for c in set(labels.tolist())
    )
    total = ((histograms - mean) ** 2).sum()
    return between / total if total > 1e-12 else 0.0


def best_ratios(histograms, labels):
    """The measure after each merge, trying every pair at every step."""
    ratios = []
    while histograms.shape[1] > 1:
        n = histograms.shape[1]
        unions = []
        for i in range(n):
            for j in range(i + 1, n):
                rest = np.delete(histograms, [i, j], axis=1)
                unions.append(np.column_stack([rest, histograms[:, i] + histograms[:, j]]))
        values = [separability(union, labels) for union in unions]
        ratios.append(max(values))
        histograms = unions[int(np.argmax(values))]
    return ratios


def data(seed, n_words, n_bags=24, n_classes=3):
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % n_classes
    profiles = random.dirichlet(np.ones(n_words), n_classes)
    rows = [random.dirichlet(20 * profiles[c] + 0.01) for c in labels]
    return np.array(rows), labels


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_every_merge_is_the_best_of_all_pairs(seed, n_words):
    histograms, labels = data(seed, n_words)
    tree = separability_tree(histograms, labels)
    ratios = separability(histograms, labels) - np.cumsum(tree.losses)
    np.testing.assert_allclose(ratios, best_ratios(histograms, labels), atol=1e-9)


def test_many_words_give_the_ratios_of_whole_matrices():
    # Enough words for the matrices to be compacted several times; at each step all pairs at once.
    histograms, labels = data(1, 150, n_bags=60)
    tree = separability_tree(histograms, labels)
    between, total = scatter_matrices(histograms, labels)
    ratio = np.trace(between) / np.trace(total)
    alive = np.ones(150, dtype=bool)
    for (i, j), loss in zip(tree.merges[:-1].tolist(), tree.losses, strict=False):
        b, t = between[alive][:, alive], total[alive][:, alive]
        worth = (np.trace(b) + 2 * b) / (np.trace(t) + 2 * t)
        best = worth[np.triu_indices(len(b), 1)].max()
        assert ratio - loss == pytest.approx(best, rel=1e-9)
        ratio -= loss
        for matrix in (between, total):
            matrix[i] += matrix[j]
            matrix[:, i] += matrix[:, j]
        alive[j] = False


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 12), st.data())
def test_losses_tell_the_measure_of_every_cut(seed, n_words, choice):
    histograms, labels = data(seed, n_words)
    tree = separability_tree(histograms, labels)
    n_groups = choice.draw(st.integers(2, n_words))
    merged = add_up(histograms, tree.groups_at(n_groups))
    told = separability(histograms, labels) - tree.losses[: n_words - n_groups].sum()
    assert separability(merged, labels) == pytest.approx(told, abs=1e-9)


def test_scatters_are_those_of_the_definition():
    histograms, labels = data(2, 6)
    between, total = scatter_matrices(histograms, labels)
    np.testing.assert_allclose(total, np.cov(histograms.T, bias=True), atol=1e-15)
    means = np.array([histograms[labels == c].mean(axis=0) for c in labels])
    np.testing.assert_allclose(between, np.cov(means.T, bias=True), atol=1e-15)


def test_words_of_one_class_are_grouped():
    # Each class has four words of its own; which of the four an image shows is chance.
    random = np.random.default_rng(3)
    kind = random.permutation(np.repeat(np.arange(3), 4))
    labels = np.repeat(np.arange(3), 20)
    histograms = np.zeros((60, 12))
    for row, c in zip(histograms, labels, strict=True):
        row[kind == c] = random.dirichlet(np.ones(4))
    groups = separability_tree(histograms, labels).groups_at(3)
    assert len(set(zip(groups.tolist(), kind.tolist(), strict=True))) == 3


def test_words_without_mass_are_set_aside():
    histograms, labels = data(4, 5)
    wide = np.insert(histograms, [0, 3], 0, axis=1)
    tree, narrow = separability_tree(wide, labels), separability_tree(histograms, labels)
    np.testing.assert_array_equal(np.delete(tree.groups_at(2), [0, 4]), narrow.groups_at(2))
    assert tree.groups_at(2)[[0, 4]].tolist() == [-1, -1]


def test_histograms_that_are_alike_are_refused():
    with pytest.raises(DataError, match="all histograms are alike"):
        separability_tree(np.full((6, 4), 0.25), np.array([0, 1] * 3))


def test_the_selector_merges_the_words_of_a_codebook():
    random = np.random.default_rng(0)
    words = np.arange(5.0)[:, None]
    shown = [[0.0, 2.0, 4.0], [1.0, 3.0]] * 8
    values = [random.choice(some, 9) for some in shown]
    bags = Bags.from_list([v[:, None] for v in values])
    y = ["in", "out"] * 8
    merged = SeparabilityMerging(words, n_kept=2, n_jobs=2).fit(bags, y)
    assert merged.selection_.groups.tolist() == [0, 1, 0, 1, 0]
    assert merged.selection_.codes_with == "full"
    np.testing.assert_allclose(merged.transform(bags), np.tile(np.eye(2), (8, 1)), atol=1e-6)
    again = clone(merged).set_params(n_jobs=1).fit(bags, y)
    np.testing.assert_array_equal(again.tree_.merges, merged.tree_.merges)
    np.testing.assert_array_equal(again.tree_.losses, merged.tree_.losses)


@pytest.mark.parametrize("n_copies", [1, 5])
def test_classes_that_do_not_differ_still_give_a_whole_tree(n_copies):
    # Both classes have the same two images, so the measure is 0 throughout; and words 0 and 1 add
    # up to a constant, after which nothing varies at all.
    images = np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    histograms = np.repeat(np.tile(images, (2, 1)), n_copies, axis=1)
    tree = separability_tree(histograms, np.array([0, 0, 1, 1]))
    assert sorted(tree.merges[:, 1].tolist()) == list(range(1, 3 * n_copies))
    np.testing.assert_allclose(tree.losses, 0, atol=1e-12)
