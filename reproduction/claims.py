"""The claims of the paper, each with a verdict from the records of a run.

The cells and probes of a run are the only input. The method as published (``paper``) decides; ours
(``refinement``) is shown beside it. The paper does not say whether its histograms were
square-rooted, so both mappings decide where both were measured, and a claim that holds for one of
them holds partly. Answers compare means over the splits; significance is shown beside them: the
corrected resampled t-test, two-sided, with Holm's correction over the sizes of a panel. A claim is
answered on the panels that are in the records, or "not measured".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from statistics import mean
from typing import Any, Literal

import numpy as np

from bowsaw.comparison import Run
from bowsaw.evaluation import holm, paired_test
from bowsaw.formatting import format_signed

# -- verdicts and how their numbers are written ------------------------------------------------

Answer = Literal["yes", "no", "partly", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim of the paper.

    ``answer`` is whether the records support the claim; ``summary`` holds the numbers in sentences
    and the rule that turned them into the answer; ``header`` and ``rows`` are the table.
    """

    id: str
    claim: str
    where: str
    answer: Answer
    summary: str
    header: list[str]
    rows: list[list[str]]


def together(answers: Iterable[Answer]) -> Answer:
    """Return the answer of several cases: theirs where all measured ones agree, else partly."""
    different = set(answers) - {"not measured"}
    if not different:
        return "not measured"
    return different.pop() if len(different) == 1 else "partly"


def share(value: float | None) -> str:
    """Return an accuracy or an error as text."""
    return "—" if value is None else f"{value:.3f}"


def between(values: Iterable[float], write: Callable[[float], str] = share) -> str:
    """Return the least and the largest of several numbers as text."""
    some = sorted(values)
    ends = [write(value) for value in (some[0], some[-1])]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def amount(value: float) -> str:
    """Return a time, a size or a factor with three digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def signed(value: float | None) -> str:
    """Return a difference as text."""
    return "—" if value is None else format_signed(value)


def chance(p: float | None) -> str:
    """Return a p value as text."""
    if p is None:
        return "—"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def listed(names: Iterable[str]) -> str:
    """Return names joined as in a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


# -- methods side by side ----------------------------------------------------------------------

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
    """Two methods at one size of a panel: mean accuracies over the splits that both have.

    ``p`` is two-sided and corrected by Holm over the sizes of the panel; None for a single split.
    """

    panel: Panel
    size: int
    first: float
    second: float
    n_splits: int
    p: float | None

    @property
    def difference(self) -> float:
        """By how much the first is better, without the last bits: they must not decide."""
        return round(self.first - self.second, 9)


class Accuracies:
    """The accuracies of a run's cells for one mapping of the histograms, "sqrt" or "raw"."""

    def __init__(self, cells: Iterable[Mapping[str, Any]], mapping: str) -> None:
        self._found: dict[tuple[Panel, str, int], dict[int, float]] = {}
        self._images: dict[Panel, tuple[int, int]] = {}
        for cell in cells:
            if mapping not in cell["results"]:
                continue
            panel = (cell["set"], cell["coding"], cell["full_words"])
            place = self._found.setdefault((panel, cell["method"], cell["size"]), {})
            place[cell["split"]] = cell["results"][mapping]["accuracy"]
            self._images[panel] = cell["n_train"] + cell["n_codebook"], cell["n_test"]

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
            sizes = self.sizes(panel, first)
            sides = [[self.splits(panel, m, size) for size in sizes] for m in (first, second)]
            found += self.corrected(panel, sizes, *sides)
        return found

    def corrected(
        self, panel: Panel, sizes: Iterable[int], first: Iterable[Splits], second: Iterable[Splits]
    ) -> list[Pair]:
        """Compare two methods at each size of a panel, with p values corrected for their number."""
        every = map(partial(self.pair, panel), sizes, first, second)
        return corrected([pair for pair in every if pair is not None])

    def pair(self, panel: Panel, size: int, first: Splits, second: Splits) -> Pair | None:
        """Compare accuracies on the splits that both have; None where there is none."""
        both = sorted(first.keys() & second.keys())
        if not both:
            return None
        ours, theirs = ([side[i] for i in both] for side in (first, second))
        p = None
        if len(both) > 1:
            p = paired_test(ours, theirs, *self._images[panel]).p
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
    """Return differences in a phrase: their mean, how many are above 0, how many significant."""
    n_higher = sum(pair.difference > 0 for pair in pairs)
    text = f"{signed(mean(pair.difference for pair in pairs))} on average, "
    text += f"higher in {n_higher} of {len(pairs)}"
    if all(pair.p is None for pair in pairs):
        return f"{text} (one split: significance is unknown)"
    n_up, n_down = (
        sum(pair.p is not None and pair.p < LEVEL and sign * pair.difference > 0 for pair in pairs)
        for sign in (1, -1)
    )
    return f"{text} (significantly in {n_up}, significantly lower in {n_down})"


