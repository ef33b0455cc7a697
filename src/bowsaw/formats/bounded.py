"""Reading files that nobody vouches for: never more memory than the file's size allows.

A header may claim a terabyte, and a kilobyte may inflate to a gigabyte. So a claim is compared with
the bytes that are there before anything is allocated, and what is compressed is unpacked a piece at
a time up to a limit: ``MOST_RATIO`` times the bytes on disk, and 1 MiB that any file may have, and
never more than ``MOST_BYTES``. Words of real vocabularies shrink to a half or a fifth; only a bomb
meets the limit.

Every reader here and beside raises ``FormatError`` with a reason that is a part of a sentence:
whoever knows the file's name puts it in front, and says what to do about damage behind it. Where
something else helps, a reader raises ``RefusedError``, which carries a remedy of its own.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bowsaw.errors import FormatError

MOST_RATIO = 50
"""Unpacked bytes for each byte on disk."""

MOST_BYTES = 2**30
"""Unpacked bytes of one file, whatever its size."""

_ANY_FILE = 2**20
_PIECE = 2**16
_MOST_MEMBERS = 1000
_LONGEST_NAME = 100


class RefusedError(FormatError):
    """Why a file is not read, and what to do instead.

    Parameters
    ----------
    reason : str
        A part of a sentence, as of any reader.
    remedy : str
        A sentence.

    Examples
    --------
    >>> str(RefusedError("it is HDF5, which is not read", "Save it in another version."))
    'it is HDF5, which is not read. Save it in another version.'
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason, remedy)

    def __str__(self) -> str:
        return ". ".join(self.args)


def allowance(n_packed: int) -> int:
    """Return how many bytes a file of ``n_packed`` bytes may unpack to.

    Examples
    --------
    >>> allowance(1000)
    1098576
    """
    return min(MOST_RATIO * n_packed + _ANY_FILE, MOST_BYTES)


def shown(name: object, most: int = 60) -> str:
    r"""Return a name or a reason from a file as it may stand in a message: one line, not too long.

    Examples
    --------
    >>> shown("a\n" * 40, 8)
    'a\\na\\na…'
    """
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name)[:most]
    )
    return text if len(text) <= most and len(str(name)) <= most else text[: most - 1] + "…"


class Source:
    """The bytes of a file in order, where asking for more than there are is an error.

    Examples
    --------
    >>> import io
    >>> source = Source(io.BytesIO(bytes([1, 0, 2, 0])))
    >>> source.array("<u2", (2,), "two numbers").tolist(), source.left
    ([1, 2], 0)
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        here = file.tell()
        self.left = file.seek(0, os.SEEK_END) - here
        file.seek(here)

    def take(self, n_bytes: int, what: str) -> bytes:
        """Return the next bytes; ``what`` they are is told when they are missing."""
        if not 0 <= n_bytes <= self.left:
            raise FormatError(
                f"{what} should take {n_bytes:,} bytes and {self.left:,} are left: it is cut off "
                "or damaged"
            )
        found = self._file.read(n_bytes)
        if len(found) != n_bytes:
            raise FormatError(f"{what} cannot be read whole: the file has changed meanwhile")
        self.left -= n_bytes
        return found

    def number(self, dtype: DTypeLike, what: str) -> int:
        """Return the next whole number."""
        return int(self.array(dtype, (), what))

    def array(self, dtype: DTypeLike, shape: Sequence[int], what: str) -> NDArray[Any]:
        """Return the next numbers, read-only."""
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        return np.frombuffer(self.take(n_bytes, what), kind).reshape(shape)


def inflated(packed: Iterable[bytes], limit: int, *, gzip: bool = False) -> bytes:
    """Return what zlib (or gzip) has packed, at most ``limit`` bytes.

    Examples
    --------
    >>> inflated([zlib.compress(b"words")], 5)
    b'words'
    """
    machine = zlib.decompressobj(31 if gzip else 15)
    found = bytearray()
    try:
        for piece in packed:
            rest = piece
            while rest and not machine.eof:
                found += machine.decompress(rest, limit + 1 - len(found))
                if len(found) > limit:
                    raise FormatError(
                        f"it unpacks to more than {limit:,} bytes, {MOST_RATIO} times its size"
                    )
                rest = machine.unconsumed_tail
            if machine.unused_data:
                raise FormatError("it goes on after the end of what is compressed")
    except zlib.error as error:
        raise FormatError(f"what is compressed is damaged ({error})") from error
    if not machine.eof:
        raise FormatError("what is compressed is cut off")
    return bytes(found)


def pieces(file: BinaryIO) -> Iterable[bytes]:
    """Yield the rest of a file, a piece at a time."""
    return iter(lambda: file.read(_PIECE), b"")


class _Clamped:
    """A file that hands out what is there: a real one makes room for all that it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, os.SEEK_END)

    def read(self, n_bytes: int = -1) -> bytes:
        left = max(self.size - self._file.tell(), 0)
        return self._file.read(left if n_bytes < 0 else min(n_bytes, left))

    def seek(self, to: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(to, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


class Archive:
    """A zip file whose members may be read: plain names, no more than the file can hold.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> with zipfile.ZipFile(file, "w") as archive:
    ...     archive.writestr("a.txt", "words")
    >>> Archive(file).read("a.txt")
    b'words'
    """

    def __init__(self, file: BinaryIO) -> None:
        clamped = _Clamped(file)
        try:
            self._zip = zipfile.ZipFile(clamped)
            entries = self._zip.infolist()
        except Exception as error:
            # Damaged bytes make zipfile raise many kinds of exception; all mean the same.
            raise FormatError(f"its directory is damaged ({shown(error)})") from error
        if len(entries) > _MOST_MEMBERS:
            raise FormatError(f"it has {len(entries):,} members, more than {_MOST_MEMBERS:,}")
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) < len(entries):
            raise FormatError("two of its members have one name")
        for name, entry in self._entries.items():
            if not name or set(name) & set("/\\:\0") or name in (".", ".."):
                raise FormatError(f"its member {shown(name)!r} is not a plain name but a path")
            if not name.isprintable() or len(name) > _LONGEST_NAME:
                raise FormatError(f"its member {shown(name)!r} has a name that nobody could type")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FormatError(f"its member {name} is packed in a way other than deflate")
        total, limit = sum(entry.file_size for entry in entries), allowance(clamped.size)
        if total > limit:
            raise FormatError(
                f"it says that it unpacks to {total:,} bytes, more than {limit:,}, {MOST_RATIO} "
                "times its size"
            )

    @property
    def names(self) -> list[str]:
        """The members, in the order of the file."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """Return a member, which cannot be longer than the file said at first."""
        try:
            with self._zip.open(self._entries[name]) as member:
                found = member.read(self._entries[name].file_size)
        except Exception as error:
            raise FormatError(f"its member {name} is damaged ({shown(error)})") from error
        if len(found) != self._entries[name].file_size:
            raise FormatError(f"its member {name} is cut off")
        return found
