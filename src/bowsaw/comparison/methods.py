"""The methods of a comparison, by name.

Every method gets the same full codebook, training images, coding and seed. ``codes_with`` shows
whether it codes new images with the words that it kept ("pruned") or with all words ("full"): a
comparison by columns alone would hide that.

A method is an estimator: a template that is cloned and given ``codebook``, ``n_kept``, ``coding``,
``sharpness``, ``random_state`` and ``n_jobs``, as far as it has such parameters. Two methods have
no template: ``full`` keeps every word, and ``kmeans`` trains the small size on the images that the
full codebook was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from sklearn.base import clone

from bowsaw.errors import ParameterError, did_you_mean
from bowsaw.evaluation.path import PruningPath
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.baselines import FarthestPoint, RandomSubset
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.merging import Bottleneck
from bowsaw.selection.ranking import PresenceRanking
from bowsaw.selection.refinement import Refinement
from bowsaw.validation import json_value

FULL, KMEANS, GIVEN = "full", "kmeans", "given"
_GIVEN_PARAMETERS = ("codebook", "n_kept", "coding", "sharpness", "random_state", "n_jobs")
_NOT_SETTINGS = {*_GIVEN_PARAMETERS, "verbose", "checkpoint", "parallel"}


@dataclass(frozen=True)
class Method:
    """A method of a comparison.

    Attributes
    ----------
    name : str
        Its name in Python, on the command line, in records and on the page.
    title : str
        Its name for readers.
    summary : str
        One sentence of description.
    codes_with : {"pruned", "full"}
        The codebook that a new image is compared with.
    estimator : object or None
        The unfitted template; None for those that are no selectors.
    ours : bool
        Whether it is bowsaw's own.
    reference : str or None
        Its origin.
    """

    name: str
    title: str
    summary: str
    codes_with: Literal["pruned", "full"]
    estimator: Any = None
    ours: bool = False
    reference: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the entry of ``run.json``."""
        names = ("title", "summary", "codes_with", "ours", "reference")
        about = {name: getattr(self, name) for name in names}
        return {**about, "parameters": settings(self.estimator)}


_ESTIMATORS: dict[str, Any] = {
    FULL: None,
    "refinement": Refinement(None),
    "annealing": Annealing(None),
    "elimination": PruningPath(None),
    "coverage": Coverage(None),
    "paper": Annealing.paper(None),
    "presence": PresenceRanking(None),
    "bottleneck": Bottleneck(None),
    "random": RandomSubset(None),
    "farthest": FarthestPoint(None),
    KMEANS: None,
}
_SUMMARIES = {
    FULL: "The whole codebook, nothing pruned.",
    "refinement": "Moves words of the codebook to where they separate the classes.",
    "annealing": "Swaps words one at a time, guided by how well the rest would recognise classes.",
    "elimination": "Removes the word that matters least, again and again, with swaps on the way.",
    "coverage": "Keeps words that lie near as many descriptors as possible; needs no labels.",
    "paper": "Simulated annealing as in the paper: swaps of ten neighbours, Beta relevance.",
    "presence": "Keeps the columns of words whose presence says most about an image's class.",
    "bottleneck": "Merges the words whose union loses least information about the classes.",
    "random": "Random subset: the baseline.",
    "farthest": "Keeps words that are far from one another.",
    KMEANS: "Discards the large codebook and trains a small one instead.",
}
_OURS = ("refinement", "annealing", "elimination", "coverage")
_REFERENCES = {
    "paper": "Cakir and Sclaroff 2013, Visual word selection without re-coding and re-pooling",
    "presence": "Yang et al. 2007, Evaluating bag-of-visual-words representations in scene "
    "classification",
    "bottleneck": "Fulkerson et al. 2008, Localizing objects with smart dictionaries",
}

