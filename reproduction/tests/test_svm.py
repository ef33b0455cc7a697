"""Words ranked by the weights of linear machines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import bowsaw as bs
from bowsaw.errors import ParameterError
from reproduction.methods import SvmRanking

RANDOM = np.random.default_rng(8)
BOOK = bs.Codebook(np.arange(10.0)[:, None] * 3, RANDOM.permutation(80)[:10] + 5)
COUNTS = RANDOM.poisson(0.7, (30, 10))
COUNTS[:, 0] = 1  # every bag has this word
COUNTS[:, 9] = 0  # no bag has this one
BAGS = bs.Bags.from_list([np.repeat(np.arange(10.0) * 3, row)[:, None] for row in COUNTS])
LABELS = np.arange(30) % 3


def weights_of(histograms, labels, cost):
    rows = np.sqrt(histograms.astype(float))
    rows /= np.linalg.norm(rows, axis=1).mean()
    machine = LinearSVC(C=cost, dual=False, tol=1e-8, max_iter=5000).fit(rows, labels)
    return (machine.coef_**2).sum(axis=0)


# Six bags of soft codes have more than 6² entries above zero, so their rows are rotated.
@pytest.mark.parametrize(("n_bags", "coding", "cost"), [(30, "hard", 2.0), (6, "soft", 1.0)])
def test_words_are_ranked_by_their_squared_weights(n_bags, coding, cost):
    bags, labels = BAGS[:n_bags], LABELS[:n_bags]
    options = {"coding": coding, "sharpness": 0.05}
    ranking = SvmRanking(BOOK, 4, C=cost, **options).fit(bags, labels)
    histograms = bs.BagOfWords(BOOK, **options).transform(bags)
    assert (np.count_nonzero(histograms) > n_bags**2) == (coding == "soft")
    expected = weights_of(histograms, labels, cost)
    np.testing.assert_allclose(ranking.word_scores_, expected, rtol=0.05, atol=1e-3)
    # A word that no bag has gets no weight.
    assert coding == "soft" or ranking.word_scores_[9] == 0


def test_two_classes_have_one_machine():
    ranking = SvmRanking(BOOK, 4).fit(BAGS, LABELS > 0)
    assert ranking.word_scores_.shape == (10,)
    assert len(ranking.selection_.kept) == 4


def test_words_ranked_by_weights_can_code_alone():
    full = SvmRanking(BOOK, 4).fit(BAGS, LABELS)
    recoded = SvmRanking(BOOK, 4, recode=True).fit(BAGS, LABELS)
    assert (full.selection_.codes_with, recoded.selection_.codes_with) == ("full", "pruned")
    assert set(recoded.selection_.kept) == set(full.selection_.kept)
    expected = bs.BagOfWords(BOOK.only(recoded.selection_.kept)).transform(BAGS)
    np.testing.assert_array_equal(recoded.transform(BAGS), expected)


@pytest.mark.parametrize("cost", [0, np.inf, "auto"])
def test_the_price_of_an_error_is_above_zero(cost):
    with pytest.raises(ParameterError, match="C must be a finite number above 0"):
        SvmRanking(BOOK, 3, C=cost).fit(BAGS, LABELS)
