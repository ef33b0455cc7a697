import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import transfer as oracle
from tests.oracles.slots import any_move

from bowsaw.codebook import Codebook
from bowsaw.inference import transfer
from bowsaw.inference.uniform import POLICIES, UniformState

ANY_POLICY = pytest.mark.parametrize("policy", POLICIES)


def words_of(random, n_words, n_dims=3):
    return random.normal(size=(n_words, n_dims)).astype(np.float32)


def shares_of(random, n_bags, n_words):
    counts = random.multinomial(200, random.dirichlet(np.full(n_words, 0.3)), size=n_bags)
    return (counts / 200).astype(np.float32)


def made(random, n_words, *, n_bags=6, n_dims=3, **options):
    words = words_of(random, n_words, n_dims)
    full = shares_of(random, n_bags, n_words)
    return UniformState(Codebook(words), full, n_jobs=1, **options), words, full


def expected_matrix(policy, words, full, kept, neighbours):
    if policy == "sequential":
        mass = full.astype(np.float64).sum(axis=0)
        return oracle.sequential(words, mass, kept, neighbours)
    twin = oracle.chain if policy == "chain" else oracle.nearest_surviving
    return twin(words, kept, neighbours)


@settings(max_examples=40)
@given(st.data())
def test_the_transfer_and_the_histograms_are_those_of_the_twin(data):
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    policy = data.draw(st.sampled_from(POLICIES))
    n_words = data.draw(st.integers(1, 25))
    neighbours = data.draw(st.integers(1, 7))
    state, words, full = made(random, n_words, policy=policy, neighbours=neighbours)
    kept = random.permutation(n_words)[: data.draw(st.integers(1, n_words))]
    state.reset(kept)
    expected = expected_matrix(policy, words, full, kept, neighbours)
    matrix = state.transfer_matrix()
    assert matrix.shape == (n_words, len(kept))
    np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(state.histograms, full @ expected, atol=1e-6)
    assert state.histograms.dtype == np.float32


@ANY_POLICY
def test_more_equal_words_than_a_list_holds(policy):
    # The lists cannot tell which of 300 equal words come first, and end before them.
    random = np.random.default_rng(16)
    words = np.concatenate([np.ones((300, 2)), random.normal(size=(12, 2))]).astype(np.float32)
    full = shares_of(random, 3, 312)
    for kept in (random.permutation(312)[:150], np.array([301, 305, 310])):
        state = UniformState(Codebook(words), full, policy=policy).reset(kept)
        expected = expected_matrix(policy, words, full, kept, 5)
        np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)


@ANY_POLICY
@pytest.mark.parametrize("listed", [1, 5])
def test_short_lists_change_nothing(policy, listed, monkeypatch):
    monkeypatch.setattr(transfer, "LISTED", listed)
    random = np.random.default_rng(listed)
    state, words, full = made(random, 40, policy=policy)
    for _ in range(30):
        state.swap(*any_move(random, state))
        kept = state.kept
        expected = expected_matrix(policy, words, full, kept, 5)
        np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)
        np.testing.assert_allclose(state.histograms, full @ expected, atol=1e-6)


def test_one_pruned_word_is_the_same_under_every_policy():
    # The nearest words that survive, that are alive and that exist are the same five words.
    for seed in range(3):
        states = [made(np.random.default_rng(seed), 30, policy=policy)[0] for policy in POLICIES]
        first, *others = (state.without([7 * seed + 4]) for state in states)
        matrix = first.transfer_matrix().toarray()
        for other in others:
            np.testing.assert_allclose(other.histograms, first.histograms, atol=1e-7)
            np.testing.assert_allclose(other.transfer_matrix().toarray(), matrix, atol=1e-15)


