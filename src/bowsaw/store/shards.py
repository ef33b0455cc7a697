"""Shards: the rows of a store, in plain ``.npy`` files.

Shard 7 of a store is two files, ``shards/00007.npy`` with descriptors ``(n_rows, n_dims)`` and
``positions/00007.npy`` with their positions ``(n_rows, 3)``, float32. Anything that reads ``.npy``
reads them; bowsaw maps them into memory and never unpickles. File names are made from numbers here,
never taken from a catalogue.

A shard is written row by row into ``….npy.partial``. The number of rows is known only at the end,
and ``.npy`` has it at the beginning: the header has a fixed length of 128 bytes and is filled in
last. Then the file is flushed to disk and renamed. A file under its final name is complete, but
counts only once the catalogue lists it: ``discard`` removes what the catalogue does not list.

Several machines may write shards of one store, each with its partial files under unique names in
the staging folder of the run, ``segments/…``. Bags of a store are sent to a worker as
``ShardRefs``: the paths of the shards and the place of each bag, about 50 bytes per bag.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from bowsaw._arrays import AnyArray, Float32, Int64
from bowsaw.bags import Bags
from bowsaw.checkpoint import sync_folder, translate_write_errors
from bowsaw.errors import DataError, StoreError
from bowsaw.projection import Projection

VALUES, POSITIONS = "shards", "positions"
SEGMENTS = "segments"
"""The folder of the staging folders of runs on several machines."""

N_POSITION = 3
_HEADER_BYTES = 128
_FLOAT32 = np.dtype(np.float32)
_OURS = re.compile(r"(\d{5,})\.npy(\.partial)?")


def shard_path(folder: Path, kind: str, number: int) -> Path:
    """Return the path of a shard."""
    return folder / kind / f"{number:05d}.npy"


def header(dtype: np.dtype[Any], n_rows: int, n_columns: int) -> bytes:
    """Return the 128 bytes that open a ``.npy`` file; NumPy pads differently in each release."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({n_rows}, {n_columns}), }}"
    magic: bytes = np.lib.format.magic(1, 0)
    left = _HEADER_BYTES - len(magic) - 2
    return magic + left.to_bytes(2, "little") + text.ljust(left - 1).encode("ascii") + b"\n"


class _RowFile:
    """A ``.npy`` file that grows row by row and appears under its name when it is complete."""

    def __init__(
        self, path: Path, n_columns: int, dtype: np.dtype[Any], staging_dir: Path | None, sync: bool
    ) -> None:
        self._path = path
        self._sync = sync
        self._partial = path.with_name(path.name + ".partial")
        if staging_dir is not None:
            self._partial = staging_dir / f"{path.name}-{uuid.uuid4().hex}.partial"
        self._dtype = dtype.newbyteorder("<")
        self._n_columns = n_columns
        self._n_rows = 0
        with translate_write_errors(path):
            path.parent.mkdir(exist_ok=True)
            self._file = self._partial.open("wb")
            self._file.write(bytes(_HEADER_BYTES))

    def append(self, rows: AnyArray) -> None:
        if len(rows):
            with translate_write_errors(self._path):
                self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._n_rows += len(rows)

    def finish(self) -> None:
        with translate_write_errors(self._path):
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
        # Closing flushes, and so may meet the full disk again; the partial file is removed anyway.
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)


class ShardWriter:
    """Writes one shard; as a context it finishes the shard, or abandons it on an exception."""

    def __init__(
        self,
        folder: Path,
        number: int,
        n_dims: int,
        dtype: np.dtype[Any],
        *,
        staging_dir: Path | None = None,
        sync: bool = True,
    ) -> None:
        self.n_rows = 0
        target = shard_path(folder, VALUES, number)
        self._values = _RowFile(target, n_dims, dtype, staging_dir, sync)
        try:
            target = shard_path(folder, POSITIONS, number)
            self._positions = _RowFile(target, N_POSITION, _FLOAT32, staging_dir, sync)
        except BaseException:
            self._values.abandon()
            raise

    def append(self, values: AnyArray, positions: Float32) -> None:
        """Add the rows of one image."""
        self._values.append(values)
        self._positions.append(positions)
        self.n_rows += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._values.finish()
                self._positions.finish()
        finally:
            self._values.abandon()
            self._positions.abandon()


def discard(folder: Path, first: int) -> None:
    """Remove shards from number ``first`` on, partial files and staging folders of a store."""
    shutil.rmtree(folder / SEGMENTS, ignore_errors=True)
    for kind in (VALUES, POSITIONS):
        for path in sorted((folder / kind).iterdir()) if (folder / kind).is_dir() else ():
            ours = _OURS.fullmatch(path.name)
            if ours and (ours[2] or int(ours[1]) >= first):
                try:
                    path.unlink()
                except PermissionError as error:
                    raise StoreError(
                        f"{path} cannot be replaced: {error.strerror}. Close the programs that "
                        "read the store and run the same command again."
                    ) from error


def open_values(
    folder: Path, number: int, n_rows: int, n_dims: int, dtype: np.dtype[Any]
) -> AnyArray:
    """Map a shard's descriptors into memory, or raise a StoreError."""
    return open_rows(shard_path(folder, VALUES, number), n_rows, n_dims, dtype)


