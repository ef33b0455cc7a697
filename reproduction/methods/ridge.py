r"""Words from which all the others can be reconstructed, without labels.

From the kept columns the whole histogram is regressed. With the centred rows X (n_bags, n_words)
and the kept columns :math:`X_T`,

.. math:: L(T) = \min_W \|X - X_T W\|^2 + α \|W\|^2
               = α\, \mathrm{tr}\left( X^\top M_T X \right), \qquad
          M_T = (X_T X_T^\top + α I)^{-1} .

Source: the pruning paper cites Zhang et al. for an unsupervised selection of words by a ridge
regression, and no more; taken here for L. Zhang et al., "Discriminative codeword selection for
image representation" (ACM Multimedia 2010), where the target of the regression is an unknown
cluster indicator. This is a simpler reading: the target is the histogram itself, which needs no
number of clusters. Do not take its numbers for those of that paper.

The search is greedy, in closed form. Adding word k with column x lowers the loss by

.. math:: Δ_k = α \frac{x^\top M G M x}{1 + x^\top M x}, \qquad G = X X^\top,

by Sherman and Morrison. The word with the largest fall is taken, the first in the codebook among
equals. Both quadratic forms are kept for every word. With u = M x, v = M G u and s = 1 + xᵀu of
the word taken, they change for a word with column z by

.. math:: z^\top M z \mathrel{-}= (u^\top z)^2 / s, \qquad
          z^\top M G M z \mathrel{-}= 2 (u^\top z)(v^\top z) / s - (u^\top z)^2\, u^\top G u / s^2,

so a step costs 4 · n_bags · n_words operations and no regression is solved.

α is ``ridge`` times the mean squared norm of a centred column, so it means the same for every
codebook and number of images. Histograms are square-rooted by default: otherwise only frequent
words are reconstructed. Codes with the full codebook, of whose histogram columns are kept.

Invariants: the explained share 1 - L(T) / L(∅) never falls and stays below 1; fewer words are the
beginning of more. Constant words explain nothing and come last.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw import Bags, Codebook
from bowsaw.errors import DataError
from bowsaw.parallel import single_threaded_blas
from bowsaw.selection import Selection, Selector
from bowsaw.validation import check_choice, check_real


class RidgeReconstruction(Selector):
    """Keep the words from which ridge regression reconstructs the full histograms best.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in ``bowsaw.selection.Selector``.
    ridge : float, default=0.1
        Strength of the ridge, in mean squared norms of a centred column.
    mapping : {"sqrt", "raw"}, default="sqrt"
        Reconstruct square-rooted histograms, or histograms as they are.

    Attributes
    ----------
    selection_ : Selection
        ``kept`` lists the words in the order in which they were taken; ``scores`` holds the share
        of the histograms' variation that is explained after each.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduction.methods import RidgeReconstruction
    >>> bags = [np.array([[0.0]] * 4 + [[1.0]] * a + [[2.0]] * (4 - a)) for a in range(5)]
    >>> found = RidgeReconstruction([[0.0], [1.0], [2.0]], 1, ridge=1e-6, mapping="raw").fit(bags)
    >>> found.selection_.kept.tolist(), round(found.selection_.scores[0], 3)
    ([1], 1.0)
    """

    name = "ridge"
    _needs_labels = False

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        ridge: float = 0.1,
        mapping: Literal["sqrt", "raw"] = "sqrt",
        coding: Any = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.ridge = ridge
        self.mapping = mapping

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, codebook: Codebook, n_kept: int
    ) -> Selection:
        ridge = check_real(self.ridge, "ridge", 1e-8)
        check_choice(self.mapping, "mapping", ("sqrt", "raw"))
        if not len(bags):
            raise DataError("there are no bags to reconstruct; give at least one.")
        rows = self._full_histograms().astype(np.float64)
        if self.mapping == "sqrt":
            np.sqrt(rows, out=rows)
        with single_threaded_blas():
            taken, explained = reconstruct_greedily(rows, n_kept, ridge)
        about = {"n_kept": n_kept, "coding": self.coding, "ridge": ridge, "mapping": self.mapping}
        return Selection(
            self.name,
            "full",
            codebook,
            kept=codebook.ids[taken],
            scores=tuple(explained.tolist()),
            parameters=about,
        )


def reconstruct_greedily(
    rows: NDArray[np.float64], n_kept: int, ridge: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the columns in the order taken, and the share explained after each."""
    n_bags, n_words = rows.shape
    # Word-major, and centred in float64 on the first row before the mean: a constant column is then
    # exactly zero, whatever its mean rounds to.
    columns = np.ascontiguousarray((rows - rows[0]).T)
    columns -= columns.mean(axis=1, keepdims=True)
    taken = np.empty(n_kept, dtype=np.int64)
    explained = np.zeros(n_kept, dtype=np.float64)
    total = float(np.square(columns).sum())
    if total == 0:
        return np.arange(n_kept), explained
    strength = ridge * total / n_words
    gram = columns.T @ columns
    inverse = np.eye(n_bags) / strength
    inner = np.square(columns).sum(axis=1) / strength
    outer = ((columns @ gram) * columns).sum(axis=1) / strength**2
    free = np.ones(n_words, dtype=bool)
    share = 0.0
    for step in range(n_kept):
        gains = np.where(free, np.maximum(outer, 0) / (1 + np.maximum(inner, 0)), -1.0)
        word = int(np.argmax(gains))
        taken[step], free[word] = word, False
        share += strength * float(gains[word]) / total
        explained[step] = min(share, 1.0)
        u = inverse @ columns[word]
        scale = 1 + float(columns[word] @ u)
        pulled = gram @ u
        v = inverse @ pulled
        along = columns @ np.stack([u, v], axis=1)
        inner -= np.square(along[:, 0]) / scale
        outer -= 2 * along[:, 0] * along[:, 1] / scale
        outer += np.square(along[:, 0]) * (float(u @ pulled) / scale**2)
        inverse -= np.outer(u, u / scale)
    return taken, explained