METHODS: dict[str, Method] = {
    name: Method(
        name,
        "all words" if name == FULL else name,
        _SUMMARIES[name],
        "full" if name in (FULL, "presence", "bottleneck") else "pruned",
        estimator,
        name in _OURS,
        _REFERENCES.get(name),
    )
    for name, estimator in _ESTIMATORS.items()
}
"""All methods by name, in the order of tables."""

DEFAULT = ("refinement", "annealing", "paper", "presence", "bottleneck", "random", KMEANS)
"""What ``compare`` measures by default."""

GIVEN_METHOD = Method(GIVEN, "the given codebook", "Trained elsewhere.", "pruned")


def resolve_methods(methods: Sequence[str] | Mapping[str, Any] | None) -> dict[str, Method]:
    """Return the methods by name in the order of tables, with ``full`` first."""
    wanted = DEFAULT if methods is None else methods
    if isinstance(wanted, str):
        raise ParameterError(f"methods must be a list of names or a mapping; got {wanted!r}.")
    if not isinstance(wanted, Mapping):
        unknown = [str(name) for name in wanted if name not in METHODS]
        if unknown:
            raise ParameterError(
                f"methods must be among {', '.join(METHODS)}; got {', '.join(unknown)}"
                f"{did_you_mean(unknown[0], METHODS) or '.'}"
            )
        wanted = dict.fromkeys(wanted)
    chosen = {FULL: METHODS[FULL]}
    for name in [*(name for name in METHODS if name in wanted), *wanted]:
        if name == GIVEN or not str(name).replace("-", "_").isidentifier():
            raise ParameterError(
                f"a method's name has letters, digits, - and _, and is not {GIVEN!r}; got {name!r}."
            )
        if name not in chosen:
            known = wanted[name] is None and name in METHODS
            chosen[name] = METHODS[name] if known else _method(name, wanted[name])
    return chosen


def _method(name: str, estimator: Any) -> Method:
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise ParameterError(f"the method {name!r} must be an estimator; got {estimator!r}.")
    known = METHODS.get(name)
    if known is not None and type(known.estimator) is type(estimator):
        return replace(known, estimator=estimator)
    summary = (type(estimator).__doc__ or name).strip().splitlines()[0]
    return Method(name, name, summary, getattr(estimator, "codes_with", "pruned"), estimator)


def prepare(template: Any, **given: Any) -> Any:
    """Return a clone of a template, given the parameters that it has.

    Nested estimators (``Refinement(start=...)``) get coding, sharpness and threads too, and the
    seed where theirs is None.
    """
    if not hasattr(template, "get_params"):
        made = deepcopy(template)
        for name in _GIVEN_PARAMETERS:
            if name in given and hasattr(made, name):
                setattr(made, name, given[name])
        return made
    made = clone(template)
    for name, value in made.get_params(deep=True).items():
        *outer, last = name.split("__")
        nested = last in ("coding", "sharpness", "n_jobs") or (
            last == "random_state" and value is None
        )
        if last in given and (not outer or nested):
            made.set_params(**{name: given[last]})
    return made


def settings(estimator: Any) -> dict[str, Any]:
    """Return the settings of a template that its choice depends on, as JSON values."""
    if estimator is None:
        return {}
    is_estimator = hasattr(estimator, "get_params")
    found = estimator.get_params(deep=False) if is_estimator else vars(estimator)
    values = {name: _plain(found[name]) for name in sorted(found.keys() - _NOT_SETTINGS)}
    return {"class": type(estimator).__name__, **values}


def _plain(value: Any) -> Any:
    if hasattr(value, "get_params"):
        seed = json_value(value.get_params().get("random_state"))
        return {**settings(value), "random_state": seed}
    if hasattr(value, "__dict__") and not isinstance(value, type):
        # The default repr of an object holds its address, which differs from run to run.
        public = {k: json_value(v) for k, v in vars(value).items() if "_" not in (k[0], k[-1])}
        return {"class": type(value).__name__, **public}
    return json_value(value)
