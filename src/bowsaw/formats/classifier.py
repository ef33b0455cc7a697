"""Linear classifiers of histograms: plain numbers, and the files that hold them.

An estimator can only be stored as a pickle, which can run any code. A ``LinearModel`` is plain
numbers. For a histogram h:

    scores = W (scale · m(h)) + b,    m(h) = √h or h,

and the class with the largest score wins. With two classes there is one machine; its score counts
for the second class, and its negative for the first.

**Invariants.** A model decides as the estimator that it was taken from, to the bit where that
computes in float64 (the memory order of the weights is kept, since the order in which BLAS sums
depends on it). It belongs to one codebook and refuses another. An estimator is accepted only if its
decisions on some histograms agree with the formula.

**The file** is safetensors. Tensors: ``weights`` float64 ``(n_machines, n_words)`` and
``intercepts`` float64 ``(n_machines,)``. Metadata, all text: ``format`` ("bowsaw-classifier"),
``format_version`` ("1"), ``classes`` (a JSON list), ``mapping``, ``scale``, ``coding``,
``sharpness`` (JSON, null for hard coding), ``codebook`` (its digest), ``order`` (memory order of
the weights, C or F), as JSON ``description`` and ``provenance``, and ``digest``, the SHA-256 of all
the rest. Equal models give equal bytes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.checkpoint import begins_as, tensors_digest, write_tensors
from bowsaw.codebook import Codebook, as_codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.coding.soft import check_sharpness
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import BowsawError, DataError, FormatError, MismatchError, ParameterError
from bowsaw.formats.reader import printable
from bowsaw.formats.safetensors import tensors_of
from bowsaw.validation import (
    Description,
    as_numbers,
    canonical_json,
    check_choice,
    check_scale,
    json_mapping,
    parse_json,
)

FORMAT = "bowsaw-classifier"
VERSION = "1"
DESCRIPTORS = ("float32", "uint8")
"""Types of the descriptors that an exported recogniser accepts."""

_N_PROBES = 8

Label = str | int | float | bool


class LinearModel:
    """A linear classifier of histograms: its numbers, and the codebook they belong to.

    Parameters
    ----------
    weights : array-like of shape (n_classes, n_words), or (1, n_words) for two classes
        Weights of the mapped and scaled histograms, float64.
    intercepts : array-like of shape (n_classes,) or (1,)
        One constant per machine.
    classes : sequence of str, int, float or bool
        Distinct labels of one type, in the order of the weights.
    mapping : {"sqrt", "raw"}, default="sqrt"
        Applied to each entry first: its (signed) square root, or nothing.
    scale : float, default=1.0
        Factor of the mapped histograms.
    coding : {"hard", "soft"}, default="hard"
        How the histograms are made.
    sharpness : float, optional
        Sharpness of soft coding.
    codebook : str
        The digest of the histograms' codebook, ``Codebook.digest``.
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
        shape, one_each = self.weights.shape, self.intercepts.shape
        if len(shape) != 2 or shape[0] != n_machines or not shape[1]:
            raise DataError(
                f"weights must be ({n_machines}, n_words) for {len(self.classes)} classes; got "
                f"shape {shape}."
            )
        if one_each != (n_machines,):
            raise DataError(f"intercepts must have shape ({n_machines},); got shape {one_each}.")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.intercepts).all()):
            raise DataError("weights and intercepts must be finite; some are NaN or infinite.")
        if not isinstance(codebook, str) or not codebook:
            raise ParameterError(f"codebook must be a digest, Codebook.digest; got {codebook}.")
        self.mapping: str = check_choice(mapping, "mapping", ("sqrt", "raw"))
        self.scale = check_scale(scale)
        self.coding: Literal["hard", "soft"] = check_choice(coding, "coding", ("hard", "soft"))
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
        """Return the model of a fitted estimator.

        Parameters
        ----------
        classifier : estimator
            ``HistogramClassifier``, ``LinearSVC``, ``LogisticRegression`` or another with a linear
            decision, alone or after a square root in a ``Pipeline``
            (``FunctionTransformer(np.sqrt)``), which may begin with a ``BagOfWords``.
        coder : BagOfWords or Codebook, optional
            What made the histograms; a codebook means hard coding. Not needed for a pipeline that
            begins with a ``BagOfWords``.
        provenance : mapping, optional
            How it was made; JSON-able.

        Examples
        --------
        >>> import bowsaw as bs
        >>> svm = bs.HistogramClassifier(C=1.0).fit([[1.0, 0.0], [0.0, 1.0]], ["low", "high"])
        >>> LinearModel.of(svm, bs.Codebook([[0.0], [1.0]]))
        LinearModel(2 classes, 2 words, hard coding)
        """
        last, rooted, inner = _steps_of(classifier)
        if inner is not None and coder is not None:
            raise ParameterError(
                "the pipeline begins with a BagOfWords, and coder is another. Leave coder out."
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
            # Without an intercept, LinearSVC has the scalar 0.
            np.broadcast_to(np.atleast_1d(last.intercept_), (len(coef),)),
            np.asarray(last.classes_).tolist(),
            mapping="sqrt" if rooted else mapping,
            scale=float(getattr(last, "scale_", 1.0)),
            coding=bow.coding,
            sharpness=sharpness_of(bow),
            codebook=book.digest,
            description=book.description,
            provenance=provenance,
        )
        if model.n_words != book.n_words:
            raise MismatchError(
                f"the classifier was fitted to histograms of {model.n_words} words, and the "
                f"codebook has {book.n_words}. Pass the codebook of its histograms."
            )
        _check_linear(model, last, rooted)
        return model

    @property
    def n_words(self) -> int:
        """Number of words of the histograms."""
        return int(self.weights.shape[1])

    def __repr__(self) -> str:
        return (
            f"LinearModel({len(self.classes)} classes, {self.n_words} words, {self.coding} coding)"
        )

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the estimator's decisions, ``(n_samples, n_classes)``, or 1-d for two classes."""
        rows = as_numbers(X, "X")
        if rows.ndim != 2 or rows.shape[1] != self.n_words:
            raise DataError(
                f"X must be histograms of {self.n_words} words, one per row; got {rows.shape}."
            )
        rows = rows.astype(np.float64, copy=False)
        if self.mapping == "sqrt":
            rows = np.copysign(np.sqrt(np.abs(rows)), rows)
        if self.scale != 1.0:
            rows = rows * self.scale
        found: NDArray[np.float64] = rows @ self.weights.T + self.intercepts
        return found[:, 0] if found.shape[1] == 1 else found

    def scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return one score per class, ``(n_samples, n_classes)``, also for two classes."""
        found = self.decision_function(X)
        return np.stack([-found, found], axis=1) if found.ndim == 1 else found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each histogram, ``(n_samples,)``; the first of equal scores."""
        return np.asarray(np.array(self.classes)[np.argmax(self.scores(X), axis=1)])

    def coder(self, codebook: Codebook | ArrayLike, *, n_jobs: int | None = -1) -> BagOfWords:
        """Return the coder of this model's histograms, or refuse another codebook."""
        book = as_codebook(codebook).with_description(self.description)
        if book.digest != self.codebook:
            raise MismatchError(
                f"the classifier was fitted to histograms of other words (digest "
                f"{self.codebook[:12]}) than the codebook's (digest {book.digest[:12]}). "
                "Pass the codebook that it was fitted with, or fit it again with 'bowsaw fit'."
            )
        coder = BagOfWords(book, coding=self.coding, n_jobs=n_jobs)
        return coder if self.sharpness is None else coder.set_params(sharpness=self.sharpness)


