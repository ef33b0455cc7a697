from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.matlab import read_matlab, write_matlab

WORDS = np.random.default_rng(0).normal(size=(200, 128)).astype(np.float32)


def saved(variables, **options):
    """What scipy.io writes."""
    file = io.BytesIO()
    scipy.io.savemat(file, variables, **options)
    file.seek(0)
    return file


# -- files of others -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"do_compression": False}, {"do_compression": True}, {"format": "4"}]
)
def test_matrices_of_each_type_are_read(options):
    for dtype in ("f4", "f8", "u1", "i2", "u2", "i4", "i1", "u4", "i8", "u8"):
        matrix = (WORDS[:6, :4] * 50).astype(dtype)
        if "format" not in options or dtype in ("f4", "f8", "u1", "i2", "u2", "i4"):
            found = read_matlab(saved({"words": matrix, "x": 3}, **options))
            np.testing.assert_array_equal(found.found["words"], matrix)
    # VLFeat keeps columns; a square needs a layout.
    with pytest.warns(UserWarning, match="200 words of 128 dimensions, one word per column"):
        book = read_matlab(saved({"centers": WORDS.T}, **options)).codebook("v.mat")
    np.testing.assert_array_equal(book.words, WORDS)
    with pytest.raises(ParameterError, match="whether a word is a row or a column"):
        read_matlab(saved({"C": WORDS[:128]}, **options)).codebook("v.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_values_that_are_no_matrix_are_named(compressed):
    others = {
        "a_cell": np.array([[1, "x"]], dtype=object),
        "a_struct": {"centers": WORDS},
        "a_text": "words",
        "a_sparse": scipy.sparse.csc_array(np.eye(3)),
        "a_complex": np.ones((2, 2)) * 1j,
        "a_cube": np.ones((2, 2, 2)),
        "an_empty": np.ones((0, 3)),
    }
    found = read_matlab(saved(others, do_compression=compressed))
    assert found.found == {}
    assert set(found.refused) == set(others)
    with pytest.raises(FormatError) as caught:
        found.codebook("v.mat")
    for part in ("a_cell is a cell array", "a_struct is a structure", "a_text is a text"):
        assert part in str(caught.value)
    with pytest.raises(FormatError, match="holds a_sparse, which is sparse"):
        found.codebook("v.mat", "a_sparse")
    others = {"t": "words", "c": np.ones((2, 2)) * 1j, "s": scipy.sparse.csc_array(np.eye(3))}
    found = read_matlab(saved(others, format="4"))
    assert dict(found.refused) == {"t": "a text", "c": "complex", "s": "sparse"}


def element(kind, data, order="<"):
    return struct.pack(order + "II", kind, len(data)) + data + bytes(-len(data) % 8)


def variable(order, name=b"w", flags=6, sizes=(2, 2), numbers=None):
    numbers = struct.pack(order + "4d", 1, 2, 3, 4) if numbers is None else numbers
    inside = (
        element(6, struct.pack(order + "II", flags, 0), order)
        + element(5, struct.pack(f"{order}{len(sizes)}i", *sizes), order)
        + element(1, name, order)
        + element(9, numbers, order)
    )
    return element(14, inside, order)


def header(order="<", version=0x0100):
    return (
        b"MATLAB 5.0 MAT-file".ljust(124)
        + struct.pack(order + "H", version)
        + (b"IM" if order == "<" else b"MI")
    )


def read_parts(*parts):
    return read_matlab(io.BytesIO(b"".join(parts)))


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_order_of_bytes_is_read(order):
    assert read_parts(header(order), variable(order)).found["w"].tolist() == [[1, 3], [2, 4]]
    packed = zlib.compress(variable(order))
    tag = struct.pack(order + "II", 15, len(packed))
    assert read_parts(header(order), tag, packed).found["w"].tolist() == [[1, 3], [2, 4]]
    old = struct.pack(order + "5i", 1000 * (order == ">"), 2, 2, 0, 2) + b"w\0"
    numbers = struct.pack(order + "4d", 1, 2, 3, 4)
    assert read_parts(old, numbers).found["w"].tolist() == [[1, 3], [2, 4]]


# -- files of ours ---------------------------------------------------------------------------------


def test_scipy_and_we_read_what_we_write(tmp_path):
    path = tmp_path / "b.mat"
    for words in (WORDS, WORDS[:128], WORDS[:3, :5]):
        book = Codebook(words)
        write_matlab(book, path)
        found = scipy.io.loadmat(path)["vocabulary"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, book.words.T)
        # The header states the layout, so that even a square needs none.
        with path.open("rb") as file:
            assert read_matlab(file).codebook("b").words.tobytes() == book.words.tobytes()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"\x89HDF\r\n\x1a\n" + bytes(600), header(version=0x0200) + bytes(400)]
)
def test_version_7_3_is_refused_with_the_remedy(content):
    with pytest.raises(FormatError, match=r"HDF5.*'-v7'"):
        read_matlab(io.BytesIO(content))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((b"",), "header"),
        ((b"MATLAB",), "header"),
        ((header()[:126] + b"XX",), "header is not that"),
        ((header(version=0x0300),), "header is not that"),
        ((header(), b"\x0e\0\0\0"), "a tag"),
        ((header(), struct.pack("<II", 14, 2**32 - 1)), "a variable should take 4,294,967,295"),
        ((header(), element(14, b"")), "flags"),
        ((header(), element(14, element(6, b""))), "no flags"),
        ((header(), variable("<", sizes=(2, 3))), "4 numbers for the sizes"),
        ((header(), variable("<", sizes=(2**31 - 1, 2**31 - 1))), "4 numbers for the sizes"),
        ((header(), variable("<", sizes=(-2, -2))), "damaged"),
        ((header(), variable("<", sizes=(4,))), "damaged"),
        ((header(), variable("<", numbers=bytes(31))), "within a number"),
        ((header(), variable("<"), variable("<")), "two variables called 'w'"),
        ((header(), element(15, b"no zlib at all!!")), "damaged"),
        ((header(), element(15, zlib.compress(b"abc"))), "tag|follow the end"),
        ((struct.pack("<5i", 9999, 2, 2, 0, 2), b"w\0"), "header is not that"),
        ((struct.pack("<5i", 0, -2, 2, 0, 2), b"w\0"), "damaged"),
        ((struct.pack("<5i", 0, 2, 2, 7, 2), b"w\0"), "damaged"),
        ((struct.pack("<5i", 0, 2, 2, 0, -1), b"w\0"), "a name"),
        ((struct.pack("<5i", 0, 2**31 - 1, 2**31 - 1, 0, 2), b"w\0"), "numbers of w"),
    ],
)
def test_damaged_files_are_refused(parts, message):
    with pytest.raises(FormatError, match=message):
        read_parts(*parts)


