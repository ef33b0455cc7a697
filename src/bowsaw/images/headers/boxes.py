"""Formats of boxes in boxes: JPEG 2000 and AVIF."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bowsaw.images.headers.base import NONSENSE, TRUNCATED, Header, Unreadable, unpack

_TILE_BYTES = 14
"""Two markers, one of them with a length and a number: what a tile takes that holds nothing."""

_AVIF_SIZE = re.compile(rb"\0\0\0\x14ispe\0\0\0\0(.{8})", re.DOTALL)
_AVIF_TURN = re.compile(rb"\0\0\0\x09irot(.)", re.DOTALL)
_AVIF_MIRROR = re.compile(rb"\0\0\0\x09imir(.)", re.DOTALL)
_AVIF_CODEC = re.compile(rb"av1C\x81.(.)", re.DOTALL)

_AVIF_ORIENTATION = (
    {0: 1, 1: 8, 2: 3, 3: 6},
    {0: 4, 1: 5, 2: 2, 3: 7},
    {0: 2, 1: 7, 2: 4, 3: 5},
)
"""By mirror (none, upside down, left to right) and quarter turns to the left before it."""


def _boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, the start of the content and the end of each outermost box."""
    at = 0
    while at < len(data):
        size, name = unpack(">I4s", data, at)
        start = at + 8
        if size == 1:
            size = unpack(">Q", data, start)[0]
            start += 8
        end = at + size if size else len(data)
        if end < start:
            raise Unreadable(NONSENSE)
        yield name, start, end
        at = end


def jp2_header(data: bytes) -> Header:
    """Read a JPEG 2000 file or bare codestream, and walk its tile-parts to the end marker."""
    at = 0
    if not data.startswith(b"\xff\x4f"):
        at = next((start for name, start, _ in _boxes(data) if name == b"jp2c"), -1)
        if at < 0:
            raise Unreadable(TRUNCATED)
    right, bottom, left, top = unpack(">IIII", data, at + 8)
    across, down, tiles_left, tiles_top = unpack(">IIII", data, at + 24)
    if not across or not down:
        raise Unreadable(NONSENSE)
    n_tiles = -((tiles_left - right) // across) * -((tiles_top - bottom) // down)
    # A palette's colours have a depth of their own, which is 8 bits in practice.
    bits = 8 if b"pclr" in data[:at] else (unpack("B", data, at + 42)[0] & 0x7F) + 1
    return Header(
        "jp2",
        right - left,
        bottom - top,
        # A decoder keeps kilobytes for each tile, of which the file has a header at least.
        n_tiles * _TILE_BYTES <= len(data) and _jp2_is_whole(data, at + 2),
        white=None if bits == 8 or bits >= 16 else (1 << bits) - 1,
    )


def _jp2_is_whole(data: bytes, at: int) -> bool:
    try:
        while (marker := unpack(">H", data, at)[0]) != 0xFFD9:
            if marker == 0xFF90:
                length = unpack(">I", data, at + 6)[0]
                if length == 0:
                    # A last tile-part may leave its length open; then only the end can tell.
                    return data.find(b"\xff\xd9", at) >= 0
                at += max(length, 12)
            else:
                at += 2 + max(2, unpack(">H", data, at + 2)[0])
    except Unreadable:
        return False
    return True


def avif_header(data: bytes) -> Header:
    """Read size, turn and depth from an AVIF's properties.

    All properties of the file are taken together, without asking which picture they belong to: the
    largest size counts, and a thumbnail or a tile is turned as its picture is.
    """
    whole, meta = True, b""
    for name, start, end in _boxes(data):
        whole = end <= len(data)
        if name == b"meta" and whole:
            meta = data[start:end]
    sizes = [unpack(">II", size, 0) for size in _AVIF_SIZE.findall(meta)]
    if not sizes:
        raise Unreadable(TRUNCATED)
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    turn, mirror = _AVIF_TURN.search(meta), _AVIF_MIRROR.search(meta)
    orientations = _AVIF_ORIENTATION[0 if mirror is None else 1 + (mirror[1][0] & 1)]
    codec = _AVIF_CODEC.search(meta)
    deep = codec is not None and codec[1][0] & 0x40
    twelve = codec is not None and codec[1][0] & 0x20
    return Header(
        "avif",
        width,
        height,
        whole,
        orientations[0 if turn is None else turn[1][0] & 3],
        white=(4095 if twelve else 1023) if deep else None,
    )
