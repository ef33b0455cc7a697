"""Presence of a word in a bag: document frequency, χ², mutual and pointwise information.

**The problem.** Yang et al. (2007) apply text's feature selection to visual words: only whether a
word is in an image counts. For word k and class c, with n bags, of which A have the word and the
class, B the word and another class, C the class alone, D neither:

- ``"df"``: (A + B) / n, the share of bags that have the word. No labels.
- ``"chi2"``: n (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)), combined over the classes.
- ``"mi"``: I(presence; class), in nats, of the whole 2 × n_classes table.
- ``"pmi"``: log(A n / ((A + B)(A + C))), combined over the classes.

The source leaves open how classes are combined. The study of text that it follows (Yang and
Pedersen, 1997) defines the largest, the default here, and the mean weighted by the classes' shares;
the mean of pointwise information is at most 0 by Jensen's inequality. Half a bag replaces A = 0 in
pointwise information. Words in all bags or in none score 0 except for ``"df"``. χ² for a single
class is 0.

With soft coding a word is present where its share exceeds ``threshold``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bowsaw._arrays import AnyArray, Bools, Float64, Int64
from bowsaw.errors import DataError, ParameterError
from bowsaw.scores.base import WordwiseScore
from bowsaw.validation import check_choice, check_real

MEASURES = ("df", "chi2", "mi", "pmi")


def word_scores(
    presence: ArrayLike,
    labels: ArrayLike,
    measure: str = "mi",
    *,
    combine: str = "max",
    n_classes: int | None = None,
) -> Float64:
    """Return one value per word by presence (n_bags, n_words) above 0; larger is better."""
    check_measure(measure, combine)
    has = np.asarray(presence) > 0
    given = np.asarray(labels)
    if has.ndim != 2 or given.shape != has.shape[:1] or not len(given):
        raise DataError(
            f"presence must be (n_bags, n_words) with one label per bag; got shapes {has.shape} "
            f"and {given.shape}."
        )
    size = int(given.max()) + 1 if n_classes is None else n_classes
    sizes = np.bincount(given, minlength=size)
    return _values(_by_class(has.T, given, size), sizes, measure, combine)


def check_measure(measure: str, combine: str) -> None:
    """Raise a ParameterError for an unknown measure or combination."""
    check_choice(measure, "measure", MEASURES)
    check_choice(combine, "combine", ("mean", "max"))


def check_threshold(threshold: float, coding: str) -> None:
    """Raise a ParameterError where a word would be present in every bag."""
    if coding == "soft" and not threshold > 0:
        raise ParameterError(
            "presence needs a threshold above 0 with soft coding, where every image has a share of "
            "every word. Use hard coding, another score, or a threshold such as 1 / n_words."
        )


class Presence(WordwiseScore):
    """The mean over the kept words of a measure of their presence.

    Parameters
    ----------
    measure : {"df", "chi2", "mi", "pmi"}, default="mi"
        The measure; formulas are at the top of the module.
    combine : {"max", "mean"}, default="max"
        How ``"chi2"`` and ``"pmi"`` combine the classes.
    threshold : float, default=0.0
        A word is present where its entry is above this; soft coding needs one above 0.

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
        combine: Literal["max", "mean"] = "max",
        threshold: float = 0.0,
    ) -> None:
        check_measure(measure, combine)
        check_real(threshold, "threshold", 0, 1, open_high=True)
        self.measure, self.combine, self.threshold = measure, combine, threshold

    def _prepare(self, n_descriptors: Float64 | None) -> None:
        check_threshold(self.threshold, self._coding)

    def _values_of(self, rows: AnyArray) -> Float64:
        having = _by_class(rows > self.threshold, self._labels, len(self._class_sizes))
        return _values(having, self._class_sizes, self.measure, self.combine)


def _by_class(has: Bools, labels: Int64, n_classes: int) -> Float64:
    """Return how many bags of each class have each word, ``(n_words, n_classes)``: A above."""
    ones = np.eye(n_classes, dtype=np.float32)[labels]
    # Integers below 2²⁴ are exact in float32.
    return np.asarray(has.astype(np.float32) @ ones, dtype=np.float64)


def _values(having: Float64, sizes: Int64, measure: str, combine: str) -> Float64:
    n = float(sizes.sum())
    total = having.sum(axis=1)
    if measure == "df":
        return np.asarray(total / n)
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
    # Not a product by BLAS, whose rounding depends on the number of rows.
    mean = (each * shares).sum(axis=1)
    values[varies] = mean if combine == "mean" else each[:, present].max(axis=1)
    return values
