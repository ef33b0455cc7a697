from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
import zlib

import pytest

from bowsaw.errors import FormatError
from bowsaw.formats import reader
from bowsaw.formats.reader import ByteReader, inflate, inflation_limit, open_archive


def zipped(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file


def peak_bytes(call, *arguments, **options):
    """The memory that a call that fails has asked for."""
    tracemalloc.start()
    try:
        with pytest.raises((FormatError, zipfile.BadZipFile)) as told:
            call(*arguments, **options)
        return tracemalloc.get_traced_memory()[1], str(told.value)
    finally:
        tracemalloc.stop()


def test_a_claim_beyond_the_file_allocates_nothing():
    for claim in (5, 2**40, -1):
        peak, told = peak_bytes(ByteReader(io.BytesIO(bytes(4))).take, claim, "the words")
        assert peak < 100_000
        assert f"the words should take {claim:,} bytes and 4 are left" in told


def test_a_file_that_shrinks_while_it_is_read_is_told():
    file = io.BytesIO(bytes(8))
    source = ByteReader(file)
    file.truncate(2)
    with pytest.raises(FormatError, match="has changed meanwhile"):
        source.take(8, "the words")


def test_a_bomb_is_stopped_at_the_limit():
    bomb = zlib.compress(bytes(50_000_000), 9)
    assert len(bomb) < 50_000
    peak, told = peak_bytes(inflate, [bomb], inflation_limit(len(bomb)))
    assert peak < 3 * inflation_limit(len(bomb)) < 20_000_000
    assert "inflates to more than" in told


def test_what_is_packed_comes_out_whole_in_any_pieces():
    data = bytes(range(256)) * 40
    packed = zlib.compress(data)
    for size in (1, 7, 10_000):
        cut = [packed[i : i + size] for i in range(0, len(packed), size)]
        assert inflate(cut, len(data)) == data
    with pytest.raises(FormatError, match="more than"):
        inflate([packed], len(data) - 1)


@pytest.mark.parametrize(
    ("packed", "told"),
    [
        (b"", "cut off"),
        (zlib.compress(b"words")[:-1], "cut off"),
        (zlib.compress(b"words") + b"x", "follow the end"),
        (b"no zlib at all", "damaged"),
    ],
)
def test_damage_inside_is_told(packed, told):
    with pytest.raises(FormatError, match=told):
        inflate([packed], 100)


# -- archives --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../a.npy", "a/b.npy", "/a.npy", "a\\b.npy", "c:a", ".."])
def test_members_are_names_and_not_paths(name):
    with pytest.raises(FormatError, match="a path, not a plain name"):
        open_archive(zipped([(name, b"x")]))


def test_members_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate name"):
        twins = zipped([("a", b"1"), ("a", b"2")])
    with pytest.raises(FormatError, match="the same name"):
        open_archive(twins)


def test_other_packings_and_too_many_members_are_refused():
    with pytest.raises(ValueError, match="other than deflate"):
        open_archive(zipped([("a", b"x")], zipfile.ZIP_BZIP2)).read("a")
    with pytest.raises(FormatError, match="1,001 members"):
        open_archive(zipped([(str(i), b"") for i in range(1001)]))


def test_a_bomb_is_refused_before_it_is_unpacked():
    bomb = zipped([("a", bytes(50_000_000))])
    peak, told = peak_bytes(open_archive, bomb)
    assert peak < 1_000_000
    assert "it unpacks to 50,000,000 bytes" in told


def test_a_member_cannot_be_longer_than_it_says():
    honest = zipped([("a", bytes(2_000_000))], zipfile.ZIP_DEFLATED).getvalue()
    # The length stands in the entry and in the directory; both now say 10.
    lying = honest.replace(struct.pack("<I", 2_000_000), struct.pack("<I", 10))
    peak, told = peak_bytes(open_archive(io.BytesIO(lying)).read, "a")
    assert peak < 1_000_000
    assert "Bad CRC" in told


def test_a_member_with_a_bit_turned_over_is_told():
    whole = bytearray(zipped([("a", b"words and words")], zipfile.ZIP_STORED).getvalue())
    whole[35] ^= 1
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC"):
        open_archive(io.BytesIO(bytes(whole))).read("a")


def test_a_directory_that_claims_too_much_is_told():
    whole = zipped([("a", b"x")]).getvalue()
    end = whole.rindex(b"PK\x05\x06")
    for size, offset in ((2**32 - 2, 0), (46, 2**32 - 2), (2**31, 2**31)):
        damaged = whole[: end + 12] + struct.pack("<II", size, offset) + whole[end + 20 :]
        peak, told = peak_bytes(open_archive, io.BytesIO(damaged))
        assert peak < 1_000_000
        assert "directory cannot be read" in told


def test_the_inflation_limit_grows_with_the_file_up_to_a_limit():
    assert inflation_limit(0) == 2**20
    assert inflation_limit(10**6) == 5 * 10**7 + 2**20
    assert inflation_limit(10**12) == reader.MAX_BYTES
