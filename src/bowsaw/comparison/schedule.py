"""Which cells are measured together, and how long the rest takes.

**Tasks.** A task is a list of cells for one process. One split of one panel is a task: its cells
share the codebook, histograms and states. Only the last ``n_workers - 1`` splits, at which
processes would wait for each other, are dealt cell by cell, the long ones first. Cells that code
with all words stay together, because they share those histograms.

**Time left.** A cell takes as long as the same cell of other splits. Before one of those is
measured, its typical time counts, times the pace of this run: the seconds that cells of its method
took, relative to their typical ones. Where most of the time left belongs to methods of which no
cell is measured, there is no estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from bowsaw.comparison.methods import FULL, KMEANS, Method
from bowsaw.comparison.records import Key

_TYPICAL = {
    FULL: (3.0, 0.06),
    KMEANS: (8.0, 0.12),
    "random": (2.0, 0.03),
    "farthest": (2.0, 0.03),
    "presence": (5.0, 0.0),
    "bottleneck": (3.0, 0.0),
}
"""Seconds of a cell, and per word: 15-Scenes, hard coding, one core. Others are searches."""
_SEARCH = (18.0, 0.06)


def typical_seconds(key: Key) -> float:
    """Return how long a cell takes on one known set and machine: only ratios matter."""
    fixed, per_word = _TYPICAL.get(key.method, _SEARCH)
    return fixed + per_word * key.size


def deal(keys: Iterable[Key], methods: Mapping[str, Method], n_workers: int) -> list[list[Key]]:
    """Return the tasks of some processes, in the order in which they are handed out."""
    groups = [list(group) for _, group in groupby(keys, lambda key: key[:4])]
    n_whole = max(len(groups) - n_workers + 1, 0)
    parts = []
    for group in groups[n_whole:]:
        together = [key for key in group if methods[key.method].codes_with == "full"]
        parts += [[key] for key in group if key not in together]
        parts += [together] if together else []
    parts.sort(key=lambda part: -sum(map(typical_seconds, part)))
    return groups[:n_whole] + parts


def seconds_left(
    left: Iterable[Key], took: Mapping[Key, float], running: Mapping[Key, float], n_workers: int
) -> float | None:
    """Estimate the time of the cells that are left, or return None where too little is known.

    ``took`` has the seconds of measured cells, ``running`` those that cells in progress have taken.
    """
    sums: dict[object, list[float]] = {}
    for key, seconds in took.items():
        for name in _alike(key):
            found = sums.setdefault(name, [0.0, 0.0, 0.0])
            for i, value in enumerate((1.0, seconds, typical_seconds(key))):
                found[i] += value
    overall = sum(took.values()) / max(sum(map(typical_seconds, took)), 1e-9)
    known = total = longest = 0.0
    for key in left:
        same, *similar = _alike(key)
        if same in sums:
            n, seconds, _ = sums[same]
            cost = seconds / n
        else:
            found = next((sums[name] for name in similar if name in sums), [0.0, overall, 1.0])
            cost = typical_seconds(key) * found[1] / found[2]
        # A cell in progress that takes longer than expected is not at its end, either.
        rest = max(cost - running[key], cost / 5) if key in running else cost
        total += rest
        known += rest if key.method in sums else 0.0
        longest = max(longest, rest)
    return max(total / n_workers, longest) if 2 * known >= total else None


def _alike(key: Key) -> list[object]:
    """Return what a cell has in common with others, the most alike first."""
    return [(key.set, *key[2:]), (key.coding, key.method), key.method]
