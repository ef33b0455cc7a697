"""Hard histograms inferred from the full histograms: the family of transfers.

**The problem.** A bag's histogram f under the full codebook is known; its descriptors are not used
again. When words are pruned, their mass must go to the survivors. Let Λ_kl be the share of pruned
word l's mass that survivor k takes. The histogram of the survivors is then (paper, Eq. 4)

    ψ_k(f) = f_k + Σ_{l pruned} Λ_kl f_l,

and by Proposition 1 it is the expected re-encoded histogram if Λ_kl is the probability that a
descriptor of word l has k as its first survivor (Eq. 3, written there for one pruned word).
``transfer_matrix()`` is Λ as (n_words, n_kept), the identity on the kept words.

**Error.** Given f, the descriptors of word l choose independently, so with N descriptors
Var ψ_k = Σ_{l pruned} f_l Λ_kl (1 − Λ_kl) / N (in the paper for one word), if Λ is right.

**Invariants.** Rows of Λ sum to 1. Histograms are always inferred from the full ones, so that a
word that is added again has its own mass; the paper's Algorithm 1 can be read otherwise. A column
is a sum in a fixed order, in float64, and is recomputed whole when one of its sources changes, at
one multiply-add per source and bag: moves give the bits of a fresh start.

**Nearest survivors** are the first survivors in a word's ranked list of 256 other words; where a
list holds too few, the distances to all survivors decide, which are few then. A move concerns only
the removed words, the pruned words with a removed word among their nearest, and those that list an
added word before their last nearest. Of equally near words the first in the codebook is nearer.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array

from bowsaw._arrays import Bools, Float32, Float64, Int64
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, MismatchError
from bowsaw.inference import _transfer_kernel as kernel
from bowsaw.inference.state import HistogramState, Positions, Swap
from bowsaw.nearest.ranking import ranked_words
from bowsaw.parallel import ordered_map
from bowsaw.validation import as_integers, as_numbers

LISTED, TASK_WORDS = 256, 256
_SUM_TOLERANCE = 1e-3


class Sources(NamedTuple):
    """What some words receive: entries ``starts[j]`` to ``starts[j + 1]`` are those of word j."""

    starts: Int64
    sources: Int64
    weights: Float64


class TransferState(HistogramState):
    """Histograms inferred from the full ones by a transfer matrix.

    Parameters
    ----------
    codebook, n_descriptors, bags, n_jobs
        As in :func:`bowsaw.whatif`; ``bags`` are for ``fidelity``, and optional.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
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
                    f"there are {len(shares)} histograms but {len(bags)} bags. Give their own bags."
                )
        super().__init__(codebook, len(shares), bags=bags)
        self._full = np.array(shares.T, dtype=np.float32, order="C")
        self._n_descriptors = _check_counts(n_descriptors, bags, len(shares))
        self._n_jobs = n_jobs

    def _code(self, bags: Bags, words: Float32) -> Float32:
        return hard_histograms(bags, words, n_jobs=self._n_jobs)

    def transfer_matrix(self) -> csr_array:
        """Return Λ, ``(n_words, n_kept)``: row l sums to 1, column j is ``kept[j]``."""
        found = self._sources(self._kept)
        columns = np.repeat(np.arange(self.n_kept), np.diff(found.starts))
        row = np.concatenate([self._kept, found.sources])
        column = np.concatenate([np.arange(self.n_kept), columns])
        share = np.concatenate([np.ones(self.n_kept), found.weights])
        return csr_array(coo_array((share, (row, column)), (self._book.n_words, self.n_kept)))

    def variance(self) -> Float64:
        """Return the variance of each inferred entry by Proposition 1, ``(n_bags, n_kept)``."""
        if self._n_descriptors is None:
            raise DataError("variance needs descriptors per bag. Give n_descriptors as well.")
        shares = self.transfer_matrix()
        shares.data = shares.data * (1 - shares.data)
        scatter: Float64 = (shares.T @ self._full.astype(np.float64)).T
        return scatter / np.maximum(self._n_descriptors, 1)[:, None]

    @abstractmethod
    def _restart_transfer(self, kept: Bools) -> None:
        """Find the transfer from scratch; ``kept`` marks the words that survive."""

    @abstractmethod
    def _follow_transfer(self, removed: Positions, added: Positions, kept: Bools) -> Positions:
        """Follow a move; return the kept words, added ones included, whose sources changed."""

    @abstractmethod
    def _sources(self, words: Positions) -> Sources:
        """Return the pruned words that give to each of these kept words, ascending."""

    def _survives(self) -> Bools:
        # Not _kept: until a move is over, it still names words whose columns are to be dropped.
        return self._column[:-1] >= 0

    def _begin(self) -> None:
        self._restart_transfer(self._survives())
        self._mix(self._kept)

    def _follow(self, swap: Swap) -> Int64:
        touched = self._follow_transfer(swap.removed, swap.added, self._survives())
        columns = np.sort(self._column[touched].astype(np.int64))
        self._save(self._table, columns)
        self._mix(touched)
        return columns

    def _mix(self, words: Positions) -> None:
        """Recompute the columns of these kept words."""

        def one(begin: int) -> None:
            some = words[begin : begin + TASK_WORDS]
            columns = self._column[some].astype(np.int64)
            kernel.mix_columns(self._full, some, columns, *self._sources(some), self._table)

        for _ in ordered_map(one, range(0, len(words), TASK_WORDS), self._n_jobs):
            pass


