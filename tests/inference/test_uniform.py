from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import transfer as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference import nearest_survivors as heirs
from bowsaw.inference.uniform import POLICIES, UniformState


@pytest.fixture(params=POLICIES)
def policy(request):
    return request.param


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


def assert_same_bits(state, fresh):
    np.testing.assert_array_equal(state.kept, fresh.kept)
    np.testing.assert_array_equal(state.histograms, fresh.histograms)


def random_move(random, state, most=4):
    """Ids to let go and to let come, in numbers that may differ, so that a word or more is left."""
    n_words, kept = state.codebook.n_words, state.kept
    pruned = np.setdiff1d(state.codebook.ids, kept)
    n_in = int(random.integers(0, min(most, len(pruned)) + 1))
    n_out = int(random.integers(0, min(most, len(kept) - (n_in == 0)) + 1))
    assert len(kept) + len(pruned) == n_words
    return random.choice(kept, n_out, replace=False), random.choice(pruned, n_in, replace=False)


# -- the twins -------------------------------------------------------------------------------------


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


def test_equal_words_have_an_order(policy):
    # Twelve words at four places: every distance is tied, and the lowest position comes first.
    words = np.repeat(np.array([[0.0], [1.0], [2.0], [4.0]], np.float32), 3, axis=0)
    full = shares_of(np.random.default_rng(0), 5, 12)
    kept = np.array([11, 4, 0, 7])
    state = UniformState(Codebook(words), full, policy=policy, neighbours=3).reset(kept)
    expected = expected_matrix(policy, words, full, kept, 3)
    np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)


def test_more_equal_words_than_a_list_holds(policy):
    # The lists cannot tell which of 300 equal words come first, and end before them.
    random = np.random.default_rng(16)
    words = np.concatenate([np.ones((300, 2)), random.normal(size=(12, 2))]).astype(np.float32)
    full = shares_of(random, 3, 312)
    for kept in (random.permutation(312)[:150], np.array([301, 305, 310])):
        state = UniformState(Codebook(words), full, policy=policy).reset(kept)
        expected = expected_matrix(policy, words, full, kept, 5)
        np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("listed", [1, 2, 5])
def test_short_lists_change_nothing(policy, listed, monkeypatch):
    monkeypatch.setattr(heirs, "LISTED", listed)
    random = np.random.default_rng(listed)
    state, words, full = made(random, 40, policy=policy)
    for _ in range(60):
        state.swap(*random_move(random, state))
        kept = state.kept
        expected = expected_matrix(policy, words, full, kept, 5)
        np.testing.assert_allclose(state.transfer_matrix().toarray(), expected, atol=1e-12)
        np.testing.assert_allclose(state.histograms, full @ expected, atol=1e-6)


# -- identities ------------------------------------------------------------------------------------


def test_pruning_nothing_changes_nothing(policy):
    state, _, full = made(np.random.default_rng(1), 20, policy=policy)
    np.testing.assert_array_equal(state.histograms, full)
    np.testing.assert_array_equal(state.transfer_matrix().toarray(), np.eye(20))


def test_mass_is_neither_lost_nor_made(policy):
    random = np.random.default_rng(2)
    state, _, _ = made(random, 200, policy=policy, n_bags=20)
    for n_kept in (150, 20, 3, 1):
        state.reset(random.choice(200, n_kept, replace=False))
        assert state.histograms.min() >= 0
        np.testing.assert_allclose(state.histograms.sum(axis=1), 1, atol=2e-6)
        matrix = state.transfer_matrix()
        assert matrix.data.min() >= 0
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)


def test_empty_bags_stay_empty(policy):
    state, words, full = made(np.random.default_rng(3), 10, policy=policy)
    full[2] = 0
    state = UniformState(Codebook(words), full, policy=policy).reset([4, 7])
    assert not state.histograms[2].any()


def test_one_pruned_word_is_the_same_under_every_policy():
    # The nearest words that survive, that are alive and that exist are the same five words.
    for seed in range(10):
        random = np.random.default_rng(seed)
        states = [made(np.random.default_rng(seed), 30, policy=policy)[0] for policy in POLICIES]
        word = int(random.integers(30))
        found = [state.without([word]) for state in states]
        for other in found[1:]:
            np.testing.assert_allclose(other.histograms, found[0].histograms, atol=1e-7)
            np.testing.assert_array_equal(
                other.transfer_matrix().toarray(), found[0].transfer_matrix().toarray()
            )


