from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn.model_selection import train_test_split

from bowsaw.bags import Bags, as_bags
from bowsaw.errors import DataError, ParameterError

COUNTS = st.lists(st.integers(0, 5), max_size=8)


def numbered(counts, dtype=np.float32, n_dims=3):
    """Arrays whose every entry is another number."""
    values = np.arange(sum(counts) * n_dims).reshape(-1, n_dims).astype(dtype)
    limits = np.concatenate(([0], np.cumsum(counts))).astype(int)
    return [values[a:b] for a, b in pairwise(limits)]


def in_pieces(arrays, per_piece=2, dtype=np.float32, n_dims=3, **about):
    """The same bags in several arrays, with rows that belong to nobody before and after."""
    nobody = np.full((2, n_dims), 77, dtype=dtype)
    pieces, piece, start = [], [], []
    for first in range(0, len(arrays), per_piece):
        group = arrays[first : first + per_piece]
        begin = 2
        for array in group:
            piece.append(len(pieces))
            start.append(begin)
            begin += len(array)
        pieces.append(np.concatenate([nobody, *group, nobody]).astype(dtype))
    return Bags.from_pieces(pieces or [nobody], piece, start, [len(a) for a in arrays], **about)


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


# -- ways in ---------------------------------------------------------------------------------------


@given(COUNTS.filter(len))
def test_a_list_and_pieces_hold_the_same_bags(counts):
    arrays = numbered(counts)
    assert_same(Bags.from_list(arrays), arrays)
    assert_same(in_pieces(arrays), arrays)


@pytest.mark.parametrize("empty", [[], np.empty((0, 3)), np.empty((0,)), np.empty((5, 0)), [[]]])
def test_an_empty_bag_may_have_any_empty_shape(empty):
    bags = Bags.from_list([np.ones((2, 3)), empty])
    assert bags.counts.tolist() == [2, 0]
    assert bags[1].shape == (0, 3)


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (np.uint8, np.uint8),
        (np.float32, np.float32),
        (np.float64, np.float32),
        (np.int32, np.float32),
        (">f4", np.float32),
    ],
)
def test_numbers_are_kept_as_uint8_or_float32(dtype, stored):
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    for bags in (Bags(array), Bags.from_list([array])):
        assert bags.dtype == stored
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
    ],
)
def test_lists_that_are_no_bags_are_refused(arrays, message):
    with pytest.raises(DataError, match=message):
        Bags.from_list(arrays)


@pytest.mark.parametrize(
    "offsets", [[0, 2], [1, 3], [0, 2, 1, 3], [], [[0, 3]], [0, 1.5, 3], "ab", [0, 4]]
)
def test_offsets_must_cover_the_rows(offsets):
    with pytest.raises(DataError, match="offsets"):
        Bags(np.ones((3, 1)), offsets)


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, "512", None])
def test_a_scale_is_a_finite_number_above_zero(scale):
    with pytest.raises(ParameterError, match="scale must be a finite number above 0"):
        Bags(np.ones((1, 1)), scale=scale)
    with pytest.raises(ParameterError, match="scale must be a finite number above 0"):
        Bags.from_pieces([np.ones((1, 1), np.uint8)], [0], [0], [1], scale=scale)


@pytest.mark.parametrize("digests", [[1], [1, 2, 3], [[1, 2]], [-1, 2], [0.5, 1], ["a", "b"]])
def test_digests_are_one_whole_number_a_bag(digests):
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


def test_a_single_array_is_not_taken_for_a_list_of_bags():
    with pytest.raises(DataError, match=r"single array of shape \(3, 2\). Wrap it in a list"):
        as_bags(np.ones((3, 2)))
    assert len(as_bags([np.ones((3, 2))])) == 1


def test_what_can_be_read_once_only_is_no_bags():
    # fit would read a generator to its end, and transform find nothing left: no bags, no error.
    arrays = numbered([2, 1])
    for given_as in (iter(arrays), (a for a in arrays), map(np.asarray, arrays)):
        with pytest.raises(DataError, match=r"which can be read once only\. Make a list of it"):
            as_bags(given_as)
    assert_same(Bags.from_list(a for a in arrays), arrays)


# -- choosing --------------------------------------------------------------------------------------