class NearestSurvivors:
    """The ``neighbours`` nearest survivors of every pruned word; all of them if they are fewer."""

    def __init__(self, words: Float32, neighbours: int, n_jobs: int | None) -> None:
        self.words, self.neighbours, self.n_nearest = words, neighbours, 0
        n_words = len(words)
        self.ranked = ranked_words(Bags(words), words, min(LISTED + 1, n_words), n_jobs=n_jobs)
        order = np.argsort(self.ranked, axis=None, kind="stable")
        starts = np.searchsorted(self.ranked.ravel()[order], np.arange(n_words + 1))
        lister, rank = np.divmod(order[: starts[-1]], self.ranked.shape[1])
        self._all = kernel.Survivors(
            words,
            self.ranked,
            starts,
            lister.astype(np.int32),
            rank.astype(np.uint16),
            np.full((n_words, min(neighbours, n_words)), n_words, dtype=np.int32),
            np.full(n_words, -1, dtype=np.int32),
            np.zeros(n_words),
        )

    @property
    def n_bytes(self) -> int:
        """Memory of its arrays but for the words."""
        return sum(array.nbytes for array in self._all[1:])

    def copy(self) -> Self:
        """Return an independent copy; the lists are shared."""
        other, own = copy.copy(self), self._all
        other._all = own._replace(
            nearest=own.nearest.copy(), reach=own.reach.copy(), farthest=own.farthest.copy()
        )
        return other

    def restorer(self) -> Callable[[], None]:
        """Return a function that restores what the object holds now."""
        before = vars(self.copy())
        return lambda: vars(self).update(before)

    def begin(self, kept: Bools) -> None:
        """Find the nearest survivors from scratch; ``kept`` marks the words that survive."""
        alive = np.append(kept, False)
        self._all.nearest[:] = len(self.words)
        self._all.reach[:] = -1
        self.n_nearest = min(self.neighbours, int(kept.sum()))
        touched = np.zeros(len(alive), dtype=bool)
        kernel.renew(np.flatnonzero(~kept), alive, self.n_nearest, self._all, touched)

    def follow(self, removed: Positions, added: Positions, kept: Bools) -> Positions:
        """Follow a move; return the kept words, added ones included, whose sources changed."""
        if min(self.neighbours, int(kept.sum())) != self.n_nearest:
            self.begin(kept)
            return np.flatnonzero(kept)
        alive = np.append(kept, False)
        stale = kernel.find_stale(removed, added, alive, self.n_nearest, self._all)
        touched = np.zeros(len(alive), dtype=bool)
        touched[added] = True
        touched[self._all.nearest[added]] = True
        self._all.nearest[added] = len(self.words)
        self._all.reach[added] = -1
        kernel.renew(stale, alive, self.n_nearest, self._all, touched)
        return np.flatnonzero(touched & alive)

    def sources(self, words: Positions) -> Any:
        """Return the pruned words that give to each of these: starts and ascending sources."""
        return kernel.list_sources(words, self._all.nearest, self.n_nearest)

    def in_turn(self, order: Positions, *, return_words: bool = False) -> Any:
        """Return each word's nearest words alive when its turn comes: starts and targets."""
        alive = np.append(np.ones(len(self.words), dtype=bool), False)
        return kernel.neighbours_in_turn(
            order, self.words, self.ranked, alive, self.neighbours, return_words
        )


def _check_full(full: ArrayLike, n_words: int) -> Float32:
    shares = as_numbers(full, "histograms")
    if shares.ndim != 2 or shares.shape[1] != n_words:
        raise DataError(
            f"histograms must be (n_bags, n_words) with {n_words} columns, one per word of the "
            f"codebook; got shape {shares.shape}. Encode the bags with this codebook."
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


def _check_counts(n_descriptors: ArrayLike | None, bags: Bags | None, n_bags: int) -> Int64 | None:
    if n_descriptors is None:
        return None if bags is None else bags.counts
    counts = as_integers(n_descriptors, "n_descriptors", np.int64)
    if counts.shape != (n_bags,) or (counts < 0).any():
        raise DataError(f"n_descriptors must be {n_bags} integers of at least 0, one per bag.")
    if bags is not None and (counts != bags.counts).any():
        raise MismatchError("n_descriptors differs from the sizes of the bags. Give one of them.")
    return counts
