r"""Merging words bottom-up: two at a time, always the pair that costs least.

The methods that merge (information bottleneck, class separability, Winn's likelihood) share a
frame. Every word begins as a group of its own; the best pair of groups becomes one group; and so
on until one is left. The record of the merges is a tree, and cutting it gives a grouping of
every size. A new image is coded with *all* words and its histogram's columns are added up, so
merging shortens the histogram and not the codebook: ``codes_with="full"``.

Where the loss of a pair depends on the two groups alone, :func:`merge_greedily` finds the best
pair without looking at all of them again. Each row keeps its best partner among the rows behind
it. After a merge

1. *every* row is compared with the merged group: the loss is not reducible, the merged group can be
   a better partner than either of its parts was;
2. a row that lost its partner, and did not find a better one in 1, keeps the old loss as a lower
   bound. It is scanned again only when this bound is the smallest of all; most never are before
   their turn comes anyhow.

Cost: n²/2 pair losses to begin, n²/2 for the comparisons in 1, and what the scans in 2 take.
Invariants: the pair merged has the smallest loss of all pairs (up to rounding, and the first
found on a tie); a group is named by its smallest word; the result does not depend on ``n_jobs``.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.parallel import ordered_map
from bowsaw.selection.base import Selector
from bowsaw.selection.result import Selection

_BLOCK = 64
"""Rows scanned by a thread at a time."""

_CROWDED = 0.8
"""Groups that are gone are removed from the arrays when fewer than this share is left."""


@dataclass(frozen=True)
class MergeTree:
    """The merges of a bottom-up method, from which groupings of every size are cut.

    Attributes
    ----------
    n_words : int
        Words of the codebook.
    present : ndarray of int64, shape (n_present,)
        Words that took part, rising; the others are set aside.
    merges : ndarray of int64, shape (n_present - 1, 2)
        The two groups of each merge, named by their smallest words, the smaller first.
    losses : ndarray of float64, shape (n_present - 1,)
        What each merge cost.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.selection.merging import MergeTree
    >>> tree = MergeTree(4, np.array([0, 1, 3]), np.array([[1, 3], [0, 1]]), np.array([0.1, 0.5]))
    >>> tree.groups_at(2).tolist(), tree.groups_at(1).tolist()
    ([0, 1, -1, 1], [0, 0, -1, 0])
    """

    n_words: int
    present: NDArray[np.int64]
    merges: NDArray[np.int64]
    losses: NDArray[np.float64]

    def groups_at(self, n_groups: int) -> NDArray[np.int64]:
        """Return each word's group when ``n_groups`` are left, ``(n_words,)``.

        Groups are numbered from 0 in the order of their smallest words; -1 is for words that are
        set aside. Where fewer words took part than ``n_groups``, each is a group of its own.
        """
        n_merges = len(self.present) - min(check_n_groups(n_groups), len(self.present))
        parent = np.arange(self.n_words)
        parent[self.merges[:n_merges, 1]] = self.merges[:n_merges, 0]
        # A group's name is smaller than the names it took in, so one rising pass finds the roots.
        for word in np.flatnonzero(parent != np.arange(self.n_words)).tolist():
            parent[word] = parent[parent[word]]
        groups = np.full(self.n_words, -1, dtype=np.int64)
        groups[self.present] = np.unique(parent[self.present], return_inverse=True)[1]
        return groups

    @property
    def n_present(self) -> int:
        """Words that took part."""
        return len(self.present)


def check_n_groups(n_groups: object) -> int:
    """Return ``n_groups`` as an int, or say what it may be."""
    value = int(n_groups) if isinstance(n_groups, numbers.Integral) else 0
    if isinstance(n_groups, bool) or value < 1:
        raise ParameterError(
            f"the number of groups must be a whole number, 1 or more; got {n_groups!r}."
        )
    return value


def add_up(histograms: NDArray[Any], groups: NDArray[np.int64]) -> NDArray[Any]:
    """Add up the columns of each group, ``(n_bags, n_groups)``; columns of -1 are left out."""
    order = np.argsort(groups, kind="stable")[int((groups < 0).sum()) :]
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    summed: NDArray[Any] = np.add.reduceat(histograms[:, order], starts, axis=1)
    return summed


class PairLosses(Protocol):
    """Groups in a fixed order of slots, and what merging two of them would cost."""

    @property
    def n_slots(self) -> int:
        """How many slots there are, those of groups that are gone included."""

    def row(self, slot: int, start: int) -> NDArray[np.float64]:
        """Return the losses of merging ``slot`` with each slot from ``start`` on.

        Infinite for groups that are gone; of ``slot`` itself, any number.
        """

    def merge(self, slot: int, other: int) -> float:
        """Merge ``other`` into ``slot`` and return what that cost; ``other`` is gone."""

    def keep(self, slots: NDArray[np.int64]) -> None:
        """Forget all slots but these, which move together in their order."""


def merge_greedily(
    losses: PairLosses, n_jobs: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Merge the pair of least loss until one group is left.

    Parameters
    ----------
    losses : PairLosses
        The groups to begin with; used up by the merges.
    n_jobs : int or None
        Threads for the first scan of all pairs.

    Returns
    -------
    merges : ndarray of int64, shape (n_slots - 1, 2)
        First slots of the merged groups, the smaller first.
    costs : ndarray of float64, shape (n_slots - 1,)
    """
    n = losses.n_slots
    bound, partner = _first_scan(losses, n_jobs)
    exact = np.ones(n, dtype=bool)
    alive = np.ones(n, dtype=bool)
    names = np.arange(n)
    merges = np.empty((max(n - 1, 0), 2), dtype=np.int64)
    costs = np.empty(max(n - 1, 0))
    for step in range(n - 1):
        first = int(bound.argmin())
        while not exact[first]:
            bound[first], partner[first] = _best_behind(losses, first)
            exact[first] = True
            first = int(bound.argmin())
        second = int(partner[first])
        merges[step] = names[first], names[second]
        costs[step] = losses.merge(first, second)

        exact &= (partner != first) & (partner != second)
        bound[second], exact[second] = np.inf, True
        row = losses.row(first, 0)
        # No loss is below a row's bound, so a merged group that reaches it is the best partner.
        # Rows that are gone have an infinite loss and an infinite bound: they are never chosen.
        better = np.flatnonzero(row[:first] <= bound[:first])
        bound[better], partner[better], exact[better] = row[better], first, True
        bound[first], partner[first] = _least(row[first + 1 :], first + 1)
        exact[first] = True

        alive[second] = False
        if n - 1 - step < _CROWDED * len(alive):
            slots = np.flatnonzero(alive)
            place = np.full(len(alive), -1, dtype=np.int64)
            place[slots] = np.arange(len(slots))
            losses.keep(slots)
            partner = place[partner[slots]]
            bound, exact, names, alive = bound[slots], exact[slots], names[slots], alive[slots]
    return merges, costs


