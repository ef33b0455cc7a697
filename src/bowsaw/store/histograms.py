"""Histograms on disk: one ``.npz`` that NumPy alone can read, written a chunk at a time.

The file holds

- ``histograms``: float32 ``(n_images, n_words)``;
- ``y``: int64 ``(n_images,)``, the class of each image, a position in ``classes``;
- ``classes``, ``paths``: text, ``(n_classes,)`` and ``(n_images,)``;
- ``words``: int64 ``(n_words,)``, the stable ids of the columns;
- ``metadata``: JSON text: coding, sharpness, codebook and store digests, part, version.

Histograms may be larger than memory, so rows are written to ``NAME.partial.npy`` through a memory
map. The checkpoint ``NAME.partial`` has the fingerprint and the number of rows that are done; it is
written before the rows and removed after them, so rows without it are not ours. At the end the rows
are copied into the ``.npz``, which appears complete or not at all. The same histograms give the
same bytes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.checkpoint import (
    Checkpoint,
    NpzReader,
    atomic_write,
    exclusive,
    is_checkpoint,
    remove_checkpoint,
    translate_write_errors,
)
from bowsaw.errors import FormatError
from bowsaw.store.shards import header
from bowsaw.validation import ComparedByValue, parse_json

_TEXT = np.dtype(np.str_)
FIELDS = {
    "histograms": (np.dtype(np.float32), 2),
    "y": (np.dtype(np.int64), 1),
    "classes": (_TEXT, 1),
    "paths": (_TEXT, 1),
    "words": (np.dtype(np.int64), 1),
    "metadata": (_TEXT, 0),
}
"""The arrays of a file, each with its dtype (text of any length) and number of axes."""

_ROWS = np.dtype("<f4")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Histograms(ComparedByValue):
    """The content of a histogram file."""

    histograms: NDArray[np.float32]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    words: NDArray[np.int64]
    metadata: dict[str, Any]


class HistogramWriter:
    """Rows that are written chunk by chunk and finished into one file; a context manager.

    ``shape`` is n_images and n_words; ``fingerprint`` is everything that the rows depend on. The
    rows of an interrupted run are continued if its fingerprint is the same. Otherwise they are kept
    and refused, unless ``overwrite``.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        shape: tuple[int, int],
        fingerprint: Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> None:
        self._path = Path(path)
        self._note_path = self._path.with_name(self._path.name + ".partial")
        self._rows_path = self._path.with_name(self._path.name + ".partial.npy")
        self._header = header(_ROWS, *shape)
        self._note = Checkpoint(self._note_path, {**fingerprint, "shape": [int(n) for n in shape]})
        with ExitStack() as stack:
            # Two writers that map the same rows would overwrite each other's.
            stack.enter_context(exclusive(self._path))
            if os.path.lexists(self._rows_path) and not os.path.lexists(self._note_path):
                raise FormatError(
                    f"{self._rows_path} has no checkpoint beside it. Move it away; it has been "
                    "left as it is."
                )
            if overwrite:
                if is_checkpoint(self._note_path):
                    # Before the note: rows without one are not ours.
                    with translate_write_errors(self._path):
                        self._rows_path.unlink(missing_ok=True)
                remove_checkpoint(self._note_path)
            self.n_done = self._found(shape)
            if not self.n_done:
                self._note.save({"done": 0})
                self._reserve(shape)
            with translate_write_errors(self._path):
                self.rows: NDArray[np.float32] = np.memmap(
                    self._rows_path, _ROWS, "r+", offset=len(self._header), shape=shape
                )
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _reserve(self, shape: tuple[int, int]) -> None:
        """Write zeros: a sparse file would meet a full disk inside the memory map, which kills."""
        block = bytes(2**20)
        left = _ROWS.itemsize * math.prod(shape)
        with translate_write_errors(self._path):
            try:
                with self._rows_path.open("wb") as file:
                    file.write(self._header)
                    while left > 0:
                        left -= file.write(block[:left])
            except OSError:
                self._rows_path.unlink(missing_ok=True)
                remove_checkpoint(self._note_path)
                raise

    def _found(self, shape: tuple[int, int]) -> int:
        """Return the number of rows that are done; 0 where the rows are missing or damaged."""
        saved = self._note.load()
        n_done = saved[0].get("done") if saved else 0
        if not isinstance(n_done, int) or not 0 <= n_done <= shape[0]:
            raise FormatError(f"{self._note_path} has an impossible number of rows. Move it away.")
        n_bytes = len(self._header) + _ROWS.itemsize * math.prod(shape)
        with suppress(OSError), self._rows_path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == n_bytes:
                return n_done if file.read(len(self._header)) == self._header else 0
        return 0

    def mark_done(self, n_done: int) -> None:
        """Record that the first ``n_done`` rows are final."""
        self.rows.flush()  # type: ignore[attr-defined]
        self.n_done = n_done
        self._note.save({"done": n_done})

    def finish(
        self,
        *,
        y: ArrayLike,
        classes: ArrayLike,
        paths: ArrayLike,
        words: ArrayLike,
        metadata: dict[str, Any],
    ) -> None:
        """Write the file from the rows and what belongs to them."""
        arrays = {
            "y": np.asarray(y, dtype=np.int64),
            "classes": np.asarray(classes, dtype=np.str_),
            "paths": np.asarray(paths, dtype=np.str_),
            "words": np.asarray(words, dtype=np.int64),
            "metadata": np.asarray(json.dumps(metadata, sort_keys=True)),
        }
        with atomic_write(self._path) as file, zipfile.ZipFile(file, "w") as archive:
            entry = zipfile.ZipInfo("histograms.npy", _EPOCH)
            with (
                self._rows_path.open("rb") as rows,
                archive.open(entry, "w", force_zip64=True) as member,
            ):
                shutil.copyfileobj(rows, member, 2**20)
            for name, array in arrays.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        del self.rows
        with translate_write_errors(self._path):
            self._rows_path.unlink()
        remove_checkpoint(self._note_path)
        self._stack.close()


