"""Each part of the ranking kernel against its plain-Python twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nearest.test_search_kernel import integers
from tests.oracles import ranking as oracle

from bowsaw.nearest._ranking_kernel import (
    MANY,
    _group_tops,
    _limit,
    _order,
    _settle_run,
    rank_rows,
)
from bowsaw.nearest._search_kernel import ScoreError, Words

SURE = (0.0, 0.0, 0.0)
"""Scores of small whole numbers are exact in float32."""


@pytest.fixture
def random():
    return np.random.default_rng(7)


def ranked(rows, words, n_ranked, n_groups, errors=SURE, noise=0):
    norms, half_norms = (rows**2).sum(axis=1), (words**2).sum(axis=1) / 2
    out = np.empty((len(rows), n_ranked), dtype=np.uint16)
    lengths = np.sqrt(2.0 * half_norms)
    tables = rows @ words.T + noise, Words(words, half_norms, words), lengths
    error = ScoreError(*errors, np.inf, float(lengths.max()))
    rank_rows(*tables, rows, norms, error, n_groups, out)
    return out


@pytest.mark.parametrize(("n_words", "n_groups"), [(1, 1), (7, 7), (8, 3), (9, 3), (50, 16)])
def test_group_tops_are_the_best_of_every_nth_score(random, n_words, n_groups):
    scores, half_norms = integers(random, n_words), integers(random, n_words)
    expected = scores - half_norms
    top = np.empty(n_groups, np.float32)
    _group_tops(scores, half_norms, top)
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(top, [expected[c::n_groups].max() for c in range(n_groups)])


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60), st.data())
def test_as_many_tops_as_are_wanted_reach_the_limit(values, data):
    top = np.array(values, dtype=np.float32)
    n_wanted = data.draw(st.integers(1, len(top)))
    limit = _limit(top, n_wanted)
    assert (top >= limit).sum() >= n_wanted
    # Few more do: no limit that leaves out more values would do, but for the last four.
    # Values are whole numbers from −50 to 50, and 14 halvings come to 100 / 2^14 of each other.
    larger = np.unique(top[top > limit])
    if (top >= limit).sum() > n_wanted + 4 and len(larger):
        assert (top >= larger[0]).sum() < n_wanted


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 100, MANY, MANY + 1])
@pytest.mark.parametrize(("levels", "spare"), [(1, 5), (3, 0), (10_000, 40)])
def test_the_order_is_falling_and_stable(random, n, levels, spare):
    # What lies behind the first n keys is any rubbish, larger than all of them here.
    keys = np.full(n + spare, 1e6, np.float32)
    keys[:n] = random.integers(0, levels, n)
    expected = oracle.falling(keys[:n])
    order = np.empty(n + spare, np.int32)
    _order(keys, n, order)
    np.testing.assert_array_equal(order[:n], expected)


def test_a_run_of_distances_that_differ_by_rounding_alone_is_sorted_as_they_round(random):
    # Words of the same numbers in another order: their distances differ in the last bits.
    numbers = random.normal(size=24)
    words = np.array([random.permutation(numbers) for _ in range(150)], dtype=np.float32)
    row = np.full(24, 0.3, np.float32)
    chosen = random.permutation(150).astype(np.int32)
    expected = oracle.by_distance(row, words, range(150))
    assert expected != list(range(150))
    _settle_run(row, words, chosen)
    assert chosen.tolist() == expected
    # Whole numbers have ties, which the position decides.
    words, row = integers(random, 60, 3), integers(random, 3)
    chosen = random.permutation(60)[:20].astype(np.int32)
    expected = oracle.by_distance(row, words, chosen.tolist())
    _settle_run(row, words, chosen)
    assert chosen.tolist() == expected


@pytest.mark.parametrize(("n_words", "n_ranked"), [(1, 1), (2, 2), (20, 7), (61, 2), (61, 20)])
def test_exact_scores_are_ranked_to_the_last(random, n_words, n_ranked):
    rows, words = integers(random, 30, 4), integers(random, n_words, 4)
    expected = oracle.ranked(rows, words)[:, :n_ranked]
    for n_groups in sorted({n_ranked, min(2 * n_ranked + 1, n_words), n_words}):
        np.testing.assert_array_equal(ranked(rows, words, n_ranked, n_groups), expected)


@pytest.mark.parametrize("relative", [1e-3, 1e-2, 0.1, 10.0])
def test_errors_shorten_lists_and_never_change_what_is_in_them(random, relative):
    rows, words = integers(random, 40, 4), integers(random, 80, 4)
    expected = oracle.ranked(rows, words)[:, :9]
    found = ranked(rows, words, 9, 22, (relative, 0.0, 0.0))
    assert ((found == expected) | (found == 80)).all()
    assert (np.diff((found == 80).astype(int), axis=1) >= 0).all()
    # Twice an error of a hundredth of ‖x‖ ‖c‖ + ‖c‖² (up to 72) is more than the gap of a half
    # between scores; with ten times of it nothing is certain.
    assert (found == 80).any() or relative < 1e-2
    assert (found == 80).all() or relative < 10
    # With every word a candidate all is certain, and exact distances decide.
    np.testing.assert_array_equal(ranked(rows, words, 9, 80, (relative, 0.0, 0.0)), expected)


def test_scores_off_by_less_than_their_error_are_put_right(random):
    rows, words = integers(random, 40, 4), integers(random, 30, 4)
    noise = random.uniform(-0.9, 0.9, (40, 30)).astype(np.float32)
    found = ranked(rows, words, 30, 30, (0.0, 0.0, 1.0), noise)
    np.testing.assert_array_equal(found, oracle.ranked(rows, words))
