from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import soft_state as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference import recode_rows as anew
from bowsaw.inference import truncated
from bowsaw.inference.truncated import TruncatedSoftState


def heaps(seed, counts, n_words, n_heaps=6, spread=0.1, n_dims=5):
    """Descriptors and words in heaps, far apart for their size: codes are sharp at 100 or so."""
    random = np.random.default_rng(seed)
    centres = random.random((n_heaps, n_dims))

    def drawn(n_rows, heap):
        return centres[heap] + spread * random.normal(size=(n_rows, n_dims))

    rows = drawn(sum(counts), random.integers(0, n_heaps, sum(counts)))
    bags = Bags(rows, np.concatenate(([0], np.cumsum(counts))))
    words = drawn(n_words, np.arange(n_words) % n_heaps)
    return bags, Codebook(words, random.permutation(n_words) + 50)


def assert_within_bound(state, bags):
    errors, bound = oracle.l1_errors(state, bags), state.bound()
    assert (errors <= bound).all()
    assert (bound <= state.tolerance + 5e-3).all()
    filled = bags.counts > 0
    np.testing.assert_allclose(state.histograms[filled].sum(axis=1), 1, atol=1e-6)
    assert not state.histograms[~filled].any()


# -- the bound is a bound --------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.floats(3, 2000),
    st.integers(1, 24),
    st.sampled_from([0, 1e-6, 1e-3, 0.1, 1.0]),
    st.integers(1, 24),
)
@settings(max_examples=150)
def test_the_true_error_is_below_the_bound(seed, sharpness, n_ranked, tolerance, n_kept):
    # One descriptor a bag, so that no error can cancel another.
    bags, book = heaps(seed, (1,) * 12, n_words=24)
    kept = np.random.default_rng(seed).permutation(book.ids)[:n_kept]
    try:
        state = TruncatedSoftState(
            book, bags, sharpness=sharpness, n_ranked=n_ranked, tolerance=tolerance, n_jobs=1
        ).reset(kept)
    except DataError as error:
        assert "say too little of the codes" in str(error)  # noqa: PT017
        return
    assert_within_bound(state, bags)


def test_the_bound_covers_what_is_cut_and_little_more():
    # No rounding is near these errors, so they are the truncation's own: 2t/(Z + t), and the bound
    # takes each word outside the list as heavy as the last inside.
    bags, book = heaps(1, (1,) * 40, n_words=30)
    state = TruncatedSoftState(book, bags, sharpness=100, n_ranked=5, tolerance=0.5)
    kept = np.arange(0, 30, 2)
    state.reset(book.ids[kept])
    inferred = state._n_anew == 0
    assert 10 < inferred.sum() < 40
    rows = bags.values[inferred]
    cut = [oracle.truncation_error(row, book.words, 5, 100, kept) for row in rows]
    errors, bound = oracle.l1_errors(state, bags), state.bound()
    np.testing.assert_allclose(errors[inferred], cut, atol=1e-6)
    assert max(cut) > 1e-3
    assert (cut <= bound[inferred]).all()
    assert (errors[~inferred] < 1e-5).all()
    assert (bound[~inferred] < 1e-3).all()


def test_the_bound_of_a_bag_is_the_mean_over_its_descriptors():
    bags, book = heaps(2, (1,) * 30, n_words=30)
    options = {"sharpness": 100, "n_ranked": 8, "tolerance": 0.2}
    single = TruncatedSoftState(book, bags, **options).reset(book.ids[::2])
    together = TruncatedSoftState(book, Bags(bags.values), **options).reset(book.ids[::2])
    np.testing.assert_allclose(together.bound(), single.bound().mean(), rtol=1e-12)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_no_descriptor_errs_by_more_than_the_tolerance(tolerance):
    bags, book = heaps(3, (1,) * 60, n_words=24)
    state = TruncatedSoftState(book, bags, sharpness=300, n_ranked=12, tolerance=tolerance)
    state.reset(book.ids[:12])
    assert (oracle.l1_errors(state, bags) <= tolerance + 1e-5).all()


def test_whole_lists_cut_nothing():
    bags, book = heaps(4, (9, 0, 20), n_words=10)
    state = TruncatedSoftState(book, bags, sharpness=5, n_ranked=99, tolerance=0)
    assert state.n_ranked == 10
    oracle.wander(state, np.random.default_rng(4), 30)
    assert not state._cut_off.any()
    assert oracle.l1_errors(state, bags).max() < 1e-6


