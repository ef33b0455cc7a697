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
NAMES = np.array(["cat", "ant", "bee"])[LABELS]
HISTOGRAMS = COUNTS / COUNTS.sum(axis=1, keepdims=True)


def test_words_are_ranked_by_their_squared_weights():
    rows = np.sqrt(HISTOGRAMS)
    rows /= np.linalg.norm(rows, axis=1).mean()
    machine = LinearSVC(C=2.0, dual=False, tol=1e-8, max_iter=5000).fit(rows, LABELS)
    expected = (machine.coef_**2).sum(axis=0)
    saw = SvmRanking(BOOK, 4, C=2.0).fit(BAGS, LABELS)
    np.testing.assert_allclose(saw.word_scores_, expected, rtol=0.05, atol=1e-3)
    # A word that no bag has gets no weight.
    assert saw.word_scores_[9] == 0


def test_rotated_rows_have_the_same_weights():
    # 6 bags of soft codes: 6 × 10 entries above zero exceed 6², so the rows are rotated.
    few, names = BAGS[:6], NAMES[:6]
    saw = SvmRanking(BOOK, 4, coding="soft", sharpness=0.05).fit(few, names)
    rows = np.sqrt(bs.BagOfWords(BOOK, coding="soft", sharpness=0.05).transform(few), dtype=float)
    assert np.count_nonzero(rows) > 36
    rows /= np.linalg.norm(rows, axis=1).mean()
    machine = LinearSVC(dual=False, tol=1e-8, max_iter=5000).fit(rows, names)
    expected = (machine.coef_**2).sum(axis=0)
    np.testing.assert_allclose(saw.word_scores_, expected, rtol=0.05, atol=1e-3)


def test_two_classes_have_one_machine():
    saw = SvmRanking(BOOK, 4).fit(BAGS, LABELS > 0)
    assert saw.word_scores_.shape == (10,)
    assert len(saw.selection_.kept) == 4


def test_words_ranked_by_weights_can_code_alone():
    full = SvmRanking(BOOK, 4).fit(BAGS, NAMES)
    saw = SvmRanking(BOOK, 4, recode=True).fit(BAGS, NAMES)
    assert (full.selection_.codes_with, saw.selection_.codes_with) == ("full", "pruned")
    assert set(saw.selection_.kept) == set(full.selection_.kept)
    expected = bs.BagOfWords(BOOK.only(saw.selection_.kept)).transform(BAGS)
    np.testing.assert_array_equal(saw.transform(BAGS), expected)


@pytest.mark.parametrize("cost", [0, -1.0, np.inf, "auto", None])
def test_the_price_of_an_error_is_above_zero(cost):
    with pytest.raises(ParameterError, match="C must be a finite number above 0"):
        SvmRanking(BOOK, 3, C=cost).fit(BAGS, NAMES)
