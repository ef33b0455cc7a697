import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

from bowsaw.bags import Bags, as_bags
from bowsaw.errors import DataError, ParameterError

COUNTS = st.lists(st.integers(0, 5), max_size=8)


def numbered(counts, dtype=np.float32, n_dims=3):
    """Arrays whose every entry is another number."""
    values = np.arange(sum(counts) * n_dims).reshape(-1, n_dims).astype(dtype)
    limits = np.concatenate(([0], np.cumsum(counts))).astype(int)
    return [values[a:b] for a, b in pairwise(limits)]


def in_pieces(arrays, **about):
    """The same bags, two per array, with rows that belong to no bag before and after."""
    other = np.full((2, 3), 77, dtype=np.float32)
    pieces, piece, start = [], [], []
    for first in range(0, len(arrays), 2):
        group = arrays[first : first + 2]
        piece += [len(pieces)] * len(group)
        start += [2, 2 + len(group[0])][: len(group)]
        pieces.append(np.concatenate([other, *group, other]))
    return Bags.from_pieces(pieces or [other], piece, start, [len(a) for a in arrays], **about)


def assert_same(bags, arrays):
    assert len(bags) == len(arrays)
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(bags[i], array)
    assert bags.counts.tolist() == [len(a) for a in arrays]
    assert bags.offsets.tolist() == [0, *np.cumsum([len(a) for a in arrays]).tolist()]
    assert bags.n_descriptors == sum(len(a) for a in arrays)
    np.testing.assert_array_equal(bags.values, np.concatenate([np.empty((0, 3)), *arrays]))


@pytest.fixture
def bags():
    arrays = numbered([2, 0, 3, 1], np.uint8)
    about = {"name": "test", "sizes": [1, 2]}
    return Bags.from_list(arrays, scale=512, description=about, digests=[5, 6, 2**64 - 1, 8])


@given(COUNTS.filter(len))
def test_a_list_and_pieces_hold_the_same_bags(counts):
    arrays = numbered(counts)
    assert_same(Bags.from_list(arrays), arrays)
    assert_same(in_pieces(arrays), arrays)


def test_empty_bags_and_no_bags_are_bags():
    for empty in ([], np.empty((0, 3)), np.empty((0,)), np.empty((5, 0)), [[]]):
        bags = Bags.from_list([np.ones((2, 3)), empty])
        assert bags.counts.tolist() == [2, 0]
        assert bags[1].shape == (0, 3)
    nothing, empties = Bags.from_list([]), Bags.from_list([np.empty((0, 4)), []])
    assert (len(nothing), nothing.n_descriptors, nothing.values.shape) == (0, 0, (0, 0))
    assert (len(empties), empties.n_descriptors, empties.n_dims) == (2, 0, 4)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "i4", ">f4"])
def test_numbers_are_kept_as_uint8_or_float32(dtype):
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    for bags in (Bags(array), Bags.from_list([array])):
        assert bags.dtype == (np.uint8 if dtype == "u1" else np.float32)
        np.testing.assert_array_equal(bags.values, array.astype(np.float32))


def test_nothing_is_copied_that_need_not_be():
    array = np.ones((4, 3), dtype=np.float32)
    bags = Bags(array, [0, 1, 4])
    assert np.shares_memory(bags.values, array)
    assert np.shares_memory(bags[1], array)
    assert np.shares_memory(bags[[1, 0]][0], array)
    assert np.shares_memory(bags[:].values, array)
    assert not np.shares_memory(bags[[1, 0]].values, array)
    assert not np.shares_memory(bags[:1].values, array)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((2, 3)), np.ones((3, 2))], "same number of dimensions; got .2, 3.*transposed"),
        ([np.ones(3)], r"bag 0 must be two-dimensional .* got shape \(3,\)"),
        ([[[1, 2], [3]]], "bag 0 must have rows of equal length"),
        ([np.ones((9, 2)), [[0, 1], [2, np.nan]]], "bag 1 must be finite; row 1 holds NaN"),
        ([[[1e39]]], "bag 0 must be finite; row 0 holds"),
        ([np.array([[object()]])], "bag 0 must be numeric; got dtype object"),
        ([csr_matrix(np.eye(3))], r"dense array; got csr_matrix\. Pass its toarray"),
        ([csr_array(np.eye(3))], r"dense array; got csr_array\. Pass its toarray"),
    ],
)
def test_lists_that_are_no_bags_are_refused(arrays, message):
    with pytest.raises(DataError, match=message):
        Bags.from_list(arrays)


@pytest.mark.parametrize("offsets", [[0, 2], [1, 3], [0, 2, 1, 3], [], [[0, 3]], [0, 1.5, 3]])
def test_offsets_must_cover_the_rows(offsets):
    with pytest.raises(DataError, match="offsets"):
        Bags(np.ones((3, 1)), offsets)


@pytest.mark.parametrize("scale", [0, np.inf, "512"])
def test_a_scale_is_a_finite_number_above_zero(scale):
    with pytest.raises(ParameterError, match="scale must be a finite number of at least"):
        Bags(np.ones((1, 1)), scale=scale)
    with pytest.raises(ParameterError, match="scale must be a finite number of at least"):
        Bags.from_pieces([np.ones((1, 1), np.uint8)], [0], [0], [1], scale=scale)


@pytest.mark.parametrize("digests", [[1], [[1, 2]], [-1, 2], [0.5, 1]])
def test_digests_are_one_integer_per_bag(digests):
    with pytest.raises(DataError, match="digests"):
        Bags(np.ones((2, 1)), [0, 1, 2], digests=digests)


ONE = np.ones((3, 2), np.float32)


