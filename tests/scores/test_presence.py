import numpy as np
import pytest
from scipy.stats import chi2_contingency
from tests.oracles import scores as oracle

from bowsaw.errors import DataError, ParameterError
from bowsaw.scores.presence import MEASURES, Presence, word_scores


@pytest.fixture
def corpus():
    random = np.random.default_rng(2)
    labels = random.integers(0, 3, size=80)
    chance = random.uniform(0.1, 0.9, size=(3, 9))
    return random.uniform(size=(80, 9)) < chance[labels], labels


def test_chi_squared_is_scipys_and_mutual_information_that_of_the_table(corpus):
    has, labels = corpus
    # Per word and class: the bags inside and outside of the class that have the word, or not.
    tables = np.array(
        [
            [[(a & b).sum() for b in (labels == y, labels != y)] for a in (column, ~column)]
            for column in has.T
            for y in range(3)
        ]
    ).reshape(9, 3, 2, 2)
    each = [[chi2_contingency(t, correction=False).statistic for t in word] for word in tables]
    mean = each @ (np.bincount(labels) / len(labels))
    np.testing.assert_allclose(word_scores(has, labels, "chi2", combine="mean"), mean)
    np.testing.assert_allclose(word_scores(has, labels, "chi2"), np.max(each, axis=1))
    information = [oracle.mutual_information(word[:, :, 0].tolist()) for word in tables]
    np.testing.assert_allclose(word_scores(has, labels, "mi"), information, atol=1e-14)
    np.testing.assert_allclose(word_scores(has, labels, "df"), has.mean(axis=0))


def test_pointwise_information_is_the_logarithm_of_the_lift():
    has = np.array([[1, 1], [1, 0], [0, 0], [1, 0]], dtype=bool)
    # Word 0: P(word) = 3/4; both bags of class 0 have it, one of two of class 1.
    first = [np.log(1 / 0.75), np.log(0.5 / 0.75)]
    # Word 1: P(word) = 1/4; class 1 never has it, and half a bag of two stands for none.
    second = [np.log(0.5 / 0.25), np.log(0.25 / 0.25)]
    found = word_scores(has, [0, 0, 1, 1], "pmi", combine="mean")
    np.testing.assert_allclose(found, [np.mean(first), np.mean(second)])
    most = word_scores(has, [0, 0, 1, 1], "pmi")
    np.testing.assert_allclose(most, [first[0], second[0]])


@pytest.mark.parametrize("combine", ["mean", "max"])
def test_words_of_all_bags_or_none_score_zero(combine):
    for measure in ("chi2", "mi", "pmi"):
        labels = [0, 0, 0, 1, 1, 2]
        found = word_scores([[0, 1]] * 6, labels, measure, combine=combine, n_classes=5)
        np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_score_is_the_mean_of_the_ranking(corpus, measure):
    has, labels = corpus
    shares = has * np.random.default_rng(0).uniform(0.2, 1, size=has.shape)
    score = Presence(measure).begin(labels, 3)
    assert score.update(shares) == pytest.approx(word_scores(has, labels, measure).mean())
    soft = Presence(measure, threshold=0.1).begin(labels, 3)
    assert soft.update(np.maximum(shares, 0.05)) == score.value


def test_soft_histograms_need_a_threshold():
    with pytest.raises(ParameterError, match="threshold above 0 with soft coding"):
        Presence().begin([0, 1], 2, coding="soft")
    soft = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert Presence(threshold=0.5).begin([0, 1], 2, coding="soft").update(soft) > 0


def test_what_is_not_known_is_refused():
    with pytest.raises(ParameterError, match="measure"):
        word_scores([[1]], [0], "idf")
    with pytest.raises(ParameterError, match="combine"):
        Presence("mi", combine="median")
    with pytest.raises(ParameterError, match="threshold"):
        Presence("mi", threshold=1)
    with pytest.raises(DataError, match="one label per bag"):
        word_scores([[1]], [0, 1])
