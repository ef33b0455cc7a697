"""Whether one method is better than another, when the splits overlap.

Accuracies on random splits of one collection are not independent: training and test images of two
splits overlap. The plain t statistic then finds differences that do not exist. Nadeau and Bengio
(2003) correct its variance: for J splits with n_train and n_test images, and differences d of mean
d̄ and variance s²,

    t = d̄ / √((1/J + n_test / n_train) s²),  with J − 1 degrees of freedom.

Several comparisons at once need a stricter limit for each: Holm (1979) takes p values in rising
order, the i-th (from 0) of m times m − i, never less than the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bowsaw.errors import DataError


@dataclass(frozen=True)
class Comparison:
    """The difference of two methods over splits.

    Attributes
    ----------
    mean : float
        The mean difference; above 0 where the first method is better.
    error : float
        Its standard error, corrected.
    t : float
        ``mean / error``.
    p : float
        Probability of a lead this large by chance: one-sided.
    """

    mean: float
    error: float
    t: float
    p: float


def paired_test(first: ArrayLike, second: ArrayLike, n_train: int, n_test: int) -> Comparison:
    """Compare two methods on the same random splits by the corrected resampled t.

    Parameters
    ----------
    first, second : array-like of float, shape (n_splits,)
        Accuracies, in the same order of splits.
    n_train, n_test : int
        Images that trained and that tested, in each split.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> found = paired_test([0.72, 0.74, 0.73], [0.70, 0.70, 0.70], 100, 100)
    >>> round(found.mean, 3), round(found.t, 2), round(found.p, 3)
    (0.03, 2.6, 0.061)
    """
    ours, theirs = (np.asarray(side, dtype=np.float64) for side in (first, second))
    if ours.ndim != 1 or ours.shape != theirs.shape or len(ours) < 2:
        raise DataError(
            "two methods are compared over the same splits, at least 2 splits; got shapes "
            f"{ours.shape} and {theirs.shape}."
        )
    differences, n_splits = ours - theirs, len(ours)
    mean = float(differences.mean())
    spread = float(differences.var(ddof=1))
    error = float(np.sqrt((1 / n_splits + n_test / n_train) * spread))
    t = mean / error if error > 0 else float(np.sign(mean)) * np.inf if mean else 0.0
    return Comparison(mean, error, t, float(stats.t.sf(t, n_splits - 1)))


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
