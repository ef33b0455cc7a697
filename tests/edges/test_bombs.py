"""Small files that unfold to much, or claim to: refused, and cheaply."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import FormatError, ImageError
from bowsaw.formats.reader import inflation_limit
from bowsaw.images.decode import read_image

BIG = 200_000_000
"""Bytes that a bomb unfolds to."""


def zipped(name: str, content: bytes, times: int = 1) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(times):
            archive.writestr(name.format(number), content)
    return buffer.getvalue()


def npy(shape: tuple[int, ...], n_bytes: int) -> bytes:
    buffer = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + bytes(n_bytes)


def zeros(begins: bytes, n_bytes: int = BIG) -> bytes:
    """Compress a beginning and many zeros, without ever holding them."""
    machine = zlib.compressobj(9)
    block = bytes(1 << 20)
    pieces = [machine.compress(begins)]
    pieces += [machine.compress(block) for _ in range(n_bytes >> 20)]
    return b"".join([*pieces, machine.flush()])


@pytest.fixture(scope="module")
def inflating() -> bytes:
    return zeros(b"")


def matlab(inflating: bytes) -> bytes:
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    return head + struct.pack("<II", 15, len(inflating)) + inflating


def gzipped(inflating: bytes) -> bytes:
    # A zlib stream without its two bytes of header and four of sum is what gzip wraps.
    return gzip.compress(b"")[:10] + inflating[2:-4] + bytes(8)


def assert_refused(path, data: bytes, most: int, *kinds: type[Exception]) -> None:
    """Load a file under watch: it must be refused, and with how much memory is told."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(kinds or FormatError):
            bs.load(path)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def test_codebooks_that_inflate_stop_at_what_their_size_allows(tmp_path, inflating):
    for name, data in (
        ("b.mat", matlab(inflating)),
        ("b.yml.gz", gzipped(inflating)),
        ("b.npz", zipped("words.npy", npy((5000, 4000), 80_000_000))),
        ("b.npz", zipped("a{}.npy", npy((500, 400), 800_000), times=50)),
        ("b.skops", zipped("schema.json", b" " * 30_000_000)),
    ):
        # The file, what it may unfold to, and one copy of that while it is looked at.
        assert_refused(tmp_path / name, data, 3 * inflation_limit(len(data)) + (1 << 20))


def test_headers_that_claim_more_than_the_file_are_refused_before_anything_is_reserved(tmp_path):
    claims = {
        "b.npy": npy((1 << 40, 128), 64),
        "b.npz": zipped("words.npy", npy((1 << 40, 128), 64)),
        "b.faiss": b"IxF2" + struct.pack("<iqqqBi", 128, 1 << 40, 1 << 20, 1 << 20, 1, 1),
        "b.yml": b"%YAML:1.0\n---\nw: !!opencv-matrix\n   rows: 999999999\n   cols: 999999\n"
        b"   dt: f\n   data: [ 1. ]\n",
        "b.safetensors": struct.pack("<Q", 1 << 40) + b"{}",
        "c.safetensors": struct.pack("<Q", 66)
        + b'{"w":{"dtype":"F32","shape":[999999,9999],"data_offsets":[0,8]}}  ',
    }
    for name, data in claims.items():
        assert_refused(tmp_path / name, data, 2 << 20)


def test_entities_of_xml_are_not_expanded(tmp_path):
    lines = [b'<!ENTITY a0 "ha">']
    lines += [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">'.encode() for i in range(1, 12)]
    data = b'<?xml version="1.0"?>\n<!DOCTYPE x [' + b"\n".join(lines) + b"]>\n"
    data += b"<opencv_storage><w>&a11;</w></opencv_storage>"
    assert_refused(tmp_path / "b.xml", data, 16 << 20)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        sum_ = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + sum_

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zeros(b"", 1 << 20)) + chunk(b"IEND", b"")


def test_pictures_that_claim_too_many_pixels_are_not_decoded():
    jpeg = bytearray(
        bytes.fromhex("ffd8ffc0000b08ffffffff01011100ffda00080101003f00") + b"\xff\xd9"
    )
    for data in (png(100_000, 100_000), bytes(jpeg)):
        with pytest.raises(ImageError, match=r"max_pixels|truncated"):
            read_image(data)
