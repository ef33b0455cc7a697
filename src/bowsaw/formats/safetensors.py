"""Codebooks as safetensors files: the project's own format.

Tensors: ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, and where known
``trained_on`` uint64 ``(n_images,)``, the digests of the training images, and with a projection
``projection_mean`` and ``projection_matrix``, float32. Metadata, all text:
``format`` ("bowsaw-codebook"), ``format_version`` ("1"), ``scale``, ``metric``, as JSON
``description`` (what made the descriptors) and ``provenance`` (how the words were made), and
``digest``, the SHA-256 of all the rest, since safetensors itself has no checksum.

Reading runs no code. Equal codebooks give equal bytes. The library's parser compares every claim of
the header with the file's length; it accepts a name that occurs twice, which is refused here. In a
safetensors file of another tool the words are a matrix.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import tensors_bytes, tensors_digest, write_tensors
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError
from bowsaw.formats.reader import Axes, Matrices, UnsupportedError, printable
from bowsaw.projection import Projection
from bowsaw.validation import canonical_json

FORMAT = "bowsaw-codebook"
VERSION = "1"

_PROJECTION = {"projection_mean": "mean", "projection_matrix": "matrix"}

_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def write_safetensors(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write a codebook as safetensors, atomically."""
    write_tensors(path, codebook_arrays(codebook), _metadata(codebook))


def n_bytes(codebook: Codebook) -> int:
    """Return the size of the file that a codebook makes."""
    return sum(map(len, tensors_bytes(codebook_arrays(codebook), _metadata(codebook))))


def _metadata(codebook: Codebook) -> dict[str, str]:
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "scale": repr(codebook.scale),
        "metric": codebook.metric,
        "description": canonical_json(codebook.description),
        "provenance": json.dumps(codebook.provenance, sort_keys=True),
    }


def read_safetensors(file: BinaryIO) -> Codebook | Matrices:
    """Return our codebook, or the matrices of a safetensors file of another tool."""
    tensors, metadata, refused = tensors_of(file)
    if metadata.get("format") != FORMAT:
        if metadata.get("format", "").startswith("bowsaw-"):
            raise UnsupportedError(
                f"it is a {printable(metadata['format'], 40)}, not a codebook",
                "Name the codebook that belongs to it.",
            )
        if "digest" in metadata and metadata.keys() & {"format_version", "metric", "scale"}:
            # A flipped bit in "format" must not make it a foreign file of unknown ids and scale.
            raise FormatError("it is a damaged codebook, or another file of bowsaw")
        values: dict[str, NDArray[Any] | str] = {**tensors, **refused}
        return Matrices.collect("safetensors", Axes.PROBABLY_ROWS, values.items())
    check_version(metadata.get("format_version"), tensors, refused)
    if metadata.pop("digest", None) != tensors_digest(tensors, metadata):
        raise FormatError("its content does not match its checksum")
    try:
        fields = {name: metadata[name] for name in ("metric", "description", "provenance")}
        fields |= {name: json.loads(fields[name]) for name in ("description", "provenance")}
        return codebook_of(tensors, scale=float(metadata["scale"]), **fields)
    except (KeyError, ValueError, RecursionError) as error:
        raise FormatError(f"it is damaged ({printable(error, 200)})") from error


def tensors_of(file: BinaryIO) -> tuple[dict[str, NDArray[Any]], dict[str, str], dict[str, str]]:
    """Return the arrays of a safetensors file, its metadata, and why other tensors are not read."""
    from safetensors import SafetensorError, deserialize

    content = file.read()
    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
        # The parser has checked the header's length and its JSON.
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end], object_pairs_hook=_without_duplicates)
    except (SafetensorError, ValueError, RecursionError) as error:
        reason = printable(error, 200)
        raise FormatError(f"it is not a complete safetensors file ({reason})") from error
    tensors, refused = {}, {}
    # The parser returns tensors in any order.
    for name, about in sorted(entries, key=lambda entry: entry[0]):
        kind, shape = about["dtype"], about["shape"]
        if kind not in _TYPES:
            refused[name] = f"of type {printable(kind, 20)!r}, which is not read"
        elif 0 in shape and len(shape) > 1:
            refused[name] = f"empty, of shape {shape}"
        else:
            tensors[name] = np.frombuffer(about["data"], _TYPES[kind]).reshape(shape)
    return tensors, header.get("__metadata__") or {}, refused


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in its header")
    return found


def codebook_arrays(codebook: Codebook) -> dict[str, NDArray[Any]]:
    """Return the arrays of a codebook as files hold them."""
    arrays: dict[str, NDArray[Any]] = {"words": codebook.words, "ids": codebook.ids}
    if codebook.trained_on is not None:
        arrays["trained_on"] = codebook.trained_on
    if codebook.projection is not None:
        arrays |= {key: getattr(codebook.projection, name) for key, name in _PROJECTION.items()}
    return arrays


def check_version(version: object, arrays: Collection[str], refused: Collection[str]) -> None:
    """Refuse a codebook of another version, or with other arrays than a codebook has."""
    if version != VERSION:
        raise UnsupportedError(
            f"it has codebook format {printable(version)}, and this version of bowsaw reads "
            f"{VERSION}",
            "Install the version that wrote it.",
        )
    names = {*arrays, *refused}
    known = {"words", "ids", *(_PROJECTION if names & _PROJECTION.keys() else ())}
    if refused or names - {"trained_on"} != known:
        raise FormatError(f"it holds the arrays {printable(sorted(names))}: it is damaged")


def codebook_of(arrays: Mapping[str, NDArray[Any]], **fields: Any) -> Codebook:
    """Return the codebook of arrays and fields from a file, or raise a FormatError."""
    for name in ("description", "provenance"):
        if not isinstance(fields[name], dict | None):
            raise FormatError(f"its {name} is not a mapping: it is damaged")
    try:
        # A description with NaN or infinity could not be written again.
        canonical_json(fields["description"])
        ids, fields["trained_on"] = arrays["ids"], arrays.get("trained_on")
        if arrays.keys() >= _PROJECTION.keys():
            parts = {name: arrays[key] for key, name in _PROJECTION.items()}
            fields["projection"] = Projection(**parts, scale=fields["scale"])
        return Codebook(arrays["words"], ids, **fields)
    except (BowsawError, TypeError, ValueError) as error:
        raise FormatError(f"it is a damaged codebook ({printable(error, 200)})") from error