def sift_of(codebook: Codebook) -> DenseSift | None:
    """Return the dense SIFT that words were learned from; None for other descriptors."""
    about = codebook.description or {}
    names = ("patch", "step", "max_side", "min_contrast")
    parameters: Any = {name: about.get(name) for name in names}
    try:
        sift = DenseSift(**parameters, dtype="float32" if codebook.scale == 1 else "uint8")
        sift.validate()
        return sift if sift.description() == about else None
    except (ParameterError, TypeError):
        return None


def unit_of(codebook: Codebook) -> str:
    """Return the unit in which descriptors are passed, as a phrase."""
    if codebook.scale_is_unknown:
        return "in the words' own unit, which is unknown"
    return f"of which a norm of 1 is {codebook.scale:g}"


def sharpness_of(coder: BagOfWords) -> float | None:
    """Return the sharpness of soft coding, None for hard coding."""
    return None if coder.coding == "hard" else coder.sharpness_in_use()


def about(coder: BagOfWords) -> dict[str, Any]:
    """Return what an exported recogniser says about its coding, JSON-able."""
    book = coder.words_in_use()
    return {
        "coding": coder.coding,
        "sharpness": sharpness_of(coder),
        "description": book.description,
        "codebook": book.digest,
    }


def as_coder(coder: BagOfWords | Codebook | ArrayLike | None) -> BagOfWords:
    """Return a coder; a codebook means hard coding."""
    if isinstance(coder, BagOfWords):
        return coder
    if coder is None:
        raise ParameterError(
            "coder is missing: pass the BagOfWords or the Codebook that made the histograms."
        )
    return BagOfWords(as_codebook(coder))


