"""Reading one picture safely: 8-bit grey, upright, not larger than asked for.

Folders of images hold surprises: empty files, downloads cut in half, a video among the photographs,
a kilobyte that unfolds to ten thousand million pixels, photographs lying on their side. A picture
that is silently wrong poisons a codebook and nobody notices, so ``read_picture`` either returns
what a person would see, or raises an ImageError with a short reason.

Order of the steps, each before the next may cost anything:

1. the first bytes must announce a format that OpenCV reads, or the rest is not even loaded;
2. the header must claim at most ``max_pixels`` pixels. OpenCV's own limit is fixed when it is
   imported and far too high for a desktop, so the size is read here, by ``headers``, for every
   format; a format whose header is not understood is refused, never tried;
3. all data that the header promises must be there;
4. OpenCV decodes, the values become 8-bit grey, the picture is turned upright and made smaller.

What the values become:

- colour is weighted to luma by OpenCV. JPEGs, nearly all of real collections, hand over the luma
  that they store, which is exact and a third cheaper than going through colours;
- black to white of any depth becomes 0 to 255, rounded: 65535 is 255, not 65535 // 256;
- transparent pixels show a white page behind them. The colours hidden under full transparency are
  leftovers of an editor, and never shine through;
- floating-point values must be between 0 and 1. Others (radiance, heights) have no black and white
  until a person has chosen them.

OpenCV's log is silenced while it decodes, since each complaint becomes an ImageError; libjpeg and
libpng may still print a line of their own about a damaged file, which only redirecting the standard
error of the whole process could stop.
"""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import short_digest
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images.headers import SNIFF_BYTES, Header, Unreadable, read_header, sniff

Source = str | PathLike[str] | bytes | NDArray[Any]
"""A file's path, a file's content, or a picture that is already an array."""

_BYTES_A_PIXEL = 16
_BYTES_BESIDE = 64 << 20
"""A file may have so many bytes a pixel allowed, and so many beside them (profiles, previews)."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as descriptors see it.

    Attributes
    ----------
    path : str
        Where it came from; ``"<array>"`` or ``"<bytes>"`` when it was no file.
    grey : ndarray of uint8, shape (height, width)
        Black 0, white 255; C-contiguous. May be the array that was given, so do not write to it.
    digest : int
        A 64-bit name of the file's content, or of the array's values, shape and dtype.
    original_size : tuple of int
        Width and height before it was made smaller, after it was turned upright.
    """

    path: str
    grey: NDArray[np.uint8]
    digest: int | None
    original_size: tuple[int, int]


def read_picture(
    source: Source, *, max_side: int | None = 300, max_pixels: int = 100_000_000
) -> Picture:
    """Read a picture as 8-bit grey, upright, with its longest side at most ``max_side``.

    Parameters
    ----------
    source : path-like, bytes or ndarray
        A file, the content of one, or an array: grey ``(height, width)``, RGB or RGBA ``(height,
        width, 3 or 4)`` of uint8, uint16, bool, or float32 or float64 between 0 and 1. Of an
        animation or a file of several pages the first picture is read.
    max_side : int or None, default=300
        Pixels of the longest side. Larger pictures are shrunk by averaging areas; smaller ones are
        never enlarged. None keeps the size.
    max_pixels : int, default=100_000_000
        Files that claim more pixels than this are refused before they are decoded.

    Returns
    -------
    Picture

    Raises
    ------
    ImageError
        The file is missing, a folder, empty, not an image, truncated, damaged or too large; the
        array is not a picture. ``reason`` says which.

    Examples
    --------
    >>> import numpy as np
    >>> picture = read_picture(np.zeros((600, 1200, 3)), max_side=300)
    >>> picture.grey.shape, picture.grey.dtype, picture.original_size
    ((150, 300), dtype('uint8'), (1200, 600))
    >>> read_picture("nowhere.jpg")
    Traceback (most recent call last):
    ...
    bowsaw.errors.ImageError: nowhere.jpg: missing file.
    """
    if max_side is not None and max_side < 1:
        raise ParameterError(f"max_side must be at least 1 or None; got {max_side!r}.")
    if max_pixels < 1:
        raise ParameterError(f"max_pixels must be at least 1; got {max_pixels!r}.")
    if isinstance(source, np.ndarray):
        path = "<array>"
    elif isinstance(source, bytes):
        path = "<bytes>"
    elif isinstance(source, str | PathLike):
        path = os.fsdecode(source)
    else:
        raise DataError(
            f"a picture is a path, the bytes of a file or an array; got {type(source).__name__}. "
            "Convert it with numpy.asarray first."
        )
    try:
        if isinstance(source, np.ndarray):
            grey = _grey(_checked(source), cv2.COLOR_RGB2GRAY)
            digest = _array_digest(source)
        else:
            data = source if isinstance(source, bytes) else _content(path, max_pixels)
            digest = short_digest(data)
            grey = _decode(data, max_pixels)
    except Unreadable as error:
        raise ImageError(path, error.reason) from None
    height, width = grey.shape
    return Picture(path, _shrunk(grey, max_side), digest, (width, height))


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
            if info.st_size > max_pixels * _BYTES_A_PIXEL + _BYTES_BESIDE:
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
    if not header.whole:
        raise Unreadable("truncated")
    # IMREAD_GRAYSCALE is quickest, but drops transparency and the low bits of 16, and fails on
    # floating point. A JPEG has none of these to lose.
    mode = cv2.IMREAD_GRAYSCALE if header.kind == "jpeg" else cv2.IMREAD_UNCHANGED
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


_PLAIN = Header("array", 1, 1, whole=True)


def _grey(pixels: NDArray[Any], conversion: int, header: Header = _PLAIN) -> NDArray[np.uint8]:
    """Return decoded values as 8-bit grey over a white page."""
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
    """Undo the turn that EXIF orientation tells."""
    if orientation in (5, 6, 7, 8):
        grey = grey.T
    if orientation in (2, 3, 6, 7):
        grey = grey[:, ::-1]
    if orientation in (3, 4, 7, 8):
        grey = grey[::-1]
    return np.ascontiguousarray(grey)


def _shrunk(grey: NDArray[np.uint8], max_side: int | None) -> NDArray[np.uint8]:
    height, width = grey.shape
    longest = max(height, width)
    if max_side is None or longest <= max_side:
        return grey
    size = [max(1, (2 * side * max_side + longest) // (2 * longest)) for side in (width, height)]
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _checked(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as OpenCV can take it, or say why it is no picture."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise Unreadable(
            f"shape {array.shape}, where (height, width), (height, width, 3) or (height, width, 4) "
            "is a picture"
        )
    if array.size == 0:
        raise Unreadable(f"shape {array.shape}, which has no pixels")
    if array.dtype == bool:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.type not in (np.uint8, np.uint16, np.float32, np.float64):
        raise Unreadable(
            f"values of type {array.dtype}, where uint8, uint16, bool or float between 0 and 1 "
            "is a picture"
        )
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def _array_digest(array: NDArray[Any]) -> int:
    return short_digest(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())


class _Quiet:
    """Silences OpenCV's log while any thread is inside, and restores its level after the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._level = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._level = cv2.utils.logging.getLogLevel()
                cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                cv2.utils.logging.setLogLevel(self._level)


_quiet = _Quiet()
