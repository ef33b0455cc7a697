r"""What a size costs, estimated honestly, and the size that follows from a limit.

**The trap.** Words that were chosen with the labels of some images look better on those images than
on any others, also under cross-validation of the classifier alone. So the *whole* choice is made
again in every fold, on the fold's training images; the classifier is trained on their histograms,
and both are tested on images that neither has seen.

**The error bar.** With accuracies a_j of the J folds, the variance over the folds is too small a
guess, as their training images overlap. Nadeau and Bengio (2003) correct it:

.. math:: \mathrm{se}^2 = \Bigl(\frac1J + \frac{n_\mathrm{test}}{n_\mathrm{train}}\Bigr)
          \frac{1}{J - 1} \sum_j (d_j - \bar d)^2 .

A size's loss is taken within each fold, against the same fold's full codebook, so what makes a fold
hard for both does not count.

A limit on the loss is met by the *estimate*, and the smallest of many sizes that meet it was partly
lucky. The recommendation carries the standard error of its loss, so that this can be weighed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.parallel import ordered_map
from bowsaw.random_streams import stream
from bowsaw.selection.holdout import assign_folds, check_all_are_seen, n_groups_of

BYTES_OF_A_NUMBER = 4
"""Words are held in float32."""
DEFAULT_C = 4.0
"""Of the default classifier: on the benchmark images the middle of what validation chose. A search
for it in every fold and at every size would take some fifty times as long."""
TIMED_BAGS, TIMED_ROUNDS = 20, 3


class SizeEstimate(NamedTuple):
    """What a size gives on images that had no part in choosing the words."""

    n_words: int
    accuracy: float
    """Mean per-class accuracy, from 0 to 1, over the folds."""
    accuracy_se: float
    loss: float
    """Accuracy of the full codebook minus that of this size, over the same folds."""
    loss_se: float
    n_bytes: int
    """Of the words, as float32."""


@dataclass(frozen=True)
class Recommendation:
    """A size, what it costs, and its words.

    Attributes
    ----------
    n_words : int
        The size.
    accuracy, accuracy_se : float
        Cross-validated mean per-class accuracy and its standard error.
    loss, loss_se : float
        What is lost against the full codebook, and the standard error of that.
    n_bytes : int
        Size of the words as float32.
    ms_per_image : float
        Measured time to code an image with one thread, in milliseconds.
    codebook : Codebook
        The words.
    """

    n_words: int
    accuracy: float
    accuracy_se: float
    loss: float
    loss_se: float
    n_bytes: int
    ms_per_image: float
    codebook: Codebook

    def __str__(self) -> str:
        side = "below" if self.loss >= 0 else "above"
        return (
            f"{self.n_words} words ({self.n_bytes} bytes, {self.ms_per_image:.3g} ms an image): "
            f"accuracy {self.accuracy:.3f} ± {self.accuracy_se:.3f} by cross-validation, "
            f"{abs(self.loss):.3f} ± {self.loss_se:.3f} {side} the full codebook "
            "(± one standard error)."
        )


def deal(
    labels: NDArray[np.int64],
    n_folds: int,
    seed: int,
    groups: NDArray[np.int64] | None = None,
    classes: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each bag, the bags of each class spread evenly.

    There are no more folds than the smallest class has bags, so that each class is tested in each
    fold; two bags of each class at least are needed. With ``groups``, which are dealt as a whole
    (:mod:`bowsaw.selection.holdout`): no more than it has groups, and two groups. Groups of
    one class are spread likewise. Groups of several classes may leave a fold without bags of some
    class, and then its accuracy is that of the others; folds whose *training* bags would lack a
    class are refused, in the words of ``classes``, the classes' names.

    Examples
    --------
    >>> import numpy as np
    >>> folds = deal(np.array([0, 0, 0, 0, 1, 1]), 5, seed=0)
    >>> sorted(folds[:4].tolist()), sorted(folds[4:].tolist())
    ([0, 0, 1, 1], [0, 1])
    """
    sizes = n_groups_of(labels, groups)
    names = np.arange(len(sizes)) if classes is None else classes
    if sizes.min() < 2:
        what = "bags" if groups is None else "groups"
        raise DataError(
            f"an estimate needs at least 2 {what} of each class; class {names[sizes.argmin()]!s} "
            f"has {int(sizes.min())}. Add {what}, or leave the class out."
        )
    rng = stream(seed, "path", "folds")
    folds = assign_folds(labels, min(n_folds, int(sizes.min())), rng, groups)
    check_all_are_seen(folds, labels, names)
    return folds


