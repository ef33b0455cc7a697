"""Presence of a word in a bag: document frequency, χ², mutual and pointwise information.

**The problem.** Yang et al. (2007) bring text's feature selection to visual words: forget how often
a word is in an image, keep whether it is. For word k and class c, with n bags, of which A have the
word and the class, B the word and another class, C the class alone, D neither:

- ``"df"``: (A + B) / n, the share of bags that have the word. No labels.
- ``"chi2"``: n (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)), combined over the classes.
- ``"mi"``: I(presence; class), in nats, of the whole 2 × n_classes table.
- ``"pmi"``: log(A n / ((A + B)(A + C))), combined over the classes.

χ² and pointwise information are for one class. As we read it the source leaves open how classes are
combined; here by ``combine``: the mean with the classes' shares as weights, or the largest. Left
open, it is the mean for χ² and the largest for pointwise information, whose mean is at most 0 by
Jensen's inequality and largest for words that tell nothing. A word
that a class never has would have a pointwise information of −∞: half a bag stands for none (A = ½).
Words in all bags or in none score 0 except for ``"df"``. χ² for a single class is 0.

**Cost.** A changed column costs its n_bags entries and n_classes numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError, ParameterError
from bowsaw.scores.base import WordwiseScore, is_number

MEASURES = ("df", "chi2", "mi", "pmi")
"""What presence can be judged by."""


def word_scores(
    presence: ArrayLike,
    labels: ArrayLike,
    measure: str = "mi",
    *,
    combine: str | None = None,
    n_classes: int | None = None,
) -> NDArray[np.float64]:
    """Return one number a word, for a ranking; larger is better.

    Parameters
    ----------
    presence : array-like of shape (n_bags, n_words)
        Whether the bag has the word; numbers count as present when above 0.
    labels : array-like of shape (n_bags,)
        Each bag's class, a whole number from 0.
    measure : {"df", "chi2", "mi", "pmi"}, default="mi"
        See the module's chapter.
    combine : {"mean", "max"} or None, default=None
        How classes are combined in χ² and pointwise information; None for the mean in χ² and the
        largest in pointwise information.
    n_classes : int, optional
        How many classes there are; one more than the largest label when not given.

    Returns
    -------
    ndarray of shape (n_words,), float64

    Examples
    --------
    >>> word_scores([[1, 0], [1, 1], [0, 1], [0, 0]], [0, 0, 1, 1], "mi").round(3).tolist()
    [0.693, 0.0]
    """
    check_measure(measure, combine)
    has = np.asarray(presence) > 0
    given = np.asarray(labels)
    if has.ndim != 2 or given.shape != has.shape[:1] or not len(given):
        raise DataError(
            f"presence must be (n_bags, n_words) with one label a bag; got shapes {has.shape} and "
            f"{given.shape}."
        )
    size = int(given.max()) + 1 if n_classes is None else n_classes
    sizes = np.bincount(given, minlength=size)
    return _judge(_by_class(has.T, given, size), sizes, measure, combine)


def check_measure(measure: str, combine: str | None) -> None:
    """Refuse a measure or a combination that is not known."""
    if measure not in MEASURES:
        raise ParameterError(f"measure must be one of {', '.join(MEASURES)}; got {measure!r}.")
    if combine not in ("mean", "max", None):
        raise ParameterError(f"combine must be 'mean', 'max' or None; got {combine!r}.")


class Presence(WordwiseScore):
    """The mean over the kept words of a measure of their presence.

    Parameters
    ----------
    measure : {"df", "chi2", "mi", "pmi"}, default="mi"
        See the module's chapter.
    combine : {"mean", "max"} or None, default=None
        How classes are combined in χ² and pointwise information; None for the mean in χ² and the
        largest in pointwise information.
    threshold : float, default=0.0
        A word is present where its entry is above this. Soft histograms are above 0 everywhere:
        give a share there, such as 1 / n_descriptors.

    Examples
    --------
    >>> import numpy as np
    >>> round(Presence("mi").begin([0, 1], 2).update(np.eye(2)), 3)
    0.693
    """

    name = "presence"

    def __init__(
        self,
        measure: Literal["df", "chi2", "mi", "pmi"] = "mi",
        *,
        combine: Literal["mean", "max"] | None = None,
        threshold: float = 0.0,
    ) -> None:
        check_measure(measure, combine)
        if not is_number(threshold) or not 0 <= threshold < 1:
            raise ParameterError(f"threshold must be from 0 to below 1; got {threshold!r}.")
        self.measure = measure
        self.combine = combine
        self.threshold = threshold

    def _values_of(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        having = _by_class(rows > self.threshold, self._labels, len(self._class_sizes))
        return _judge(having, self._class_sizes, self.measure, self.combine)


def _by_class(
    has: NDArray[np.bool_], labels: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """Return how many bags of each class have each word, ``(n_words, n_classes)``: A above."""
    ones = np.zeros((len(labels), n_classes), dtype=np.float32)
    ones[np.arange(len(labels)), labels] = 1
    # Whole numbers below 2²⁴: exact in float32.
    counts: NDArray[np.float64] = (has.astype(np.float32) @ ones).astype(np.float64)
    return counts


def _judge(
    having: NDArray[np.float64], sizes: NDArray[np.int64], measure: str, combine: str | None
) -> NDArray[np.float64]:
    n = float(sizes.sum())
    total = having.sum(axis=1)
    if measure == "df":
        frequencies: NDArray[np.float64] = total / n
        return frequencies
    varies = (total > 0) & (total < n)
    values = np.zeros(len(having))
    having, total = having[varies], total[varies, None]
    shares = sizes / n
    if measure == "mi":
        absent = sizes - having
        found = np.zeros(len(having))
        for table, margin in ((having, total), (absent, n - total)):
            expected = margin * shares
            held = table > 0
            ratio = np.divide(table, expected, out=np.ones_like(table), where=held)
            found += (table * np.log(ratio)).sum(axis=1) / n
        values[varies] = np.maximum(found, 0)
        return values
    present = sizes > 0
    each = np.zeros_like(having)
    if measure == "chi2":
        outside = (sizes * (n - sizes) * total * (n - total)).astype(np.float64)
        # AD − CB = A n − (A + B)(A + C).
        cross = having * n - total * sizes
        np.divide(n * cross**2, outside, out=each, where=outside > 0)
    else:
        expected = total * shares
        halved = np.where(having > 0, having, 0.5)
        each[:, present] = np.log(halved[:, present] / expected[:, present])
    by_mean = combine == "mean" or (combine is None and measure == "chi2")
    values[varies] = each @ shares if by_mean else each[:, present].max(axis=1)
    return values
