from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import scores as oracle

from bowsaw.scores.counts import Counts


@pytest.fixture
def corpus():
    random = np.random.default_rng(1)
    labels = random.integers(0, 4, size=50)
    sizes = random.integers(1, 60, size=50)
    counts = np.array([random.multinomial(n, random.dirichlet(np.ones(7))) for n in sizes])
    return counts, labels, sizes


def test_the_joint_information_is_that_of_the_table_of_counts(corpus):
    counts, labels, sizes = corpus
    table = np.array([counts[labels == y].sum(axis=0) for y in range(4)])
    score = Counts(joint=True).begin(labels, 4, sizes)
    found = score.update(counts / sizes[:, None])
    assert found == pytest.approx(oracle.mutual_information(table), abs=1e-12)
    assert 0 <= found <= oracle.entropy(table.sum(axis=1) / table.sum())


def test_the_information_of_a_word_is_that_of_its_table(corpus):
    counts, labels, sizes = corpus
    score = Counts().begin(labels, 4, sizes)
    found = score.update(counts / sizes[:, None])
    each = [
        oracle.mutual_information(
            [
                [counts[labels == y, k].sum(), np.delete(counts[labels == y], k, axis=1).sum()]
                for y in range(4)
            ]
        )
        for k in range(7)
    ]
    np.testing.assert_allclose(score.word_values, each, atol=1e-12)
    assert found == pytest.approx(np.mean(each))


def test_bags_count_alike_when_their_sizes_are_not_told(corpus):
    counts, labels, sizes = corpus
    shares = counts / sizes[:, None]
    alike = Counts(joint=True).begin(labels, 4).update(shares)
    assert alike == pytest.approx(
        Counts(joint=True).begin(labels, 4, np.full(50, 9)).update(shares)
    )


def test_merging_words_never_adds_information(corpus):
    # The data processing inequality.
    counts, labels, sizes = corpus
    shares = counts / sizes[:, None]
    merged = np.concatenate([shares[:, :1] + shares[:, 1:2], shares[:, 2:]], axis=1)
    score = Counts(joint=True).begin(labels, 4, sizes)
    assert score.update(shares) >= score.update(merged)
