"""What is left of a linear classifier when only its numbers are kept.

**The problem.** What recognises a picture on a device is three things: words, a coding, and a
linear machine a class. The machine is trained here, by `HistogramClassifier` or by scikit-learn,
and an estimator can only be kept as a pickle, which runs whatever somebody has put into it. A
``LinearModel`` is plain numbers that a file can hold and other languages can compute with. For a
histogram h:

    scores = W (scale · m(h)) + b,    m(h) = √h or h,

and the class with the largest score wins. With two classes there is one machine; its score counts
for the second class and minus it for the first.

**Invariants.** A model decides like the estimator that it was taken from, to the bit where that
computes in float64 (the weights lie in memory as the estimator's do, since BLAS sums in an order
that depends on it). It belongs to one codebook and refuses another. An estimator is taken only when
some histograms, decided by both, prove that it is the formula above.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.coding.soft import check_sharpness
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.validation import Description, as_numbers, json_mapping

MAPPINGS = ("sqrt", "raw")
DESCRIPTORS = ("float32", "uint8")
"""Types of the descriptors that an exported recogniser may be given."""

_PROBES = 8

Label = str | int | float | bool


class LinearModel:
    """A linear classifier of histograms: numbers, and what they belong to.

    Parameters
    ----------
    weights : array-like of shape (n_classes, n_words), or (1, n_words) for two classes
        Weights of the mapped and scaled histograms, float64.
    intercepts : array-like of shape (n_classes,) or (1,)
        The constants that are added.
    classes : sequence of str, int, float or bool
        Different labels of one kind, in the order of the weights.
    mapping : {"sqrt", "raw"}, default="sqrt"
        What is done to each entry first: its (signed) square root, or nothing.
    scale : float, default=1.0
        What mapped histograms are multiplied with.
    coding : {"hard", "soft"}, default="hard"
        How the histograms are made.
    sharpness : float, optional
        Of soft coding.
    codebook : str
        The digest of the words of the histograms, see ``words_digest``.
    description : mapping, optional
        What made the descriptors.
    provenance : mapping, optional
        How the model was made; JSON-able.

    Examples
    --------
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0], [1.0]])
    >>> model = LinearModel([[-1.0, 1.0]], [0.0], ["low", "high"], codebook=book.digest)
    >>> model.predict(model.coder(book).transform([[[0.1], [0.2]], [[0.9]]])).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        weights: ArrayLike,
        intercepts: ArrayLike,
        classes: Sequence[Label],
        *,
        codebook: str,
        mapping: str = "sqrt",
        scale: float = 1.0,
        coding: str = "hard",
        sharpness: float | None = None,
        description: Description | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.weights = np.array(as_numbers(weights, "weights"), dtype=np.float64, order="K")
        self.intercepts = np.array(as_numbers(intercepts, "intercepts"), dtype=np.float64)
        self.classes = _checked_classes(classes)
        n_machines = 1 if len(self.classes) == 2 else len(self.classes)
        if self.weights.ndim != 2 or len(self.weights) != n_machines or not self.weights.size:
            raise DataError(
                f"weights must be ({n_machines}, n_words) for {len(self.classes)} classes; got "
                f"shape {self.weights.shape}."
            )
        if self.intercepts.shape != (n_machines,):
            raise DataError(
                f"intercepts must be {n_machines}, one a machine; got shape "
                f"{self.intercepts.shape}."
            )
        if not (np.isfinite(self.weights).all() and np.isfinite(self.intercepts).all()):
            raise DataError("weights and intercepts must be finite; some are NaN or infinite.")
        if mapping not in MAPPINGS:
            raise ParameterError(f"mapping must be one of {list(MAPPINGS)}; got {mapping!r}.")
        if not 0 < scale < math.inf:
            raise ParameterError(f"scale must be a finite number above 0; got {scale!r}.")
        if coding not in ("hard", "soft"):
            raise ParameterError(f"coding must be 'hard' or 'soft'; got {coding!r}.")
        if not isinstance(codebook, str) or not codebook:
            raise ParameterError(f"codebook must be a digest, as words_digest has; got {codebook}.")
        self.mapping = mapping
        self.scale = float(scale)
        self.coding: Literal["hard", "soft"] = "hard" if coding == "hard" else "soft"
        self.sharpness = None if coding == "hard" else check_sharpness(sharpness)
        self.codebook = codebook
        self.description = json_mapping(description, "description")
        self.provenance = json_mapping(provenance, "provenance") or {}
        for value in (self.weights, self.intercepts):
            value.setflags(write=False)

    @classmethod
    def of(
        cls,
        classifier: Any,
        coder: BagOfWords | Codebook | ArrayLike | None = None,
        *,
        provenance: Mapping[str, Any] | None = None,
    ) -> Self:
        """Take the numbers out of a fitted estimator.

        Parameters
        ----------
        classifier : estimator
            ``HistogramClassifier``, ``LinearSVC``, ``LogisticRegression`` or another whose decision
            is linear, alone or behind a square root in a ``Pipeline``
            (``FunctionTransformer(np.sqrt)``), which may begin with a ``BagOfWords``.
        coder : BagOfWords or Codebook, optional
            What made the histograms; a codebook stands for hard coding. Not needed for a pipeline
            that begins with a ``BagOfWords``.
        provenance : mapping, optional
            How it was made; JSON-able.

        Examples
        --------
        >>> import bowsaw as bs
        >>> svm = bs.HistogramClassifier(C=1.0).fit([[1.0, 0.0], [0.0, 1.0]], ["low", "high"])
        >>> LinearModel.of(svm, bs.Codebook([[0.0], [1.0]]))
        LinearModel(2 classes, 2 words, hard coding)
        """
        last, rooted, inner = _taken_apart(classifier)
        if inner is not None and coder is not None:
            raise ParameterError(
                "the pipeline begins with a BagOfWords, and coder names another. Leave coder out."
            )
        bow = as_coder(inner if coder is None else coder)
        book = bow.words_in_use()
        if not all(hasattr(last, name) for name in ("coef_", "intercept_", "classes_")):
            raise ParameterError(
                f"{type(last).__name__} has no coef_, intercept_ and classes_: it is not fitted, "
                "or not linear. Fit a HistogramClassifier, LinearSVC or LogisticRegression."
            )
        mapping = getattr(last, "mapping", "raw")
        if rooted and mapping == "sqrt":
            raise ParameterError(
                "the pipeline takes the square root twice: its classifier has mapping='sqrt'. Drop "
                "the step before it, or choose mapping='raw'."
            )
        coef = np.atleast_2d(np.asarray(last.coef_))
        model = cls(
            coef,
            # Without an intercept, LinearSVC has the number 0.
            np.broadcast_to(np.atleast_1d(last.intercept_), (len(coef),)),
            np.asarray(last.classes_).tolist(),
            mapping="sqrt" if rooted else mapping,
            scale=float(getattr(last, "scale_", 1.0)),
            coding=bow.coding,
            sharpness=None if bow.coding == "hard" else bow.sharpness_in_use(),
            codebook=book.digest,
            description=book.description,
            provenance=provenance,
        )
        if model.n_words != book.n_words:
            raise MismatchError(
                f"the classifier was fitted to histograms of {model.n_words} words, and the "
                f"codebook has {book.n_words}. Give the codebook of its histograms."
            )
        _prove(model, last, rooted)
        return model

    @property
    def n_words(self) -> int:
        """Words of the histograms."""
        return int(self.weights.shape[1])

    def __repr__(self) -> str:
        return (
            f"LinearModel({len(self.classes)} classes, {self.n_words} words, {self.coding} coding)"
        )

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return what the fitted estimator returned for histograms ``(n_samples, n_words)``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
        """
        rows = as_numbers(X, "X")
        if rows.ndim != 2 or rows.shape[1] != self.n_words:
            raise DataError(
                f"X must be histograms of {self.n_words} words, one a row; got shape {rows.shape}."
            )
        rows = rows.astype(np.float64, copy=False)
        if self.mapping == "sqrt":
            rows = np.copysign(np.sqrt(np.abs(rows)), rows)
        if self.scale != 1.0:
            rows = rows * self.scale
        found: NDArray[np.float64] = rows @ self.weights.T + self.intercepts
        return found[:, 0] if found.shape[1] == 1 else found

    def scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return one score a class, ``(n_samples, n_classes)``, also for two classes."""
        found = self.decision_function(X)
        return np.stack([-found, found], axis=1) if found.ndim == 1 else found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each histogram, ``(n_samples,)``; the first of equal scores."""
        best = np.argmax(self.scores(X), axis=1)
        return np.asarray(np.array(self.classes)[best])

    def coder(self, codebook: Codebook | ArrayLike, *, n_jobs: int | None = -1) -> BagOfWords:
        """Return the coder of this model's histograms, or refuse another codebook."""
        book = as_codebook(codebook).with_description(self.description)
        if book.digest != self.codebook:
            raise MismatchError(
                f"the classifier was fitted to histograms of other words (digest "
                f"{self.codebook[:12]}) than the codebook's (digest {book.digest[:12]}). "
                "Give the codebook that it was fitted with, or fit it anew with «bowsaw fit»."
            )
        if self.sharpness is None:
            return BagOfWords(book, coding=self.coding, n_jobs=n_jobs)
        return BagOfWords(book, coding=self.coding, sharpness=self.sharpness, n_jobs=n_jobs)