def test_sequential_order_belongs_to_the_words_even_where_masses_are_equal():
    random = np.random.default_rng(5)
    words = words_of(random, 30)
    full = np.full((2, 30), 1 / 30, np.float32)
    kept = random.choice(30, 4, replace=False)
    here = UniformState(Codebook(words), full, policy="sequential").reset(kept)
    for _ in range(5):
        order = random.permutation(30)
        book = Codebook(words[order], order)
        there = UniformState(book, full, policy="sequential").reset(kept)
        np.testing.assert_allclose(there.histograms, here.histograms, atol=1e-7)


@ANY_POLICY
def test_only_the_sequential_policy_depends_on_the_other_bags(policy):
    # Words 1 and 2 go. With n = 1 the heavier goes first: word 1 to word 2, and with it to word 3,
    # or word 2 to word 1, and with it to word 0.
    book = Codebook([[0.0], [1.1], [2.0], [3.1]])
    bag, heavy = [0.25, 0.25, 0.25, 0.25], np.eye(4)
    how = {"neighbours": 1, "policy": policy}
    first, second = (
        UniformState(book, [bag, heavy[word]], **how).without([1, 2]).histograms[0]
        for word in (1, 2)
    )
    if policy == "sequential":
        np.testing.assert_allclose(first, [0.25, 0.75])
        np.testing.assert_allclose(second, [0.75, 0.25])
    else:
        np.testing.assert_array_equal(first, second)


def test_a_closed_class_gives_to_its_nearest_survivor():
    # Words 0 to 3 name each other; word 4, beside them, names only them. Word 5 names the class and
    # survivor 6, so a third of it walks to the survivor and the rest into the class for ever, whose
    # words give to survivor 6 as well, the nearest; 7 is far off.
    words = np.array([[0.0], [0.1], [0.21], [0.33], [1.0], [2.0], [2.9], [50.0]], np.float32)
    full = np.full((1, 8), 1 / 8, np.float32)
    state = UniformState(Codebook(words), full, policy="chain", neighbours=3).reset([6, 7])
    expected = np.zeros((8, 2))
    expected[:7, 0] = 1
    expected[7, 1] = 1
    np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(state.histograms, [[7 / 8, 1 / 8]])


def test_a_class_that_walks_hardly_ever_leave_loses_nothing():
    # Gaps grow by 1.7, so the three nearest of a word are two below it and one above. A walk gets
    # from the bottom to word 59 with a chance near 2.4^-59: a linear solver sees a singular matrix,
    # and the class counts as closed. It climbs one word at a time, so it never meets word 60.
    gaps = 1.7 ** np.arange(60)
    words = np.concatenate([[0], np.cumsum(gaps)]).astype(np.float32)[:, None]
    assert sorted(oracle.others_by_distance(words)[30][:3]) == [28, 29, 31]
    full = np.full((1, 61), 1 / 61, np.float32)
    state = UniformState(Codebook(words), full, policy="chain", neighbours=3).reset([60, 59])
    expected = np.tile([0.0, 1.0], (61, 1))
    expected[60] = 1, 0
    np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(state.histograms, [[1 / 61, 60 / 61]], atol=1e-6)


def test_eq_6_costs_the_pruned_words_times_the_neighbours():
    # From histograms alone: so many entries of Λ, each one multiply-add per bag.
    random = np.random.default_rng(6)
    state, _, _ = made(random, 300)
    for n_kept in (299, 150, 10, 2):
        state.reset(random.choice(300, n_kept, replace=False))
        pruned = np.setdiff1d(np.arange(300), state.kept)
        assert state.transfer_matrix()[pruned].nnz == len(pruned) * min(5, n_kept)


@ANY_POLICY
def test_variance_is_proposition_1(policy):
    random = np.random.default_rng(12)
    words, full = words_of(random, 15), shares_of(random, 4, 15)
    counts = np.array([200, 10, 1, 7])
    state = UniformState(Codebook(words), full, n_descriptors=counts, policy=policy)
    assert not state.variance().any()
    state.reset([8, 1, 12, 3])
    expected = oracle.variance(full, state.transfer_matrix().toarray(), counts)
    assert expected.any()
    np.testing.assert_allclose(state.variance(), expected, atol=1e-12)