def named(panel: Panel) -> str:
    """Return a panel's name in a sentence, such as "15-Scenes hard 1000"."""
    return " ".join(map(str, panel))


def scope(pairs: Iterable[Pair]) -> str:
    """Return how many panels and splits an answer is based on, and what is missing."""
    pairs = list(pairs)
    panels = {pair.panel for pair in pairs}
    counts = [pair.n_splits for pair in pairs]
    splits = "1 split" if max(counts) == 1 else f"{between(counts, str)} splits"
    text = f"{len(panels)} panel{'s' * (len(panels) != 1)}, {splits}."
    return f"{text} {absent(panels)}".strip()


def absent(panels: Iterable[Panel]) -> str:
    """Name the panels of the paper that are not among these; nothing where none of them is."""
    there = set(panels)
    missing = [named(panel) for panel in PANELS if panel not in there]
    if len(missing) in (0, len(PANELS)):
        return ""
    return f"Not there, of the paper's eight panels: {listed(missing)}."


# -- claims on one method against another ------------------------------------------------------

TITLES = {
    "paper": "as published",
    "refinement": "refinement (ours)",
    "presence": "Yang",
    "bottleneck": "Fulkerson",
    "full": "all words",
}
MAPPINGS = ("sqrt", "raw")
CALLED = {"sqrt": "square-rooted", "raw": "raw"}
MAPS = "Where the two kinds of histograms disagree, partly."
COMPARABLE = 0.02
"""Accuracy that a comparable method may lose."""
CLEAR = 0.01
"""Accuracy that the best of several cases must gain: the best of many is above 0 by chance."""
TWO_ORDERS, ONE_ORDER = 100, 10

Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Claim:
    """A claim on one method against another at the same place, and the rule that answers it."""

    id: str
    claim: str
    where: str
    first: str
    second: str
    decide: Callable[[Sequence[Pair]], Answer]
    describe: Callable[[Sequence[Pair]], str]
    rule: str
    ours_beside: bool = True

    def judge(self, cells: Cells) -> Verdict:
        found = {name: Accuracies(cells, name) for name in MAPPINGS}
        pairs = {name: found[name].pairs(self.first, self.second) for name in MAPPINGS}
        chief, other = MAPPINGS if pairs["sqrt"] else MAPPINGS[::-1]
        names = f"{TITLES[self.first]} minus {TITLES[self.second]}"
        header = ["set", "coding", "full words", "words", TITLES[self.first], TITLES[self.second]]
        header += ["difference", "p (Holm)", f"{CALLED[other]}: difference"]
        ours: list[Pair] = []
        if self.ours_beside:
            ours = found[chief].pairs("refinement", self.second)
            header += [TITLES["refinement"], "difference"]
        text = f"The records hold no cell of both methods ({names}) on the same split. "
        if pairs[chief]:
            text = f"{names[0].upper()}{names[1:]}. "
        for name in (chief, other):
            if pairs[name]:
                text += f"{CALLED[name].capitalize()} histograms say {self.decide(pairs[name])}: "
                text += f"{tally(pairs[name])}. {self.describe(pairs[name])}"
        if ours and pairs[chief]:
            text += f"Of {TITLES['refinement']}, {CALLED[chief]} histograms say "
            text += f"{self.decide(ours)}: {tally(ours)}. "
        if pairs[chief]:
            text += f"Measured: {scope(pairs[chief])} "
        raw, beside = ({(p.panel, p.size): p for p in side} for side in (pairs[other], ours))
        rows = []
        for pair in pairs[chief]:
            row = [*map(str, pair.panel), str(pair.size), share(pair.first), share(pair.second)]
            there, own = (side.get((pair.panel, pair.size)) for side in (raw, beside))
            row += [signed(pair.difference), chance(pair.p)]
            row.append(signed(there.difference if there else None))
            if self.ours_beside:
                row += [share(own.first), signed(own.difference)] if own else ["—", "—"]
            rows.append(row)
        answer = together(self.decide(side) for side in pairs.values() if side)
        summary = f"{text}Rule: {self.rule} {MAPS}"
        return Verdict(self.id, self.claim, self.where, answer, summary, header, rows)


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


