"""Pictures: their headers, which are ours to read, and decoding behind them."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from tests.fuzz.engine import Reader
from tests.fuzz.mutations import BYTES, TEXT, Mutation, mixed
from tests.fuzz.structures import change_png, number_in_front

from bowsaw.errors import ImageError
from bowsaw.images.decode import GreyImage, read_image
from bowsaw.images.headers import Header, Unreadable, read_header

MOST_PIXELS = 1 << 20


def _grey(shape: tuple[int, ...] = (9, 12), dtype: Any = np.uint8) -> Any:
    high = 256 if dtype == np.uint8 else 65536
    return np.random.default_rng(0).integers(0, high, shape).astype(dtype)


def _encoded(suffix: str, pixels: Any, *options: int) -> bytes:
    good, data = cv2.imencode(suffix, pixels, options)
    assert good, suffix
    return bytes(data)


def _png() -> list[bytes]:
    return [
        _encoded(".png", _grey()),
        _encoded(".png", _grey((5, 6, 4))),
        _encoded(".png", _grey((5, 6), np.uint16)),
    ]


def _exif() -> bytes:
    exif = bytes.fromhex("49492a0008000000 0100 1201 0300 01000000 06000000 00000000")
    plain = _encoded(".jpg", _grey((9, 12, 3)))
    segment = b"Exif\0\0" + exif
    return plain[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + plain[2:]


def _jpeg() -> list[bytes]:
    return [
        _encoded(".jpg", _grey()),
        _exif(),
        _encoded(".jpg", _grey((9, 12, 3)), cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    ]


def _tiff() -> list[bytes]:
    none = (cv2.IMWRITE_TIFF_COMPRESSION, 1)
    return [
        _encoded(".tiff", _grey(), *none),
        _encoded(".tiff", _grey((5, 6, 3))),
        _encoded(".tiff", _grey((5, 6, 3), np.uint16), *none),
        _encoded(".tiff", _grey((5, 6, 4)), *none),
    ]


def _gif() -> list[bytes]:
    return [_encoded(".gif", _grey((6, 7, 3)))]


_SEEDS = {
    "png": _png,
    "jpeg": _jpeg,
    "tiff": _tiff,
    "bmp": lambda: [_encoded(".bmp", _grey()), _encoded(".bmp", _grey((4, 5, 3)))],
    "webp": lambda: [
        _encoded(".webp", _grey((8, 9, 3))),
        _encoded(".webp", _grey((8, 9, 4)), cv2.IMWRITE_WEBP_QUALITY, 101),
    ],
    "gif": _gif,
}
_WAYS: dict[str, Mutation] = {
    "png": mixed(change_png),
}


@cache
def seeds_of(kind: str) -> list[bytes]:
    """Return small pictures of a format."""
    return _SEEDS[kind]()


def _read(data: bytes, folder: Path) -> GreyImage:
    return read_image(data, max_side=64, max_pixels=MOST_PIXELS)


def _check(data: bytes, found: GreyImage, folder: Path) -> None:
    header = read_header(data)
    # The header is what the limit was judged by: a decoder that makes more than it says escapes it.
    # OpenCV turns a TIFF upright itself.
    allowed, sides = sorted((header.width, header.height)), sorted(found.original_size)
    assert sides[0] <= allowed[0], f"{sides} pixels, its header said {allowed}"
    assert sides[1] <= allowed[1], f"{sides} pixels, its header said {allowed}"
    assert found.grey.dtype == np.uint8
    assert found.grey.flags.c_contiguous
    assert max(found.grey.shape) <= 64


def _all_seeds() -> list[bytes]:
    return [data for kind in _SEEDS for data in seeds_of(kind)]


def _read_header(data: bytes, folder: Path) -> Header:
    return read_header(data)


def _check_header(data: bytes, found: Header, folder: Path) -> None:
    assert found.width >= 1
    assert found.height >= 1
    assert 1 <= found.orientation <= 8


READERS = [
    Reader(
        "picture-headers",
        _all_seeds,
        _read_header,
        mixed(change_png, number_in_front, share=0.2, plain=TEXT),
        (Unreadable,),
        _check_header,
    ),
    *(
        Reader(
            f"picture-{kind}",
            partial(seeds_of, kind),
            _read,
            _WAYS.get(kind, mixed(number_in_front, share=0.2, plain=BYTES)),
            (ImageError,),
            _check,
        )
        for kind in _SEEDS
    ),
]
