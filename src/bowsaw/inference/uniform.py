"""``uniform``: a pruned word gives equal parts to its nearest words (paper, Eq. 6).

Eq. 6 sets Λ_kl = 1/n for the n words nearest to the pruned word l, in place of the integral in
Eq. 3. It needs no descriptor. The paper states it for one word; for sets there are three policies,
which agree on one word:

``nearest-surviving``
    1/n to each of the n nearest survivors; to all of them if they are fewer. The only policy whose
    moves cost what they touch: a swap of 10 words recomputes some 150 columns of 2500.
``sequential``
    The words go one by one, by falling mass in all bags of the state (ties by the words' vectors),
    each to its n nearest words still alive. It is the only policy whose Λ, and so the histogram of
    a bag, depends on the other bags.
``chain``
    Each word's neighbours are its n nearest words, alive or not, and mass walks from neighbour to
    neighbour until it meets a survivor: an absorbing Markov chain.

**Solving.** Let row l of P hold the shares that pruned word l gives to its neighbours, Q its
pruned columns and R its surviving ones. Under both ``sequential`` (where Q is triangular) and
``chain``, Λ = (I − Q)⁻¹ R: one sparse LU factorisation per move, made from scratch.

*Closed classes*: words from which no walk comes to a survivor would keep their mass. They give all
of it to their nearest survivor. A class that walks leave less than once in 10¹⁰ steps counts as
closed: I − Q is singular to working precision there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu

from bowsaw._arrays import Bools, Float32, Float64, Int32, Int64
from bowsaw.codebook import Codebook
from bowsaw.inference.state import Positions, Swap
from bowsaw.inference.transfer import NearestSurvivors, Sources, TransferState

POLICIES = ("nearest-surviving", "sequential", "chain")
BLOCK_BAGS = 1024
_KILLED = 1e-10
_PRECISION = 1e-9


class UniformState(TransferState):
    """Histograms in which pruned words give equal parts to their nearest words.

    Parameters
    ----------
    codebook, full, **given
        As for :class:`TransferState`.
    neighbours : int, default=5
        Number of words a pruned word gives to.
    policy : {"nearest-surviving", "sequential", "chain"}, default="nearest-surviving"
        How a set of pruned words gives.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0], [1.0], [2.5], [7.0]])
    >>> state = UniformState(book, [[0.25, 0.5, 0.25, 0.0]], neighbours=2)
    >>> state.without([1]).histograms.tolist()
    [[0.5, 0.5, 0.0]]
    """

    _own = ("_survivors",)

    def __init__(
        self,
        codebook: Codebook,
        full: ArrayLike,
        *,
        neighbours: int = 5,
        policy: str = "nearest-surviving",
        **given: Any,
    ) -> None:
        super().__init__(codebook, full, **given)
        self._policy = policy
        self._survivors = NearestSurvivors(codebook.words, neighbours, self._n_jobs)
        if policy == "sequential":
            mass = self._full.sum(axis=1, dtype=np.float64)
            by_vector = np.empty(len(mass), dtype=np.int64)
            by_vector[np.lexsort(codebook.words.T[::-1])] = np.arange(len(mass))
            self._order = np.lexsort((by_vector, -mass))
        elif policy == "chain":
            words = np.arange(codebook.n_words)
            _, targets = self._survivors.in_turn(words, return_words=True)
            self._neighbours = targets.reshape(len(words), -1)
        self.reset()

    def transfer_matrix(self) -> csr_array:
        """Return Λ, ``(n_words, n_kept)``: row l sums to 1, column j is ``kept[j]``."""
        if self._policy == "nearest-surviving":
            return super().transfer_matrix()
        chain = self._chain()
        matrix = np.zeros((self._book.n_words, self.n_kept))
        matrix[self._kept] = np.eye(self.n_kept)
        if len(chain.pruned):
            given = np.maximum(chain.lu.solve(chain.steps[:, self._kept].toarray()), 0)
            matrix[chain.pruned] = given / given.sum(axis=1, keepdims=True)
        return csr_array(matrix)

    def _restart_transfer(self, kept: Bools) -> None:
        self._survivors.begin(kept)

    def _follow_transfer(self, removed: Positions, added: Positions, kept: Bools) -> Positions:
        self._on_undo(self._survivors.restorer())
        return self._survivors.follow(removed, added, kept)

    def _sources(self, words: Positions) -> Sources:
        starts, sources = self._survivors.sources(words)
        return Sources(starts, sources, np.full(len(sources), 1 / self._survivors.n_nearest))

    def _chain(self) -> _Chain:
        kept = self._survives()
        if self._policy == "sequential":
            pruned = self._order[~kept[self._order]]
            starts, targets = self._survivors.in_turn(pruned)
            closed = np.zeros(len(pruned), dtype=bool)
        else:
            pruned = np.flatnonzero(~kept)
            rows = self._neighbours[pruned]
            starts, targets = np.arange(len(pruned) + 1) * rows.shape[1], rows.ravel()
            closed = ~_reaches(self._neighbours, kept)[pruned]
        counts = np.diff(starts)
        shares = np.repeat(1 / np.maximum(counts, 1), counts)
        steps = csr_array((shares, targets, starts), shape=(len(pruned), len(kept)))
        return _Chain(self._book.words, kept, pruned, steps, closed)

    def _begin(self) -> None:
        if self._policy == "nearest-surviving":
            super()._begin()
            return
        kept, chain = self._kept, self._chain()
        for begin in range(0, self.n_bags, BLOCK_BAGS):
            bags = slice(begin, begin + BLOCK_BAGS)
            mass = self._full[kept, bags].astype(np.float64)
            if len(chain.pruned):
                walking = chain.lu.solve(self._full[chain.pruned, bags].astype(np.float64), "T")
                mass += chain.steps[:, kept].T @ walking
            self._table[: len(kept), bags] = np.maximum(mass, 0)

    def _follow(self, swap: Swap) -> Int64:
        if self._policy == "nearest-surviving":
            return super()._follow(swap)
        table = self._table[: self.n_kept]
        before = table.copy()
        self._save(table)
        self._begin()
        different = (before != table).any(axis=1)
        different[swap.added_columns] = True
        return np.flatnonzero(different)


class _Chain:
    """An absorbing chain: ``steps``, (n_pruned, n_words), and the factors of I − Q."""

    def __init__(
        self, words: Float32, kept: Bools, pruned: Positions, steps: csr_array, closed: Bools
    ) -> None:
        self.pruned, self.steps = pruned, steps
        survivors = np.flatnonzero(kept)
        if not len(pruned):
            return
        while True:
            if closed.any():
                self._give_to_nearest(words.astype(np.float64), survivors, closed)
            self.lu = self._factors(0.0)
            if self.lu is not None:
                arrives = self.lu.solve(self.steps[:, survivors].sum(axis=1))
                if (np.abs(arrives - 1) <= _PRECISION).all():
                    return
            # The chance of arriving when every step ends the walk with a small probability.
            arrives = self._factors(_KILLED).solve(self.steps[:, survivors].sum(axis=1))
            closed = arrives < 0.5
            if not closed.any():
                self.lu = self.lu or self._factors(_KILLED)
                return

    def _factors(self, killed: float) -> Any:
        eye = (1 + killed) * eye_array(len(self.pruned), format="csr")
        try:
            return splu((eye - self.steps[:, self.pruned]).tocsc())
        except RuntimeError:
            # Exactly singular.
            return None

    def _give_to_nearest(self, words: Float64, survivors: Positions, closed: Bools) -> None:
        rows = np.flatnonzero(closed)
        nearest = [
            survivors[np.argmin(((words[survivors] - words[word]) ** 2).sum(axis=1))]
            for word in self.pruned[rows]
        ]
        given = csr_array((np.ones(len(rows)), (rows, nearest)), shape=self.steps.shape)
        self.steps = csr_array(diags_array((~closed).astype(float)) @ self.steps + given)


def _reaches(neighbours: Int32, kept: Bools) -> Bools:
    """Return which words can come to a kept word along their neighbours, kept ones included."""
    found = kept
    while True:
        more = found | found[neighbours].any(axis=1)
        if (more == found).all():
            return found
        found = more