def _describe_gaps(pairs: Sequence[Pair]) -> str:
    gap = gaps(pairs)
    if gap is None:
        return "There is one full codebook only, so where it gains most is unknown. "
    return (
        f"From the largest full codebook {signed(gap[1])}, from the smallest {signed(gap[0])} "
        "at the same sizes. "
    )


def _comparable(pairs: Sequence[Pair]) -> Answer:
    near = mean(pair.difference >= -COMPARABLE for pair in pairs)
    return "yes" if near == 1 else "partly" if near >= 0.5 else "no"


def _describe_near(pairs: Sequence[Pair]) -> str:
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


def _describe_smaller(pairs: Sequence[Pair]) -> str:
    tiny = _at_most(pairs, TWO_ORDERS)
    if not tiny:
        return f"No size is {TWO_ORDERS} times smaller than its full codebook. "
    return (
        f"With {TWO_ORDERS} times fewer words or fewer still, better than all words in "
        f"{_best_case(tiny, 'with {} words')}"
    )


def _merging(pairs: Sequence[Pair]) -> Answer:
    clear = mean(any(p.difference >= CLEAR for p in some) for _, some in by_panel(pairs))
    if clear > 0.5:
        return "yes"
    return "partly" if any(pair.difference > 0 for pair in pairs) else "no"


def _describe_merging(pairs: Sequence[Pair]) -> str:
    return f"Better than all words at some size in {_best_case(pairs, 'merged into {}')}"


def _best_case(pairs: Sequence[Pair], how: str) -> str:
    panels = by_panel(pairs)
    n_better = sum(any(pair.difference > 0 for pair in some) for _, some in panels)
    best = max(pairs, key=lambda pair: pair.difference)
    return (
        f"{n_better} of {len(panels)} panels; the best case is {named(best.panel)} "
        f"{how.format(best.size)}: {share(best.first)} against {share(best.second)} "
        f"(p {chance(best.p)}). "
    )


CLAIMS = (
    _Claim(
        "better-than-presence",
        "Pruning by annealing is better than keeping the words of most mutual information "
        "(Yang et al. 2007), and most so from the 5000-word codebook.",
        "Section 4.1, Discussion, and Section 5",
        "paper",
        "presence",
        _better,
        _describe_gaps,
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
        _describe_near,
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
        _describe_smaller,
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
        _describe_merging,
        f"yes when in more than half of the panels some size is better than all words by {CLEAR} "
        "or more, as means over splits; partly when in fewer or by less; no when none is better.",
        ours_beside=False,
    ),
)
"""The claims on one method against another, by the paper's order."""


# -- claims on full codebooks and codings ------------------------------------------------------

SOME = 0.1
"""Share of the places that a coding must win to count as winning in some cases."""

Comparisons = dict[str, dict[str, list[Pair]]]
"""Pairs by mapping and method."""


def _tallies(pairs: Comparisons, mapping: str, methods: Iterable[str]) -> str:
    there = [m for m in methods if pairs[mapping][m]]
    return "; ".join(f"{TITLES[m]} {tally(pairs[mapping][m])}" for m in there)


def _compared(
    cells: Cells,
    compare: Callable[[Accuracies, str], list[Pair]],
    methods: Sequence[str],
    deciders: Sequence[str],
) -> tuple[Comparisons, str, str, str]:
    """Return pairs by mapping and method, the mapping that is shown, the other, and what lacks."""
    found = {name: Accuracies(cells, name) for name in MAPPINGS}
    pairs = {name: {m: compare(found[name], m) for m in methods} for name in MAPPINGS}
    chief, other = MAPPINGS if any(pairs["sqrt"][m] for m in deciders) else MAPPINGS[::-1]
    return pairs, chief, other, f"{absent(found[chief].panels)} ".lstrip()


