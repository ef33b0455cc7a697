"""What all selectors share: their interface, their result, and codes made once for several of them.

A selector chooses words of a codebook from bags and, mostly, their labels, and returns a
:class:`Selection`. A method keeps some words, or merges all words into groups. Its histograms have
fewer columns either way, but the cost of coding a new image depends on *which codebook codes it*:

- ``codes_with="pruned"``: the kept words alone; the large codebook can be deleted;
- ``codes_with="full"``: all words; columns of their histogram are kept (ranking) or added up
  (merging).

A comparison that hides this is not honest, so a ``Selection`` cannot be made without it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded, learns, words_from
from bowsaw.coding.soft import check_sharpness
from bowsaw.errors import ParameterError
from bowsaw.inference.state import HistogramState
from bowsaw.inference.whatif import check_transfer, whatif
from bowsaw.progress import CallbackSupport, Task, fit_task, with_callbacks
from bowsaw.scores.base import Score
from bowsaw.validation import (
    canonical_json,
    check_choice,
    check_int,
    check_labels,
    check_length,
    json_mapping,
    json_value,
)

Coding = Literal["hard", "soft"]


# -- the result ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """The words that a method chose, and how to code with them.

    Attributes
    ----------
    method : str
        The method's name.
    codes_with : {"pruned", "full"}
        Which codebook codes a new image.
    codebook : Codebook
        That codebook: the kept words, or all words.
    kept : ndarray of int64, shape (n_kept,), or None
        Ids of the kept words in the order of the columns; None for a merge.
    groups : ndarray of int64, shape (n_words,), or None
        For a merge, the column that each word of the codebook is added to; -1 for words that are
        set aside.
    scores : tuple of float
        The path of the method's score, one entry per step, where it has one.
    score : float or None
        The score of the words themselves, where that is not the last of the path.
    seed : int or None
        The seed of its random choices, where it has any.
    certificate : mapping or None
        The record of :class:`bowsaw.inference.fidelity.Fidelity`, where histograms were inferred.
    parameters : mapping
        The method's parameters, JSON-able.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0], [1.0], [2.0]])
    >>> merged = bs.Selection("bottleneck", "full", book, groups=np.array([0, 1, 0]))
    >>> merged.n_columns, merged.reduce(np.array([[0.25, 0.5, 0.25]])).tolist()
    (2, [[0.5, 0.5]])
    """

    method: str
    codes_with: Literal["pruned", "full"]
    codebook: Codebook
    kept: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None
    scores: tuple[float, ...] = ()
    score: float | None = None
    seed: int | None = None
    certificate: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(self.codes_with, "codes_with", ("pruned", "full"))
        if (self.kept is None) == (self.groups is None):
            raise ParameterError("a selection has either kept words or groups, and not both.")
        if self.groups is not None and (
            self.codes_with != "full" or self.groups.shape != (self.codebook.n_words,)
        ):
            raise ParameterError(
                "groups need the full codebook, and one entry for each of its words."
            )
        if (
            self.kept is not None
            and self.codes_with == "pruned"
            and not np.array_equal(self.codebook.ids, self.kept)
        ):
            raise ParameterError("a pruned codebook has the kept words, in their order.")

    @property
    def n_columns(self) -> int:
        """Columns of the histograms that the selection makes."""
        return len(self.kept) if self.groups is None else int(self.groups.max()) + 1  # type: ignore[arg-type]

    @property
    def n_coding_words(self) -> int:
        """Words that a new image's descriptors are compared with."""
        return self.codebook.n_words

    @property
    def final_score(self) -> float | None:
        """The score of the words, where there is one."""
        if self.score is not None:
            return self.score
        return self.scores[-1] if self.scores else None

    def reduce(self, histograms: NDArray[Any]) -> NDArray[Any]:
        """Turn histograms of ``codebook`` into those of the selection, ``(n_bags, n_columns)``."""
        if self.codes_with == "pruned":
            return histograms
        if self.kept is not None:
            chosen: NDArray[Any] = histograms[:, self.codebook.positions(self.kept)]
            return chosen
        assert self.groups is not None
        return add_columns(histograms, self.groups)

    def record(self) -> dict[str, Any]:
        """Return a JSON-able record of everything but the words."""
        return {
            "method": self.method,
            "codes_with": self.codes_with,
            "n_columns": self.n_columns,
            "n_coding_words": self.n_coding_words,
            "n_steps": len(self.scores),
            "score": self.final_score,
            "seed": self.seed,
            "certificate": None if self.certificate is None else dict(self.certificate),
            "parameters": json_mapping(self.parameters, "parameters"),
        }


