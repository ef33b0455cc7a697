"""What a header says, and how bytes are read without falling off their end."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Literal

Alpha = Literal["straight", "premultiplied", "ignored"]
"""How the colours of a fourth channel's picture are stored: as they are, already multiplied by it,
or it is no transparency at all."""

NONSENSE = "damaged: its header makes no sense"
TRUNCATED = "truncated"


class Unreadable(Exception):  # noqa: N818 - an answer about a file; callers turn it into ImageError
    """The bytes are no image that can be read; ``reason`` says why in a few words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Header:
    """What a file says about its (first) picture.

    Attributes
    ----------
    kind : str
        The format: ``"jpeg"``, ``"png"`` …
    width, height : int
        Pixels as stored, before any turn. Where a file tells its size twice, the larger.
    whole : bool
        False when data that the header promises are not there.
    orientation : int
        EXIF orientation, 1 to 8, that is left to be applied after decoding.
    white : int or None
        The decoded value of white, where it is not the largest of its type (10 bits in 16).
    inverted : bool
        The decoded values run from white to black.
    clear : int or None
        The decoded grey value that stands for a transparent pixel.
    alpha : {"straight", "premultiplied", "ignored"}
        What to make of a fourth channel, if one is decoded.
    """

    kind: str
    width: int
    height: int
    whole: bool
    orientation: int = 1
    white: int | None = None
    inverted: bool = False
    clear: int | None = None
    alpha: Alpha = "straight"


def unpack(form: str, data: bytes, at: int) -> tuple[Any, ...]:
    """Unpack numbers at an offset; data that end too early are an Unreadable, truncated."""
    try:
        return struct.unpack_from(form, data, at)
    except (struct.error, OverflowError):
        raise Unreadable(TRUNCATED) from None