@pytest.mark.parametrize("length", [1, 3, 7])
def test_lists_that_end_early_are_certified_by_what_they_hold(length, monkeypatch):
    bags, book = heaps(5, (1,) * 40, n_words=24)
    whole = truncated.ranked_words

    def shortened(bags, words, n_ranked, **options):
        ranked = whole(bags, words, n_ranked, **options)
        ranked[::3, length:] = len(words)
        return ranked

    monkeypatch.setattr(truncated, "ranked_words", shortened)
    state = TruncatedSoftState(book, bags, sharpness=400, n_ranked=12, tolerance=1e-2)
    assert_within_bound(state, bags)
    state.reset(book.ids[4:])
    assert_within_bound(state, bags)


def test_the_certificate_holds():
    bags, book = heaps(6, (30, 40), n_words=40)
    state = TruncatedSoftState(book, bags, sharpness=200, n_ranked=20)
    found = state.reset(book.ids[:30]).fidelity()
    assert found.holds
    assert found.allowed < 5e-3


# -- flat codes ------------------------------------------------------------------------------------


def test_flat_codes_are_refused_at_once():
    bags, book = heaps(7, (50, 30), n_words=40)
    with pytest.raises(DataError, match=r"n_ranked = 8 .*sharpness 3 .*Raise n_ranked"):
        TruncatedSoftState(book, bags, sharpness=3, n_ranked=8)


def test_a_move_that_leaves_no_bound_is_refused_and_changes_nothing():
    # Two heaps; the words of one go, and the lists of its descriptors with them.
    bags, book = heaps(8, (40, 1), n_words=20, n_heaps=2, spread=0.02)
    state = TruncatedSoftState(book, bags, sharpness=100, n_ranked=12)
    near_most = oracle.truth(state, bags).mean(axis=0).argsort()[-10:]
    before, bound, kept = state.histograms.copy(), state.bound(), state.kept
    for move in (
        lambda: state.swap(remove=book.ids[near_most]),
        lambda: state.reset(np.delete(book.ids, near_most)),
    ):
        with pytest.raises(DataError, match="say too little"):
            move()
        np.testing.assert_array_equal(state.histograms, before)
        np.testing.assert_array_equal(state.bound(), bound)
        np.testing.assert_array_equal(state.kept, kept)
    state.swap(remove=book.ids[near_most[:3]])
    assert_within_bound(state, bags)


# -- identities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [150, 2000])
def test_after_a_thousand_moves_it_is_as_from_scratch(sharpness):
    bags, book = heaps(9, (20, 0, 13, 1), n_words=24)
    state = TruncatedSoftState(book, bags, sharpness=sharpness, n_ranked=16, tolerance=1e-2)
    for _ in range(4):
        oracle.wander(state, np.random.default_rng(9), 250, fewest=16)
        assert_within_bound(state, bags)
        scratch = state.copy().reset(state.kept)
        np.testing.assert_allclose(state.histograms, scratch.histograms, rtol=0, atol=1e-7)
        np.testing.assert_allclose(state.bound(), scratch.bound(), rtol=1e-9)
        np.testing.assert_array_equal(state._n_listed, scratch._n_listed)