def add_columns(histograms: NDArray[Any], groups: NDArray[np.int64]) -> NDArray[Any]:
    """Add up the columns of each group, ``(n_bags, n_groups)``; columns of -1 are left out."""
    out = np.zeros((len(histograms), int(groups.max()) + 1), dtype=histograms.dtype)
    for column in range(out.shape[1]):
        out[:, column] = histograms[:, groups == column].sum(axis=1)
    return out


# -- codes that several selectors use ------------------------------------------------------------


class SharedCodes:
    """Histograms and what-if states of one corpus under one codebook, each made once.

    Selectors of one comparison ask the same questions about the same bags and codebook. A selector
    that shares finds the same words as one that is fitted alone.
    """

    def __init__(self, codebook: Codebook, bags: Bags, max_bytes: int | None = None) -> None:
        self.codebook = codebook
        self.bags = bags
        self._max_bytes = max_bytes
        self._items: dict[tuple[Any, ...], Any] = {}

    def describes(self, codebook: Codebook, bags: Bags) -> bool:
        """Return whether it holds codes of these words and these bags."""
        return self.bags is bags and self.codebook == codebook

    def histograms(
        self, coding: Coding, sharpness: float, n_jobs: int | None = -1
    ) -> NDArray[np.float32]:
        """Return the histograms of all words, ``(n_bags, n_words)``, read-only."""

        def make() -> NDArray[np.float32]:
            found = coded(self.bags, self.codebook, coding, sharpness, n_jobs)
            found.setflags(write=False)
            return found

        found: NDArray[np.float32] = self._item(("histograms", coding, sharpness), make)
        return found

    def state(
        self,
        coding: Coding,
        transfer: str,
        sharpness: float,
        n_jobs: int | None = -1,
        verbose: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> HistogramState:
        """Return a state at any words: reset it to those that the work begins with."""
        given = dict(options or {})
        if coding == "soft":
            given["sharpness"] = sharpness
            if self._max_bytes is not None and transfer == "exact":
                given.setdefault("max_bytes", self._max_bytes)
        how: dict[str, Any] = {"coding": coding, "transfer": transfer, "n_jobs": n_jobs}
        found: HistogramState = self._item(
            (transfer, coding, canonical_json(json_value(given))),
            lambda: whatif(self.codebook, self.bags, verbose=verbose, **how, **given),
        )
        return found

    def _item(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._items:
            self._items[key] = make()
        return self._items[key]


# -- the base of all selectors -------------------------------------------------------------------


class Selector(CallbackSupport, TransformerMixin, BaseEstimator):
    """Base of all methods that choose words of a codebook.

    A subclass has a ``name``, at least the parameters below, and fills in
    ``_select(bags, labels, codebook, n_kept) -> Selection``. There ``_full_histograms()`` returns
    the bags' histograms under the whole codebook. A method that does not need labels sets
    ``_needs_labels = False``.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from. An estimator such as ``KMeansCodebook(500)`` learns them from the
        bags first.
    n_kept : int, default=50
        Number of words to keep.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    sharpness : float, default=40.0
        For soft coding, as in :class:`~bowsaw.coding.bag_of_words.BagOfWords`.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.

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

    Examples
    --------
    >>> from bowsaw.selection import Selection, Selector
    >>> class FirstWords(Selector):
    ...     name = "first"
    ...     _needs_labels = False
    ...
    ...     def _select(self, bags, labels, codebook, n_kept):
    ...         kept = codebook.ids[:n_kept]
    ...         return Selection(self.name, "pruned", codebook.only(kept), kept=kept)
    >>> FirstWords([[0.0], [1.0], [5.0]], n_kept=2).fit_transform([[[0.1], [4.0]]]).tolist()
    [[0.5, 0.5]]
    """

    name: ClassVar[str]
    """The method's name in Python, on the command line, in records and on the page."""

    _n_parts = 0
    """Parts of a fit that callbacks are notified of, at most."""
    _needs_labels = True
    _uses_bags = True
    """Whether the choice depends on the bags, so that their images can no longer test it."""
    _shared: SharedCodes
    _task: Task

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        n_jobs: int | None = -1,
    ) -> None:
        self.codebook = codebook
        self.n_kept = n_kept
        self.coding = coding
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Bags | Iterable[ArrayLike], y: ArrayLike | None = None) -> Self:
        """Choose the words.

        Parameters
        ----------
        X : Bags or list of arrays
            The bags to choose by.
        y : array-like of shape (n_bags,), optional
            Their labels; needed by supervised methods.
        """
        bags = as_bags(X)
        self._validate()
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
            offered = self.__dict__.get("_shared")
            if offered is None or not offered.describes(book, bags):
                self._shared = SharedCodes(book, bags)
            try:
                selection = self._select(bags, labels, book, n_kept)
            finally:
                del self._shared, self._task
            if self._uses_bags and selection.codes_with == "pruned":
                selection = replace(selection, codebook=selection.codebook.learned_from(bags))
            self.selection_ = selection
            self.codebook_ = selection.codebook
            self.n_features_in_ = bags.n_dims
            self.n_features_out_ = selection.n_columns
        return self

    def _fit_shared(
        self, bags: Bags, y: ArrayLike | None, shared: SharedCodes, **more: Any
    ) -> Self:
        """Fit with codes that other selectors use too; they change the time alone."""
        self._shared = shared
        try:
            self.fit(bags, y, **more)
        finally:
            self.__dict__.pop("_shared", None)
        return self

    def _validate(self) -> None:
        """Check the parameters that need no data; subclasses add theirs."""
        if self.codebook is None:
            raise ParameterError(
                "codebook must be words, or an estimator that learns them; got None. Give a "
                "Codebook, or KMeansCodebook(1000)."
            )
        check_choice(self.coding, "coding", ("hard", "soft"))
        check_sharpness(self.sharpness)

    def _shows(self) -> bool:
        """Return whether to draw bars: ``verbose``, and no callback draws."""
        return bool(getattr(self, "verbose", False)) and not self._task.observed

    def _full_histograms(self) -> NDArray[np.float32]:
        """Return the bags' histograms under the whole codebook, ``(n_bags, n_words)``."""
        return self._shared.histograms(self.coding, self.sharpness, self.n_jobs)

    def _subset(self, codebook: Codebook, taken: NDArray[np.int64], **more: Any) -> Selection:
        """Return the selection of words at some positions, in the order of the codebook."""
        kept = codebook.ids[np.sort(taken)]
        words = codebook.only(kept)
        return Selection(self.name, "pruned", codebook=words, kept=kept, **more)

    @abstractmethod
    def _select(
        self, bags: Bags, labels: NDArray[np.int64] | None, codebook: Codebook, n_kept: int
    ) -> Selection:
        """Choose words; labels are integers from 0."""

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


