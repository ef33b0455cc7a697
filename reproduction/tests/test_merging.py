"""Merging by class separability and by likelihood, against a search over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import DataError
from reproduction.methods import SeparabilityMerging, WinnMerging
from reproduction.methods.separability import separability_tree
from reproduction.methods.winn import likelihood_tree, log_bayes_factor


def data(seed, n_words, n_bags=24, n_classes=3):
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % n_classes
    profiles = random.dirichlet(np.ones(n_words), n_classes)
    rows = [random.dirichlet(20 * profiles[c] + 0.01) for c in labels]
    return np.array(rows), labels


def separability(columns, labels):
    """Between-class over total variance, from the definition."""
    centred = columns - columns.mean(axis=0)
    means = np.array([centred[labels == c].mean(axis=0) for c in labels])
    total = (centred**2).sum()
    return (means**2).sum() / total if total > 1e-12 else 0.0


def log_odds(columns, labels):
    """The log odds of the labels: a sum over columns."""
    shares = np.array([separability(column[:, None], labels) for column in columns.T])
    return log_bayes_factor(shares, len(labels), len(set(labels.tolist()))).sum()


def best_values(histograms, labels, measure):
    """The measure before and after each merge, trying every pair at every step."""
    values = [measure(histograms, labels)]
    while histograms.shape[1] > 1:
        merged = [
            np.column_stack(
                [np.delete(histograms, [i, j], axis=1), histograms[:, i] + histograms[:, j]]
            )
            for i in range(histograms.shape[1])
            for j in range(i + 1, histograms.shape[1])
        ]
        found = [measure(columns, labels) for columns in merged]
        values.append(max(found))
        histograms = merged[int(np.argmax(found))]
    return np.array(values)


@pytest.mark.parametrize(
    ("tree", "measure"), [(separability_tree, separability), (likelihood_tree, log_odds)]
)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), n_words=st.integers(2, 8))
def test_every_merge_is_the_best_of_all_pairs(tree, measure, seed, n_words):
    histograms, labels = data(seed, n_words)
    values = best_values(histograms, labels, measure)
    np.testing.assert_allclose(tree(histograms, labels).losses, -np.diff(values), atol=1e-6)


@pytest.mark.parametrize("tree", [separability_tree, likelihood_tree])
def test_words_without_mass_are_set_aside(tree):
    histograms, labels = data(4, 5)
    wide = tree(np.insert(histograms, [0, 3], 0, axis=1), labels).groups_at(2)
    assert np.flatnonzero(wide < 0).tolist() == [0, 4]
    np.testing.assert_array_equal(wide[wide >= 0], tree(histograms, labels).groups_at(2))


@pytest.mark.parametrize(
    ("selector", "n_kept", "groups"),
    [(SeparabilityMerging, 2, [0, 1, 0, 1, 0, 1]), (WinnMerging, 3, [0, 1, 2, 2, 2, 2])],
)
def test_the_selector_merges_the_words_of_a_codebook(selector, n_kept, groups):
    random = np.random.default_rng(0)
    if selector is SeparabilityMerging:
        # Each class has three words of its own.
        values = [random.choice([0, 2, 4], 9) + i % 2 for i in range(20)]
    else:
        # Words 0 and 1 are those of a class each, the others are noise.
        values = [np.append(np.full(9, i % 2), random.choice([2, 3, 4, 5], 6)) for i in range(20)]
    bags = bs.Bags.from_list([v[:, None].astype(float) for v in values])
    y = ["in", "out"] * 10
    merged = selector(np.arange(6.0)[:, None], n_kept=n_kept, n_jobs=2).fit(bags, y)
    assert merged.selection_.groups.tolist() == groups
    assert merged.selection_.codes_with == "full"
    assert merged.transform(bags)[0] == pytest.approx([1, 0] if n_kept == 2 else [0.6, 0, 0.4])
    again = clone(merged).set_params(n_jobs=1).fit(bags, y)
    np.testing.assert_array_equal(again.tree_.merges, merged.tree_.merges)
    np.testing.assert_array_equal(again.tree_.losses, merged.tree_.losses)


# -- separability --------------------------------------------------------------------------------


def test_histograms_that_are_alike_are_refused():
    with pytest.raises(DataError, match="all histograms are alike"):
        separability_tree(np.full((6, 4), 0.25), np.array([0, 1] * 3))


@pytest.mark.parametrize("n_copies", [1, 5])
def test_classes_that_do_not_differ_still_give_a_whole_tree(n_copies):
    # Both classes have the same two images, so the measure is 0 throughout; and words 0 and 1 add
    # up to a constant, after which nothing varies at all.
    images = np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    histograms = np.repeat(np.tile(images, (2, 1)), n_copies, axis=1)
    tree = separability_tree(histograms, np.array([0, 0, 1, 1]))
    assert sorted(tree.merges[:, 1].tolist()) == list(range(1, 3 * n_copies))
    np.testing.assert_allclose(tree.losses, 0, atol=1e-12)


# -- likelihood ----------------------------------------------------------------------------------


def log_marginal(x, covariance):
    """Log density of x, its overall mean (flat) and variance (1 / variance) integrated out.

    With x - m ~ N(0, v C): the integral over m leaves a Gaussian of n - 1 dimensions in which only
    q = x'Px counts, P = C⁻¹ - C⁻¹11'C⁻¹ / 1'C⁻¹1; that over v is a gamma integral, giving
    |C|^-½ (1'C⁻¹1)^-½ (2π)^-(n-1)/2 Γ((n-1)/2) (q/2)^-(n-1)/2 .
    """
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(axis=1)
    q = x @ inverse @ x - (ones @ x) ** 2 / ones.sum()
    half = (len(x) - 1) / 2
    constant = gammaln(half) - half * np.log(2 * np.pi) - 0.5 * np.log(ones.sum())
    return constant - 0.5 * np.linalg.slogdet(covariance)[1] - half * np.log(q / 2)


def test_the_closed_form_is_the_integral_over_means_and_variance():
    # The g-prior on the centred class columns Z is effects ~ N(0, v g (Z'Z)⁻¹), so x has the
    # covariance v (I + g H), H the projection on the centred class means.
    random = np.random.default_rng(0)
    labels = np.array([0] * 7 + [1] * 4 + [2] * 5)
    x = random.normal(size=16) + 0.8 * labels
    members = (labels[:, None] == np.arange(3)).astype(float)
    onto_means = members @ np.diag(1 / members.sum(axis=0)) @ members.T - 1 / 16
    expected = log_marginal(x, np.eye(16) + 16 * onto_means) - log_marginal(x, np.eye(16))
    actual = log_bayes_factor(np.array([separability(x[:, None], labels)]), 16, 3)
    assert actual[0] == pytest.approx(expected, abs=1e-10)


def test_words_of_different_classes_stay_apart_and_noise_is_merged():
    random = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 15)
    own = random.permutation(12)[:3]
    histograms = random.gamma(2.0, 1.0, (45, 12))
    for c, word in enumerate(own):
        histograms[:, word] = random.gamma(5.0, 1.0, 45) + 60 * (labels == c)
    groups = likelihood_tree(histograms, labels).groups_at(4)
    noise = set(np.delete(groups, own).tolist())
    assert len(noise) == 1
    assert len(noise | set(groups[own].tolist())) == 4


def test_the_result_is_the_same_on_any_number_of_threads():
    histograms, labels = data(3, 200)
    one, two = (likelihood_tree(histograms, labels, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.merges, two.merges)
    np.testing.assert_array_equal(one.losses, two.losses)


def test_empty_histograms_are_refused():
    with pytest.raises(DataError, match="every histogram is empty"):
        likelihood_tree(np.zeros((4, 3)), np.array([0, 1, 0, 1]))


def test_constant_histograms_merge_at_the_price_of_their_means():
    # No bin varies, so each has R² = 0 and s = -½ (k - 1) log(1 + n): every merge gains one s.
    tree = likelihood_tree(np.full((6, 4), 0.25), np.array([0, 1] * 3))
    np.testing.assert_allclose(tree.losses, -0.5 * np.log(7), rtol=1e-12)