def test_pruning_twice_is_pruning_both_and_coming_back_restores():
    bags, book = heaps(10, (20, 0, 13), n_words=24)
    state = TruncatedSoftState(book, bags, sharpness=300, n_ranked=16)
    before = state.histograms.copy()
    twice = state.without(book.ids[:3]).without(book.ids[10:12])
    once = state.without(np.concatenate([book.ids[10:12], book.ids[:3]]))
    np.testing.assert_allclose(twice.histograms, once.histograms, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(state.histograms, before)
    state.swap(remove=book.ids[:3]).swap(add=book.ids[:3])
    order = np.argsort(book.positions(state.kept))
    np.testing.assert_allclose(state.histograms[:, order], before, rtol=0, atol=1e-7)


def test_permuting_words_permutes_the_histograms():
    bags, book = heaps(11, (20, 13), n_words=24)
    order = np.random.default_rng(11).permutation(24)
    state = TruncatedSoftState(book, bags, sharpness=300, n_ranked=16)
    other = TruncatedSoftState(book.only(book.ids[order]), bags, sharpness=300, n_ranked=16)
    np.testing.assert_allclose(other.histograms, state.histograms[:, order], rtol=0, atol=1e-6)


def test_equal_words_share_equally():
    bags, book = heaps(12, (20, 13), n_words=24)
    words = book.words.copy()
    words[7] = words[1]
    state = TruncatedSoftState(Codebook(words), bags, sharpness=300, n_ranked=24)
    np.testing.assert_array_equal(state.histograms[:, 7], state.histograms[:, 1])


def test_threads_and_blocks_change_nothing(monkeypatch):
    bags, book = heaps(13, (5, 0, 90, 33, 1, 0, 2, 64), n_words=24, spread=0.15)
    shown = []
    for build_rows, task_rows, n_jobs in ((8192, 512, 1), (16, 512, 2), (7, 4, 1), (7, 4, 3)):
        monkeypatch.setattr(truncated, "BUILD_ROWS", build_rows)
        monkeypatch.setattr(truncated, "TASK_WORDS", 5)
        monkeypatch.setattr(anew, "TASK_ROWS", task_rows)
        state = TruncatedSoftState(book, bags, sharpness=60, n_ranked=6, n_jobs=n_jobs)
        oracle.wander(state, np.random.default_rng(13), 10, fewest=16)
        assert state._n_anew.sum() > 5
        shown.append((state.histograms.copy(), state.bound()))
    # Blocks of another size give the matrix products of what is coded anew another order.
    for i, j, atol in ((0, 1, 0), (2, 3, 0), (0, 2, 1e-6)):
        np.testing.assert_allclose(shown[i][0], shown[j][0], rtol=0, atol=atol)
        np.testing.assert_allclose(shown[i][1], shown[j][1], rtol=1e-12)


@pytest.mark.parametrize("arrays", [[], [[]], [[], []]])
def test_bags_may_be_empty(arrays):
    bags = Bags.from_list(arrays)
    state = TruncatedSoftState(Codebook(np.eye(3)), bags, n_ranked=2)
    state.swap(remove=[1]).reset([2])
    assert state.histograms.shape == (len(bags), 1)
    assert not state.histograms.any()
    assert state.bound().tolist() == [0.0] * len(bags)


@pytest.mark.parametrize("distance", [1e2, 1e6, 1e12])
def test_descriptors_far_from_every_word_still_count_once(distance):
    bags, book = heaps(14, (4, 5), n_words=12)
    far = Bags(bags.values + np.float32(distance), bags.offsets)
    state = TruncatedSoftState(book, far, n_ranked=12)
    state.swap(remove=book.ids[state.histograms.sum(axis=0).argsort()[:2]])
    np.testing.assert_allclose(state.histograms.sum(axis=1), 1, atol=1e-6)
    assert (oracle.l1_errors(state, far) <= state.bound()).all()


def test_a_huge_sharpness_is_hard_coding():
    bags, book = heaps(15, (9, 14), n_words=24)
    state = TruncatedSoftState(book, bags, sharpness=1e30, n_ranked=4).swap(remove=book.ids[:1])
    np.testing.assert_allclose(state.histograms, oracle.truth(state, bags), atol=1e-6)


def test_every_column_changes():
    bags, book = heaps(16, (9, 14), n_words=24)
    state = TruncatedSoftState(book, bags, sharpness=300, n_ranked=16)
    assert state.swap(remove=book.ids[[3, 20]]).changed.tolist() == list(range(22))


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sharpness": 0}, "sharpness must be a finite number above 0"),
        ({"n_ranked": 0}, "n_ranked must be a whole number above 0"),
        ({"n_ranked": 2.5}, "n_ranked must be a whole number above 0"),
        ({"n_ranked": True}, "n_ranked must be a whole number above 0"),
        ({"tolerance": -1e-3}, "tolerance must be an L1 distance"),
        ({"tolerance": 2}, "tolerance must be an L1 distance"),
        ({"tolerance": np.nan}, "tolerance must be an L1 distance"),
        ({"tolerance": "small"}, "tolerance must be an L1 distance"),
    ],
)
def test_options_out_of_range_are_refused(options, problem):
    bags, book = heaps(17, (3,), n_words=4)
    with pytest.raises(ParameterError, match=problem):
        TruncatedSoftState(book, bags, **options)


def test_bags_of_another_descriptor_are_refused():
    bags, _ = heaps(18, (3,), n_words=4)
    with pytest.raises(MismatchError, match="words of 3 dimensions, the bags descriptors of 5"):
        TruncatedSoftState(Codebook(np.eye(3)), bags)