def check_transfer_options(coding: str, transfer: str, options: Any) -> dict[str, Any]:
    """Return the options of a what-if state as a dict, or raise a ParameterError."""
    if options is not None and not isinstance(options, Mapping):
        raise ParameterError(f"transfer_options must be a mapping or None; got {options!r}.")
    found = dict(options or {})
    if "sharpness" in found:
        raise ParameterError("sharpness is a parameter of the selector, not of transfer_options.")
    return check_transfer(coding, transfer, **found)


def work_fingerprint(
    selector: Selector, codebook: Codebook, bags: Bags, labels: NDArray[np.int64], seed: int
) -> dict[str, Any]:
    """Return everything that a fit depends on, for its checkpoint; empty where it has none."""
    if getattr(selector, "checkpoint", None) is None:
        return {}
    settings = describe(selector)
    settings.pop("random_state", None)
    return {
        **settings,
        "codebook": codebook.digest,
        "bags": bags.digest(),
        "labels": hashlib.sha256(labels.tobytes()).hexdigest(),
        "seed": seed,
        "version": __version__,
    }


def describe(value: Any) -> Any:
    """Return an estimator, a score or a parameter as JSON, without what does not matter."""
    if isinstance(value, BaseEstimator):
        found = value.get_params(deep=False)
        named = {name: describe(found[name]) for name in sorted(found.keys() - _NO_EFFECT)}
        return {"class": type(value).__name__, **named}
    if isinstance(value, Score):
        public = {name: v for name, v in vars(value).items() if "_" not in (name[0], name[-1])}
        return [type(value).__name__, json_value(public)]
    return json_value(value)


_NO_EFFECT = {"codebook", "n_jobs", "verbose", "checkpoint"}


def check_n_kept(n_kept: object, n_words: int) -> int:
    """Return ``n_kept`` as an int from 1 to ``n_words``, or raise a ParameterError."""
    remedy = f"The codebook has {n_words} words: train a larger one or ask for fewer."
    return check_int(n_kept, "n_kept", 1, n_words, remedy=remedy)
