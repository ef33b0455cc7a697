"""How exact an accuracy is, and whether one method is better than another, when splits overlap.

Accuracies on random splits or folds of one collection are not independent: training and test images
of two splits overlap. The plain t statistic then finds differences that do not exist. Nadeau and
Bengio (2003) correct its variance: for J splits with n_train and n_test images, and differences d
of mean d̄ and variance s²,

    se² = (1/J + n_test / n_train) s²,    t = d̄ / se,  with J − 1 degrees of freedom.

n_train counts every image that had a part in the model, those of the codebook included: a test set
is then drawn from n_train + n_test images, and the ratio is that of its overlap. Tests are
two-sided. At several sizes of a codebook, d is the mean over the sizes of a split, so that two
methods have one p.

Several comparisons at once need a stricter limit for each: Holm (1979) takes p values in rising
order, the i-th (from 0) of m times m − i, never less than the one before.

**The rule**, the same wherever bowsaw calls a difference significant, is ``RULE``, which the page
prints.

**The interval of an accuracy.** Every accuracy that bowsaw prints has a 95 % interval, mean ± the
larger of two margins:

- Wilson's (1927) interval of the mean for the number of test images, of which a class with few has
  as much weight as one with many: n = K² / Σ 1/n_k for K classes with n_k test images. A single
  split has only this one: it is about the classifier of that split.
- 1.96 times the corrected standard error over the splits or folds.

The first is never left out, since a few splits may agree by chance. With it, the normal quantile is
enough: simulated intervals contain the expected accuracy in more than 95 % from two splits on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from bowsaw.errors import DataError

CONFIDENCE = 0.95
LEVEL = 0.05
"""A p below it is significant: a 95 % interval excludes 0."""
RULE = (
    f"A difference is significant where p < {LEVEL} by the corrected resampled t-test (Nadeau and "
    "Bengio, 2003), two-sided, on the mean over the sizes, with Holm's correction for the number "
    "of methods compared. Otherwise the measurements leave open whether there is a difference."
)
"""What significant means, in the words of page and documentation."""


def corrected_error(values: ArrayLike, test_share: float) -> NDArray[np.float64]:
    """Return the corrected standard error over splits; ``test_share`` is n_test / n_train."""
    found = np.asarray(values, dtype=np.float64)
    return np.asarray(np.sqrt(1 / len(found) + test_share) * found.std(axis=0, ddof=1))


def accuracy_margin(accuracies: ArrayLike, test_share: float, class_counts: ArrayLike) -> float:
    """Return half of the 95 % interval of a mean per-class accuracy.

    Parameters
    ----------
    accuracies : array-like of float, shape (n_splits,)
        Of each split or fold.
    test_share : float
        Test images per image that trained. Not used for a single split.
    class_counts : array-like of int, shape (n_classes,)
        Different test images per class: of one split, or of all folds together.

    Examples
    --------
    >>> round(accuracy_margin([0.70, 0.72, 0.74], 0.25, [50, 50, 50]), 3)
    0.077
    """
    found = np.asarray(accuracies, dtype=np.float64)
    counts = np.asarray(class_counts, dtype=np.float64)
    counts = counts[counts > 0]
    p, n = float(found.mean()), len(counts) ** 2 / float((1 / counts).sum())
    z2 = float(special.ndtri((1 + CONFIDENCE) / 2)) ** 2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    wilson = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    margin = wilson + abs(centre - p)
    if len(found) > 1:
        margin = max(margin, np.sqrt(z2) * float(corrected_error(found, test_share)))
    return float(margin)


@dataclass(frozen=True)
class Comparison:
    """The difference of two methods over splits.

    Attributes
    ----------
    mean : float
        The mean difference; above 0 where the first method is better.
    error : float
        Its standard error, corrected.
    n_free : float
        Degrees of freedom of the error.
    """

    mean: float
    error: float
    n_free: float

    @property
    def t(self) -> float:
        """``mean / error``; infinite where the error is 0 and the mean is not."""
        if self.error > 0:
            return self.mean / self.error
        return float(np.sign(self.mean)) * np.inf if self.mean else 0.0

    @property
    def p(self) -> float:
        """Probability of a difference this large, in either direction, by chance."""
        return float(2 * stats.t.sf(abs(self.t), self.n_free))

    def interval(self, level: float = CONFIDENCE) -> tuple[float, float]:
        """Return where the true difference lies with this probability."""
        half = float(stats.t.ppf((1 + level) / 2, self.n_free)) * self.error
        return self.mean - half, self.mean + half


def paired_test(first: ArrayLike, second: ArrayLike, n_train: int, n_test: int) -> Comparison:
    """Compare two methods on the same random splits by the corrected resampled t-test.

    Parameters
    ----------
    first, second : array-like of float, shape (n_splits,) or (n_splits, n_sizes)
        Accuracies, in the same order of splits and sizes; sizes are averaged.
    n_train, n_test : int
        Images that had a part in the model (the codebook's included) and that tested it, in each
        split.

    Examples
    --------
    >>> found = paired_test([0.72, 0.74, 0.73], [0.70, 0.70, 0.70], 100, 100)
    >>> round(found.mean, 3), round(found.t, 2), round(found.p, 3)
    (0.03, 2.6, 0.122)
    >>> [round(end, 3) for end in found.interval()]
    [-0.02, 0.08]
    """
    ours, theirs = (np.asarray(side, dtype=np.float64) for side in (first, second))
    if ours.ndim not in (1, 2) or ours.shape != theirs.shape or len(ours) < 2 or not ours.size:
        raise DataError(
            "two methods are compared over the same splits, at least 2 splits; got shapes "
            f"{ours.shape} and {theirs.shape}."
        )
    n_splits = len(ours)
    differences = (ours - theirs).reshape(n_splits, -1).mean(axis=1)
    error = float(corrected_error(differences, n_test / n_train))
    return Comparison(float(differences.mean()), error, n_splits - 1)


def pooled(parts: Sequence[Comparison]) -> Comparison:
    """Return the mean of independent comparisons, such as those on several collections.

    Degrees of freedom by Welch and Satterthwaite.

    Examples
    --------
    >>> found = pooled([Comparison(0.02, 0.01, 4), Comparison(0.04, 0.01, 4)])
    >>> round(found.mean, 3), round(found.error, 5), found.n_free
    (0.03, 0.00707, 8.0)
    """
    spread = np.array([part.error**2 for part in parts])
    n_free = np.array([part.n_free for part in parts])
    whole = float(spread.sum())
    free = whole**2 / float((spread**2 / n_free).sum()) if whole > 0 else float(n_free.sum())
    mean = float(np.mean([part.mean for part in parts]))
    return Comparison(mean, float(np.sqrt(whole)) / len(parts), free)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return p values corrected for several comparisons, in the order given.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    scaled = values[order] * np.arange(len(values), 0, -1)
    out = np.empty_like(values)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out