def test_permuting_words_permutes_the_result(policy):
    random = np.random.default_rng(4)
    words, full = words_of(random, 60), shares_of(random, 5, 60)
    kept = random.choice(60, 12, replace=False)
    here = UniformState(Codebook(words), full, policy=policy).reset(kept)
    order = random.permutation(60)
    there = UniformState(Codebook(words[order], order), full[:, order], policy=policy).reset(kept)
    np.testing.assert_array_equal(there.kept, here.kept)
    np.testing.assert_allclose(there.histograms, here.histograms, atol=1e-7)
    np.testing.assert_allclose(
        there.transfer_matrix().toarray(), here.transfer_matrix().toarray()[order], atol=1e-14
    )


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
        np.testing.assert_array_equal(there.histograms, here.histograms)


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
    np.testing.assert_array_equal(state.transfer_matrix().toarray(), expected)
    np.testing.assert_allclose(state.histograms, [[7 / 8, 1 / 8]])


def test_a_class_that_walks_hardly_ever_leave_loses_nothing():
    # Gaps grow by 1.7, so the three nearest of a word are two below it and one above. A walk climbs
    # by one word with chance 1/3 and falls by 1.5 on average with chance 2/3, so from the bottom it
    # gets to word 59 before it falls back with a chance near 2.4^-59, 4e-23: a linear solver sees
    # a singular matrix. It climbs one word at a time, so it meets word 59 and never word 60.
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
    # From histograms alone, at most so many multiply-adds a bag, and as many entries of Λ.
    random = np.random.default_rng(6)
    for policy in ("nearest-surviving", "sequential"):
        state, _, _ = made(random, 300, policy=policy, neighbours=5)
        for n_kept in (299, 150, 10, 2):
            state.reset(random.choice(300, n_kept, replace=False))
            n_pruned = 300 - n_kept
            assert state.n_products == n_pruned * min(5, n_kept) or policy == "sequential"
            assert state.n_products <= n_pruned * 5
    state, _, _ = made(random, 300)
    state.reset(random.choice(300, 100, replace=False))
    pruned = np.setdiff1d(np.arange(300), state.kept)
    assert state.transfer_matrix()[pruned].nnz == 200 * 5


# -- moves -----------------------------------------------------------------------------------------


def test_a_thousand_moves_give_the_bits_of_a_fresh_start():
    random = np.random.default_rng(7)
    state, words, full = made(random, 400, n_dims=8, n_bags=9)
    fresh = state.copy()
    state.reset(random.choice(400, 150, replace=False))
    for step in range(1000):
        before, kept = state.histograms.copy(), state.kept
        state.swap(*random_move(random, state, most=12))
        same = np.setdiff1d(np.arange(min(len(kept), state.n_kept)), state.changed)
        np.testing.assert_array_equal(state.kept[same], kept[same])
        np.testing.assert_array_equal(state.histograms[:, same], before[:, same])
        if step % 20 == 0 or step > 980:
            assert_same_bits(state, fresh.reset(state.kept))
    matrix = oracle.nearest_surviving(words, state.kept, 5)
    np.testing.assert_allclose(state.histograms, full @ matrix, atol=1e-6)


@pytest.mark.parametrize("n_kept", [1, 3, 6, 12])
def test_few_words_and_small_moves(n_kept, policy):
    # Around five survivors, where the number of heirs itself changes.
    random = np.random.default_rng(n_kept)
    state, _, _ = made(random, 60, policy=policy)
    fresh = state.copy()
    state.reset(random.choice(60, n_kept, replace=False))
    for _ in range(100):
        before, kept = state.histograms.copy(), state.kept
        state.swap(*random_move(random, state, most=3))
        same = np.setdiff1d(np.arange(min(len(kept), state.n_kept)), state.changed)
        np.testing.assert_array_equal(state.kept[same], kept[same])
        np.testing.assert_array_equal(state.histograms[:, same], before[:, same])
        assert_same_bits(state, fresh.reset(state.kept))


def test_taking_a_move_back_restores_the_state(policy):
    random = np.random.default_rng(8)
    state, _, _ = made(random, 80, policy=policy)
    state.reset(random.choice(80, 30, replace=False))
    before, kept = state.histograms.copy(), state.kept
    out, in_ = kept[[3, 9, 20]], np.setdiff1d(np.arange(80), kept)[[0, 5, 30]]
    state.swap(out, in_)
    assert not np.array_equal(state.histograms, before)
    state.swap(in_, out)
    np.testing.assert_array_equal(state.kept, kept)
    np.testing.assert_array_equal(state.histograms, before)


def test_a_move_touches_few_columns():
    random = np.random.default_rng(9)
    state, _, _ = made(random, 1000, n_dims=4)
    state.reset(random.choice(1000, 500, replace=False))
    out, in_ = state.kept[7], np.setdiff1d(np.arange(1000), state.kept)[40]
    state.swap([out], [in_])
    assert len(state.changed) < 60