def larger_gain(cells: Cells) -> Verdict:
    """Judge whether pruning and merging gain more from the larger full codebook."""
    methods, deciders = ("paper", "bottleneck", "refinement"), ("paper", "bottleneck")
    gains, chief, other, missing = _compared(cells, _gains, methods, deciders)
    header = ["set", "coding", "method", "gain from the largest", "gain from the smallest"]
    header += ["difference", "p (Holm)", f"{CALLED[other]}: difference"]
    rows = []
    for method in methods:
        raw = {pair.panel: pair.difference for pair in gains[other][method]}
        for pair in gains[chief][method]:
            row = [*pair.panel[:2], TITLES[method], signed(pair.first), signed(pair.second)]
            row += [signed(pair.difference), chance(pair.p), signed(raw.get(pair.panel))]
            rows.append(row)
    deciding = [[pair for m in deciders for pair in side[m]] for side in gains.values()]
    text = "The records hold no method at the same sizes from two full codebooks. "
    if any(deciding):
        text = "Gain (accuracy minus that of all words, mean over sizes) from the largest full "
        text += f"codebook minus that from the smallest, {CALLED[chief]} histograms: "
        text += f"{_tallies(gains, chief, methods)}. "
        there_too = _tallies(gains, other, methods)
        if there_too:
            text += f"{CALLED[other].capitalize()} histograms: {there_too}. "
        text += missing
    return Verdict(
        "larger-gain",
        "Pruning and merging have more effect when they start from an overcomplete codebook: "
        "5000 words instead of 1000.",
        "Section 4.1, Discussion",
        together(_all_above(side) for side in deciding if side),
        f"{text}Rule: yes when the gain of both methods is larger from the largest full codebook "
        "in every set and coding, as means over splits; no when in none; else partly. "
        f"{MAPS}",
        header,
        rows,
    )


def _all_above(pairs: Sequence[Pair]) -> Answer:
    higher = mean(pair.difference > 0 for pair in pairs)
    return "yes" if higher == 1 else "partly" if higher > 0 else "no"


def _gains(found: Accuracies, method: str) -> list[Pair]:
    """Return, for each set and coding, the gain from the largest and from the smallest codebook."""
    groups: dict[tuple[str, str], list[int]] = {}
    for name, coding, n_words in found.panels:
        groups.setdefault((name, coding), []).append(n_words)
    pairs = []
    for (name, coding), counts in groups.items():
        large, small = ((name, coding, n) for n in (max(counts), min(counts)))
        sizes = set(found.sizes(large, method)) & set(found.sizes(small, method))
        if large == small or not sizes:
            continue
        sides = []
        for panel in (large, small):
            full = found.splits(panel, "full", 0)
            by_size = [found.splits(panel, method, size) for size in sizes]
            whole = sorted(set(full).intersection(*by_size))
            sides.append({i: mean(one[i] for one in by_size) - full[i] for i in whole})
        pairs.append(found.pair(large, 0, *sides))
    return corrected([pair for pair in pairs if pair is not None])


def neither_coding(cells: Cells) -> Verdict:
    """Judge whether hard and soft coding each win somewhere."""
    methods = ("paper", "refinement", "bottleneck", "full")
    pairs, chief, other, missing = _compared(cells, _codings, methods, ["paper"])
    header = ["set", "full words", "words", "method", "soft", "hard", "difference", "p (Holm)"]
    rows = []
    for method in methods:
        for pair in pairs[chief][method]:
            row = [pair.panel[0], str(pair.panel[2]), str(pair.size), TITLES[method]]
            row += [share(pair.first), share(pair.second), signed(pair.difference)]
            rows.append([*row, chance(pair.p)])
    text = "The records hold no place where the published method has both codings. "
    if pairs[chief]["paper"]:
        text = f"Soft minus hard coding, {CALLED[chief]} histograms: "
        text += f"{_tallies(pairs, chief, methods)}. "
        if pairs[other]["paper"]:
            text += f"{CALLED[other].capitalize()} histograms: "
            text += f"{_tallies(pairs, other, ['paper'])}. "
        text += missing
    return Verdict(
        "neither-coding",
        "Neither coding dominates: hard and soft coding each do better in certain cases.",
        "Section 4.1, Discussion",
        together(_each_wins(side["paper"]) for side in pairs.values() if side["paper"]),
        f"{text}Rule: of the published method, yes when each coding has the higher mean over "
        f"splits in at least {SOME:.0%} of the places (sets, full codebooks and sizes); partly "
        f"when one has it in fewer; no when one never has it. {MAPS}",
        header,
        rows,
    )


