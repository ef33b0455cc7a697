"""What every method of choosing words returns, so that all can be compared alike.

A method keeps some words, or merges all words into groups. Either way its histograms have fewer
columns than the codebook has words; the question that decides what they cost is *which codebook
codes a new image*. ``codes_with`` says it:

- ``"pruned"``: the kept words alone; the large codebook can be deleted;
- ``"full"``: all words, of whose histogram some columns are kept (ranking) or added up (merging).

A comparison that hides this is not honest, so a ``Selection`` cannot be made without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.validation import json_mapping


@dataclass(frozen=True)
class Selection:
    """The words that a method chose, and how to code with them.

    Attributes
    ----------
    method : str
        The method's name.
    codes_with : {"pruned", "full"}
        Which codebook codes a new image.
    codebook : Codebook
        That codebook: the kept words, or all words.
    kept : ndarray of int64, shape (n_kept,), or None
        Ids of the kept words in the order of the columns; None for a merge.
    groups : ndarray of int64, shape (n_words,), or None
        For a merge, the column that each word of the codebook is added to; -1 for words that are
        set aside.
    scores : tuple of float
        The path of the method's score, one entry a step, where it has one.
    score : float or None
        The score of the words themselves, where that is not the last of the path.
    seed : int or None
        What drove its random choices, where it has any.
    certificate : mapping or None
        The record of :class:`bowsaw.inference.fidelity.Fidelity`, where histograms were inferred.
    parameters : mapping
        What the method was told, as JSON holds it.
    """

    method: str
    codes_with: Literal["pruned", "full"]
    codebook: Codebook
    kept: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None
    scores: tuple[float, ...] = ()
    score: float | None = None
    seed: int | None = None
    certificate: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.codes_with not in ("pruned", "full"):
            raise ParameterError(f"codes_with must be 'pruned' or 'full'; got {self.codes_with!r}.")
        if (self.kept is None) == (self.groups is None):
            raise ParameterError("a selection has either kept words or groups, and not both.")
        if self.groups is not None and (
            self.codes_with != "full" or self.groups.shape != (self.codebook.n_words,)
        ):
            raise ParameterError(
                "groups need the full codebook, and one entry for each of its words."
            )
        if (
            self.kept is not None
            and self.codes_with == "pruned"
            and not np.array_equal(self.codebook.ids, self.kept)
        ):
            raise ParameterError("a pruned codebook has the kept words, in their order.")

    @property
    def n_columns(self) -> int:
        """Columns of the histograms that the selection makes."""
        if self.kept is not None:
            return len(self.kept)
        assert self.groups is not None
        return int(self.groups.max()) + 1

    @property
    def n_coding_words(self) -> int:
        """Words that a new image's descriptors are compared with."""
        return self.codebook.n_words

    @property
    def final_score(self) -> float | None:
        """The score of the words, where there is one."""
        if self.score is not None:
            return self.score
        return self.scores[-1] if self.scores else None

    def reduce(self, histograms: NDArray[Any]) -> NDArray[Any]:
        """Turn histograms of ``codebook`` into those of the selection, ``(n_bags, n_columns)``."""
        if self.codes_with == "pruned":
            return histograms
        if self.kept is not None:
            chosen: NDArray[Any] = histograms[:, self.codebook.positions(self.kept)]
            return chosen
        assert self.groups is not None
        out = np.zeros((len(histograms), self.n_columns), dtype=histograms.dtype)
        for column in range(self.n_columns):
            out[:, column] = histograms[:, self.groups == column].sum(axis=1)
        return out

    def record(self) -> dict[str, Any]:
        """Return what is to be remembered beside the words, as JSON holds it."""
        return {
            "method": self.method,
            "codes_with": self.codes_with,
            "n_columns": self.n_columns,
            "n_coding_words": self.n_coding_words,
            "n_steps": len(self.scores),
            "score": self.final_score,
            "seed": self.seed,
            "certificate": None if self.certificate is None else dict(self.certificate),
            "parameters": json_mapping(self.parameters, "parameters"),
        }
