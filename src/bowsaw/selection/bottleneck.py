r"""The agglomerative information bottleneck: merge the words whose classes are most alike.

Slonim and Tishby (1999) compress one variable so that it keeps what it tells about another;
Fulkerson, Vedaldi and Soatto (ECCV 2008) apply this to words and classes. Let p(w, c) be the joint
distribution of words and classes. Merging words w and v into one loses of the information

.. math::

    I(\text{word}; \text{class}) = \sum_{w,c} p(w, c) \log \frac{p(w, c)}{p(w)\,p(c)}

the weighted Jensen-Shannon divergence of their class profiles,

.. math::

    \delta(w, v) = \sum_c \left[ p(w,c) \log \frac{p(c|w)}{p(c|w \cup v)}
                               + p(v,c) \log \frac{p(c|v)}{p(c|w \cup v)} \right] \ge 0 .

The pair of least loss is merged until one group is left; the losses sum to the information.

p(w, c) as we read the paper: the histograms of each class's images, added up and divided by the
total. Classes with more images weigh more. Words without mass tell nothing and cost nothing to
merge with anything, so they are set aside instead (group -1) and do not clutter the tree.

With :math:`f(x) = x \log x` and the term :math:`F(w) = \sum_c f(p(w,c)) - f(p(w))` kept for each
group, a pair costs n_classes + 1 evaluations of f:
:math:`\delta(w, v) = F(w) + F(v) - F(w \cup v)`. The frame of :mod:`bowsaw.selection.merging` needs
about n² of them. That difference loses digits, about 1e-16 of the masses themselves: enough to
choose pairs by. What the tree records is the divergence itself, computed once a merge.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from bowsaw.errors import DataError
from bowsaw.progress import CallbackSupport, fit_task, with_callbacks
from bowsaw.selection._bottleneck_kernel import union_losses
from bowsaw.selection.base import check_labels
from bowsaw.selection.merging import (
    MergeTree,
    MergingSelector,
    add_up,
    check_n_groups,
    merge_greedily,
)


def word_class_table(
    histograms: NDArray[Any], labels: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """Return the joint distribution of words and classes, ``(n_words, n_classes)``, of sum 1."""
    table = np.zeros((histograms.shape[1], n_classes))
    for c in range(n_classes):
        table[:, c] = histograms[labels == c].sum(axis=0, dtype=np.float64)
    total = table.sum()
    if not total > 0:
        raise DataError(
            "every histogram is empty: there is nothing to merge by. Give images with descriptors."
        )
    table /= total
    return table


def information(table: NDArray[np.float64]) -> float:
    """Return the mutual information of a joint distribution's rows and columns, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> round(information(np.array([[0.5, 0.0], [0.0, 0.5]])), 6)
    0.693147
    """
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    ratio = np.divide(table, independent, out=np.ones_like(table), where=table > 0)
    return float(xlogy(table, ratio).sum())


def bottleneck_tree(table: ArrayLike, n_jobs: int | None = None) -> MergeTree:
    """Merge words by the agglomerative information bottleneck.

    Parameters
    ----------
    table : array-like of shape (n_words, n_classes)
        Mass of each word in each class, not negative; of any sum, the losses are in nats times it.
    n_jobs : int or None
        Threads; the result is the same for any number.

    Returns
    -------
    MergeTree
        Words without mass are set aside.

    Examples
    --------
    >>> tree = bottleneck_tree([[0.3, 0.0], [0.0, 0.2], [0.3, 0.0], [0.0, 0.2]])
    >>> tree.groups_at(2).tolist()
    [0, 1, 0, 1]
    """
    masses = np.asarray(table, dtype=np.float64)
    if masses.ndim != 2 or not np.isfinite(masses).all() or (masses < 0).any():
        raise DataError(
            f"table must be (n_words, n_classes), finite and not negative; got shape "
            f"{masses.shape}. Rows are words: is it transposed, or centred?"
        )
    present = np.flatnonzero(masses.sum(axis=1) > 0)
    if not len(present):
        raise DataError("every word is without mass: there is nothing to merge.")
    merges, losses = merge_greedily(_InformationLosses(masses[present]), n_jobs)
    return MergeTree(len(masses), present, present[merges], losses)


class _InformationLosses:
    """Groups of words by their masses in the classes; see ``PairLosses``."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._masses = np.vstack([table.T, table.sum(axis=1)])
        x_log_x = xlogy(self._masses, self._masses)
        self._terms = x_log_x[:-1].sum(axis=0) - x_log_x[-1]

    @property
    def n_slots(self) -> int:
        return len(self._terms)

    def row(self, slot: int, start: int) -> NDArray[np.float64]:
        out = np.empty(self.n_slots - start)
        union_losses(self._masses, self._terms, slot, start, out)
        return out

    def merge(self, slot: int, other: int) -> float:
        pair = self._masses[:, [slot, other]]
        union = pair.sum(axis=1)
        # p(c | part) / p(c | union); a class without mass has no say.
        ratio = np.ones((len(pair) - 1, 2))
        np.divide(
            pair[:-1] * union[-1], union[:-1, None] * pair[-1], out=ratio, where=pair[:-1] > 0
        )
        self._masses[:, slot] = union
        self._masses[:, other] = 0
        x_log_x = xlogy(union, union)
        self._terms[slot] = x_log_x[:-1].sum() - x_log_x[-1]
        self._terms[other] = np.inf
        return max(0.0, float(xlogy(pair[:-1], ratio).sum()))

    def keep(self, slots: NDArray[np.int64]) -> None:
        self._masses = np.ascontiguousarray(self._masses[:, slots])
        self._terms = self._terms[slots]