def _each_wins(pairs: Sequence[Pair]) -> Answer:
    soft = mean(pair.difference > 0 for pair in pairs)
    hard = mean(pair.difference < 0 for pair in pairs)
    rarer = min(soft, hard)
    return "yes" if rarer >= SOME else "partly" if rarer > 0 else "no"


def _codings(found: Accuracies, method: str) -> list[Pair]:
    """Return soft against hard coding at every size of every set and full codebook."""
    pairs = []
    for name, coding, n_words in found.panels:
        if coding != "soft":
            continue
        soft, hard = ((name, kind, n_words) for kind in ("soft", "hard"))
        sizes = [n_words] if method == "full" else found.sizes(soft, method)
        sides = [[found.splits(panel, method, size) for size in sizes] for panel in (soft, hard)]
        pairs += found.corrected(soft, sizes, *sides)
    return pairs


# -- claims that the probes answer -------------------------------------------------------------

Lines = Iterable[Mapping[str, Any]]

NEAR = 0.01
"""Accuracy that a longer search must gain to count as needed."""
SETTLED = 0.9
"""Share of the score's rise that must be done for the search to have settled."""
PUBLISHED_WAY = "uniform, nearest-surviving"
"""Eq. 6 as Algorithm 1 uses it here."""
NO_PROBE = 'The records hold no probe "{}". '
_PARTS = ("error", "limit", "moved")
_COST_HEADER = ["set", "coding", "transfer", "words kept", "move, ms", "re-coding, ms", "faster"]
_COST_HEADER += ["building, s", "held, MB", "re-coding holds, MB", "space", "L1 error"]


def _lines(probes: Lines, name: str) -> list[Mapping[str, Any]]:
    return [line for line in probes if line["probe"] == name]


def few_iterations(probes: Lines) -> Verdict:
    """Judge whether Algorithm 1 needs few steps."""
    answers: list[Answer] = []
    rows, sentences = [], []
    for line in _lines(probes, "iterations"):
        for coding, published in line["published_steps"].items():
            path = sorted(
                (row for row in line["rows"] if row["coding"] == coding),
                key=lambda row: int(row["n_steps"]),
            )
            accuracy, score = (
                {row["n_steps"]: mean(row[key]) for row in path} for key in ("accuracy", "score")
            )
            if published not in accuracy or 0 not in accuracy:
                continue
            at, start = accuracy[published], accuracy[0]
            longer = [value for n, value in accuracy.items() if n > published]
            risen, rise = (end - score[0] for end in (score[published], max(score.values())))
            settled = rise > 0 and round(risen - SETTLED * rise, 9) >= 0
            gains = at > start and round(max(longer, default=at) - at, 9) <= NEAR
            answers.append("yes" if settled and gains else "partly" if settled or gains else "no")
            sentences.append(
                f"{line['set']} {coding}: {share(start)} at the random start, {share(at)} after "
                f"the published {published} steps, "
                + (f"{share(max(longer))} at best after more; " if longer else "no longer search; ")
                + f"{max(risen, 0.0) / rise if rise > 0 else 0:.0%} of the score's rise done"
            )
            for row in path:
                means = [mean(row[key]) for key in ("score", "recoded_score", "accuracy")]
                cells = [line["set"], coding, str(row["n_steps"]), *map(share, means)]
                rows.append([*cells, signed(means[-1] - start)])
    text = NO_PROBE.format("iterations")
    if sentences:
        text = f"Accuracy: {'. '.join(sentences)}. "
        about = _lines(probes, "iterations")[0]
        text += (
            f"Algorithm 1 as published, {about['size']} of {about['full_words']} words, one split, "
            "a few random starts, square-rooted histograms, words re-encoded. "
        )
    return Verdict(
        "few-iterations",
        "The search does well after relatively few steps: 100 (hard) and 500 (soft).",
        "Section 4.1, Discussion",
        together(answers),
        f"{text}Rule: a set and coding passes two tests, that the published number of steps has "
        f"done {SETTLED:.0%} of the rise of the search's own score, and that its accuracy is above "
        f"the start's and within {NEAR} of any longer search's; yes when it passes both, partly "
        "when one, no when none. Of several, their answer where they agree, else partly.",
        ["set", "coding", "steps", "score", "score, re-encoded", "accuracy", "minus start"],
        rows,
    )


