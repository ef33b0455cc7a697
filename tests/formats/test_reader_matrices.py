"""Which matrix are the words, and which way round: the rules of the page on formats."""

from __future__ import annotations

import numpy as np
import pytest

from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.reader import Axes, Matrices


def one(shape, axes=Axes.UNKNOWN, **more):
    return Matrices("test", axes, {"words": np.arange(np.prod(shape)).reshape(shape)}, **more)


def shape_read(found, **options):
    book = found.codebook("x.mat", **options)
    return book.words.shape, book.provenance["read_from"]["layout"]


# -- which way round -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        *((Axes.UNKNOWN, shape) for shape in ((4, 4), (128, 128), (3, 5), (128, 384), (128, 60))),
        *((Axes.UNKNOWN, shape) for shape in ((60, 128), (64, 1000), (128, 144))),
        (Axes.PROBABLY_ROWS, (128, 1000)),
    ],
)
def test_what_is_doubtful_is_asked_for(axes, shape):
    found = one(shape, axes)
    with pytest.raises(ParameterError, match=r"layout='rows' .* layout='columns'") as told:
        found.codebook("x.mat")
    assert f"{shape[0]:,} × {shape[1]:,}" in str(told.value)
    assert shape_read(found, layout="rows") == (shape, "rows")
    assert shape_read(found, layout="columns") == (shape[::-1], "columns")


def test_columns_are_recognised_aloud():
    with pytest.warns(UserWarning, match=r"1,000 words of 128 dimensions, one word per column"):
        assert shape_read(one((128, 1000))) == ((1000, 128), "columns")


def test_rows_are_recognised():
    assert shape_read(one((1000, 128))) == ((1000, 128), "rows")
    assert shape_read(one((1000, 384))) == ((1000, 384), "rows")


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1000, 128), (128, 128), (128, 60)])
def test_arrays_have_rows(shape):
    assert shape_read(one(shape, Axes.PROBABLY_ROWS)) == (shape, "rows")


def test_a_custom_holds_whatever_the_shape():
    for shape in ((128, 1000), (4, 4)):
        assert shape_read(one(shape, Axes.ROWS)) == (shape, "rows")
        assert shape_read(one(shape, Axes.COLUMNS)) == (shape[::-1], "columns")


def test_turning_moves_numbers_to_where_they_belong():
    found = Matrices("test", Axes.COLUMNS, {"w": np.array([[1, 2, 3], [4, 5, 6]])})
    assert found.codebook("x").words.tolist() == [[1, 4], [2, 5], [3, 6]]


def test_an_unknown_layout_is_refused():
    with pytest.raises(ParameterError, match=r"'rows', 'columns'; got 'sideways'"):
        one((2, 3)).codebook("x", layout="sideways")


# -- which one -------------------------------------------------------------------------------------


def several(**matrices):
    return Matrices("test", Axes.ROWS, matrices, {"notes": "a text"})


def test_numbers_and_vectors_beside_a_matrix_do_not_count():
    found = several(k=np.ones((1, 1)), idf=np.ones((1, 3)), words=np.eye(3), y=np.ones((3, 1)))
    assert found.codebook("x").provenance["read_from"]["variable"] == "words"
    assert several(only=np.ones((1, 3))).codebook("x").words.shape == (1, 3)


def test_of_several_one_must_be_named():
    found = several(a=np.eye(3), b=np.ones((2, 4)))
    with pytest.raises(ParameterError, match=r"a \(3 × 3\), b \(2 × 4\).* variable='a'"):
        found.codebook("x")
    assert found.codebook("x", "b").words.shape == (2, 4)
    with pytest.raises(ParameterError, match=r"no matrix 'c'; it holds a \(3 × 3\), b"):
        found.codebook("x", "c")
    with pytest.raises(FormatError, match="holds notes, which is a text"):
        found.codebook("x", "notes")


def test_where_no_matrix_is_left_all_reasons_are_told():
    with pytest.raises(FormatError, match="no matrix that could be words: notes is a text"):
        several().codebook("x")


def test_long_lists_are_cut():
    found = several(**{f"m{i}": np.eye(2) for i in range(100)})
    with pytest.raises(ParameterError) as told:
        found.codebook("x")
    assert len(str(told.value)) < 500


# -- words that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_words_must_be_finite_numbers(bad):
    found = several(words=np.array([[1.0, bad]]))
    with pytest.raises(FormatError, match="holds no vocabulary in words: words must be finite"):
        found.codebook("x")


def test_a_scale_that_is_none_is_the_callers_error():
    with pytest.raises(ParameterError, match="scale must be"):
        one((2, 3), Axes.ROWS).codebook("x", scale=-1.0)


def test_ids_of_the_file_are_kept_or_refused():
    ids = np.array([7, 2])
    assert one((2, 3), Axes.ROWS, ids=ids).codebook("x").ids.tolist() == [7, 2]
    with pytest.raises(FormatError, match="ids must be distinct"):
        one((2, 3), Axes.ROWS, ids=ids * 0).codebook("x")
