"""What every state of the histograms promises, however it infers them."""

import copy
import json
import pickle

import numpy as np
import pytest
from tests.oracles.slots import after_swap, any_move

import bowsaw as bs
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import soft_histograms
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference import exact, far_blocks, sampled, soft, transfer, uniform
from bowsaw.inference.exact import ExactState
from bowsaw.nearest import ranking

# What whatif is asked for; a new state is one line here, and runs everything below.
STATES = {
    "exact": {},
    "exact, lists of one word": {"n_ranked": 1},
    "uniform, nearest-surviving": {"transfer": "uniform"},
    "uniform, sequential": {"transfer": "uniform", "policy": "sequential"},
    "uniform, chain": {"transfer": "uniform", "policy": "chain", "neighbours": 3},
    "voronoi": {"transfer": "voronoi"},
    "gaussian": {"transfer": "gaussian", "n_samples": 60},
    "gaussian, shared covariance": {"transfer": "gaussian", "covariance": "shared"},
    "gaussian, thin cells": {"transfer": "gaussian", "n_samples": 30, "sigma": 3.0},
    "empirical": {"transfer": "empirical"},
    "empirical, a sample": {"transfer": "empirical", "n_samples": 5, "smoothing": 0},
    "soft, float64": {"coding": "soft", "sharpness": 20, "storage": "float64"},
    "soft, 16 bits": {"coding": "soft", "sharpness": 20},
    "soft, disk": {"coding": "soft", "sharpness": 20, "max_bytes": 0},
    "soft, fading totals": {"coding": "soft", "sharpness": 1000},
}
ANY = pytest.mark.parametrize("name", STATES)

N_WORDS = 9
COUNTS = (14, 0, 1, 12, 20, 3)


def corpus():
    """Bytes and a codebook in another unit, one empty bag, ids in no order, two dimensions."""
    random = np.random.default_rng(3)
    values = random.integers(0, 256, (sum(COUNTS), 2)).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum(COUNTS)])
    ids = random.permutation(60)[:N_WORDS] + 7
    about = {"description": {"name": "a"}}
    book = bs.Codebook(random.random((N_WORDS, 2)) * 4, ids, scale=4, **about)
    return book, bs.Bags(values, offsets, scale=256, **about)


BOOK, BAGS = corpus()
IDS = BOOK.ids
FILLED = BAGS.counts > 0


def made(name, book=BOOK, bags=BAGS, n_jobs=1):
    return bs.whatif(book, bags, n_jobs=n_jobs, **STATES[name])


def coded(name, book):
    """The histograms of coding the bags with this codebook."""
    words, options = book.words_for(BAGS), STATES[name]
    if options.get("coding") == "soft":
        return soft_histograms(BAGS, words, options["sharpness"], n_jobs=1)
    return hard_histograms(BAGS, words, n_jobs=1)


@pytest.fixture(scope="module")
def states():
    return {name: made(name) for name in STATES}


@pytest.fixture
def state(name, states):
    """A state that the test may move; building one takes longer than copying it."""
    return states[name].copy()


def rounding(state):
    """How far apart the same histograms may be that were reached in two ways; hard: not at all."""
    if not isinstance(state, soft.SoftState):
        return 0.0
    return 1e-13 if state.histograms.dtype == np.float64 else 1e-6


def assert_same(found, expected, atol=None):
    """The same words in the same columns, and the same histograms: hard ones to the bit."""
    np.testing.assert_array_equal(found.kept, expected.kept)
    atol = rounding(expected) if atol is None else atol
    np.testing.assert_allclose(found.histograms, expected.histograms, rtol=0, atol=atol)


def assert_sound(state):
    """What holds in whatever state a state is."""
    assert state.histograms.shape == (len(BAGS), state.n_kept)
    assert state.kept.shape == (state.n_kept,)
    assert len(set(state.kept.tolist())) == state.n_kept
    assert (state.histograms >= 0).all()
    np.testing.assert_allclose(state.histograms.sum(axis=1), FILLED, rtol=0, atol=2e-6)


def assert_unchanged_but(state, kept, histograms):
    """`changed` names every column whose word or content is not that of before, to the bit."""
    changed = state.changed.tolist()
    assert changed == sorted(set(changed) & set(range(state.n_kept)))
    same = sorted(set(range(state.n_kept)) - set(changed))
    assert state.kept[same].tolist() == kept[same].tolist()
    assert (state.histograms[:, same] == histograms[:, same]).all()


