"""The numbers of the page: means, bands, differences, and the recommended size.

A *panel* is a set of images, a coding and a full codebook. In it, an *entry* is a method at a size,
over all its splits. Everything that the page prints is computed here.

**Band.** From the lowest to the highest split: a range, not an interval of the mean. Two methods
are compared by the test of :mod:`bowsaw.evaluation.significance`, on the mean over their sizes,
with Holm's correction over the peers of a method.

**Costs** are medians over the splits, so one disturbed measurement does not count.

**Recommended size.** The smallest size whose mean accuracy is at most ``MAX_LOSS`` below that of
all words. If there is none, or all words were not measured: the smallest whose mean is at most
``MAX_LOSS`` below the method's best. The accuracy that chooses is that of the codebook's images,
whose labels have chosen C and nothing else, so that the accuracy shown, of the test images, has
chosen nothing. Where a panel lacks it, the test images choose, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bowsaw.evaluation.classifier import CALLED
from bowsaw.evaluation.significance import holm, paired_test

MAX_LOSS = 0.02
"""Accuracy that a recommended size may lose."""
FULL = "full"
COSTS = ("codebook_seconds", "select_seconds", "code_ms", "classify_seconds", "peak_bytes")


class PanelKey(NamedTuple):
    """What the methods of a panel share."""

    set: str
    coding: str
    full_words: int


class Level(NamedTuple):
    """Accuracy over splits, from ``low`` to ``high``; the deviation is None with one split.

    ``validation`` is the mean accuracy on the codebook's images, None where it is not known.
    """

    values: Mapping[int, float]
    mean: float
    deviation: float | None
    low: float
    high: float
    validation: float | None = None


@dataclass(frozen=True)
class Entry:
    """A method at a size, in one panel, over its splits; ``n_train`` has the codebook's images."""

    method: str
    size: int
    n_columns: int
    n_coding_words: int
    codes_with: str
    n_bytes: int
    n_train: int
    n_test: int
    levels: Mapping[str, Level]
    costs: Mapping[str, float | None]
    confusions: Mapping[str, list[list[int]]]
    certificates: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Panel:
    """All entries of a set, coding and full codebook; ``ident`` is its id on the page."""

    ident: str
    key: PanelKey
    classes: Sequence[str]
    entries: Mapping[tuple[str, int], Entry]

    @property
    def title(self) -> str:
        """Its name for a reader."""
        return f"{self.key.set}, {self.key.coding} coding, {self.key.full_words:,} words"

    @property
    def full(self) -> Entry | None:
        """The full codebook, if it was measured."""
        return next((e for e in self.entries.values() if e.method == FULL), None)

    @property
    def methods(self) -> list[str]:
        """All methods but the full codebook, in the order of the run."""
        return list(dict.fromkeys(e.method for e in self.entries.values() if e.method != FULL))

    def of(self, method: str) -> list[Entry]:
        """Return the entries of a method by ascending size."""
        found = [entry for entry in self.entries.values() if entry.method == method]
        return sorted(found, key=lambda entry: entry.size)

    @property
    def maps(self) -> list[str]:
        """The maps of histograms that some entry was measured with."""
        return [name for name in CALLED if any(name in e.levels for e in self.entries.values())]


class Pick(NamedTuple):
    """A recommended size.

    Whether it is within ``MAX_LOSS`` of all words, and whether validation images have chosen it.
    """

    entry: Entry
    within: bool
    validated: bool


class Difference(NamedTuple):
    """A method minus a peer: the mean over the sizes of both, and each size.

    ``p`` is two-sided, with Holm's correction over the peers; None with one split. ``sizes`` has
    the mean difference at a size, in how many splits it is above 0, and how many splits there are.
    """

    peer: str
    mean: float
    p: float | None
    sizes: Mapping[int, tuple[float, int, int]]


def level(values: Mapping[int, float], validation: float | None = None) -> Level:
    """Summarise accuracies by split."""
    numbers = np.array([values[split] for split in sorted(values)], dtype=np.float64)
    deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    ends = float(numbers.min()), float(numbers.max())
    return Level(dict(values), float(numbers.mean()), deviation, *ends, validation)


