from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import scores as oracle

from bowsaw.errors import ParameterError
from bowsaw.scores.mrmr import MaxRelevanceMinRedundancy


def test_it_is_the_difference_of_the_two_means():
    random = np.random.default_rng(1)
    histograms, labels = random.dirichlet(np.ones(8), size=60), random.integers(0, 3, size=60)
    found = MaxRelevanceMinRedundancy().begin(labels, 3).update(histograms)
    assert found == pytest.approx(oracle.relevance_minus_redundancy(histograms, labels, 3))


def test_a_copy_is_worse_than_another_telling_word():
    random = np.random.default_rng(2)
    labels = np.repeat([0, 1], 50)
    first, second = (0.2 + 0.1 * labels + random.uniform(0, 0.1, size=100) for _ in range(2))
    score = MaxRelevanceMinRedundancy().begin(labels, 2)
    different = score.update(np.stack([first, second], axis=1))
    assert different > score.update(np.stack([first, first], axis=1))


def test_constant_words_have_neither_relevance_nor_redundancy():
    labels = np.repeat([0, 1], 10)
    histograms = np.stack([np.full(20, 0.3), np.full(20, 1 / 3), np.zeros(20), 0.1 * labels], 1)
    score = MaxRelevanceMinRedundancy().begin(labels, 2)
    # One word of four tells everything, and it is correlated with none.
    assert score.update(histograms) == pytest.approx(0.25)
    np.testing.assert_allclose(score.word_values, [0, 0, 0, 1], atol=1e-12)


def test_a_single_word_has_no_redundancy():
    labels = np.repeat([0, 1], 10)
    found = MaxRelevanceMinRedundancy().begin(labels, 2).update(0.1 * labels[:, None])
    assert found == pytest.approx(1)


def test_a_negative_weight_is_refused():
    with pytest.raises(ParameterError, match="redundancy"):
        MaxRelevanceMinRedundancy(redundancy=-1)
