"""Codebooks as safetensors files: the project's own format.

Tensors: ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, and where known
``trained_on`` uint64 ``(n_images,)``, the digests of the training images. Metadata, all text:
``format`` ("bowsaw-codebook"), ``format_version`` ("1"), ``scale``, ``metric``, as JSON
``description`` (what made the descriptors) and ``provenance`` (how the words were made), and
``digest``, the SHA-256 of all the rest: safetensors itself has no checksum, and a word with one bit
turned over would go unnoticed.

Reading runs nothing: safetensors holds arrays and text only. Equal codebooks give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from bowsaw.checks import canonical
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError
from bowsaw.files import atomic_write

FORMAT = "bowsaw-codebook"
VERSION = "1"


def save(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write a codebook; the file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> file = Path(tempfile.mkdtemp()) / "book.safetensors"
    >>> bs.save(bs.Codebook([[0.0], [1.0]]), file)
    >>> bs.load(file)
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
        "description": canonical(codebook.description) or "null",
        "provenance": json.dumps(codebook.provenance, sort_keys=True),
    }
    metadata["digest"] = _digest(tensors, metadata)
    with atomic_write(path) as file:
        file.write(_with_sorted_header(to_bytes(tensors, metadata)))


def load(path: str | PathLike[str]) -> Codebook:
    """Read a codebook, or raise a FormatError that says why the file is not one."""
    source = Path(path)
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make a codebook with «bowsaw train».")
    try:
        # The library below calls a file that may not be read «not found».
        source.open("rb").close()
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FormatError(
                    f"{source} is a safetensors file but not a codebook of bowsaw's. Make one with "
                    "«bowsaw train»."
                )
            if metadata.get("format_version") != VERSION:
                raise FormatError(
                    f"{source} has codebook format {metadata.get('format_version')}, and this "
                    f"version of bowsaw reads {VERSION}. Install the version that wrote it."
                )
            names = set(file.keys())
            if not {"words", "ids"} <= names <= {"words", "ids", "trained_on"}:
                raise FormatError(
                    f"{source} holds tensors {sorted(names)}: it is damaged. Make it anew with "
                    "«bowsaw train»."
                )
            tensors = {name: file.get_tensor(name) for name in names}
        if metadata.pop("digest", None) != _digest(tensors, metadata):
            raise ValueError("its content does not match its checksum")
        return Codebook(
            tensors["words"],
            tensors["ids"],
            scale=float(metadata["scale"]),
            metric=metadata["metric"],
            description=_mapping(metadata["description"]),
            provenance=_mapping(metadata["provenance"]),
            trained_on=tensors.get("trained_on"),
        )
    except FormatError:
        raise
    except Exception as error:
        # Damaged bytes make the parsers below raise many kinds of exception; all mean the same.
        raise FormatError(
            f"{source} cannot be read as a codebook: {error}. Make it anew with «bowsaw train»."
        ) from error


def _digest(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _with_sorted_header(file: bytes) -> bytes:
    """Return the file with the header in one order; safetensors writes metadata in any."""
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8:end]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + file[end:]


def _mapping(text: str) -> dict[str, Any] | None:
    value = json.loads(text)
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata that should be a mapping is not")
    return value
