"""The exact state must be re-coding itself, descriptor by descriptor, to the bit."""

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nearest.test_search import FAMILIES
from tests.oracles import ranking as oracle
from tests.oracles.slots import any_move

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError
from bowsaw.inference import _far_kernel, exact
from bowsaw.inference.exact import LEAST_RANKED, MOST_RANKED, ExactState, cut, list_length

# With one word or one row and five dimensions, OpenBLAS reads memory that was not written,
# which can raise a flag; the numbers are right, and every test compares them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in (dot|matmul)")


def cut_at_random(random, rows, n_bags=6, **about):
    """Bags of any sizes, most likely with an empty one."""
    limits = np.sort(random.integers(0, len(rows) + 1, n_bags - 1))
    offsets = np.concatenate([[0], limits, limits[-1:], [len(rows)]])
    return Bags(rows, offsets, **about)


def assert_is_recoding(state, bags, twin=False):
    """The histograms of the kept words in the codebook's order, and so are ties settled."""
    book = state.codebook
    kept = book.positions(state.kept)
    words = book.words_for(bags)
    order = np.argsort(kept)
    coded = hard_histograms(bags, words[kept[order]], n_jobs=1)
    np.testing.assert_array_equal(state.histograms[:, order], coded)
    if twin:
        np.testing.assert_array_equal(state.histograms, oracle.histograms(bags, words, kept))


def assert_recoding_along(state, bags, random, n_moves, most=4, twin=False):
    for _ in range(n_moves):
        state.swap(*any_move(random, state, most))
        assert_is_recoding(state, bags, twin)
    assert state.n_far == state.copy().reset(state.kept).n_far
    return state


def gravel(random, n_rows, n_words, n_dims=12):
    """Bytes with most of their variance in few directions, and words among them."""
    mixing = random.normal(size=(4, n_dims))
    values = random.normal(size=(n_rows + n_words, 4)) @ mixing
    values += 0.2 * random.normal(size=values.shape)
    values = np.clip(values * 20 + 128, 0, 255).round().astype(np.uint8)
    return values[:n_rows], values[n_rows:]