def error_falls(probes: Lines) -> Verdict:
    """Judge whether the error of Ψ falls with the descriptors of an image."""
    answers: list[Answer] = []
    rows, sentences = [], []
    for line in _lines(probes, "transfer-error"):
        for (way, n_kept), path in _curves(line["rows"]).items():
            floor = _floor(path)
            for row in path:
                cells = [line["set"], way, str(n_kept), f"{row['n_descriptors']:.0f}"]
                rows.append([*cells, *(share(row[key]) for key in _PARTS), share(floor)])
            if way != PUBLISHED_WAY or len(path) < 2:
                continue
            errors = [row["error"] for row in path]
            falls = all(later < earlier for earlier, later in pairwise(errors))
            within = errors[-1] <= path[-1]["limit"]
            answers.append("no" if not falls else "yes" if within else "partly")
            sentences.append((errors[0], errors[-1], floor or 0.0, path[-1]["limit"], n_kept))
    text = NO_PROBE.format("transfer-error")
    if sentences:
        about = _lines(probes, "transfer-error")[0]
        first, last, floors, limits, sizes = map(list, zip(*sentences, strict=True))
        text = (
            f"Mean L1 error (0 to 2) of Eq. 6 against re-coding: {between(first)} with the fewest "
            f"descriptors per image, {between(last)} with all, and on the way to {between(floors)} "
            "(a line in one over the root of their number); were the transfer right, at most "
            f"{between(limits)} would be left. Exact inference has no error at any number. "
            f"{between(sizes, str)} of {about['full_words']} words kept at random, "
            f"{about['n_images']} training images of one split. "
        )
    return Verdict(
        "error-falls",
        "When an image has many local features, Ψ gives its representation without re-coding.",
        "Section 3.2.1, Proposition 1 and the heuristic of Eq. 6",
        together(answers),
        f"{text}Rule: for each number of kept words, yes when the error of Eq. 6 falls with every "
        "step to more descriptors and ends within what Proposition 1's variance allows (the sum of "
        "the standard deviations); partly when it falls but ends above, so that more descriptors "
        "cannot remove the rest; no when it does not fall. Of several, their answer where they "
        "agree, else partly.",
        ["set", "transfer", "words kept", "descriptors", "error", "allowed", "mass moved", "floor"],
        rows,
    )