def test_a_name_in_utf8_is_read():
    whole = header() + variable("<", name=b"words")
    at = whole.index(b"words") - 8
    renamed = whole[:at] + struct.pack("<I", 16) + whole[at + 4 :]
    assert list(read_matlab(io.BytesIO(renamed)).found) == ["words"]


def test_objects_and_variables_without_a_name_are_skipped():
    flags, name = struct.pack("<II", 17, 0), b"net"
    opaque = element(14, element(6, flags) + element(1, name) + element(1, b"MCOS"))
    found = read_parts(header(), opaque, variable("<", name=b""), variable("<"))
    assert found.refused == {"net": "an object"}
    assert list(found.found) == ["w"]


def test_bombs_and_many_variables_are_stopped():
    bomb = zlib.compress(bytes(20_000_000), 9)
    one = struct.pack("<II", 15, len(bomb)) + bomb
    with pytest.raises(FormatError, match="inflates to more than"):
        read_parts(header(), one)
    # Each of these is within the limit; together they are not.
    small = zlib.compress(variable("<", sizes=(400, 125), numbers=bytes(400_000)), 9)
    part = struct.pack("<II", 15, len(small)) + small
    with pytest.raises(FormatError, match=r"inflates to more than|two variables"):
        read_parts(header(), *[part] * 100)
    old = struct.pack("<5i", 0, 0, 0, 0, 6)
    with pytest.raises(FormatError, match="more than 10,000"):
        read_parts(*(old + b"a%04x\0" % i for i in range(10_001)))