def panels_of(about: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Group cells into panels, in the order in which the run names them."""
    groups: dict[PanelKey, dict[tuple[str, int], list[Mapping[str, Any]]]] = {}
    order = {name: place for place, name in enumerate(about.get("methods", {}))}
    for cell in sorted(cells, key=lambda c: (order.get(c["method"], len(order)), c["size"])):
        if cell["results"].keys() & CALLED.keys():
            key = PanelKey(cell["set"], cell["coding"], cell["full_words"])
            entry = (cell["method"], cell["size"])
            groups.setdefault(key, {}).setdefault(entry, []).append(cell)
    sets = list(about.get("sets", {}))
    keys = sorted(groups, key=lambda k: (sets.index(k.set) if k.set in sets else len(sets), *k))
    panels = []
    for place, key in enumerate(keys):
        classes = about.get("sets", {}).get(key.set, {}).get("classes", [])
        entries = {name: _entry(found) for name, found in groups[key].items()}
        panels.append(Panel(f"p{place}", key, classes, entries))
    return panels


def _entry(cells: Sequence[Mapping[str, Any]]) -> Entry:
    first = cells[0]
    levels, confusions = {}, {}
    for name in CALLED:
        having = [cell for cell in cells if name in cell["results"]]
        if having:
            scores = [c["n_codebook"] and c["results"][name].get("C_scores") for c in having]
            held = float(np.mean([max(s) for s in scores])) if all(scores) else None
            levels[name] = level({c["split"]: c["results"][name]["accuracy"] for c in having}, held)
            tables = [c["results"][name]["confusion"] for c in having]
            confusions[name] = np.sum(np.array(tables, dtype=np.int64), axis=0).tolist()
    return Entry(
        first["method"],
        first["size"],
        first["n_columns"],
        first["n_coding_words"],
        first["codes_with"],
        first["codebook_bytes"],
        first["n_train"] + first["n_codebook"],
        first["n_test"],
        levels,
        {name: _median([cell["costs"].get(name) for cell in cells]) for name in COSTS},
        confusions,
        [cell["certificate"] for cell in cells if cell.get("certificate")],
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def recommend(panel: Panel, view: str, method: str) -> Pick | None:
    """Return the recommended size of ``method``; None if it was not measured."""
    entries = [entry for entry in panel.of(method) if view in entry.levels]
    if not entries:
        return None
    measured = [e.levels[view].validation for e in panel.entries.values() if view in e.levels]
    validated = None not in measured

    def smallest(limit: float) -> Entry | None:
        # Means that differ in the last bit only are equal.
        return next((e for e in entries if _choosing(e, view, validated) >= limit - 1e-12), None)

    full = panel.full
    if full is not None and view in full.levels:
        entry = smallest(_choosing(full, view, validated) - MAX_LOSS)
        if entry is not None:
            return Pick(entry, True, validated)
    best = max(_choosing(entry, view, validated) for entry in entries)
    return Pick(smallest(best - MAX_LOSS) or entries[0], False, validated)


def _choosing(entry: Entry, view: str, validated: bool) -> float:
    """Return the accuracy that a size is chosen by."""
    level = entry.levels[view]
    return level.validation if validated and level.validation is not None else level.mean


def headline_pick(panel: Panel, view: str, methods: Mapping[str, Any]) -> Pick | None:
    """Return the recommendation of the method in the headline.

    Of all methods that code with the pruned words, the one that needs the fewest words, the more
    accurate of two that need as many. If none was measured with this map: of any method.
    """
    here = [m for m in panel.methods if any(view in e.levels for e in panel.of(m))]
    small = [m for m in here if methods.get(m, {}).get("codes_with") == "pruned"]
    picks = [pick for m in small or here if (pick := recommend(panel, view, m)) is not None]

    def order(pick: Pick) -> tuple[bool, int, float, int]:
        size, accuracy = pick.entry.size, _choosing(pick.entry, view, pick.validated)
        return not pick.within, size if pick.within else 0, -accuracy, size

    return min(picks, key=order, default=None)


def differences(panel: Panel, view: str, method: str) -> list[Difference]:
    """Compare ``method`` with every other, on the sizes and splits that both have.

    The test is on the splits that have all of these sizes.
    """
    found: list[Difference] = []
    entries = [entry for entry in panel.of(method) if view in entry.levels]
    for peer in [FULL, *(m for m in panel.methods if m != method)]:
        gaps: dict[int, dict[int, float]] = {}
        for entry in entries:
            other = panel.full if peer == FULL else panel.entries.get((peer, entry.size))
            if other is not None and view in other.levels:
                mine, theirs = entry.levels[view].values, other.levels[view].values
                both = {s: mine[s] - theirs[s] for s in sorted(mine.keys() & theirs.keys())}
                gaps |= {entry.size: both} if both else {}
        if not gaps:
            continue
        whole = sorted(set.intersection(*(set(gap) for gap in gaps.values())))
        table = np.array([[gap[s] for gap in gaps.values()] for s in whole])
        p = None
        if len(whole) >= 2:
            p = paired_test(table, 0 * table, entries[0].n_train, entries[0].n_test).p
        sizes = {
            size: (float(np.mean(list(gap.values()))), sum(g > 0 for g in gap.values()), len(gap))
            for size, gap in gaps.items()
        }
        mean = float(np.mean(table if whole else [at[0] for at in sizes.values()]))
        found.append(Difference(peer, mean, p, sizes))
    corrected = iter(holm([d.p for d in found if d.p is not None]))
    return [d if d.p is None else d._replace(p=float(next(corrected))) for d in found]