def as_recogniser(
    coder: BagOfWords | Codebook | ArrayLike, classifier: Any = None
) -> tuple[BagOfWords, LinearModel | None]:
    """Return a coder and a model that belong together; a codebook takes the model's coding.

    Devices compute in float32, so weights that it cannot hold are refused.
    """
    if classifier is None:
        return as_coder(coder), None
    model = classifier
    if not isinstance(model, LinearModel):
        has_coder = _steps_of(classifier)[2] is not None
        model = LinearModel.of(classifier, None if has_coder else coder)
    bow = coder if isinstance(coder, BagOfWords) else model.coder(coder)
    model.coder(bow.words_in_use())
    given = (bow.coding, sharpness_of(bow))
    if given != (model.coding, model.sharpness):
        raise MismatchError(
            f"the classifier was fitted to {model.coding} codes of sharpness {model.sharpness}, "
            f"and the coder gives {given[0]} codes of sharpness {given[1]}. Pass the codebook "
            "alone: it is then coded as the classifier needs."
        )
    largest = max(np.abs(model.weights).max() * model.scale, np.abs(model.intercepts).max())
    if largest > np.finfo(np.float32).max:
        raise DataError(
            f"weights must be finite in float32, and the largest is {largest:.3g}. Fit the "
            "classifier again with a smaller C."
        )
    return bow, model


def _checked_classes(classes: Sequence[Label]) -> tuple[Label, ...]:
    names = tuple(classes)
    types = {type(name) for name in names}
    got = str(names)[:80]
    if len(types) != 1 or not types <= {str, int, float, bool} or len(set(names)) < len(names):
        raise DataError(f"classes must be distinct strings, or distinct numbers; got {got}.")
    labels = np.array(names)
    finite = labels.dtype.kind in "Uib" or (labels.dtype.kind == "f" and np.isfinite(labels).all())
    if len(names) < 2 or not finite:
        raise DataError(
            f"there must be at least 2 classes, of finite numbers within 64 bits; got {got}."
        )
    return names


def _steps_of(classifier: Any) -> tuple[Any, bool, BagOfWords | None]:
    """Return the last step of a pipeline, whether a square root precedes it, and its coder."""
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
                f"the pipeline's step {name!r} ({type(step).__name__}) cannot be exported; a "
                "square root, FunctionTransformer(np.sqrt), can. Fit the classifier without it."
            )
    return steps[-1][1], rooted, coder


def _check_linear(model: LinearModel, last: Any, rooted: bool) -> None:
    """Refuse an estimator whose decisions on some histograms differ from the model's."""
    drawn = np.random.default_rng(0).random((_N_PROBES, model.n_words)) ** 3
    probes = drawn / drawn.sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        # An estimator fitted to a data frame warns about missing column names.
        warnings.simplefilter("ignore", UserWarning)
        theirs = np.asarray(last.decision_function(np.sqrt(probes) if rooted else probes))
    ours = model.decision_function(probes)
    size = np.abs(model.weights).max() * model.scale + np.abs(model.intercepts).max()
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-6, atol=1e-6 * size):
        raise ParameterError(
            f"{type(last).__name__} does not decide by its coef_ and intercept_ alone. Fit a "
            "HistogramClassifier, LinearSVC or LogisticRegression."
        )


