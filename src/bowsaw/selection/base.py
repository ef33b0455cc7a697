"""What all selectors share: their interface, their result, and codes made once for several of them.

A selector keeps some words of a codebook, or merges all words into groups. Either way histograms
have fewer columns, but the cost of coding a new image depends on *which codebook codes it*:

- ``codes_with="pruned"``: the kept words alone; the large codebook can be deleted;
- ``codes_with="full"``: all words; columns of their histogram are kept (ranking) or added up
  (merging).
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bowsaw._version import __version__
from bowsaw.bags import Bags, as_bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import coded, learns, words_from
from bowsaw.coding.soft import check_sharpness
from bowsaw.errors import DataError, Interrupted, ParameterError
from bowsaw.inference.state import HistogramState
from bowsaw.inference.whatif import check_transfer, whatif
from bowsaw.progress import CallbackSupport, Progress, Task, fit_task, with_callbacks
from bowsaw.scores.base import Score
from bowsaw.validation import (
    ComparedByValue,
    canonical_json,
    check_choice,
    check_int,
    check_labels,
    check_length,
    json_mapping,
    json_value,
)

Coding = Literal["hard", "soft"]
Labels = NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Selection(ComparedByValue):
    """The words that a method chose, and how to code with them.

    Attributes
    ----------
    method : str
        The method's name.
    codes_with, codebook : {"pruned", "full"}, Codebook
        Which codebook codes a new image: the kept words, or all words.
    kept : ndarray of int64, shape (n_kept,), or None
        Ids of the kept words in the order of the columns; None for a merge.
    groups : ndarray of int64, shape (n_words,), or None
        For a merge, the column that each word is added to; -1 for words that are set aside.
    scores, score : tuple of float, float or None
        The path of the method's score, and the score of the words where that is not its last.
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
        pruned, book = self.codes_with == "pruned", self.codebook
        if (self.kept is None) == (self.groups is None):
            raise ParameterError("a selection has either kept words or groups, and not both.")
        if self.groups is not None and (pruned or self.groups.shape != (book.n_words,)):
            raise ParameterError("groups need the full codebook, and one entry per word.")
        if self.kept is not None and pruned and not np.array_equal(book.ids, self.kept):
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
        return self.score if self.score is not None or not self.scores else self.scores[-1]

    def reduce(self, histograms: NDArray[Any]) -> NDArray[Any]:
        """Turn histograms of ``codebook`` into those of the selection, ``(n_bags, n_columns)``."""
        if self.codes_with == "pruned":
            return histograms
        if self.groups is not None:
            return add_columns(histograms, self.groups)
        assert self.kept is not None
        return np.asarray(histograms[:, self.codebook.positions(self.kept)])

    def record(self) -> dict[str, Any]:
        """Return a JSON-able record of everything but the words."""
        names = ("method", "codes_with", "n_columns", "n_coding_words")
        return {
            **{name: getattr(self, name) for name in names},
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


class SharedCodes:
    """Histograms and what-if states of one corpus under one codebook, each made once.

    A selector that shares them finds the same words as one that is fitted alone. ``max_bytes``
    limits the memory of exact soft states.
    """

    def __init__(self, codebook: Codebook, bags: Bags, max_bytes: int | None = None) -> None:
        self.codebook, self._max_bytes = codebook, max_bytes
        self._given, self.bags = bags, codebook.project(bags)
        self._histograms: dict[tuple[str, float], NDArray[np.float32]] = {}
        self._states: dict[str, HistogramState] = {}

    def describes(self, codebook: Codebook, bags: Bags) -> bool:
        """Return whether it holds codes of these words and these bags."""
        return (bags is self._given or bags is self.bags) and self.codebook == codebook

    def histograms(
        self, coding: Coding, sharpness: float, n_jobs: int | None = -1
    ) -> NDArray[np.float32]:
        """Return the histograms of all words, ``(n_bags, n_words)``, read-only."""
        key = (coding, sharpness)
        if key not in self._histograms:
            self._histograms[key] = coded(self.bags, self.codebook, coding, sharpness, n_jobs)
            self._histograms[key].setflags(write=False)
        return self._histograms[key]

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
        given = {"coding": coding, "transfer": transfer, **(options or {})}
        if coding == "soft":
            given["sharpness"] = sharpness
            if self._max_bytes is not None and transfer == "exact":
                given.setdefault("max_bytes", self._max_bytes)
        key = canonical_json(json_value(given))
        if key not in self._states:
            how: dict[str, Any] = {**given, "n_jobs": n_jobs, "verbose": verbose}
            self._states[key] = whatif(self.codebook, self.bags, **how)
        return self._states[key]


class Selector(CallbackSupport, TransformerMixin, BaseEstimator):
    """Base of all methods that choose words of a codebook.

    A subclass has a ``name``, the first five parameters below, and fills in
    ``_select(bags, labels, codebook, n_kept) -> Selection``. There ``_full_histograms()`` returns
    the bags' histograms under the whole codebook. A method that does not need labels sets
    ``_needs_labels = False``. The last three parameters are those of some methods.

    Parameters
    ----------
    codebook : Codebook, array-like of shape (n_words, n_dims), or estimator
        The words to choose from; an estimator such as ``KMeansCodebook(500)`` learns them first.
    n_kept : int, default=50
        Number of words to keep.
    coding : {"hard", "soft"}, default="hard"
        How descriptors are coded.
    sharpness : float, default=40.0
        For soft coding, as in :class:`~bowsaw.coding.bag_of_words.BagOfWords`.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    random_state : int, RandomState or None, default=None
        The seed of everything random: the same one keeps the same words.
    checkpoint : path-like or None, default=None
        A file to write the work to every few seconds, and others beside it. The same call, with
        an integer as ``random_state``, continues from it to the same result.
        ``bowsaw.checkpoint.remove_checkpoint`` removes it once that is saved.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    selection_ : Selection
        What was chosen, and with which codebook it codes.
    codebook_ : Codebook
        The codebook to code with: the kept words alone, or the full one.
    classes_ : ndarray
        The labels, where there were any.

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
    _n_parts = 0
    """Parts of a fit that callbacks are notified of, at most."""
    _needs_labels = True
    _uses_bags = True
    """Whether the choice depends on the bags: their images can no longer test it then."""
    _stopped = False
    """Whether a callback ended the fit early: a checkpoint of it is not complete."""
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
        """Choose the words by bags and, for supervised methods, their labels, ``(n_bags,)``."""
        bags = as_bags(X)
        self._validate()
        labels = None
        if self._needs_labels:
            self.classes_, labels = check_labels(y, len(bags))
        elif y is not None:
            check_length(np.asarray(y), len(bags))
        with fit_task(self, self._n_parts + learns(self.codebook), X=bags, y=y) as task:
            book = words_from(self.codebook, bags, y, task)
            book.project(bags)
            n_kept = check_n_kept(self.n_kept, book.n_words)
            self._task, self.n_features_in_ = task, bags.n_dims
            offered = self.__dict__.get("_shared")
            if offered is None or not offered.describes(book, bags):
                self._shared = SharedCodes(book, bags)
            bags = self._shared.bags
            try:
                with Progress("choosing words", show=self._shows()):
                    selection = self._with_images(self._select(bags, labels, book, n_kept), bags)
            except Interrupted as ended:
                raise Interrupted(self._with_images(ended.so_far, bags)) from None
            finally:
                del self._shared, self._task
            self.selection_ = selection
            self.codebook_ = selection.codebook
            self.n_features_out_ = selection.n_columns
        return self

    def _with_images(self, selection: Selection, bags: Bags) -> Selection:
        """Return a selection whose codebook records the bags that chose its words or groups."""
        if not self._uses_bags:
            return selection
        by = self.name if self._needs_labels else None
        return replace(selection, codebook=selection.codebook.learned_from(bags, selected_by=by))

    def _fit_shared(self, bags: Bags, y: ArrayLike, shared: SharedCodes, **more: Any) -> Self:
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
        how = {"method": self.name, "codes_with": "pruned", **more}
        return Selection(codebook=codebook.only(kept), kept=kept, **how)

    @abstractmethod
    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        """Choose words; labels are integers from 0."""

    def transform(self, X: Bags | Iterable[ArrayLike]) -> NDArray[np.float32]:
        """Return the histograms of new bags under the selection, ``(n_bags, n_columns)``."""
        check_is_fitted(self, "selection_")
        how = (self.coding, self.sharpness, self.n_jobs)
        return self.selection_.reduce(coded(as_bags(X), self.codebook_, *how))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns: words by id, groups by number."""
        check_is_fitted(self, "selection_")
        kept = self.selection_.kept
        kind, numbers = ("group", range(self.n_features_out_)) if kept is None else ("word", kept)
        return np.array([f"{kind}{i:04d}" for i in numbers], dtype=object)

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
    if options and "sharpness" in options:
        raise ParameterError("sharpness is a parameter of the selector, not of transfer_options.")
    return check_transfer(coding, transfer, **(options or {}))


def try_swap(state: HistogramState, remove: ArrayLike = (), add: ArrayLike = ()) -> bool:
    """Swap words; return False, and leave the state as it was, where it refuses the move."""
    try:
        state.swap(remove, add)
    except (ParameterError, DataError):
        return False
    return True


def work_checkpoint(
    selector: Any, book: Codebook, bags: Bags, labels: NDArray[np.int64], seed: int, **more: Any
) -> Checkpoint:
    """Return the checkpoint of a fit; its fingerprint is everything that the fit depends on."""
    if selector.checkpoint is None:
        return Checkpoint(None, {})
    settings = {**describe(selector), **more, "seed": seed, "version": __version__}
    settings.pop("random_state", None)
    settings["labels"] = hashlib.sha256(labels.tobytes()).hexdigest()
    settings |= {"codebook": book.digest, "bags": bags.digest()}
    return Checkpoint(selector.checkpoint, settings)


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


_NO_EFFECT = {"codebook", "n_jobs", "verbose", "checkpoint", "parallel"}


def check_n_kept(n_kept: object, n_words: int) -> int:
    """Return ``n_kept`` as an int from 1 to ``n_words``, or raise a ParameterError."""
    remedy = f"The codebook has {n_words} words: train a larger one or ask for fewer."
    return check_int(n_kept, "n_kept", 1, n_words, remedy=remedy)
