"""Linear classifiers of histograms as safetensors files.

Tensors: ``weights`` float64 ``(n_machines, n_words)`` and ``intercepts`` float64 ``(n_machines,)``.
Metadata, all text: ``format`` ("bowsaw-classifier"), ``format_version`` ("1"), ``classes`` (a JSON
list), ``mapping``, ``scale``, ``coding``, ``sharpness`` (JSON, null for hard coding), ``codebook``
(the digest of the words), ``order`` (how the weights lie in memory, C or F), as JSON
``description`` (what made the descriptors) and ``provenance``, and ``digest``, the SHA-256 of all
the rest.

Reading runs nothing, and takes no more memory than the file has bytes. Equal models give equal
bytes, and what is read back decides like what was written, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import BowsawError, FormatError
from bowsaw.formats.bounded import shown
from bowsaw.formats.linear_model import LinearModel, as_recogniser
from bowsaw.formats.safetensors import metadata_of, tensors_digest, tensors_of, write_tensors
from bowsaw.validation import canonical_json

FORMAT = "bowsaw-classifier"
VERSION = "1"


def save_classifier(
    classifier: Any,
    path: str | PathLike[str],
    coder: BagOfWords | Codebook | ArrayLike | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a classifier of histograms; the file appears whole or not at all.

    Parameters
    ----------
    classifier : LinearModel or estimator
        As `LinearModel.of` takes it.
    path : path-like
        The file, by custom ``.safetensors``.
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
    tensors = {"weights": model.weights, "intercepts": model.intercepts}
    metadata = {
        "format": FORMAT,
        "format_version": VERSION,
        "classes": json.dumps(list(model.classes)),
        "mapping": model.mapping,
        "scale": repr(model.scale),
        "coding": model.coding,
        "sharpness": json.dumps(model.sharpness),
        "codebook": model.codebook,
        "order": "C" if model.weights.flags.c_contiguous else "F",
        "description": canonical_json(model.description),
        "provenance": json.dumps(model.provenance, sort_keys=True),
    }
    tensors["weights"] = np.ascontiguousarray(model.weights)
    write_tensors(tensors, metadata, path)


def load_classifier(path: str | PathLike[str]) -> LinearModel:
    """Read a classifier, or raise a FormatError that says why the file is not one."""
    source = Path(path)
    if not source.is_file():
        raise FormatError(f"{source} is not a file. Make a classifier with «bowsaw fit».")
    try:
        with source.open("rb") as file:
            return _model(*tensors_of(file))
    except (BowsawError, KeyError, OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{source} cannot be read as a classifier: {error}. Make one with «bowsaw fit»."
        ) from error


def is_classifier(path: str | PathLike[str]) -> bool:
    """Return whether a file says that it is a classifier; a damaged one may say so, too."""
    try:
        with Path(path).open("rb") as file:
            return metadata_of(file).get("format") == FORMAT
    except FormatError:
        return False


def _model(
    tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str], refused: Mapping[str, str]
) -> LinearModel:
    if metadata.get("format") != FORMAT:
        kind = shown(metadata.get("format", "safetensors file of others"), 40)
        raise FormatError(f"it is a {kind}")
    if metadata.get("format_version") != VERSION:
        raise FormatError(
            f"it has format {shown(metadata.get('format_version'))}, and this version of bowsaw "
            f"reads {VERSION}"
        )
    if refused or set(tensors) != {"weights", "intercepts"}:
        reasons = "".join(f"; {name} is refused: {reason}" for name, reason in refused.items())
        told = shown(f"{sorted({*tensors, *refused})}{reasons}", 200)
        raise FormatError(f"it holds tensors {told}")
    if metadata.pop("digest", None) != tensors_digest(tensors, metadata):
        raise FormatError("its content does not match its checksum")
    weights = tensors["weights"]
    return LinearModel(
        np.asfortranarray(weights) if metadata["order"] == "F" else weights,
        tensors["intercepts"],
        json.loads(metadata["classes"]),
        mapping=metadata["mapping"],
        scale=float(metadata["scale"]),
        coding=metadata["coding"],
        sharpness=json.loads(metadata["sharpness"]),
        codebook=metadata["codebook"],
        description=json.loads(metadata["description"]),
        provenance=json.loads(metadata["provenance"]),
    )
