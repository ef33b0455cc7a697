r"""Merging words bottom-up, and the agglomerative information bottleneck.

**The frame.** Every word begins as a group of its own; the pair of groups whose merge costs least
becomes one group, until one is left. Cutting the tree of merges gives a grouping of every size.
Merging shortens the histogram and not the codebook: ``codes_with="full"``.

Where the loss of a pair depends on the two groups alone, :func:`merge_greedily` finds the best pair
without comparing all of them again. Each row keeps its best partner among the rows behind it. After
a merge every row is compared with the merged group, which can be a better partner than its parts
were. A row that lost its partner, and found no better one, keeps the old loss as a lower bound, and
is scanned again only when this bound is the smallest of all.

**Cost**: n² pair losses, and these scans. **Invariants**: the pair merged has the smallest loss of
all pairs (up to rounding); a group is named by its smallest word; threads change nothing.

**The bottleneck** (Slonim and Tishby, 1999; for words and classes: Fulkerson, Vedaldi and Soatto,
ECCV 2008). With p(w, c) the joint distribution of words and classes, merging words w and v loses of
the information I(word; class) the weighted Jensen-Shannon divergence of their class profiles,

.. math::

    \delta(w, v) = \sum_c \left[ p(w,c) \log \frac{p(c|w)}{p(c|w \cup v)}
                               + p(v,c) \log \frac{p(c|v)}{p(c|w \cup v)} \right] \ge 0 .

p(w, c) as we read the paper: the histograms of each class's images, added up and divided by the
total, so classes with more images weigh more. Words without mass are set aside (group -1).

With :math:`f(x) = x \log x` and the term :math:`F(w) = \sum_c f(p(w,c)) - f(p(w))` kept for each
group, :math:`\delta(w, v) = F(w) + F(v) - F(w \cup v)` costs n_classes + 1 evaluations of f, exact
enough to choose pairs by. The tree records the divergence itself, computed once per merge.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError
from bowsaw.parallel import ordered_map
from bowsaw.selection._bottleneck_kernel import union_losses
from bowsaw.selection.base import Labels, Selection, Selector, add_columns
from bowsaw.validation import ComparedByValue, check_int

_BLOCK, _CROWDED = 64, 0.8
"""Rows scanned by a thread at a time; the share of groups left below which arrays are cut."""


@dataclass(frozen=True, eq=False)
class MergeTree(ComparedByValue):
    """The merges of a bottom-up method, from which groupings of every size are cut.

    ``present`` are the words that took part, rising, ``(n_present,)``; the others are set aside.
    ``merges`` names the two groups of each merge by their smallest words, the smaller first,
    ``(n_present - 1, 2)``; ``losses`` are their costs.
    """

    n_words: int
    present: NDArray[np.int64]
    merges: NDArray[np.int64]
    losses: NDArray[np.float64]

    def groups_at(self, n_groups: int) -> NDArray[np.int64]:
        """Return each word's group when ``n_groups`` are left, ``(n_words,)``; -1 if set aside.

        Groups are numbered from 0 in the order of their smallest words.
        """
        parent = np.arange(self.n_words)
        merges = self.merges[: self.n_merges_at(n_groups)]
        parent[merges[:, 1]] = merges[:, 0]
        # A group's name is smaller than the names it took in, so one rising pass finds the roots.
        for word in np.flatnonzero(parent != np.arange(self.n_words)).tolist():
            parent[word] = parent[parent[word]]
        groups = np.full(self.n_words, -1, dtype=np.int64)
        groups[self.present] = np.unique(parent[self.present], return_inverse=True)[1]
        return groups

    def reduce(self, histograms: NDArray[Any], n_groups: int) -> NDArray[Any]:
        """Add up the columns of each group, ``(n_bags, n_groups)``."""
        return add_columns(histograms, self.groups_at(n_groups))

    def n_merges_at(self, n_groups: int) -> int:
        """Return the number of merges after which ``n_groups`` are left."""
        n_groups = check_int(n_groups, "n_kept", 1)
        return len(self.present) - min(n_groups, len(self.present))


class PairLosses(Protocol):
    """Groups in a fixed order of slots, and the cost of merging two of them."""

    @property
    def n_slots(self) -> int:
        """Number of slots, including those of groups that are gone."""

    def row(self, slot: int, start: int) -> NDArray[np.float64]:
        """Return the losses of merging with each slot from ``start`` on; infinite if it is gone."""

    def merge(self, slot: int, other: int) -> float:
        """Merge ``other`` into ``slot`` and return the cost; ``other`` is gone."""

    def keep(self, slots: NDArray[np.int64]) -> None:
        """Drop all slots but these, which move together in their order."""


def merge_greedily(
    losses: PairLosses, n_jobs: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Merge the pair of least loss until one group is left; ``losses`` are used up.

    Returns the first slots of the merged groups, the smaller first, ``(n_slots - 1, 2)``, and the
    costs.
    """
    n = losses.n_slots

    def scan(begin: int) -> list[tuple[float, int]]:
        slots = range(begin, min(begin + _BLOCK, n))
        return [_least(losses.row(slot, slot + 1), slot + 1) for slot in slots]

    best = [pair for block in ordered_map(scan, range(0, n, _BLOCK), n_jobs) for pair in block]
    bound = np.array([loss for loss, _ in best])
    partner = np.array([slot for _, slot in best], dtype=np.int64)
    exact, alive, names = np.ones(n, dtype=bool), np.ones(n, dtype=bool), np.arange(n)
    merges = np.empty((max(n - 1, 0), 2), dtype=np.int64)
    costs = np.empty(max(n - 1, 0))
    for step in range(n - 1):
        first = int(bound.argmin())
        while not exact[first]:
            bound[first], partner[first] = _least(losses.row(first, first + 1), first + 1)
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


