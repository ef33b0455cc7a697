"""Which words a ridge regression misses least: exact, for all of them at once.

**The problem.** An elimination asks before each step what the leave-one-out error would be without
word k, for every k. Fitting anew for each costs p times a fit. But one fit tells all of them. With
X the centred square-rooted histograms of p words in n bags, Y the classes, A = X'X + αI,
B = A⁻¹X'Y, R = Y − XB, H = 1/n + XA⁻¹X' and z_k = XA⁻¹e_k, dropping column k changes

    R to R + z_k B_k / (A⁻¹)_kk    and    H_ii to H_ii − z_ik² / (A⁻¹)_kk

(the inverse of a matrix without a row and a column is a rank-one change of the part that is left),
so the error without k, the mean over bags of ‖R_i‖² / (1 − H_ii)², costs one pass over z_k. A word
that goes changes A⁻¹, B and all z by rank one as well, and the question can be asked again.

**Cost.** n p min(n, p) for the fit, through X'X or XX' whichever is smaller; n p C for all errors
of C classes; n p for letting a word go. More words than bags are no special case.

**What it is not.** A column is dropped and the others stay as they are. When a word is *pruned*,
its descriptors go to other words and their columns change. So this ranks, and the caller moves the
state and asks anew after a few words. α stays as it is during a call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from bowsaw.parallel import single_threaded_blas
from bowsaw.scores._backward_kernel import errors_without, let_go

LEAST_LEFT = 1e-9
"""1 − H_ii is never smaller, whatever rounding makes of it."""
_LEAST_SHARE = 1e-12
"""(A⁻¹)_kk is never smaller than this share of its largest possible value, 1 / α."""


class BackwardRidge:
    """A ridge regression that lets columns go one by one.

    Parameters
    ----------
    columns : ndarray of shape (n_words, n_bags), float64
        Centred columns, one a row. Not changed.
    targets : ndarray of shape (n_bags, n_classes), float64
        Centred targets.
    shares : ndarray of shape (n_bags,), float64
        What the intercept adds to H_ii.
    ridge : float
        α, above 0.

    Examples
    --------
    Words 0 and 1 are the same, so either may go; word 2 tells the rest.

    >>> import numpy as np
    >>> words = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])
    >>> model = BackwardRidge(words, words[[0, 2]].T, np.full(4, 0.25), 0.1)
    >>> int(model.errors().argmax()), bool(model.drop(1)[0] in (0, 1))
    (2, True)
    """

    def __init__(
        self,
        columns: NDArray[np.float64],
        targets: NDArray[np.float64],
        shares: NDArray[np.float64],
        ridge: float,
    ) -> None:
        self._columns = columns
        self._ridge = ridge
        self._least = _LEAST_SHARE / ridge
        n_words, n_bags = columns.shape
        with single_threaded_blas():
            if n_words > n_bags:
                gram = columns.T @ columns
                gram[np.diag_indices(n_bags)] += ridge
                factor = cho_factor(gram, overwrite_a=True, check_finite=False)
                # C order, one word a row: the solution's transpose would be strided.
                self._lines = cho_solve(factor, columns.T, check_finite=False).T.copy()
            else:
                gram = columns @ columns.T
                gram[np.diag_indices(n_words)] += ridge
                factor = cho_factor(gram, overwrite_a=True, check_finite=False)
                self._lines = np.ascontiguousarray(cho_solve(factor, columns, check_finite=False))
            self._slopes = self._lines @ targets
            self._residuals = targets - columns.T @ self._slopes
        told = np.einsum("ki,ki->k", columns, self._lines)
        self._scale = np.maximum((1 - told) / ridge, self._least)
        self._left = 1 - shares - np.einsum("ki,ki->i", columns, self._lines)
        self._is_gone = np.zeros(n_words, dtype=bool)

    def errors(self) -> NDArray[np.float64]:
        """Return the mean squared leave-one-out error without each word, inf for those gone."""
        with single_threaded_blas():
            crossed = self._slopes @ self._residuals.T
        errors = np.empty(len(self._scale))
        errors_without(
            self._lines,
            self._scale,
            np.einsum("kc,kc->k", self._slopes, self._slopes),
            crossed,
            np.einsum("ic,ic->i", self._residuals, self._residuals),
            self._left,
            LEAST_LEFT,
            errors,
        )
        errors[self._is_gone] = np.inf
        return errors

    def drop(self, n_words: int, at_once: int = 1) -> NDArray[np.int64]:
        """Let words go, each time those without which the error is least; return them in order.

        Parameters
        ----------
        n_words : int
            How many; one word at least must be left.
        at_once : int, default=1
            Words that go by the same ranking: 1 is greedy elimination, more are faster.

        Returns
        -------
        ndarray of int64, shape (n_words,)
        """
        gone: list[int] = []
        while len(gone) < n_words:
            ranked = np.argsort(self.errors(), kind="stable")
            for word in ranked[: min(at_once, n_words - len(gone))].tolist():
                self._let_go(word)
                gone.append(word)
        return np.array(gone, dtype=np.int64)

    def _let_go(self, word: int) -> None:
        let_go(
            word,
            self._ridge,
            self._least,
            self._columns,
            self._lines,
            self._scale,
            self._slopes,
            self._residuals,
            self._left,
            self._is_gone,
        )