def shown(state):
    """Everything that a state shows, for comparison to the bit."""
    bound = state.bound()
    arrays = (state.histograms, state.variance(), np.zeros(0) if bound is None else bound)
    kept, changed = state.kept.tolist(), state.changed.tolist()
    return kept, changed, [array.tobytes() for array in arrays], state.fidelity()


@ANY
def test_at_first_all_words_are_kept_and_the_histograms_are_those_of_coding(name, state):
    np.testing.assert_array_equal(state.kept, IDS)
    np.testing.assert_array_equal(state.changed, np.arange(N_WORDS))
    assert (state.n_bags, state.n_kept) == (len(BAGS), N_WORDS)
    assert state.codebook is BOOK
    assert_sound(state)
    assert repr(state) == f"{type(state).__name__}(9 of 9 words kept, {len(BAGS)} bags)"
    assert state.n_bytes >= state.histograms.nbytes
    assert state.copy().reset(IDS[[2, 0, 1]]).pruned_codebook() == BOOK.only(IDS[:3])
    if STATES[name].get("coding") != "soft":
        np.testing.assert_array_equal(state.histograms, coded(name, BOOK))
    else:
        errors = np.abs(state.histograms - coded(name, BOOK)).sum(axis=1)
        assert (errors <= state.bound() + state.recoding_error(BAGS)).all()


@ANY
def test_histograms_are_a_live_view_that_nobody_can_write_to(state):
    view = state.histograms
    assert view.shape == (len(BAGS), N_WORDS)
    assert np.shares_memory(view, state.histograms)
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    old = view.copy()
    state.swap(IDS[[4]], [])
    np.testing.assert_array_equal(view[:, : N_WORDS - 1], state.histograms)
    assert not np.array_equal(view[:, : N_WORDS - 1], old[:, : N_WORDS - 1])


@ANY
def test_reset_keeps_the_words_in_the_order_given(state):
    for n_kept in (1, 2, 5, N_WORDS):
        kept = np.random.default_rng(n_kept).permutation(IDS)[:n_kept]
        assert state.reset(kept) is state
        np.testing.assert_array_equal(state.kept, kept)
        np.testing.assert_array_equal(state.changed, np.arange(n_kept))
        assert_sound(state)
        ordered = state.copy().reset(np.sort(kept))
        expected = ordered.histograms[:, np.argsort(np.argsort(kept))]
        np.testing.assert_allclose(state.histograms, expected, rtol=0, atol=rounding(state))


@ANY
def test_permuting_the_words_of_the_codebook_permutes_the_result(name, state):
    random = np.random.default_rng(5)
    other = made(name, BOOK.only(random.permutation(IDS)))
    # Sums run in another order; counts of descriptors do not care.
    atol = 0 if isinstance(state, ExactState) else 1e-6
    for n_kept in (N_WORDS, 6, 2):
        kept = random.permutation(IDS)[:n_kept]
        assert_same(other.reset(kept), state.reset(kept), atol)
    for _ in range(10):
        move = any_move(random, state)
        assert_same(other.swap(*move), state.swap(*move), atol)


# Of words 0 to 5 in columns 0 to 5: who goes, who comes, and the columns after that.
SLOTS = [
    ([1], [], [0, 5, 2, 3, 4]),  # the last column moves into the hole
    ([5], [], [0, 1, 2, 3, 4]),  # the hole is the last column
    ([0, 5], [], [4, 1, 2, 3]),  # the last column is a hole itself
    ([5, 4, 0], [], [3, 1, 2]),
    ([0, 1, 2, 3, 5], [], [4]),
    ([], [8, 6], [0, 1, 2, 3, 4, 5, 8, 6]),  # newcomers are added at the end
    ([2], [8, 7, 6], [0, 1, 8, 3, 4, 5, 7, 6]),
    ([3, 1, 0], [6], [4, 5, 2, 6]),  # the first of them is replaced, the others are holes
    ([0, 1, 2, 3, 4, 5], [7], [7]),
    ([], [], [0, 1, 2, 3, 4, 5]),
]


