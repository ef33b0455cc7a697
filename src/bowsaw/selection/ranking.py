r"""Ranking words one by one by their presence, and keeping the best (Yang et al., 2007).

**Presence.** What counts is whether an image has a word, not how often; words are judged alone. The
four measures are those of :mod:`bowsaw.scores.presence`. With hard coding a word is present if it
is the nearest word of one descriptor; with soft coding, not in the paper, where its entry exceeds
an even share, 1 / n_words. The weighted mean of PMI is −KL(p(c) ‖ p(c | word)): it puts
uninformative words first, and is for comparison only.

**Which codebook codes.** As published, a ranking keeps columns of the *full* histogram: the mass of
other words is dropped, so rows sum to less than 1. ``recode=True`` keeps the same words and
re-encodes with these alone.

Columns of the full histogram are listed best first, re-encoded words in the order of the codebook;
of equally good words the first in the codebook goes first.

**Cost**: one coding with the full codebook, then n_bags · n_words · n_classes operations.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.scores.presence import check_measure, check_threshold, word_scores
from bowsaw.selection.base import Coding, Labels, Selection, Selector
from bowsaw.validation import check_real


class PresenceRanking(Selector):
    """Keep the words whose presence in an image shows most about its class (Yang et al., 2007).

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`.
    measure : {"mi", "df", "chi2", "pmi"}, default="mi"
        What words are ranked by; ``"df"`` needs no labels.
    combine : {"max", "mean"}, default="max"
        How ``"chi2"`` and ``"pmi"`` combine the classes.
    threshold : float or None, default=None
        A word is present where its entry is above this; None is 0 for hard and 1 / n_words for
        soft coding.
    recode : bool, default=False
        Code with the kept words alone; otherwise columns of the full histogram are kept.

    Attributes
    ----------
    word_scores_, order_ : ndarray of float64 (n_words,) and of int64 (n_kept,)
        The measure of each word, in the order of the codebook; the kept words (ids), best first.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> y = ["a", "a", "b", "b"]
    >>> ranking = bs.PresenceRanking([[0.0], [1.0], [2.0]], n_kept=2).fit(bags, y)
    >>> ranking.selection_.kept.tolist(), ranking.selection_.codes_with
    ([1, 2], 'full')
    >>> ranking.word_scores_.round(3).tolist()
    [0.0, 0.693, 0.693]
    """

    name = "presence"

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        measure: Literal["mi", "df", "chi2", "pmi"] = "mi",
        combine: Literal["max", "mean"] = "max",
        threshold: float | None = None,
        recode: bool = False,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.measure = measure
        self.combine = combine
        self.threshold = threshold
        self.recode = recode

    @property
    def _needs_labels(self) -> bool:  # type: ignore[override]  # depends on the measure
        return self.measure != "df"

    def _validate(self) -> None:
        super()._validate()
        check_measure(self.measure, self.combine)
        if self.threshold is not None:
            check_real(self.threshold, "threshold", 0, 1, open_high=True)
            check_threshold(self.threshold, self.coding)

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        histograms = self._full_histograms()
        usual = 0.0 if self.coding == "hard" else 1.0 / codebook.n_words
        limit = usual if self.threshold is None else self.threshold
        if labels is None:
            labels = np.zeros(len(histograms), dtype=np.int64)
        present = histograms > limit
        self.word_scores_ = word_scores(present, labels, self.measure, combine=self.combine)
        best = np.argsort(-self.word_scores_, kind="stable")[:n_kept]
        self.order_ = codebook.ids[best]
        names = ("coding", "measure", "combine", "threshold", "recode")
        parameters = {"n_kept": n_kept, **{name: getattr(self, name) for name in names}}
        if self.recode:
            return self._subset(codebook, best, parameters=parameters)
        return Selection(self.name, "full", codebook, kept=self.order_, parameters=parameters)