def _first_scan(
    losses: PairLosses, n_jobs: int | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return each row's least loss and best partner among the rows behind it."""

    def scan(begin: int) -> list[tuple[float, int]]:
        end = min(begin + _BLOCK, losses.n_slots)
        return [_best_behind(losses, slot) for slot in range(begin, end)]

    blocks = ordered_map(scan, range(0, losses.n_slots, _BLOCK), n_jobs)
    best = [pair for block in blocks for pair in block]
    return np.array([loss for loss, _ in best]), np.array(
        [slot for _, slot in best], dtype=np.int64
    )


def _best_behind(losses: PairLosses, slot: int) -> tuple[float, int]:
    return _least(losses.row(slot, slot + 1), slot + 1)


def _least(row: NDArray[np.float64], start: int) -> tuple[float, int]:
    if not len(row):
        return np.inf, -1
    place = int(row.argmin())
    return float(row[place]), start + place


class MergingSelector(Selector):
    """A selector that merges all words into ``n_kept`` groups; subclasses fill in ``_merge``.

    Attributes
    ----------
    tree_ : MergeTree
        All merges; :meth:`selection_at` cuts it at any size.
    """

    name: str

    def __init__(
        self,
        codebook: Any,
        n_kept: int = 50,
        *,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.coding = coding
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    @abstractmethod
    def _merge(self, histograms: NDArray[np.float32], labels: NDArray[np.int64]) -> MergeTree:
        """Return the tree of the words of ``histograms``, ``(n_bags, n_words)``."""

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        self.tree_ = self._merge(self._full_histograms(), labels)
        self._book = book
        return self.selection_at(n_kept)

    def selection_at(self, n_groups: int) -> Selection:
        """Return the selection of another size, from the same tree."""
        check_is_fitted(self, "tree_")
        n_merges = self.tree_.n_present - min(check_n_groups(n_groups), self.tree_.n_present)
        return Selection(
            self.name,
            "full",
            self._book,
            groups=self.tree_.groups_at(n_groups),
            scores=tuple(self.tree_.losses[:n_merges].tolist()),
            parameters={"n_kept": int(n_groups), "coding": self.coding, **self._told()},
        )

    def _told(self) -> dict[str, Any]:
        return {"sharpness": float(self.sharpness)} if self.coding == "soft" else {}
