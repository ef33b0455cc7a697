"""Files of unknown origin: bounded memory, and which matrix, which way round, are the words."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats import reader
from bowsaw.formats.reader import (
    Axes,
    ByteReader,
    Matrices,
    inflate,
    inflation_limit,
    open_archive,
    printable,
)


def zipped(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file


def peak_bytes(call, *arguments):
    """Return the memory that a call that fails has asked for, and its message."""
    tracemalloc.start()
    try:
        with pytest.raises((FormatError, zipfile.BadZipFile)) as caught:
            call(*arguments)
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def test_a_claim_beyond_the_file_allocates_nothing():
    for claim in (5, 2**40, -1):
        peak, message = peak_bytes(ByteReader(io.BytesIO(bytes(4))).take, claim, "the words")
        assert peak < 100_000
        assert f"the words should take {claim:,} bytes and 4 are left" in message


def test_a_file_that_shrinks_while_it_is_read_is_refused():
    file = io.BytesIO(bytes(8))
    source = ByteReader(file)
    file.truncate(2)
    with pytest.raises(FormatError, match="has changed meanwhile"):
        source.take(8, "the words")


def test_text_of_a_file_is_one_short_line_in_messages():
    assert printable("a\n" * 40, 8) == "a\\na\\na…"


def test_a_bomb_is_stopped_at_the_limit():
    assert inflation_limit(0) == 2**20
    assert inflation_limit(10**6) == 5 * 10**7 + 2**20
    assert inflation_limit(10**12) == reader.MAX_BYTES
    bomb = zlib.compress(bytes(50_000_000), 9)
    assert len(bomb) < 50_000
    peak, message = peak_bytes(inflate, [bomb], inflation_limit(len(bomb)))
    assert peak < 3 * inflation_limit(len(bomb)) < 20_000_000
    assert "inflates to more than" in message


def test_compressed_data_are_read_in_chunks_of_any_size():
    data = bytes(range(256)) * 40
    packed = zlib.compress(data)
    for size in (1, 7, 10_000):
        cut = [packed[i : i + size] for i in range(0, len(packed), size)]
        assert inflate(cut, len(data)) == data
    with pytest.raises(FormatError, match="more than"):
        inflate([packed], len(data) - 1)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "cut off"),
        (zlib.compress(b"words")[:-1], "cut off"),
        (zlib.compress(b"words") + b"x", "follow the end"),
        (b"no zlib at all", "damaged"),
    ],
)
def test_damaged_compressed_data_are_refused(packed, message):
    with pytest.raises(FormatError, match=message):
        inflate([packed], 100)


# -- archives --------------------------------------------------------------------------------------


def test_strange_archives_are_refused():
    for name in ("../a.npy", "/a.npy", "a\\b.npy", "c:a", ".."):
        with pytest.raises(FormatError, match="a path, not a plain name"):
            open_archive(zipped([(name, b"x")]))
    with pytest.raises(FormatError, match="unprintable or long name"):
        open_archive(zipped([("a" * 101, b"x")]))
    with pytest.warns(UserWarning, match="Duplicate name"):
        twins = zipped([("a", b"1"), ("a", b"2")])
    with pytest.raises(FormatError, match="the same name"):
        open_archive(twins)
    with pytest.raises(ValueError, match="other than deflate"):
        open_archive(zipped([("a", b"x")], zipfile.ZIP_BZIP2)).read("a")
    with pytest.raises(FormatError, match="1,001 members"):
        open_archive(zipped([(str(i), b"") for i in range(1001)]))


def test_a_bomb_is_refused_before_it_is_unpacked():
    peak, message = peak_bytes(open_archive, zipped([("a", bytes(50_000_000))]))
    assert peak < 1_000_000
    assert "it unpacks to 50,000,000 bytes" in message


def test_a_member_cannot_be_longer_than_it_says_or_damaged():
    honest = zipped([("a", bytes(2_000_000))]).getvalue()
    # The length stands in the entry and in the directory; both now say 10.
    lying = honest.replace(struct.pack("<I", 2_000_000), struct.pack("<I", 10))
    peak, message = peak_bytes(open_archive(io.BytesIO(lying)).read, "a")
    assert peak < 1_000_000
    assert "Bad CRC" in message
    whole = bytearray(zipped([("a", b"words")], zipfile.ZIP_STORED).getvalue())
    whole[35] ^= 1
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC"):
        open_archive(io.BytesIO(bytes(whole))).read("a")


def test_a_directory_that_claims_too_much_is_refused():
    whole = zipped([("a", b"x")]).getvalue()
    end = whole.rindex(b"PK\x05\x06")
    for size, offset in ((2**32 - 2, 0), (46, 2**32 - 2), (2**31, 2**31)):
        damaged = whole[: end + 12] + struct.pack("<II", size, offset) + whole[end + 20 :]
        peak, message = peak_bytes(open_archive, io.BytesIO(damaged))
        assert peak < 1_000_000
        assert "directory cannot be read" in message


# -- rows or columns -------------------------------------------------------------------------------


def one(shape, axes=Axes.UNKNOWN, **more):
    return Matrices("test", axes, {"words": np.arange(np.prod(shape)).reshape(shape)}, **more)


def shape_read(found, **options):
    book = found.codebook("x.mat", **options)
    return book.words.shape, book.provenance["read_from"]["layout"]


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        *((Axes.UNKNOWN, shape) for shape in ((4, 4), (128, 128), (3, 5), (128, 384), (128, 60))),
        *((Axes.UNKNOWN, shape) for shape in ((60, 128), (64, 1000))),
        (Axes.PROBABLY_ROWS, (128, 1000)),
    ],
)
def test_a_doubtful_shape_needs_a_layout(axes, shape):
    found = one(shape, axes)
    with pytest.raises(ParameterError, match=r"layout='rows' .* layout='columns'") as caught:
        found.codebook("x.mat")
    assert f"{shape[0]:,} × {shape[1]:,}" in str(caught.value)
    assert shape_read(found, layout="rows") == (shape, "rows")
    assert shape_read(found, layout="columns") == (shape[::-1], "columns")


def test_a_clear_shape_or_a_convention_needs_none():
    with pytest.warns(UserWarning, match=r"1,000 words of 128 dimensions, one word per column"):
        assert shape_read(one((128, 1000))) == ((1000, 128), "columns")
    for shape in ((1000, 128), (1000, 384)):
        assert shape_read(one(shape)) == (shape, "rows")
    for shape in ((4, 4), (3, 5), (5, 3), (1000, 128), (128, 128), (128, 60)):
        assert shape_read(one(shape, Axes.PROBABLY_ROWS)) == (shape, "rows")
    for shape in ((128, 1000), (4, 4)):
        assert shape_read(one(shape, Axes.ROWS)) == (shape, "rows")
        assert shape_read(one(shape, Axes.COLUMNS)) == (shape[::-1], "columns")
    found = Matrices("test", Axes.COLUMNS, {"w": np.array([[1, 2, 3], [4, 5, 6]])})
    assert found.codebook("x").words.tolist() == [[1, 4], [2, 5], [3, 6]]
    with pytest.raises(ParameterError, match=r"'rows', 'columns'; got 'sideways'"):
        one((2, 3)).codebook("x", layout="sideways")


# -- which matrix ----------------------------------------------------------------------------------


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
    with pytest.raises(FormatError, match="no matrix that could be words: notes is a text"):
        several().codebook("x")
    with pytest.raises(ParameterError) as caught:
        several(**{f"m{i}": np.eye(2) for i in range(100)}).codebook("x")
    assert len(str(caught.value)) < 500


def test_words_that_make_no_codebook_are_refused():
    for bad in (np.nan, np.inf, 1e300):
        found = several(words=np.array([[1.0, bad]]))
        with pytest.raises(FormatError, match="holds no vocabulary in words: words must be finite"):
            found.codebook("x")
    with pytest.raises(ParameterError, match="scale must be"):
        one((2, 3), Axes.ROWS).codebook("x", scale=-1.0)
    ids = np.array([7, 2])
    assert one((2, 3), Axes.ROWS, ids=ids).codebook("x").ids.tolist() == [7, 2]
    with pytest.raises(FormatError, match="ids must be distinct"):
        one((2, 3), Axes.ROWS, ids=ids * 0).codebook("x")
