r"""Boosted word stumps: one word per round (Wang, 2007).

A ranking judges words alone and keeps copies of the best. Boosting chooses each word for what the
words before it got wrong: images that are misclassified gain weight, and the next word is the one
whose *stump*, a threshold on its entry of the histogram, does best under these weights. Lei Wang,
"Toward a discriminative codebook: codeword selection across multi-resolution" (CVPR 2007), ties
each weak classifier to a word, so that the rounds of boosting list the words.

The paper leaves the treatment of many classes open. Here: AdaBoost.MH with real-valued stumps
(Schapire and Singer, 1999), in which all classes share the word and its threshold. Let
:math:`y_{ic} = \pm 1` say whether image i is of class c, and :math:`D_{ic}` the weights, which sum
to 1. On side b of a stump, class c has the weights :math:`W^+_{bc}` (of the class) and
:math:`W^-_{bc}` (of the rest). The word and threshold of a round minimise

.. math:: Z = 2 \sum_b \sum_c \sqrt{W^+_{bc} W^-_{bc}},

then :math:`f_c(b) = \tfrac12 \log\frac{W^+_{bc} + ε}{W^-_{bc} + ε}` with
:math:`ε = 1 / (n_{bags} n_{classes})`, and :math:`D_{ic}` is multiplied by
:math:`\exp(-y_{ic} f_c)` and normalised. A word is taken once, so ``n_kept`` rounds give ``n_kept``
words.

Departures: Wang draws words from codebooks of several resolutions at once; here they come from one.
Thresholds are the smallest value of a word (with hard coding: is the word present?) and quantiles
of the values above it. Codes with the full codebook, of whose histogram columns are kept.

Cost of a round: 4 · n_bags · n_words · n_thresholds · n_classes operations, one matrix product.
Memory: n_bags · n_words · n_thresholds bytes. Invariants: the product of the normalisers, an upper
bound of the training error, never rises; fewer rounds give the beginning of more; of equally good
words the first in the codebook is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw import Bags, Codebook
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.selection import Selection, Selector
from bowsaw.validation import check_int

MOST_THRESHOLDS = 64
BLOCK_STUMPS = 1024
TIE = 1e-7
"""Normalisers that differ by less are equal: the rounding of a side without weight, under the root.
"""


class BoostedStumps(Selector):
    """Keep the words that boosting takes, one per round.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in ``bowsaw.selection.Selector``; ``n_kept`` is the number of rounds.
    n_thresholds : int, default=4
        Thresholds that are tried for each word; 1 tries presence alone (hard coding).

    Attributes
    ----------
    selection_ : Selection
        ``kept`` lists the words in the order of the rounds; ``scores`` holds minus the mean
        exponential loss after each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.methods import BoostedStumps
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> boosted = BoostedStumps([[0.0], [1.0], [2.0]], n_kept=1).fit(bags, ["a", "a", "b", "b"])
    >>> boosted.selection_.kept.tolist(), boosted.selection_.codes_with
    ([1], 'full')
    """

    name = "boosting"

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        n_thresholds: int = 4,
        coding: Any = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.n_thresholds = n_thresholds

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, codebook: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        n_thresholds = check_int(self.n_thresholds, "n_thresholds", 1, MOST_THRESHOLDS)
        above = stump_sides(self._full_histograms(), n_thresholds)
        with single_threaded_blas():
            taken, losses = boost(above, labels, n_kept, self.n_jobs)
        return Selection(
            self.name,
            "full",
            codebook,
            kept=codebook.ids[taken],
            scores=tuple((-losses).tolist()),
            parameters={"n_kept": n_kept, "coding": self.coding, "n_thresholds": n_thresholds},
        )


def stump_sides(histograms: NDArray[np.float32], n_thresholds: int) -> NDArray[np.bool_]:
    """Return where an image exceeds a threshold, ``(n_words, n_thresholds, n_bags)``.

    The first threshold of a word is its smallest value, the others cut the values above it in
    ``n_thresholds`` parts.
    """
    columns = np.ascontiguousarray(histograms.T)
    n_words, n_bags = columns.shape
    ascending = np.sort(columns, axis=1)
    n_above = (columns > ascending[:, :1]).sum(axis=1)
    sides = np.empty((n_words, n_thresholds, n_bags), dtype=np.bool_)
    for cut in range(n_thresholds):
        place = n_bags - n_above - 1 + (cut * n_above) // n_thresholds
        sides[:, cut] = columns > ascending[np.arange(n_words), place][:, None]
    return sides


def boost(
    above: NDArray[np.bool_], labels: NDArray[np.int64], n_rounds: int, n_jobs: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the word taken in each round, and the mean exponential loss after it.

    ``above``, ``(n_words, n_thresholds, n_bags)``, is the upper side of each stump; labels are
    integers from 0.
    """
    n_words, n_thresholds, n_bags = above.shape
    stumps = above.reshape(n_words * n_thresholds, n_bags)
    own = labels[:, None] == np.arange(labels.max() + 1)
    weights = np.full(own.shape, 1.0 / own.size)
    taken = np.empty(n_rounds, dtype=np.int64)
    losses = np.empty(n_rounds, dtype=np.float64)
    free = np.ones(n_words, dtype=bool)
    loss = 1.0
    for step in range(n_rounds):
        both = np.hstack([weights * own, weights * ~own])
        spread = _normalisers(stumps, both, n_jobs).reshape(n_words, n_thresholds)
        spread[~free] = np.inf
        best = int(np.argmax(spread <= spread.min() + TIE))
        word = best // n_thresholds
        taken[step], free[word] = word, False
        side = stumps[best]
        vote = np.where(
            side[:, None], _vote(both[side], 1 / own.size), _vote(both[~side], 1 / own.size)
        )
        weights = weights * np.exp(np.where(own, -vote, vote))
        total = float(weights.sum())
        weights /= total
        loss *= total
        losses[step] = loss
    return taken, losses


def _normalisers(
    stumps: NDArray[np.bool_], both: NDArray[np.float64], n_jobs: int | None
) -> NDArray[np.float64]:
    """Return half of Z for each stump, ``(n_stumps,)``."""
    held = both.sum(axis=0)

    def one(start: int) -> NDArray[np.float64]:
        upper = stumps[start : start + BLOCK_STUMPS].astype(np.float64) @ both
        # Rounding may leave a side that holds nothing slightly below nothing.
        return _spread(upper) + _spread(np.maximum(held - upper, 0))

    return np.concatenate(list(ordered_map(one, range(0, len(stumps), BLOCK_STUMPS), n_jobs)))


def _spread(held: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over classes the geometric mean of the weights of the class and of the rest."""
    own, other = np.hsplit(held, 2)
    total: NDArray[np.float64] = np.sqrt(own * other).sum(axis=1)
    return total


def _vote(rows: NDArray[np.float64], smoothing: float) -> NDArray[np.float64]:
    """Return what one side of a stump says for each class: half the log odds, smoothed."""
    own, other = np.hsplit(rows.sum(axis=0), 2)
    odds: NDArray[np.float64] = 0.5 * np.log((own + smoothing) / (other + smoothing))
    return odds
