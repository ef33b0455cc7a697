"""Images: their headers, which bowsaw reads itself, and decoding after them."""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tests.fuzz.engine import Reader
from tests.fuzz.mutations import BYTES, TEXT, mixed, number_in_front
from tests.fuzz.structures import change_png

from bowsaw.errors import ImageError
from bowsaw.images.decode import GreyImage, read_image
from bowsaw.images.headers import Header, Unreadable, read_header

MOST_PIXELS = 1 << 20
_PLAIN = (cv2.IMWRITE_TIFF_COMPRESSION, 1)
_PROGRESSIVE = (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
_FORMATS: dict[str, Sequence[tuple[Sequence[int], Any, Sequence[int]]]] = {
    ".png": [((9, 12), "u1", ()), ((5, 6, 4), "u1", ()), ((5, 6), "u2", ())],
    ".jpeg": [((9, 12), "u1", ()), ((9, 12, 3), "u1", ()), ((9, 12, 3), "u1", _PROGRESSIVE)],
    ".tiff": [
        ((9, 12), "u1", _PLAIN),
        ((5, 6, 3), "u1", ()),
        ((5, 6, 3), "u2", _PLAIN),
        ((5, 6, 4), "u1", _PLAIN),
    ],
    ".bmp": [((9, 12), "u1", ()), ((4, 5, 3), "u1", ())],
    ".webp": [((8, 9, 3), "u1", ()), ((8, 9, 4), "u1", (cv2.IMWRITE_WEBP_QUALITY, 101))],
    ".gif": [((6, 7, 3), "u1", ())],
}
"""Shape, type and options of the seed images of each format."""
_EXIF = bytes.fromhex("49492a0008000000 0100 1201 0300 01000000 06000000 00000000")


@cache
def _seeds(*suffixes: str) -> list[bytes]:
    found = []
    for suffix in suffixes:
        for shape, dtype, options in _FORMATS[suffix]:
            high = 256 if dtype == "u1" else 65536
            pixels = np.random.default_rng(0).integers(0, high, shape).astype(dtype)
            good, encoded = cv2.imencode(suffix, pixels, options)
            assert good, suffix
            data = bytes(encoded)
            if suffix == ".jpeg" and len(shape) == 3 and not options:
                segment = b"Exif\0\0" + _EXIF
                marker = b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big")
                data = data[:2] + marker + segment + data[2:]
            found.append(data)
    return found


def _read(data: bytes, folder: Path) -> GreyImage:
    return read_image(data, max_side=64, max_pixels=MOST_PIXELS)


def _check(data: bytes, found: GreyImage, folder: Path) -> None:
    header = read_header(data)
    # The limit was applied to the header, so a decoder must not make more than it says. OpenCV
    # rotates a TIFF itself.
    allowed, sides = sorted((header.width, header.height)), sorted(found.original_size)
    assert sides[0] <= allowed[0], f"{sides} pixels, its header said {allowed}"
    assert sides[1] <= allowed[1], f"{sides} pixels, its header said {allowed}"
    assert found.grey.dtype == np.uint8
    assert found.grey.flags.c_contiguous
    assert max(found.grey.shape) <= 64


def _read_header(data: bytes, folder: Path) -> Header:
    return read_header(data)


def _check_header(data: bytes, found: Header, folder: Path) -> None:
    assert found.width >= 1
    assert found.height >= 1
    assert 1 <= found.orientation <= 8


_NUMBERS = mixed(number_in_front, share=0.2, plain=BYTES)
_HEADERS = mixed(change_png, number_in_front, share=0.2, plain=TEXT)
_WAYS = {suffix: mixed(change_png) if suffix == ".png" else _NUMBERS for suffix in _FORMATS}
_all_seeds = partial(_seeds, *_FORMATS)
READERS = [
    Reader("image-headers", _all_seeds, _read_header, _HEADERS, (Unreadable,), _check_header),
    *(
        Reader(f"image-{end[1:]}", partial(_seeds, end), _read, way, (ImageError,), _check)
        for end, way in _WAYS.items()
    ),
]
