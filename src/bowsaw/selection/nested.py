"""How far words may move, decided by bags that had no part in moving them.

With thousands of descriptors and few images, words can be moved until they tell the images that
moved them from all others, and no others: the leave-one-out error guards the classifier, not the
words. So some bags of each class are held out, the words are moved by the rest, and at some marks
on the way the error on those held out is measured: ridge regression on the square-rooted histograms
of the rest, mean squared error over classes, at the ridge of a grid where it is least (a classifier
is told how far to trust its histograms by other images, too; by those that moved the words it would
trust them too far). The mark
where the error is least is as far as all bags then move the words; that may be not at all. The
words to begin with are chosen anew in each fold, by the rest alone: had the bags held out helped to
choose them, not to move them would look better than it is.

Bags of one group are held out together (:mod:`bowsaw.selection.folds`). What would leave a class
without bags, such as its only one, is never held out. The fewer bags, the more folds: 5 of 5 with
100 bags, 2 with 250, 1 from 334 up. **Cost**: for each fold four fifths of the choice and of the
walk, and coding the bags at each mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded
from bowsaw.parallel import single_threaded_blas
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import stream
from bowsaw.scores.leave_one_out import RIDGES
from bowsaw.selection.checkpoint import SearchCheckpoint
from bowsaw.selection.descent import Walk
from bowsaw.selection.folds import deal, only_there
from bowsaw.selection.slopes import Pool, Slopes

N_PARTS = 5
MARKS = (0.0, 0.125, 0.25, 0.5, 1.0)
"""Shares of the walk at which it is looked at."""
ENOUGH = 500
"""Bags, over all folds together, that a fifth of is enough to decide by."""


@dataclass(frozen=True)
class Check:
    """What moving words does to bags that did not move them.

    Attributes
    ----------
    marks : ndarray of int64, shape (n_marks,)
        Steps after which it was measured, the first 0.
    errors : ndarray of float64, shape (n_folds, n_marks)
        Mean squared error on the bags held out.
    """

    marks: NDArray[np.int64]
    errors: NDArray[np.float64]

    @property
    def n_steps(self) -> int:
        """The mark of the least error, the first of equal ones; 0 where nothing was held out."""
        if not len(self.errors):
            return 0
        return int(self.marks[self.errors.mean(axis=0).argmin()])


def usual_folds(n_bags: int) -> int:
    """Return how many folds so many bags need.

    Examples
    --------
    >>> [usual_folds(n) for n in (30, 100, 250, 750)]
    [5, 5, 2, 1]
    """
    return int(np.clip(round(ENOUGH / max(n_bags, 1)), 1, N_PARTS))


def check_steps(
    begin: Callable[[NDArray[np.int64], Task], Codebook],
    bags: Bags,
    labels: NDArray[np.int64],
    *,
    fingerprint: Mapping[str, Any],
    n_steps: int,
    n_folds: int,
    rate: float,
    per_bag: int,
    max_bags: int,
    coding: Literal["hard", "soft"],
    sharpness: float,
    checkpoint: str | PathLike[str] | None,
    seed: int,
    n_jobs: int | None,
    verbose: bool,
    groups: NDArray[np.int64] | None = None,
    task: Task | None = None,
) -> Check | None:
    """Measure at some marks of the walk how it does on bags held out.

    Parameters
    ----------
    begin : callable
        Chooses the words to begin with by some of the bags, given as their places; is told the
        task that it is a part of.
    bags, labels, n_steps, rate, per_bag, max_bags, coding, sharpness, n_jobs, verbose
        As in :func:`bowsaw.selection.descent.refined`.
    fingerprint : mapping
        What ``begin`` depends on, as JSON holds it.
    n_folds : int
        Times that a fifth is held out.
    checkpoint : path-like or None
        Where finished folds are kept.
    seed : int
        Deals bags to folds, and all that the walk draws.
    groups : ndarray of int64, shape (n_bags,), optional
        Bags of one group are held out together.
    task : Task, optional
        The fit that this is a part of, for callbacks.

    Returns
    -------
    Check or None
        None where a callback has asked to stop.
    """
    marks = np.unique(np.round(np.array(MARKS) * n_steps).astype(np.int64))
    saved = SearchCheckpoint(
        checkpoint,
        {
            **fingerprint,
            "bags": "" if checkpoint is None else bags.digest(),
            "labels": labels.tolist(),
            "groups": None if groups is None else groups.tolist(),
            "told": [n_steps, n_folds, rate, per_bag, max_bags, coding, float(sharpness), seed],
        },
    )
    found: list[list[float]] = (saved.load() or {}).get("errors", [])
    part = _deal(labels, seed, groups)
    folds = [fold for fold in range(N_PARTS) if (part == fold).any()][:n_folds]
    with (
        (task or Task()).part("checking how far", len(folds)) as told,
        Progress("checking how far", len(folds) * n_steps, show=verbose) as bar,
    ):
        bar.step(len(found) * n_steps)
        for fold in folds[len(found) :]:
            held = part == fold
            rows = np.flatnonzero(~held)
            rest, seen = bags[rows], labels[rows]
            with told.part("fold", 1 + n_steps) as steps:
                start = begin(rows, steps).words_for(rest) / np.float32(rest.scale)
                pool = Pool(rest, seen, per_bag, max_bags, seed)
                with single_threaded_blas():
                    slopes = Slopes(pool, start, coding, sharpness, n_jobs)
                walk = Walk(start, slopes, n_steps, rate)
                errors = []
                for mark in marks:
                    with single_threaded_blas():
                        while len(walk.errors) < mark and not steps.stopped:
                            with steps.part("step"):
                                walk.step()
                            bar.step()
                    if steps.stopped:
                        break
                    words = Codebook(walk.words * bags.scale, scale=bags.scale)
                    known, new = (
                        coded(some, words, coding, sharpness, n_jobs) for some in (rest, bags[held])
                    )
                    errors.append(held_out_error(known, new, seen, labels[held]))
            if steps.stopped:
                return None
            found.append(errors)
            saved.save({"errors": found})
            if told.stopped:
                return None
    return Check(marks, np.array(found).reshape(len(found), len(marks)))


def held_out_error(
    histograms: NDArray[Any],
    others: NDArray[Any],
    labels: NDArray[np.int64],
    truth: NDArray[np.int64],
    ridges: Sequence[float] = RIDGES,
) -> float:
    """Return the least squared error, mean over other bags, of ridge regression on some.

    Examples
    --------
    >>> import numpy as np
    >>> some, others = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]]), np.eye(2)
    >>> labels = np.array([0, 0, 1, 1])
    >>> held_out_error(some, others, labels, np.array([0, 1])) < 0.3
    True
    """
    known, new = (np.sqrt(some.astype(np.float64)) for some in (histograms, others))
    n_classes = int(max(labels.max(), truth.max(initial=0))) + 1
    square = float(((known - known.mean(axis=0)) ** 2).sum()) / known.shape[1]
    right, errors = np.eye(n_classes)[truth], []
    with single_threaded_blas():
        for ridge in ridges:
            # Where all bags are alike, any ridge will do.
            model = Ridge(alpha=ridge * (square or 1.0)).fit(known, np.eye(n_classes)[labels])
            errors.append(float(((model.predict(new) - right) ** 2).sum(axis=1).mean()))
    return min(errors)


def _deal(
    labels: NDArray[np.int64], seed: int, groups: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Return the part of each bag, each class spread evenly; −1 for what is never held out."""
    part = deal(labels, N_PARTS, stream(seed, "refinement", "folds"), groups)
    everywhere = part.copy()
    for number, only in only_there(part, labels):
        # With its whole group, and no other bag of the part.
        these = (labels == number) if groups is None else np.isin(groups, groups[labels == number])
        everywhere[these & (part == only)] = -1
    return everywhere
