"""Reading files of unknown origin: bounded memory, and the choice of the matrix with the words.

**Bounds.** A header may claim a terabyte, and a kilobyte may inflate to a gigabyte. A claim is
compared with the bytes that are there before anything is allocated, and compressed data are
inflated up to ``MAX_RATIO`` times the bytes on disk plus 1 MiB, never beyond ``MAX_BYTES``.

**Errors.** A reader raises ``FormatError`` with a reason that is part of a sentence; the registry
adds the file's name and the remedy for damage. ``UnsupportedError`` carries its own remedy.

**Which matrix, which axis.** Nothing says which matrix of a file is the vocabulary, nor its axes:

- a matrix is chosen by its name (``variable``), or is the only one (scalars and vectors beside it
  do not count);
- where the tool has one convention, it holds (``Axes.ROWS``);
- an array file has none (``Axes.PROBABLY_ROWS``): rows, unless the shape looks transposed;
- a MATLAB file may be either (``Axes.UNKNOWN``): if one axis has the length of a SIFT descriptor
  and the other is longer and has not, the first is the dimensions (with a warning for columns);
  anything else, a square above all, needs ``layout``.
"""

from __future__ import annotations

import io
import math
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bowsaw.checkpoint import NpzReader
from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError, ParameterError
from bowsaw.validation import check_choice

MAX_RATIO = 50
MAX_BYTES = 2**30
LAYOUTS = ("rows", "columns")
KNOWN_LENGTHS = (128, 144, 384)
"""Lengths of VLFeat's descriptors: SIFT and its dense form, LIOP, SIFT of three colours."""

_ANY_FILE = 2**20
_MAX_MEMBERS = 1000
_MAX_VALUES = 10_000
_MAX_NAME = 100
_MAX_LISTED = 12


class UnsupportedError(FormatError):
    """Why a file is not read (part of a sentence), and what to do instead (a sentence)."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason, remedy)

    def __str__(self) -> str:
        return ". ".join(self.args)


def inflation_limit(n_packed: int) -> int:
    """Return the limit of inflated bytes for ``n_packed`` bytes on disk."""
    return min(MAX_RATIO * n_packed + _ANY_FILE, MAX_BYTES)


def printable(name: object, max_length: int = 60) -> str:
    """Return text from a file as it may appear in a message: one line, not too long."""
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in str(name)[:max_length]
    )
    fits = len(text) <= max_length and len(str(name)) <= max_length
    return text if fits else text[: max_length - 1] + "…"


class ByteReader:
    """The bytes of a file in order; asking for more than there are is an error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        here = file.tell()
        self.left = file.seek(0, os.SEEK_END) - here
        file.seek(here)

    def take(self, n_bytes: int, what: str) -> bytes:
        """Return the next bytes; ``what`` names them in the error."""
        if not 0 <= n_bytes <= self.left:
            raise FormatError(
                f"{what} should take {n_bytes:,} bytes and {self.left:,} are left: it is cut off "
                "or damaged"
            )
        found = self._file.read(n_bytes)
        if len(found) != n_bytes:
            raise FormatError(f"{what} cannot be read completely: the file has changed meanwhile")
        self.left -= n_bytes
        return found

    def number(self, dtype: DTypeLike, what: str) -> int:
        """Return the next integer."""
        return int(self.array(dtype, (), what))

    def array(self, dtype: DTypeLike, shape: Sequence[int], what: str) -> NDArray[Any]:
        """Return the next numbers, read-only."""
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        return np.frombuffer(self.take(n_bytes, what), kind).reshape(shape)


def inflate(packed: Iterable[bytes], limit: int, *, gzip: bool = False) -> bytes:
    """Return decompressed zlib (or gzip) data, at most ``limit`` bytes."""
    machine = zlib.decompressobj(31 if gzip else 15)
    found = bytearray()
    try:
        for chunk in packed:
            rest = chunk
            while rest and not machine.eof:
                found += machine.decompress(rest, limit + 1 - len(found))
                if len(found) > limit:
                    raise FormatError(
                        f"it inflates to more than {limit:,} bytes, {MAX_RATIO} times its size"
                    )
                rest = machine.unconsumed_tail
            if machine.unused_data:
                raise FormatError("bytes follow the end of its compressed data")
    except zlib.error as error:
        raise FormatError(f"its compressed data are damaged ({error})") from error
    if not machine.eof:
        raise FormatError("its compressed data are cut off")
    return bytes(found)


def open_archive(file: BinaryIO) -> NpzReader:
    """Open a zip file whose members have plain names and unpack within the limit."""
    # In memory: a real file allocates whatever length the directory claims.
    file.seek(0)
    content = file.read()
    try:
        archive = NpzReader(io.BytesIO(content), inflation_limit(len(content)))
    except Exception as error:
        raise FormatError(f"its directory cannot be read ({printable(error, 200)})") from error
    names = archive.members
    if len(names) > _MAX_MEMBERS:
        raise FormatError(f"it has {len(names):,} members, more than {_MAX_MEMBERS:,}")
    if len(set(names)) < len(names):
        raise FormatError("two of its members have the same name")
    for name in names:
        if set(name) & set("/\\:\0") or name in ("", ".", ".."):
            raise FormatError(f"its member {printable(name)!r} is a path, not a plain name")
        if not name.isprintable() or len(name) > _MAX_NAME:
            raise FormatError(f"its member {printable(name)!r} has an unprintable or long name")
    return archive


