"""Files of unknown origin: bounded memory, and which matrix, which way round, are the words."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats import reader
from bowsaw.formats.reader import Axes, ByteReader, Matrices, inflate, inflation_limit, open_archive


def zipped(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file


def peak_bytes(match, call, *arguments):
    """Return the memory that a call that fails has asked for."""
    tracemalloc.start()
    try:
        with pytest.raises((FormatError, zipfile.BadZipFile), match=match):
            call(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_claim_beyond_the_file_allocates_nothing():
    for claim in (5, 2**40, -1):
        message = f"the words should take {claim:,} bytes and 4 are left"
        source = ByteReader(io.BytesIO(bytes(4)))
        assert peak_bytes(message, source.take, claim, "the words") < 100_000
    file = io.BytesIO(bytes(8))
    source = ByteReader(file)
    file.truncate(2)
    with pytest.raises(FormatError, match="has changed meanwhile"):
        source.take(8, "the words")
    assert reader.printable("a\n" * 40, 8) == "a\\na\\na…"


def test_compressed_data_are_read_in_chunks_and_stopped_at_the_limit():
    limits = [inflation_limit(size) for size in (0, 10**6, 10**12)]
    assert limits == [2**20, 5 * 10**7 + 2**20, reader.MAX_BYTES]
    bomb = zlib.compress(bytes(50_000_000), 9)
    limit = inflation_limit(len(bomb))
    assert peak_bytes("inflates to more than", inflate, [bomb], limit) < 3 * limit < 20_000_000
    data = bytes(range(256)) * 40
    packed = zlib.compress(data)
    for size in (1, 7, 10_000):
        cut = [packed[i : i + size] for i in range(0, len(packed), size)]
        assert inflate(cut, len(data)) == data
    for wrong, message in (
        (b"", "cut off"),
        (packed[:-1], "cut off"),
        (packed + b"x", "follow the end"),
        (b"no zlib at all", "damaged"),
        (packed + packed, "follow the end"),
    ):
        with pytest.raises(FormatError, match=message):
            inflate([wrong], len(data))
    with pytest.raises(FormatError, match="more than"):
        inflate([packed], len(data) - 1)


def test_strange_archives_are_refused():
    with pytest.warns(UserWarning, match="Duplicate name"):
        twins = zipped([("a", b"1"), ("a", b"2")])
    paths = ("../a.npy", "/a.npy", "a\\b.npy", "c:a", "..")
    for archive, message in (
        *((zipped([(name, b"x")]), "a path, not a plain name") for name in paths),
        (zipped([("a" * 101, b"x")]), "unprintable or long name"),
        (twins, "the same name"),
        (zipped([(str(i), b"") for i in range(1001)]), "1,001 members"),
    ):
        with pytest.raises(FormatError, match=message):
            open_archive(archive)
    with pytest.raises(ValueError, match="other than deflate"):
        open_archive(zipped([("a", b"x")], zipfile.ZIP_BZIP2)).read("a")


def test_bombs_and_lies_of_an_archive_allocate_nothing():
    bomb = zipped([("a", bytes(50_000_000))])
    assert peak_bytes("it unpacks to 50,000,000 bytes", open_archive, bomb) < 1_000_000
    # The length stands in the entry and in the directory; both now say 10.
    honest = zipped([("a", bytes(2_000_000))]).getvalue()
    lying = honest.replace(struct.pack("<I", 2_000_000), struct.pack("<I", 10))
    assert peak_bytes("Bad CRC", open_archive(io.BytesIO(lying)).read, "a") < 1_000_000
    whole = zipped([("a", b"x")]).getvalue()
    end = whole.rindex(b"PK\x05\x06")
    for size, offset in ((2**32 - 2, 0), (46, 2**32 - 2), (2**31, 2**31)):
        damaged = whole[: end + 12] + struct.pack("<II", size, offset) + whole[end + 20 :]
        peak = peak_bytes("directory cannot be read", open_archive, io.BytesIO(damaged))
        assert peak < 1_000_000


def one(shape, axes=Axes.UNKNOWN, **more):
    return Matrices("test", axes, {"words": np.arange(np.prod(shape)).reshape(shape)}, **more)


def shape_read(found, **options):
    book = found.codebook("x.mat", **options)
    return book.words.shape, book.provenance["read_from"]["layout"]


def test_a_doubtful_shape_needs_a_layout():
    shapes = [(4, 4), (128, 128), (3, 5), (128, 384), (128, 60), (60, 128), (64, 1000)]
    doubtful = [one(shape) for shape in shapes]
    for found in (*doubtful, one((128, 1000), Axes.PROBABLY_ROWS)):
        shape = found.found["words"].shape
        sizes = f"{shape[0]:,} × {shape[1]:,}"
        with pytest.raises(ParameterError, match=rf"{sizes}.*layout='rows' .* layout='columns'"):
            found.codebook("x.mat")
        assert shape_read(found, layout="rows") == (shape, "rows")
        assert shape_read(found, layout="columns") == (shape[::-1], "columns")
    with pytest.raises(ParameterError, match=r"'rows', 'columns'; got 'sideways'"):
        one((2, 3)).codebook("x", layout="sideways")


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
    assert one((2, 3), Axes.COLUMNS).codebook("x").words.tolist() == [[0, 3], [1, 4], [2, 5]]


def several(**matrices):
    return Matrices("test", Axes.ROWS, matrices, {"notes": "a text"})


def test_of_several_matrices_one_must_be_named():
    # Numbers and vectors do not count.
    found = several(k=np.ones((1, 1)), idf=np.ones((1, 3)), words=np.eye(3), y=np.ones((3, 1)))
    assert found.codebook("x").provenance["read_from"]["variable"] == "words"
    assert several(only=np.ones((1, 3))).codebook("x").words.shape == (1, 3)
    found = several(a=np.eye(3), b=np.ones((2, 4)))
    assert found.codebook("x", "b").words.shape == (2, 4)
    for matrices, name, error, message in (
        (found, None, ParameterError, r"a \(3 × 3\), b \(2 × 4\).* variable='a'"),
        (found, "c", ParameterError, r"no matrix 'c'; it holds a \(3 × 3\), b"),
        (found, "notes", FormatError, "holds notes, which is a text"),
        (several(), None, FormatError, "no matrix that could be words: notes is a text"),
        (several(**{f"m{i}": np.eye(2) for i in range(100)}), None, ParameterError, "m1"),
    ):
        with pytest.raises(error, match=message) as caught:
            matrices.codebook("x", name)
        assert len(str(caught.value)) < 500


def test_words_that_make_no_codebook_are_refused():
    for bad in (np.nan, np.inf, 1e300):
        found = several(words=np.array([[1.0, bad]]))
        with pytest.raises(FormatError, match="holds no vocabulary in words: words must be finite"):
            found.codebook("x")
    with pytest.raises(ParameterError, match="scale must be"):
        one((2, 3), Axes.ROWS).codebook("x", scale=-1.0)
    with pytest.raises(FormatError, match="ids must be distinct"):
        one((2, 3), Axes.ROWS, ids=np.array([7, 7])).codebook("x")
