"""Codebooks as safetensors files: the project's own format.

Tensors: ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, and where known
``trained_on`` uint64 ``(n_images,)``, the digests of the training images. Metadata, all text:
``format`` ("bowsaw-codebook"), ``format_version`` ("1"), ``scale``, ``metric``, as JSON
``description`` (what made the descriptors) and ``provenance`` (how the words were made), and
``digest``, the SHA-256 of all the rest: safetensors itself has no checksum, and a word with one bit
turned over would go unnoticed.

Reading runs nothing: safetensors holds arrays and text only. Equal codebooks give equal bytes.

The reader is our own: eight bytes of length, a header in JSON, the arrays one after another without
a gap; the header's claims are held against the file's length before anything is made of them. A
safetensors file of somebody else's gives its matrices.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError
from bowsaw.formats.bounded import RefusedError, Source, shown
from bowsaw.formats.matrices import Axes, Matrices
from bowsaw.validation import canonical_json

FORMAT = "bowsaw-codebook"
VERSION = "1"

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_MOST_HEADER = 100_000_000
_MOST_AXES = 32


def write_safetensors(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write a codebook as safetensors; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "book.safetensors"
    >>> write_safetensors(Codebook([[0.0], [1.0]]), file)
    >>> with file.open("rb") as opened:
    ...     read_safetensors(opened)
    Codebook(2 words of 1, scale 1)
    """
    tensors: dict[str, NDArray[Any]] = {"words": codebook.words, "ids": codebook.ids}
    if codebook.trained_on is not None:
        tensors["trained_on"] = codebook.trained_on
    metadata = {
        "format": FORMAT,
        "format_version": VERSION,
        "scale": repr(codebook.scale),
        "metric": codebook.metric,
        "description": canonical_json(codebook.description),
        "provenance": json.dumps(codebook.provenance, sort_keys=True),
    }
    write_tensors(tensors, metadata, path)


def read_safetensors(file: BinaryIO) -> Codebook | Matrices:
    """Return our codebook, or the matrices of a safetensors file of another's."""
    tensors, metadata, refused = tensors_of(file)
    if metadata.get("format") != FORMAT:
        if metadata.get("format", "").startswith("bowsaw-"):
            raise RefusedError(
                f"it is a {shown(metadata['format'], 40)}, not a codebook",
                "Name the codebook that belongs to it.",
            )
        if "digest" in metadata and metadata.keys() & {"format_version", "metric", "scale"}:
            # One bit of «format» turned over would make it a stranger's, of unknown ids and scale.
            raise FormatError("it is a damaged codebook, or something else of bowsaw's")
        for name, array in list(tensors.items()):
            if array.ndim != 2 or not array.size or array.dtype.kind not in "iuf":
                refused[name] = f"{array.dtype} of shape {array.shape}, not a matrix of numbers"
                del tensors[name]
        return Matrices("safetensors", Axes.PROBABLY_ROWS, tensors, refused)
    if metadata.get("format_version") != VERSION:
        raise RefusedError(
            f"it has codebook format {shown(metadata.get('format_version'))}, and this version of "
            f"bowsaw reads {VERSION}",
            "Install the version that wrote it.",
        )
    names = {*tensors, *refused}
    if refused or not {"words", "ids"} <= names <= {"words", "ids", "trained_on"}:
        raise FormatError(f"it holds tensors {shown(sorted(names))}: it is damaged")
    if metadata.pop("digest", None) != tensors_digest(tensors, metadata):
        raise FormatError("its content does not match its checksum")
    try:
        return Codebook(
            tensors["words"],
            tensors["ids"],
            scale=float(metadata["scale"]),
            metric=metadata["metric"],
            description=_mapping(metadata["description"]),
            provenance=_mapping(metadata["provenance"]),
            trained_on=tensors.get("trained_on"),
        )
    except (BowsawError, KeyError, ValueError, RecursionError) as error:
        raise FormatError(f"it is damaged ({shown(error, 200)})") from error


def tensors_of(
    file: BinaryIO,
) -> tuple[dict[str, NDArray[Any]], dict[str, str], dict[str, str]]:
    """Return the arrays of a safetensors file, its metadata, and why other tensors are not read.

    Examples
    --------
    >>> import io
    >>> tensors_of(io.BytesIO(to_bytes({"a": np.ones(2)}, {"made": "by hand"})))
    ({'a': array([1., 1.])}, {'made': 'by hand'}, {})
    """
    source = Source(file)
    header, metadata = _begun(source)
    data = memoryview(source.take(source.left, "the tensors"))
    tensors, refused, places = {}, {}, []
    for name, about in header.items():
        try:
            kind, shape = about["dtype"], about["shape"]
            begin, end = about["data_offsets"]
            numbers = (*shape, begin, end) if isinstance(shape, list) else (None,)
            whole = all(type(n) is int and 0 <= n < 2**48 for n in numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"its tensor {shown(name)!r} is not described") from error
        if not whole or not begin <= end <= len(data) or len(shape) > _MOST_AXES:
            raise FormatError(f"its tensor {shown(name)!r} is not within the file")
        places.append((begin, end))
        if not isinstance(kind, str) or kind not in _TYPES:
            refused[name] = f"of type {shown(kind, 20)!r}, which is not read"
            continue
        dtype = np.dtype(_TYPES[kind])
        if math.prod(shape) * dtype.itemsize != end - begin:
            raise FormatError(
                f"its tensor {shown(name)!r} of shape {shape} takes other than its bytes"
            )
        if 0 in shape and len(shape) > 1:
            refused[name] = f"empty, of shape {shape}"
            continue
        values = np.frombuffer(data[begin:end], dtype)
        tensors[name] = values.reshape(shape)
    at = 0
    for begin, end in sorted(places):
        if begin != at:
            raise FormatError("its tensors overlap or leave a gap")
        at = end
    if at != len(data):
        raise FormatError(f"{len(data) - at:,} bytes follow its tensors")
    return tensors, metadata, refused


def metadata_of(file: BinaryIO) -> dict[str, str]:
    """Return the metadata of a safetensors file, without reading its tensors."""
    return _begun(Source(file))[1]


def _begun(source: Source) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the header says of each tensor, and the metadata."""
    n_header = source.number("<u8", "the header's length")
    if n_header > _MOST_HEADER:
        raise FormatError(f"its header should take {n_header:,} bytes, more than {_MOST_HEADER:,}")
    header = _header(source.take(n_header, "the header"))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FormatError("its metadata are not texts")
    return header, metadata


def _header(text: bytes) -> dict[str, Any]:
    def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name is there twice")
        return found

    try:
        found = json.loads(text.decode(), object_pairs_hook=without_twins)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its header is not JSON ({shown(error)})") from error
    if not isinstance(found, dict):
        raise FormatError("its header is not an object")
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise FormatError("its header holds half a character") from error
    return found


def write_tensors(
    tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str], path: str | PathLike[str]
) -> None:
    """Write tensors and texts with their digest; the same content gives the same bytes."""
    signed = {**metadata, "digest": tensors_digest(tensors, metadata)}
    whole = memoryview(to_bytes(dict(tensors), signed))
    end = 8 + int.from_bytes(whole[:8], "little")
    # In one order: safetensors writes metadata in any.
    header = json.dumps(json.loads(bytes(whole[8:end])), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    with atomic_write(path) as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.write(whole[end:])


def tensors_digest(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of tensors and texts, as files keep it."""
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _mapping(text: str) -> dict[str, Any] | None:
    value = json.loads(text)
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata that should be a mapping is not")
    return value
