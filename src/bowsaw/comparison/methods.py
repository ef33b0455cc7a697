"""The methods of the arena: under which name, told what, and what a newcomer should know of each.

Every method gets the same full codebook, training images, coding and seed. It says whether it codes
new images with the words that it kept (``pruned``) or needs all of them (``full``): a comparison by
columns alone would hide that.

Two methods are no selectors: ``full`` keeps every word, and ``retrained`` is k-means at the small
size, trained on the images that the full codebook was trained on.

``effort`` bounds searches: ``"usual"`` is what each estimator does by default; ``"bounded"`` is for
runs of hundreds of cells, where the words of ``refined`` begin as a random subset and take a number
of steps set by the size, unchecked (a step costs more the more words there are).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bowsaw.codebook import Codebook
from bowsaw.errors import ParameterError
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selector
from bowsaw.selection.baselines import FarthestPoint, RandomSubset
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.merging import Bottleneck
from bowsaw.selection.ranking import PresenceRanking
from bowsaw.selection.refinement import Refinement

Effort = Literal["usual", "bounded"]
EFFORTS: tuple[Effort, ...] = ("usual", "bounded")
FULL, RETRAINED = "full", "retrained"


@dataclass(frozen=True)
class Task:
    """What a method is told: the words, how many to keep, how to code, and the seed."""

    codebook: Codebook
    n_kept: int
    coding: Literal["hard", "soft"]
    sharpness: float
    seed: int
    n_jobs: int | None
    effort: Effort = "usual"

    def told(self, *, seed: bool = False) -> dict[str, Any]:
        """Return the parameters that every selector has, and the seed of those that draw."""
        common: dict[str, Any] = {
            "codebook": self.codebook,
            "n_kept": self.n_kept,
            "coding": self.coding,
            "sharpness": self.sharpness,
            "n_jobs": self.n_jobs,
        }
        return {**common, "random_state": self.seed} if seed else common


@dataclass(frozen=True)
class Method:
    """One method of the arena.

    Attributes
    ----------
    title : str
        Its name for people.
    about : str
        What it does, in a sentence for a newcomer.
    codes_with : {"pruned", "full"}
        The codebook that a new image is compared with.
    make : callable or None
        Returns the selector of a task; None for those that are no selectors.
    ours : bool
        Whether it is bowsaw's own.
    reference : str or None
        Where it comes from.
    """

    title: str
    about: str
    codes_with: Literal["pruned", "full"]
    make: Callable[[Task], Selector] | None = None
    ours: bool = False
    reference: str | None = None

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of it."""
        return {
            "title": self.title,
            "about": self.about,
            "codes_with": self.codes_with,
            "ours": self.ours,
            "reference": self.reference,
        }


def bounded_steps(size: int) -> int:
    """Return how many steps words are refined where the effort is bounded.

    Examples
    --------
    >>> [bounded_steps(size) for size in (10, 50, 100, 200, 500, 2000)]
    [150, 150, 150, 80, 40, 20]
    """
    for most, n_steps in ((100, 150), (200, 80), (500, 40)):
        if size <= most:
            return n_steps
    return 20


def _refined(task: Task) -> Selector:
    if task.effort == "usual":
        return Refinement(**task.told(seed=True))
    return Refinement(
        start=RandomSubset(task.codebook, random_state=task.seed),
        n_steps=bounded_steps(task.n_kept),
        n_folds=0,
        **task.told(seed=True),
    )


def _published(task: Task) -> Selector:
    return Annealing.paper(
        task.codebook,
        task.n_kept,
        coding=task.coding,
        sharpness=task.sharpness,
        random_state=task.seed,
        n_jobs=task.n_jobs,
    )


def _presence(measure: Literal["mi", "df", "chi2", "pmi"]) -> Callable[[Task], Selector]:
    return lambda task: PresenceRanking(measure=measure, **task.told())


_YANG = "Yang et al. 2007, Evaluating bag-of-visual-words representations in scene classification"
_CAKIR = "Cakir and Sclaroff 2013, Visual word selection without re-coding and re-pooling"

