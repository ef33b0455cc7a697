"""What all states inherit: columns in slots, copies, refusals and the certificate, on a toy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.slots import after_swap, any_move

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.fidelity import Fidelity
from bowsaw.inference.state import HistogramState

IDS = np.array([40, 7, 23, 5, 99, 61, 2, 18])
BOOK = Codebook(np.arange(8.0)[:, None], IDS)
BAGS = Bags(np.arange(12.0)[:, None], [0, 3, 3, 4, 12])


class Toy(HistogramState):
    """A column shows its word: bag b has id + b / 100 there, and nothing depends on other words.

    It has another array that a copy must copy. ``off`` is the error of each bag's first column.
    """

    _own = ("_log",)

    def __init__(self, bags=BAGS, off=None, bounds=None):
        super().__init__(BOOK, len(BAGS), bags=bags, dtype=np.float64)
        self._log = np.zeros(3)
        self._off = np.zeros(len(BAGS)) if off is None else np.asarray(off, float)
        self._bounds = bounds
        self.is_exact = bounds is not None
        self.moves = []
        self.reset()

    def _write(self, words, columns):
        self._table[columns] = IDS[words][:, None] + np.arange(self.n_bags) / 100

    def _begin(self):
        self._write(self._kept, np.arange(self.n_kept))
        self._log += 1

    def _follow(self, swap):
        removed, removed_columns, added, added_columns = swap
        self.moves.append([a.tolist() for a in swap])
        # The interface: `_column` is that after the move, and a new column is zero.
        assert (self._column[removed] == -1).all()
        assert (self._column[added] == added_columns).all()
        assert self._column[-1] == -1
        assert not self._table[added_columns[len(removed) :]].any()
        touched = np.union1d(removed_columns, added_columns).astype(np.int64)
        self._save(self._table, touched)
        self._table[removed_columns] = -1
        self._write(added, added_columns)
        return touched

    def _code(self, bags, words):
        truth = IDS[words[:, 0].astype(int)] + np.arange(len(bags))[:, None] / 100
        return truth.astype(np.float32)

    def recode(self, bags):
        # The bags are chosen out of BAGS; their first values tell which they are.
        rows = [{0: 0, 3: 2, 4: 3}[int(bag[0, 0])] for bag in bags]
        truth = self.histograms[rows].copy()
        truth[:, 0] += self._off[rows]
        return truth

    def bound(self):
        return self._bounds


def assert_shows(state, kept):
    np.testing.assert_array_equal(state.kept, kept)
    expected = np.asarray(kept) + np.arange(4)[:, None] / 100
    np.testing.assert_array_equal(state.histograms, expected)
    column = np.full(len(IDS) + 1, -1)
    column[BOOK.positions(kept)] = np.arange(len(kept))
    np.testing.assert_array_equal(state._column, column)


@given(st.integers(0, 2**32 - 1))
def test_columns_are_where_the_twin_has_them(seed):
    random = np.random.default_rng(seed)
    state = Toy()
    state.reset(random.permutation(IDS)[: random.integers(1, 9)])
    for _ in range(12):
        kept = state.kept.tolist()
        out, in_ = any_move(random, state)
        expected = after_swap(kept, out, in_)
        assert_shows(state.swap(out, in_), expected)
        same = {c for c, word in enumerate(expected) if c < len(kept) and kept[c] == word}
        assert set(state.changed.tolist()) >= set(range(len(expected))) - same
        np.testing.assert_array_equal(state.changed, np.unique(state.changed))
        assert state.changed.dtype == np.int64
        assert_shows(state.undo(), kept)
        state.swap(out, in_)


def test_changed_names_columns_that_moved_into_holes():
    state = Toy().reset(IDS[:6])
    assert state.swap(remove=IDS[[1]]).changed.tolist() == [1]
    assert state.kept.tolist() == IDS[[0, 5, 2, 3, 4]].tolist()
    assert state.swap(remove=IDS[[4]]).changed.tolist() == []
    assert state.swap(add=IDS[[6]]).changed.tolist() == [4]
    assert state.reset().changed.tolist() == list(range(8))


def test_messages_name_the_word_and_how_many_are_kept():
    state = Toy().reset(IDS[:3])
    for remove, add, problem in (
        ([40, 5], [], r"^word 5 is not kept.*\(3 of 8 words are kept\)\.$"),
        ([], [5, 7], r"^word 7 is kept already.*\(3 of 8 words are kept"),
        (state.kept, [], r"names all 3 kept words, .* Keep a word"),
    ):
        with pytest.raises(ParameterError, match=problem):
            state.swap(remove, add)
    with pytest.raises(ParameterError, match=r"^word 5 is not kept, so it cannot be pruned"):
        state.without([5])
    assert state.moves == []
    assert_shows(state, IDS[:3])


def test_memory_counts_arrays_once_and_mapped_ones_not_at_all(tmp_path):
    state = Toy()
    own = 8 * 4 * 8 + 3 * 8 + 4 * 8 + 8 * 8 + 9 * 4 + 8 * 8
    assert state.n_bytes == own
    state.mapped = np.memmap(tmp_path / "file", dtype=np.uint8, mode="w+", shape=1000)
    state.view = state._table[:2]
    assert state.n_bytes == own
    state.inner = Toy()
    assert state.n_bytes == 2 * own


def test_fidelity_is_the_distance_of_bags_with_descriptors_and_whether_the_bound_holds():
    # The second bag is empty, so that its error does not count.
    off = [0.5, 9.0, -0.25, 0.0]
    found = Toy(off=off).fidelity()
    assert found == Fidelity(3, pytest.approx(0.25), pytest.approx(0.5), None, None)
    assert found.holds is None
    assert str(found) == "L1 error 0.25 on average, 0.5 at worst, 3 bags; an approximation"
    kept = Toy(off=off, bounds=np.full(4, 0.51)).fidelity()
    assert kept.holds is True
    assert kept.allowed == pytest.approx(0.51, abs=1e-6)
    assert "each within what rounding may cause, at most 0.51" in str(kept)
    broken = Toy(off=off, bounds=np.full(4, 0.3)).fidelity()
    assert broken.holds is False
    assert "some BEYOND what rounding may cause, at most 0.3" in str(broken)
    perfect = Toy(bounds=np.zeros(4)).fidelity()
    assert (perfect.worst, perfect.allowed, perfect.holds) == (0.0, 0.0, True)


def test_a_sample_is_drawn_without_repetition_and_by_the_seed_alone():
    state = Toy(off=[1.0, 0.0, 2.0, 4.0])
    ones = {seed: state.fidelity(1, random_state=seed).worst for seed in range(30)}
    assert {round(value, 6) for value in ones.values()} == {1.0, 2.0, 4.0}
    for seed in range(5):
        assert state.fidelity(1, random_state=seed) == state.fidelity(1, random_state=seed)
    assert state.fidelity(np.int64(2)).n_bags == 2
    assert state.fidelity(1) == state.fidelity(1, random_state=0)
    assert state.fidelity(3).mean == pytest.approx(7 / 3)
    assert state.fidelity(50).n_bags == 3


def test_fidelity_needs_descriptors_and_a_sample_of_at_least_one():
    with pytest.raises(DataError, match=r"made from histograms alone\. Make it with whatif"):
        Toy(bags=None).fidelity()
    with pytest.raises(DataError, match="all are empty"):
        Toy(bags=Bags.from_list([[], [], [], []])).fidelity()
    for sample in (0, -3, 2.5, True, "all", None):
        with pytest.raises(ParameterError, match="sample must be an integer of at least 1; got"):
            Toy().fidelity(sample)
