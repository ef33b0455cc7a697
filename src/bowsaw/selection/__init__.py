"""Which words to keep: searches, rankings, merges and baselines, all with one result.

Names are imported when they are first used. A method of your own derives from ``Selector``, or from
``MergingSelector`` if it merges words.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowsaw.selection.base import Selector
    from bowsaw.selection.merging import MergeTree, MergingSelector, merge_greedily
    from bowsaw.selection.result import Selection

_HOMES = {
    "MergeTree": "merging",
    "MergingSelector": "merging",
    "Selection": "result",
    "Selector": "base",
    "merge_greedily": "merging",
}

__all__ = ["MergeTree", "MergingSelector", "Selection", "Selector", "merge_greedily"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"bowsaw.selection.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bowsaw.selection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
