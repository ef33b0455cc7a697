"""NumPy's files: a matrix as ``.npy``, and ``.npz``, which can hold all of a codebook.

The header of an ``.npy`` file is a Python literal. Nothing is evaluated here: three patterns find
the type, the order and the shape, and a header that says anything else is refused. So are types
that are not numbers (an object array is a pickle), and shapes that need more bytes than follow.

Our ``.npz`` holds ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, where
known ``trained_on`` uint64 ``(n_images,)``, and ``metadata``, JSON text with ``format``
("bowsaw-codebook"), ``format_version``, ``scale``, ``metric``, ``description``, ``provenance``.
Equal codebooks give equal bytes. In any other ``.npz`` the words are a matrix.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError
from bowsaw.formats.bounded import Archive, RefusedError, Source, shown
from bowsaw.formats.matrices import Axes, Matrices
from bowsaw.store.histograms import FIELDS as HISTOGRAM_FIELDS

MAGIC = b"\x93NUMPY"
FORMAT, VERSION = "bowsaw-codebook", "1"

# Blanks and line ends alone: of other bytes that look like blanks NumPy says «damaged».
_PAIR = (
    r"[ \n]*(?:'descr'[ \n]*:[ \n]*'(?P<dtype{0}>[<>|=]?[a-zA-Z]\d{{1,9}})'"
    r"|'fortran_order'[ \n]*:[ \n]*(?P<order{0}>True|False)"
    r"|'shape'[ \n]*:[ \n]*\((?P<shape{0}>[\dL, ]{{0,999}})\))[ \n]*"
)
_PAIRS = ",".join(_PAIR.format(i) for i in range(3))
_HEADER = re.compile(r"\{" + _PAIRS + r",?[ \n]*\}[ \n]*", re.ASCII)
_MOST_HEADER = 10_000
_EMPTY_TEXT = 1024
_MOST_AXES = 32
_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_npy(file: BinaryIO) -> Matrices:
    """Return the one matrix of an ``.npy`` file."""
    array = array_of(file)
    found, refused = _sorted_out({"array": array})
    return Matrices("NumPy .npy", Axes.PROBABLY_ROWS, found, refused)


def read_npz(file: BinaryIO) -> Codebook | Matrices:
    """Return the codebook of our own ``.npz``, or the matrices of another's."""
    archive = Archive(file)
    members = {name.removesuffix(".npy"): name for name in archive.names if name.endswith(".npy")}
    if not members:
        raise FormatError(f"it is a zip file without arrays; it holds {shown(archive.names)}")
    if set(HISTOGRAM_FIELDS) <= set(members):
        raise RefusedError(
            "it holds histograms («bowsaw encode» made them), not words",
            "Name the codebook that they were made with.",
        )
    arrays, refused = {}, {}
    for name, member in members.items():
        try:
            arrays[name] = array_of(io.BytesIO(archive.read(member)))
        except FormatError as error:
            refused[name] = f"not to be used: {error}"
    if "metadata" in arrays and arrays["metadata"].dtype.kind == "U":
        ours = _our_metadata(arrays["metadata"])
        if ours is not None:
            return _our_codebook(arrays, ours, refused)
    found, others = _sorted_out(arrays)
    return Matrices("NumPy .npz", Axes.PROBABLY_ROWS, found, {**refused, **others})


