import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import soft_state as oracle

from bowsaw.bags import Bags
from bowsaw.coding.soft import soft_histograms
from bowsaw.inference import rounding


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), min_size=1, max_size=6),
    st.floats(0, 5),
)
def test_a_code_moves_no_more_than_its_log_weights_allow(entries, most):
    weights = np.array([w for w, _ in entries]) + 1e-3
    moved = weights * np.exp(most * np.array([shift for _, shift in entries]))
    distance = np.abs(weights / weights.sum() - moved / moved.sum()).sum()
    assert distance <= rounding.code_error(np.array(most)) + 1e-14


def test_bounds_of_codes_are_attained_sums_round_once_a_term_and_means_skip_empty_bags():
    # The chapter's worst case: odds e⁻ʰ become eʰ.
    for h in (1e-3, 0.1, 1.0, 3.0):
        code = np.array([np.exp(-h), 1.0]) / (1 + np.exp(-h))
        distance = np.abs(code - code[::-1]).sum()
        assert distance == pytest.approx(float(rounding.code_error(np.array(h))), rel=1e-12)
    assert rounding.sum_error(0) == 0
    terms = np.random.default_rng(0).random(1000).astype(np.float32)
    exact = terms.astype(np.float64).sum()
    # The last of the running sums is added up term by term.
    assert abs(np.cumsum(terms)[-1] - exact) <= rounding.sum_error(1000) * exact
    assert np.isfinite(rounding.sum_error(2**60))
    means = rounding.bag_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 2, 2, 3, 3]))
    assert means.tolist() == [0, 2, 0, 5, 0]
    assert rounding.bag_means(np.empty(0), np.array([0, 0])).tolist() == [0]
    assert rounding.bag_means(np.empty(0), np.array([0])).shape == (0,)


@given(st.floats(0.1, 1e4), st.integers(1, 30), st.integers(0, 5), st.floats(0.1, 100))
def test_soft_coding_is_within_its_own_bound(sharpness, n_words, seed, size):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(12, 6)) * size
    bags = Bags(rows, [0, 5, 5, 12], scale=size)
    words = (random.normal(size=(n_words, 6)) * size).astype(np.float32)
    found = soft_histograms(bags, words, sharpness, n_jobs=1)
    errors = np.abs(found - oracle.recode(bags, words, sharpness)).sum(axis=1)
    bound = rounding.recoding_error(bags, words, sharpness)
    assert (errors <= bound).all()
    assert bound[1] == 0
