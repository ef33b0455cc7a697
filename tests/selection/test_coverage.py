"""Words near the descriptors: the guarantee by brute force, the path, what is refused."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import scores as oracle

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.selection.coverage import Coverage, lazy_greedy


def squared_distances(bags, book):
    """Of all words and descriptors, in unit-norm units, the slow way."""
    words, rows = book.words / book.scale, bags.values / bags.scale
    return ((words[:, None, :].astype(float) - rows.astype(float)) ** 2).sum(axis=2)


def corpus(seed, n_words=7, n_descriptors=30):
    random = np.random.default_rng(seed)
    values = random.integers(0, 256, (n_descriptors, 2)).astype(np.uint8)
    ids = random.permutation(50)[:n_words]
    book = bs.Codebook(random.uniform(0, 4, (n_words, 2)), ids, scale=4)
    return bs.Bags(values, [0, 10, n_descriptors], scale=256), book


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_it_saves_most_of_what_the_best_words_would(seed, n_kept):
    # F(T) = Σ (worst − least over T) is submodular, monotone and 0 for no words, so the greedy
    # choice has at least 1 − 1/e of the best F (Nemhauser, Wolsey and Fisher).
    bags, book = corpus(seed)
    costs = squared_distances(bags, book)
    saved = {
        words: (costs.max(axis=0) - costs[list(words)].min(axis=0)).sum()
        for words in combinations(range(7), n_kept)
    }
    kept = Coverage(book, n_kept).fit(bags).selection_.kept
    assert saved[tuple(book.positions(kept).tolist())] >= (1 - 1 / np.e) * max(saved.values())


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 2**31), st.booleans(), st.data())
def test_lazy_greedy_equals_plain_greedy(n_words, n_points, seed, ties, data):
    costs = np.random.default_rng(seed).uniform(size=(n_words, n_points)).astype(np.float32)
    costs = np.floor(3 * costs) if ties else costs
    n_kept = data.draw(st.integers(1, n_words))
    assert lazy_greedy(costs, n_kept).tolist() == oracle.plain_greedy(costs, n_kept)


def test_scores_are_errors_of_quantisation_and_fewer_words_are_the_first_of_more():
    bags, book = corpus(3)
    fitted = Coverage(book, 7).fit(bags)
    costs = squared_distances(bags, book)
    order = book.positions(fitted.order_)
    errors = [costs[order[:m]].min(axis=0).mean() for m in range(1, 8)]
    np.testing.assert_allclose(fitted.selection_.scores, -np.array(errors), rtol=1e-5)
    # The best first word is the best single word, for one word is all that greed looks at.
    assert errors[0] == pytest.approx(costs.mean(axis=1).min())
    for n_kept in range(1, 7):
        fewer = Coverage(book, n_kept).fit(bags)
        assert fewer.order_.tolist() == fitted.order_[:n_kept].tolist()
        assert fewer.selection_.scores == fitted.selection_.scores[:n_kept]


def test_what_cannot_be_covered_is_refused():
    bags, book = corpus(6)
    for wrong in (0, 2.5, None):
        with pytest.raises(ParameterError, match="n_sample must be an integer of at least 1; got"):
            Coverage(book, 3, n_sample=wrong).fit(bags)
    with pytest.raises(DataError, match="no descriptors to cover"):
        Coverage(book, 3).fit([np.zeros((0, 2))])
