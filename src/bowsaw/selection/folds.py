"""Dealing bags to folds: each class spread evenly, and what belongs together kept together.

Photographs of one place, frames of one film and pages of one book are more alike than their class
is. Where some of them choose words and others judge the choice, it looks better than it is. So bags
may have *groups*, and a group is dealt as a whole.

**How.** Bags are shuffled, sorted by class and dealt like cards. So are groups, by their main
class, but those of most classes come first, then the largest, and each is dealt to the fold that
lacks most of its classes; of equals, to the one that has the smallest shares of them, weighted by
the group's own shares, then to the one of fewest bags, then to the first. Where every bag is a
group of its own, that is a deal without groups, to the bit.

**What is promised.** A class whose groups have no other class is in every fold, or in as many as it
has groups: a fold that lacks it comes first. Groups of several classes pull in several directions;
a deal that serves all of them need not exist, nor be found where it does (of small random cases
where one exists, 99 in 100 are found, and 74 by cards alone). Then a fold has no bag of some
class, or the rest has none, which ``check_all_are_seen`` refuses. Cost: n_groups · n_folds ·
n_classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError

Labels = NDArray[np.int64]


def check_groups(groups: ArrayLike | None, n_bags: int) -> Labels | None:
    """Return each bag's group as a whole number from 0, or say what is wrong.

    Numbers follow the bags: the first bag's group is 0, so names do not matter.

    Examples
    --------
    >>> check_groups(["roof", "cellar", "roof"], 3).tolist()
    [0, 1, 0]
    """
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_bags,):
        raise DataError(f"groups must have one entry a bag ({n_bags}); got shape {names.shape}.")
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names.tolist()]
    return np.array(found, dtype=np.int64)


def deal(
    labels: Labels, n_folds: int, rng: np.random.Generator, groups: Labels | None = None
) -> Labels:
    """Return the fold of each bag, ``(n_bags,)``, from 0.

    Parameters
    ----------
    labels : ndarray of int64, shape (n_bags,)
        Classes, whole numbers from 0.
    n_folds : int
        How many folds.
    rng : numpy.random.Generator
        Shuffles.
    groups : ndarray of int64, shape (n_bags,), optional
        From ``check_groups``: bags of one group come into one fold.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> folds = deal(np.array([0, 0, 0, 0, 1, 1, 1]), 2, rng, np.array([0, 0, 1, 1, 2, 2, 3]))
    >>> [len(set(folds[a:b])) for a, b in ((0, 2), (2, 4), (4, 6), (0, 4))]
    [1, 1, 1, 2]
    """
    counts = None if groups is None else _presence(labels, groups)
    mostly = labels if counts is None else counts.argmax(axis=1)
    shuffled = rng.permutation(len(mostly))
    by_class = shuffled[np.argsort(mostly[shuffled], kind="stable")]
    fold = np.empty(len(mostly), dtype=np.int64)
    if groups is None or counts is None:
        fold[by_class] = np.arange(len(mostly)) % n_folds
        return fold
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    has, n_bags = np.zeros((n_folds, counts.shape[1])), np.zeros(n_folds, dtype=np.int64)
    n_classes, sizes = (counts > 0).sum(axis=1), counts.sum(axis=1)
    for group in by_class[np.lexsort((-sizes[by_class], -n_classes[by_class]))]:
        lacks = ((has == 0) & (counts[group] > 0)).sum(axis=1)
        crowded = has @ (shares[group] / shares[group].sum())
        # Sums of the same shares in another order differ in their last bits.
        best = np.lexsort((n_bags, np.round(crowded, 12), -lacks))[0]
        fold[group] = best
        has[best] += shares[group]
        n_bags[best] += sizes[group]
    folds: Labels = fold[groups]
    return folds


def n_groups_of(labels: Labels, groups: Labels | None) -> Labels:
    """Return for each class how many groups have it; bags, where there are no groups."""
    if groups is None:
        return np.bincount(labels)
    counts: Labels = (_presence(labels, groups) > 0).sum(axis=0)
    return counts


def check_all_are_seen(folds: Labels, labels: Labels, classes: NDArray[np.generic]) -> None:
    """Refuse folds of which one holds all bags of a class: nothing could learn it from the rest."""
    for number, fold in only_there(folds, labels):
        raise DataError(
            f"all bags of class {classes[number]!s} fall into one fold ({fold}), because of their "
            "groups. Give the class more groups, or name smaller ones."
        )


def only_there(folds: Labels, labels: Labels) -> list[tuple[int, int]]:
    """Return the classes whose bags are all in one fold, each with that fold.

    Examples
    --------
    >>> import numpy as np
    >>> only_there(np.array([0, 1, 2, 2]), np.array([0, 0, 1, 1]))
    [(1, 2)]
    """
    found = []
    for number in range(int(labels.max(initial=-1)) + 1):
        theirs = np.unique(folds[labels == number])
        if len(theirs) == 1:
            found.append((number, int(theirs[0])))
    return found


def _presence(labels: Labels, groups: Labels) -> NDArray[np.int64]:
    """Return how many bags of each class each group has, ``(n_groups, n_classes)``."""
    table = np.zeros((int(groups.max(initial=-1)) + 1, int(labels.max(initial=-1)) + 1), np.int64)
    np.add.at(table, (groups, labels), 1)
    return table
