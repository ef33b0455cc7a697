"""Methods side by side over the same splits, panel by panel and size by size.

Random splits overlap, so the difference of two methods is judged by the corrected resampled t
(``comparison``), here two-sided, with Holm's correction over the sizes of a panel. Five splits
leave such a test little power: a difference of means that is not significant may still be real, and
the answer of a claim goes by the means, with the significance told beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import mean
from typing import Any

from bowsaw.evaluation.significance import compare, holm
from reproduction.verdict import between, listed, signed

Panel = tuple[str, str, int]
"""The set, the coding, and the words of the full codebook."""

PANELS: tuple[Panel, ...] = tuple(
    (name, coding, n_words)
    for coding in ("hard", "soft")
    for n_words in (1000, 5000)
    for name in ("15-Scenes", "Caltech-10")
)
"""The panels of the paper's figure."""

LEVEL = 0.05
"""Below this a p value counts as significant."""

Splits = Mapping[int, float]
"""An accuracy for each split."""


@dataclass(frozen=True)
class Pair:
    """Two methods at one place: a size of a panel.

    Attributes
    ----------
    panel, size
        Where.
    first, second : float
        Mean accuracies over the splits that both have.
    n_splits : int
        How many these are.
    p : float or None
        Two-sided, corrected by Holm over the sizes of the panel; None for a single split.
    """

    panel: Panel
    size: int
    first: float
    second: float
    n_splits: int
    p: float | None

    @property
    def difference(self) -> float:
        """By how much the first is better."""
        # The last bits of two means are no difference, and must not decide at a rule's edge.
        return round(self.first - self.second, 9)


class Accuracies:
    """The accuracies of a run, for one mapping of the histograms.

    Parameters
    ----------
    cells : iterable of mapping
        Lines of ``cells.jsonl``.
    mapping : {"sqrt", "raw"}
        Which of a cell's results.
    """

    def __init__(self, cells: Iterable[Mapping[str, Any]], mapping: str) -> None:
        self.mapping = mapping
        self._found: dict[tuple[Panel, str, int], dict[int, float]] = {}
        self._images: dict[Panel, tuple[int, int]] = {}
        for cell in cells:
            if mapping not in cell["results"]:
                continue
            panel = (cell["set"], cell["coding"], cell["full_words"])
            place = self._found.setdefault((panel, cell["method"], cell["size"]), {})
            place[cell["split"]] = cell["results"][mapping]["accuracy"]
            self._images[panel] = cell["n_train"], cell["n_test"]

    @property
    def panels(self) -> list[Panel]:
        """The panels that have cells: those of the paper in its order, then others."""
        known = {panel: i for i, panel in enumerate(PANELS)}
        return sorted(self._images, key=lambda panel: (known.get(panel, len(known)), panel))

    def sizes(self, panel: Panel, method: str) -> list[int]:
        """Return the sizes of a method that are smaller than the full codebook, rising."""
        return sorted(
            size for (p, m, size) in self._found if (p, m) == (panel, method) and size < panel[2]
        )

    def splits(self, panel: Panel, method: str, size: int) -> Splits:
        """Return the accuracy of each split; all words have one size only."""
        return self._found.get((panel, method, panel[2] if method == "full" else size), {})

    def pairs(self, first: str, second: str) -> list[Pair]:
        """Compare two methods wherever both were measured on the same splits."""
        found = []
        for panel in self.panels:
            there = [
                self.pair(
                    panel,
                    size,
                    self.splits(panel, first, size),
                    self.splits(panel, second, size),
                )
                for size in self.sizes(panel, first)
            ]
            found += corrected([pair for pair in there if pair is not None])
        return found

    def pair(self, panel: Panel, size: int, first: Splits, second: Splits) -> Pair | None:
        """Compare two lists of accuracies on the splits that both have; None where there is none.

        The p value is that of this comparison alone.
        """
        both = sorted(first.keys() & second.keys())
        if not both:
            return None
        ours, theirs = ([side[i] for i in both] for side in (first, second))
        p = None
        if len(both) > 1:
            one_sided = compare(ours, theirs, *self._images[panel]).p
            p = min(1.0, 2 * min(one_sided, 1 - one_sided))
        return Pair(panel, size, mean(ours), mean(theirs), len(both), p)


def corrected(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs whose p values allow for there being several of them."""
    known = [pair.p for pair in pairs if pair.p is not None]
    values = iter(holm(known).tolist()) if known else iter(())
    return [pair if pair.p is None else replace(pair, p=next(values)) for pair in pairs]


def by_panel(pairs: Iterable[Pair]) -> list[tuple[Panel, list[Pair]]]:
    """Return the pairs of each panel together."""
    return [(panel, list(some)) for panel, some in groupby(pairs, key=lambda pair: pair.panel)]


def tally(pairs: Sequence[Pair]) -> str:
    """Tell differences in a phrase: their mean, how many are above 0, how many significant.

    Examples
    --------
    >>> pair = Pair(("15-Scenes", "hard", 1000), 20, 0.6, 0.5, 5, 0.01)
    >>> tally([pair])
    '+0.100 on average, higher in 1 of 1 (significantly in 1, significantly lower in 0)'
    """
    n_higher = sum(pair.difference > 0 for pair in pairs)
    text = f"{signed(mean(pair.difference for pair in pairs))} on average, "
    text += f"higher in {n_higher} of {len(pairs)}"
    if all(pair.p is None for pair in pairs):
        return f"{text} (one split: no significance can be told)"
    n_up, n_down = (
        sum(pair.p is not None and pair.p < LEVEL and sign * pair.difference > 0 for pair in pairs)
        for sign in (1, -1)
    )
    return f"{text} (significantly in {n_up}, significantly lower in {n_down})"


def named(panel: Panel) -> str:
    """Return how a panel is called in a sentence.

    Examples
    --------
    >>> named(("15-Scenes", "hard", 1000))
    '15-Scenes hard 1000'
    """
    return f"{panel[0]} {panel[1]} {panel[2]}"


def scope(pairs: Iterable[Pair]) -> str:
    """Say on how many panels and splits an answer stands, and what is missing."""
    pairs = list(pairs)
    panels = {pair.panel for pair in pairs}
    counts = [pair.n_splits for pair in pairs]
    splits = "1 split" if max(counts) == 1 else f"{between(counts, str)} splits"
    text = f"{len(panels)} panel{'s' * (len(panels) != 1)}, {splits}."
    return f"{text} {absent(panels)}".strip()


def absent(panels: Iterable[Panel]) -> str:
    """Name the panels of the paper that are not among these; nothing where none of them is.

    Examples
    --------
    >>> absent(PANELS[1:])
    "Not there, of the paper's eight panels: 15-Scenes hard 1000."
    """
    there = set(panels)
    missing = [named(panel) for panel in PANELS if panel not in there]
    if len(missing) in (0, len(PANELS)):
        return ""
    return f"Not there, of the paper's eight panels: {listed(missing)}."
