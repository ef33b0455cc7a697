r"""Refinement: moving the kept words a little, so that their histograms tell the classes better.

**The problem.** A subset of a codebook can do no better than its words allow. Words that k-means
put where descriptors are many are not where classes differ. Once few words are left, letting them
move gains more than any choice among the old ones.

**The step.** With the histograms f of the present words, the gradient G of the leave-one-out error
(:mod:`bowsaw.scores.gradient`) says for each bag which words should be found more often. For a
descriptor x of bag b with soft codes q (softmax of −s‖x − c_k‖²) the chain rule gives

    ∂error/∂c_k = Σ_x 2s (x − c_k) q_k (G_bk − Σ_j q_j G_bj) / n_x.

For *soft* coding f and q are those codes. For *hard* coding f counts the nearest words, as the
result will be used, and only the direction is taken from soft codes (the straight-through
estimator of Bengio, Léonard and Courville, 2013): histograms of hard codes are flat almost
everywhere and have no gradient. Optimising soft histograms and using hard ones instead was worse by
two to three points on real images.

**Length of a step.** As in Adam (Kingma and Ba, 2015), with one second moment a *word* in place of
one a dimension, so that a step turns with the descriptors' space. It starts at ``rate`` times the
root mean squared distance of a descriptor from its nearest word and falls linearly to 0. The
softness of hard coding's gradient is in units of that distance too, so nothing depends on the
descriptors' norm.

**Honesty.** The result is no longer a subset: the ids tell which words it began with, ``moved`` how
far they went, and provenance says so. It is supervised by the labels of ``bags``. It is not in the
paper and off unless asked for.

**Cost.** Of each bag ``per_bag`` descriptors a step, of at most ``max_bags`` bags: 4 · rows ·
n_dims · n_words operations in BLAS, one exponential a row and word, and one gradient of the error.
Memory: 4 bytes a row and word, and the descriptors (at most 2048 of each bag) as they are
stored.

**The same on any number of threads**: blocks of bags have fixed limits and are added up in order.
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
from sklearn.base import clone

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.progress import Progress
from bowsaw.seeds import seed_from
from bowsaw.selection.base import Selector
from bowsaw.selection.baselines import RandomSubset
from bowsaw.selection.checkpoint import SearchCheckpoint
from bowsaw.selection.result import Selection
from bowsaw.selection.slopes import Pool, Slopes

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
    n_steps: int = 200,
    rate: float = 0.15,
    per_bag: int = 256,
    max_bags: int = 1500,
    coding: Literal["hard", "soft"] = "hard",
    sharpness: float = 40.0,
    checkpoint: str | PathLike[str] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = -1,
    verbose: bool = False,
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
    n_steps : int, default=200
        Steps; 0 returns the words as they are.
    rate : float, default=0.15
        The first step's length, as a share of the distance of a descriptor from its nearest word.
    per_bag : int, default=256
        Descriptors of each bag that a step looks at; it goes through all of them in turn.
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

    Returns
    -------
    Refined

    Notes
    -----
    Ctrl-C ends it with the words so far; ``errors`` tells how many steps were done.

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
    for name, value, least in (
        ("n_steps", n_steps, 0),
        ("per_bag", per_bag, 1),
        ("max_bags", max_bags, 2),
    ):
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or value < least:
            raise ParameterError(f"{name} must be a whole number from {least} up; got {value!r}.")
    if not isinstance(rate, numbers.Real) or not 0 < float(rate) < np.inf:
        raise ParameterError(f"rate must be a number above 0; got {rate!r}.")
    if coding not in ("hard", "soft"):
        raise ParameterError(f"coding must be 'hard' or 'soft'; got {coding!r}.")
    start = codebook.words_for(bags) / np.float32(bags.scale)
    classes = np.asarray(labels, dtype=np.int64)
    if classes.shape != (len(bags),):
        raise DataError(f"labels must be one a bag ({len(bags)}); got shape {classes.shape}.")
    if n_steps == 0:
        return Refined(codebook, 0.0, np.empty(0))
    seed = seed_from(random_state)
    slopes = Slopes(
        Pool(bags, classes, per_bag, max_bags, seed), start, coding, float(sharpness), n_jobs
    )
    saved = SearchCheckpoint(
        checkpoint,
        {
            "words": start.tobytes().hex(),
            "bags": "" if checkpoint is None else bags.content_digest(),
            "labels": classes.tolist(),
            "told": [n_steps, float(rate), per_bag, max_bags, coding, float(sharpness), seed],
        },
    )
    walk = _Walk(start.astype(np.float64))
    walk.restore(saved.load())
    written = time.monotonic()
    with Progress("refining", n_steps, show=verbose) as bar, single_threaded_blas():
        bar.step(len(walk.errors))
        try:
            for t in range(len(walk.errors), n_steps):
                error, by_word = slopes.gradient(walk.words.astype(np.float32), t)
                walk.step(error, by_word, rate * slopes.unit * (1 - t / n_steps))
                bar.step(note=f"error {error:.4f}")
                if time.monotonic() - written > saved.seconds:
                    saved.save(walk.record())
                    written = time.monotonic()
        except KeyboardInterrupt:
            if not walk.errors:
                raise
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
        trained_on=_learned_from(codebook, bags),
    )
    return Refined(book, moved, errors)


def _learned_from(codebook: Codebook, bags: Bags) -> NDArray[np.uint64] | None:
    """Return the digests of all images that the words have seen, None where some are unknown."""
    if codebook.trained_on is None or bags.digests is None:
        return None
    return np.union1d(codebook.trained_on, bags.digests)


class _Walk:
    """Words on their way, and the moments that smooth it."""

    def __init__(self, words: NDArray[np.float64]) -> None:
        self.words = words
        self.errors: list[float] = []
        self._first = np.zeros_like(words)
        self._second = np.zeros((len(words), 1))

    def step(self, error: float, slopes: NDArray[np.float64], length: float) -> None:
        """Go ``length`` down the slopes, as far as they agree with those before."""
        self.errors.append(error)
        n_done = len(self.errors)
        self._first += (1 - KEEP_FIRST) * (slopes - self._first)
        squares = (slopes**2).sum(axis=1, keepdims=True)
        self._second += (1 - KEEP_SECOND) * (squares - self._second)
        direction = self._first / (1 - KEEP_FIRST**n_done)
        size = np.sqrt(self._second / (1 - KEEP_SECOND**n_done))
        # A word that no descriptor comes near has next to no slope, and stays.
        size = np.maximum(size, LEAST_SHARE * size.max() or 1.0)
        self.words -= length * direction / size

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


class Refinement(Selector):
    """Choose words and move them so that their histograms tell the classes best.

    The strongest small codebook that we know. Where the words begin hardly matters once they move,
    so they are drawn at random unless a selector chooses them. See the chapter of this module.

    Parameters
    ----------
    codebook : Codebook or array-like of shape (n_words, n_dims)
        The words to choose from.
    n_kept : int, default=50
        How many words to keep.
    start : Selector or None, default=None
        Chooses the words to begin with; it is cloned and told ``codebook`` and ``n_kept``. It must
        code with the pruned words. None draws them at random.
    n_steps : int, default=200
        Steps of the refinement; 0 leaves the words as they were chosen.
    rate, per_bag
        As in :func:`refined`.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    sharpness : float, default=40.0
        For soft coding.
    checkpoint : path-like or None, default=None
        A file to write the state to, every few seconds: a fit that was interrupted goes on from it
        and gives the same words; removed at the end.
    random_state : int, RandomState or None, default=0
        Draws the words and the descriptors that steps look at.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    selection_ : Selection
        The ids that the words began as, the path of scores (minus the error of each step's sample),
        how far the words moved.
    codebook_ : Codebook
        The moved words; the large codebook can be deleted.
    moved_ : float
        The mean distance that words moved, in unit-norm units.
    errors_ : ndarray of float64, shape (n_done,)
        The leave-one-out error of each step's sample.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(20) % 2
    >>> bags = [rng.normal([label, 0.0], 1.0, size=(40, 2)) for label in y]
    >>> book = bs.KMeansCodebook(10, random_state=0).fit(bags).codebook_
    >>> saw = bs.Refinement(codebook=book, n_kept=3, n_steps=50).fit(bags, y)
    >>> saw.codebook_.n_words, saw.transform(bags).shape, saw.moved_ > 0
    (3, (20, 3), True)
    """

    def __init__(
        self,
        codebook: Any,
        n_kept: int = 50,
        *,
        start: Selector | None = None,
        n_steps: int = 200,
        rate: float = 0.15,
        per_bag: int = 256,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.start = start
        self.n_steps = n_steps
        self.rate = rate
        self.per_bag = per_bag
        self.coding = coding
        self.sharpness = sharpness
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        assert labels is not None
        seed = seed_from(self.random_state)
        start = RandomSubset(book, n_kept, random_state=seed) if self.start is None else self.start
        begun = clone(start).set_params(codebook=book, n_kept=n_kept).fit(bags, labels).selection_
        if begun.codes_with != "pruned":
            raise ParameterError(
                f"start must choose words that code alone; {begun.method} codes with the full "
                "codebook. Name another selector, or None."
            )
        found = refined(
            begun.codebook,
            bags,
            labels,
            n_steps=self.n_steps,
            rate=self.rate,
            per_bag=self.per_bag,
            coding=self.coding,
            sharpness=self.sharpness,
            checkpoint=self.checkpoint,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self.moved_, self.errors_ = found.moved, found.errors
        return Selection(
            method="refinement",
            codes_with="pruned",
            codebook=found.codebook,
            kept=found.codebook.ids,
            scores=tuple((-found.errors).tolist()),
            seed=seed,
            parameters={
                "start": begun.method,
                "n_steps": len(found.errors),
                "rate": self.rate,
                "per_bag": self.per_bag,
                "moved": found.moved,
                "coding": self.coding,
                "sharpness": self.sharpness if self.coding == "soft" else None,
            },
        )
