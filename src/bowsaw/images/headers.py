"""What the bytes of an image file say before anything is decoded.

A decoder must not be given a file until three things are known: how many pixels it claims (a
kilobyte can claim ten thousand million), whether all of its data are there (OpenCV fills what is
missing with grey, silently), and what the decoded values mean (rotated, transparent, 5 bits in 8).
``read_header`` finds all three from the file's chunks, segments or tags.

Pillow does not report missing data and reads other layouts than OpenCV, so these readers are ours.
OpenCV reads a TIFF of more than 8 bits sample by sample without looking at what they mean, so
separate planes, CMYK and white-is-zero come out wrong. Only layouts whose decoded values are known
to be right (``inverted`` and ``alpha`` say how) are accepted.

Invariant: for any bytes, ``read_header`` returns or raises ``Unreadable``, in linear time.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Alpha = Literal["straight", "premultiplied", "ignored"]
"""How the colours beside a fourth channel are stored: as they are, already multiplied by it, or it
is not transparency."""

NONSENSE = "damaged: its header makes no sense"
TRUNCATED = "truncated"
SNIFF_BYTES = 64
"""The number of first bytes that ``sniff`` needs."""


class Unreadable(Exception):  # noqa: N818 - an answer about a file; callers turn it into ImageError
    """The bytes are not an image that can be read; ``reason`` says why in a few words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Header:
    """What a file says about its (first) image.

    ``width`` and ``height`` are as stored, before the EXIF ``orientation`` (1 to 8). ``complete``
    is False when data are missing. ``white`` is the decoded value of white where it is not the
    largest of its type, ``clear`` that of a transparent pixel; ``inverted`` values run from white
    to black; ``alpha`` is the meaning of a fourth channel. ``pixel_bytes`` is the most that OpenCV
    needs for a decoded pixel.
    """

    format: str
    width: int
    height: int
    complete: bool
    orientation: int = 1
    white: int | None = None
    inverted: bool = False
    clear: int | None = None
    alpha: Alpha = "straight"
    pixel_bytes: int = 4


def sniff(head: bytes) -> str:
    """Return the format that the first ``SNIFF_BYTES`` bytes of a file announce."""
    for name, (signature, _) in _FORMATS.items():
        if re.match(signature, head, re.DOTALL):
            return name
    for name, signature in _REFUSED.items():
        if re.match(signature, head, re.DOTALL):
            raise Unreadable(f"{name} file, which is not read; convert it to PNG or JPEG")
    raise Unreadable("not an image, or of an unknown format")


def read_header(data: bytes) -> Header:
    """Return size, completeness and the meaning of the values of an encoded image."""
    header = _FORMATS[sniff(data[:SNIFF_BYTES])][1](data)
    if header.width < 1 or header.height < 1:
        raise Unreadable(NONSENSE)
    return header


def unpack(form: str, data: bytes, at: int) -> tuple[Any, ...]:
    """Unpack numbers at an offset; data that end too early are Unreadable, truncated."""
    try:
        return struct.unpack_from(form, data, at)
    except (struct.error, OverflowError):
        raise Unreadable(TRUNCATED) from None


_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION = 256, 257, 258, 262, 274
_SAMPLES, _PLANES, _EXTRA = 277, 284, 338
_PIECES = ((273, 279), (324, 325))
"""Offsets and lengths of the strips, of the tiles."""
_WANTED = {_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _PLANES, _EXTRA}
_WANTED.update(*_PIECES)
_TYPES = {1: "u1", 3: "u2", 4: "u4", 16: "u8"}

Tags = dict[int, NDArray[np.uint64]]


def _read_tags(data: bytes) -> Tags:
    """Return the numbers of the first directory's tags that matter here."""
    order = "<" if data[:2] == b"II" else ">"
    big = unpack(order + "H", data, 2)[0] == 43
    at = unpack(order + ("Q" if big else "I"), data, 8 if big else 4)[0]
    entry, inline = (order + "HHQ", 8) if big else (order + "HHI", 4)
    head = struct.calcsize(entry)
    count = unpack(order + ("Q" if big else "H"), data, at)[0]
    at += 8 if big else 2
    if count > (len(data) - at) // (head + inline):
        raise Unreadable(TRUNCATED)
    tags: Tags = {}
    for row in range(count):
        start = at + row * (head + inline)
        tag, code, n = unpack(entry, data, start)
        if tag not in _WANTED or code not in _TYPES or n < 1:
            continue
        if tag in tags:
            # Decoders disagree about which of the two is used.
            raise Unreadable(NONSENSE)
        form = np.dtype(order + _TYPES[code])
        start += head
        if n * form.itemsize > inline:
            start = unpack(order + ("Q" if big else "I"), data, start)[0]
        if start + n * form.itemsize > len(data):
            raise Unreadable(TRUNCATED)
        tags[tag] = np.frombuffer(data, form, n, start).astype(np.uint64)
    return tags


