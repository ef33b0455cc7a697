"""How often a classifier is right, class by class.

Classes have very different numbers of test images (from 10 to 700 in the benchmarks), so the
accuracy over all images mostly describes the largest class. Here every class counts the same: the
mean of the accuracies per class. A class without images does not enter the mean. Labels are
integers from 0 to ``n_classes - 1``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix

from bowsaw.errors import DataError


def confusion(y_true: ArrayLike, y_pred: ArrayLike, n_classes: int) -> NDArray[np.int64]:
    """Return how often class i was predicted as class j, ``(n_classes, n_classes)``.

    Examples
    --------
    >>> confusion([0, 0, 1], [0, 1, 1], 2).tolist()
    [[1, 1], [0, 1]]
    """
    try:
        matrix = confusion_matrix(y_true, y_pred, labels=np.arange(n_classes))
    except (TypeError, ValueError) as error:
        raise DataError(f"y_true and y_pred must be labels of the same items: {error}") from error
    if matrix.sum() != len(np.asarray(y_true)):
        raise DataError(
            f"labels must be integers from 0 to {n_classes - 1} (there are {n_classes} classes). "
            "Number the classes from 0."
        )
    return np.asarray(matrix, dtype=np.int64)


def class_accuracies(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the accuracy per class from a confusion matrix, NaN for a class without items.

    Examples
    --------
    >>> class_accuracies([[1, 1], [0, 4]]).tolist()
    [0.5, 1.0]
    """
    counts = np.asarray(matrix)
    total = counts.sum(axis=1)
    shares = np.full(len(counts), np.nan)
    np.divide(np.diagonal(counts), total, out=shares, where=total > 0)
    return shares


def mean_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike, n_classes: int) -> float:
    """Return the mean, over the classes that occur in ``y_true``, of their accuracies.

    Examples
    --------
    Five of six items are right, but one of the two classes only half the time.

    >>> mean_class_accuracy([0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 0], 2)
    0.75
    """
    if not len(np.asarray(y_true)):
        raise DataError("y_true is empty: an accuracy needs at least one item. Give test data.")
    return float(np.nanmean(class_accuracies(confusion(y_true, y_pred, n_classes))))
