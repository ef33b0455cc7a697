"""One writer at a time.

The writer holds a lock of the operating system on the file ``writer.lock`` of the store. Such a
lock goes when its process goes, however it dies, so no stale lock ever has to be removed by hand;
the empty file that stays behind means nothing but «this folder is a store».
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bowsaw.checkpoint import translate_enospc
from bowsaw.errors import BusyError, StoreError

LOCK_NAME = "writer.lock"

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            # Windows says «permission denied» for a lock that another process holds.
            raise BlockingIOError from error

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class OutputLock:
    """Be the only one to write a file, until let go; or raise a BusyError at once.

    The lock is on ``NAME.lock`` beside the file, which goes when the lock does; one that a killed
    process has left behind locks nothing.

    Parameters
    ----------
    path : Path
        The file that is to be written.
    """

    def __init__(self, path: Path) -> None:
        self._target = path.with_name(path.name + ".lock")
        # The one who had it may have removed it between our opening and our locking.
        while not self._locked(path):
            self._file.close()

    def _locked(self, path: Path) -> bool:
        """Lock, and say whether the file that is locked is still the one of that name."""
        with translate_enospc(self._target):
            self._file = self._target.open("ab")
        try:
            _lock(self._file.fileno())
            return os.path.samestat(os.fstat(self._file.fileno()), self._target.stat())
        except FileNotFoundError:
            return False
        except OSError as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise BusyError(
                    f"another process is writing {path}. Wait for it to end, or choose another "
                    "output."
                ) from None
            raise StoreError(
                f"{path} cannot be locked: {error.strerror}. Choose an output on a file system "
                "that has locks."
            ) from error

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.let_go()

    def let_go(self) -> None:
        """Remove the lock: the file is whole, or nobody goes on with it."""
        if self._file.closed:
            return
        with suppress(OSError):
            self._target.unlink(missing_ok=True)
        self._file.close()
        with suppress(OSError):
            # Where a file that is open cannot be removed.
            self._target.unlink(missing_ok=True)


@contextmanager
def only_writer(folder: Path, kind: str = "store") -> Iterator[None]:
    """Be the only writer of a folder, or raise a BusyError at once.

    Parameters
    ----------
    folder : Path
        The folder.
    kind : str, default="store"
        What it is, for the message.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with only_writer(folder):
    ...     with only_writer(folder):
    ...         pass
    Traceback (most recent call last):
    ...
    bowsaw.errors.BusyError: another process is writing to the store ...
    """
    target = folder / LOCK_NAME
    try:
        with translate_enospc(target):
            file = target.open("ab")
    except PermissionError as error:
        raise StoreError(
            f"the {kind} {folder} cannot be written: {error.strerror}. Choose another output, or "
            "ask for the right to write there."
        ) from error
    with file:
        try:
            _lock(file.fileno())
        except BlockingIOError:
            raise BusyError(
                f"another process is writing to the {kind} {folder}. Wait for it to end, or choose "
                "another output."
            ) from None
        except OSError as error:
            raise StoreError(
                f"the {kind} {folder} cannot be locked: {error.strerror}. Choose an output on a "
                "file system that has locks."
            ) from error
        yield
