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
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.base import clone

from bowsaw.errors import ParameterError
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
_NOT_SETTINGS = {*_GIVEN_PARAMETERS, "verbose", "checkpoint"}


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
        return {
            "title": self.title,
            "summary": self.summary,
            "codes_with": self.codes_with,
            "ours": self.ours,
            "reference": self.reference,
            "parameters": settings(self.estimator),
        }


_YANG = "Yang et al. 2007, Evaluating bag-of-visual-words representations in scene classification"
_CAKIR = "Cakir and Sclaroff 2013, Visual word selection without re-coding and re-pooling"
_FULKERSON = "Fulkerson et al. 2008, Localizing objects with smart dictionaries"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(FULL, "all words", "The whole codebook, nothing pruned.", "full"),
        Method(
            "refinement",
            "refined words",
            "Starts with words of the codebook and moves them to where they separate classes.",
            "pruned",
            Refinement(None),
            ours=True,
        ),
        Method(
            "annealing",
            "annealed subset",
            "Swaps words one at a time, guided by how well the rest would recognise classes.",
            "pruned",
            Annealing(None),
            ours=True,
        ),
        Method(
            "elimination",
            "elimination",
            "Removes the word that matters least, again and again, with swaps on the way.",
            "pruned",
            PruningPath(None),
            ours=True,
        ),
        Method(
            "coverage",
            "coverage",
            "Keeps words that lie near as many descriptors as possible; needs no labels.",
            "pruned",
            Coverage(None),
            ours=True,
        ),
        Method(
            "paper",
            "Algorithm 1 as published",
            "Simulated annealing as in the paper: swaps of ten neighbours, Beta relevance.",
            "pruned",
            Annealing.paper(None),
            reference=_CAKIR,
        ),
        Method(
            "presence",
            "presence ranking (MI)",
            "Keeps the columns of words whose presence says most about an image's class.",
            "full",
            PresenceRanking(None),
            reference=_YANG,
        ),
        Method(
            "bottleneck",
            "information bottleneck",
            "Merges the words whose union loses least information about the classes.",
            "full",
            Bottleneck(None),
            reference=_FULKERSON,
        ),
        Method(
            "random",
            "random subset",
            "Random subset: the baseline.",
            "pruned",
            RandomSubset(None),
        ),
        Method(
            "farthest",
            "farthest points",
            "Keeps words that are far from one another.",
            "pruned",
            FarthestPoint(None),
        ),
        Method(
            KMEANS,
            "k-means at that size",
            "Discards the large codebook and trains a small one instead.",
            "pruned",
        ),
    )
}
"""All methods by name, in the order of tables."""

DEFAULT = ("refinement", "annealing", "paper", "presence", "bottleneck", "random", KMEANS)
"""What ``compare`` measures by default."""

GIVEN_METHOD = Method(GIVEN, "the given codebook", "Trained elsewhere.", "pruned")


def resolve_methods(methods: Sequence[str] | Mapping[str, Any] | None) -> dict[str, Method]:
    """Return the methods by name in the order of tables, with ``full`` first.

    Examples
    --------
    >>> list(resolve_methods(["random", "refinement"]))
    ['full', 'refinement', 'random']
    >>> list(resolve_methods({"mine": RandomSubset(None)}))
    ['full', 'mine']
    """
    wanted = DEFAULT if methods is None else methods
    if isinstance(wanted, str):
        raise ParameterError(f"methods must be a list of names or a mapping; got {wanted!r}.")
    chosen: dict[str, Method] = {FULL: METHODS[FULL]}
    if not isinstance(wanted, Mapping):
        unknown = [name for name in wanted if name not in METHODS]
        if unknown:
            raise ParameterError(
                f"methods must be among {', '.join(METHODS)}; got {', '.join(map(str, unknown))}."
            )
        return {
            name: method
            for name, method in METHODS.items()
            if name in chosen | dict.fromkeys(wanted)
        }
    order = [name for name in METHODS if name in wanted]
    for name in [*order, *(name for name in wanted if name not in METHODS)]:
        if name == FULL:
            continue
        if name == GIVEN or not str(name).replace("-", "_").isidentifier():
            raise ParameterError(
                f"a method's name has letters, digits, - and _, and is not {GIVEN!r}; got {name!r}."
            )
        estimator = wanted[name]
        known = estimator is None and name in METHODS
        chosen[name] = METHODS[name] if known else _method(name, estimator)
    return chosen


def _method(name: str, estimator: Any) -> Method:
    """Return the method of a user's estimator."""
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise ParameterError(f"the method {name!r} must be an estimator; got {estimator!r}.")
    known = METHODS.get(name)
    same = known is not None and type(known.estimator) is type(estimator)
    origin = known if same and known is not None else None
    lines = (type(estimator).__doc__ or name).strip().splitlines()
    return Method(
        name,
        name if origin is None else origin.title,
        lines[0] if origin is None else origin.summary,
        getattr(estimator, "codes_with", "pruned") if origin is None else origin.codes_with,
        estimator,
        ours=origin is not None and origin.ours,
        reference=None if origin is None else origin.reference,
    )


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
    found = (
        estimator.get_params(deep=False) if hasattr(estimator, "get_params") else vars(estimator)
    )
    return {
        "class": type(estimator).__name__,
        **{name: _plain(found[name]) for name in sorted(found.keys() - _NOT_SETTINGS)},
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "get_params"):
        return {
            **settings(value),
            "random_state": json_value(value.get_params().get("random_state")),
        }
    if hasattr(value, "__dict__") and not isinstance(value, type):
        # The default repr of an object holds its address, which differs from run to run.
        public = {k: json_value(v) for k, v in vars(value).items() if "_" not in (k[0], k[-1])}
        return {"class": type(value).__name__, **public}
    return json_value(value)
