"""Which words to keep: searches, rankings, merges and baselines, all with one result.

Names are imported when they are first used. A method of your own derives from ``Selector``, or from
``MergingSelector`` if it merges words.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowsaw.selection.annealing import Annealing
    from bowsaw.selection.base import Selection, Selector
    from bowsaw.selection.baselines import FarthestPoint, KMeansAtSize, RandomSubset
    from bowsaw.selection.coverage import Coverage
    from bowsaw.selection.merging import (
        Bottleneck,
        MergeTree,
        MergingSelector,
        bottleneck_tree,
        merge_greedily,
        word_class_table,
    )
    from bowsaw.selection.ranking import PresenceRanking
    from bowsaw.selection.refinement import Refinement

_HOMES = {
    "Annealing": "annealing",
    "Bottleneck": "merging",
    "Coverage": "coverage",
    "FarthestPoint": "baselines",
    "KMeansAtSize": "baselines",
    "MergeTree": "merging",
    "MergingSelector": "merging",
    "PresenceRanking": "ranking",
    "RandomSubset": "baselines",
    "Refinement": "refinement",
    "Selection": "base",
    "Selector": "base",
    "bottleneck_tree": "merging",
    "merge_greedily": "merging",
    "word_class_table": "merging",
}

__all__ = [
    "Annealing",
    "Bottleneck",
    "Coverage",
    "FarthestPoint",
    "KMeansAtSize",
    "MergeTree",
    "MergingSelector",
    "PresenceRanking",
    "RandomSubset",
    "Refinement",
    "Selection",
    "Selector",
    "bottleneck_tree",
    "merge_greedily",
    "word_class_table",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"bowsaw.selection.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.selection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
