"""Words ranked one by one: the presence measures of Yang et al."""

from math import log

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.selection.ranking import PresenceRanking

RANDOM = np.random.default_rng(8)
IDS = RANDOM.permutation(80)[:10] + 5
BOOK = bs.Codebook(np.arange(10.0)[:, None] * 3, IDS)


def bag_of(counts):
    """A bag whose hard histogram has these counts: descriptors lie on the words."""
    return np.repeat(np.arange(10.0) * 3, counts)[:, None]


COUNTS = RANDOM.poisson(0.7, (30, 10))
COUNTS[:, 0] = 1  # every bag has this word, so it tells nothing
COUNTS[:, 9] = 0  # no bag has this one
BAGS = bs.Bags.from_list([bag_of(row) for row in COUNTS])
LABELS = np.arange(30) % 3
NAMES = np.array(["cat", "ant", "bee"])[LABELS]
HISTOGRAMS = COUNTS / COUNTS.sum(axis=1, keepdims=True)
PRESENT = COUNTS > 0


def by_definition(measure, word):
    """Word by word and class by class, from the texts."""
    has = PRESENT[:, word]
    if measure == "df":
        return has.mean()
    if measure == "mi":
        return mutual_info_score(has, LABELS)
    if has.all() or not has.any():
        return 0.0
    values = []
    for c in range(3):
        own = np.equal(LABELS, c)
        if measure == "chi2":
            # The 2 × 2 table's statistic: the sums of (seen − expected)² / expected.
            table = np.array([[(has & own).sum(), (has & ~own).sum()],
                              [(~has & own).sum(), (~has & ~own).sum()]])  # fmt: skip
            expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / 30
            values.append(((table - expected) ** 2 / expected).sum())
        else:
            both = max((has & own).sum(), 0.5)
            values.append(log(both * 30 / (has.sum() * own.sum())))
    return max(values)


@pytest.mark.parametrize("measure", ["mi", "df", "chi2", "pmi"])
def test_words_are_ranked_by_their_measure(measure):
    fitted = PresenceRanking(BOOK, 6, measure=measure, n_jobs=1).fit(BAGS, NAMES)
    expected = np.array([by_definition(measure, word) for word in range(10)])
    np.testing.assert_allclose(fitted.word_scores_, expected, rtol=1e-9, atol=1e-12)
    # Best first, and the first in the codebook of equals.
    best = sorted(range(10), key=lambda word: (-fitted.word_scores_[word], word))[:6]
    np.testing.assert_array_equal(fitted.selection_.kept, IDS[best])
    np.testing.assert_array_equal(fitted.order_, fitted.selection_.kept)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_recoding_keeps_the_ranked_words_in_the_order_of_the_codebook(coding):
    how = {"coding": coding, "sharpness": 0.5, "n_jobs": 1}
    full = PresenceRanking(BOOK, 4, **how).fit(BAGS, NAMES)
    fitted = PresenceRanking(BOOK, 4, recode=True, **how).fit(BAGS, NAMES)
    np.testing.assert_array_equal(fitted.order_, full.selection_.kept)
    expected = IDS[np.sort(BOOK.positions(full.selection_.kept))]
    np.testing.assert_array_equal(fitted.selection_.kept, expected)
    assert fitted.codebook_.digest == BOOK.only(expected).digest


def test_the_mean_of_pointwise_information_puts_useless_words_first():
    # Σ p(c) log(p(w, c) / p(w) p(c)) = −KL(p(c) ‖ p(c | w)) ≤ 0, and 0 for a word of all bags;
    # every class has each of the words 1 to 8 here, so no half bags enter.
    counts = np.concatenate([COUNTS, np.ones((3, 10), dtype=int)])
    labels = np.concatenate([LABELS, [0, 1, 2]])
    bags = [bag_of(row) for row in counts]
    mean = PresenceRanking(BOOK, 3, measure="pmi", combine="mean").fit(bags, labels)
    assert (mean.word_scores_[:9] <= 1e-12).all()
    assert mean.word_scores_[0] == 0
    assert (PresenceRanking(BOOK, 3, measure="pmi").fit(bags, labels).word_scores_[1:9] >= 0).all()


def test_a_soft_word_is_present_above_an_even_share():
    soft = {"coding": "soft", "sharpness": 0.05, "n_jobs": 1}
    codes = bs.BagOfWords(BOOK, **soft).transform(BAGS)
    fitted = PresenceRanking(BOOK, 3, measure="df", **soft).fit(BAGS)
    np.testing.assert_allclose(fitted.word_scores_, (codes > 0.1).mean(axis=0))
    low = PresenceRanking(BOOK, 3, measure="df", threshold=0.02, **soft).fit(BAGS)
    np.testing.assert_allclose(low.word_scores_, (codes > np.float32(0.02)).mean(axis=0))


@pytest.mark.parametrize("wrong", [{"measure": "tf"}, {"combine": "sum"}, {"threshold": 1.0}])
def test_unknown_measures_are_refused(wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))} must be"):
        PresenceRanking(BOOK, 3, **wrong).fit(BAGS, NAMES)
