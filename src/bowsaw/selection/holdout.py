"""How far words may move, decided by bags that had no part in moving them; and folds.

**The problem.** With few images, words can be moved until they separate the images that moved them,
and no others: the leave-one-out error guards the classifier, not the words. So some bags of each
class are held out, the words are chosen and moved by the rest, and at some marks on the way the
error on those held out is measured: ridge regression on the square-rooted histograms of the rest,
mean squared error over classes, at the ridge of a grid where it is least. The mark of least error,
which may be 0 steps, is as far as all bags then move the words.

**Folds.** Bags are shuffled, sorted by class and dealt in turn; bags of one *group*, such as images
of one place, stay together (``StratifiedGroupKFold`` of scikit-learn). What would leave a class
without bags is never held out. The fewer bags, the more folds: 5 of 5 with 100 bags, 2 with 250, 1
from 334 up.

**Cost**: per fold four fifths of the choice and of the descent, and coding the bags at each mark.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedGroupKFold

from bowsaw.bags import Bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded
from bowsaw.errors import DataError
from bowsaw.parallel import single_threaded_blas
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import stream
from bowsaw.scores.leave_one_out import RIDGES
from bowsaw.selection.descent import Descent, DescentPlan
from bowsaw.validation import ComparedByValue

N_PARTS, ENOUGH = 5, 500
"""A fifth of this many bags, over all folds together, is enough to decide by."""
MARKS = (0.0, 0.125, 0.25, 0.5, 1.0)

Labels = NDArray[np.int64]


def check_groups(groups: ArrayLike | None, n_bags: int) -> Labels | None:
    """Return each bag's group as an integer from 0, in order of appearance."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_bags,):
        raise DataError(f"groups must have one entry per bag ({n_bags}); got shape {names.shape}.")
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names.tolist()]
    return np.array(found, dtype=np.int64)


def assign_folds(
    labels: Labels, n_folds: int, rng: np.random.Generator, groups: Labels | None = None
) -> Labels:
    """Return the fold of each bag, from 0, each class spread evenly; groups stay together."""
    fold = np.zeros(len(labels), dtype=np.int64)
    if groups is None:
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        fold[by_class] = np.arange(len(labels)) % n_folds
        return fold
    n_folds = min(n_folds, int(groups.max(initial=-1)) + 1, int(np.bincount(labels).max(initial=0)))
    if n_folds < 2:
        return fold
    splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        # Callers report classes that are too small for the folds.
        warnings.simplefilter("ignore", UserWarning)
        for number, (_, held) in enumerate(splitter.split(labels, labels, groups)):
            fold[held] = number
    return fold


def n_groups_of(labels: Labels, groups: Labels | None) -> Labels:
    """Return for each class how many groups have it; bags, where there are no groups."""
    pairs = np.stack([labels, np.arange(len(labels)) if groups is None else groups])
    return np.bincount(np.unique(pairs, axis=1)[0])


def check_all_are_seen(folds: Labels, labels: Labels, classes: NDArray[np.generic]) -> None:
    """Raise a DataError if a fold holds all bags of a class: the rest could not learn it."""
    for number, fold in classes_in_one_fold(folds, labels):
        raise DataError(
            f"all bags of class {classes[number]!s} fall into one fold ({fold}), because of their "
            "groups. Give the class more groups, or name smaller ones."
        )


def classes_in_one_fold(folds: Labels, labels: Labels) -> list[tuple[int, int]]:
    """Return the classes whose bags are all in one fold, each with that fold."""
    classes = range(int(labels.max(initial=-1)) + 1)
    theirs = [np.unique(folds[labels == number]) for number in classes]
    return [(number, int(fold[0])) for number, fold in enumerate(theirs) if len(fold) == 1]


@dataclass(frozen=True, eq=False)
class Holdout(ComparedByValue):
    """The effect of moving words on bags that did not move them.

    ``marks`` are the steps after which it was measured, the first 0, ``(n_marks,)``; ``errors`` the
    mean squared errors on the bags held out, ``(n_folds, n_marks)``.
    """

    marks: NDArray[np.int64]
    errors: NDArray[np.float64]

    @property
    def n_steps(self) -> int:
        """The mark of the least error, the first of equal ones; 0 where nothing was held out."""
        return int(self.marks[self.errors.mean(axis=0).argmin()]) if len(self.errors) else 0


