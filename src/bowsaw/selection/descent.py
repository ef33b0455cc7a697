"""Walking down the slope of the leave-one-out error, step by step.

The chapter is that of :mod:`bowsaw.selection.refinement`, which also decides how far to go.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import seed_from
from bowsaw.selection.checkpoint import SearchCheckpoint
from bowsaw.selection.slopes import Pool, Slopes, usual_per_bag
from bowsaw.validation import check_int

KEEP_FIRST, KEEP_SECOND = 0.9, 0.99
LEAST_SHARE = 1e-6
"""Slopes below this share of the largest word's are rounding, not to be followed."""


@dataclass(frozen=True)
class Refined:
    """Words that were moved.

    Attributes
    ----------
    codebook : Codebook
        The moved words, with the ids of those that they began as.
    moved : float
        The mean distance that they moved, in unit-norm units.
    errors : ndarray of float64, shape (n_steps,)
        The leave-one-out error of each step's sample, before the step.
    """

    codebook: Codebook
    moved: float
    errors: NDArray[np.float64]


def refined(
    codebook: Codebook,
    bags: Bags,
    labels: ArrayLike,
    *,
    n_steps: int = 300,
    stop: int | None = None,
    rate: float = 0.15,
    per_bag: int | None = None,
    max_bags: int = 1500,
    coding: Literal["hard", "soft"] = "hard",
    sharpness: float = 40.0,
    checkpoint: str | PathLike[str] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = -1,
    verbose: bool = False,
    task: Task | None = None,
) -> Refined:
    """Move words so that the leave-one-out error of their histograms falls.

    Parameters
    ----------
    codebook : Codebook
        The words to begin with: few, for each step compares every sampled descriptor with all.
    bags : Bags
        The bags to learn from.
    labels : array-like of int, shape (n_bags,)
        Their classes, whole numbers from 0.
    n_steps : int, default=300
        Steps, over which their length falls to 0; 0 returns the words as they are.
    stop : int or None, default=None
        Stop after so many of them; None does all.
    rate : float, default=0.15
        The first step's length, as a share of the distance of a descriptor from its nearest word.
    per_bag : int or None, default=None
        Descriptors of each bag that a step looks at; it goes through all of them in turn. None for
        256 with few words and 128 from 33 words up, see ``usual_per_bag``.
    max_bags : int, default=1500
        Bags that a step looks at, drawn anew for each when there are more.
    coding : {"hard", "soft"}, default="hard"
        How the words will be used.
    sharpness : float, default=40.0
        Of soft coding.
    checkpoint : path-like or None, default=None
        A file to write the state to, every few seconds: a call that was interrupted goes on from it
        and gives the same words; removed at the end.
    random_state : int, RandomState or None, default=0
        Shuffles descriptors and draws bags.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.
    task : Task, optional
        The fit that this is a part of, for callbacks.

    Returns
    -------
    Refined

    Notes
    -----
    Ctrl-C, or a callback, ends it with the words so far; ``errors`` tells how many steps were done.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> bags = bs.Bags.from_list([rng.normal([label, 0.0], 1.0, size=(40, 2)) for label in y])
    >>> better = refined(bs.Codebook([[0.0, 1.0], [0.0, -1.0]]), bags, y, n_steps=60, rate=0.2)
    >>> bool(better.errors[-10:].mean() < better.errors[:10].mean())
    True
    """
    per_bag = usual_per_bag(codebook.n_words) if per_bag is None else per_bag
    check_walk(n_steps, rate, per_bag, max_bags, coding)
    n_steps, rate, per_bag, max_bags = int(n_steps), float(rate), int(per_bag), int(max_bags)
    start = codebook.words_for(bags) / np.float32(bags.scale)
    classes = np.asarray(labels, dtype=np.int64)
    if classes.shape != (len(bags),):
        raise DataError(f"labels must be one a bag ({len(bags)}); got shape {classes.shape}.")
    n_done = n_steps if stop is None else min(stop, n_steps)
    if n_done == 0:
        return Refined(codebook.learned_from(bags), 0.0, np.empty(0))
    seed = seed_from(random_state)
    saved = SearchCheckpoint(
        checkpoint,
        {
            "words": start.tobytes().hex(),
            "version": __version__,
            "bags": "" if checkpoint is None else bags.digest(),
            "labels": classes.tolist(),
            "told": [
                n_steps,
                n_done,
                float(rate),
                per_bag,
                max_bags,
                coding,
                float(sharpness),
                seed,
            ],
        },
    )
    with single_threaded_blas():
        slopes = Slopes(
            Pool(bags, classes, per_bag, max_bags, seed), start, coding, float(sharpness), n_jobs
        )
    walk = Walk(start, slopes, n_steps, rate)
    walk.restore(saved.load())
    written = time.monotonic()
    with (
        (task or Task()).part("refining", n_done) as steps,
        Progress("refining", n_done, show=verbose) as bar,
        single_threaded_blas(),
    ):
        bar.step(len(walk.errors))
        try:
            while len(walk.errors) < n_done and not steps.stopped:
                with steps.part("step"):
                    error = walk.step()
                bar.step(note=f"error {error:.4f}")
                if time.monotonic() - written > saved.seconds:
                    saved.save(walk.record())
                    written = time.monotonic()
        except KeyboardInterrupt:
            if not walk.errors:
                raise
        if len(walk.errors) < n_done:
            # The words so far are words; the same call goes on from the file.
            saved.save(walk.record())
        else:
            saved.remove()
    words, errors = walk.words, np.array(walk.errors)
    moved = float(np.linalg.norm(words - start, axis=1).mean())
    book = Codebook(
        words * codebook.scale,
        codebook.ids,
        scale=codebook.scale,
        metric=codebook.metric,
        description=codebook.description,
        provenance={
            **codebook.provenance,
            "refined": {"n_steps": len(errors), "rate": float(rate), "moved": moved, "seed": seed},
        },
        trained_on=codebook.learned_from(bags).trained_on,
    )
    return Refined(book, moved, errors)


