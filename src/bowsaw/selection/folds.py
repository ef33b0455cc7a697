"""Dealing bags to folds: each class spread evenly, and what belongs together kept together.

Photographs of one place, frames of one film and pages of one book are more alike than their class
is. Where some of them choose words and others judge the choice, it looks better than it is. So bags
may have *groups*, and a group is dealt as a whole.

**How.** The groups are shuffled, sorted by their most frequent class and dealt like cards. Two
groups of a class that follow one another fall into different folds, so a class that fills two
groups or more is always among the bags that are left. Where every bag is a group of its own, that
is a deal without groups, to the bit. Groups of several classes and of very different sizes are
dealt less evenly.
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
    mostly = labels if groups is None else _presence(labels, groups).argmax(axis=1)
    shuffled = rng.permutation(len(mostly))
    by_class = shuffled[np.argsort(mostly[shuffled], kind="stable")]
    fold = np.empty(len(mostly), dtype=np.int64)
    fold[by_class] = np.arange(len(mostly)) % n_folds
    folds: Labels = fold if groups is None else fold[groups]
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
