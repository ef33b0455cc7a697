"""TIFF and BigTIFF, and the EXIF orientation, which is a TIFF inside another file.

A TIFF is a table of tags that may describe almost any layout of pixels. OpenCV hands those of up to
8 bits to libtiff's own conversion, which is right, but drops the transparency of grey pictures, and
reads those of more bits sample by sample without looking at what they mean: separate planes, CMYK
and white-is-zero come out wrong without a word. Only layouts whose decoded values are known to be
right (``inverted`` and ``alpha`` say how) are let through; the others are refused by name.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from bowsaw.images.headers.base import NONSENSE, TRUNCATED, Alpha, Header, Unreadable, unpack

_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION = 256, 257, 258, 262, 274
_SAMPLES, _PLANES, _EXTRA = 277, 284, 338
_PIECES = ((273, 279), (324, 325))
"""Offsets and lengths of the strips, of the tiles."""

_WANTED = {_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _PLANES, _EXTRA}
_WANTED.update(*_PIECES)

_TYPES = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}

Tags = dict[int, NDArray[np.uint64]]


def read_tags(data: bytes) -> Tags:
    """Return the numbers of the first directory's tags that matter here."""
    order = "<" if data[:2] == b"II" else ">"
    big = unpack(order + "H", data, 2)[0] == 43
    at = unpack(order + ("Q" if big else "I"), data, 8 if big else 4)[0]
    entry, room = (order + "HHQ", 8) if big else (order + "HHI", 4)
    head = struct.calcsize(entry)
    count = unpack(order + ("Q" if big else "H"), data, at)[0]
    at += 8 if big else 2
    if count > (len(data) - at) // (head + room):
        raise Unreadable(TRUNCATED)
    tags: Tags = {}
    for row in range(count):
        start = at + row * (head + room)
        tag, kind, n = unpack(entry, data, start)
        if tag not in _WANTED or kind not in _TYPES or n < 1:
            continue
        if tag in tags:
            # Decoders disagree about which of the two counts.
            raise Unreadable(NONSENSE)
        form = np.dtype(order + _TYPES[kind])
        start += head
        if n * form.itemsize > room:
            start = unpack(order + ("Q" if big else "I"), data, start)[0]
        if start + n * form.itemsize > len(data):
            raise Unreadable(TRUNCATED)
        tags[tag] = np.frombuffer(data, form, n, start).astype(np.uint64)
    return tags


def tiff_orientation(exif: bytes) -> int:
    """Return the orientation that EXIF data tell, 1 (upright) when they tell none.

    Examples
    --------
    >>> exif = bytes.fromhex("49492a0008000000 0100 1201 0300 01000000 06000000")
    >>> tiff_orientation(exif), tiff_orientation(b"nothing")
    (6, 1)
    """
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    try:
        orientation = _one(read_tags(exif), _ORIENTATION, 1)
    except Unreadable:
        return 1
    return orientation if 1 <= orientation <= 8 else 1


def tiff_header(data: bytes) -> Header:
    """Read the header of a TIFF or BigTIFF."""
    tags = read_tags(data)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise Unreadable(NONSENSE)
    deep = int(tags[_BITS].max()) > 8 if _BITS in tags else False
    samples = _one(tags, _SAMPLES, 1)
    photometric = _one(tags, _PHOTOMETRIC, 1)
    if samples == 2:
        raise Unreadable("a grey TIFF with a second channel, which OpenCV drops")
    if deep and samples > 1 and (photometric != 2 or _one(tags, _PLANES, 1) != 1):
        raise Unreadable(
            "a TIFF of more than 8 bits that is not interleaved RGB, which OpenCV misreads"
        )
    return Header(
        "tiff",
        _one(tags, _WIDTH, 0),
        _one(tags, _HEIGHT, 0),
        _is_whole(tags, len(data)),
        inverted=deep and photometric == 0,
        alpha=_alpha(tags, deep),
    )


def _one(tags: Tags, tag: int, default: int) -> int:
    return int(tags[tag][0]) if tag in tags else default


def _alpha(tags: Tags, deep: bool) -> Alpha:
    # Without the tag a fourth channel is what OpenCV itself writes: straight. libtiff multiplies
    # colours of up to 8 bits by their transparency; deeper ones come as they are stored.
    if _EXTRA not in tags:
        return "straight"
    kind = _one(tags, _EXTRA, 0)
    if kind not in (1, 2):
        return "ignored"
    return "straight" if deep and kind == 2 else "premultiplied"


def _is_whole(tags: Tags, length: int) -> bool:
    for starts, lengths in _PIECES:
        if starts in tags and lengths in tags and len(tags[starts]) == len(tags[lengths]):
            # Each number alone first: their sum could wrap.
            if tags[starts].max() > length or tags[lengths].max() > length:
                return False
            return bool((tags[starts] + tags[lengths]).max() <= length)
    return True
