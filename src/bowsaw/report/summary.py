"""The numbers of the page: means, bands, differences, and the recommended size.

A *panel* is a set of images, a coding and a full codebook. In it, an *entry* is a method at a size,
over all its splits. Everything that the page prints is computed here.

**Accuracy** is a mean over splits (or folds) ± half of its 95 % interval. A band is from the lowest
to the highest split: a range, not an interval of the mean. Two methods are compared by the rule of
:mod:`bowsaw.evaluation.significance`.

**Costs** are medians, so one disturbed measurement does not count. The time to code depends on the
number of words alone, so all methods of a panel share it.

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

from bowsaw.comparison.records import margin_of
from bowsaw.evaluation.classifier import CALLED
from bowsaw.evaluation.significance import LEVEL, holm, paired_test

MAX_LOSS = 0.02
"""Accuracy that a recommended size may lose."""
FULL = "full"
COSTS = ("codebook_seconds", "select_seconds")


class PanelKey(NamedTuple):
    """What the methods of a panel share."""

    set: str
    coding: str
    full_words: int


class Level(NamedTuple):
    """Accuracy over splits, from ``low`` to ``high``; the interval is ``mean`` ± ``margin``.

    ``validation`` is the mean accuracy on the codebook's images, None where it is not known.
    """

    values: Mapping[int, float]
    mean: float
    margin: float
    low: float
    high: float
    validation: float | None = None

    @property
    def text(self) -> str:
        """The mean and half of its 95 % interval."""
        return f"{self.mean:.3f} ± {self.margin:.3f}"


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
    """All entries of a set, coding and full codebook; ``ident`` is its id on the page.

    ``code_ms`` is the time to code an image by number of words. ``unit`` is "split" or "fold".
    """

    ident: str
    key: PanelKey
    classes: Sequence[str]
    entries: Mapping[tuple[str, int], Entry]
    code_ms: Mapping[int, float]
    unit: str = "split"

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
    def n_splits(self) -> int:
        """The largest number of splits of an entry."""
        return max(len(level.values) for e in self.entries.values() for level in e.levels.values())

    @property
    def maps(self) -> list[str]:
        """The maps of histograms that some entry was measured with."""
        return [name for name in CALLED if any(name in e.levels for e in self.entries.values())]


class Pick(NamedTuple):
    """A recommended size.

    Whether it is within ``MAX_LOSS`` of all words, whether validation images have chosen it, and
    whether there was anything to choose from: another size or another method.
    """

    entry: Entry
    within: bool
    validated: bool
    chosen: bool = True


class Gap(NamedTuple):
    """A mean difference, in how many splits it is above 0, and how many splits there are."""

    mean: float
    n_ahead: int
    n_splits: int


class Difference(NamedTuple):
    """A method minus a peer: the mean over the sizes of both, and each size.

    ``p`` is two-sided, with Holm's correction over the peers; None with one split.
    """

    peer: str
    mean: Gap
    p: float | None
    sizes: Mapping[int, Gap]

    @property
    def significant(self) -> bool:
        """Whether the rule of :mod:`bowsaw.evaluation.significance` holds."""
        return self.p is not None and self.p < LEVEL


def level(values: Mapping[int, float], margin: float, validation: float | None = None) -> Level:
    """Summarise accuracies by split."""
    numbers = np.array([values[split] for split in sorted(values)], dtype=np.float64)
    ends = float(numbers.min()), float(numbers.max())
    return Level(dict(values), float(numbers.mean()), margin, *ends, validation)


def panels_of(about: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Group cells into panels, in the order in which the run names them."""
    groups: dict[PanelKey, dict[tuple[str, int], list[Mapping[str, Any]]]] = {}
    order = {name: place for place, name in enumerate(about.get("methods", {}))}
    for cell in sorted(cells, key=lambda c: (order.get(c["method"], len(order)), c["size"])):
        if cell["results"].keys() & CALLED.keys():
            key = PanelKey(cell["set"], cell["coding"], cell["full_words"])
            groups.setdefault(key, {}).setdefault((cell["method"], cell["size"]), []).append(cell)
    sets = list(about.get("sets", {}))
    keys = sorted(groups, key=lambda k: (sets.index(k.set) if k.set in sets else len(sets), *k))
    panels = []
    for place, key in enumerate(keys):
        classes = about.get("sets", {}).get(key.set, {}).get("classes", [])
        entries = {name: _entry(found) for name, found in groups[key].items()}
        times: dict[int, list[float | None]] = {}
        theirs = [cell for found in groups[key].values() for cell in found]
        for cell in theirs:
            times.setdefault(cell["n_coding_words"], []).append(cell["costs"].get("code_ms"))
        code_ms = {n: ms for n, some in times.items() if (ms := _median(some)) is not None}
        unit = "fold" if theirs[0].get("n_folds") else "split"
        panels.append(Panel(f"p{place}", key, classes, entries, code_ms, unit))
    return panels


def _entry(cells: Sequence[Any]) -> Entry:
    first = cells[0]
    levels, confusions = {}, {}
    for name in CALLED:
        having = [cell for cell in cells if name in cell["results"]]
        if having:
            scores = [c["n_codebook"] and c["results"][name].get("C_scores") for c in having]
            held = float(np.mean([max(s) for s in scores])) if all(scores) else None
            values = {c["split"]: c["results"][name]["accuracy"] for c in having}
            levels[name] = level(values, margin_of(having, name), held)
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
    level = entry.levels[view]
    return level.validation if validated and level.validation is not None else level.mean


def headline_pick(
    panel: Panel, view: str, methods: Mapping[str, Any], asked: tuple[str, int] | None = None
) -> Pick | None:
    """Return what the headline is about.

    It is the method and size in ``asked`` where they were measured. Else, of all methods that code
    with the pruned words, the one that needs the fewest words, the more accurate of two that need
    as many. If none was measured with this map: of any method.
    """
    given = None if asked is None else panel.entries.get(asked)
    if given is not None and view in given.levels:
        return Pick(given, False, False, chosen=False)
    here = [m for m in panel.methods if any(view in e.levels for e in panel.of(m))]
    small = [m for m in here if methods.get(m, {}).get("codes_with") == "pruned"]
    picks = [pick for m in small or here if (pick := recommend(panel, view, m)) is not None]
    if len(picks) == 1 and len(panel.of(picks[0].entry.method)) == 1:
        return picks[0]._replace(chosen=False)

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
        means = [float(np.mean([gap[s] for gap in gaps.values()])) for s in whole]
        p = None
        if len(whole) >= 2:
            p = paired_test(means, [0.0] * len(means), entries[0].n_train, entries[0].n_test).p
        sizes = {size: _gap(list(gap.values())) for size, gap in gaps.items()}
        found.append(Difference(peer, _gap(means or [at.mean for at in sizes.values()]), p, sizes))
    corrected = iter(holm([d.p for d in found if d.p is not None]))
    return [d if d.p is None else d._replace(p=float(next(corrected))) for d in found]


def _gap(values: Sequence[float]) -> Gap:
    return Gap(float(np.mean(values)), sum(value > 0 for value in values), len(values))
