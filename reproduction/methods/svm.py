r"""Ranking words by the weights of linear machines (Jurie and Triggs, 2005).

One linear support vector machine per class against the rest, with squared hinge loss, is trained on
square-rooted histograms divided by their mean norm. The value of word k is the sum over machines of
its squared weight,

.. math:: s_k = \sum_c w_{ck}^2,

which is the criterion of Guyon et al. (2002) without their elimination rounds. The weights are
found together, so copies of a word share their weight. A word that all images have works as a
second constant and may take some weight.

Codes with the full codebook: columns of its histogram are kept, best first, and rows sum to less
than 1. With ``recode=True`` images are re-encoded with the kept words alone.

Cost: one coding with the full codebook, then about n_bags · n_words · n_classes operations for each
step of the solver.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.svm import LinearSVC

from bowsaw import Bags, Codebook
from bowsaw.errors import ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.selection import Selection, Selector


class SvmRanking(Selector):
    """Keep the words that have the largest weights in linear machines on the full histograms.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from, or what learns them first, such as ``KMeansCodebook``.
    n_kept : int, default=50
        How many words to keep.
    C : float, default=1.0
        The price of an error, for square-rooted histograms of mean norm 1.
    recode : bool, default=False
        Code with the kept words alone; else columns of the full histogram are kept.
    coding : {"hard", "soft"}, default="hard"
        How histograms are made.
    sharpness : float, default=40.0
        For soft coding, as in :class:`~bowsaw.coding.bag_of_words.BagOfWords`.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Attributes
    ----------
    word_scores_ : ndarray of float64, shape (n_words,)
        Sum of the squared weights of each word, in the order of the codebook.
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids), best first.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.methods import SvmRanking
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> saw = SvmRanking([[0.0], [1.0], [2.0]], n_kept=2).fit(bags, ["a", "a", "b", "b"])
    >>> sorted(saw.selection_.kept.tolist()), saw.selection_.codes_with
    ([1, 2], 'full')
    >>> saw.transform(bags).sum(axis=1).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    name = "svm"

    def __init__(
        self,
        codebook: Any,
        n_kept: int = 50,
        *,
        C: float = 1.0,
        recode: bool = False,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.C = C
        self.recode = recode
        self.coding = coding
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        if not isinstance(self.C, int | float) or not 0 < self.C < math.inf:
            raise ParameterError(f"C must be a finite number above 0; got {self.C!r}.")
        rows = np.sqrt(self._full_histograms().astype(np.float64))
        norm = float(np.linalg.norm(rows, axis=1).mean())
        rows /= norm if norm > 0 else 1.0
        with single_threaded_blas():
            weights = _machine_weights(rows, labels, float(self.C))
        self.word_scores_ = np.square(weights).sum(axis=0)
        best = np.argsort(-self.word_scores_, kind="stable")[:n_kept]
        self.order_ = book.ids[best]
        kept = book.ids[np.sort(best)] if self.recode else self.order_
        return Selection(
            method=self.name,
            codes_with="pruned" if self.recode else "full",
            codebook=book.only(kept) if self.recode else book,
            kept=kept,
            parameters={
                "n_kept": n_kept,
                "coding": self.coding,
                "C": float(self.C),
                "recode": bool(self.recode),
            },
        )


def _machine_weights(
    rows: NDArray[np.float64], labels: NDArray[np.int64], cost: float
) -> NDArray[np.float64]:
    """Return the weights, ``(n_machines, n_words)``; two classes have one machine."""
    # The primal solver draws no random numbers, and takes tens of steps on rows of norm 1.
    machine = LinearSVC(C=cost, dual=False, tol=1e-3, max_iter=2000)
    if np.count_nonzero(rows) <= len(rows) ** 2:
        return np.asarray(machine.fit(rows, labels).coef_, dtype=np.float64)
    # The best weights lie in the span of the rows, where dense rows that are longer than they are
    # many have fewer coordinates: the same problem, and only smaller.
    basis, upper = qr(rows.T, mode="economic", check_finite=False)
    inside = machine.fit(np.ascontiguousarray(upper.T), labels).coef_
    return np.asarray(inside @ basis.T, dtype=np.float64)