METHODS: dict[str, Method] = {
    FULL: Method("all words", "The whole codebook, nothing pruned.", "full"),
    "refined": Method(
        "refined words",
        "Begins with some words of the codebook and moves them to where they tell classes apart.",
        "pruned",
        _refined,
        ours=True,
    ),
    "annealed": Method(
        "annealed subset",
        "Swaps words one at a time, asking each time how well the rest would recognise classes.",
        "pruned",
        lambda task: Annealing(**task.told(seed=True)),
        ours=True,
    ),
    "coverage": Method(
        "coverage",
        "Keeps words that lie near as many descriptors as possible; needs no labels.",
        "pruned",
        lambda task: Coverage(**task.told(seed=True)),
        ours=True,
    ),
    "published": Method(
        "Algorithm 1 as published",
        "Simulated annealing as the paper has it: swaps of ten neighbours, Beta relevance.",
        "pruned",
        _published,
        reference=_CAKIR,
    ),
    "yang": Method(
        "presence ranking (MI)",
        "Keeps the columns of words whose presence in an image tells most about its class.",
        "full",
        _presence("mi"),
        reference=_YANG,
    ),
    "chi2": Method(
        "presence ranking (χ²)",
        "As presence ranking, by the χ² statistic.",
        "full",
        _presence("chi2"),
        reference=_YANG,
    ),
    "df": Method(
        "presence ranking (DF)",
        "Keeps the columns of words that most images have; needs no labels.",
        "full",
        _presence("df"),
        reference=_YANG,
    ),
    "pmi": Method(
        "presence ranking (PMI)",
        "As presence ranking, by pointwise mutual information.",
        "full",
        _presence("pmi"),
        reference=_YANG,
    ),
    "yang-recoded": Method(
        "presence ranking, re-coded",
        "The words of presence ranking, but images are coded with these words alone.",
        "pruned",
        lambda task: PresenceRanking(recode=True, **task.told()),
    ),
    "bottleneck": Method(
        "information bottleneck",
        "Merges the words whose union loses least of what they tell about the classes.",
        "full",
        lambda task: Bottleneck(**task.told()),
        reference="Fulkerson et al. 2008, Localizing objects with smart dictionaries",
    ),
    "random": Method(
        "random subset",
        "Words drawn by lot; what any choice has to beat.",
        "pruned",
        lambda task: RandomSubset(**task.told(seed=True)),
    ),
    "farthest": Method(
        "farthest points",
        "Keeps words that are far from one another.",
        "pruned",
        lambda task: FarthestPoint(**task.told()),
    ),
    RETRAINED: Method(
        "k-means at that size",
        "Throws the large codebook away and trains a small one instead.",
        "pruned",
    ),
}
"""All methods by name, in the order in which tables have them."""

USUAL = ("refined", "annealed", "published", "yang", "bottleneck", "random", RETRAINED)
"""What ``compare`` measures unless told otherwise."""
PUBLISHED = ("published", "refined", "yang", "bottleneck", "random", RETRAINED)
"""What ``reproduce`` measures."""


def check_methods(names: Sequence[str]) -> list[str]:
    """Return the names in the order of tables, each once, with ``full`` before them.

    Examples
    --------
    >>> check_methods(["random", "refined"])
    ['full', 'refined', 'random']
    """
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise ParameterError(
            f"methods are among {', '.join(METHODS)}; got {', '.join(unknown) or 'none'}."
        )
    return [name for name in METHODS if name == FULL or name in names]


def told_of(selector: Selector | None) -> Mapping[str, Any]:
    """Return what a selector's choice depends on beside words, images and labels."""
    if selector is None:
        return {}
    hidden = {"codebook", "n_jobs", "verbose", "checkpoint"}
    return {
        name: _plain(value)
        for name, value in sorted(selector.get_params(deep=False).items())
        if name not in hidden
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Selector):
        return {"class": type(value).__name__, **told_of(value)}
    return value