@ANY
def test_columns_move_into_holes_or_are_added_at_the_end(state):
    for out, in_, kept in SLOTS:
        state.reset(IDS[:6]).swap(IDS[out], IDS[in_])
        assert state.kept.tolist() == IDS[kept].tolist()
        assert_sound(state)
        assert_same(state, state.copy().reset(IDS[kept]))


@ANY
def test_after_a_thousand_moves_it_is_as_from_scratch(name, state):
    random = np.random.default_rng(11)
    fresh, sizes = state.copy(), set()
    # Voronoi computes every pruned word again, which is slow and cannot go wrong gradually.
    for step in range(200 if name == "voronoi" else 1000):
        before, kept = state.histograms.copy(), state.kept
        out, in_ = any_move(random, state)
        state.swap(out, in_)
        sizes.add(state.n_kept)
        assert state.kept.tolist() == after_swap(kept.tolist(), out, in_)
        assert_unchanged_but(state, kept, before)
        if step % 20 == 19:
            assert_sound(state)
            assert_same(state, fresh.reset(state.kept))
    assert sizes == set(range(1, N_WORDS + 1))


@ANY
def test_a_swap_that_is_undone_never_was(state):
    # To the bit, soft states included, and so are the moves that follow: the twin never went there.
    random = np.random.default_rng(14)
    state.reset(IDS[[3, 8, 0, 5, 7, 2]])
    twin = state.copy()
    for step in range(60):
        before, kept = state.histograms.copy(), state.kept
        for move in (any_move(random, state), any_move(random, state, most=2)):
            state.swap(*move)
            after, words = state.histograms.copy(), state.kept
            assert state.undo() is state
            assert state.kept.tolist() == kept.tolist()
            assert state.histograms.tobytes() == before.tobytes()
            assert state.variance().tobytes() == twin.variance().tobytes()
            assert_unchanged_but(state, words, after)
        move = any_move(random, state, most=2 if step % 2 else 4)
        if step % 3 == 0:
            # As many in as out, as searches do.
            pruned = np.setdiff1d(IDS, kept)
            n = min(len(kept), len(pruned), 2)
            move = random.permutation(kept)[:n], random.permutation(pruned)[:n]
        assert shown(state.swap(*move))[2:] == shown(twin.swap(*move))[2:]
        assert state.kept.tolist() == twin.kept.tolist()


@ANY
def test_only_a_swap_can_be_undone_and_only_once(state):
    def swapped():
        return state.copy().swap(IDS[[1]], [])

    pasts = [state.copy(), state.copy().reset(IDS[:5]), swapped().reset(IDS[:5])]
    pasts += [swapped().undo(), swapped().copy(), swapped().without(IDS[[0]])]
    for moved in pasts:
        before = shown(moved)
        with pytest.raises(ParameterError, match=r"there is no swap to undo .* Swap first"):
            moved.undo()
        assert shown(moved) == before


@ANY
def test_a_refused_swap_or_an_interrupted_undo_leaves_the_state_of_before(state):
    before = state.reset(IDS[:6]).copy()
    state.swap(IDS[[1]], IDS[[8]])
    with pytest.raises(ParameterError):
        state.swap(IDS[[1]], [])
    assert_same(state.undo(), before, atol=0)
    state.swap(IDS[[4, 1]], IDS[[8, 7]])

    def interrupted():
        raise KeyboardInterrupt

    state._undo_log.insert(1, interrupted)
    with pytest.raises(KeyboardInterrupt):
        state.undo()
    assert_same(state, before)
    assert_same(state.swap(IDS[[0]], IDS[[8]]), before.swap(IDS[[0]], IDS[[8]]))


@ANY
def test_without_and_only_return_copies_and_leave_the_state_as_it_was(state):
    # Identity 2 for soft coding. It holds for all: nothing is inferred from altered histograms.
    twice = state.without(IDS[[2, 6]]).without(IDS[[0, 8, 4]])
    assert_same(twice, state.without(IDS[[8, 4, 6, 0, 2]]))
    state.reset(IDS[[3, 8, 0, 5, 7, 2]])
    before = shown(state)
    without, only = state.without(IDS[[0, 7]]), state.only(IDS[[1, 8]])
    assert type(without) is type(state)
    assert without.kept.tolist() == IDS[[3, 8, 5, 2]].tolist()
    assert only.kept.tolist() == IDS[[1, 8]].tolist()
    assert state.without([]).kept.tolist() == state.kept.tolist()
    for other in (without, only):
        assert not np.shares_memory(other.histograms, state.histograms)
        assert_same(other, state.copy().reset(other.kept))
        other.swap(other.kept[:1], IDS[[6]])
    assert shown(state) == before


