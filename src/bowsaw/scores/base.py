"""The interface of all scores: an update receives the columns that changed.

A score stores its intermediate results per column of the histograms, and ``update`` recomputes only
those that a move of the state (``bowsaw.inference``) changed. Larger is better.

Invariants of every score:

- ``begin`` starts a run; nothing of an earlier run remains.
- The first ``update`` of a run, and one with another number of columns, reads every column,
  whatever ``changed`` holds.
- ``update`` after any history of moves gives the value of a fresh run on the same histograms, up to
  rounding (a ``WordwiseScore``: bit for bit).
- The histograms are a live view of a state. A score reads them during ``update`` only.
- ``copy`` returns an independent score; undoing a move is an ``update`` like any other.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError, ParameterError
from bowsaw.validation import check_choice, check_options

ROUNDING = 1e-7
"""A centred column shorter than this share of the column itself is constant: float32's rounding."""

SCORES = {"relevance": "Relevance", "presence": "Presence", "leave-one-out": "LeaveOneOut"}
"""The scores that have a name, and their classes in ``bowsaw.scores``."""


class Score(ABC):
    """How well a set of words separates the classes; constructed with its parameters alone.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.scores import make_score
    >>> histograms = np.array([[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.0, 1.0]])
    >>> score = make_score("leave-one-out").begin([0, 0, 1, 1], 2)
    >>> round(score.update(histograms), 3)
    -0.138
    >>> round(score.update(histograms[::-1], [0, 1]), 3)
    -0.138
    """

    name: ClassVar[str]
    """The name in ``make_score``."""
    _own: ClassVar[tuple[str, ...]] = ()
    """Arrays that ``update`` changes in place; a copy of the score has copies of them."""

    _labels: NDArray[np.int64]
    _class_sizes: NDArray[np.int64]
    _coding: Literal["hard", "soft"]
    _n_columns: int
    _value: float

    def begin(
        self,
        labels: ArrayLike,
        n_classes: int,
        n_descriptors: ArrayLike | None = None,
        coding: Literal["hard", "soft"] = "hard",
    ) -> Self:
        """Start a run.

        Parameters
        ----------
        labels : array-like of shape (n_bags,)
            Each bag's class, an integer from 0 to n_classes - 1.
        n_classes : int
            Number of classes.
        n_descriptors : array-like of shape (n_bags,), optional
            Descriptors in each bag, for scores that depend on them.
        coding : {"hard", "soft"}, default="hard"
            How the histograms are made: soft ones have no zeros.
        """
        check_choice(coding, "coding", ("hard", "soft"))
        found = np.asarray(labels)
        if found.ndim != 1 or not len(found) or not np.issubdtype(found.dtype, np.integer):
            raise DataError(
                "labels must be one integer per bag, of at least one bag; got "
                f"{found.dtype} of shape {found.shape}."
            )
        if int(found.min()) < 0 or int(found.max()) >= n_classes:
            raise DataError(
                f"labels must be from 0 to {n_classes - 1} (there are {n_classes} classes); got "
                f"{int(found.min())} to {int(found.max())}. Number the classes from 0."
            )
        sizes = None
        if n_descriptors is not None:
            sizes = np.asarray(n_descriptors, dtype=np.float64)
            if sizes.shape != found.shape or not np.isfinite(sizes).all() or sizes.min() < 0:
                raise DataError(
                    f"n_descriptors must have one number of at least 0 for each of {len(found)} "
                    f"bags; got shape {sizes.shape}."
                )
        self._labels = found.astype(np.int64)
        self._class_sizes = np.bincount(self._labels, minlength=n_classes)
        self._n_columns = -1
        self._value = float("nan")
        self._coding = coding
        self._prepare(sizes)
        return self

    def update(self, histograms: NDArray[Any], changed: ArrayLike | None = None) -> float:
        """Recompute the columns that changed and return the score of all.

        Parameters
        ----------
        histograms : ndarray of shape (n_bags, n_kept)
            Of the words that are kept now.
        changed : array-like of int, optional
            The columns that changed since the last call; all of them when not given.
        """
        if not hasattr(self, "_labels"):
            raise ParameterError("a score needs labels first: call begin(labels, n_classes).")
        n_columns = histograms.shape[1]
        if len(histograms) != len(self._labels) or not n_columns:
            raise DataError(
                f"histograms must have {len(self._labels)} rows (one per label) and a column; got "
                f"shape {histograms.shape}."
            )
        is_new = n_columns != self._n_columns
        if is_new:
            self._n_columns = n_columns
            self._allocate(n_columns)
        if changed is None or is_new:
            columns = np.arange(n_columns)
        else:
            columns = np.unique(np.asarray(changed, dtype=np.int64))
            if len(columns) and not 0 <= columns[0] <= columns[-1] < n_columns:
                raise ParameterError(
                    f"changed must name columns from 0 to {n_columns - 1}; got {columns[0]} to "
                    f"{columns[-1]}."
                )
        if len(columns):
            rows = histograms.T if len(columns) == n_columns else histograms.T[columns]
            self._value = self._recompute(rows, columns)
        return self._value

    @property
    def value(self) -> float:
        """The score at the last ``update``; NaN before it."""
        return getattr(self, "_value", float("nan"))

    @property
    def class_entropy(self) -> float:
        """H(y), the entropy of the classes over the bags, in nats."""
        shares = self._class_sizes / self._class_sizes.sum()
        held = shares[shares > 0]
        return float(-(held * np.log(held)).sum())

    def copy(self) -> Self:
        """Return an independent score in the same state; what no update changes is shared."""
        other = copy.copy(self)
        for name in self._own:
            if hasattr(self, name):
                setattr(other, name, getattr(self, name).copy())
        return other

    def _prepare(self, n_descriptors: NDArray[np.float64] | None) -> None:  # noqa: B027
        """Compute what depends on labels and sizes alone."""

    @abstractmethod
    def _allocate(self, n_columns: int) -> None:
        """Make arrays for this many columns; all of them are filled next."""

    @abstractmethod
    def _recompute(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        """Recompute these columns, given as rows ``(n_changed, n_bags)``, and return the score."""


class WordwiseScore(Score):
    """A score that is the mean of one value per word; subclasses implement ``_values_of``."""

    _own = ("_word_values",)
    _word_values: NDArray[np.float64]

    @property
    def word_values(self) -> NDArray[np.float64]:
        """Each kept word's own value, ``(n_kept,)``, in the order of the columns; a copy."""
        return self._word_values.copy()

    def _allocate(self, n_columns: int) -> None:
        self._word_values = np.zeros(n_columns)

    def _recompute(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        self._word_values[columns] = self._values_of(rows)
        return float(self._word_values.mean())

    @abstractmethod
    def _values_of(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the value of each word, given its column as a row, ``(n_changed, n_bags)``."""


def make_score(score: str | Score, **options: Any) -> Score:
    """Return a score, ready for ``begin``.

    Parameters
    ----------
    score : str or Score
        ``"leave-one-out"``, ``"relevance"`` (the paper's) or ``"presence"``; or a score, of which a
        copy is returned.
    **options
        Its parameters, for a name.

    Examples
    --------
    >>> from bowsaw.scores import make_score
    >>> make_score("presence", measure="chi2").name
    'presence'
    """
    if isinstance(score, Score):
        if options:
            raise ParameterError(
                f"options ({', '.join(sorted(options))}) are for a score's name; got a "
                f"{type(score).__name__}. Construct it with them."
            )
        return score.copy()
    check_choice(score, "score", SCORES)
    make = getattr(import_module("bowsaw.scores"), SCORES[score])
    check_options(make, options, f"score={score!r}")
    return make(**options)  # type: ignore[no-any-return]


def clear_constant(columns: NDArray[np.float64], centred: NDArray[np.float64]) -> None:
    """Set centred columns, given as rows, to 0 where they are nothing but rounding."""
    squares = np.einsum("ij,ij->i", columns, columns)
    left = np.einsum("ij,ij->i", centred, centred)
    centred[left <= ROUNDING**2 * squares] = 0