def open_positions(folder: Path, number: int, n_rows: int) -> Float32:
    """Map a shard's positions into memory, or raise a StoreError."""
    return open_rows(shard_path(folder, POSITIONS, number), n_rows, N_POSITION, _FLOAT32)


def check_sizes(folder: Path, number: int, n_rows: int, n_dims: int, dtype: np.dtype[Any]) -> None:
    """Raise a StoreError unless both files of a shard have the right length."""
    _check_size(shard_path(folder, VALUES, number), n_rows, n_dims, dtype)
    _check_size(shard_path(folder, POSITIONS, number), n_rows, N_POSITION, _FLOAT32)


def open_rows(path: Path, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> AnyArray:
    """Map one file into memory, or raise a StoreError when it is not as expected."""
    _check_size(path, n_rows, n_columns, dtype)
    on_disk = dtype.newbyteorder("<")
    try:
        with path.open("rb") as file:
            # The header is compared, not interpreted, so a forged one has no effect.
            if file.read(_HEADER_BYTES) != header(on_disk, n_rows, n_columns):
                raise _damaged(path, f"its header is not {dtype} {(n_rows, n_columns)}")
            return np.memmap(file, on_disk, "r", _HEADER_BYTES, (n_rows, n_columns))
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


def _is_shard(rows: AnyArray) -> bool:
    return (
        isinstance(rows, np.memmap)
        and rows.filename is not None
        and rows.offset == _HEADER_BYTES
        and rows.base is not None
        and not isinstance(rows.base, np.ndarray)
    )


@dataclass(frozen=True, eq=False)
class ShardRefs:
    """Where bags of a store lie: bag i is rows ``start[i] : start[i] + counts[i]`` of its shard.

    ``files`` has the path and number of rows of each shard; ``shard`` holds positions in it.
    """

    files: tuple[tuple[str, int], ...]
    shard: Int64
    start: Int64
    counts: Int64
    n_dims: int
    dtype: str
    scale: float
    projection: Projection | None = None

    @classmethod
    def of(cls, bags: Bags) -> ShardRefs:
        """Return where bags lie, or raise a DataError when they are not in a store."""
        arrays, shard, start, counts = bags.places()
        if not all(map(_is_shard, arrays)):
            raise DataError(
                f"a cluster reads descriptors from a store; these {len(bags)} bags are in the "
                "memory of this process. Extract them to a store and give its bags, or leave "
                "parallel out."
            )
        files = tuple((str(array.filename), len(array)) for array in arrays)
        layout = (arrays[0].shape[1], arrays[0].dtype.name)
        return cls(files, shard, start, counts, *layout, bags.scale, bags.projection)

    def landmarks(self) -> dict[Path, int | None]:
        """Return the first and the last file with their sizes, to check that workers see them."""
        return {path: path.stat().st_size for path in (Path(self.files[i][0]) for i in (0, -1))}

    def bags(self, first: int, last: int) -> ShardRefs:
        """Return the references of some of the bags."""
        return self._select(self.shard[first:last], self.start[first:last], self.counts[first:last])

    def rows(self, start: int, stop: int, offsets: Int64) -> ShardRefs:
        """Return the references of rows ``start`` to ``stop`` of bags with these offsets."""
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        begin = np.maximum(offsets[first:last], start)
        return self._select(
            self.shard[first:last],
            self.start[first:last] + begin - offsets[first:last],
            np.minimum(offsets[first + 1 : last + 1], stop) - begin,
        )

    def around(self, numbers: Int64, offsets: Int64) -> tuple[ShardRefs, Int64]:
        """Return the references of the bags of some rows (ascending), and the rows among them."""
        touched, owner = np.unique(
            np.searchsorted(offsets, numbers, side="right") - 1, return_inverse=True
        )
        counts = self.counts[touched]
        begins = np.cumsum(counts) - counts
        refs = self._select(self.shard[touched], self.start[touched], counts)
        return refs, numbers - offsets[touched][owner] + begins[owner]

    def _select(self, shard: Int64, start: Int64, counts: Int64) -> ShardRefs:
        used, place = np.unique(shard, return_inverse=True)
        files = tuple(self.files[i] for i in used)
        return replace(self, files=files, shard=place.astype(np.int64), start=start, counts=counts)

    def open(self) -> Bags:
        """Map the files into memory; raises a StoreError when one has changed."""
        dtype: np.dtype[Any] = np.dtype(self.dtype)
        arrays = [open_rows(Path(path), n, self.n_dims, dtype) for path, n in self.files]
        empty = np.empty((0, self.n_dims), dtype)
        places = (self.shard, self.start, self.counts)
        bags = Bags.from_pieces(arrays or [empty], *places, scale=self.scale)
        return bags if self.projection is None else bags.projected(self.projection)


def rows_at(bags: Bags, numbers: Int64) -> AnyArray:
    """Return chosen rows (ascending) of all descriptors, reading only the pages they lie in."""
    out = np.empty((len(numbers), bags.n_dims), dtype=bags.dtype)
    offsets = bags.offsets
    owner = np.searchsorted(offsets, numbers, side="right") - 1
    touched, begins = np.unique(owner, return_index=True)
    for bag, begin, end in zip(touched, begins, [*begins[1:], len(numbers)], strict=True):
        out[begin:end] = bags[int(bag)][numbers[begin:end] - offsets[bag]]
    return out
