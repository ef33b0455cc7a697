"""What an experiment found: a value that says how it came about and survives as JSON.

An ``Evaluation`` holds one *record* for each split and mapping, and everything that the numbers
depend on. The JSON is one object:

==================  ==========================================================================
key                 value
==================  ==========================================================================
``format``          ``"bowsaw evaluation"``
``schema``          1; a reader refuses any other
``fingerprint``     SHA-256 of all that a split's result depends on: the parameters, the digest
                    of the data, bowsaw's version. Not the number of splits, nor of threads
``parameters``      ``seed``, ``codebook_images`` and ``train`` (images a class), ``mapping``,
                    and the settings of ``codebook``, ``coding`` and ``classifier``
``data``            ``digest`` (SHA-256), ``n_images``, ``n_descriptors``, ``n_dims``
``versions``        of ``bowsaw``, ``python``, ``numpy`` and ``scikit-learn``
``classes``         the names of the classes
``records``         one object for each split and mapping, as follows
==================  ==========================================================================

==================  ==========================================================================
of a record         value
==================  ==========================================================================
``split``           which split, from 0
``mapping``         ``"sqrt"`` or ``"raw"``
``accuracy``        mean per-class accuracy on the split's test images, 0 to 1
``class_accuracy``  of each class, in the order of ``classes``
``confusion``       counts; rows are true classes, columns predicted ones
``C``               the C of the linear machine
``C_grid``          the values it was chosen from, rising; empty when it was given
``C_scores``        the accuracy of each, on the codebook's images or by cross-validation
``n_words``         words of the codebook
``sharpness``       of soft coding; null for hard coding
``n_codebook``      images that the split sets aside for the codebook, all classes together
``n_train``         images that the classifier was trained on
``n_test``          images that it was tested on
``seconds``         ``codebook``, ``coding`` (both shared by the split's mappings) and
                    ``classifier``: the only part that differs from run to run
==================  ==========================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from bowsaw.errors import FormatError, ParameterError
from bowsaw.validation import parse_json

FORMAT = "bowsaw evaluation"
SCHEMA = 1


class Record(TypedDict):
    """The result of one mapping on one split; the module describes the keys."""

    split: int
    mapping: str
    accuracy: float
    class_accuracy: list[float]
    confusion: list[list[int]]
    C: float
    C_grid: list[float]
    C_scores: list[float]
    n_words: int
    sharpness: float | None
    n_codebook: int
    n_train: int
    n_test: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class Evaluation:
    """The accuracies of an experiment, split by split, and what they depend on.

    Attributes
    ----------
    records : list of dict
        One for each split and mapping, split by split; the module describes their keys.
    classes : tuple of str
        The names of the classes.
    parameters, data, versions : dict
        What the numbers depend on.
    fingerprint : str
        A digest of it; two evaluations with the same one have the same results, split by split.

    Examples
    --------
    >>> record = dict(split=0, mapping="raw", accuracy=0.75, class_accuracy=[1.0, 0.5],
    ...     confusion=[[2, 0], [1, 1]], C=1.0, C_grid=[], C_scores=[], n_words=9, sharpness=None,
    ...     n_codebook=2, n_train=2, n_test=4, seconds={})
    >>> result = Evaluation([record, record | dict(split=1, accuracy=0.5)], ("cat", "dog"))
    >>> result.mean("raw"), round(result.std("raw"), 3)
    (0.625, 0.177)
    >>> result.confusion("raw").tolist()
    [[4, 0], [2, 2]]
    >>> Evaluation.from_json(result.to_json()) == result
    True
    """

    records: Sequence[Record]
    classes: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def mappings(self) -> list[str]:
        """The mappings that were evaluated, in order."""
        return list(dict.fromkeys(record["mapping"] for record in self.records))

    @property
    def n_splits(self) -> int:
        """How many splits there are."""
        return len({record["split"] for record in self.records})

    def of(self, mapping: str) -> list[Record]:
        """Return the records of one mapping, split by split."""
        found = [record for record in self.records if record["mapping"] == mapping]
        if not found:
            raise ParameterError(
                f"mapping must be one of {self.mappings} (those that were evaluated); got "
                f"{mapping!r}."
            )
        return sorted(found, key=lambda record: record["split"])

    def accuracies(self, mapping: str) -> NDArray[np.float64]:
        """Return the mean per-class accuracy of each split, ``(n_splits,)``."""
        return np.array([record["accuracy"] for record in self.of(mapping)], dtype=np.float64)

    def mean(self, mapping: str) -> float:
        """Return the mean over splits of the mean per-class accuracy."""
        return float(self.accuracies(mapping).mean())

    def std(self, mapping: str) -> float:
        """Return its spread: the sample standard deviation over splits; NaN for a single split."""
        values = self.accuracies(mapping)
        return float(values.std(ddof=1)) if len(values) > 1 else math.nan

    def confusion(self, mapping: str) -> NDArray[np.int64]:
        """Return the confusion matrix summed over splits, ``(n_classes, n_classes)``."""
        counts = np.array([record["confusion"] for record in self.of(mapping)], dtype=np.int64)
        return np.asarray(counts.sum(axis=0))

    def class_accuracy(self, mapping: str) -> NDArray[np.float64]:
        """Return the mean over splits of each class's accuracy, ``(n_classes,)``."""
        shares = np.array([record["class_accuracy"] for record in self.of(mapping)])
        return np.asarray(shares.mean(axis=0))

    def table(self) -> list[dict[str, Any]]:
        """Return one row a mapping, ready to be drawn.

        Returns
        -------
        list of dict
            ``mapping``, ``n_words``, ``n_splits``, ``mean``, ``std`` (None for a single split),
            ``lowest`` and ``highest`` accuracy, and the ``C`` of each split.
        """
        rows = []
        for mapping in self.mappings:
            records, values = self.of(mapping), self.accuracies(mapping)
            rows.append(
                {
                    "mapping": mapping,
                    "n_words": records[0]["n_words"],
                    "n_splits": len(records),
                    "mean": self.mean(mapping),
                    "std": self.std(mapping) if len(records) > 1 else None,
                    "lowest": float(values.min()),
                    "highest": float(values.max()),
                    "C": [record["C"] for record in records],
                }
            )
        return rows

    def to_json(self) -> str:
        """Return the evaluation as JSON text."""
        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "parameters": self.parameters,
            "data": self.data,
            "versions": self.versions,
            "classes": list(self.classes),
            "records": list(self.records),
        }
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "the text") -> Evaluation:
        """Read an evaluation from JSON text.

        Parameters
        ----------
        text : str or bytes
            As ``to_json`` writes it.
        source : str
            Where it comes from, for the error message.

        Returns
        -------
        Evaluation
        """
        try:
            content = parse_json(text)
        except ValueError as error:
            raise FormatError(
                f"{source} is not JSON ({error}). Give a file that bowsaw evaluate has written."
            ) from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(
                f"{source} is not an evaluation. Give a file that bowsaw evaluate has written."
            )
        if content.get("schema") != SCHEMA:
            raise FormatError(
                f"{source} has schema {content.get('schema')!r}, and this bowsaw reads {SCHEMA}. "
                "Evaluate again, or use the version of bowsaw that wrote it."
            )
        try:
            records = list(content["records"])
            for record in records:
                _check_kinds(record)
            for name in ("parameters", "data", "versions"):
                # A list of pairs would pass for one.
                if not isinstance(content[name], dict):
                    raise TypeError(f"{name} is no mapping")
            if not all(isinstance(name, str) for name in content["classes"]):
                raise TypeError("classes are not texts")
            return cls(
                records,
                tuple(content["classes"]),
                dict(content["parameters"]),
                dict(content["data"]),
                dict(content["versions"]),
                str(content["fingerprint"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                f"{source} is a damaged evaluation ({error!r}). Delete it and evaluate again."
            ) from error


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("split", "n_words", "n_codebook", "n_train", "n_test"), int),
    **dict.fromkeys(("accuracy", "C"), (int, float)),
    **dict.fromkeys(("class_accuracy", "confusion", "C_grid", "C_scores"), list),
    "mapping": str,
    "sharpness": (int, float, NoneType),
    "seconds": dict,
}


def _check_kinds(record: Any) -> None:
    """Refuse a record that lacks something or has a value of another kind."""
    if missing := Record.__required_keys__ - record.keys():
        raise KeyError(*sorted(missing))
    for name, kind in _KINDS.items():
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            raise TypeError(f"{name} is {str(record[name])[:40]}")
    for name in ("class_accuracy", "confusion"):
        np.array(record[name], dtype=np.float64)
