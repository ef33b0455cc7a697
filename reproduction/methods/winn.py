r"""Merging words so that the classes' histograms stay likely.

After Winn, Criminisi and Minka, "Object categorization by learned universal visual dictionary",
ICCV 2005: words are merged bottom-up, each time the pair after which the labels are most probable
given the merged histograms, each class being a Gaussian of histograms whose parameters are
integrated out. This is a reading of the paper and not a reproduction. It settles the following:

- bins are independent given the class, each with one variance that the classes share;
- the labels are compared with one alternative, that all images are of one class. Their log odds
  are then a sum over bins of log Bayes factors, and a merge changes three of its terms;
- the means and variance of a bin are integrated out with Zellner's g-prior of unit information
  (g = n_bags), which has a closed form without a constant to tune.

For n bags, k classes and the share :math:`R^2 = B / T` of a bin's variance that lies between the
classes, the log Bayes factor (Liang et al., JASA 2008, with k - 1 regressors) is

.. math::

    s = \tfrac12 \left[ (n - k) \log(1 + g) - (n - 1) \log\bigl(1 + g\,(1 - R^2)\bigr) \right] .

A bin without information has s < 0, the price of k means where one would do, so merging two such
bins *gains*: losses s(w) + s(v) - s(w ∪ v) may be negative. A discriminative word is expensive to
merge, even into its own copy, as bins count as independent evidence: noise is merged first, and
words of different classes stay apart longest.

B and T of a merged bin follow from one entry of each scatter matrix (``separability.py``), so a
pair costs O(1); the loss depends on the pair alone, as ``bowsaw.selection.merge_greedily`` needs
it. Memory is 16 n² bytes. Words without mass are set aside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.errors import DataError
from bowsaw.selection import MergeTree, MergingSelector, merge_greedily
from reproduction.methods.separability import scatter_matrices

_CONSTANT = 1e-15
"""A bin whose variance is below this share of all variance is constant but for rounding."""


class WinnMerging(MergingSelector):
    """Merge the words of a codebook by the likelihood of the classes (after Winn et al. 2005).

    Codes with the full codebook; the columns of each group are added up. Parameters are those of
    ``bowsaw.selection.Selector``, and ``n_kept`` is the number of groups.

    Attributes
    ----------
    tree_ : MergeTree
        All merges and the fall of the labels' log odds at each, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.methods import WinnMerging
    >>> bags = [np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [0.0], [2.0]]),
    ...         np.array([[3.0], [3.0], [1.0]]), np.array([[3.0], [3.0], [2.0]])]
    >>> words = [[0.0], [1.0], [2.0], [3.0]]
    >>> merged = WinnMerging(words, n_kept=3).fit(bags, ["cat", "cat", "dog", "dog"])
    >>> merged.selection_.groups.tolist(), merged.selection_.codes_with
    ([0, 1, 1, 2], 'full')
    """

    name = "winn"

    def _merge(self, histograms: NDArray[np.float32], labels: NDArray[np.int64]) -> MergeTree:
        return likelihood_tree(histograms, labels, self.n_jobs)


def log_bayes_factor(
    share: NDArray[np.float64], n_bags: int, n_classes: int
) -> NDArray[np.float64]:
    """Return how much likelier bins are with one mean per class than with one mean, in nats."""
    prior = float(n_bags)
    left = (n_bags - 1) * np.log1p(prior * (1 - share))
    factor: NDArray[np.float64] = 0.5 * ((n_bags - n_classes) * np.log1p(prior) - left)
    return factor


def likelihood_tree(
    histograms: NDArray[Any], labels: NDArray[np.int64], n_jobs: int | None = None
) -> MergeTree:
    """Merge words by the likelihood of the classes; the losses are falls of their log odds."""
    present = np.flatnonzero(histograms.sum(axis=0) > 0)
    if not len(present):
        raise DataError(
            "every histogram is empty: there is nothing to merge by. Give images with descriptors."
        )
    losses = _LikelihoodLosses(histograms[:, present], labels)
    merges, costs = merge_greedily(losses, n_jobs)
    return MergeTree(histograms.shape[1], present, present[merges], costs)


class _LikelihoodLosses:
    """Groups of words by the scatter of their bins; see ``PairLosses``."""

    def __init__(self, histograms: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self._between, self._total = scatter_matrices(histograms, labels)
        self._n_bags, self._n_classes = len(labels), len(np.unique(labels))
        self._floor = _CONSTANT * float(np.trace(self._total))
        self._b, self._t = self._between.diagonal().copy(), self._total.diagonal().copy()
        self._scores = self._score(self._b, self._t)

    @property
    def n_slots(self) -> int:
        return len(self._scores)

    def row(self, slot: int, start: int) -> NDArray[np.float64]:
        between = self._b[slot] + self._b[start:] + 2 * self._between[slot, start:]
        total = self._t[slot] + self._t[start:] + 2 * self._total[slot, start:]
        apart: NDArray[np.float64] = self._scores[slot] + self._scores[start:]
        return apart - self._score(between, total)

    def merge(self, slot: int, other: int) -> float:
        loss = float(self.row(slot, other)[0])
        for matrix, diagonal in ((self._between, self._b), (self._total, self._t)):
            diagonal[slot] += diagonal[other] + 2 * matrix[slot, other]
            matrix[slot] += matrix[other]
            matrix[:, slot] = matrix[slot]
        one = slice(slot, slot + 1)
        self._scores[one] = self._score(self._b[one], self._t[one])
        self._scores[other] = np.inf
        return loss

    def keep(self, slots: NDArray[np.int64]) -> None:
        self._between = self._between[np.ix_(slots, slots)]
        self._total = self._total[np.ix_(slots, slots)]
        self._b, self._t, self._scores = self._b[slots], self._t[slots], self._scores[slots]

    def _score(
        self, between: NDArray[np.float64], total: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        varies = total > self._floor
        share = np.divide(between, total, out=np.zeros_like(total), where=varies)
        return log_bayes_factor(np.clip(share, 0.0, 1.0), self._n_bags, self._n_classes)
