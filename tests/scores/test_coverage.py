from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import scores as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.scores.coverage import coverage_costs, coverage_gain, greedy_coverage, lazy_greedy


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 2**31), st.booleans(), st.data())
def test_greedy_is_plain_greedy_and_keeps_its_guarantee(n_words, n_points, seed, whole, data):
    random = np.random.default_rng(seed)
    costs = random.uniform(size=(n_words, n_points)).astype(np.float32)
    if whole:  # ties abound
        costs = np.floor(3 * costs)
    n_kept = data.draw(st.integers(1, n_words))
    chosen = lazy_greedy(costs, n_kept)
    assert chosen.tolist() == oracle.plain_greedy(costs, n_kept)
    best = oracle.best_coverage(costs.astype(np.float64), n_kept)
    assert coverage_gain(costs, chosen) >= (1 - 1 / np.e) * best - 1e-6


def test_many_words_lazily_are_plain_greedy():
    random = np.random.default_rng(1)
    costs = random.uniform(size=(200, 300)).astype(np.float32)
    assert lazy_greedy(costs, 60).tolist() == oracle.plain_greedy(costs, 60)


def test_a_weight_is_a_repetition():
    random = np.random.default_rng(2)
    costs, times = random.uniform(size=(30, 20)), random.integers(0, 4, size=20)
    repeated = np.repeat(costs, times, axis=1)
    assert lazy_greedy(costs, 9, times).tolist() == lazy_greedy(repeated, 9).tolist()


def test_costs_are_squared_distances_in_unit_norm_units():
    random = np.random.default_rng(3)
    values = random.integers(0, 256, size=(40, 8)).astype(np.uint8)
    bags = Bags(values, scale=512)
    words = random.uniform(0, 0.5, size=(5, 8))
    book = Codebook((512 * words).astype(np.float32), scale=512)
    truth = ((book.words[:, None] / 512.0 - values / 512.0) ** 2).sum(axis=2)
    np.testing.assert_allclose(coverage_costs(bags, book), truth, rtol=1e-6)
    some = coverage_costs(bags, book, 10, random_state=1)
    assert some.shape == (5, 10)
    np.testing.assert_array_equal(some, coverage_costs(bags, book, 10, random_state=1))


def test_each_cluster_of_descriptors_gets_a_word():
    random = np.random.default_rng(4)
    centres = 10 * np.eye(4)
    rows = np.repeat(centres, 50, axis=0) + 0.1 * random.normal(size=(200, 4))
    words = np.concatenate([np.full((3, 4), 50.0), centres, centres + 0.5])
    kept = greedy_coverage(Bags(rows), Codebook(words), 4)
    assert sorted(kept.tolist()) == [3, 4, 5, 6]
    np.testing.assert_array_equal(kept[:2], greedy_coverage(Bags(rows), Codebook(words), 2))


def test_what_cannot_be_covered_is_refused():
    bags, book = Bags([[0.0], [1.0]]), Codebook([[0.0], [1.0]])
    with pytest.raises(ParameterError, match="n_kept"):
        greedy_coverage(bags, book, 3)
    with pytest.raises(ParameterError, match="n_sample"):
        greedy_coverage(bags, book, 1, n_sample=0)
    with pytest.raises(DataError, match="no descriptors"):
        greedy_coverage(Bags.from_list([np.zeros((0, 1))]), book, 1)
