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
from bowsaw.store.histograms import HistogramWriter

NUMBERS = st.sampled_from(["<f4", "<f8", ">f4", "<f2", "u1", "<i4", ">i8", "?", "<c8", "<U3"])


def array_of(file):
    """Read an array as read_npy does, whatever its shape."""
    return checked_npy(file, len(file.getvalue()))


def npy(header, version=1):
    text = header.encode("latin-1")
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return io.BytesIO(b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(8))


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    return file


def npz(save=np.savez, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file


@settings(max_examples=60, deadline=None)
@given(st.data(), NUMBERS, st.booleans())
def test_an_array_is_read_as_numpy_does(data, dtype, in_columns):
    array = data.draw(arrays(dtype, array_shapes(min_dims=0, max_dims=3, max_side=4)))
    array = np.asfortranarray(array) if in_columns else array
    np.testing.assert_array_equal(array_of(saved(array)), np.load(saved(array)), strict=True)


def test_every_version_of_the_header_is_read():
    usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n"
    # Other writers order and space it otherwise, and Python 2 wrote long numbers.
    spaced = "{'shape':(1,2),'fortran_order':False,'descr':'<f4'}"
    for file in (
        npy(spaced),
        npy(usual.replace("1, 2", "1L, 2L")),
        *(npy(usual, v) for v in (2, 3)),
    ):
        assert array_of(file).shape == (1, 2)


def test_a_header_of_anything_else_is_refused():
    floats = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
    types = {"|O": "1, 2", "|V8": "1,", "<g16": "", "<f3": "1, 2", "<U0": "9,", "<U999999999": ""}
    large = "99999999999, 99999999999"
    for header in (
        *("", "{}", "(" * 5000, " " * 20_000),
        *(floats % shape for shape in ("1, -2", ",2", large, f"0, {large}", "1, 3", "1, 1")),
        *(floats.replace("<f4", kind) % shape for kind, shape in types.items()),
        floats.replace("'<f4'", "[('a', '<f4')]") % "2,",
        floats.replace("False", "__import__('os')") % "1, 2",
        floats.replace("'shape': (%s)", "'fortran_order': False"),
        floats.replace(", }", ", 'more': 1}") % "1, 2",
    ):
        with pytest.raises(FormatError):
            read_npy(npy(header))


def test_objects_are_not_unpickled_and_only_matrices_of_real_numbers_are_words():
    objects = np.array([[None]], dtype=object)
    with pytest.raises(FormatError, match="not numbers or texts"):
        read_npy(saved(objects))
    for save in (np.savez, np.savez_compressed):
        found = read_npz(npz(save, words=np.eye(2), o=objects, y=np.arange(3), n=np.array("x")))
        assert list(found.found) == ["words"]
        assert set(found.refused) == {"o", "y", "n"}
        assert "unusable" in found.refused["o"]
    assert read_npy(saved(np.eye(2, dtype=np.uint8))).found["array"].tolist() == [[1, 0], [0, 1]]
    for other in (np.ones(3), np.ones((1, 1, 2)), np.ones((2, 2), complex), np.ones((2, 2), bool)):
        assert list(read_npy(saved(other)).refused) == ["array"]


def test_we_and_numpy_read_what_we_write(full_book, tmp_path):
    path = tmp_path / "b.npz"
    for book in (Codebook([[1.0]]), Codebook([[1.0]], trained_on=[]), full_book):
        write_npz(book, path)
        first = path.read_bytes()
        again = read_npz(io.BytesIO(first))
        assert again == book
        write_npz(again, path)
        assert path.read_bytes() == first
    with np.load(path, allow_pickle=False) as found:
        arrays = dict(found)
    np.testing.assert_array_equal(arrays["words"], full_book.words)
    np.testing.assert_array_equal(arrays["ids"], full_book.ids)
    metadata = json.loads(arrays["metadata"].item())
    assert metadata["scale"] == 512
    write_npy(full_book, tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), full_book.words, strict=True)
    for name, wrong in (("scale", "wide"), ("metric", "cosine"), ("format_version", "2")):
        text = json.dumps(metadata | {name: wrong})
        with pytest.raises(FormatError):
            read_npz(npz(**arrays | {"metadata": np.array(text)}))
    with pytest.raises(FormatError, match="damaged"):
        read_npz(npz(**arrays, more=np.zeros(1)))


def test_histograms_and_other_archives_are_refused(tmp_path):
    writer = HistogramWriter(tmp_path / "h.npz", (1, 2), {"name": "x"})
    writer.mark_done(1)
    writer.finish(y=[0], classes=["a"], paths=["a/1"], words=[0, 1], metadata={})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "x")
    for content, message in (
        ((tmp_path / "h.npz").read_bytes(), "histograms"),
        (file.getvalue(), "without arrays"),
        (b"PK\x03\x04" + bytes(40), "directory"),
    ):
        with pytest.raises(FormatError, match=message):
            read_npz(io.BytesIO(content))
