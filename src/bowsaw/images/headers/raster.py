"""Plain rows of pixels behind a short header: BMP, the Netpbm family, Sun raster, Radiance HDR."""

from __future__ import annotations

import re

from bowsaw.images.headers.base import NONSENSE, TRUNCATED, Header, Unreadable, unpack

_LONGEST_HEADER = 4096
"""Netpbm and HDR headers are text of any length; one longer than this is no header."""

_GAP = rb"(?:\s|#[^\n\r]*[\n\r])+"
_PNM = re.compile(
    rb"P(?:([14])%b|([2356])%b|([Ff])%b)"
    % (
        _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})",
        _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})",
        rb"\s+(\d{1,9})\s+(\d{1,9})\s+[-+]?[.\deE]{1,20}",
    )
)
_PAM_FIELD = re.compile(rb"^\s*(WIDTH|HEIGHT|DEPTH|MAXVAL)\s+(\d{1,9})\s*$", re.MULTILINE)
_HDR_SIZE = re.compile(rb"\n\s*\n[-+]([XY]) (\d{1,9}) [-+]([XY]) (\d{1,9})\n")


def bmp_header(data: bytes) -> Header:
    """Read a BMP's header; rows that are not packed must all be there."""
    start, size = unpack("<II", data, 10)
    compression = 0
    if size == 12:
        width, height, _, bits = unpack("<HHHH", data, 18)
    else:
        width, height, _, bits, compression = unpack("<iiHHI", data, 18)
    height = abs(height)
    if compression in (1, 2):
        whole = data.find(b"\0\1", start) >= 0
    else:
        whole = start + (width * bits + 31) // 32 * 4 * height <= len(data)
    # OpenCV moves 5 bits up by 3, so the brightest of them falls short of 255.
    return Header("bmp", width, height, whole, white=248 if bits == 16 else None)


def pnm_header(data: bytes) -> Header:
    """Read the header of a PBM, PGM, PPM (text or binary) or PFM."""
    found = _PNM.match(data[:_LONGEST_HEADER])
    if found is None:
        raise Unreadable(TRUNCATED if len(data) < _LONGEST_HEADER else NONSENSE)
    form, *numbers = (group for group in found.groups() if group is not None)
    width, height = int(numbers[0]), int(numbers[1])
    start = found.end() + 1
    if form == b"1":
        needed = width * height
    elif form == b"4":
        needed = (width + 7) // 8 * height
    elif form in b"Ff":
        needed = width * height * (12 if form == b"F" else 4)
    else:
        samples = width * height * (3 if form in b"36" else 1)
        return _netpbm(data, start, width, height, samples, int(numbers[2]), text=form in b"23")
    return Header("pnm", width, height, start + needed <= len(data))


def pam_header(data: bytes) -> Header:
    """Read the header of a PAM."""
    end = data.find(b"ENDHDR\n", 0, _LONGEST_HEADER)
    if end < 0:
        raise Unreadable(TRUNCATED if len(data) < _LONGEST_HEADER else NONSENSE)
    fields = {name: int(number) for name, number in _PAM_FIELD.findall(data[:end])}
    if len(fields) < 4:
        raise Unreadable(NONSENSE)
    width, height, white = fields[b"WIDTH"], fields[b"HEIGHT"], fields[b"MAXVAL"]
    if white == 1:
        raise Unreadable("a black-and-white PAM, which OpenCV misreads")
    samples = width * height * fields[b"DEPTH"]
    return _netpbm(data, end + len(b"ENDHDR\n"), width, height, samples, white, text=False)


def _netpbm(
    data: bytes, start: int, width: int, height: int, samples: int, white: int, *, text: bool
) -> Header:
    if not 0 < white < 65536:
        raise Unreadable(NONSENSE)
    # Numbers in text take a digit and a space each, the last may do without the space. OpenCV
    # stretches text to 8 bits, but neither text to 16 bits nor binary values to anything.
    needed = 2 * samples - 1 if text else samples * (1 if white < 256 else 2)
    stretched = text and white < 256
    return Header(
        "pnm",
        width,
        height,
        start + needed <= len(data),
        white=None if stretched or white in (255, 65535) else white,
    )


def sun_header(data: bytes) -> Header:
    """Read the header of a Sun raster file."""
    width, height, bits, length, kind, _, colours = unpack(">IIIIIII", data, 4)
    needed = length if kind == 2 else (width * bits + 15) // 16 * 2 * height
    return Header("sun", width, height, 32 + colours + needed <= len(data))


def hdr_header(data: bytes) -> Header:
    """Read the header of a Radiance HDR; its rows are packed, and OpenCV notices missing ones."""
    found = _HDR_SIZE.search(data[:_LONGEST_HEADER])
    if found is None:
        raise Unreadable(TRUNCATED if len(data) < _LONGEST_HEADER else NONSENSE)
    if found[1] != b"Y" or found[3] != b"X":
        raise Unreadable("a turned Radiance HDR, which OpenCV does not read")
    return Header("hdr", int(found[4]), int(found[2]), whole=True)