def write_npy(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write the words alone, float32, a word a row."""
    with atomic_write(path) as file:
        np.lib.format.write_array(file, codebook.words, version=(1, 0), allow_pickle=False)


def write_npz(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write all of a codebook."""
    metadata = {
        "format": FORMAT,
        "format_version": VERSION,
        "scale": codebook.scale,
        "metric": codebook.metric,
        "description": codebook.description,
        "provenance": codebook.provenance,
    }
    arrays: dict[str, NDArray[Any]] = {"words": codebook.words, "ids": codebook.ids}
    if codebook.trained_on is not None:
        arrays["trained_on"] = codebook.trained_on
    # JSON in ASCII: NumPy drops zeros at the end of a text, and JSON writes none as they are.
    arrays["metadata"] = np.array(json.dumps(metadata, sort_keys=True))
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w") as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def array_of(file: BinaryIO) -> NDArray[Any]:
    """Return the array of an ``.npy`` file: numbers or texts, never objects.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.eye(2))
    >>> _ = file.seek(0)
    >>> array_of(file).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    source = Source(file)
    magic = source.take(8, "the beginning")
    if magic[:6] != MAGIC or magic[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise FormatError("it does not begin as an .npy file of version 1, 2 or 3 does")
    n_header = source.number("<u2" if magic[6] == 1 else "<u4", "the header's length")
    if n_header > _MOST_HEADER:
        raise FormatError(f"its header of {n_header:,} bytes is longer than {_MOST_HEADER:,}")
    text = source.take(n_header, "the header").decode("latin-1")
    match = _HEADER.fullmatch(text)
    parts = (
        {} if match is None else {k[:-1]: v for k, v in match.groupdict().items() if v is not None}
    )
    if set(parts) != {"dtype", "order", "shape"}:
        raise FormatError(f"its header is not one of numbers: {shown(text.strip(), 80)}")
    dtype = _dtype(parts["dtype"])
    sizes = parts["shape"].replace(" ", "").replace("L", "").split(",")
    shape = tuple(int(size) for size in sizes if size)
    # «04» is no number of Python's, and NumPy refuses such a header.
    padded = any(size.startswith("0") and size != "0" for size in sizes)
    if padded or "" in sizes[:-1] or len(shape) > _MOST_AXES or (0 in shape and len(shape) > 1):
        raise FormatError(f"its shape is ({parts['shape'][:80]})")
    if dtype.itemsize > max(source.left, _EMPTY_TEXT):
        # No text at all, each as long as a book: converting nothing would take its length.
        raise FormatError(f"its empty texts are {dtype.itemsize:,} bytes long each")
    if math.prod(shape) * dtype.itemsize != source.left:
        raise FormatError(
            f"its shape {shape} of {dtype} does not fit the {source.left:,} bytes that follow"
        )
    values = source.array(dtype, (math.prod(shape),), "the array")
    return values.reshape(shape, order="F" if parts["order"] == "True" else "C")


def _dtype(text: str) -> np.dtype[Any]:
    kind, size = text.lstrip("<>|=")[0], text.lstrip("<>|=")[1:]
    if kind in "biufcU" and int(size) < 2**28:
        try:
            found: np.dtype[Any] = np.dtype(text)
        except TypeError:
            found = np.dtype(object)
        # Other systems' long doubles are read as something else here, without a word.
        if found.itemsize and found.kind in "biufcU" and found.char not in "gG":
            return found
    raise FormatError(f"it holds {text!r}, which is not a number of a known kind (nor a text)")


def _sorted_out(
    arrays: dict[str, NDArray[Any]],
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    found, refused = {}, {}
    for name, array in arrays.items():
        if array.dtype.kind not in "iuf":
            refused[name] = f"of type {array.dtype}, not real numbers"
        elif array.ndim != 2 or not array.size:
            refused[name] = f"of shape {array.shape}, not a matrix"
        else:
            found[name] = array
    return found, refused


def _our_metadata(text: NDArray[Any]) -> dict[str, Any] | None:
    try:
        found = json.loads(text.item())
        return found if found.get("format") == FORMAT else None
    except (ValueError, AttributeError, RecursionError):
        return None


def _our_codebook(
    arrays: dict[str, NDArray[Any]], metadata: dict[str, Any], refused: dict[str, str]
) -> Codebook:
    if metadata.get("format_version") != VERSION:
        raise RefusedError(
            f"it has codebook format {shown(metadata.get('format_version'))}, and this version "
            f"of bowsaw reads {VERSION}",
            "Install the version that wrote it.",
        )
    names = {*arrays, *refused} - {"metadata"}
    if refused or not {"words", "ids"} <= names <= {"words", "ids", "trained_on"}:
        raise FormatError(f"it holds the arrays {shown(sorted(names))}: it is damaged")
    try:
        return Codebook(
            arrays["words"],
            arrays["ids"],
            scale=metadata["scale"],
            metric=metadata["metric"],
            description=metadata["description"],
            provenance=metadata["provenance"],
            trained_on=arrays.get("trained_on"),
        )
    except (BowsawError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"it is a damaged codebook ({shown(error, 200)})") from error
