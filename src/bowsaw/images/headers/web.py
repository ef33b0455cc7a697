"""The formats of cameras and browsers: JPEG, PNG, GIF and WebP."""

from __future__ import annotations

import re
from zlib import crc32

from bowsaw.images.headers.base import NONSENSE, TRUNCATED, Header, Unreadable, unpack
from bowsaw.images.headers.tiff import tiff_orientation

_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker that ends a scan's data: not a stuffed zero, a fill byte or a restart. A single literal
in front lets the search skip at the speed of memchr; ``\\xff+`` would be ten times slower."""

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def jpeg_header(data: bytes) -> Header:
    """Walk a JPEG's segments and scans to its end marker.

    Segments are skipped by their length, so the end marker of a thumbnail inside one is not taken
    for the picture's own. What follows the end marker does not matter: cameras append previews.
    """
    width = height = 0
    orientation, scanned, whole, at = 1, False, False, 2
    while marker := _JPEG_MARKER.search(data, at):
        code, at = marker[0][1], marker.end()
        if code == 0xD9:
            whole = scanned
            break
        if code in (0x01, 0xD8):
            continue
        if at + 2 > len(data):
            break
        length = max(2, unpack(">H", data, at)[0])
        if at + length > len(data):
            break
        if code in _JPEG_FRAMES and not width:
            height, width = unpack(">HH", data, at + 3)
        elif code == 0xE1 and data.startswith(b"Exif\0\0", at + 2):
            orientation = tiff_orientation(data[at + 8 : at + length])
        elif code == 0xDA:
            scanned = True
        at += length
    if not whole and not width:
        raise Unreadable(TRUNCATED)
    return Header("jpeg", width, height, whole, orientation)


def png_header(data: bytes) -> Header:
    """Walk a PNG's chunks to the last, IEND, and check the sums of those that matter."""
    width, height, depth, colour = unpack(">IIBB", data, 16)
    orientation, clear, whole, drawn, at = 1, None, False, False, 8
    while at + 12 <= len(data) and not whole:
        length, kind = unpack(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        # Upper case: a chunk that pixels depend on.
        if kind[:1].isupper() and crc32(data[at + 4 : end - 4]) != unpack(">I", data, end - 4)[0]:
            raise Unreadable("damaged: a checksum is wrong")
        if kind == b"eXIf":
            orientation = tiff_orientation(data[at + 8 : end - 4])
        elif kind == b"tRNS" and colour == 0 and length >= 2:
            # OpenCV makes a fourth channel of every other transparency, but drops this one.
            level = unpack(">H", data, at + 8)[0]
            clear = level if depth == 16 else level * 255 // ((1 << max(1, min(depth, 8))) - 1)
        drawn = drawn or kind == b"IDAT"
        whole = kind == b"IEND"
        if whole and not drawn:
            # OpenCV would go on to look for pixels behind the end, and trust any length there.
            raise Unreadable(NONSENSE)
        at = end
    return Header("png", width, height, whole, orientation, clear=clear)


def gif_header(data: bytes) -> Header:
    """Walk a GIF's blocks to its trailer: OpenCV wants all pictures whole to show the first."""

    def past_blocks(at: int) -> int:
        while size := unpack("B", data, at)[0]:
            at += 1 + size
        return at + 1

    def colours(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    width, height, flags = unpack("<HHB", data, 6)
    whole, at = False, 13 + colours(flags)
    try:
        while (introducer := unpack("B", data, at)[0]) in (0x21, 0x2C):
            at += 2
            if introducer == 0x2C:
                across, down, flags = unpack("<HHB", data, at + 3)
                width, height = max(width, across), max(height, down)
                at += 9 + colours(flags)
            at = past_blocks(at)
        whole = introducer == 0x3B
    except Unreadable:
        pass
    return Header("gif", width, height, whole)


def webp_header(data: bytes) -> Header:
    """Walk a WebP's chunks; the largest size that any of them tells counts."""
    width = height = 0
    orientation, at = 1, 12
    whole = 8 + unpack("<I", data, 4)[0] <= len(data)
    while at + 8 <= len(data):
        kind, length = unpack("<4sI", data, at)
        across = down = 0
        if kind == b"VP8X":
            low_w, high_w, low_h, high_h = unpack("<HBHB", data, at + 12)
            across, down = (high_w << 16 | low_w) + 1, (high_h << 16 | low_h) + 1
        elif kind == b"VP8L":
            packed = unpack("<I", data, at + 9)[0]
            across, down = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        elif kind == b"VP8 ":
            across, down = (side & 0x3FFF for side in unpack("<HH", data, at + 14))
        elif kind == b"EXIF":
            exif = data[at + 8 : at + 8 + length]
            orientation = tiff_orientation(exif.removeprefix(b"Exif\0\0"))
        width, height = max(width, across), max(height, down)
        at += 8 + length + (length & 1)
    if not whole and not width:
        raise Unreadable(TRUNCATED)
    return Header("webp", width, height, whole, orientation)
