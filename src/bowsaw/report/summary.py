"""The numbers of the page: means, bands, differences, and the recommended size.

A *panel* is a set of images, a coding and a full codebook. In it, an *entry* is a method at a size,
over all its splits. Everything that the page prints is computed here.

**Band.** With J splits of mean m and standard deviation s (divided by J - 1), the band is
m ± t s/√J, t the 97.5 % point of Student's t with J - 1 degrees of freedom: a 95 % interval of the
mean if splits were independent. They overlap, so the band is a drawing aid. Differences are tested
by :mod:`bowsaw.evaluation.significance`, which corrects for the overlap.

**Costs** are medians over the splits, so one disturbed measurement does not count.

**Recommended size.** The smallest size whose mean accuracy is at most ``MAX_LOSS`` below that of
all words. If there is none, or all words were not measured: the smallest whose mean is at most
``MAX_LOSS`` below the method's best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

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
    """Accuracy over splits; the deviation is None with one split."""

    values: Mapping[int, float]
    mean: float
    deviation: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Entry:
    """A method at a size, in one panel, over its splits."""

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
    """A recommended size: the entry, and whether it is within ``MAX_LOSS`` of all words."""

    entry: Entry
    within: bool


class Difference(NamedTuple):
    """A method minus a peer at a size; ``p`` is one-sided, with Holm's correction."""

    size: int
    peer: str
    mean: float
    p: float | None


def level(values: Mapping[int, float]) -> Level:
    """Summarise accuracies by split."""
    numbers = np.array([values[split] for split in sorted(values)], dtype=np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Level(dict(values), mean, None, mean, mean)
    deviation = float(numbers.std(ddof=1))
    half = _t_point(len(numbers) - 1) * deviation / math.sqrt(len(numbers))
    return Level(dict(values), mean, deviation, mean - half, mean + half)


@cache
def _t_point(n_free: int) -> float:
    return float(stats.t.ppf(0.975, n_free))


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
            levels[name] = level({c["split"]: c["results"][name]["accuracy"] for c in having})
            tables = [c["results"][name]["confusion"] for c in having]
            confusions[name] = np.sum(np.array(tables, dtype=np.int64), axis=0).tolist()
    return Entry(
        first["method"],
        first["size"],
        first["n_columns"],
        first["n_coding_words"],
        first["codes_with"],
        first["codebook_bytes"],
        first["n_train"],
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

    def smallest(limit: float) -> Entry | None:
        # Means that differ in the last bit only are equal.
        return next((e for e in entries if e.levels[view].mean >= limit - 1e-12), None)

    full = panel.full
    if full is not None and view in full.levels:
        entry = smallest(full.levels[view].mean - MAX_LOSS)
        if entry is not None:
            return Pick(entry, True)
    best = max(entry.levels[view].mean for entry in entries)
    return Pick(smallest(best - MAX_LOSS) or entries[0], False)


def headline_pick(panel: Panel, view: str, methods: Mapping[str, Any]) -> Pick | None:
    """Return the recommendation of the method in the headline.

    Of bowsaw's own methods that code with the pruned words, the one that needs the fewest words,
    the more accurate of two that need as many. If none was measured with this map: of any that
    code with the pruned words; if there are none of those either, of any.
    """
    here = [m for m in panel.methods if any(view in e.levels for e in panel.of(m))]
    small = [m for m in here if methods.get(m, {}).get("codes_with") == "pruned"]
    own = [m for m in small if methods[m].get("ours")]
    picks = [pick for m in own or small or here if (pick := recommend(panel, view, m)) is not None]

    def order(pick: Pick) -> tuple[bool, int, float, int]:
        size = pick.entry.size
        return not pick.within, size if pick.within else 0, -pick.entry.levels[view].mean, size

    return min(picks, key=order, default=None)


def differences(panel: Panel, view: str, method: str) -> list[Difference]:
    """Compare ``method`` with every other at each size, on the splits that both have.

    Holm's correction is over all of these comparisons: peers × sizes of the panel.
    """
    found: list[Difference] = []
    for entry in panel.of(method):
        for peer in [FULL, *(m for m in panel.methods if m != method)]:
            other = panel.full if peer == FULL else panel.entries.get((peer, entry.size))
            if other is None or view not in entry.levels or view not in other.levels:
                continue
            mine, theirs = entry.levels[view].values, other.levels[view].values
            splits = sorted(set(mine) & set(theirs))
            first, second = [mine[s] for s in splits], [theirs[s] for s in splits]
            if len(splits) >= 2:
                result = paired_test(first, second, entry.n_train, entry.n_test)
                found.append(Difference(entry.size, peer, result.mean, result.p))
            elif splits:
                found.append(Difference(entry.size, peer, first[0] - second[0], None))
    corrected = iter(holm([d.p for d in found if d.p is not None]))
    return [d if d.p is None else d._replace(p=float(next(corrected))) for d in found]