class Axes(Enum):
    """What a format says about its axes."""

    ROWS = "rows"
    COLUMNS = "columns"
    PROBABLY_ROWS = "probably rows"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Matrices:
    """What a reader found: real two-dimensional matrices by name, and why not the others."""

    format: str
    axes: Axes
    found: Mapping[str, NDArray[Any]]
    refused: Mapping[str, str] = field(default_factory=dict)
    ids: NDArray[np.int64] | None = None

    @classmethod
    def collect(
        cls,
        title: str,
        axes: Axes,
        values: Iterable[tuple[str, NDArray[Any] | str]],
        what: str = "arrays",
    ) -> Matrices:
        """Return the matrices among named values: arrays, or reasons why there is none."""
        found: dict[str, NDArray[Any]] = {}
        refused: dict[str, str] = {}
        for number, (name, value) in enumerate(values):
            if number >= _MAX_VALUES:
                raise FormatError(f"it holds more than {_MAX_VALUES:,} {what}")
            if name in found or name in refused:
                raise FormatError(f"it holds two {what} called {printable(name)!r}")
            if isinstance(value, str):
                refused[name] = value
            elif value.dtype.kind not in "iuf":
                refused[name] = f"of type {value.dtype}, not real numbers"
            elif value.ndim != 2 or not value.size:
                size = " × ".join(map(str, value.shape[:9]))
                refused[name] = f"of shape {size or '()'}, not a matrix"
            else:
                found[name] = value
        return cls(title, axes, found, refused)

    def codebook(
        self,
        source: str,
        variable: str | None = None,
        layout: str | None = None,
        scale: float | None = None,
    ) -> Codebook:
        """Return the words as a codebook whose provenance says where they were read."""
        if layout is not None:
            check_choice(layout, "layout", LAYOUTS)
        name = self._choose(source, variable)
        matrix = self.found[name]
        way = layout or self._layout(source, name, matrix.shape)
        read_from = {"format": self.format, "variable": name, "layout": way, "scale": scale}
        try:
            return Codebook(
                matrix if way == "rows" else matrix.T,
                self.ids,
                scale=1.0 if scale is None else scale,
                provenance={"read_from": read_from},
            )
        except ParameterError:
            raise
        except BowsawError as error:
            raise FormatError(
                f"{source} holds no vocabulary in {printable(name)}: {error}"
            ) from error

    def _choose(self, source: str, variable: str | None) -> str:
        if variable is not None:
            if variable in self.found:
                return variable
            if variable in self.refused:
                raise FormatError(
                    f"{source} holds {printable(variable)}, which is {self.refused[variable]}. "
                    "Name a full real two-dimensional matrix."
                )
            raise ParameterError(
                f"{source} holds no matrix {printable(variable)!r}; it holds {_listed(self.found)}."
            )
        several = {name: m for name, m in self.found.items() if min(m.shape) > 1} or self.found
        if len(several) == 1:
            return next(iter(several))
        if several:
            raise ParameterError(
                f"{source} holds {len(several)} matrices: {_listed(several)}. Name the words: "
                f"variable={printable(next(iter(several)))!r}, or bowsaw convert --variable."
            )
        first = list(self.refused.items())[:_MAX_LISTED]
        reasons = "; ".join(f"{printable(name)} is {why}" for name, why in first)
        raise FormatError(
            f"{source} holds no matrix that could be words: {reasons or 'nothing'}. Save the words "
            "alone, as a full real two-dimensional matrix."
        )

    def _layout(self, source: str, name: str, shape: tuple[int, ...]) -> str:
        if self.axes in (Axes.ROWS, Axes.COLUMNS):
            return str(self.axes.value)
        size, name = f"{shape[0]:,} × {shape[1]:,}", printable(name)
        transposed = _looks_like_columns(*shape)
        if self.axes is Axes.PROBABLY_ROWS and not transposed:
            return "rows"
        if self.axes is Axes.UNKNOWN and _looks_like_columns(*shape[::-1]):
            return "rows"
        if self.axes is Axes.UNKNOWN and transposed:
            warnings.warn(
                f"{source}: {name} is {size} and is read as {shape[1]:,} words of {shape[0]} "
                "dimensions, one word per column as VLFeat keeps them. Pass layout='columns' or "
                "layout='rows' to be sure, or bowsaw convert --layout.",
                UserWarning,
                stacklevel=2,
            )
            return "columns"
        raise ParameterError(
            f"{source}: {name} is {size}, and nothing says whether a word is a row or a column. "
            f"Pass layout='rows' for {shape[0]:,} words of {shape[1]:,} dimensions or "
            f"layout='columns' for {shape[1]:,} words of {shape[0]:,}, or use bowsaw convert "
            "--layout."
        )


def _listed(matrices: Mapping[str, NDArray[Any]]) -> str:
    first = list(matrices.items())[:_MAX_LISTED]
    listed = [f"{printable(name)} ({m.shape[0]} × {m.shape[1]})" for name, m in first]
    return ", ".join(listed + ["…"] * (len(matrices) > _MAX_LISTED)) or "none that could be words"


def _looks_like_columns(first: int, second: int) -> bool:
    return first in KNOWN_LENGTHS and second not in KNOWN_LENGTHS and second > first
