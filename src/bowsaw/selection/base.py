"""What selectors have in common: fitted on bags and labels, they code new bags by their choice."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded, learns, words_from
from bowsaw.coding.soft import check_sharpness
from bowsaw.errors import DataError, ParameterError
from bowsaw.progress import CallbackSupport, Task, fit_task, with_callbacks
from bowsaw.selection.known import Known
from bowsaw.selection.result import Selection


class Selector(CallbackSupport, TransformerMixin, BaseEstimator):
    """A method that chooses words of a codebook from bags and, mostly, their labels.

    Subclasses have at least the parameters ``codebook``, ``n_kept``, ``coding``, ``sharpness`` and
    ``n_jobs``, and fill in ``_select``. As ``codebook`` an estimator that learns one will do, such
    as ``KMeansCodebook(500)``: it is fitted on the same bags first.

    Attributes
    ----------
    selection_ : Selection
        What was chosen, and with which codebook it codes.
    codebook_ : Codebook
        The codebook to code with: the kept words alone, or the full one.
    classes_ : ndarray
        The labels, where there were any.
    n_features_in_ : int
        Dimensions of a descriptor.
    """

    codebook: Any
    n_kept: int
    coding: Literal["hard", "soft"]
    sharpness: float
    n_jobs: int | None
    _known: Known
    _task: Task

    _n_parts = 0
    """Parts of a fit that callbacks are told of, at most."""
    _needs_labels = True
    _learns = True
    """Whether the choice depends on the bags: their images can then no longer test it."""

    @with_callbacks
    def fit(
        self,
        X: Bags | Iterable[ArrayLike],
        y: ArrayLike | None = None,
        *,
        known: Known | None = None,
    ) -> Self:
        """Choose the words.

        Parameters
        ----------
        X : Bags or list of arrays
            The bags to choose by.
        y : array-like of shape (n_bags,), optional
            Their labels; needed by supervised methods.
        known : Known, optional
            What other selectors have found of the same bags and codebook; makes this one quicker
            and changes nothing else. One of other bags or another codebook is not used.
        """
        bags = as_bags(X)
        self._check_coding()
        labels = None
        if self._needs_labels:
            self.classes_, labels = check_labels(y, len(bags))
        elif y is not None:
            check_length(np.asarray(y), len(bags))
        with fit_task(self, self._n_parts + learns(self.codebook), X=bags, y=y) as task:
            book = words_from(self.codebook, bags, y, task)
            book.words_for(bags)
            n_kept = check_n_kept(self.n_kept, book.n_words)
            self._task = task
            self._known = (
                known if known is not None and known.is_of(book, bags) else Known(book, bags)
            )
            try:
                selection = self._select(bags, labels, book, n_kept)
            finally:
                del self._known, self._task
            if self._learns and selection.codes_with == "pruned":
                selection = replace(selection, codebook=selection.codebook.learned_from(bags))
            self.selection_ = selection
            self.codebook_ = self.selection_.codebook
            self.n_features_in_ = bags.n_dims
            self.n_features_out_ = self.selection_.n_columns
        return self

    def _check_coding(self) -> None:
        if self.coding not in ("hard", "soft"):
            raise ParameterError(f"coding must be 'hard' or 'soft'; got {self.coding!r}.")
        check_sharpness(self.sharpness)

    def _shows(self) -> bool:
        """Return whether to draw bars: where a person asked, and no callback draws."""
        return bool(getattr(self, "verbose", False)) and not self._task.observed

    def _full_histograms(self) -> NDArray[np.float32]:
        """Return the bags' histograms under the whole codebook, coded as the selector says."""
        return self._known.histograms(self.coding, self.sharpness, self.n_jobs)

    @abstractmethod
    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, book: Codebook, n_kept: int
    ) -> Selection:
        """Choose words; labels are whole numbers from 0."""

    def transform(self, X: Bags | Iterable[ArrayLike]) -> NDArray[np.float32]:
        """Return the histograms of new bags under the selection, ``(n_bags, n_columns)``."""
        check_is_fitted(self, "selection_")
        how = (self.coding, self.sharpness, self.n_jobs)
        return self.selection_.reduce(coded(as_bags(X), self.codebook_, *how))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns: words by id, groups by number."""
        check_is_fitted(self, "selection_")
        if self.selection_.kept is not None:
            return np.array([f"word{i:04d}" for i in self.selection_.kept.tolist()], dtype=object)
        return np.array([f"group{i:04d}" for i in range(self.n_features_out_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = self._needs_labels
        return tags


def check_n_kept(n_kept: object, n_words: int) -> int:
    """Return ``n_kept`` as an int, or say what it may be."""
    value = int(n_kept) if isinstance(n_kept, numbers.Integral) else 0
    if isinstance(n_kept, bool) or not 1 <= value <= n_words:
        raise ParameterError(
            f"n_kept must be a whole number from 1 to {n_words} (the codebook has {n_words} "
            f"words); got {n_kept!r}. Train a larger codebook or ask for fewer words."
        )
    return value


def check_labels(y: ArrayLike | None, n_bags: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes and each bag's class as a whole number from 0, or say what is wrong."""
    if y is None:
        raise DataError("this selector chooses words by labels: call fit(bags, y).")
    labels = np.asarray(y)
    check_length(labels, n_bags)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"labels must name at least two classes; got {len(classes)}. Choose without labels by "
            "Coverage, RandomSubset or FarthestPoint."
        )
    return classes, codes.astype(np.int64)


def check_length(labels: NDArray[Any], n_bags: int) -> None:
    """Refuse labels that are not one a bag."""
    if labels.shape != (n_bags,):
        raise DataError(f"y must have one label a bag ({n_bags}); got shape {labels.shape}.")
