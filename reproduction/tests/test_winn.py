"""Merging by the likelihood of the classes against integrals and a search over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.base import clone

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from reproduction.methods.winn import WinnMerging, likelihood_tree, log_bayes_factor


def share_between(column, labels):
    total = ((column - column.mean()) ** 2).sum()
    if total < 1e-12:
        return 0.0
    means = np.array([column[labels == c].mean() for c in labels])
    return ((means - column.mean()) ** 2).sum() / total


def odds(columns, labels):
    shares = np.array([share_between(column, labels) for column in columns])
    return log_bayes_factor(shares, len(labels), len(set(labels.tolist()))).sum()


def best_losses(histograms, labels):
    """What the log odds fall by at each merge, trying every pair at every step."""
    columns, losses = list(histograms.T), []
    while len(columns) > 1:
        before, best = odds(columns, labels), None
        for i in range(len(columns)):
            for j in range(i + 1, len(columns)):
                rest = [c for k, c in enumerate(columns) if k not in (i, j)]
                merged = [*rest, columns[i] + columns[j]]
                loss = before - odds(merged, labels)
                if best is None or loss < best[0]:
                    best = loss, merged
        losses.append(best[0])
        columns = best[1]
    return losses


def data(seed, n_words, n_bags=24, n_classes=3):
    random = np.random.default_rng(seed)
    labels = np.arange(n_bags) % n_classes
    profiles = random.dirichlet(np.ones(n_words), n_classes)
    rows = [random.dirichlet(20 * profiles[c] + 0.01) for c in labels]
    return np.array(rows), labels


def log_marginal(x, covariance):
    """Log density of x, its overall mean (flat) and variance (1 / variance) integrated out.

    With x - m ~ N(0, v C): the integral over m leaves a Gaussian of n - 1 dimensions in which only
    q = x'Px counts, P = C⁻¹ - C⁻¹11'C⁻¹ / 1'C⁻¹1; that over v is a gamma integral, giving
    |C|^-½ (1'C⁻¹1)^-½ (2π)^-(n-1)/2 Γ((n-1)/2) (q/2)^-(n-1)/2 .
    """
    n = len(x)
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(axis=1)
    q = x @ inverse @ x - (ones @ x) ** 2 / ones.sum()
    half = (n - 1) / 2
    return (
        -0.5 * np.linalg.slogdet(covariance)[1]
        - 0.5 * np.log(ones.sum())
        - half * np.log(2 * np.pi)
        + gammaln(half)
        - half * np.log(q / 2)
    )


def test_the_closed_form_is_the_integral_over_means_and_variance():
    # The g-prior on the centred class columns Z is effects ~ N(0, v g (Z'Z)⁻¹), so x has the
    # covariance v (I + g H), H the projection on the centred class means.
    random = np.random.default_rng(0)
    labels = np.array([0] * 7 + [1] * 4 + [2] * 5)
    x = random.normal(size=16) + 0.8 * labels
    members = (labels[:, None] == np.arange(3)).astype(float)
    onto_means = members @ np.diag(1 / members.sum(axis=0)) @ members.T - 1 / 16
    expected = log_marginal(x, np.eye(16) + 16 * onto_means) - log_marginal(x, np.eye(16))
    actual = log_bayes_factor(np.array([share_between(x, labels)]), 16, 3)
    assert actual[0] == pytest.approx(expected, abs=1e-10)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_every_merge_is_the_best_of_all_pairs(seed, n_words):
    histograms, labels = data(seed, n_words)
    tree = likelihood_tree(histograms, labels)
    np.testing.assert_allclose(tree.losses, best_losses(histograms, labels), atol=1e-6)


def test_words_of_different_classes_stay_apart_and_noise_is_merged():
    random = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 15)
    telling = random.permutation(12)[:3]
    histograms = random.gamma(2.0, 1.0, (45, 12))
    for c, word in enumerate(telling):
        histograms[:, word] = random.gamma(5.0, 1.0, 45) + 60 * (labels == c)
    groups = likelihood_tree(histograms, labels).groups_at(4)
    assert len(set(groups[telling].tolist())) == 3
    noise = np.setdiff1d(np.arange(12), telling)
    assert len(set(groups[noise].tolist())) == 1
    assert groups[noise[0]] not in groups[telling]


def test_the_result_is_the_same_on_any_number_of_threads():
    histograms, labels = data(3, 200)
    one, two = (likelihood_tree(histograms, labels, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.merges, two.merges)
    np.testing.assert_array_equal(one.losses, two.losses)


def test_words_without_mass_are_set_aside():
    histograms, labels = data(4, 5)
    wide = np.insert(histograms, [0, 3], 0, axis=1)
    assert np.flatnonzero(likelihood_tree(wide, labels).groups_at(2) < 0).tolist() == [0, 4]


def test_empty_histograms_are_refused():
    with pytest.raises(DataError, match="every histogram is empty"):
        likelihood_tree(np.zeros((4, 3)), np.array([0, 1, 0, 1]))


def test_constant_histograms_merge_at_the_price_of_their_means():
    # No bin varies, so each has R² = 0 and s = -½ (k - 1) log(1 + n): every merge gains one s.
    tree = likelihood_tree(np.full((6, 4), 0.25), np.array([0, 1] * 3))
    np.testing.assert_allclose(tree.losses, -0.5 * np.log(7), rtol=1e-12)


def test_the_selector_merges_the_words_of_a_codebook():
    random = np.random.default_rng(0)
    words = np.arange(6.0)[:, None]
    # Word 0 tells the first class and word 1 the second; the others come as they like.
    values = [np.append(np.full(9, i % 2), random.choice([2, 3, 4, 5], 6)) for i in range(20)]
    bags = Bags.from_list([v[:, None].astype(float) for v in values])
    y = ["in", "out"] * 10
    merged = WinnMerging(words, n_kept=3, n_jobs=2).fit(bags, y)
    assert merged.selection_.groups.tolist() == [0, 1, 2, 2, 2, 2]
    assert merged.selection_.codes_with == "full"
    np.testing.assert_allclose(merged.transform(bags)[0], [0.6, 0, 0.4], atol=1e-6)
    again = clone(merged).set_params(n_jobs=1).fit(bags, y)
    np.testing.assert_array_equal(again.tree_.merges, merged.tree_.merges)
