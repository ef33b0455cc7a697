"""NumPy's files: a matrix as ``.npy``, and ``.npz``, which can hold all of a codebook.

Both are read by ``bowsaw.checkpoint``: NumPy parses the header, and the shape must match the bytes
that follow before anything is allocated. Object arrays, which are pickles, are refused.

Our ``.npz`` holds ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, where
known ``trained_on`` uint64 ``(n_images,)``, ``projection_mean`` and ``projection_matrix`` float32
where there is a projection, and ``metadata``, JSON text with ``format``
("bowsaw-codebook"), ``format_version``, ``scale``, ``metric``, ``description``, ``provenance``.
Equal codebooks give equal bytes. In any other ``.npz`` the words are a matrix.
"""

from __future__ import annotations

import json
import os
import zipfile
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import NpzReader, atomic_write
from bowsaw.checkpoint import read_npy as read_array
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.formats.reader import Axes, Matrices, UnsupportedError, open_archive, printable
from bowsaw.formats.safetensors import FORMAT, VERSION, check_version, codebook_arrays, codebook_of
from bowsaw.store.histograms import FIELDS as HISTOGRAM_FIELDS

MAGIC = b"\x93NUMPY"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FIELDS = ("scale", "metric", "description", "provenance")


def read_npy(file: BinaryIO) -> Matrices:
    """Return the one matrix of an ``.npy`` file."""
    n_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        array = read_array(file, n_bytes)
    except Exception as error:
        # Damaged bytes make NumPy raise many kinds of exceptions; all mean the same.
        raise FormatError(f"it is not a readable .npy file ({printable(error, 200)})") from error
    return Matrices.collect("NumPy .npy", Axes.PROBABLY_ROWS, [("array", array)])


def read_npz(file: BinaryIO) -> Codebook | Matrices:
    """Return the codebook of our own ``.npz``, or the matrices of another."""
    archive = open_archive(file)
    names = archive.names
    if not names:
        raise FormatError(f"it is a zip file without arrays; it holds {printable(archive.members)}")
    if set(HISTOGRAM_FIELDS) <= set(names):
        raise UnsupportedError(
            "it holds histograms (of bowsaw encode), not words",
            "Name the codebook that they were made with.",
        )
    arrays, refused = {}, {}
    for name in names:
        try:
            arrays[name] = archived_array(archive, name)
        except FormatError as error:
            refused[name] = f"unusable: {error}"
    metadata = _our_metadata(arrays)
    if metadata is None:
        values: dict[str, NDArray[Any] | str] = {**arrays, **refused}
        return Matrices.collect("NumPy .npz", Axes.PROBABLY_ROWS, values.items())
    del arrays["metadata"]
    check_version(metadata.get("format_version"), arrays, refused)
    if not set(_FIELDS) <= set(metadata):
        raise FormatError(f"its metadata lack one of {', '.join(_FIELDS)}: it is damaged")
    return codebook_of(arrays, **{name: metadata[name] for name in _FIELDS})


def archived_array(archive: NpzReader, name: str) -> NDArray[Any]:
    """Return an array of an archive, or raise a FormatError."""
    try:
        return archive[name]
    except Exception as error:
        raise FormatError(
            f"its member {printable(name)} is damaged ({printable(error, 200)})"
        ) from error


def write_npy(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words alone, float32, one word per row."""
    with atomic_write(path) as file:
        np.lib.format.write_array(file, codebook.words, version=(1, 0), allow_pickle=False)


def write_npz(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write all of a codebook."""
    metadata = {name: getattr(codebook, name) for name in _FIELDS}
    metadata |= {"format": FORMAT, "format_version": VERSION}
    # JSON in ASCII: NumPy drops zeros at the end of a text, and JSON escapes them.
    text = np.array(json.dumps(metadata, sort_keys=True))
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in {**codebook_arrays(codebook), "metadata": text}.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w") as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _our_metadata(arrays: dict[str, NDArray[Any]]) -> dict[str, Any] | None:
    text = arrays.get("metadata")
    if text is None or text.dtype.kind != "U":
        return None
    try:
        found = json.loads(text.item())
        return found if found.get("format") == FORMAT else None
    except (ValueError, AttributeError, RecursionError):
        return None