class Bottleneck(CallbackSupport, TransformerMixin, BaseEstimator):
    """Merge the columns of histograms by the information bottleneck.

    For histograms that exist already, of whatever kind; :class:`BottleneckSelector` does the same
    from bags and a codebook.

    Parameters
    ----------
    n_kept : int, default=50
        Groups to merge the words into; fewer come out where fewer words have mass.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Attributes
    ----------
    tree_ : MergeTree
        All merges and what each lost of the information, in nats.
    groups_ : ndarray of int64, shape (n_words,)
        The column that each word is added to; -1 for words without mass.
    information_ : float
        The information of words about classes before merging, in nats: the sum of all losses.
    classes_ : ndarray
        The labels.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.selection.bottleneck import Bottleneck
    >>> X = np.array([[3.0, 0.0, 3.0, 0.0], [0.0, 2.0, 0.0, 2.0]])
    >>> merged = Bottleneck(n_kept=2).fit(X, ["cat", "dog"])
    >>> merged.transform(X)
    array([[6., 0.],
           [0., 4.]])
    >>> merged.groups_at(1).tolist()
    [0, 0, 0, 0]
    """

    def __init__(self, n_kept: int = 50, *, n_jobs: int | None = -1) -> None:
        self.n_kept = n_kept
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Merge the words.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_words)
            Histograms, not negative.
        y : array-like of shape (n_samples,)
            Their labels.
        """
        n_kept = check_n_groups(self.n_kept)
        histograms, labels = validate_data(
            self, X, y, dtype=(np.float64, np.float32), ensure_min_samples=2
        )
        _check_not_negative(histograms)
        self.classes_, codes = check_labels(labels, len(histograms))
        with fit_task(self, X=histograms, y=labels):
            table = word_class_table(histograms, codes, len(self.classes_))
            self.information_ = information(table)
            self.tree_ = bottleneck_tree(table, self.n_jobs)
            self.groups_ = self.tree_.groups_at(n_kept)
        return self

    def groups_at(self, n_groups: int) -> NDArray[np.int64]:
        """Return each word's group at another size, from the same tree."""
        check_is_fitted(self)
        return self.tree_.groups_at(n_groups)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Add up the columns of each group, ``(n_samples, n_groups)``, in the dtype of ``X``."""
        check_is_fitted(self)
        histograms = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        _check_not_negative(histograms)
        return add_up(histograms, self.groups_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns: ``group0000`` and so on."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        n_groups = int(self.groups_.max()) + 1
        return np.array([f"group{i:04d}" for i in range(n_groups)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BottleneckSelector(MergingSelector):
    """Merge the words of a codebook by the information bottleneck.

    Codes with the full codebook: a new image is compared with every word, and the columns of each
    group are added up.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words, or what learns them first, such as ``KMeansCodebook``.
    n_kept : int, default=50
        Groups to merge them into; fewer come out where fewer words have mass.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    sharpness : float, default=40.0
        For soft coding.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

    Attributes
    ----------
    tree_ : MergeTree
        All merges and what each lost of the information, in nats.
    selection_ : Selection
        The groups; ``selection_at`` gives those of another size.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw.selection.bottleneck import BottleneckSelector
    >>> bags = [np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])]
    >>> words = [[0.0], [1.0], [2.0], [3.0]]
    >>> merged = BottleneckSelector(words, n_kept=2).fit(bags, ["cat", "dog"])
    >>> merged.selection_.groups.tolist(), merged.selection_.codes_with
    ([0, 1, 0, 1], 'full')
    """

    name = "bottleneck"

    def _merge(self, histograms: NDArray[np.float32], labels: NDArray[np.int64]) -> MergeTree:
        table = word_class_table(histograms, labels, int(labels.max()) + 1)
        return bottleneck_tree(table, self.n_jobs)


def _check_not_negative(histograms: NDArray[Any]) -> None:
    if (histograms < 0).any():
        # The words that scikit-learn looks for, and then ours.
        raise DataError(
            "Negative values in data passed to X: histograms must be 0 or more; got "
            f"{histograms.min()}. Merge before centring or scaling."
        )
