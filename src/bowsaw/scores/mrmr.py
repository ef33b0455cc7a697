"""Relevance minus redundancy: words that tell the class, and not the same thing twice.

**The problem.** The mean relevance of single words (the paper's Eq. 9) is happy with ten copies of
the best word. Peng, Long and Ding (2005), the very source of Eq. 9, take off what words tell about
each other: maximise D − R, D the mean relevance and R the mean redundancy over pairs.

Their measure for both is mutual information, which for continuous columns needs densities or
bins. Here both are shares of variance of the square-rooted histogram's columns, on one scale from
0 to 1 without either:

- relevance of a word: the correlation ratio η², the share of its variance between classes;
- redundancy of a pair of words: the squared correlation ρ².

The score is mean η² − ``redundancy`` · mean over pairs of ρ². Pairs of a word with itself, which
Peng's mean holds, are left out: they say nothing. A constant column has η² = ρ² = 0.

**Cost.** A changed column costs its correlations with all others, n_bags · n_kept, plus a sum over
the n_kept² squares, which are kept (8 bytes each: 200 MB for 5000 words).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.errors import ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.scores.base import Score, clear_constant, is_number


class MaxRelevanceMinRedundancy(Score):
    """Mean relevance minus mean redundancy, by shares of variance.

    Parameters
    ----------
    redundancy : float, default=1.0
        The weight of redundancy, 0 or more.

    Examples
    --------
    >>> import numpy as np
    >>> score = MaxRelevanceMinRedundancy(redundancy=0.5).begin([0, 0, 1, 1], 2)
    >>> once = np.array([[1.0, 0], [1, 1], [0, 0], [0, 1]])
    >>> round(score.update(once), 3), round(score.update(once[:, [0, 0]]), 3)
    (0.5, 0.5)
    """

    name = "mrmr"
    _own = ("_columns", "_relevance", "_squares")

    def __init__(self, *, redundancy: float = 1.0) -> None:
        if not is_number(redundancy) or redundancy < 0:
            raise ParameterError(f"redundancy must be a number from 0 up; got {redundancy!r}.")
        self.redundancy = float(redundancy)

    @property
    def word_values(self) -> NDArray[np.float64]:
        """The relevance of each kept word, ``(n_kept,)``, redundancy apart; a copy."""
        return self._relevance.copy()

    def _prepare(self, n_descriptors: NDArray[np.float64] | None) -> None:
        sizes = np.maximum(self._class_sizes, 1)
        self._class_means = np.zeros((len(self._labels), len(sizes)))
        rows = np.arange(len(self._labels))
        # Σ over bags of a class / √size: its square is the variance between classes.
        self._class_means[rows, self._labels] = 1 / np.sqrt(sizes[self._labels])

    def _make_room(self, n_columns: int) -> None:
        self._columns = np.zeros((n_columns, len(self._labels)))
        self._relevance = np.zeros(n_columns)
        self._squares = np.zeros((n_columns, n_columns))

    def _follow(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        rooted = np.sqrt(rows.astype(np.float64))
        centred = rooted - rooted.mean(axis=1, keepdims=True)
        clear_constant(rooted, centred)
        length = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        centred /= np.where(length > 0, length, 1)[:, None]
        self._columns[columns] = centred
        with single_threaded_blas():
            between = centred @ self._class_means
            squares = (self._columns @ centred.T) ** 2
        self._relevance[columns] = (between**2).sum(axis=1)
        self._squares[:, columns] = squares
        self._squares[columns] = squares.T
        self._squares[columns, columns] = 0
        n = self._n_columns
        pairs = float(self._squares.sum()) / (n * (n - 1)) if n > 1 else 0.0
        return float(self._relevance.mean()) - self.redundancy * pairs