def unit_of(codebook: Codebook) -> str:
    """Return what whoever hands over descriptors has to know of their unit.

    Examples
    --------
    >>> unit_of(Codebook([[1.0]], scale=512))
    'of which a norm of 1 is 512'
    """
    if codebook.scale_is_unknown:
        return "in the words' own unit, which is unknown"
    return f"of which a norm of 1 is {codebook.scale:g}"


def as_coder(coder: BagOfWords | Codebook | ArrayLike | None) -> BagOfWords:
    """Return a coder; a codebook stands for hard coding with it."""
    if isinstance(coder, BagOfWords):
        return coder
    if coder is None:
        raise ParameterError(
            "coder is missing: name the BagOfWords or the Codebook that made the histograms."
        )
    return BagOfWords(as_codebook(coder))


def as_recogniser(
    coder: BagOfWords | Codebook | ArrayLike, classifier: Any = None
) -> tuple[BagOfWords, LinearModel | None]:
    """Return a coder and a model that belong together, or say why they do not.

    A codebook beside a ``LinearModel``, or beside a pipeline with a coder of its own, is coded with
    as these say.
    """
    if classifier is None:
        return as_coder(coder), None
    if not isinstance(classifier, LinearModel):
        if _taken_apart(classifier)[2] is None:
            return as_coder(coder), LinearModel.of(classifier, coder)
        classifier = LinearModel.of(classifier)
    if not isinstance(coder, BagOfWords):
        return classifier.coder(coder), classifier
    expected = classifier.coder(coder.words_in_use())
    given = (coder.coding, None if coder.coding == "hard" else coder.sharpness_in_use())
    if given != (expected.coding, classifier.sharpness):
        raise MismatchError(
            f"the classifier was fitted to {classifier.coding} codes of sharpness "
            f"{classifier.sharpness}, and the coder gives {given[0]} codes of sharpness {given[1]}."
            " Give the codebook alone, and it is coded with as the classifier needs."
        )
    return coder, classifier