def tiff_orientation(exif: bytes) -> int:
    """Return the EXIF orientation, 1 (upright) where there is none."""
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    try:
        orientation = _one(_read_tags(exif), _ORIENTATION, 1)
    except Unreadable:
        return 1
    return orientation if 1 <= orientation <= 8 else 1


def tiff_header(data: bytes) -> Header:
    """Read the header of a TIFF or BigTIFF."""
    tags = _read_tags(data)
    if _WIDTH not in tags or _HEIGHT not in tags:
        raise Unreadable(NONSENSE)
    bits = min(int(tags[_BITS].max()) if _BITS in tags else 1, 64)
    deep = bits > 8
    samples = _one(tags, _SAMPLES, 1)
    photometric = _one(tags, _PHOTOMETRIC, 1)
    if samples == 2:
        raise Unreadable("a grey TIFF with a second channel, which OpenCV drops")
    if deep and samples > 1 and (photometric != 2 or _one(tags, _PLANES, 1) != 1):
        raise Unreadable(
            "a TIFF of more than 8 bits that is not interleaved RGB, which OpenCV misreads"
        )
    # Decoded, grey stays grey, and anything else becomes colour.
    channels = 1 if samples == 1 and photometric < 2 else max(samples, 3)
    return Header(
        "tiff",
        _one(tags, _WIDTH, 0),
        _one(tags, _HEIGHT, 0),
        _is_complete(tags, len(data)),
        inverted=deep and photometric == 0,
        alpha=_alpha(tags, deep),
        pixel_bytes=channels * next(n for n in (1, 2, 4, 8) if bits <= 8 * n),
    )


def _one(tags: Tags, tag: int, default: int) -> int:
    return int(tags[tag][0]) if tag in tags else default


def _alpha(tags: Tags, deep: bool) -> Alpha:
    # Without the tag a fourth channel is what OpenCV itself writes: straight. libtiff multiplies
    # colours of up to 8 bits by their transparency; deeper ones come as they are stored.
    if _EXTRA not in tags:
        return "straight"
    extra = _one(tags, _EXTRA, 0)
    if extra not in (1, 2):
        return "ignored"
    return "straight" if deep and extra == 2 else "premultiplied"


def _is_complete(tags: Tags, length: int) -> bool:
    for starts, lengths in _PIECES:
        if starts in tags and lengths in tags and len(tags[starts]) == len(tags[lengths]):
            # Each number alone first: their sum could wrap.
            if tags[starts].max() > length or tags[lengths].max() > length:
                return False
            return bool((tags[starts] + tags[lengths]).max() <= length)
    return True


_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker that ends a scan's data: not a stuffed zero, a fill byte or a restart. A single literal
in front lets the search skip at the speed of memchr; ``\\xff+`` would be ten times slower."""

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def jpeg_header(data: bytes) -> Header:
    """Walk a JPEG's segments and scans to its end marker; cameras append previews behind it."""
    width = height = 0
    orientation, scanned, complete, at = 1, False, False, 2
    while marker := _JPEG_MARKER.search(data, at):
        code, at = marker[0][1], marker.end()
        if code == 0xD9:
            complete = scanned
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
    if not complete and not width:
        raise Unreadable(TRUNCATED)
    return Header("jpeg", width, height, complete, orientation, pixel_bytes=1)


