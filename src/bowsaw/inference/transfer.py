"""Hard histograms inferred from the full histograms: the family of transfers.

**The problem.** A bag's histogram under the full codebook is known, its descriptors are not looked
at again. When words are pruned, their mass must go to the survivors. Let Λ_kl be the share of
pruned word l's mass that survivor k takes. The histogram of the survivors is then (paper, Eq. 4)

    ψ_k(f) = f_k + Σ_{l pruned} Λ_kl f_l,

and by Proposition 1 it is the expected re-coded histogram if Λ_kl is the probability that a
descriptor of word l has k as its first survivor (Eq. 3, written there for one pruned word). Λ has
one column a survivor here, ``transfer_matrix()`` is (n_words, n_kept), and it is the identity on
the kept words.

====================  ============================================================================
``uniform``           Eq. 6: equal parts to the nearest words; three policies for sets
``voronoi``           Eq. 3 exactly, for descriptors of up to three dimensions
``gaussian``          Eq. 3 by samples of a Gaussian around the word, truncated to its cell
``empirical``         Eq. 3 by the descriptors of training bags
====================  ============================================================================

**How far to trust it.** Given f, the descriptors of word l choose independently, so

    Var ψ_k = Σ_{l pruned} f_l Λ_kl (1 − Λ_kl) / N

with N the bag's descriptors: the paper gives it for one word, and the words' descriptors are
independent of each other. It measures how re-coded histograms scatter around the inferred one if Λ
is right, and knows nothing of a wrong Λ.

**Invariants.** Mass is neither lost nor made: rows of Λ sum to 1. Histograms are always inferred
from the full ones, never from altered ones, so that a word that comes back brings its own mass. The
paper's Algorithm 1 can be read otherwise. A column is a sum in a fixed order (its own mass, then
its givers by position, in float64) and is recomputed whole when one of its givers changes: moves
give the bits of a fresh start.

**Cost.** A move recomputes the columns that it touches: one multiply-add a giver and bag.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, MismatchError
from bowsaw.inference._transfer_kernel import mix_columns
from bowsaw.inference.state import HistogramState, Positions
from bowsaw.parallel import ordered_map
from bowsaw.validation import as_integers, as_numbers

TASK_WORDS = 256
_SUM_TOLERANCE = 1e-3


class Givers(NamedTuple):
    """Who gives to some words: entries ``starts[j]`` to ``starts[j + 1]`` are those of word j."""

    starts: NDArray[np.int64]
    sources: NDArray[np.int64]
    weights: NDArray[np.float64]


class TransferState(HistogramState):
    """Histograms inferred from the full ones by a transfer matrix.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance``; those of ``bags`` by default.
    bags : Bags, optional
        The corpus itself, for ``fidelity``.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    """

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        n_jobs: int | None = -1,
    ) -> None:
        shares = _check_full(full, codebook.n_words)
        if bags is not None:
            codebook.words_for(bags)
            if len(bags) != len(shares):
                raise MismatchError(
                    f"there are {len(shares)} histograms but {len(bags)} bags. Give the bags that "
                    "the histograms were made of."
                )
        super().__init__(codebook, len(shares), bags=bags)
        self._full = np.array(shares.T, dtype=np.float32, order="C")
        self._n_descriptors = _check_counts(n_descriptors, bags, len(shares))
        self._n_jobs = n_jobs

    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        return hard_histograms(bags, words, n_jobs=self._n_jobs)

    # -- the transfer ----------------------------------------------------------------------------

    def transfer_matrix(self) -> csr_array:
        """Return who gets what, ``(n_words, n_kept)``: row l sums to 1, column j is ``kept[j]``.

        The identity on the kept words. The histograms are the full ones times this matrix.
        """
        givers = self._givers(self._kept)
        columns = np.repeat(np.arange(self.n_kept), np.diff(givers.starts))
        return as_transfer(self._kept, self._book.n_words, givers.sources, columns, givers.weights)

    def variance(self) -> NDArray[np.float64]:
        """Return the variance of each inferred entry by Proposition 1, ``(n_bags, n_kept)``.

        How re-coded histograms would scatter around the inferred ones if the transfer were right.
        """
        if self._n_descriptors is None:
            raise DataError(
                "variance needs the number of descriptors in each bag, and only histograms were "
                "given. Give n_descriptors as well."
            )
        shares = self.transfer_matrix()
        shares.data = shares.data * (1 - shares.data)
        spread: NDArray[np.float64] = (shares.T @ self._full.astype(np.float64)).T
        return spread / np.maximum(self._n_descriptors, 1)[:, None]

    @abstractmethod
    def _restart_transfer(self, kept: NDArray[np.bool_]) -> None:
        """Find the transfer from scratch; ``kept`` tells of each word whether it survives."""

    @abstractmethod
    def _follow_transfer(
        self, out: Positions, in_: Positions, kept: NDArray[np.bool_]
    ) -> Positions:
        """Follow a move; return the kept words, incoming ones included, whose givers changed."""

    @abstractmethod
    def _givers(self, words: Positions) -> Givers:
        """Return the pruned words that give to each of these kept words, ascending."""

    # -- moves -----------------------------------------------------------------------------------

    def _survives(self) -> NDArray[np.bool_]:
        # Not _kept: until a move is over, it still names words whose columns are to be removed.
        return self._column[:-1] >= 0

    def _begin(self) -> None:
        self._restart_transfer(self._survives())
        self._mix(self._kept)

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        touched = self._follow_transfer(out, in_, self._survives())
        self._mix(touched)
        return np.sort(self._column[touched].astype(np.int64))

    def _mix(self, words: Positions) -> None:
        """Recompute the columns of these kept words."""

        def one(begin: int) -> None:
            some = words[begin : begin + TASK_WORDS]
            columns = self._column[some].astype(np.int64)
            mix_columns(self._full, some, columns, *self._givers(some), self._table)

        for _ in ordered_map(one, range(0, len(words), TASK_WORDS), self._n_jobs):
            pass


def as_transfer(
    kept: Positions,
    n_words: int,
    sources: NDArray[np.int64],
    columns: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> csr_array:
    """Return the transfer matrix of these gifts: the identity on ``kept``, and the gifts."""
    row = np.concatenate([kept, sources])
    column = np.concatenate([np.arange(len(kept)), columns])
    share = np.concatenate([np.ones(len(kept)), weights])
    return csr_array(coo_array((share, (row, column)), shape=(n_words, len(kept))))


def _check_full(full: ArrayLike, n_words: int) -> NDArray[np.float32]:
    shares = as_numbers(full, "histograms")
    if shares.ndim != 2 or shares.shape[1] != n_words:
        raise DataError(
            f"histograms must be (n_bags, n_words) with {n_words} columns, one a word of the "
            f"codebook; got shape {shares.shape}. Code the bags with this codebook."
        )
    if not np.isfinite(shares).all() or (shares < 0).any():
        raise DataError("histograms must be finite and not negative. Remove or repair such rows.")
    sums = shares.sum(axis=1, dtype=np.float64)
    wrong = np.flatnonzero((np.abs(sums - 1) > _SUM_TOLERANCE) & (sums != 0))
    if len(wrong):
        raise DataError(
            f"histograms must sum to 1 (to 0 for an empty bag); row {int(wrong[0])} sums to "
            f"{sums[wrong[0]]:.4g}. Divide each row by its sum."
        )
    return shares.astype(np.float32, copy=False)


def _check_counts(
    n_descriptors: ArrayLike | None, bags: Bags | None, n_bags: int
) -> NDArray[np.int64] | None:
    if n_descriptors is None:
        return None if bags is None else bags.counts
    counts = as_integers(n_descriptors, "n_descriptors", np.int64)
    if counts.shape != (n_bags,) or (counts < 0).any():
        raise DataError(
            f"n_descriptors must be {n_bags} whole numbers from 0 up, one a bag; got shape "
            f"{counts.shape}."
        )
    if bags is not None and (counts != bags.counts).any():
        raise MismatchError(
            "n_descriptors differs from the sizes of the bags. Give one of the two."
        )
    return counts
