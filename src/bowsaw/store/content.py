"""What a catalogue says, as values: its images, its parameters, and whether they make sense.

The meaning of each field is told in ``catalog``, which keeps them in SQLite.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import ParameterError
from bowsaw.validation import canonical_json, parse_json

SCHEMA = 1
"""The version of the layout; it changes with the tables, the files or their meaning."""

OK, SET_ASIDE, PENDING = "ok", "set-aside", "pending"
_DTYPES = ("uint8", "float32")
_INT = {int, type(None)}


@dataclass(frozen=True, slots=True)
class Entry:
    """One image's line; the fields are the columns of ``images``."""

    row: int
    path: str
    label: int
    status: str = PENDING
    reason: str = ""
    shard: int | None = None
    start: int | None = None
    count: int | None = None
    width: int | None = None
    height: int | None = None
    digest: str | None = None


COLUMNS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Recipe:
    """All that decides which descriptors an image gets, beside the image."""

    description: str
    reading: str
    scale: float
    dtype: str
    n_dims: int

    @classmethod
    def of(cls, descriptor: Descriptor) -> Recipe:
        """Return the recipe of a descriptor."""
        dtype = descriptor.stored_dtype.name
        if dtype not in _DTYPES:
            raise ParameterError(
                f"a store holds descriptors of {' or '.join(_DTYPES)}; got {dtype}. Convert them "
                "in the descriptor."
            )
        reading = {
            "max_pixels": descriptor.max_pixels,
            "max_side": descriptor.max_side,
            "min_side": descriptor.min_side,
        }
        return cls(
            description=canonical_json(descriptor.description() or {}),
            reading=json.dumps(reading, sort_keys=True),
            scale=float(descriptor.scale),
            dtype=dtype,
            n_dims=int(descriptor.n_dims),
        )

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the descriptors."""
        return np.dtype(self.dtype)

    @property
    def fingerprint(self) -> str:
        """Equal for two recipes only when they give the same descriptors in the same layout."""
        return hashlib.sha256(json.dumps([SCHEMA, *astuple(self)]).encode()).hexdigest()

    def parameters(self) -> dict[str, Any]:
        """Return every parameter under its own name, to say which one differs."""
        return {
            "scale": self.scale,
            "dtype": self.dtype,
            "n_dims": self.n_dims,
            **parse_json(self.reading),
            **parse_json(self.description),
        }


@dataclass(frozen=True)
class Content:
    """Everything that a catalogue says."""

    recipe: Recipe
    classes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    shard_bytes: int = 0
    bowsaw_version: str = __version__

    @property
    def n_done(self) -> int:
        """How many images are no longer pending."""
        return next((e.row for e in self.entries if e.status == PENDING), len(self.entries))

    def shards(self) -> list[tuple[Entry, ...]]:
        """Return the images of each shard, set aside or not."""
        done = self.entries[: self.n_done]
        return [tuple(images) for _, images in groupby(done, key=attrgetter("shard"))]


def n_rows(images: Iterable[Entry]) -> int:
    """Return how many descriptors the images of a shard have together."""
    return sum(entry.count or 0 for entry in images)


def trouble_with(content: Content, fingerprint: str) -> str:
    """Return what is wrong with a catalogue that something else than bowsaw has changed, or ""."""
    recipe = content.recipe
    if recipe.dtype not in _DTYPES or recipe.n_dims < 1 or not 0 < recipe.scale < np.inf:
        return f"it says {recipe.n_dims} dimensions of {recipe.dtype}, scale {recipe.scale}"
    if recipe.fingerprint != fingerprint:
        return "its parameters do not have its fingerprint"
    if not all(isinstance(name, str) for name in content.classes):
        return "its class names are not text"
    n_shards, end, pending = 0, 0, False
    for row, entry in enumerate(content.entries):
        if entry.row != row or not _is_typed(entry) or not 0 <= entry.label < len(content.classes):
            return f"row {row} is missing, has no class or a value of a wrong kind"
        if _escapes(entry.path):
            return f"the path {entry.path!r} leads out of the images' folder"
        if entry.status == PENDING:
            pending = True
            continue
        if pending or entry.status not in (OK, SET_ASIDE):
            return f"the status of row {row} ({entry.status!r}) cannot be"
        if entry.shard == n_shards and entry.start == 0:
            n_shards, end = n_shards + 1, 0
        if entry.shard != n_shards - 1 or entry.start != end:
            return f"row {row} does not follow row {row - 1} in its shard"
        count = entry.count or 0
        if count < 0 or (count and entry.status == SET_ASIDE):
            return f"row {row} has {count} descriptors"
        if entry.status == OK and not (entry.count is not None and entry.width and entry.height):
            return f"row {row} has no size"
        if entry.status == OK and len(bytes.fromhex(entry.digest or "")) != 8:
            return f"row {row} has no digest"
        end += count
    return ""


def _is_typed(entry: Entry) -> bool:
    """SQLite keeps any value in any column; numbers that are not whole would be cut later."""
    texts = (entry.path, entry.status, entry.reason)
    numbers = (entry.shard, entry.start, entry.count, entry.width, entry.height)
    return (
        type(entry.label) is int and {*map(type, texts)} == {str} and {*map(type, numbers)} <= _INT
    )


def _escapes(path: str) -> bool:
    """Say whether a path from a catalogue would lead out of the folder it is relative to."""
    if os.name == "nt":
        path = path.replace("\\", "/").replace(":", "/../")
    return path.startswith("/") or not path or ".." in path.split("/")
