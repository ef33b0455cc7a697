"""Each kernel against its plain-NumPy twin."""

import numpy as np
import pytest
from tests.oracles import nearest as oracle

from bowsaw.nearest._search_kernel import (
    GROUP,
    LOWEST,
    Rows,
    Words,
    scan_best_two,
    scan_bounds,
    score_guess,
    settle,
    squared_norms,
)


@pytest.fixture
def random():
    return np.random.default_rng(7)


def integers(random, *shape):
    """Small whole numbers: every float32 operation on them is exact, and ties are plenty."""
    return random.integers(-3, 4, shape).astype(np.float32)


def tuples(rows, words, half_norms, error=0.0):
    errors = np.full(len(rows), error, dtype=np.float32)
    return Rows(rows, rows, errors), Words(words, half_norms, words)


@pytest.mark.parametrize(("n_words", "n_rows"), [(1, 5), (3, 1), (5, 5), (31, 70)])
def test_best_two_equals_its_twin_in_any_tiles(random, n_words, n_rows):
    scores = integers(random, n_words, n_rows)
    half_norms = integers(random, n_words) / 2
    whole = [np.full(n_rows, LOWEST), np.full(n_rows, LOWEST), np.zeros(n_rows, dtype=np.int32)]
    parts = [array.copy() for array in whole]
    expected = oracle.scan_best_two(scores, half_norms, 10, *whole)
    scan_best_two(scores, half_norms, 10, *whole)
    for begin, end in ((0, 3), (3, 4), (4, 33)):
        scan_best_two(scores[begin:end], half_norms[begin:end], 10 + begin, *parts)
    for ours, tiled, theirs in zip(whole, parts, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(tiled, theirs)


@pytest.mark.parametrize("n_dims", [1, 3, 8, 130])
def test_squared_norms_of_a_part_of_the_columns(random, n_dims):
    table = integers(random, 9, n_dims + 1)
    expected = (table[:, :n_dims] ** 2).sum(axis=1)
    squared_norms(table[:, :n_dims], table[:, n_dims])
    np.testing.assert_array_equal(table[:, n_dims], expected)


def test_settle_decides_just_the_rows_that_are_open():
    # Word 0 scores 4.5 - 4.5 = 0 for x = 1.5, word 1 scores 1.5 - 0.5 = 1, word 2 the same.
    words = np.array([[3.0], [1.0], [1.0]], dtype=np.float32)
    rows = np.array([[1.5], [3.0]], dtype=np.float32)
    half_norms = np.array([4.5, 0.5, 0.5], dtype=np.float32)
    best = np.array([1.0, 4.5], dtype=np.float32)
    second = np.array([1.0, 2.5], dtype=np.float32)
    # Wrong on purpose: an open row is decided again, a certain one is not.
    code = np.array([2, 2], dtype=np.int32)
    assert settle(*tuples(rows, words, half_norms, 0.1), best, second, code) == 1
    assert code.tolist() == [1, 2]


def test_settle_looks_at_every_word_within_the_error(random):
    rows, words = integers(random, 40, 5), integers(random, 60, 5)
    half_norms = (words**2).sum(axis=1) / 2
    scores = words @ rows.T - half_norms[:, None]
    best = scores.max(axis=0) + random.uniform(-0.5, 0.5, 40).astype(np.float32)
    code = np.full(40, -1, dtype=np.int32)
    assert settle(*tuples(rows, words, half_norms, 1.0), best, best, code) == 40
    np.testing.assert_array_equal(code, oracle.nearest(rows, words))


@pytest.mark.parametrize(
    ("n_words", "looseness"), [(1, 0.0), (GROUP - 1, 20.0), (GROUP, 0.0), (3 * GROUP + 5, 20.0)]
)
def test_bounds_however_loose_lead_to_the_nearest_word(random, n_words, looseness):
    rows, words = integers(random, 50, 6), integers(random, n_words, 6)
    scores, half_norms = words @ rows.T, (words**2).sum(axis=1) / 2
    bounds = scores + random.uniform(0, looseness, scores.shape).astype(np.float32)
    code = random.integers(0, n_words, 50).astype(np.int32)
    best = np.empty(50, dtype=np.float32)
    score_guess(*tuples(rows, words, half_norms), best, code)
    np.testing.assert_array_equal(best, (scores - half_norms[:, None])[code, np.arange(50)])
    error = np.full(50, 0.01, dtype=np.float32)
    scan_bounds(bounds, 0, *tuples(rows, words, half_norms, 0.01), 3 * error, best, code)
    np.testing.assert_array_equal(code, oracle.nearest(rows, words))
    np.testing.assert_array_equal(best, (scores - half_norms[:, None]).max(axis=0))
