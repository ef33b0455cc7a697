"""Relevance by counts: the information between the class and where descriptors fall.

**The problem.** The paper's relevance (Eq. 9–10) is a difference of differential entropies of
fitted densities, which no bound holds by itself. Counts need no density. Take a descriptor of the
corpus at random; let y be the class of its bag, and ask which word it has.

- ``joint=False``: for each word I(y; word is k or not), a 2 × n_classes table; the score is the
  mean over words, as the paper's D(T, y) is.
- ``joint=True``: I(y; word) of all kept words at once. It is what the agglomerative bottleneck
  keeps as much of as it can (Fulkerson et al., 2008), here for words that code alone.

Both are in nats, at least 0 and at most H(y), y being the class of a random descriptor. Without
``n_descriptors`` each bag counts the same, as in an average of histograms.

**Cost.** A changed column costs its n_bags entries; the class sums of the others are kept. This is
not in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.parallel import single_threaded_blas
from bowsaw.scores.base import Score


class Counts(Score):
    """Information between the class and the word of a descriptor, in nats.

    Parameters
    ----------
    joint : bool, default=False
        The information of all words at once, instead of the mean over words.

    Examples
    --------
    >>> import numpy as np
    >>> score = Counts(joint=True).begin([0, 1], 2)
    >>> round(score.update(np.eye(2)), 4), round(score.class_entropy, 4)
    (0.6931, 0.6931)
    """

    name = "counts"
    _own = ("_mass", "_word_values")

    def __init__(self, *, joint: bool = False) -> None:
        self.joint = joint

    @property
    def word_values(self) -> NDArray[np.float64]:
        """I(class; word is k or not) of each kept word, ``(n_kept,)``; a copy."""
        return self._word_values.copy()

    def _prepare(self, n_descriptors: NDArray[np.float64] | None) -> None:
        n_bags, n_classes = len(self._labels), len(self._class_sizes)
        weights = np.ones(n_bags) if n_descriptors is None else n_descriptors
        self._sums = np.zeros((n_bags, n_classes))
        self._sums[np.arange(n_bags), self._labels] = weights / max(float(weights.sum()), 1e-300)
        self._classes = self._sums.sum(axis=0)

    def _make_room(self, n_columns: int) -> None:
        self._mass = np.zeros((n_columns, len(self._class_sizes)))
        self._word_values = np.zeros(n_columns)

    def _follow(self, rows: NDArray[Any], columns: NDArray[np.int64]) -> float:
        with single_threaded_blas():
            mass = rows.astype(np.float64) @ self._sums
        self._mass[columns] = mass
        rest = np.maximum(self._classes - mass, 0)
        self._word_values[columns] = np.maximum(
            _information(mass, self._classes) + _information(rest, self._classes), 0
        )
        if not self.joint:
            return float(self._word_values.mean())
        return max(float(_information(self._mass, self._classes).sum()), 0.0)


def _information(mass: NDArray[np.float64], classes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row's share of the information: Σ over classes of p log(p / (p(row) p(y)))."""
    total = mass.sum(axis=1, keepdims=True)
    expected = total * classes
    held = (mass > 0) & (expected > 0)
    ratio = np.divide(mass, expected, out=np.ones_like(mass), where=held)
    shares: NDArray[np.float64] = (mass * np.log(ratio)).sum(axis=1)
    return shares