def usual_folds(n_bags: int) -> int:
    """Return the number of folds for a number of bags."""
    return int(np.clip(round(ENOUGH / max(n_bags, 1)), 1, N_PARTS))


def measure_holdout(
    begin: Callable[[NDArray[np.int64], Task], Codebook | None],
    bags: Bags,
    labels: Labels,
    plan: DescentPlan,
    *,
    n_folds: int,
    seed: int,
    checkpoint: Checkpoint,
    groups: Labels | None = None,
    show: bool = False,
    task: Task | None = None,
) -> Holdout | None:
    """Measure the error on bags held out at some marks; None if a callback asked to stop.

    ``begin`` chooses the words to begin with by the bags at some positions, as a part of a task;
    None if a callback asked to stop.
    ``checkpoint`` is written after every fold.
    """
    marks = np.unique(np.round(np.array(MARKS) * plan.n_steps).astype(np.int64))
    record = checkpoint.load()
    found: list[list[float]] = [] if record is None else record[0]["errors"]
    part = _parts(labels, seed, groups)
    folds = [fold for fold in range(N_PARTS) if (part == fold).any()][:n_folds]
    with (
        (task or Task()).part("checking how far", len(folds)) as parts,
        Progress("checking how far", len(folds) * plan.n_steps, show=show) as bar,
    ):
        bar.step(len(found) * plan.n_steps)
        for fold in folds[len(found) :]:
            held = part == fold
            rows = np.flatnonzero(~held)
            rest, seen = bags[rows], labels[rows]
            with parts.part("fold", 1 + plan.n_steps) as steps:
                start = begin(rows, steps)
                if start is None:
                    return None
                descent = Descent(start, rest, seen, plan, seed)
                errors = []
                for mark in marks:
                    with single_threaded_blas():
                        while len(descent.errors) < mark and not steps.stopped:
                            with steps.part("step"):
                                descent.step()
                            bar.step()
                    if steps.stopped:
                        break
                    words = Codebook(descent.words * bags.scale, scale=bags.scale)
                    how = (words, plan.coding, plan.sharpness, plan.n_jobs)
                    known, new = (coded(some, *how) for some in (rest, bags[held]))
                    errors.append(held_out_error(known, new, seen, labels[held]))
            if steps.stopped:
                return None
            found.append(errors)
            checkpoint.save({"errors": found})
            if parts.stopped:
                return None
    return Holdout(marks, np.array(found).reshape(len(found), len(marks)))


def held_out_error(
    histograms: NDArray[Any], others: NDArray[Any], labels: Labels, truth: Labels
) -> float:
    """Return the least squared error, mean over other bags, of ridge regression on some."""
    known, new = (np.sqrt(some.astype(np.float64)) for some in (histograms, others))
    n_classes = int(max(labels.max(), truth.max(initial=0))) + 1
    square = float(((known - known.mean(axis=0)) ** 2).sum()) / known.shape[1]
    right, errors = np.eye(n_classes)[truth], []
    with single_threaded_blas():
        for ridge in RIDGES:
            # Where all bags are alike, any ridge serves.
            model = Ridge(alpha=ridge * (square or 1.0)).fit(known, np.eye(n_classes)[labels])
            errors.append(float(((model.predict(new) - right) ** 2).sum(axis=1).mean()))
    return min(errors)


def _parts(labels: Labels, seed: int, groups: Labels | None) -> Labels:
    """Return the part of each bag; -1 for what is never held out."""
    part = assign_folds(labels, N_PARTS, stream(seed, "refinement", "folds"), groups)
    out = part.copy()
    for number, only in classes_in_one_fold(part, labels):
        these = (labels == number) if groups is None else np.isin(groups, groups[labels == number])
        out[these & (part == only)] = -1
    return out
