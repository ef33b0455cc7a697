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

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.svm import LinearSVC

from bowsaw import Bags, Codebook
from bowsaw.parallel import single_threaded_blas
from bowsaw.selection import Selection, Selector
from bowsaw.validation import check_real


class SvmRanking(Selector):
    """Keep the words that have the largest weights in linear machines on the full histograms.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in ``bowsaw.selection.Selector``.
    C : float, default=1.0
        The price of an error, for square-rooted histograms of mean norm 1.
    recode : bool, default=False
        Code with the kept words alone; else columns of the full histogram are kept.

    Attributes
    ----------
    word_scores_ : ndarray of float64, shape (n_words,)
        Sum of the squared weights of each word, in the order of the codebook.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.methods import SvmRanking
    >>> bags = [np.array([[0.0], [x]]) for x in (1.0, 1.0, 2.0, 2.0)]
    >>> ranking = SvmRanking([[0.0], [1.0], [2.0]], n_kept=2).fit(bags, ["a", "a", "b", "b"])
    >>> sorted(ranking.selection_.kept.tolist()), ranking.selection_.codes_with
    ([1, 2], 'full')
    """

    name = "svm"

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        C: float = 1.0,
        recode: bool = False,
        coding: Any = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.C = C
        self.recode = recode

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, codebook: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        cost = check_real(self.C, "C", 0, open_low=True)
        rows = np.sqrt(self._full_histograms().astype(np.float64))
        norm = float(np.linalg.norm(rows, axis=1).mean())
        rows /= norm if norm > 0 else 1.0
        with single_threaded_blas():
            weights = _machine_weights(rows, labels, cost)
        self.word_scores_ = np.square(weights).sum(axis=0)
        best = np.argsort(-self.word_scores_, kind="stable")[:n_kept]
        about = {"n_kept": n_kept, "coding": self.coding, "C": cost, "recode": bool(self.recode)}
        if self.recode:
            return self._subset(codebook, best, parameters=about)
        return Selection(self.name, "full", codebook, kept=codebook.ids[best], parameters=about)


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
