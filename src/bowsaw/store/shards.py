"""Shards: the rows of a store, in plain ``.npy`` files.

Shard 7 of a store is two files, ``shards/00007.npy`` with descriptors ``(n_rows, n_dims)`` and
``positions/00007.npy`` with their places ``(n_rows, 3)``, float32. Anything that reads ``.npy``
reads them; bowsaw maps them into memory and never unpickles.

A shard is written row by row into ``….npy.partial``, so no more than one picture's rows are held
in memory. How many rows there will be is known only at the end, and ``.npy`` tells it at the
beginning: the header has a fixed length of 128 bytes and is filled in last. Then the file is
synced to disk and takes its name in one step. A file that has its name is therefore whole, though
it counts only once the catalogue speaks of it: ``discard`` removes what the catalogue does not
know.

Several machines may write shards of one store. Each then has its partial files in a room of the
run, ``pieces/…``, under names of their own. When the run ends the room goes, and with it the last
word of a machine that everybody thought dead.

File names are made from numbers here, never taken from a catalogue.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import sync_folder, translate_enospc
from bowsaw.errors import StoreError

VALUES, POSITIONS = "shards", "positions"
PIECES = "pieces"
"""Where the rooms of runs on several machines are."""

N_POSITION = 3
_HEADER_BYTES = 128
_FLOAT32 = np.dtype(np.float32)
_OURS = re.compile(r"(\d{5,})\.npy(\.partial)?")


def shard_path(folder: Path, kind: str, number: int) -> Path:
    """Return where shard ``number`` lies.

    Examples
    --------
    >>> shard_path(Path("scenes.store"), VALUES, 7).as_posix()
    'scenes.store/shards/00007.npy'
    """
    return folder / kind / f"{number:05d}.npy"


def header(dtype: np.dtype[Any], n_rows: int, n_columns: int) -> bytes:
    """Return the 128 bytes that open a ``.npy`` file of format 1.0.

    NumPy's own writer pads as its release sees fit; this one never changes, so neither do the bytes
    of a shard.
    """
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({n_rows}, {n_columns}), }}"
    magic: bytes = np.lib.format.magic(1, 0)
    room = _HEADER_BYTES - len(magic) - 2
    return magic + room.to_bytes(2, "little") + text.ljust(room - 1).encode("ascii") + b"\n"


def on_disk(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return ``dtype`` as it lies in a shard: little-endian on every machine."""
    return dtype.newbyteorder("<")


class _RowFile:
    """A ``.npy`` file that grows row by row and appears under its name when it is whole."""

    def __init__(
        self, path: Path, n_columns: int, dtype: np.dtype[Any], room: Path | None, sync: bool
    ) -> None:
        self._path = path
        self._sync = sync
        self._partial = path.with_name(path.name + ".partial")
        if room is not None:
            self._partial = room / f"{path.name}-{uuid.uuid4().hex}.partial"
        self._dtype = on_disk(dtype)
        self._n_columns = n_columns
        self._n_rows = 0
        with translate_enospc(path):
            path.parent.mkdir(exist_ok=True)
            self._file = self._partial.open("wb")
            self._file.write(bytes(_HEADER_BYTES))

    def append(self, rows: NDArray[Any]) -> None:
        if len(rows):
            with translate_enospc(self._path):
                self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._n_rows += len(rows)

    def finish(self) -> None:
        with translate_enospc(self._path):
            self._file.seek(0)
            self._file.write(header(self._dtype, self._n_rows, self._n_columns))
            self._file.flush()
            if self._sync:
                os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
            if self._sync:
                sync_folder(self._path.parent)

    def abandon(self) -> None:
        # Closing flushes, and so meets the full disk once more; the partial file goes anyway, to
        # give its space back.
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)


