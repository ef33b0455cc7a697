from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bowsaw.checkpoint import read_npy as checked_npy
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.numpy_files import read_npy, read_npz, write_npy, write_npz
from bowsaw.formats.reader import Matrices
from bowsaw.store.histograms import HistogramWriter


def array_of(file):
    """Read an array as read_npy does, whatever its shape."""
    try:
        return checked_npy(file, len(file.getvalue()))
    except Exception as error:
        raise FormatError(str(error)) from error


NUMBERS = st.sampled_from(["<f4", "<f8", ">f4", "<f2", "u1", "<i4", ">i8", "?", "<c8", "<U3"])


def npy(header, data=b"", version=1):
    text = header.encode("latin-1")
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return io.BytesIO(b"\x93NUMPY" + bytes([version, 0]) + length + text + data)


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    return file


# -- .npy ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data(), NUMBERS, st.booleans())
def test_an_array_is_read_as_numpy_does(data, dtype, in_columns):
    array = data.draw(arrays(dtype, array_shapes(min_dims=0, max_dims=3, max_side=4)))
    array = np.asfortranarray(array) if in_columns else array
    np.testing.assert_array_equal(array_of(saved(array)), np.load(saved(array)))
    assert array_of(saved(array)).dtype == array.dtype


def test_every_version_of_the_header_is_read():
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n"
    for version in (1, 2, 3):
        assert array_of(npy(header, bytes(8), version)).shape == (1, 2)
    # Other writers order and space it otherwise, and Python 2 wrote long numbers.
    for header in (
        "{'shape':(1,2),'fortran_order':False,'descr':'<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 2L)}   \n",
    ):
        assert array_of(npy(header, bytes(8))).shape == (1, 2)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '|O8', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<g16', 'fortran_order': False, 'shape': (), }",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (9,), }",
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': __import__('os'), 'shape': (1, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'fortran_order': False, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999, 99999999999), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }",
        "(" * 5000,
        " " * 20_000,
    ],
)
def test_a_header_of_anything_else_is_refused(header):
    with pytest.raises(FormatError):
        array_of(npy(header, bytes(8)))


def test_objects_are_refused_and_not_unpickled(tmp_path):
    path = tmp_path / "o.npy"
    np.save(path, np.array([[pytest]], dtype=object).astype(str).astype(object), allow_pickle=True)
    with path.open("rb") as file, pytest.raises(FormatError, match="not numbers or texts"):
        read_npy(file)
    found = read_npz(npz(words=np.eye(2), o=np.array([None])))
    assert list(found.found) == ["words"]
    assert "unusable" in found.refused["o"]


def test_only_matrices_of_real_numbers_are_words():
    assert read_npy(saved(np.eye(2, dtype=np.uint8))).found["array"].tolist() == [[1, 0], [0, 1]]
    for other in (np.ones(3), np.ones((1, 1, 2)), np.ones((2, 2), complex), np.ones((2, 2), bool)):
        assert list(read_npy(saved(other)).refused) == ["array"]


# -- .npz ------------------------------------------------------------------------------------------


def npz(compressed=False, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file


def test_all_of_a_codebook_comes_back_and_bytes_are_equal(full_book, tmp_path):
    path = tmp_path / "b.npz"
    for this in (full_book, Codebook([[1.0]]), Codebook([[1.0]], trained_on=[])):
        write_npz(this, path)
        with path.open("rb") as file:
            again = read_npz(file)
        assert again == this
        first = path.read_bytes()
        write_npz(again, path)
        assert path.read_bytes() == first


def test_numpy_reads_ours(full_book, tmp_path):
    write_npz(full_book, tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["words"], full_book.words)
        np.testing.assert_array_equal(arrays["ids"], full_book.ids)
        assert json.loads(arrays["metadata"].item())["scale"] == 512
    write_npy(full_book, tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), full_book.words, strict=True)


@pytest.mark.parametrize("compressed", [False, True])
def test_matrices_of_others_are_found(compressed):
    found = read_npz(npz(compressed, centers=np.eye(4), y=np.arange(3), name=np.array("x")))
    assert isinstance(found, Matrices)
    assert list(found.found) == ["centers"]
    assert set(found.refused) == {"y", "name"}


def test_histograms_are_not_words(tmp_path):
    writer = HistogramWriter(tmp_path / "h.npz", (1, 2), {"name": "x"})
    writer.mark_done(1)
    writer.finish(y=[0], classes=["a"], paths=["a/1"], words=[0, 1], metadata={})
    with (tmp_path / "h.npz").open("rb") as file, pytest.raises(FormatError, match="histograms"):
        read_npz(file)


@pytest.mark.parametrize(
    "change",
    [{"scale": "wide"}, {"metric": "cosine"}, {"description": [1]}, {"format_version": "2"}],
)
def test_our_metadata_must_be_right(full_book, tmp_path, change):
    write_npz(full_book, tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as found:
        arrays = dict(found)
    metadata = json.loads(arrays["metadata"].item()) | change
    with pytest.raises(FormatError):
        read_npz(npz(**arrays | {"metadata": np.array(json.dumps(metadata))}))
    with pytest.raises(FormatError, match="damaged"):
        read_npz(npz(**arrays | {"more": np.zeros(1)}))


def test_other_archives_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(FormatError, match="without arrays"):
        read_npz(file)
    with pytest.raises(FormatError, match="directory"):
        read_npz(io.BytesIO(b"PK\x03\x04" + bytes(40)))
