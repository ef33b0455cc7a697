"""Sets of pruned words by Eq. 6, word by word: the policies ``sequential`` and ``chain``.

The paper states Eq. 6 for one word and leaves sets open; a commented line in its source says that
the words are pruned one after the other. Both policies end in a *plan*, a list of words in the
order in which they go, each with who gets which share of it: survivors, or words that go later.
Carrying a histogram through the plan takes one multiply-add an entry, and a bag needs nothing else.

**sequential.** Words go in the order of falling mass in the corpus, and each gives equal parts to
its n nearest words that are still alive. Ties in mass are settled by the words' vectors, read from
the first dimension on, so that the order belongs to the words and not to their numbers. The plan
has at most n entries a pruned word: O(|pruned| · n) a bag, as the paper has it.

**chain.** Each word's neighbours are its n nearest words, alive or not, and mass walks from
neighbour to neighbour until it meets a survivor: an absorbing Markov chain. Its solution is found
by taking words out of the chain one by one and joining the ends, without a subtraction
(Grassmann, Taksar and Heyman), so that shares are never negative and classes that are left once in
10³⁰ steps do no harm. Words that few others name go first, which keeps the plan short: its length
is the fill of a sparse elimination, for half of 5000 words 6 to 100 entries a pruned word. *Closed
classes*: words from which no walk comes to a survivor would keep their mass for ever. They give
all of it to their nearest survivor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bowsaw.inference import _elimination_kernel as kernel
from bowsaw.inference.nearest_survivors import Heirs
from bowsaw.inference.transfer import as_transfer
from bowsaw.parallel import Scratch, ordered_map

BLOCK_BAGS = 32


class Plan(NamedTuple):
    """Words in the order in which they go, and who gets what of each.

    Attributes
    ----------
    order : ndarray of int64, shape (n_pruned,)
        Positions of words.
    starts : ndarray of int64, shape (n_pruned + 1,)
        The entries of the p-th word are ``starts[p]`` to ``starts[p + 1]``.
    targets : ndarray of int32
        Who gets a share: a survivor or a word later in the order.
    shares : ndarray of float64
        Those of a word sum to 1.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    targets: NDArray[np.int32]
    shares: NDArray[np.float64]


class Sequential:
    """Plans in which words go by falling mass, each to its nearest words still alive.

    Parameters
    ----------
    lists : Heirs
        Its words, their ranked lists and how many neighbours a word has.
    mass : ndarray of shape (n_words,), float64
        The mass of each word in the corpus.
    """

    def __init__(self, lists: Heirs, mass: NDArray[np.float64]) -> None:
        self._lists = lists
        by_vector = np.empty(len(mass), dtype=np.int64)
        by_vector[np.lexsort(lists.words.T[::-1])] = np.arange(len(mass))
        self._order = np.lexsort((by_vector, -mass))

    def plan(self, kept: NDArray[np.bool_]) -> Plan:
        """Return the plan that leaves just the kept words."""
        order = self._order[~kept[self._order]]
        alive = np.append(np.ones(len(kept), dtype=bool), False)
        lists = self._lists
        return Plan(
            order, *kernel.nearest_alive(order, lists.words, lists.ranked, alive, lists.neighbours)
        )


class Chain:
    """Plans in which mass walks along the full table of neighbours until it meets a survivor.

    Parameters
    ----------
    lists : Heirs
        Its words, their ranked lists and how many neighbours a word has.
    """

    def __init__(self, lists: Heirs) -> None:
        self._lists = lists
        n_words = len(lists.words)
        neighbours = min(lists.neighbours, n_words - 1)
        self._table = kernel.nearest_table(lists.words, lists.ranked, neighbours)
        named = self._table.ravel()
        self._listers = np.argsort(named, kind="stable") // max(neighbours, 1)
        n_listers = np.bincount(named, minlength=n_words)
        self._starts = np.concatenate([[0], np.cumsum(n_listers)])
        self._order = np.argsort(n_listers, kind="stable")

    def plan(self, kept: NDArray[np.bool_]) -> Plan:
        """Return the plan that leaves just the kept words."""
        found = kernel.reaches(self._table, self._starts, self._listers, kept)
        walking = self._order[(found & ~kept)[self._order]]
        place = np.full(len(kept), len(kept), dtype=np.int64)
        place[walking] = np.arange(len(walking))
        starts, targets, shares = kernel.eliminate(walking, self._table, place)
        lost = np.flatnonzero(~found)
        if not len(lost):
            return Plan(walking, starts, targets, shares)
        return Plan(
            np.concatenate([walking, lost]),
            np.concatenate([starts, starts[-1] + 1 + np.arange(len(lost))]),
            np.concatenate([targets, self._lists.nearest(lost, kept)]),
            np.concatenate([shares, np.ones(len(lost))]),
        )


def plan_matrix(plan: Plan, kept: NDArray[np.int64], n_words: int) -> csr_array:
    """Return the transfer matrix of a plan, ``(n_words, len(kept))``: each word's unit carried."""
    sources, columns, shares = [], [], []
    for begin in range(0, len(plan.order), BLOCK_BAGS):
        some = plan.order[begin : begin + BLOCK_BAGS]
        mass = np.zeros((n_words, len(some)))
        mass[some, np.arange(len(some))] = 1
        kernel.push(*plan, mass)
        column, source = np.nonzero(mass[kept])
        sources.append(some[source])
        columns.append(column)
        shares.append(mass[kept[column], source])
    none = np.empty(0, dtype=np.int64)
    return as_transfer(
        kept,
        n_words,
        np.concatenate([none, *sources]),
        np.concatenate([none, *columns]),
        np.concatenate([none, *shares]),
    )


def carry(
    plan: Plan,
    full: NDArray[np.float32],
    kept: NDArray[np.int64],
    table: NDArray[np.float32],
    n_jobs: int | None,
) -> None:
    """Write the histograms of the kept words, a row each, that ``full``'s bags have by the plan.

    ``full`` is (n_words, n_bags); ``table`` gets (len(kept), n_bags).
    """
    scratch = Scratch()
    n_words, n_bags = full.shape

    def one(begin: int) -> None:
        bags = slice(begin, min(begin + BLOCK_BAGS, n_bags))
        mass = scratch.take(n_words, 2 * (bags.stop - begin)).view(np.float64)
        mass[:] = full[:, bags]
        kernel.push(*plan, mass)
        table[:, bags] = mass[kept]

    for _ in ordered_map(one, range(0, n_bags, BLOCK_BAGS), n_jobs):
        pass
