"""Codebooks as safetensors files: the project's own format.

Tensors: ``words`` float32 ``(n_words, n_dims)``, ``ids`` int64 ``(n_words,)``, and where known
``trained_on`` uint64 ``(n_images,)``, the digests of the training images. Metadata, all text:
``format`` ("bowsaw-codebook"), ``format_version`` ("1"), ``scale``, ``metric``, and as JSON
``description`` (what made the descriptors) and ``provenance`` (how the words were made).

Reading runs nothing: safetensors holds arrays and text only.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from bowsaw.bags import canonical
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError
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
    with atomic_write(path) as file:
        file.write(to_bytes(tensors, metadata))


def load(path: str | PathLike[str]) -> Codebook:
    """Read a codebook, or raise a FormatError that says why the file is not one."""
    source = Path(path)
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make a codebook with «bowsaw train».")
    try:
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
                raise FormatError(f"{source} holds tensors {sorted(names)}: it is damaged.")
            return Codebook(
                file.get_tensor("words"),
                file.get_tensor("ids"),
                scale=float(metadata["scale"]),
                metric=metadata["metric"],
                description=_mapping(metadata["description"]),
                provenance=_mapping(metadata["provenance"]),
                trained_on=file.get_tensor("trained_on") if "trained_on" in names else None,
            )
    except FormatError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, BowsawError) as error:
        raise FormatError(
            f"{source} cannot be read as a codebook: {error}. Make it anew with «bowsaw train»."
        ) from error


def _mapping(text: str) -> dict[str, Any] | None:
    value = json.loads(text)
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata that should be a mapping is not")
    return value
