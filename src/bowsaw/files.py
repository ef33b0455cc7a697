"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bowsaw.errors import SpaceError

# EDQUOT is a quota, EFBIG a limit on the size of files; not every system has them.
_FULL = {getattr(errno, name, errno.ENOSPC) for name in ("ENOSPC", "EDQUOT", "EFBIG")}


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
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
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


def short_digest(data: bytes | memoryview) -> int:
    """Return the first 64 bits of the SHA-256 of ``data``: an image's stable name.

    Examples
    --------
    >>> hex(short_digest(b""))
    '0xe3b0c44298fc1c14'
    """
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