class ShardWriter:
    """Writes one shard; as a context it finishes the shard, or abandons it on an exception.

    Parameters
    ----------
    folder : Path
        The store.
    number : int
        Which shard; a file of that number is replaced.
    n_dims : int
        Dimensions of a descriptor.
    dtype : dtype
        Of the descriptors.
    room : Path, optional
        Where the partial files go, instead of beside the whole ones.
    sync : bool, default=True
        Wait until the files are on disk.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        n_dims: int,
        dtype: np.dtype[Any],
        *,
        room: Path | None = None,
        sync: bool = True,
    ) -> None:
        self.n_rows = 0
        self._values = _RowFile(shard_path(folder, VALUES, number), n_dims, dtype, room, sync)
        try:
            target = shard_path(folder, POSITIONS, number)
            self._positions = _RowFile(target, N_POSITION, _FLOAT32, room, sync)
        except BaseException:
            self._values.abandon()
            raise

    def append(self, values: NDArray[Any], positions: NDArray[np.float32]) -> None:
        """Add one picture's rows."""
        self._values.append(values)
        self._positions.append(positions)
        self.n_rows += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._values.finish()
                self._positions.finish()
        finally:
            self._values.abandon()
            self._positions.abandon()


def open_values(
    folder: Path, number: int, n_rows: int, n_dims: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Map a shard's descriptors into memory, or raise a StoreError when they are not as told."""
    return open_rows(shard_path(folder, VALUES, number), n_rows, n_dims, dtype)


def open_positions(folder: Path, number: int, n_rows: int) -> NDArray[np.float32]:
    """Map a shard's positions into memory, or raise a StoreError when they are not as told."""
    return open_rows(shard_path(folder, POSITIONS, number), n_rows, N_POSITION, _FLOAT32)


def is_shard(rows: NDArray[Any]) -> bool:
    """Say whether an array is a shard's file, mapped into memory."""
    return (
        isinstance(rows, np.memmap)
        and rows.filename is not None
        and rows.offset == _HEADER_BYTES
        and rows.base is not None
        and not isinstance(rows.base, np.ndarray)
    )


def check_sizes(folder: Path, number: int, n_rows: int, n_dims: int, dtype: np.dtype[Any]) -> None:
    """Raise a StoreError unless both files of a shard are there and as long as they must be."""
    _check_size(shard_path(folder, VALUES, number), n_rows, n_dims, dtype)
    _check_size(shard_path(folder, POSITIONS, number), n_rows, N_POSITION, _FLOAT32)


def open_rows(path: Path, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Map one file into memory, or raise a StoreError when it is not as told."""
    _check_size(path, n_rows, n_columns, dtype)
    kind = on_disk(dtype)
    try:
        with path.open("rb") as file:
            # The header is compared, not interpreted, so a forged one can do nothing.
            if file.read(_HEADER_BYTES) != header(kind, n_rows, n_columns):
                shape = (n_rows, n_columns)
                raise _damaged(path, f"its header does not say {dtype} {shape}")
            return np.memmap(file, kind, "r", _HEADER_BYTES, (n_rows, n_columns))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise StoreError(
                f"{path} cannot be opened: {error.strerror}. Raise the limit (ulimit -n) to more "
                "than twice the number of shards."
            ) from error
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error


def _check_size(path: Path, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> None:
    expected = _HEADER_BYTES + n_rows * n_columns * dtype.itemsize
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error
    if size != expected:
        raise _damaged(path, f"it has {size} bytes of {expected}")


def _damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"the store's file {path} is damaged: {reason}. Copy the store again, or run the same "
        "`bowsaw extract` again to redo what is damaged."
    )


def discard(folder: Path, first: int) -> None:
    """Remove shards from number ``first`` on, partial files and rooms; touch nothing else."""
    shutil.rmtree(folder / PIECES, ignore_errors=True)
    for kind in (VALUES, POSITIONS):
        if not (folder / kind).is_dir():
            continue
        for path in sorted((folder / kind).iterdir()):
            ours = _OURS.fullmatch(path.name)
            if ours and (ours[2] or int(ours[1]) >= first):
                try:
                    path.unlink()
                except PermissionError as error:
                    raise StoreError(
                        f"{path} cannot be replaced: {error.strerror}. Close the programs that "
                        "read the store and run the same command again."
                    ) from error
