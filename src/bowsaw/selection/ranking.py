r"""Ranking words one by one, and keeping the best.

**The problem.** Give each word a number that tells how much it helps to name the class, and keep
the ``n_kept`` words with the largest. Words are judged alone, so a ranking is cheap and knows
nothing of redundancy: ten copies of the best word are the ten best words.

**Presence** (Yang, Jiang, Hauptmann and Ngo, 2007). What counts is whether an image has a word,
not how often. The four measures are those of :mod:`bowsaw.scores.presence`: document frequency
``"df"``, the χ² statistic ``"chi2"``, mutual information ``"mi"`` and pointwise mutual information
``"pmi"``. With hard coding a word is present in an image when one descriptor has it for its nearest
word. With soft coding every word has a share of every descriptor, so we call a word present where
its entry exceeds an even share, 1 / n_words; the paper knows hard coding only. ``threshold`` sets
another limit. DF needs no labels.

χ² and PMI are measures of a word and *one* class; ``combine`` says how classes are put together.
The default is the largest. The mean of PMI with the classes' shares as weights is
−KL(p(c) ‖ p(c | word)), never above 0: it puts the words that tell nothing first, and is offered
for comparison only. The largest PMI favours rare words: one that a single image has reaches its
bound, −log p(c).

**Which codebook codes.** As published, a ranking keeps columns of the *full* histogram: every
descriptor is still compared with all words, and whatever falls to the others is dropped, so rows
sum to less than 1. ``RankedRecoded`` keeps the same words and re-encodes with these
alone.

**Order.** Columns of the full histogram are listed best first, so a smaller ``n_kept`` is the
beginning of a larger one; re-coded words are listed in the order of the codebook. Of equally good
words the first in the codebook goes first. A word that no image has scores 0, and one that all
images have scores 0 by MI, χ² and PMI.

**Cost**: one coding with the full codebook, then n_bags · n_words · n_classes operations for
presence.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.scores.presence import check_measure, word_scores
from bowsaw.selection.base import Selector
from bowsaw.selection.result import Selection


class WordRanking(Selector):
    """A selector that gives each word a number and keeps the largest; subclasses give it.

    Attributes
    ----------
    word_scores_ : ndarray of float64, shape (n_words,)
        The number of each word, in the order of the codebook.
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids), best first.
    """

    _method: str

    @abstractmethod
    def _word_scores(
        self, histograms: NDArray[np.float32], labels: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Return a number a word from the full histograms, ``(n_bags, n_words)``."""

    @abstractmethod
    def _told(self) -> dict[str, Any]:
        """Return the parameters of the ranking, as JSON holds them."""

    def _codes_with(self) -> Literal["pruned", "full"]:
        return "full"

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        told = self._told()
        self.word_scores_ = self._word_scores(self._full_histograms(), labels)
        best = np.argsort(-self.word_scores_, kind="stable")[:n_kept]
        self.order_ = book.ids[best]
        codes_with = self._codes_with()
        kept = self.order_ if codes_with == "full" else book.ids[np.sort(best)]
        return Selection(
            method=self._method,
            codes_with=codes_with,
            codebook=book if codes_with == "full" else book.only(kept),
            kept=kept,
            parameters={"n_kept": n_kept, "coding": self.coding, **told},
        )


class Ranked(WordRanking):
    """Keep the columns whose words' presence tells most, as Yang et al. (2007).

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from, or what learns them first, such as ``KMeansCodebook``.
    n_kept : int, default=50
        How many words to keep.
    measure : {"mi", "df", "chi2", "pmi"}, default="mi"
        What words are ranked by; ``"df"`` needs no labels.
    combine : {"max", "mean"}, default="max"
        How ``"chi2"`` and ``"pmi"`` combine the classes.
    threshold : float or None, default=None
        A word is present where its entry is above this; None is 0 for hard and 1 / n_words for
        soft coding.
    coding : {"hard", "soft"}, default="hard"
        How histograms are made.
    sharpness : float, default=40.0
        For soft coding, as in :class:`~bowsaw.coding.bag_of_words.BagOfWords`.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Attributes
    ----------
    word_scores_ : ndarray of float64, shape (n_words,)
        The measure of each word, in the order of the codebook.
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids), best first.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.selection.ranking import Ranked
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> saw = Ranked([[0.0], [1.0], [2.0]], n_kept=2).fit(bags, ["a", "a", "b", "b"])
    >>> saw.selection_.kept.tolist(), saw.selection_.codes_with
    ([1, 2], 'full')
    >>> saw.word_scores_.round(3).tolist()
    [0.0, 0.693, 0.693]
    """

    _method = "ranked by presence"

    def __init__(
        self,
        codebook: Codebook | ArrayLike,
        n_kept: int = 50,
        *,
        measure: Literal["mi", "df", "chi2", "pmi"] = "mi",
        combine: Literal["max", "mean"] = "max",
        threshold: float | None = None,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.measure = measure
        self.combine = combine
        self.threshold = threshold
        self.coding = coding
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    @property
    def _needs_labels(self) -> bool:  # type: ignore[override]  # only a measure can tell
        return self.measure != "df"

    def _told(self) -> dict[str, Any]:
        check_measure(self.measure, self.combine)
        limit = self.threshold
        if limit is not None and not (isinstance(limit, numbers.Real) and 0 <= float(limit) < 1):
            raise ParameterError(
                f"threshold must be a number from 0 to below 1, or None; got {limit!r}."
            )
        return {
            "measure": self.measure,
            "combine": self.combine,
            "threshold": None if limit is None else float(limit),
        }

    def _word_scores(
        self, histograms: NDArray[np.float32], labels: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        limit = self.threshold
        if limit is None:
            limit = 0.0 if self.coding == "hard" else 1.0 / histograms.shape[1]
        if labels is None:
            labels = np.zeros(len(histograms), dtype=np.int64)
        return word_scores(histograms > limit, labels, self.measure, combine=self.combine)


class RankedRecoded(Ranked):
    """Keep the words that :class:`Ranked` keeps, and code with these alone.

    Parameters and fitted attributes are those of :class:`Ranked`; the kept words are listed in the
    order of the codebook.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.selection.ranking import RankedRecoded
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> saw = RankedRecoded([[0.0], [1.0], [2.0]], n_kept=2).fit(bags, ["a", "a", "b", "b"])
    >>> saw.codebook_.ids.tolist(), saw.transform(bags).sum(axis=1).tolist()
    ([1, 2], [1.0, 1.0, 1.0, 1.0])
    """

    _method = "ranked by presence, re-coded"

    def _codes_with(self) -> Literal["pruned", "full"]:
        return "pruned"
