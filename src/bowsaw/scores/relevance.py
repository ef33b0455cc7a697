"""Relevance, the paper's score: information between the share of each word and the class.

**The problem** (Eq. 9 and 10). The score of the kept words T is the mean over them of
I(f_k; y) = h(f_k) − Σ_y p(y) h(f_k | y): f_k is the word's share in a bag, a number from 0 to 1, h
the differential entropy of a Beta distribution fitted by maximum likelihood, to all bags and to
those of each class. p(y) is the share of bags. h at an exact fit is minus the mean log-likelihood,
so I is a log-likelihood ratio over n: at least 0, with a bias near (n_classes − 1) / n.

**Departures.** The paper leaves open what happens to entries of exactly 0, the most frequent ones
in a large codebook with hard coding (log 0), and to words that hardly vary (no most likely Beta):

1. A word whose shares are all equal scores 0.
2. One floor for the whole corpus replaces smaller shares. With hard coding, where a share is a
   count, it is half a descriptor of a mean bag. A floor per bag would encode the bag's size and
   give a word that no bag has a high score. Soft shares are never 0, and most of a large codebook
   are below that. There it is divided by the number of words: half a descriptor that is equally
   near to all. Less is the tail of the kernel, which states hold with less precision.
3. Where the standard deviation of a class is below ``least_deviation`` floors, or below 10⁻⁵ of its
   mean (rounding), its Beta has its mean and this deviation instead; a word whose overall deviation
   is below scores 0. The default, a quarter, is a compromise: with 2500 words, most score 0 at 1,
   and rare words win at 1/16.
4. A word that fewer than ``min_documents`` bags have (with soft coding: above the floor) scores 0.
5. I is at least 0, despite guards 2 and 3, and at most H(y), the entropy of the classes.

**Cost.** A changed column: two passes over its entries and (n_classes + 1) fits by Newton steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.nearest.search import read_only
from bowsaw.scores._beta_kernel import Guards, relevances
from bowsaw.scores.base import WordwiseScore
from bowsaw.validation import check_int, check_real

TYPICAL_DESCRIPTORS = 1000.0
"""The size of a mean bag where ``begin`` is not given ``n_descriptors``."""
LEAST_FLOOR = 2.0**-53
"""1 minus anything smaller is 1, and log(1 − f) is infinite."""


class Relevance(WordwiseScore):
    """The paper's maximum relevance, in nats per word, from 0 to H(y).

    Parameters
    ----------
    floor : float or None, default=None
        Replaces smaller shares, from 2⁻⁵³ to below 0.5. None for half a descriptor of the mean bag
        (of 1000 descriptors where ``begin`` is not given ``n_descriptors``), divided by the number
        of words with soft coding.
    least_deviation : float, default=0.25
        The least standard deviation of a word's shares, in floors, above 0.
    min_documents : int, default=3
        A word that fewer bags have scores 0.

    Attributes
    ----------
    floor_ : float
        The floor in use, after ``update``.

    Examples
    --------
    >>> import numpy as np
    >>> informative, noise = [0.1, 0.12, 0.15, 0.7, 0.75, 0.8], [0.2, 0.3, 0.4, 0.2, 0.3, 0.4]
    >>> score = Relevance().begin([0, 0, 0, 1, 1, 1], 2)
    >>> round(score.update(np.array([informative, noise]).T), 3)
    0.347
    >>> score.word_values.round(3).tolist()
    [0.693, 0.0]
    """

    name = "relevance"

    def __init__(
        self, *, floor: float | None = None, least_deviation: float = 0.25, min_documents: int = 3
    ) -> None:
        if floor is not None:
            remedy = "1 minus a smaller floor is 1."
            check_real(floor, "floor", LEAST_FLOOR, 0.5, open_high=True, remedy=remedy)
        self.floor = floor
        self.least_deviation = check_real(least_deviation, "least_deviation", 0, open_low=True)
        self.min_documents = check_int(min_documents, "min_documents", 1)

    def _prepare(self, n_descriptors: NDArray[np.float64] | None) -> None:
        self._order = np.argsort(self._labels, kind="stable")
        if self.floor is not None:
            self.floor_ = float(self.floor)
            return
        mean = TYPICAL_DESCRIPTORS if n_descriptors is None else float(n_descriptors.mean())
        # The floor must stay below 0.5, also for bags of one descriptor.
        self._half = self.floor_ = 0.5 / max(mean, 5.0)

    def _allocate(self, n_columns: int) -> None:
        super()._allocate(n_columns)
        if self.floor is None and self._coding == "soft":
            self.floor_ = self._half / n_columns

    def _values_of(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        found = np.empty(len(rows))
        least_variance = (self.least_deviation * self.floor_) ** 2
        present = 0.0 if self._coding == "hard" else self.floor_
        limits = (self.floor_, present, least_variance, self.min_documents, self.class_entropy)
        rows = read_only(np.ascontiguousarray(rows))
        relevances(rows, self._order, self._class_sizes, Guards(*limits), found)
        return found