@ANY
def test_copies_move_by_themselves(name, state):
    random = np.random.default_rng(13)
    state.reset(IDS[:6])
    others = [state, state.copy(), state.copy()]
    for step in range(30):
        for one in others:
            before = [other.histograms.copy() for other in others if other is not one]
            one.swap(*any_move(random, one, most=2))
            after = [other.histograms for other in others if other is not one]
            assert all((a == b).all() for a, b in zip(before, after, strict=True))
        if step % 6 == 5:
            # Made anew, for a copy could have moved what it should not.
            for one in others:
                assert_same(one, made(name).reset(one.kept))


@ANY
def test_a_pickled_state_moves_as_before(state):
    state.reset(IDS[:6])
    move = IDS[[0, 3]], IDS[[8]]
    for other in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert shown(other) == shown(state)
        assert shown(other.swap(*move)) == shown(state.copy().swap(*move))


BAD_MOVES = [
    (lambda s: s.reset([]), "names no word"),
    (lambda s: s.reset([IDS[0], 6]), "word 6 is not in the"),
    (lambda s: s.reset(IDS[[0, 1, 0]]), "names a word twice"),
    (lambda s: s.reset([1.0, 2.0]), "must be a list of integers"),
    (lambda s: s.reset(int(IDS[0])), "must be a list of integers"),
    (lambda s: s.only([]), "names no word"),
    (lambda s: s.without(s.kept), "names no word"),
    (lambda s: s.without(IDS[[8]]), "is not kept, so it cannot be pruned"),
    (lambda s: s.swap(s.kept), "remove names all 4 kept words"),
    (lambda s: s.swap([6]), "word 6 is not in the codebook"),
    (lambda s: s.swap(IDS[[0, 0]], IDS[[8, 7]]), "names a word twice"),
    (lambda s: s.swap(IDS[[0, 8]]), "is not kept, so it cannot be removed"),
    (lambda s: s.swap([], IDS[[8, 0]]), "is kept already, so it cannot"),
    (lambda s: s.swap(IDS[[0]], IDS[[0]]), "is kept already"),
    (lambda s: s.swap([], [8.0]), "must be a list of integers"),
]


@ANY
def test_a_bad_move_is_refused_and_changes_nothing(state):
    state.reset(IDS[:5]).swap(IDS[[4]], [])
    before = shown(state)
    for move, problem in BAD_MOVES:
        with pytest.raises(ParameterError, match=problem) as caught:
            move(state)
        assert "\n" not in str(caught.value)
        assert shown(state) == before
    assert_same(state.swap(IDS[[0]], IDS[[8]]), state.copy().reset(IDS[[8, 1, 2, 3]]))


@ANY
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_move_that_is_interrupted_leaves_the_state_as_it_was(state, monkeypatch, when):
    state.reset(IDS[:6])
    follow = state._follow
    for out, in_ in (([4, 1], [8, 7]), ([4, 1], []), ([], [8, 7])):
        for error in (KeyboardInterrupt, MemoryError):

            def interrupted(*move, error=error):
                if when == "after":
                    follow(*move)
                raise error

            before = state.copy()
            with monkeypatch.context() as patch:
                patch.setattr(state, "_follow", interrupted)
                with pytest.raises(error):
                    state.swap(IDS[out], IDS[in_])
            assert_same(state, before)
            np.testing.assert_array_equal(state.variance(), before.variance())
            moved = state.copy().swap(IDS[out], IDS[in_])
            assert_same(moved, before.swap(IDS[out], IDS[in_]))


@ANY
def test_bags_of_another_descriptor_or_of_no_numbers_are_refused(name):
    others = bs.Bags(BAGS.values, BAGS.offsets, scale=256, description={"name": "b"})
    with pytest.raises(MismatchError, match=r"trained on descriptors .*, the bags hold"):
        made(name, bags=others)
    # Bags on disk are not read through when they are opened: a state is the first to see them.
    for value in (np.nan, np.inf, 1e30):
        rows = np.array([[0.5, 0.5], [0.5, value], [0.1, 0.2]], np.float32)
        with pytest.raises(DataError, match="descriptors must lie within"):
            made(name, bags=bs.Bags.from_pieces([rows], [0], [0], [3]))