def save_classifier(
    classifier: Any,
    path: str | PathLike[str],
    coder: BagOfWords | Codebook | ArrayLike | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a classifier of histograms, atomically.

    Parameters
    ----------
    classifier : LinearModel or estimator
        As `LinearModel.of` takes it.
    path : path-like
        The file, usually ``.safetensors``.
    coder : BagOfWords or Codebook, optional
        What made the histograms. Not needed for a ``LinearModel``, nor for a pipeline that begins
        with a ``BagOfWords``.
    provenance : mapping, optional
        How the estimator was made; JSON-able. A ``LinearModel`` has its own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> book = bs.Codebook([[0.0], [1.0]])
    >>> svm = bs.HistogramClassifier(C=1.0).fit([[1.0, 0.0], [0.0, 1.0]], ["low", "high"])
    >>> file = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> save_classifier(svm, file, book)
    >>> load_classifier(file).predict([[0.9, 0.1]]).tolist()
    ['low']
    """
    if isinstance(classifier, LinearModel):
        model = classifier
        if coder is not None:
            as_recogniser(coder, model)
    else:
        model = LinearModel.of(classifier, coder, provenance=provenance)
    metadata = {
        "format": FORMAT,
        "format_version": VERSION,
        "classes": json.dumps(list(model.classes)),
        **{name: getattr(model, name) for name in ("mapping", "coding", "codebook")},
        "scale": repr(model.scale),
        "sharpness": json.dumps(model.sharpness),
        "order": "C" if model.weights.flags.c_contiguous else "F",
        "description": canonical_json(model.description),
        "provenance": json.dumps(model.provenance, sort_keys=True),
    }
    weights = np.ascontiguousarray(model.weights)
    write_tensors(path, {"weights": weights, "intercepts": model.intercepts}, metadata)


def load_classifier(path: str | PathLike[str]) -> LinearModel:
    """Read a classifier, or raise a FormatError that says why the file is not one.

    Parameters
    ----------
    path : path-like
        A file of `save_classifier`, which has an example.
    """
    source = Path(path)
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make a classifier with 'bowsaw fit'.")
    try:
        with source.open("rb") as file:
            return _model(*tensors_of(file))
    except (BowsawError, KeyError, OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{source} cannot be read as a classifier: {error}. Make one with 'bowsaw fit'."
        ) from error


def is_classifier(path: str | PathLike[str]) -> bool:
    """Return whether a file begins as a classifier; it may be damaged."""
    return begins_as(FORMAT, Path(path))


def _model(
    tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str], refused: Mapping[str, str]
) -> LinearModel:
    title = metadata.get("format", "safetensors file of another tool")
    version = printable(metadata.get("format_version"))
    if title != FORMAT:
        raise FormatError(f"it is a {printable(title, 40)}")
    if version != VERSION:
        raise FormatError(f"it has format {version}, and this version of bowsaw reads {VERSION}")
    if refused or set(tensors) != {"weights", "intercepts"}:
        reasons = "".join(f"; {name} is refused: {reason}" for name, reason in refused.items())
        names = sorted({*tensors, *refused})
        raise FormatError(f"it holds the tensors {printable(f'{names}{reasons}', 200)}")
    if metadata.pop("digest", None) != tensors_digest(tensors, metadata):
        raise FormatError("its content does not match its checksum")
    weights = tensors["weights"]
    return LinearModel(
        np.asfortranarray(weights) if metadata["order"] == "F" else weights,
        tensors["intercepts"],
        json.loads(metadata["classes"]),
        **{name: metadata[name] for name in ("mapping", "coding", "codebook")},
        scale=float(metadata["scale"]),
        sharpness=json.loads(metadata["sharpness"]),
        description=parse_json(metadata["description"]),
        provenance=json.loads(metadata["provenance"]),
    )
