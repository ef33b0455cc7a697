"""Words that are given, or learned when they are needed.

Whoever codes or prunes takes a codebook. In a ``Pipeline`` the words must be learned by the
training bags of each fold, and a grid must reach the learner's parameters
(``annealing__codebook__n_words``). So wherever a codebook is asked for, an estimator that learns
one will do, too: anything with ``fit`` that has a ``codebook_`` afterwards. It is cloned, so the
parameter stays as it was given.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClusterMixin, clone

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.errors import ParameterError
from bowsaw.progress import Task


def learns(codebook: Any) -> bool:
    """Return whether what was given as codebook learns one.

    Examples
    --------
    >>> import bowsaw as bs
    >>> learns(bs.KMeansCodebook(5)), learns([[0.0], [1.0]])
    (True, False)
    """
    return hasattr(codebook, "fit")


def words_from(
    codebook: Any, bags: Bags, y: ArrayLike | None = None, task: Task | None = None
) -> Codebook:
    """Return the codebook that was given, or the one that its learner finds in these bags.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words, or what learns them.
    bags : Bags
        To learn from.
    y : array-like of shape (n_bags,), optional
        Their labels, for a learner that wants them.
    task : Task, optional
        The fit that this is a part of.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = bs.Bags.from_list([np.array([[0.0], [1.0], [8.0]])])
    >>> words_from(bs.KMeansCodebook(2), bags).n_words, words_from([[0.0]], bags).n_words
    (2, 1)
    """
    if not learns(codebook):
        return as_codebook(codebook)
    if isinstance(codebook, ClusterMixin):
        raise ParameterError(
            f"codebook must be words, or an estimator that learns them from bags; got "
            f"{type(codebook).__name__}, which learns from an array. Give KMeansCodebook(…), or a "
            "fitted KMeans by from_sklearn(…)."
        )
    learner = clone(codebook)
    with (task or Task()).delegate("words", learner):
        learner.fit(bags, y)
    book: Codebook = learner.codebook_
    return book
