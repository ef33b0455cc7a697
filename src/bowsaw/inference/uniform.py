"""``uniform``: a pruned word gives equal parts to its nearest words (paper, Eq. 6).

Eq. 6 sets Λ_kl = 1/n for the n words nearest to the pruned word l, for want of the integral in
Eq. 3. It needs word-to-word distances and the full histograms, and not one descriptor. The paper
states it for one word; for sets there are three policies, which agree on one word:

``nearest-surviving``
    1/n to each of the n nearest survivors; to all of them if they are fewer. One entry of Λ an
    heir, so |pruned| · n in all. The only policy whose moves cost what they touch (``heirs``): a
    swap of 10 words recomputes some 150 columns of 2500.
``sequential``
    The words go one by one, to the n nearest words still alive (``elimination``).
``chain``
    Mass walks along the full table of neighbours until it meets a survivor (``elimination``).

**Cost.** O(|pruned| · n) multiply-adds a bag for the first two: ``n_products`` counts them. A swap
under ``sequential`` or ``chain`` is made from scratch.

**Renaming.** Of equally near words the first in the codebook counts as nearer, so permuting the
words permutes the result where the distances between words are distinct.

The heuristic is crude in many dimensions: equal parts to five words, where the nearest survivor
takes most. See ``sampled`` for shares learned from descriptors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.inference.elimination import Chain, Plan, Sequential, carry, plan_matrix
from bowsaw.inference.nearest_survivors import Heirs
from bowsaw.inference.state import Positions
from bowsaw.inference.transfer import Givers, TransferState

POLICIES = ("nearest-surviving", "sequential", "chain")


class UniformState(TransferState):
    """Histograms in which pruned words give equal parts to their nearest words.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    full : array-like of shape (n_bags, n_words)
        Hard histograms under the full codebook; rows sum to 1, or to 0 for an empty bag.
    n_descriptors : array-like of shape (n_bags,), optional
        Descriptors in each bag, for ``variance``; those of ``bags`` by default.
    bags : Bags, optional
        The corpus itself, for ``fidelity``; nothing else looks at it.
    neighbours : int, default=5
        How many words a pruned word gives to.
    policy : {"nearest-surviving", "sequential", "chain"}, default="nearest-surviving"
        What a set of pruned words does.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0], [1.0], [2.5], [7.0]])
    >>> state = UniformState(book, [[0.25, 0.5, 0.25, 0.0]], neighbours=2)
    >>> state.without([1]).histograms.tolist()
    [[0.5, 0.5, 0.0]]
    """

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        n_descriptors: ArrayLike | None = None,
        bags: Bags | None = None,
        neighbours: int = 5,
        policy: str = "nearest-surviving",
        n_jobs: int | None = -1,
    ) -> None:
        if policy not in POLICIES:
            raise ParameterError(f"policy must be one of {', '.join(POLICIES)}; got {policy!r}.")
        super().__init__(codebook, full, n_descriptors=n_descriptors, bags=bags, n_jobs=n_jobs)
        self._heirs = Heirs(codebook.words, neighbours, n_jobs=n_jobs)
        self._own = ("_heirs",)
        self._planner: Sequential | Chain | None = None
        if policy == "sequential":
            self._planner = Sequential(self._heirs, self._full.sum(axis=1, dtype=np.float64))
        elif policy == "chain":
            self._planner = Chain(self._heirs)
        self.reset()

    @property
    def n_bytes(self) -> int:
        """Memory that the state holds in arrays."""
        return super().n_bytes + self._heirs.n_bytes

    @property
    def n_products(self) -> int:
        """Multiply-adds that the histogram of one bag takes from scratch."""
        if self._planner is not None:
            return len(self._plan().targets)
        return len(self._givers(self._kept).sources)

    def transfer_matrix(self) -> csr_array:
        """Return who gets what, ``(n_words, n_kept)``: row l sums to 1, column j is ``kept[j]``.

        The identity on the kept words. The histograms are the full ones times this matrix.
        """
        if self._planner is None:
            return super().transfer_matrix()
        return plan_matrix(self._plan(), self._kept, self._book.n_words)

    # -- nearest-surviving -----------------------------------------------------------------------

    def _restart_transfer(self, kept: NDArray[np.bool_]) -> None:
        self._heirs.begin(kept)

    def _follow_transfer(
        self, out: Positions, in_: Positions, kept: NDArray[np.bool_]
    ) -> Positions:
        return self._heirs.follow(out, in_, kept)

    def _givers(self, words: Positions) -> Givers:
        starts, sources = self._heirs.givers(words)
        return Givers(starts, sources, np.full(len(sources), 1 / self._heirs.n_heirs))

    # -- sequential and chain --------------------------------------------------------------------

    def _plan(self) -> Plan:
        assert self._planner is not None
        return self._planner.plan(self._survives())

    def _begin(self) -> None:
        if self._planner is None:
            super()._begin()
        else:
            kept = self._kept
            carry(self._plan(), self._full, kept, self._table[: len(kept)], self._n_jobs)

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        if self._planner is None:
            return super()._follow(out, out_columns, in_, in_columns)
        before = self._table[: self.n_kept].copy()
        self._begin()
        # Columns that are still to be removed hold what their words have left; nobody reads it.
        different = (before != self._table[: self.n_kept]).any(axis=1)
        different[in_columns] = True
        return np.flatnonzero(different)