def png_header(data: bytes) -> Header:
    """Walk a PNG's chunks to the last, IEND, and check the checksums of the critical ones."""
    width, height, depth, colour = unpack(">IIBB", data, 16)
    orientation, clear, complete, drawn, at = 1, None, False, False, 8
    channels = {0: 1, 2: 3}.get(colour, 4)
    while at + 12 <= len(data) and not complete:
        length, chunk = unpack(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        # Upper case: a chunk that pixels depend on.
        if chunk[:1].isupper() and crc32(data[at + 4 : end - 4]) != unpack(">I", data, end - 4)[0]:
            raise Unreadable("damaged: a checksum is wrong")
        if chunk == b"eXIf":
            orientation = tiff_orientation(data[at + 8 : end - 4])
        elif chunk == b"tRNS" and colour == 0 and length >= 2:
            # OpenCV makes a fourth channel of every other transparency, but drops this one.
            level = unpack(">H", data, at + 8)[0]
            clear = level if depth == 16 else level * 255 // ((1 << max(1, min(depth, 8))) - 1)
        elif chunk == b"tRNS":
            channels = 4
        drawn = drawn or chunk == b"IDAT"
        complete = chunk == b"IEND"
        if complete and not drawn:
            # OpenCV would look for pixels behind the end, and trust any length there.
            raise Unreadable(NONSENSE)
        at = end
    pixel_bytes = channels * max(1, depth // 8)
    return Header("png", width, height, complete, orientation, clear=clear, pixel_bytes=pixel_bytes)


def gif_header(data: bytes) -> Header:
    """Walk a GIF's blocks to its trailer: OpenCV needs all images complete to read the first."""

    def past_blocks(at: int) -> int:
        while size := unpack("B", data, at)[0]:
            at += 1 + size
        return at + 1

    def colours(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    width, height, flags = unpack("<HHB", data, 6)
    complete, at = False, 13 + colours(flags)
    with suppress(Unreadable):
        while (introducer := unpack("B", data, at)[0]) in (0x21, 0x2C):
            at += 2
            if introducer == 0x2C:
                across, down, flags = unpack("<HHB", data, at + 3)
                width, height = max(width, across), max(height, down)
                at += 9 + colours(flags)
            at = past_blocks(at)
        complete = introducer == 0x3B
    return Header("gif", width, height, complete)


def webp_header(data: bytes) -> Header:
    """Walk a WebP's chunks; the largest size that any of them has counts."""
    width = height = 0
    orientation, at = 1, 12
    complete = 8 + unpack("<I", data, 4)[0] <= len(data)
    while at + 8 <= len(data):
        chunk, length = unpack("<4sI", data, at)
        across = down = 0
        if chunk == b"VP8X":
            low_w, high_w, low_h, high_h = unpack("<HBHB", data, at + 12)
            across, down = (high_w << 16 | low_w) + 1, (high_h << 16 | low_h) + 1
        elif chunk == b"VP8L":
            packed = unpack("<I", data, at + 9)[0]
            across, down = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        elif chunk == b"VP8 ":
            across, down = (side & 0x3FFF for side in unpack("<HH", data, at + 14))
        elif chunk == b"EXIF":
            orientation = tiff_orientation(data[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0"))
        width, height = max(width, across), max(height, down)
        at += 8 + length + (length & 1)
    if not complete and not width:
        raise Unreadable(TRUNCATED)
    return Header("webp", width, height, complete, orientation)


def bmp_header(data: bytes) -> Header:
    """Read a BMP's header; rows that are not compressed must all be there."""
    start, size = unpack("<II", data, 10)
    compression = 0
    if size == 12:
        width, height, _, bits = unpack("<HHHH", data, 18)
    else:
        width, height, _, bits, compression = unpack("<iiHHI", data, 18)
    height = abs(height)
    if compression in (1, 2):
        complete = data.find(b"\0\1", start) >= 0
    else:
        complete = start + (width * bits + 31) // 32 * 4 * height <= len(data)
    # OpenCV moves 5 bits up by 3, so the brightest of them falls short of 255.
    white = 248 if bits == 16 else None
    return Header("bmp", width, height, complete, white=white, pixel_bytes=4 if bits == 32 else 3)


_FORMATS = {
    "jpeg": (rb"\xff\xd8\xff", jpeg_header),
    "png": (rb"\x89PNG\r\n\x1a\n", png_header),
    "tiff": (rb"II[*+]\0|MM\0[*+]", tiff_header),
    "bmp": (rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0", bmp_header),
    "webp": (rb"RIFF....WEBP", webp_header),
    "gif": (rb"GIF8[79]a", gif_header),
}
_REFUSED = {
    "a JPEG 2000": rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51",
    "an AVIF or HEIF": rb"....ftyp(?:.{4})*(?:avi[fs]|hei[cx]|mif1)",
    "a Netpbm": rb"P[1-7Ff][\s#]",
    "a Radiance HDR": rb"#\?R(?:ADIANCE|GBE)\s",
    "a Sun raster": rb"\x59\xa6\x6a\x95",
    "an OpenEXR": rb"\x76\x2f\x31\x01",
}