def _least(row: NDArray[np.float64], start: int) -> tuple[float, int]:
    place = int(row.argmin()) if len(row) else -1
    return (float(row[place]), start + place) if len(row) else (np.inf, -1)


class MergingSelector(Selector):
    """Base of the selectors that merge all words into ``n_kept`` groups.

    A subclass has a ``name`` and fills in ``_merge(histograms, labels) -> MergeTree``, the
    attribute ``tree_``. Scores are minus what all merges so far have lost.
    """

    @abstractmethod
    def _merge(self, histograms: NDArray[np.float32], labels: NDArray[np.int64]) -> MergeTree:
        """Return the tree of the words of ``histograms``, ``(n_bags, n_words)``."""

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        assert labels is not None
        self.tree_ = self._merge(self._full_histograms(), labels)
        return self._cut(codebook, n_kept)

    def selection_at(self, n_groups: int) -> Selection:
        """Return the selection of another size, from the same tree."""
        check_is_fitted(self, "selection_")
        return self._cut(self.codebook_, n_groups)

    def _cut(self, codebook: Codebook, n_groups: int) -> Selection:
        lost = np.cumsum(self.tree_.losses[: self.tree_.n_merges_at(n_groups)])
        soft = {"sharpness": float(self.sharpness)} if self.coding == "soft" else {}
        return Selection(
            self.name,
            "full",
            codebook,
            groups=self.tree_.groups_at(n_groups),
            scores=(0.0, *(0.0 - lost).tolist()),
            parameters={"n_kept": int(n_groups), "coding": self.coding, **soft},
        )


class Bottleneck(MergingSelector):
    """Merge words by the agglomerative information bottleneck (Fulkerson et al., 2008).

    Codes with the full codebook. For histograms that exist already, use :func:`bottleneck_tree`.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`. Fewer groups than ``n_kept`` come out where
        fewer words have mass.

    Attributes
    ----------
    tree_ : MergeTree
        All merges and the information that each lost, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = [np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])]
    >>> words = [[0.0], [1.0], [2.0], [3.0]]
    >>> merged = bs.Bottleneck(words, n_kept=2).fit(bags, ["cat", "dog"])
    >>> merged.selection_.groups.tolist(), merged.selection_.codes_with
    ([0, 1, 0, 1], 'full')
    """

    name = "bottleneck"

    def _merge(self, histograms: NDArray[np.float32], labels: NDArray[np.int64]) -> MergeTree:
        return bottleneck_tree(word_class_table(histograms, labels), self.n_jobs)


def word_class_table(histograms: NDArray[Any], labels: ArrayLike) -> NDArray[np.float64]:
    """Return the distribution of words and classes, ``(n_words, n_classes)``, of sum 1."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    table = np.zeros((histograms.shape[1], len(classes)))
    for c in range(len(classes)):
        table[:, c] = histograms[codes == c].sum(axis=0, dtype=np.float64)
    total = table.sum()
    if not total > 0:
        raise DataError("every histogram is empty. Give images with descriptors to merge by.")
    table /= total
    return table


def bottleneck_tree(table: ArrayLike, n_jobs: int | None = None) -> MergeTree:
    """Return the merges of words by the agglomerative information bottleneck.

    ``table`` is the mass of each word in each class, ``(n_words, n_classes)``, not negative; of any
    sum, the losses are in nats times it. Words without mass are set aside.
    """
    masses = np.asarray(table, dtype=np.float64)
    if masses.ndim != 2 or not np.isfinite(masses).all() or (masses < 0).any():
        raise DataError(
            f"table must be (n_words, n_classes), finite and not negative; got shape "
            f"{masses.shape}. Rows are words: is it transposed, or centred?"
        )
    present = np.flatnonzero(masses.sum(axis=1) > 0)
    if not len(present):
        raise DataError("every word is without mass: there is nothing to merge.")
    merges, losses = merge_greedily(_InformationLosses(masses[present]), n_jobs)
    return MergeTree(len(masses), present, present[merges], losses)


class _InformationLosses:
    """Groups of words by their masses in the classes; see ``PairLosses``."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._masses = np.vstack([table.T, table.sum(axis=1)])
        x_log_x = xlogy(self._masses, self._masses)
        self._terms = x_log_x[:-1].sum(axis=0) - x_log_x[-1]
        self._masses = np.ascontiguousarray(self._masses)

    @property
    def n_slots(self) -> int:
        return len(self._terms)

    def row(self, slot: int, start: int) -> NDArray[np.float64]:
        out = np.empty(self.n_slots - start)
        union_losses(self._masses, self._terms, slot, start, out)
        return out

    def merge(self, slot: int, other: int) -> float:
        pair = self._masses[:, [slot, other]]
        union = pair.sum(axis=1)
        # p(c | part) / p(c | union); a class without mass adds nothing.
        ratio = np.ones((len(pair) - 1, 2))
        part, whole = pair[:-1] * union[-1], union[:-1, None] * pair[-1]
        np.divide(part, whole, out=ratio, where=pair[:-1] > 0)
        self._masses[:, slot] = union
        self._masses[:, other] = 0
        x_log_x = xlogy(union, union)
        self._terms[slot] = x_log_x[:-1].sum() - x_log_x[-1]
        self._terms[other] = np.inf
        return max(0.0, float(xlogy(pair[:-1], ratio).sum()))

    def keep(self, slots: NDArray[np.int64]) -> None:
        self._masses = np.ascontiguousarray(self._masses[:, slots])
        self._terms = self._terms[slots]