def _curves(
    rows: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    """Return the rows of each way and number of kept words, by rising number of descriptors."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: float(row["n_descriptors"])):
        found.setdefault((row["way"], row["n_kept"]), []).append(row)
    return found


def _floor(path: Sequence[Mapping[str, Any]]) -> float | None:
    """Return where the errors go as descriptors become many: a + b/√N at b's end, at least 0."""
    if len(path) < 2:
        return None
    x = np.array([row["n_descriptors"] for row in path]) ** -0.5
    y = np.array([row["error"] for row in path])
    return max(0.0, float(np.polyfit(x, y, 1)[1]))


def coding_dominates(probes: Lines) -> Verdict:
    """Judge whether coding takes most of an image's time."""
    answers: list[Answer] = []
    rows: list[list[str]] = []
    shares_of: dict[int, list[float]] = {}
    parts = ("describe_ms", "code_ms", "pool_ms", "classify_ms")
    for line in _lines(probes, "cost-shares"):
        for row in line["rows"]:
            times = [row[part] for part in parts]
            whole = sum(value for value in times if value is not None)
            coding = row["code_ms"] / whole if whole else 0.0
            cells = [line["set"], row["coding"], str(row["n_words"])]
            cells += ["—" if value is None else amount(value) for value in times]
            rows.append([*cells, f"{coding:.0%}"])
            if row["full"]:
                answers.append("yes" if coding > 0.5 else "no")
            shares_of.setdefault(row["n_words"], []).append(coding)
    text = NO_PROBE.format("cost-shares")
    if shares_of:
        shares = [
            f"{between(shares_of[n], '{:.0%}'.format)} with {n} words" for n in sorted(shares_of)
        ]
        text = (
            "Coding's share of the time to describe, code, pool and classify an image: "
            f"{listed(shares)}. One thread; reading the file is not counted. "
        )
    return Verdict(
        "coding-dominates",
        "Coding dominates the cost of the pipeline.",
        "Section 1 and Section 2",
        together(answers),
        f"{text}Rule: yes when coding with a full codebook takes more than half of an image's time "
        "in every set, coding and codebook; no when in none; else partly.",
        ["set", "coding", "words", *(f"{part[:-3]}, ms" for part in parts), "coding's share"],
        rows,
    )


def brute_force(probes: Lines) -> Verdict:
    """Judge what inference saves against re-encoding at each step, in time and in space."""
    quicker: list[bool] = []
    smaller: list[bool] = []
    rows: list[list[str]] = []
    ratios: dict[str, list[tuple[float, float]]] = {}
    for line in _lines(probes, "brute-force"):
        for row in line["rows"]:
            cells = [line["set"], row["coding"], row["transfer"], str(row["n_kept"])]
            if row["refusal"] is not None or not row["move_seconds"]:
                rows.append([*cells, *["—"] * 7, "refused"])
                continue
            held = line["corpus_bytes"] + row["words_bytes"]
            speed, space = row["recode_seconds"] / row["move_seconds"], row["n_bytes"] / held
            cells += [amount(1000 * row[key]) for key in ("move_seconds", "recode_seconds")]
            cells += [f"{amount(speed)} ×", amount(row["build_seconds"])]
            cells += [amount(n / 1e6) for n in (row["n_bytes"], held)]
            rows.append([*cells, f"{amount(space)} ×", share(row["error"])])
            ratios.setdefault(f"{row['coding']}, {row['transfer']}", []).append((speed, space))
            if row["transfer"] == ("uniform" if row["coding"] == "hard" else "exact"):
                quicker.append(speed > 1)
                smaller.append(space < 1)
    text = NO_PROBE.format("brute-force")
    if ratios:
        about = _lines(probes, "brute-force")[0]
        parts = []
        for name, pairs in ratios.items():
            speeds, spaces = zip(*pairs, strict=True)
            parts.append(
                f"{name}: {between(speeds, amount)} times faster, {between(spaces, amount)} times "
                "the bytes"
            )
        text = (
            "A move of a few words inferred, against re-encoding all training images: "
            f"{'; '.join(parts)}. Bytes are what is held, against the descriptors and words that "
            f"re-coding reads at each step. {about['full_words']} words, one split; coding once "
            "with all words comes before the first move. "
        )
    answer: Answer = "not measured"
    if quicker:
        answer = "yes" if all(quicker + smaller) else "partly" if any(quicker) else "no"
    return Verdict(
        "brute-force",
        "Inference needs less time and space than instantiating the whole pipeline at each step.",
        "Section 4.1.1, Complexity Analysis",
        answer,
        f"{text}Rule: of the paper's own ways (Eq. 6 for hard, Claim 2 for soft coding), yes when "
        "a step is quicker and what is held is smaller in every set and size; no when no step is "
        "quicker; else partly.",
        _COST_HEADER,
        rows,
    )


# -- all claims --------------------------------------------------------------------------------


def verdicts(run: Run) -> list[Verdict]:
    """Return a verdict for each claim of the paper, in a fixed order.

    Examples
    --------
    >>> from bowsaw.comparison import Run
    >>> found = verdicts(Run({}))
    >>> len(found), {verdict.answer for verdict in found}
    (10, {'not measured'})
    """
    by_cells = (*(claim.judge for claim in CLAIMS), larger_gain, neither_coding)
    by_probes = (few_iterations, error_falls, coding_dominates, brute_force)
    return [judge(run.cells) for judge in by_cells] + [judge(run.probes) for judge in by_probes]