@st.composite
def corpora(draw):
    """Whole numbers of few levels: nearly every distance is tied, and words appear many times."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_dims, levels = draw(st.integers(1, 4)), draw(st.sampled_from([2, 3, 6, 200]))
    n_words, n_rows = draw(st.integers(1, 25)), draw(st.integers(0, 40))
    dtype = draw(st.sampled_from([np.uint8, np.float32]))
    rows = random.integers(0, levels, (n_rows, n_dims)).astype(dtype)
    words = random.integers(0, levels, (n_words, n_dims))
    ids = random.permutation(n_words) + draw(st.integers(0, 9))
    return random, cut_at_random(random, rows, draw(st.integers(2, 9))), Codebook(words, ids)


@given(corpora(), st.sampled_from([1, 2, 3, 8, 254]), st.sampled_from([1, 5, 2**16]))
@settings(max_examples=60)
def test_any_moves_give_what_coding_descriptor_by_descriptor_gives(corpus, n_ranked, n_segment):
    random, bags, book = corpus
    with patch.object(exact, "SEGMENT_ROWS", n_segment):
        state = ExactState(book, bags, n_ranked=n_ranked, n_jobs=1)
    assert_is_recoding(state, bags, twin=True)
    assert_recoding_along(state, bags, random, 6, twin=True)
    state.reset(random.permutation(book.ids)[: random.integers(1, 4)])
    assert_recoding_along(state, bags, random, 6, most=2, twin=True)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_misleading_data(family):
    for n_ranked in (1, 4, 254):
        random = np.random.default_rng(n_ranked)
        rows, words = family(random)
        bags, book = cut_at_random(random, rows), Codebook(words)
        state = ExactState(book, bags, n_ranked=n_ranked, n_jobs=1)
        assert_is_recoding(state, bags)
        assert_recoding_along(state.reset(random.permutation(book.ids)[:5]), bags, random, 12)


def test_ties_go_to_the_first_word_of_the_codebook_whatever_its_column():
    # 5 is as far from 4 as from 6; the words at 4 are equal to each other.
    book = Codebook([[6.0], [4.0], [4.0], [90.0]], [10, 11, 12, 13])
    state = ExactState(book, Bags([[5.0], [3.0]]), n_ranked=1)
    expected = {(13, 12, 11, 10): [0, 0, 0.5, 0.5], (12, 11): [0, 1], (12, 10): [0.5, 0.5]}
    for kept, histogram in expected.items():
        assert state.reset(kept).histograms[0].tolist() == histogram
    assert state.reset([13, 12]).histograms[0].tolist() == [0, 1]
    assert state.swap([], [11]).histograms[0].tolist() == [0, 0, 1]
    assert state.swap([], [10]).histograms[0].tolist() == [0, 0, 0.5, 0.5]
    assert state.swap([10, 11], []).histograms[0].tolist() == [0, 1]


@pytest.mark.parametrize("n_ranked", [1, 5, 100, None])
def test_the_length_of_lists_changes_nothing(n_ranked):
    random = np.random.default_rng(1)
    rows, words = gravel(random, 400, 300)
    bags = cut_at_random(random, rows)
    state = ExactState(Codebook(words), bags, n_ranked=n_ranked, n_jobs=1)
    assert state.n_ranked == (LEAST_RANKED if n_ranked is None else n_ranked)
    assert_recoding_along(state, bags, random, 4, most=40)
    assert_recoding_along(state.reset(random.permutation(300)[:20]), bags, random, 12)
    if n_ranked == 1:
        assert state.n_far > 300


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(("n_bags", "n_kept"), [(300, 30), (2, 30), (40, 3), (40, 2)])
def test_undoing_restores_what_every_descriptor_had(monkeypatch, n_bags, n_kept, n_jobs):
    # Bags of few descriptors are counted in shares and those of many in counts; with two or three
    # words kept nearly all are far, and both words may go at once.
    random = np.random.default_rng(n_bags + n_kept)
    monkeypatch.setattr(exact, "SEGMENT_ROWS", 150)
    rows, words = gravel(random, 900, 60)
    bags = cut_at_random(random, rows, n_bags)
    state = ExactState(Codebook(words), bags, n_ranked=5, n_jobs=n_jobs)
    state.reset(random.permutation(60)[:n_kept])
    n_changed = 0
    for step in range(60):
        kept, pruned = state.kept, np.setdiff1d(np.arange(60), state.kept)
        n = 1 + step % n_kept % 4
        move = random.permutation(kept)[:n], random.permutation(pruned)[:n]
        before = state.copy()
        state.swap(*move)
        n_changed += np.count_nonzero(state._word != before._word)
        state.undo()
        for name in ("_rank", "_word", "_tally", "_kept", "_column"):
            np.testing.assert_array_equal(getattr(state, name), getattr(before, name))
        far = state._rank == 255
        np.testing.assert_array_equal(state._score[far], before._score[far])
        assert state.histograms.tobytes() == before.histograms.tobytes()
        state.swap(*move)
        assert_is_recoding(state, bags)
    assert n_changed > 60 * 900 / n_kept / 2


def assert_in_slots(state):
    """Every far descriptor has a slot of its segment, with its own word, score and sketch."""
    blocks, sketch = state._gather(np.empty(0, dtype=np.int64)), state._sketch
    slots, far = blocks.slots, np.flatnonzero(state._rank == 255)
    at = slots.of_row[far]
    segment = np.searchsorted(state._index.rows, far, side="right") - 1
    assert (at >= slots.starts[segment]).all()
    assert (at < slots.starts[segment] + slots.n_assigned[segment]).all()
    np.testing.assert_array_equal(slots.row[at], far)
    np.testing.assert_array_equal(slots.code[at], state._word[far])
    margins = [_far_kernel._margin(sketch.doubt, i, state._score[i]) for i in far]
    least = state._score[far] - np.array(margins, dtype=np.float32)
    np.testing.assert_array_equal(slots.least[at], least)
    np.testing.assert_array_equal(slots.rest[at], sketch.rest[far])
    n_across = slots.sketch.shape[2]
    np.testing.assert_array_equal(slots.sketch[at // n_across, :, at % n_across], sketch.rows[far])
    return blocks


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("most", [1, 4])
def test_far_descriptors_lie_in_slots_with_their_words(monkeypatch, most, n_jobs):
    random = np.random.default_rng(most)
    monkeypatch.setattr(exact, "SEGMENT_ROWS", 400)
    rows, words = gravel(random, 2500, 80)
    bags = cut_at_random(random, rows, 30)
    state = ExactState(Codebook(words), bags, n_ranked=12, n_jobs=n_jobs)
    state.reset(random.permutation(80)[:8])
    seen = []
    for step in range(60):
        kept, pruned = state.kept, np.setdiff1d(np.arange(80), state.kept)
        n = int(random.integers(1, most + 1))
        state.swap(random.permutation(kept)[:n], random.permutation(pruned)[:n])
        if step % 3:
            state.undo()
        # Looking assigns slots, and descriptors without one are to be tried as well.
        if step % 5 == 0:
            blocks = assert_in_slots(state)
            seen += [blocks] if blocks not in seen else []
        assert_is_recoding(state, bags)
    assert 300 < state.n_far < 2200
    assert len(seen) < 10


def test_slots_are_given_up_when_few_descriptors_are_far():
    random = np.random.default_rng(6)
    rows, words = gravel(random, 3000, 80)
    bags = cut_at_random(random, rows, 30)
    state = ExactState(Codebook(words), bags, n_ranked=12, n_jobs=1)
    state.reset(np.arange(3)).swap([0], [3])
    n_before, n_bytes = state._far_blocks.slots.n_assigned.sum(), state.n_bytes
    state.swap([], np.arange(10, 60)).swap([10], [70])
    assert n_before > 1000
    assert state._far_blocks.slots.n_assigned.sum() < n_before / 5
    assert state.n_bytes < n_bytes
    assert_in_slots(state)
    assert_is_recoding(state, bags)


def test_descriptors_may_lie_on_disk_and_in_pieces(tmp_path):
    random = np.random.default_rng(7)
    rows, words = gravel(random, 90, 30)
    np.save(tmp_path / "a.npy", rows[:40])
    np.save(tmp_path / "b.npy", rows[40:])
    a, b = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab")
    one = Bags.from_pieces([b], [0, 0], [0, 20], [20, 30])
    two = Bags.from_pieces([a, b], [1, 0, 1], [0, 0, 20], [20, 40, 30])
    for bags in (one, two, two[[2, 0]]):
        state = ExactState(Codebook(words), bags, n_ranked=2, n_jobs=1)
        assert_recoding_along(state, bags, random, 8)


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 20))
def test_segments_are_whole_bags_and_not_larger_than_they_may_be(counts, most):
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    with patch.object(exact, "SEGMENT_ROWS", most):
        cuts = cut(offsets)
    assert (cuts[0], cuts[-1]) == (0, len(counts))
    for first, last in pairwise(cuts):
        assert last > first or not counts
        assert offsets[last] - offsets[first] <= most or last == first + 1


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [2**16, 2**16 + 1])
def test_a_bag_that_two_bytes_can_hardly_number(n_rows):
    random = np.random.default_rng(9)
    rows = random.integers(0, 256, (n_rows + 5, 2)).astype(np.uint8)
    bags = Bags(rows, [0, n_rows, n_rows + 5])
    state = ExactState(Codebook(random.integers(0, 256, (12, 2))), bags, n_ranked=2)
    assert_recoding_along(state, bags, random, 4)


@pytest.mark.slow
@pytest.mark.parametrize("n_words", [2**16 - 1, 2**16])
def test_more_words_than_two_bytes_can_count(n_words):
    random = np.random.default_rng(11)
    words = random.normal(size=(n_words, 4)).astype(np.float32)
    bags = cut_at_random(random, random.normal(size=(25, 4)).astype(np.float32))
    state = ExactState(Codebook(words), bags, n_ranked=3)
    # The words at both ends, and those that count: the nearest ones.
    used = np.flatnonzero(state.histograms.any(axis=0))
    assert_is_recoding(state.swap(used, []), bags)
    assert_is_recoding(state.reset([0, n_words - 1, 17]), bags)
    for out, in_ in (([0], used[:5]), (used[:2], [n_words - 2]), ([n_words - 1], [])):
        assert_is_recoding(state.swap(out, in_), bags)


@pytest.mark.parametrize("distance", [1e2, 1e9, 1e18])
def test_descriptors_very_far_from_the_words(distance):
    # From so far float64 itself sees ties; the first word has them.
    random = np.random.default_rng(12)
    rows = random.normal(size=(40, 3)) + distance * random.choice([-1, 1], (40, 3))
    bags = cut_at_random(random, rows)
    for n_ranked in (1, 30):
        state = ExactState(Codebook(random.normal(size=(30, 3))), bags, n_ranked=n_ranked, n_jobs=1)
        assert_recoding_along(state, bags, random, 10, twin=True)


@pytest.mark.parametrize("value", [1e19, np.nan])
def test_what_float32_cannot_square_is_refused(value):
    # Bags on disk are trusted to be finite, so that NaN may come as far as this.
    rows = np.array([[0.0], [value]], np.float32)
    bags = Bags.from_pieces([rows], [0], [0], [2])
    with pytest.raises(DataError, match=r"^descriptors must lie within 4.6e\+18 .* Divide"):
        ExactState(Codebook([[0.0], [1.0]]), bags)


def test_lists_are_as_long_as_pays_and_fits():
    plenty = 2**40
    # All words where a byte can number them; else a length that grows with the codebook.
    assert [list_length(1000, n, None, plenty) for n in (1, 3, 254)] == [1, 3, 254]
    pays = [list_length(1000, n, None, plenty) for n in (255, 1000, 2000, 5000, 70_000)]
    assert pays == sorted(pays)
    assert (pays[0], pays[-1]) == (LEAST_RANKED, MOST_RANKED)
    assert list_length(0, 5000, None, plenty) == MOST_RANKED
    # 5 bytes an entry, 3 of the index and 2 of the list; 7 where positions take 4 bytes.
    assert [list_length(10**6, n, None, 10**8) for n in (5000, 70_000)] == [20, 14]
    assert list_length(1000, 5000, None, 0) == 1
    # What is asked for is done, whatever it takes.
    assert [list_length(1000, n, 254, 0) for n in (5000, 40)] == [254, 40]


def test_lists_and_index_stay_within_max_bytes():
    random = np.random.default_rng(14)
    rows, words = gravel(random, 5000, 300, n_dims=4)
    for max_bytes in (10**5, 4 * 10**5, 10**6):
        state = ExactState(Codebook(words), Bags(rows), max_bytes=max_bytes)
        entries = state._index
        held = state._lists.nbytes + entries.entry_rows.nbytes + entries.entry_ranks.nbytes
        assert max_bytes / 2 < held <= max_bytes
        assert state.n_bytes > held
