"""The matrices of a foreign file, and which of them, which way round, are the words.

A file of another tool holds matrices with names and no word of which is a vocabulary, and tools
disagree on the axes: scikit-learn, faiss and OpenCV keep a word a row, VLFeat a word a column, and
a K×128 matrix that is read as 128 words fails nowhere. So:

- a matrix is chosen by its name (``variable``), or is the only one (numbers and vectors beside it
  do not count);
- where the tool has one custom, it holds (``Axes.ROWS``);
- an array file has no custom (``Axes.PROBABLY_ROWS``): rows, unless the shape looks turned;
- a MATLAB file may be of either kind (``Axes.UNKNOWN``): when one axis is the length of a SIFT
  descriptor and the other is longer and is not such a length, the first is the dimensions; anything
  else, a square above all, is asked for. Columns so recognised are told of in a warning.

``layout`` decides in every case.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.codebook import Codebook
from bowsaw.errors import BowsawError, FormatError, ParameterError
from bowsaw.formats.bounded import shown

LAYOUTS = ("rows", "columns")

KNOWN_LENGTHS = (128, 144, 384)
"""Lengths of VLFeat's descriptors: SIFT and its dense form, LIOP, SIFT of three colours."""

_MOST_TOLD = 12


class Axes(Enum):
    """What a format says of its axes."""

    ROWS = "rows"
    COLUMNS = "columns"
    PROBABLY_ROWS = "probably rows"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Matrices:
    """What a reader found: real matrices of two axes by name, and why not the rest."""

    format: str
    axes: Axes
    found: Mapping[str, NDArray[Any]]
    refused: Mapping[str, str] = field(default_factory=dict)
    ids: NDArray[np.int64] | None = None

    def codebook(
        self,
        source: str,
        variable: str | None = None,
        layout: str | None = None,
        scale: float | None = None,
    ) -> Codebook:
        """Return the words as a codebook that says where they were read.

        Examples
        --------
        >>> found = Matrices("NumPy", Axes.ROWS, {"words": np.eye(2)})
        >>> found.codebook("words.npz").provenance["read_from"]["variable"]
        'words'
        """
        if layout is not None and layout not in LAYOUTS:
            raise ParameterError(f"layout must be one of {list(LAYOUTS)}; got {layout!r}.")
        name = self._chosen(source, variable)
        matrix = self.found[name]
        way = layout or self._layout(source, name, matrix.shape)
        about = {"format": self.format, "variable": name, "layout": way, "scale": scale}
        try:
            return Codebook(
                matrix if way == "rows" else matrix.T,
                self.ids,
                scale=1.0 if scale is None else scale,
                provenance={"read_from": about},
            )
        except ParameterError:
            raise
        except BowsawError as error:
            raise FormatError(f"{source} holds no vocabulary in {shown(name)}: {error}") from error

    def _chosen(self, source: str, variable: str | None) -> str:
        if variable is not None:
            if variable in self.found:
                return variable
            if variable in self.refused:
                raise FormatError(
                    f"{source} holds {shown(variable)}, which is {self.refused[variable]}. Name a "
                    "full real matrix of two axes."
                )
            raise ParameterError(
                f"{source} holds no matrix {shown(variable)!r}; it holds {self._told(self.found)}."
            )
        several = {name: m for name, m in self.found.items() if min(m.shape) > 1} or self.found
        if len(several) == 1:
            return next(iter(several))
        if several:
            raise ParameterError(
                f"{source} holds {len(several)} matrices: {self._told(several)}. Say which are the "
                f"words: variable={shown(next(iter(several)))!r}, or «bowsaw convert --variable»."
            )
        reasons = "; ".join(f"{shown(name)} is {why}" for name, why in self._first(self.refused))
        raise FormatError(
            f"{source} holds no matrix that could be words: {reasons or 'nothing'}. Save the words "
            "alone, as a full real matrix of two axes."
        )

    def _layout(self, source: str, name: str, shape: tuple[int, ...]) -> str:
        if self.axes in (Axes.ROWS, Axes.COLUMNS):
            return str(self.axes.value)
        size, name = f"{shape[0]:,} × {shape[1]:,}", shown(name)
        turned = _looks_like_columns(*shape)
        if self.axes is Axes.PROBABLY_ROWS and not turned:
            return "rows"
        if self.axes is Axes.UNKNOWN and _looks_like_columns(*shape[::-1]):
            return "rows"
        if self.axes is Axes.UNKNOWN and turned:
            warnings.warn(
                f"{source}: {name} is {size} and is read as {shape[1]:,} words of {shape[0]} "
                "dimensions, a word a column as VLFeat keeps them. Say layout='columns' or "
                "layout='rows' to be sure, or «bowsaw convert --layout».",
                UserWarning,
                stacklevel=2,
            )
            return "columns"
        raise ParameterError(
            f"{source}: {name} is {size}, and nothing says whether a word is a row or a column. "
            f"Say layout='rows' for {shape[0]:,} words of {shape[1]:,} dimensions or "
            f"layout='columns' for {shape[1]:,} words of {shape[0]:,}, or «bowsaw convert "
            "--layout»."
        )

    @staticmethod
    def _first(names: Mapping[str, Any]) -> list[tuple[str, Any]]:
        return list(names.items())[:_MOST_TOLD]

    def _told(self, matrices: Mapping[str, NDArray[Any]]) -> str:
        told = [f"{shown(k)} ({m.shape[0]} × {m.shape[1]})" for k, m in self._first(matrices)]
        return ", ".join(told + ["…"] * (len(matrices) > _MOST_TOLD)) or "none that could be words"


def _looks_like_columns(first: int, second: int) -> bool:
    return first in KNOWN_LENGTHS and second not in KNOWN_LENGTHS and second > first
