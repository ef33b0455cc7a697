"""Claims of the paper on one method against another, as the cells of a run answer them.

The method as published (``published``) decides; ours (``refined``) is told beside it. The paper
does not say whether its histograms were square-rooted, so both kinds decide where both are there,
and a claim that holds for one of them holds partly. Each rule is a function of pairs of methods
(``paired``), and its words are part of the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from bowsaw.evaluation.classifier import CALLED, MAPPINGS
from reproduction.paired import (
    Accuracies,
    Pair,
    by_panel,
    named,
    scope,
    tally,
)
from reproduction.verdict import Answer, Verdict, chance, share, signed, together

TITLES = {
    "paper": "as published",
    "refinement": "refined (ours)",
    "presence": "Yang",
    "bottleneck": "Fulkerson",
    "full": "all words",
}
MAPS = "Where the two kinds of histograms disagree, partly."
COMPARABLE = 0.02
"""Accuracy that a comparable method may lose."""
CLEAR = 0.01
"""Accuracy that the best of several cases must gain: the best of many is above 0 by chance."""
TWO_ORDERS, ONE_ORDER = 100, 10

Cells = Sequence[Mapping[str, Any]]
Decide = Callable[[Sequence[Pair]], Answer]
Tell = Callable[[Sequence[Pair]], str]


@dataclass(frozen=True)
class _Claim:
    """A claim on one method against another at the same place, and the rule that answers it."""

    id: str
    claim: str
    where: str
    first: str
    second: str
    decide: Decide
    tell: Tell
    rule: str
    beside: str | None = "refinement"

    def judge(self, cells: Cells) -> Verdict:
        found = {name: Accuracies(cells, name) for name in MAPPINGS}
        pairs = {name: found[name].pairs(self.first, self.second) for name in MAPPINGS}
        chief, other = MAPPINGS if pairs["sqrt"] else MAPPINGS[::-1]
        names = f"{TITLES[self.first]} minus {TITLES[self.second]}"
        header = ["set", "coding", "full words", "words", TITLES[self.first], TITLES[self.second]]
        header += ["difference", "p (Holm)", f"{CALLED[other]}: difference"]
        ours: list[Pair] = []
        if self.beside is not None:
            ours = found[chief].pairs(self.beside, self.second)
            header += [TITLES[self.beside], "difference"]
        if not pairs[chief]:
            text = f"The records hold no cell of both methods ({names}) on the same split. "
            return self._verdict("not measured", text, header, [])
        text = f"{names[0].upper()}{names[1:]}. "
        for name in (chief, other):
            if pairs[name]:
                text += f"{CALLED[name].capitalize()} histograms say {self.decide(pairs[name])}: "
                text += f"{tally(pairs[name])}. {self.tell(pairs[name])}"
        if ours and self.beside is not None:
            text += (
                f"Of {TITLES[self.beside]}, {CALLED[chief]} histograms say {self.decide(ours)}: "
                f"{tally(ours)}. "
            )
        text += f"Measured: {scope(pairs[chief])} "
        raw, beside = ({(p.panel, p.size): p for p in side} for side in (pairs[other], ours))
        rows = [
            self._row(pair, raw.get((pair.panel, pair.size)), beside.get((pair.panel, pair.size)))
            for pair in pairs[chief]
        ]
        answer = together(self.decide(side) for side in pairs.values() if side)
        return self._verdict(answer, text, header, rows)

    def _row(self, pair: Pair, other: Pair | None, ours: Pair | None) -> list[str]:
        row = [pair.panel[0], pair.panel[1], str(pair.panel[2]), str(pair.size)]
        row += [share(pair.first), share(pair.second), signed(pair.difference), chance(pair.p)]
        row.append(signed(None if other is None else other.difference))
        if self.beside is not None and ours is not None:
            row += [share(ours.first), signed(ours.difference)]
        elif self.beside is not None:
            row += [share(None), signed(None)]
        return row

    def _verdict(
        self, answer: Answer, text: str, header: list[str], rows: list[list[str]]
    ) -> Verdict:
        return Verdict(
            self.id, self.claim, self.where, answer, f"{text}Rule: {self.rule} {MAPS}", header, rows
        )


# -- the rules ---------------------------------------------------------------------------------


def gaps(pairs: Iterable[Pair]) -> tuple[float, float] | None:
    """Return the mean difference from the smallest and from the largest full codebook.

    At the sizes of a set and coding that both have; None where there is no such place.
    """
    places: dict[tuple[str, str, int], dict[int, float]] = {}
    for pair in pairs:
        name, coding, n_words = pair.panel
        places.setdefault((name, coding, pair.size), {})[n_words] = pair.difference
    several = [place for place in places.values() if len(place) > 1]
    if not several:
        return None
    return mean(p[min(p)] for p in several), mean(p[max(p)] for p in several)


def _better(pairs: Sequence[Pair]) -> Answer:
    share_higher = mean(pair.difference > 0 for pair in pairs)
    if share_higher <= 0.5:
        return "no"
    gap = gaps(pairs)
    most_from_large = gap is None or gap[1] > gap[0]
    return "yes" if share_higher == 1 and most_from_large else "partly"


def _tell_gaps(pairs: Sequence[Pair]) -> str:
    gap = gaps(pairs)
    if gap is None:
        return "There is one full codebook only, so where it gains most cannot be told. "
    return (
        f"From the largest full codebook {signed(gap[1])}, from the smallest {signed(gap[0])} "
        "at the same sizes. "
    )


def _comparable(pairs: Sequence[Pair]) -> Answer:
    near = mean(pair.difference >= -COMPARABLE for pair in pairs)
    return "yes" if near == 1 else "partly" if near >= 0.5 else "no"


def _tell_near(pairs: Sequence[Pair]) -> str:
    n_near = sum(pair.difference >= -COMPARABLE for pair in pairs)
    return (
        f"Within {COMPARABLE} or better in {n_near} of {len(pairs)}, coding with the kept words "
        "alone where Fulkerson's merging codes with all. "
    )


def _at_most(pairs: Iterable[Pair], orders: int) -> list[Pair]:
    return [pair for pair in pairs if pair.size * orders <= pair.panel[2]]


def _smaller(pairs: Sequence[Pair]) -> Answer:
    tiny, small = (_at_most(pairs, orders) for orders in (TWO_ORDERS, ONE_ORDER))
    if any(pair.difference >= CLEAR for pair in tiny):
        return "yes"
    if any(pair.difference > 0 for pair in tiny + small):
        return "partly"
    return "no" if tiny else "not measured"


def _tell_smaller(pairs: Sequence[Pair]) -> str:
    tiny = _at_most(pairs, TWO_ORDERS)
    if not tiny:
        return f"No size is {TWO_ORDERS} times smaller than its full codebook. "
    panels = by_panel(tiny)
    n_better = sum(any(pair.difference > 0 for pair in some) for _, some in panels)
    best = max(tiny, key=lambda pair: pair.difference)
    return (
        f"With {TWO_ORDERS} times fewer words or fewer still, better than all words in {n_better} "
        f"of {len(panels)} panels; the best case is {named(best.panel)} with {best.size} words: "
        f"{share(best.first)} against {share(best.second)} (p {chance(best.p)}). "
    )


def _merging(pairs: Sequence[Pair]) -> Answer:
    clear = mean(any(p.difference >= CLEAR for p in some) for _, some in by_panel(pairs))
    if clear > 0.5:
        return "yes"
    return "partly" if any(pair.difference > 0 for pair in pairs) else "no"


def _tell_merging(pairs: Sequence[Pair]) -> str:
    panels = by_panel(pairs)
    n_better = sum(any(pair.difference > 0 for pair in some) for _, some in panels)
    best = max(pairs, key=lambda pair: pair.difference)
    return (
        f"Better than all words at some size in {n_better} of {len(panels)} panels; the best "
        f"case is {named(best.panel)} merged into {best.size}: {share(best.first)} against "
        f"{share(best.second)} (p {chance(best.p)}). "
    )


CLAIMS = (
    _Claim(
        "better-than-yang",
        "Pruning by annealing is better than keeping the words of most mutual information "
        "(Yang et al. 2007), and most so from the 5000-word codebook.",
        "Section 4.1, Discussion, and Section 5",
        "paper",
        "presence",
        _better,
        _tell_gaps,
        "yes when the mean over splits is higher at every size of every panel and the difference "
        "is larger from the largest full codebook than from the smallest; no when it is higher in "
        "half of these places or fewer; else partly.",
    ),
    _Claim(
        "comparable-to-fulkerson",
        "It is comparable to merging words by the information bottleneck (Fulkerson et al. 2008).",
        "Section 4.1, Discussion, and Section 5",
        "paper",
        "bottleneck",
        _comparable,
        _tell_near,
        f"yes when the mean over splits is lower by at most {COMPARABLE} at every size of every "
        "panel; partly when in half of these places or more; else no.",
    ),
    _Claim(
        "smaller-and-better",
        "In certain cases the codebook shrinks by two orders of magnitude while accuracy rises.",
        "Section 4.1, Discussion",
        "paper",
        "full",
        _smaller,
        _tell_smaller,
        f"yes when in some panel a size of at most 1/{TWO_ORDERS} of the full codebook is better "
        f"than all words by {CLEAR} or more, as means over splits; partly when one is by less, or "
        f"one of at most 1/{ONE_ORDER} is; else no.",
    ),
    _Claim(
        "merging-better-than-full",
        "Merging words instead of discarding them can improve on the full codebook.",
        "Section 4.1, Discussion",
        "bottleneck",
        "full",
        _merging,
        _tell_merging,
        f"yes when in more than half of the panels some size is better than all words by {CLEAR} "
        "or more, as means over splits; partly when in fewer or by less; no when none is better.",
        beside=None,
    ),
)
"""The claims on one method against another, by the paper's order."""