def read_histograms(path: str | PathLike[str]) -> Histograms:
    """Read an ``.npz`` that ``bowsaw encode`` wrote, or raise a FormatError with the reason."""
    source = Path(path)
    remedy = "Make it again with `bowsaw encode`."
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make histograms with `bowsaw encode`.")
    try:
        with NpzReader(source) as archive:
            missing = sorted(set(FIELDS) - set(archive.names))
            if missing:
                raise ValueError(f"it has no {', '.join(missing)}")
            arrays = {name: _checked(name, archive[name]) for name in FIELDS}
        fields: dict[str, Any] = {n: tuple(arrays[n].tolist()) for n in ("classes", "paths")}
        fields["metadata"] = dict(parse_json(arrays["metadata"].item()))
        found = Histograms(**{**arrays, **fields})
        n_images, n_words = found.histograms.shape
        if not len(found.y) == len(found.paths) == n_images or len(found.words) != n_words:
            raise ValueError("its arrays disagree in length")
        if n_images and not 0 <= found.y.min() <= found.y.max() < len(found.classes):
            raise ValueError("y has a class that does not exist")
    except Exception as error:
        # Damaged bytes make the parsers below raise many types of exceptions; all mean the same.
        reason = " ".join(str(error).split())
        raise FormatError(f"{source} cannot be read as histograms: {reason}. {remedy}") from error
    return found


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    dtype, ndim = FIELDS[name]
    found = array.dtype
    if array.ndim != ndim or (found != dtype and (found.kind != "U" or dtype != _TEXT)):
        raise ValueError(f"{name} is {found} of shape {array.shape}")
    if dtype == _TEXT and array.nbytes:
        # NumPy accepts any numbers as text, and Python fails later, where such a text is printed.
        codes = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(found.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError(f"{name} has an invalid character")
    return array
