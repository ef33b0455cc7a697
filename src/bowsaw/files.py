"""Writing files so that nobody ever sees half of one, and reading no more than there is."""

from __future__ import annotations

import errno
import hashlib
import itertools
import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.errors import SpaceError

# EDQUOT is a quota, EFBIG a limit on the size of files; not every system has them.
_FULL = {getattr(errno, name, errno.ENOSPC) for name in ("ENOSPC", "EDQUOT", "EFBIG")}

_calls = itertools.count()


@contextmanager
def disk_full_is_clear(path: Path) -> Iterator[None]:
    """Turn the system's «no space left» into a SpaceError that says what to do."""
    try:
        yield
    except SpaceError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise SpaceError(
                error.errno,
                f"the disk is full while writing {path}. Free some space and run the same "
                "command again; what was done is kept.",
            ) from error
        raise


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is whole and on disk.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"done")
    >>> target.read_bytes()
    b'done'
    """
    target = Path(path)
    # Two threads may write one file, too; the last one to finish has it.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{next(_calls)}.partial")
    with disk_full_is_clear(target):
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
            sync_folder(target.parent)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def regular_bytes(path: Path) -> bytes:
    """Return what a file holds; anything else than a file, such as a pipe, is «not found».

    Opening a pipe that nobody writes to would wait without end.

    Examples
    --------
    >>> regular_bytes(Path("."))
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: '.'
    """
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return path.read_bytes()


class StoredArrays:
    """The arrays of an uncompressed ``.npz``, none of them larger than the file.

    NumPy allocates what a header asks for and unpacks what is packed, so a kilobyte may ask for
    all memory. Here an array must be as long in the file as it says, and nothing is unpickled.

    Parameters
    ----------
    path : Path
        The file; use as a context.

    Raises
    ------
    Exception
        Damaged bytes make zipfile and NumPy raise a dozen kinds of it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "arrays.npz"
    >>> np.savez(path, a=np.arange(3))
    >>> with StoredArrays(path) as arrays:
    ...     arrays.names, arrays["a"]
    (['a'], array([0, 1, 2]))
    """

    def __init__(self, path: Path) -> None:
        # A pipe in the file's place would be waited for.
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._archive = zipfile.ZipFile(path)
        try:
            entries = self._archive.infolist()
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise ValueError("its arrays are compressed or larger than the file")
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> StoredArrays:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    @property
    def names(self) -> list[str]:
        """What the arrays are called."""
        return [name.removesuffix(".npy") for name in self._archive.namelist()]

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._archive.getinfo(f"{name}.npy")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed or larger than the file")
        with self._archive.open(entry) as member, warnings.catch_warnings():
            # NumPy only warns of a header that it had to mend.
            warnings.simplefilter("error")
            if np.lib.format.read_magic(member) != (1, 0):
                raise ValueError(f"{name} has another version of NumPy's format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(member)
            if math.prod(shape) * dtype.itemsize != entry.file_size - member.tell():
                raise ValueError(f"{name} has another length than its shape {shape} tells")
        with self._archive.open(entry) as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array


def short_digest(data: bytes | memoryview) -> int:
    """Return the first 64 bits of the SHA-256 of ``data``: an image's stable name.

    Examples
    --------
    >>> hex(short_digest(b""))
    '0xe3b0c44298fc1c14'
    """
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
