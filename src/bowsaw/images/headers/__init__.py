"""What the bytes of an image file say before anything is decoded.

A decoder must not be trusted with a file until three things are known: how many pixels it claims (a
kilobyte can claim ten thousand million), whether all of its data are there (OpenCV fills what is
missing with grey and says nothing), and what the decoded numbers will mean (turned, transparent,
ten bits in sixteen). ``read_header`` answers all three by walking the file's own table of
contents: chunks, segments, boxes or tags, never pixel by pixel.

Every format that OpenCV's wheels read has its reader. A file of no known signature is refused, so
nothing reaches a decoder before its size is known.

Invariants: from any bytes at all, ``read_header`` returns or raises ``Unreadable``, in time linear
in their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bowsaw.images.headers.base import NONSENSE, Header, Unreadable
from bowsaw.images.headers.boxes import avif_header, jp2_header
from bowsaw.images.headers.raster import (
    bmp_header,
    hdr_header,
    pam_header,
    pnm_header,
    sun_header,
)
from bowsaw.images.headers.tiff import tiff_header
from bowsaw.images.headers.web import gif_header, jpeg_header, png_header, webp_header

__all__ = ["SNIFF_BYTES", "Header", "Unreadable", "read_header", "sniff"]

SNIFF_BYTES = 64
"""How many first bytes of a file ``sniff`` wants to see."""

_SIGNATURES = {
    kind: re.compile(pattern, re.DOTALL)
    for kind, pattern in {
        "jpeg": rb"\xff\xd8\xff",
        "png": rb"\x89PNG\r\n\x1a\n",
        "tiff": rb"II[*+]\0|MM\0[*+]",
        "bmp": rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",
        "webp": rb"RIFF....WEBP",
        "gif": rb"GIF8[79]a",
        "jp2": rb"\0\0\0\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51",
        "avif": rb"....ftyp(?:.{4})*avi[fs]",
        "pnm": rb"P[1-6Ff][\s#]",
        "pam": rb"P7\s",
        "hdr": rb"#\?R(?:ADIANCE|GBE)\s",
        "sun": rb"\x59\xa6\x6a\x95",
    }.items()
}

_READERS: dict[str, Callable[[bytes], Header]] = {
    "jpeg": jpeg_header,
    "png": png_header,
    "tiff": tiff_header,
    "bmp": bmp_header,
    "webp": webp_header,
    "gif": gif_header,
    "jp2": jp2_header,
    "avif": avif_header,
    "pnm": pnm_header,
    "pam": pam_header,
    "hdr": hdr_header,
    "sun": sun_header,
}


def sniff(head: bytes) -> str:
    """Return the format that the first ``SNIFF_BYTES`` bytes of a file announce.

    Examples
    --------
    >>> sniff(bytes.fromhex("89504e470d0a1a0a"))
    'png'
    >>> sniff(b"%PDF-1.7")
    Traceback (most recent call last):
    ...
    bowsaw.images.headers.base.Unreadable: not an image, or of a format that OpenCV does not read
    """
    for kind, signature in _SIGNATURES.items():
        if signature.match(head):
            return kind
    raise Unreadable("not an image, or of a format that OpenCV does not read")


def read_header(data: bytes) -> Header:
    """Read size, completeness and the meaning of the values of an encoded image.

    Parameters
    ----------
    data : bytes
        The whole file.

    Returns
    -------
    Header

    Raises
    ------
    Unreadable
        The file is of no known format, ends before it tells its size, or has a layout that OpenCV
        is known to misread.

    Examples
    --------
    >>> header = read_header(b"P5 3 2 255 " + bytes(6))
    >>> header.kind, header.width, header.height, header.whole
    ('pnm', 3, 2, True)
    >>> read_header(b"P5 3 2 255 " + bytes(5)).whole
    False
    """
    header = _READERS[sniff(data[:SNIFF_BYTES])](data)
    if header.width < 1 or header.height < 1:
        raise Unreadable(NONSENSE)
    return header