def _checked_classes(classes: Sequence[Label]) -> tuple[Label, ...]:
    names = tuple(classes)
    kinds = {type(name) for name in names}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool} or len(set(names)) < len(names):
        raise DataError(
            f"classes must be different texts, or different numbers; got {str(names)[:80]}."
        )
    labels = np.array(names)
    finite = labels.dtype.kind in "Uib" or (labels.dtype.kind == "f" and np.isfinite(labels).all())
    if len(names) < 2 or not finite:
        raise DataError(
            "classes must be at least 2, and numbers finite and within 64 bits; got "
            f"{str(names)[:80]}."
        )
    return names


def _taken_apart(classifier: Any) -> tuple[Any, bool, BagOfWords | None]:
    """Return the last step of a pipeline, whether a square root is before it, and its coder."""
    steps = getattr(classifier, "steps", None)
    if steps is None:
        return classifier, False, None
    rooted, coder = False, None
    for place, (name, step) in enumerate(steps[:-1]):
        if isinstance(step, BagOfWords) and place == 0:
            coder = step
        elif getattr(step, "func", None) is np.sqrt and not rooted:
            rooted = True
        elif step is not None and step != "passthrough":
            raise ParameterError(
                f"the pipeline's step {name!r} ({type(step).__name__}) cannot be kept; a square "
                "root, FunctionTransformer(np.sqrt), can. Fit the classifier without it."
            )
    return steps[-1][1], rooted, coder


def _prove(model: LinearModel, last: Any, rooted: bool) -> None:
    """Refuse an estimator that decides about some histograms otherwise than the model."""
    drawn = np.random.default_rng(0).random((_PROBES, model.n_words)) ** 3
    probes = drawn / drawn.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        # An estimator that was fitted to a table misses the names of its columns.
        warnings.simplefilter("ignore", UserWarning)
        theirs = np.asarray(last.decision_function(np.sqrt(probes) if rooted else probes))
    ours = model.decision_function(probes)
    size = np.abs(model.weights).max() * model.scale + np.abs(model.intercepts).max()
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-6, atol=1e-6 * size):
        raise ParameterError(
            f"{type(last).__name__} does not decide by its coef_ and intercept_ alone. Fit a "
            "HistogramClassifier, LinearSVC or LogisticRegression."
        )