def accuracies(
    histograms: Iterable[tuple[NDArray[Any], NDArray[Any]]],
    seen: NDArray[np.int64],
    unseen: NDArray[np.int64],
    n_classes: int,
    classifier: Any = None,
    n_jobs: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[float]:
    """Train a classifier on each pair's first histograms and test it on the second.

    Parameters
    ----------
    histograms : iterable of pairs of ndarray
        Of bags to learn from and bags to be tested on; read in the calling thread.
    seen, unseen : ndarray of int64
        Their classes.
    n_classes : int
        How many classes there are.
    classifier : estimator or None, default=None
        Cloned for every pair; None for ``HistogramClassifier(C=4.0)``.
    n_jobs : int or None, default=None
        Threads that share the pairs.
    metadata : mapping, optional
        What else the classifier's ``fit`` is told of the bags to learn from.

    Yields
    ------
    float
        The mean per-class accuracy.
    """

    def one(pair: tuple[NDArray[Any], NDArray[Any]]) -> float:
        model = HistogramClassifier(C=DEFAULT_C) if classifier is None else clone(classifier)
        guess = model.fit(pair[0], seen, **(metadata or {})).predict(pair[1])
        return mean_class_accuracy(unseen, guess, n_classes)

    yield from ordered_map(one, histograms, n_jobs)


def summarise(
    sizes: Sequence[int],
    found: NDArray[np.float64],
    test_share: float,
    n_dims: int,
) -> tuple[SizeEstimate, ...]:
    """Turn accuracies into estimates.

    Parameters
    ----------
    sizes : sequence of int
        The full codebook's first.
    found : ndarray of shape (n_folds, n_sizes), float64
        The accuracies of each fold.
    test_share : float
        Test bags over training bags.
    n_dims : int
        Of the words.

    Examples
    --------
    >>> import numpy as np
    >>> row = summarise([9, 3], np.array([[0.8, 0.7], [0.6, 0.5]]), 0.5, 128)[1]
    >>> round(row.accuracy, 6), round(row.loss, 6), round(row.loss_se, 6), row.n_bytes
    (0.6, 0.1, 0.0, 1536)
    """
    losses = found[:, :1] - found
    factor = np.sqrt(1 / len(found) + test_share)
    errors = factor * found.std(axis=0, ddof=1), factor * losses.std(axis=0, ddof=1)
    means = found.mean(axis=0), losses.mean(axis=0)
    return tuple(
        SizeEstimate(
            int(size),
            float(means[0][column]),
            float(errors[0][column]),
            float(means[1][column]),
            float(errors[1][column]),
            int(size) * n_dims * BYTES_OF_A_NUMBER,
        )
        for column, size in enumerate(sizes)
    )


def within_loss(table: Sequence[SizeEstimate], max_loss: float) -> SizeEstimate:
    """Return the smallest size whose estimated loss is at most ``max_loss``."""
    limit = _limit("max_loss", max_loss, least=-1.0)
    fitting = [row for row in table if row.loss <= limit]
    if not fitting:
        best = min(table, key=lambda row: row.loss)
        raise ParameterError(
            f"max_loss={max_loss!r} is met by no size; the best, {best.n_words} words, loses "
            f"{best.loss:.4f} ± {best.loss_se:.4f}. Allow at least that."
        )
    return min(fitting, key=lambda row: row.n_words)


def within_bytes(table: Sequence[SizeEstimate], max_bytes: float) -> SizeEstimate:
    """Return the largest size whose words take at most ``max_bytes``."""
    limit = _limit("max_bytes", max_bytes)
    fitting = [row for row in table if row.n_bytes <= limit]
    if not fitting:
        least = min(table, key=lambda row: row.n_bytes)
        raise ParameterError(
            f"max_bytes={max_bytes!r} is less than the smallest size needs ({least.n_words} words, "
            f"{least.n_bytes} bytes). Allow that, or name smaller sizes to fit."
        )
    return max(fitting, key=lambda row: row.n_words)


def within_ms(
    table: Sequence[SizeEstimate], times: Sequence[float], max_ms: float
) -> tuple[SizeEstimate, float]:
    """Return the largest size that codes an image in at most ``max_ms``, and its time."""
    limit = _limit("max_ms", max_ms)
    fitting = [pair for pair in zip(table, times, strict=True) if pair[1] <= limit]
    if not fitting:
        row, best = min(zip(table, times, strict=True), key=lambda pair: pair[1])
        raise ParameterError(
            f"max_ms={max_ms!r} is met by no size; the fastest, {row.n_words} words, takes "
            f"{best:.3g} ms an image here. Allow that, or name smaller sizes to fit."
        )
    return max(fitting, key=lambda pair: pair[0].n_words)


def milliseconds_per_image(
    codebook: Codebook, bags: Bags, coding: Any = "hard", sharpness: float = 40.0
) -> float:
    """Measure how long coding an image takes with one thread, in the best of three rounds.

    A coder prepares its words once, however many images follow: that is told by a single image and
    taken off. Where noise is larger than the work, one image seems to take as long as all; then
    each has its share of the whole, which is never too little.
    """
    some = bags[np.linspace(0, len(bags) - 1, min(len(bags), TIMED_BAGS)).astype(int)]
    coder = BagOfWords(codebook, coding=coding, sharpness=sharpness, n_jobs=1)
    coder.transform(some[:1])
    one, all_of_them = (
        min(_seconds(coder, group) for _ in range(TIMED_ROUNDS)) for group in (some[:1], some)
    )
    if len(some) == 1 or all_of_them <= one:
        return 1000 * all_of_them / len(some)
    return 1000 * (all_of_them - one) / (len(some) - 1)


def _seconds(coder: BagOfWords, bags: Bags) -> float:
    begin = time.perf_counter()
    coder.transform(bags)
    return time.perf_counter() - begin


def _limit(name: str, value: object, least: float = 0.0) -> float:
    """Return a limit as a float, or say what it must be."""
    number = float(value) if isinstance(value, int | float | np.number) else np.nan
    if isinstance(value, bool) or not least <= number < np.inf:
        raise ParameterError(f"{name} must be a number from {least:g} up; got {value!r}.")
    return number
