"""Which words to keep: searches, rankings, merges and baselines, all with one result.

Names are imported when they are first used. A method of your own derives from ``Selector``, or from
``MergingSelector`` if it merges words.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_TREES = ("bottleneck_tree", "merge_greedily", "word_class_table")
_NAMES = {
    "annealing": ("Annealing",),
    "base": ("Selection", "Selector"),
    "baselines": ("FarthestPoint", "KMeansAtSize", "RandomSubset"),
    "coverage": ("Coverage",),
    "elimination": ("EliminationPath", "Stop"),
    "holdout": ("Holdout",),
    "merging": ("Bottleneck", "MergeTree", "MergingSelector", *_TREES),
    "ranking": ("PresenceRanking",),
    "refinement": ("Refinement",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"bowsaw.selection.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.selection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
