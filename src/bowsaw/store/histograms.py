"""Histograms on disk: one ``.npz`` that NumPy alone can read, written a chunk at a time.

The file holds

- ``histograms``: float32 ``(n_images, n_words)``;
- ``y``: int64 ``(n_images,)``, the class of each image, a position in ``classes``;
- ``classes``, ``paths``: text, ``(n_classes,)`` and ``(n_images,)``;
- ``words``: int64 ``(n_words,)``, the stable ids of the columns;
- ``metadata``: JSON text: coding, sharpness, codebook and store digests, part, version.

Histograms may be larger than memory, so rows are written to ``NAME.partial.npy`` through a memory
map; ``NAME.partial.json`` tells how many are done and under which fingerprint. An interrupted run
goes on from there. At the end the rows are copied into the ``.npz``, which appears whole or not at
all. Nothing is pickled, and the same histograms give the same bytes.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import FormatError
from bowsaw.files import atomic_write, disk_full_is_clear

FIELDS = ("histograms", "y", "classes", "paths", "words", "metadata")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Histograms:
    """The content of a histogram file."""

    histograms: NDArray[np.float32]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    words: NDArray[np.int64]
    metadata: dict[str, Any]


class HistogramWriter:
    """Rows that are written bit by bit and finished into one file.

    Parameters
    ----------
    path : path-like
        The ``.npz`` to make.
    shape : (int, int)
        n_images and n_words.
    fingerprint : str
        What the rows depend on; rows of an interrupted run with another fingerprint are not used.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "histograms.npz"
    >>> writer = HistogramWriter(path, (1, 2), "example")
    >>> writer.rows[:] = [[0.25, 0.75]]
    >>> writer.mark_done(1)
    >>> writer.finish(y=[0], classes=["sky"], paths=["sky/1.png"], words=[0, 1], metadata={})
    >>> read_histograms(path).histograms.tolist()
    [[0.25, 0.75]]
    """

    def __init__(self, path: str | PathLike[str], shape: tuple[int, int], fingerprint: str) -> None:
        self._path = Path(path)
        self._rows_path = self._path.with_name(self._path.name + ".partial.npy")
        self._note_path = self._path.with_name(self._path.name + ".partial.json")
        self._fingerprint = fingerprint
        self.n_done = self._found(shape)
        with disk_full_is_clear(self._path):
            mode = "r+" if self.n_done else "w+"
            self.rows: NDArray[np.float32] = np.lib.format.open_memmap(
                self._rows_path, mode=mode, dtype=np.float32, shape=shape
            )
            if not self.n_done:
                # A sparse file would meet a full disk inside the memory map, where it kills.
                self._reserve(shape)

    def _reserve(self, shape: tuple[int, int]) -> None:
        with self._rows_path.open("r+b") as file:
            file.seek(0, 2)
            missing = self.rows.nbytes + self.rows.offset - file.tell()  # type: ignore[attr-defined]
            file.write(bytes(max(missing, 0)))
            file.seek(self.rows.offset)  # type: ignore[attr-defined]
            block = bytes(2**20)
            left = shape[0] * shape[1] * 4
            while left > 0:
                file.write(block[:left])
                left -= len(block)

    def _found(self, shape: tuple[int, int]) -> int:
        try:
            note = json.loads(self._note_path.read_text())
            rows = np.load(self._rows_path, mmap_mode="r", allow_pickle=False)
            fits = note["fingerprint"] == self._fingerprint and rows.shape == shape
            return int(note["done"]) if fits else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def mark_done(self, n_done: int) -> None:
        """Put down that the first ``n_done`` rows are final."""
        self.rows.flush()  # type: ignore[attr-defined]
        self.n_done = n_done
        note = {"fingerprint": self._fingerprint, "done": n_done}
        with atomic_write(self._note_path) as file:
            file.write(json.dumps(note).encode())

    def finish(
        self,
        *,
        y: ArrayLike,
        classes: ArrayLike,
        paths: ArrayLike,
        words: ArrayLike,
        metadata: dict[str, Any],
    ) -> None:
        """Make the file from the rows and what belongs to them."""
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
        self._rows_path.unlink()
        self._note_path.unlink(missing_ok=True)


def read_histograms(path: str | PathLike[str]) -> Histograms:
    """Read a histogram file, or raise a FormatError that says why it is not one."""
    source = Path(path)
    remedy = "Make it anew with «bowsaw encode»."
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make histograms with «bowsaw encode».")
    try:
        with np.load(source, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile) or not set(FIELDS) <= set(file.files):
                raise FormatError(f"{source} does not hold histograms of bowsaw's. {remedy}")
            found = Histograms(
                file["histograms"],
                file["y"],
                tuple(file["classes"].tolist()),
                tuple(file["paths"].tolist()),
                file["words"],
                json.loads(str(file["metadata"])),
            )
    except FormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"{source} cannot be read as histograms: {error}. {remedy}") from error
    n_images, n_words = found.histograms.shape if found.histograms.ndim == 2 else (-1, -1)
    if not (len(found.y) == len(found.paths) == n_images and len(found.words) == n_words):
        raise FormatError(f"{source} is damaged: its arrays disagree in length. {remedy}")
    return found
