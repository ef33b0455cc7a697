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


def read_saved(variables, **options):
    """Read what scipy.io writes."""
    file = io.BytesIO()
    scipy.io.savemat(file, variables, **options)
    file.seek(0)
    return read_matlab(file)


@pytest.mark.parametrize(
    "options", [{"do_compression": False}, {"do_compression": True}, {"format": "4"}]
)
def test_matrices_of_each_type_are_read(options):
    for dtype in ("f4", "f8", "u1", "i2", "u2", "i4", "i1", "u4", "i8", "u8"):
        matrix = (WORDS[:6, :4] * 50).astype(dtype)
        if "format" not in options or dtype in ("f4", "f8", "u1", "i2", "u2", "i4"):
            found = read_saved({"words": matrix, "x": 3}, **options)
            np.testing.assert_array_equal(found.found["words"], matrix)
    # VLFeat keeps columns; a square needs a layout.
    with pytest.warns(UserWarning, match="200 words of 128 dimensions, one word per column"):
        book = read_saved({"centers": WORDS.T}, **options).codebook("v.mat")
    np.testing.assert_array_equal(book.words, WORDS)
    with pytest.raises(ParameterError, match="whether a word is a row or a column"):
        read_saved({"C": WORDS[:128]}, **options).codebook("v.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_values_that_are_no_matrix_are_named(compressed):
    old = {"t": "words", "c": np.ones((2, 2)) * 1j, "s": scipy.sparse.csc_array(np.eye(3))}
    others = {
        "a_cell": np.array([[1, "x"]], dtype=object),
        "a_struct": {"centers": WORDS},
        "a_cube": np.ones((2, 2, 2)),
        "an_empty": np.ones((0, 3)),
    }
    found = read_saved(old | others, do_compression=compressed)
    assert found.found == {}
    assert set(found.refused) == set(old | others)
    assert found.refused["a_cell"] == "a cell array"
    with pytest.raises(FormatError, match="a_struct is a structure"):
        found.codebook("v.mat")
    with pytest.raises(FormatError, match="holds s, which is sparse"):
        found.codebook("v.mat", "s")
    found = read_saved(old, format="4")
    assert dict(found.refused) == {"t": "a text", "c": "complex", "s": "sparse"}


def test_scipy_and_we_read_what_we_write(tmp_path):
    path = tmp_path / "b.mat"
    for words in (WORDS, WORDS[:128], WORDS[:3, :5]):
        write_matlab(Codebook(words), path)
        found = scipy.io.loadmat(path)["vocabulary"]
        np.testing.assert_array_equal(found, np.asfortranarray(words.T), strict=True)
        # The header states the layout, so that even a square needs none.
        again = read_matlab(io.BytesIO(path.read_bytes())).codebook("b")
        assert again.words.tobytes() == words.tobytes()


def element(kind, data, order="<"):
    return struct.pack(order + "II", kind, len(data)) + data + bytes(-len(data) % 8)


def packed(data, order="<"):
    data = zlib.compress(data, 9)
    return struct.pack(order + "II", 15, len(data)) + data


def variable(order="<", name=b"w", sizes=(2, 2), numbers=None, text=1):
    numbers = struct.pack(order + "4d", 1, 2, 3, 4) if numbers is None else numbers
    inside = [
        element(6, struct.pack(order + "II", 6, 0), order),
        element(5, struct.pack(f"{order}{len(sizes)}i", *sizes), order),
        element(text, name, order),
        element(9, numbers, order),
    ]
    return element(14, b"".join(inside), order)


def header(order="<", version=0x0100):
    mark = struct.pack(order + "H", version) + (b"IM" if order == "<" else b"MI")
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark


def old(*numbers, order="<", name=b"w\0"):
    return struct.pack(order + "5i", *numbers) + name


def read_parts(*parts):
    return read_matlab(io.BytesIO(b"".join(parts)))


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_order_of_bytes_is_read(order):
    one = variable(order)
    numbers = struct.pack(order + "4d", 1, 2, 3, 4)
    version_4 = old(1000 * (order == ">"), 2, 2, 0, 2, order=order)
    for parts in ((header(order), one), (header(order), packed(one, order)), (version_4, numbers)):
        assert read_parts(*parts).found["w"].tolist() == [[1, 3], [2, 4]]


def test_names_in_utf8_are_read_and_objects_and_nameless_variables_skipped():
    flags = element(6, struct.pack("<II", 17, 0))
    opaque = element(14, flags + element(1, b"net") + element(1, b"MCOS"))
    found = read_parts(header(), opaque, variable(name=b""), variable(name=b"words", text=16))
    assert found.refused == {"net": "an object"}
    assert list(found.found) == ["words"]


BOMB = packed(bytes(20_000_000))
# Each of these is within the limit; together they are not.
SMALL = [packed(variable(name=b"%c" % i, sizes=(400, 125), numbers=bytes(400_000))) for i in b"abc"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((b"MATLAB",), "header"),
        ((header()[:126] + b"XX",), "header is not that"),
        ((header(version=0x0300),), "header is not that"),
        ((header(version=0x0200), bytes(400)), r"HDF5.*'-v7'"),
        ((b"\x89HDF\r\n\x1a\n", bytes(600)), r"HDF5.*'-v7'"),
        ((header(), b"\x0e\0\0\0"), "a tag"),
        ((header(), struct.pack("<II", 14, 2**32 - 1)), "a variable should take 4,294,967,295"),
        ((header(), element(14, b"")), "flags"),
        ((header(), element(14, element(6, b""))), "no flags"),
        ((header(), variable(sizes=(2**31 - 1, 2**31 - 1))), "4 numbers for the sizes"),
        *(((header(), variable(sizes=sizes)), "damaged") for sizes in ((-2, -2), (4,))),
        ((header(), variable(numbers=bytes(31))), "within a number"),
        ((header(), variable(name=b"a b")), "a variable is called 'a b'"),
        ((header(), variable(), variable()), "two variables called 'w'"),
        ((header(), element(15, b"no zlib at all!!")), "damaged"),
        ((header(), packed(b"abc")), "tag"),
        ((header(), BOMB), "inflates to more than"),
        ((header(), *SMALL), "inflates to more than"),
        ((old(9999, 2, 2, 0, 2),), "header is not that"),
        *(((old(0, *numbers, 2),), "damaged") for numbers in ((-2, 2, 0), (2, 2, 7))),
        ((old(0, 2, 2, 0, -1),), "a name"),
        ((old(0, 2**31 - 1, 2**31 - 1, 0, 2),), "numbers of w"),
        ([old(0, 0, 0, 0, 6, name=b"a%04x\0" % i) for i in range(10_001)], "more than 10,000"),
    ],
)
def test_damaged_files_and_bombs_are_refused(parts, message):
    with pytest.raises(FormatError, match=message):
        read_parts(*parts)
