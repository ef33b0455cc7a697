"""How far words may move, decided by bags that had no part in moving them; and folds.

**The problem.** With few images, words can be moved until they separate the images that moved them,
and no others. So some bags of each class are held out, the words are chosen and moved by the rest,
and at some marks on the way the squared errors on those held out are measured, of ridge regression
on the square-rooted histograms of the rest.

**The ridge** is 1, relative to the mean eigenvalue, at every mark. A classifier that is fitted to
the words later chooses its own C, but a choice here adds more noise than the gain of the words.
Measured on 7 refinements of the benchmark images (250 and 750 images, 20 and 50 words), the gain at
ridge 1 is 3.0 to 6.3 standard errors. With a ridge that the leave-one-out error of the rest chooses
(the bags that moved the words choose too small a one) it is 0.7 to 2.0, with one that other bags
held out choose 1.2 to 4.0, and in wrong labels of a support vector machine, its C chosen by
cross-validation, 1.5.

**The decision.** Words move only where that helps reliably: where the mean over bags of (loss at 0
steps − loss at a mark) exceeds its standard error t times, t the quantile of Student's distribution
at 1 − ``LEVEL`` / (n_marks − 1), by Bonferroni, since there are several marks. If there is such a
mark, all bags then move the words as far as the last mark that is better than 0 steps and, by the
same limit, not reliably worse than the best: stopping at the least error of so few bags cost 1 to 3
points of accuracy on the benchmark images, and with labels without meaning it moved words in half
of all fits. Losses are paired. Bags of one *group* are not independent, and count as one. Folds
share the bags that move the words, so with k folds the squared standard error is multiplied by
1 + (k − 1) n_held / n_rest, after Nadeau and Bengio (2003).

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
from scipy import special
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
from bowsaw.selection.descent import Descent, DescentPlan
from bowsaw.validation import ComparedByValue

N_PARTS, ENOUGH = 5, 500
"""A fifth of this many bags, over all folds together, is enough to decide by."""
MARKS = (0.0, 0.125, 0.25, 0.5, 1.0)
RIDGE = 1.0
"""Relative to the mean eigenvalue of the histograms' X'X."""
LEVEL = 0.05
"""The probability of moving words where that does not help, at most."""

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

    ``marks`` are the steps after which it was measured, the first 0, ``(n_marks,)``; ``losses`` the
    squared errors of the bags held out (of groups their means), ``(n_held, n_marks)``; ``folds``
    the fold of each, ``(n_held,)``.
    """

    marks: NDArray[np.int64]
    losses: NDArray[np.float64]
    folds: NDArray[np.int64]

    @property
    def errors(self) -> NDArray[np.float64]:
        """The mean squared error of each fold, ``(n_folds, n_marks)``."""
        means = [self.losses[self.folds == fold].mean(axis=0) for fold in np.unique(self.folds)]
        return np.array(means).reshape(-1, len(self.marks))

    @property
    def n_steps(self) -> int:
        """The last mark that is not reliably worse than the best, if one is better than 0 steps."""
        n_held, n_marks = self.losses.shape
        if n_held < 2 or n_marks < 2:
            return 0
        limit = special.stdtrit(n_held - 1, 1 - LEVEL / (n_marks - 1))
        gain, error = self._gains_over(0)
        if not (gain > limit * error).any():
            return 0
        behind, spread = self._gains_over(int(gain.argmax()))
        return int(self.marks[(gain > 0) & (behind >= -limit * spread)].max())

    def _gains_over(self, mark: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how much less the error is than at a mark, and the standard errors of that."""
        gains = self.losses[:, [mark]] - self.losses
        shared = 1 + self.folds.max(initial=0) / (N_PARTS - 1)
        return gains.mean(axis=0), gains.std(axis=0, ddof=1) * np.sqrt(shared / len(gains))


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

    ``begin`` chooses the words to begin with by the bags at some positions, as a part of a task.
    ``checkpoint`` is written after every fold.
    """
    marks = np.unique(np.round(np.array(MARKS) * plan.n_steps).astype(np.int64))
    record = checkpoint.load()
    found = [] if record is None else [record[1][str(n)] for n in range(record[0]["n_folds"])]
    part = _parts(labels, seed, groups)
    folds = [fold for fold in range(N_PARTS) if (part == fold).any()][:n_folds]
    with (
        (task or Task()).part("checking how far", len(folds)) as parts,
        Progress("checking how far", len(folds), show=show) as bar,
    ):
        bar.begin_at(len(found))
        for fold in folds[len(found) :]:
            held = part == fold
            rows = np.flatnonzero(~held)
            rest, seen = bags[rows], labels[rows]
            with parts.part("fold", 1 + plan.n_steps) as steps:
                start = begin(rows, steps)
                if start is None:
                    return None
                descent = Descent(start, rest, seen, plan, seed)
                losses = []
                with Progress("refining", plan.n_steps, show=show) as moves:
                    for mark in marks:
                        with single_threaded_blas():
                            while len(descent.errors) < mark and not steps.stopped:
                                with steps.part("step"):
                                    descent.step()
                                moves.step()
                        if steps.stopped:
                            break
                        words = Codebook(descent.words * bags.scale, scale=bags.scale)
                        how = (words, plan.coding, plan.sharpness, plan.n_jobs)
                        known, new = (coded(some, *how) for some in (rest, bags[held]))
                        losses.append(held_out_losses(known, new, seen, labels[held]))
            if steps.stopped:
                return None
            of_groups = None if groups is None else groups[held]
            found.append(_by_group(np.stack(losses, axis=1), of_groups))
            arrays = {str(number): fold_losses for number, fold_losses in enumerate(found)}
            checkpoint.save({"n_folds": len(found)}, arrays)
            bar.step()
            if parts.stopped:
                return None
    folds_of = np.repeat(np.arange(len(found)), [len(fold_losses) for fold_losses in found])
    return Holdout(marks, np.concatenate([np.empty((0, len(marks))), *found]), folds_of)


def held_out_losses(
    histograms: NDArray[Any], others: NDArray[Any], labels: Labels, truth: Labels
) -> NDArray[np.float64]:
    """Return the squared errors on other bags of a ridge regression on some, ``(n_others,)``."""
    known, new = (np.sqrt(some.astype(np.float64)) for some in (histograms, others))
    n_classes = int(max(labels.max(), truth.max(initial=0))) + 1
    square = float(((known - known.mean(axis=0)) ** 2).sum()) / known.shape[1]
    with single_threaded_blas():
        # Where all bags are alike, any ridge serves.
        model = Ridge(alpha=RIDGE * (square or 1.0)).fit(known, np.eye(n_classes)[labels])
        wrong = model.predict(new) - np.eye(n_classes)[truth]
    return np.asarray((wrong**2).sum(axis=1))


def _by_group(losses: NDArray[np.float64], groups: Labels | None) -> NDArray[np.float64]:
    """Return the mean losses of each group, since bags of one group vary together."""
    if groups is None:
        return losses
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    total = np.zeros((len(sizes), losses.shape[1]))
    np.add.at(total, group, losses)
    return np.asarray(total / sizes[:, None])


def _parts(labels: Labels, seed: int, groups: Labels | None) -> Labels:
    """Return the part of each bag; -1 for what is never held out."""
    part = assign_folds(labels, N_PARTS, stream(seed, "refinement", "folds"), groups)
    out = part.copy()
    for number, only in classes_in_one_fold(part, labels):
        these = (labels == number) if groups is None else np.isin(groups, groups[labels == number])
        out[these & (part == only)] = -1
    return out