@ANY
def test_variance_is_that_of_approximations_and_the_bound_that_of_exact_states(state):
    assert not state.variance().any()
    variance = state.copy().reset(IDS[[2, 8, 5, 7]]).variance()
    assert (variance.shape, variance.dtype) == ((len(BAGS), 4), np.float64)
    assert (variance >= 0).all()
    assert not variance[~FILLED].any()
    assert variance.any() != state.is_exact
    random = np.random.default_rng(14)
    for _ in range(20):
        bound = state.swap(*any_move(random, state)).bound()
        if not state.is_exact:
            assert bound is None
            continue
        assert (bound.shape, bound.dtype) == ((len(BAGS),), np.float64)
        assert (bound[FILLED] >= 0).all()
        assert not bound[~FILLED].any()
        errors = np.abs(state.histograms - state.recode(BAGS)).sum(axis=1)
        assert (errors <= bound + state.recoding_error(BAGS) + 2.0**-22).all()


@ANY
def test_the_certificate_is_the_distance_to_coding_with_the_pruned_codebook(name, state):
    state.reset(IDS[[7, 0, 5, 3, 8]])
    order = np.argsort(np.argsort([7, 0, 5, 3, 8]))
    recoded = state.recode(BAGS)
    np.testing.assert_array_equal(recoded, coded(name, state.pruned_codebook())[:, order])
    found = state.fidelity()
    errors = np.abs(state.histograms.astype(np.float64) - recoded).sum(axis=1)[FILLED]
    assert found.n_bags == FILLED.sum()
    assert found.mean == pytest.approx(errors.mean(), abs=1e-15)
    assert found.worst == errors.max()
    if state.is_exact:
        assert found.holds is True
        assert found.worst <= found.allowed < 0.2
    else:
        assert found.worst > 0
        assert (found.allowed, found.holds) == (None, None)
    names = ("n_bags", "mean", "worst", "allowed", "holds")
    record = json.loads(json.dumps(found.record()))
    assert record == {name: getattr(found, name) for name in names}
    assert f"{found.n_bags} bags" in str(found)


@ANY
def test_it_is_the_same_on_any_number_of_threads(name, monkeypatch):
    blocks = [
        (uniform, "BLOCK_BAGS", 2),
        (exact, "SEGMENT_ROWS", 8),
        (ranking, "TASK_ROWS", 16),
        (sampled, "TASK_WORDS", 1),
        (far_blocks, "BLOCK_ROWS", 16),
        (soft, "BUILD_ROWS", 16),
        (soft, "TILE_ROWS", 8),
        (soft, "RECODE_ROWS", 4),
        (transfer, "TASK_WORDS", 2),
    ]
    for module, constant, size in blocks:
        assert getattr(module, constant) > size
        monkeypatch.setattr(module, constant, size)
    each = ExactState._each
    # Small moves would be made by one thread.
    monkeypatch.setattr(ExactState, "_each", lambda self, work, threads=True: each(self, work))
    outcomes = []
    for n_jobs in (1, 2, 3):
        state = made(name, n_jobs=n_jobs)
        random = np.random.default_rng(15)
        outcome = [shown(state)]
        for _ in range(5):
            outcome.append(shown(state.swap(*any_move(random, state))))
        outcomes.append(outcome)
    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]


@ANY
def test_bags_may_be_few_or_empty(name):
    options = dict(STATES[name])
    if options.get("transfer") in ("voronoi", "gaussian"):
        # Without descriptors there is nothing to estimate how they spread.
        options["sigma"] = 0.2
        options.pop("covariance", None)
    for arrays in ([], [[]], [[], []]):
        state = bs.whatif(BOOK, arrays, n_jobs=1, **options)
        state.reset(IDS[:4]).swap(IDS[[1]], IDS[[7, 8]])
        assert state.histograms.shape == (len(arrays), 5)
        assert not state.histograms.any()
        assert not state.variance().any()
        with pytest.raises(DataError, match="fidelity needs bags with descriptors"):
            state.fidelity()
