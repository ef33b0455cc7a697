"""Reading one image safely: 8-bit grey, upright, not larger than asked for.

``read_image`` either returns what a viewer would show, or raises an ImageError with a short reason.
Order of the steps, each before the next may cost anything:

1. the first bytes must announce a known format, or the rest is not loaded;
2. the header must claim at most ``max_pixels`` pixels (OpenCV's own limit is fixed at import), and
   three bytes for each of them: 16 bits, transparency and floating point take more memory;
3. all data that the header promises must be there;
4. OpenCV decodes, the values become 8-bit grey, the image is rotated upright and reduced.

What the values become: colour is weighted to luma by OpenCV, and JPEGs return the luma that they
store, which is exact and a third cheaper. Black to white of any depth becomes 0 to 255, rounded.
Transparent pixels are shown on white. Floating-point values must be between 0 and 1; others
(radiance, heights) have no defined black and white.

**Reduction**, for other implementations. An image of W × H pixels whose longest side L = max(W, H)
exceeds ``max_side`` = S becomes w × h with w = max(1, ⌊W · S / L + 1/2⌋), and h likewise. A new
pixel is the mean over its W / w by H / h old ones: in column i, old column x counts with the length
that [x · w, (x + 1) · w] and [i · W, (i + 1) · W] share, in rows likewise. The sum of integers, at
most 255 · W · H, is divided by W · H and rounded, halves up. Ours is OpenCV's ``INTER_AREA``, which
sums in float32 and leaves out what is below 0.001 of a pixel: 1 grey level away at most.

OpenCV's log is silenced while it decodes; libjpeg and libpng may still print a line about a damaged
file, which only redirecting the standard error of the process could stop.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import short_digest
from bowsaw.errors import DataError, ImageError
from bowsaw.images.headers import SNIFF_BYTES, Header, Unreadable, read_header, sniff
from bowsaw.parallel.threads import ProcessSetting
from bowsaw.validation import check_int

Source = str | PathLike[str] | bytes | NDArray[Any]
"""A file's path, a file's content, or an image that is already an array."""

_DECODED_BYTES = 3
"""The most bytes that decoded pixels may take: so many per allowed pixel, and ``_EXTRA_BYTES`` at
least. OpenCV holds them twice: it copies what it has decoded."""
_BYTES_PER_PIXEL = 16
_EXTRA_BYTES = 64 << 20
"""The most bytes of a file: so many per allowed pixel, plus these (profiles, previews)."""


@dataclass(frozen=True, eq=False)
class GreyImage:
    """An image as descriptors use it.

    ``path`` is the file, or ``"<array>"`` or ``"<bytes>"``. ``grey`` is ``(height, width)``, black
    0 to white 255; do not write to it, it may be the array that was given. ``digest`` has 64 bits.
    ``original_size`` is width and height upright, before the image was reduced.
    """

    path: str
    grey: NDArray[np.uint8]
    digest: int | None
    original_size: tuple[int, int]


def read_image(
    source: Source, *, max_side: int | None = 300, max_pixels: int = 100_000_000
) -> GreyImage:
    """Read an image as 8-bit grey, upright, with its longest side at most ``max_side``."""
    if max_side is not None:
        check_int(max_side, "max_side", 1, remedy="Give pixels, or None.")
    check_int(max_pixels, "max_pixels", 1)
    if not isinstance(source, np.ndarray | bytes | str | PathLike):
        raise DataError(
            f"an image is a path, the bytes of a file or an array; got {type(source).__name__}. "
            "Convert it with numpy.asarray first."
        )
    path = "<array>" if isinstance(source, np.ndarray) else "<bytes>"
    if isinstance(source, str | PathLike):
        path = os.fsdecode(source)
    try:
        if isinstance(source, np.ndarray):
            grey = _grey(_checked(source), cv2.COLOR_RGB2GRAY)
            digest = short_digest(f"{source.dtype.str}{source.shape}".encode() + source.tobytes())
        else:
            data = source if isinstance(source, bytes) else _content(path, max_pixels)
            digest = short_digest(data)
            grey = _decode(data, max_pixels)
    except Unreadable as error:
        raise ImageError(path, error.reason) from None
    height, width = grey.shape
    return GreyImage(path, _reduce(grey, max_side), digest, (width, height))


def _content(path: str, max_pixels: int) -> bytes:
    try:
        info = Path(path).stat()
        if stat.S_ISDIR(info.st_mode):
            raise Unreadable("a folder, not a file")
        if not stat.S_ISREG(info.st_mode):
            raise Unreadable("not a regular file")
        with Path(path).open("rb") as file:
            head = file.read(SNIFF_BYTES)
            if head:
                sniff(head)
            if info.st_size > max_pixels * _BYTES_PER_PIXEL + _EXTRA_BYTES:
                raise Unreadable(
                    f"{info.st_size:,} bytes, more than {max_pixels:,} pixels (max_pixels) can need"
                )
            file.seek(0)
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise Unreadable("missing file") from None
    except PermissionError:
        raise Unreadable("no permission to read it") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _decode(data: bytes, max_pixels: int) -> NDArray[np.uint8]:
    if not data:
        raise Unreadable("empty file")
    header = read_header(data)
    if header.width * header.height > max_pixels:
        raise Unreadable(
            f"{header.width}×{header.height} pixels, more than the limit of {max_pixels:,} "
            "(max_pixels)"
        )
    n_bytes = header.width * header.height * header.pixel_bytes
    if n_bytes > max(max_pixels * _DECODED_BYTES, _EXTRA_BYTES):
        raise Unreadable(
            f"{header.width}×{header.height} pixels of {header.pixel_bytes} bytes, more than the "
            f"limit of {_DECODED_BYTES} bytes for each of {max_pixels:,} pixels (max_pixels)"
        )
    if not header.complete:
        raise Unreadable("truncated")
    # IMREAD_GRAYSCALE is quickest, but drops transparency and the low bits of 16, and fails on
    # floating point. A JPEG has none of these.
    mode = cv2.IMREAD_GRAYSCALE if header.format == "jpeg" else cv2.IMREAD_UNCHANGED
    try:
        with _quiet:
            pixels: NDArray[Any] | None = cv2.imdecode(
                np.frombuffer(data, np.uint8), mode | cv2.IMREAD_IGNORE_ORIENTATION
            )
    except cv2.error:
        pixels = None
    if pixels is None:
        raise Unreadable("damaged, or of a variant that OpenCV does not decode")
    return _upright(_grey(pixels, cv2.COLOR_BGR2GRAY, header), header.orientation)


_PLAIN = Header("array", 1, 1, complete=True)


def _grey(pixels: NDArray[Any], conversion: int, header: Header = _PLAIN) -> NDArray[np.uint8]:
    """Return decoded values as 8-bit grey over white."""
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if np.issubdtype(pixels.dtype, np.floating):
        low, high = float(pixels.min()), float(pixels.max())
        if not (low >= -1e-6 and high <= 1 + 1e-6):
            raise Unreadable(f"values from {low:g} to {high:g}, where 0 is black and 1 is white")
        pixels, white = pixels.astype(np.float32, copy=False), 1
    elif pixels.dtype in (np.uint8, np.uint16):
        white = header.white or int(np.iinfo(pixels.dtype).max)
    else:
        raise Unreadable(f"values of type {pixels.dtype}, of which black and white are unknown")
    luma = cv2.cvtColor(pixels, conversion) if channels > 2 else pixels
    if channels == 2:
        luma = pixels[..., 0]
    grey: NDArray[Any] = _to_8_bits(luma, white)
    if header.inverted:
        grey = 255 - grey
    if header.clear is not None and channels == 1:
        grey = np.where(luma == header.clear, np.uint8(255), grey)
    if channels in (2, 4) and header.alpha != "ignored":
        cover = _to_8_bits(pixels[..., -1], white)
        if header.alpha == "straight":
            grey = cv2.multiply(grey, cover, scale=1 / 255)
        grey = cv2.add(grey, 255 - cover)
    return np.ascontiguousarray(grey)


def _to_8_bits(values: NDArray[Any], white: int) -> NDArray[np.uint8]:
    if values.dtype == np.uint8 and white == 255:
        return values
    return np.asarray(cv2.convertScaleAbs(values, alpha=255 / white), dtype=np.uint8)


def _upright(grey: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    if orientation in (5, 6, 7, 8):
        grey = grey.T
    if orientation in (2, 3, 6, 7):
        grey = grey[:, ::-1]
    if orientation in (3, 4, 7, 8):
        grey = grey[::-1]
    return np.ascontiguousarray(grey)


def _reduce(grey: NDArray[np.uint8], max_side: int | None) -> NDArray[np.uint8]:
    height, width = grey.shape
    longest = max(height, width)
    if max_side is None or longest <= max_side:
        return grey
    size = [max(1, (2 * side * max_side + longest) // (2 * longest)) for side in (width, height)]
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as OpenCV can take it, or raise with the reason why it is not an image."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise Unreadable(
            f"shape {array.shape}, where (height, width), (height, width, 3) or (height, width, 4) "
            "is an image"
        )
    if array.size == 0:
        raise Unreadable(f"shape {array.shape}, which has no pixels")
    if array.dtype == bool:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.type not in (np.uint8, np.uint16, np.float32, np.float64):
        raise Unreadable(
            f"values of type {array.dtype}, where uint8, uint16, bool or float between 0 and 1 "
            "is an image"
        )
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


@contextmanager
def _without_log() -> Iterator[None]:
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    yield
    cv2.utils.logging.setLogLevel(level)


_quiet = ProcessSetting(_without_log)