def test_copies_move_by_themselves(policy):
    random = np.random.default_rng(10)
    state, _, _ = made(random, 50, policy=policy)
    state.reset(np.arange(20))
    other = state.copy()
    before = state.histograms.copy()
    other.swap([3, 4], [30, 31])
    np.testing.assert_array_equal(state.histograms, before)
    assert_same_bits(state.swap([3, 4], [30, 31]), other)


def test_threads_change_nothing(policy):
    random = np.random.default_rng(11)
    words, full = words_of(random, 700, 6), shares_of(random, 70, 700)
    kept = random.choice(700, 350, replace=False)
    states = [
        UniformState(Codebook(words), full, policy=policy, n_jobs=n).reset(kept) for n in (1, 2, 3)
    ]
    for other in states[1:]:
        assert_same_bits(other, states[0])


# -- variance and fidelity -------------------------------------------------------------------------


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


def test_variance_needs_the_sizes_of_bags_and_bags_know_them():
    random = np.random.default_rng(13)
    words = words_of(random, 9)
    bags = Bags(words_of(random, 30), [0, 10, 10, 30])
    full = hard_histograms(bags, words)
    with pytest.raises(DataError, match="Give n_descriptors as well"):
        UniformState(Codebook(words), full).variance()
    state = UniformState(Codebook(words), full, bags=bags).reset([0, 1])
    expected = oracle.variance(full, state.transfer_matrix().toarray(), [10, 1, 20])
    np.testing.assert_allclose(state.variance(), expected, atol=1e-12)


def test_fidelity_is_the_distance_to_true_recoding(policy):
    random = np.random.default_rng(14)
    words = words_of(random, 12)
    bags = Bags(words_of(random, 90), [0, 30, 90])
    full = hard_histograms(bags, words)
    state = UniformState(Codebook(words), full, bags=bags, policy=policy).reset([9, 2, 5])
    truth = hard_histograms(bags, words[[2, 5, 9]])[:, [2, 0, 1]]
    errors = np.abs(state.histograms - truth).sum(axis=1)
    found = state.fidelity()
    assert found.mean == pytest.approx(errors.mean(), abs=1e-6)
    assert found.worst == pytest.approx(errors.max(), abs=1e-6)
    assert found.allowed is None
    assert not state.is_exact


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("full", "problem"),
    [
        ([[0.5, 0.5]], "with 3 columns"),
        ([0.2, 0.3, 0.5], "with 3 columns"),
        ([[0.5, np.nan, 0.5]], "finite and not negative"),
        ([[0.5, -0.5, 1.0]], "finite and not negative"),
        ([[np.inf, -np.inf, 1.0]], "finite and not negative"),
        ([[0, 0, 0], [2, 3, 5]], "row 1 sums to 10. Divide each row by its sum"),
        ([["a", "b", "c"]], "must be numbers"),
    ],
)
def test_histograms_that_are_none_are_refused(full, problem):
    with pytest.raises(DataError, match=problem):
        UniformState(Codebook(np.eye(3)), full)


@pytest.mark.parametrize("neighbours", [0, -1, 2.5, True, "5"])
def test_neighbours_are_a_whole_number_above_zero(neighbours):
    with pytest.raises(ParameterError, match="neighbours must be a whole number above 0"):
        UniformState(Codebook(np.eye(3)), np.eye(3), neighbours=neighbours)


def test_policies_have_names():
    with pytest.raises(
        ParameterError, match=r"one of nearest-surviving, sequential, chain; got 'x'"
    ):
        UniformState(Codebook(np.eye(3)), np.eye(3), policy="x")


def test_counts_and_bags_must_fit():
    book, bags = Codebook(np.eye(3)), Bags(np.eye(3), [0, 1, 3])
    with pytest.raises(MismatchError, match="3 histograms but 2 bags"):
        UniformState(book, np.eye(3), bags=bags)
    with pytest.raises(MismatchError, match="n_descriptors differs from the sizes of the bags"):
        UniformState(book, np.eye(3)[:2], bags=bags, n_descriptors=[2, 1])
    with pytest.raises(DataError, match="must be 3 whole numbers from 0 up"):
        UniformState(book, np.eye(3), n_descriptors=[1, 2])
    with pytest.raises(MismatchError, match="words of 3 dimensions"):
        UniformState(book, np.eye(3), bags=Bags(np.ones((3, 2)), [0, 1, 2, 3]))


def test_a_refused_move_leaves_the_state_as_it_was(policy):
    state, _, _ = made(np.random.default_rng(15), 12, policy=policy)
    state.reset([3, 1, 8])
    before = state.histograms.copy()
    with pytest.raises(ParameterError, match="word 5 is not kept"):
        state.swap([5], [6])
    np.testing.assert_array_equal(state.histograms, before)
    assert state.kept.tolist() == [3, 1, 8]
