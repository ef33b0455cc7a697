"""How often a classifier is right, class by class.

Classes have very different numbers of test images (from 10 to 700 in the benchmarks), so the
accuracy over all images mostly describes the largest class. Here every class counts the same: the
mean of the accuracies per class. A class without images does not enter the mean. Labels are
integers from 0 to ``n_classes - 1``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.errors import DataError


def confusion(y_true: ArrayLike, y_pred: ArrayLike, n_classes: int) -> NDArray[np.int64]:
    """Count how often each class was predicted as each.

    Parameters
    ----------
    y_true, y_pred : array-like of int, shape (n,)
        The true and the predicted class of each item, from 0 to ``n_classes - 1``.
    n_classes : int
        How many classes there are.

    Returns
    -------
    ndarray of int64, shape (n_classes, n_classes)
        Entry ``[i, j]``: items of class ``i`` that were predicted as class ``j``.

    Examples
    --------
    >>> confusion([0, 0, 1], [0, 1, 1], 2).tolist()
    [[1, 1], [0, 1]]
    """
    truth = _labels(y_true, n_classes, "y_true")
    guess = _labels(y_pred, n_classes, "y_pred")
    if len(truth) != len(guess):
        raise DataError(
            f"y_true and y_pred must have one length; got {len(truth)} and {len(guess)}. Give "
            "one prediction for each true label."
        )
    pairs = np.bincount(truth * n_classes + guess, minlength=n_classes * n_classes)
    return pairs.reshape(n_classes, n_classes).astype(np.int64)


def class_accuracies(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the accuracy per class, NaN for a class without items.

    Parameters
    ----------
    matrix : array-like of int, shape (n_classes, n_classes)
        As ``confusion`` counts it.

    Returns
    -------
    ndarray of float64, shape (n_classes,)

    Examples
    --------
    >>> class_accuracies([[1, 1], [0, 4]]).tolist()
    [0.5, 1.0]
    """
    counts = np.asarray(matrix)
    total = counts.sum(axis=1)
    right = np.diagonal(counts).astype(np.float64)
    shares = np.full(len(counts), np.nan)
    np.divide(right, total, out=shares, where=total > 0)
    return shares


def mean_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike, n_classes: int) -> float:
    """Return the mean, over the classes that occur in ``y_true``, of their accuracies.

    Parameters are those of ``confusion``; the result lies between 0 and 1.

    Examples
    --------
    Five of six items are right, but one of the two classes only half the time.

    >>> mean_class_accuracy([0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 0], 2)
    0.75
    """
    matrix = confusion(y_true, y_pred, n_classes)
    if not matrix.any():
        raise DataError("y_true is empty: an accuracy needs at least one item. Give test data.")
    return float(np.nanmean(class_accuracies(matrix)))


def _labels(values: ArrayLike, n_classes: int, name: str) -> NDArray[np.int64]:
    labels = np.asarray(values)
    if not labels.size:
        labels = labels.astype(np.int64)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be a list of integers; got {labels.dtype} of shape {labels.shape}. "
            "Number the classes from 0."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        raise DataError(
            f"{name} must lie between 0 and {n_classes - 1} (there are {n_classes} classes); got "
            f"{int(labels.min())} to {int(labels.max())}. Number the classes from 0."
        )
    return labels.astype(np.int64)
