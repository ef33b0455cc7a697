"""Each kernel against its plain-NumPy twin."""

import numpy as np
import pytest
from numba import njit

from bowsaw.coding._pooling_kernel import _exp2, count_codes, pool_soft


@njit
def exp2_of_each(values):
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = _exp2(values[i])
    return out


def test_powers_of_two_are_within_the_promised_error():
    exponents = -np.concatenate([np.linspace(0, 100, 200_001), np.logspace(-44, 2, 2001)])
    exponents = np.unique(exponents.astype(np.float32))
    exact = np.exp2(exponents.astype(np.float64))
    np.testing.assert_allclose(exp2_of_each(exponents), exact, rtol=2e-7)
    assert exp2_of_each(np.array([0.0, -0.0], np.float32)).tolist() == [1, 1]
    far = np.array([-100, -100.5, -1e4, -1e30, np.finfo(np.float32).min], np.float32)
    assert set(exp2_of_each(far).tolist()) == {2.0**-100}


@pytest.mark.parametrize("start", [0, 3, 4])
def test_counts_go_to_the_bags_that_rows_belong_to(start):
    # Bags 1, 2 and 4 are empty, and the block begins inside bag 0, at its end, or in bag 3.
    offsets = np.array([0, 4, 4, 4, 9, 9])
    codes = np.array([2, 0, 2, 1, 1, 1, 0, 2, 2], np.int32)
    expected = np.zeros((5, 3), np.float32)
    for row in range(start, 9):
        expected[0 if row < 4 else 3, codes[row]] += 1
    # Float32 ends at 2²⁴, where adding 1 changes nothing.
    out = np.full((5, 3), 2**24, np.uint32)
    first_bag = int(np.searchsorted(offsets, start, side="right")) - 1
    count_codes(codes[start:], start, offsets, first_bag, out)
    np.testing.assert_array_equal(out - 2**24, expected)


@pytest.mark.parametrize(("n_words", "n_rows"), [(1, 1), (3, 16), (4, 33), (5, 2), (13, 33)])
def test_pooling_is_a_softmax_of_each_row(n_words, n_rows):
    random = np.random.default_rng(n_words * 100 + n_rows)
    products = random.normal(size=(n_words, n_rows)).astype(np.float32)
    half_norms = random.random(n_words).astype(np.float32)
    scores = products.astype(np.float64) - half_norms[:, None]
    weights = np.exp(3.5 * (scores - scores.max(axis=0)))
    sums = np.ones(n_words)
    pool_soft(products, half_norms, 3.5, sums)
    np.testing.assert_allclose(sums - 1, (weights / weights.sum(axis=0)).sum(axis=1), rtol=2e-6)


@pytest.mark.parametrize(("n_words", "factor"), [(1, 1e38), (3, 1e3), (7, 1e9), (40, 1e38)])
def test_the_best_word_has_weight_one_however_sharp(n_words, factor):
    # Subtracting in another order left a rounding error, which the factor turned into anything.
    random = np.random.default_rng(n_words)
    products = (100 * random.normal(size=(n_words, 50))).astype(np.float32)
    half_norms = random.random(n_words).astype(np.float32)
    best = (products - half_norms[:, None]).argmax(axis=0)
    sums = np.zeros(n_words)
    pool_soft(products, half_norms, factor, sums)
    np.testing.assert_array_equal(products[best, np.arange(50)], 1)
    np.testing.assert_allclose(sums, np.bincount(best, minlength=n_words), atol=1e-5)