@given(st.data(), COUNTS.filter(len))
def test_choosing_follows_numpy(data, counts):
    arrays = numbered(counts)
    positions = np.arange(len(arrays))
    index = data.draw(
        st.one_of(
            st.slices(len(arrays)),
            st.lists(st.integers(-len(arrays), len(arrays) - 1)),
            st.lists(st.booleans(), min_size=len(arrays), max_size=len(arrays)).map(np.array),
        )
    )
    if isinstance(index, list):
        index = np.array(index, dtype=int)
    digests = np.arange(len(arrays)) + 10
    expected = positions[index]
    for bags in (
        Bags(np.concatenate(arrays), np.concatenate(([0], np.cumsum(counts))), digests=digests),
        in_pieces(arrays, digests=digests),
    ):
        chosen = bags[index]
        assert_same(chosen, [arrays[i] for i in expected])
        assert chosen.digests.tolist() == (expected + 10).tolist()
        again = chosen[::-1]
        assert_same(again, [arrays[i] for i in expected[::-1]])


@pytest.mark.parametrize(
    "index",
    [4, -5, [0, 4], [True, False], "a", None, 1.5, [0.5], [[0, 1], [1, 0]], np.ones((4, 1), bool)],
)
def test_what_chooses_no_bags_is_an_index_error(bags, index):
    with pytest.raises((IndexError, TypeError)):
        bags[index]


def assert_about_is_carried(chosen, digests):
    assert chosen.scale == 512
    assert chosen.description == {"name": "test", "sizes": [1, 2]}
    assert chosen.dtype == np.uint8
    assert chosen.n_dims == 3
    assert chosen.digests.tolist() == digests
    assert chosen.digests.dtype == np.uint64


def test_scikit_learn_chooses_bags_and_not_lists(bags):
    # It once made lists of arrays of them, which lost the scale: a factor of 262144 in distances.
    kept, left = train_test_split(bags, test_size=1, shuffle=False)
    assert_about_is_carried(kept, [5, 6, 2**64 - 1])
    assert_about_is_carried(left, [8])
    assert bags.shape == (4,)
    assert_about_is_carried(bags[np.array([2, 1]), ...], [2**64 - 1, 6])


def test_nobody_can_change_a_description(bags):
    bags.description["sizes"].append(3)
    assert bags.description == {"name": "test", "sizes": [1, 2]}
    mine = {"sizes": [1]}
    made = Bags(np.ones((1, 1)), description=mine)
    mine["sizes"].append(2)
    assert made.description == {"sizes": [1]}
    assert Bags(np.ones((1, 1))).description is None


# -- reading ---------------------------------------------------------------------------------------


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
    out = np.full((stop - start, 3), -1, dtype=np.float32)
    bags.read_into(start, out)
    np.testing.assert_array_equal(out, whole[start:stop])


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 7), (6, 7)])
def test_reading_outside_is_refused(bags, start, stop):
    with pytest.raises(IndexError, match=rf"rows {start} to {stop} of 6"):
        bags.read(start, stop)


@pytest.mark.parametrize(("n_rows", "expected"), [(4, [(0, 4), (4, 6)]), (6, [(0, 6)])])
def test_blocks_cover_every_row_once(bags, n_rows, expected):
    assert list(bags.blocks(n_rows)) == expected
    assert list(Bags.from_list([]).blocks(n_rows)) == []


def test_the_content_digest_tells_content_and_limits():
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


# -- travelling ------------------------------------------------------------------------------------


def test_only_the_chosen_rows_are_pickled():
    bags = Bags(np.zeros((100_000, 4), np.uint8), [0, 10, 100_000])
    assert len(pickle.dumps(bags[[0]])) < 2000


@pytest.mark.parametrize("make", [csr_matrix, csr_array])
def test_a_sparse_matrix_is_refused_with_the_remedy(make):
    with pytest.raises(DataError, match=r"dense array; got csr_\w+\. Pass its toarray"):
        Bags.from_list([make(np.eye(3))])


@pytest.mark.parametrize("bags", [3, None, "images", b"bytes"])
def test_what_is_no_list_of_arrays_is_refused(bags):
    with pytest.raises(DataError, match="expected Bags or a list of arrays"):
        as_bags(bags)


def test_bags_and_chosen_bags_survive_pickling(bags):
    for chosen in (bags, bags[[2, 0, 0]], bags[1:3], bags[[]]):
        again = pickle.loads(pickle.dumps(chosen))
        assert_same(again, list(chosen))
        assert_about_is_carried(again, chosen.digests.tolist())


def test_no_bags_and_only_empty_bags_are_bags():
    nothing, empties = Bags.from_list([]), Bags.from_list([np.empty((0, 4)), []])
    assert (len(nothing), nothing.n_descriptors, nothing.values.shape) == (0, 0, (0, 0))
    assert (len(empties), empties.n_descriptors, empties.n_dims) == (2, 0, 4)
