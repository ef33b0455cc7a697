"""Words that lie near the descriptors, for users without labels.

**The problem.** Without labels nothing tells which words matter, but coding still has to say where
descriptors lie. ``Coverage`` keeps the words that descriptors are nearest to: small
Σ_x min over kept k of ‖x − c_k‖², the error of quantisation, which k-means minimises over all
points and this over the words that are there. One word after another is taken, each the one that
helps most; what the choice saves is at least 1 − 1/e of the most that any choice of as many words
could save (``scores.coverage`` has the function, the guarantee and the lazy way).

**Departure.** The paper has labels and no such method. Distances are those of a sample of
descriptors; the guarantee is for the sample.

**Cost.** That of ``greedy_coverage``: n_words · n_sample floats, distances once.

**Invariants.** The first m words taken are the choice for m; the error never rises with a word;
kept words are listed in the order of the codebook.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.random_streams import seed_from
from bowsaw.scores.coverage import coverage_costs, lazy_greedy
from bowsaw.selection.base import Selector
from bowsaw.selection.result import Selection


class Coverage(Selector):
    """Keep the words that lie nearest to the descriptors, chosen greedily; needs no labels.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from, or what learns them first, such as ``KMeansCodebook``.
    n_kept : int, default=50
        How many words to keep.
    n_sample : int, default=5000
        At most so many descriptors are looked at; 4 bytes of memory each for every word.
    coding : {"hard", "soft"}, default="hard"
        How ``transform`` codes.
    sharpness : float, default=40.0
        For soft coding, as in :class:`~bowsaw.coding.bag_of_words.BagOfWords`.
    random_state : int, RandomState or None, default=0
        Draws the descriptors.
    n_jobs : int or None, default=-1
        Threads of ``transform``.

    Attributes
    ----------
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids) in the order in which they were taken: its beginning is what a smaller
        ``n_kept`` keeps. ``selection_.scores`` holds, after each of them, minus the mean squared
        distance of the sampled descriptors to their nearest kept word, in unit-norm units.

    Examples
    --------
    >>> from bowsaw.selection.coverage import Coverage
    >>> bags = [[[0.0], [0.5], [1.0], [1.5]], [[9.0]]]
    >>> saw = Coverage([[0.0], [1.0], [5.0], [9.0]], n_kept=2).fit(bags)
    >>> saw.order_.tolist(), saw.selection_.kept.tolist(), saw.selection_.scores
    ([1, 3], [1, 3], (-13.1..., -0.3...))
    """

    _needs_labels = False

    def __init__(
        self,
        codebook: Codebook | ArrayLike,
        n_kept: int = 50,
        *,
        n_sample: int = 5000,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        random_state: Any = 0,
        n_jobs: int | None = -1,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.n_sample = n_sample
        self.coding = coding
        self.sharpness = sharpness
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        seed = seed_from(self.random_state)
        costs = coverage_costs(bags, book, self.n_sample, seed)
        taken = lazy_greedy(costs, n_kept)
        self.order_ = book.ids[taken]
        kept = book.ids[np.sort(taken)]
        return Selection(
            method="coverage",
            codes_with="pruned",
            codebook=book.only(kept),
            kept=kept,
            scores=_scores(costs, taken),
            seed=seed,
            parameters={
                "n_kept": n_kept,
                "n_sample": costs.shape[1],
                "coding": self.coding,
            },
        )


def _scores(costs: NDArray[np.float32], taken: NDArray[np.int64]) -> tuple[float, ...]:
    """Return minus the mean least cost after each word."""
    nearest = np.full(costs.shape[1], np.inf, dtype=np.float32)
    scores = []
    for word in taken:
        np.minimum(nearest, costs[word], out=nearest)
        scores.append(-float(nearest.mean(dtype=np.float64)))
    return tuple(scores)