def check_walk(
    n_steps: object, rate: object, per_bag: object, max_bags: object, coding: object
) -> None:
    """Refuse what no walk can be."""
    for name, value, least in (
        ("n_steps", n_steps, 0),
        ("per_bag", per_bag, 1),
        ("max_bags", max_bags, 2),
    ):
        check_int(value, name, least)
    if not isinstance(rate, numbers.Real) or not 0 < float(rate) < np.inf:
        raise ParameterError(f"rate must be a number above 0; got {rate!r}.")
    if coding not in ("hard", "soft"):
        raise ParameterError(f"coding must be 'hard' or 'soft'; got {coding!r}.")


class Walk:
    """Words on their way, and the moments that smooth it.

    Parameters
    ----------
    start : ndarray of float32, shape (n_words, n_dims)
        Where the words begin, in unit-norm units.
    slopes : Slopes
        Which way is down.
    n_steps : int
        Steps over which their length falls to 0.
    rate : float
        The first step's length in ``slopes.unit``.
    """

    def __init__(
        self, start: NDArray[np.float32], slopes: Slopes, n_steps: int, rate: float
    ) -> None:
        self.words = start.astype(np.float64)
        self.errors: list[float] = []
        self._slopes, self._n_steps, self._rate = slopes, n_steps, rate
        self._first = np.zeros_like(self.words)
        self._second = np.zeros((len(start), 1))

    def step(self) -> float:
        """Go down as far as the slope agrees with those before; return the error before it."""
        t = len(self.errors)
        error, slopes = self._slopes.gradient(self.words.astype(np.float32), t)
        squares = (slopes**2).sum(axis=1, keepdims=True)
        first = self._first + (1 - KEEP_FIRST) * (slopes - self._first)
        second = self._second + (1 - KEEP_SECOND) * (squares - self._second)
        direction = first / (1 - KEEP_FIRST ** (t + 1))
        size = np.sqrt(second / (1 - KEEP_SECOND ** (t + 1)))
        # A word that no descriptor comes near has next to no slope, and stays.
        size = np.maximum(size, LEAST_SHARE * size.max() or 1.0)
        length = self._rate * self._slopes.unit * (1 - t / self._n_steps)
        # All at once, so that Ctrl-C finds a whole step or none.
        self.words, self._first, self._second, self.errors = (
            self.words - length * direction / size,
            first,
            second,
            [*self.errors, error],
        )
        return error

    def record(self) -> dict[str, Any]:
        """Return the state as JSON holds it, to the last bit."""
        return {
            "errors": self.errors,
            "words": self.words.tolist(),
            "first": self._first.tolist(),
            "second": self._second.tolist(),
        }

    def restore(self, record: Mapping[str, Any] | None) -> None:
        """Go on from a record, if there is one."""
        if record is not None:
            self.errors = list(record["errors"])
            self.words = np.array(record["words"])
            self._first, self._second = np.array(record["first"]), np.array(record["second"])