@pytest.mark.parametrize(
    ("pieces", "piece", "start", "counts", "message"),
    [
        ([ONE], [0], [1], [3], "outside its piece"),
        ([ONE], [0], [-1], [1], "outside its piece"),
        ([ONE], [1], [0], [1], "outside its piece"),
        ([ONE], [0, 0], [0], [1], "one length"),
        ([ONE], [0.5], [0], [1], "piece must be integers"),
        ([ONE, ONE.astype(np.uint8)], [0], [0], [1], "one dtype"),
        ([ONE, ONE[:, :1]], [0], [0], [1], "one n_dims"),
        ([ONE[:, 0]], [0], [0], [1], "two-dimensional"),
        ([ONE.astype(np.float64)], [0], [0], [1], "uint8 or float32"),
    ],
)
def test_pieces_and_their_index_must_agree(pieces, piece, start, counts, message):
    with pytest.raises(DataError, match=message):
        Bags.from_pieces(pieces, piece, start, counts)


def test_what_is_no_list_of_arrays_is_refused():
    with pytest.raises(DataError, match=r"single array of shape \(3, 2\). Wrap it in a list"):
        as_bags(np.ones((3, 2)))
    for other in (3, None, "images", b"bytes"):
        with pytest.raises(DataError, match="expected Bags or a list of arrays"):
            as_bags(other)
    # fit would read a generator to its end, and transform find nothing left: no bags, no error.
    arrays = numbered([2, 1])
    for once in (iter(arrays), (a for a in arrays), map(np.asarray, arrays)):
        with pytest.raises(DataError, match=r"which can be read once only\. Make a list of it"):
            as_bags(once)
    assert_same(Bags.from_list(a for a in arrays), arrays)


@given(st.data(), COUNTS.filter(len))
def test_choosing_follows_numpy(data, counts):
    arrays = numbered(counts)
    n = len(arrays)
    integers = st.lists(st.integers(-n, n - 1)).map(lambda found: np.array(found, dtype=int))
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    index = data.draw(st.one_of(st.slices(n), integers, masks))
    expected = np.arange(n)[index]
    for bags in (
        Bags.from_list(arrays, digests=np.arange(n) + 10),
        in_pieces(arrays, digests=np.arange(n) + 10),
    ):
        chosen = bags[index]
        assert_same(chosen, [arrays[i] for i in expected])
        assert chosen.digests.tolist() == (expected + 10).tolist()
        assert_same(chosen[::-1], [arrays[i] for i in expected[::-1]])


@pytest.mark.parametrize(
    "index",
    [4, -5, [0, 4], [True, False], "a", None, [0.5], [[0, 1], [1, 0]], np.ones((4, 1), bool)],
)
def test_what_chooses_no_bags_is_an_index_error(bags, index):
    with pytest.raises((IndexError, TypeError)):
        bags[index]


def assert_about_is_carried(chosen, digests):
    assert (chosen.scale, chosen.dtype, chosen.n_dims) == (512, np.uint8, 3)
    assert chosen.description == {"name": "test", "sizes": [1, 2]}
    assert (chosen.digests.tolist(), chosen.digests.dtype) == (digests, np.uint64)


def test_scikit_learns_way_of_choosing_keeps_the_scale(bags):
    # It once made lists of arrays of them, which lost the scale: a factor of 262144 in distances.
    assert bags.shape == (4,)
    assert_about_is_carried(bags[np.array([2, 1]), ...], [2**64 - 1, 6])


def test_a_description_cannot_be_changed(bags):
    bags.description["sizes"].append(3)
    assert bags.description == {"name": "test", "sizes": [1, 2]}
    mine = {"sizes": [1]}
    made = Bags(np.ones((1, 1)), description=mine)
    mine["sizes"].append(2)
    assert made.description == {"sizes": [1]}
    assert Bags(np.ones((1, 1))).description is None


@given(st.data(), COUNTS)
def test_reading_crosses_bags_and_pieces(data, counts):
    arrays = numbered(counts)
    order = data.draw(st.lists(st.integers(0, len(arrays) - 1))) if arrays else []
    bags = in_pieces(arrays)[order]
    whole = np.concatenate([np.empty((0, 3), np.float32), *(arrays[i] for i in order)])
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    dtype = data.draw(st.sampled_from([np.float32, np.float64, np.uint8]))
    read = bags.read(start, stop, dtype)
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, whole[start:stop].astype(dtype))
    for begin, end in ((-1, 1), (0, len(whole) + 1)):
        with pytest.raises(IndexError, match=rf"rows {begin} to {end} of {len(whole)}"):
            bags.read(begin, end)
    blocks = list(bags.blocks(4))
    assert [n for block in blocks for n in range(*block)] == list(range(len(whole)))
    assert all(end - begin == 4 for begin, end in blocks[:-1])


def test_the_digest_depends_on_content_and_limits():
    arrays = numbered([2, 3])
    whole = Bags.from_list(arrays)
    assert whole.digest() == in_pieces(arrays).digest()
    assert whole.digest() == whole[[0, 1]].digest()
    others = [
        whole[[1, 0]],
        whole[:1],
        Bags(whole.values),
        Bags.from_list([a + 1 for a in arrays]),
        Bags.from_list(numbered([2, 3], np.uint8)),
    ]
    digests = {bags.digest() for bags in [whole, *others]}
    assert len(digests) == 1 + len(others)


def test_only_the_chosen_rows_are_pickled(bags):
    for chosen in (bags, bags[[2, 0, 0]], bags[1:3], bags[[]]):
        again = pickle.loads(pickle.dumps(chosen))
        assert_same(again, list(chosen))
        assert_about_is_carried(again, chosen.digests.tolist())
    large = Bags(np.zeros((100_000, 4), np.uint8), [0, 10, 100_000])
    assert len(pickle.dumps(large[[0]])) < 2000
