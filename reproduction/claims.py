"""The claims of the paper, each with a verdict from the records of a run.

The cells and probes of a run are the only input. The method as published (``paper``) decides; ours
(``refinement``) is shown beside it. A claim is *supported*, *contradicted* or *not shown*, and the
interval of a difference decides, not its mean.

**Parts.** A claim is about one or several numbers, its parts, each of which is above a limit if the
claim is true. The interval of a part is that of the corrected resampled t-test
(:func:`bowsaw.evaluation.paired_test`, two-sided): per split the mean over panels and sizes, per
set of images one test, and the sets, which share no image, pooled. The paper does not say whether
its histograms were square-rooted: where both mappings were measured and their verdicts differ, the
claim is not shown.

**Error.** The probability of a wrong verdict is at most ``LEVEL`` per claim. Of k parts, intervals
have the level 1 − ``LEVEL``/k (Bonferroni) where one part is enough for a verdict, and 1 −
``LEVEL`` where all parts must agree. ``reproduction/tests/test_simulations.py`` simulates every
rule without a difference and with a stated one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any, Literal, NamedTuple

import numpy as np

from bowsaw.comparison import Run
from bowsaw.evaluation import paired_test, pooled
from bowsaw.formatting import format_signed

# -- verdicts and how their numbers are written ------------------------------------------------

Answer = Literal["supported", "contradicted", "not shown", "not measured"]

LEVEL = 0.05
"""Probability of a wrong verdict that a claim may have."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one claim of the paper.

    ``answer`` is whether the records support the claim; ``found`` says in one sentence what was
    found; ``summary`` holds all numbers in sentences and the rule that turned them into the answer;
    ``header`` and ``rows`` are the table.
    """

    id: str
    claim: str
    where: str
    answer: Answer
    found: str
    summary: str
    header: list[str]
    rows: list[list[str]]


class Part(NamedTuple):
    """A number that is above ``limit`` if the claim is true.

    ``interval`` returns its ends for a level; None where the records have no interval, such as a
    single split.
    """

    name: str
    value: float
    interval: Callable[[float], tuple[float, float]] | None
    limit: float = 0.0

    def side(self, n_parts: int = 1) -> int:
        """Return 1 if the interval is above the limit, −1 if it is below, else 0."""
        if self.interval is None:
            return 0
        # Without the last bits: they must not decide.
        low, high = (round(end - self.limit, 9) for end in self.interval(1 - LEVEL / n_parts))
        return 1 if low > 0 else -1 if high < 0 else 0


def all_hold(parts: Sequence[Part]) -> Answer:
    """Answer a claim of which every part must hold: one that does not contradicts it."""
    if not parts:
        return "not measured"
    if any(part.side(len(parts)) < 0 for part in parts):
        return "contradicted"
    return "supported" if all(part.side() > 0 for part in parts) else "not shown"


def some_hold(parts: Sequence[Part]) -> Answer:
    """Answer a claim that holds in certain cases: one supports it, all must contradict it."""
    if not parts:
        return "not measured"
    if any(part.side(len(parts)) > 0 for part in parts):
        return "supported"
    return "contradicted" if all(part.side() < 0 for part in parts) else "not shown"


def both_occur(parts: Sequence[Part]) -> Answer:
    """Answer a claim that parts lie on both sides: all of them on one side contradict it."""
    if not parts:
        return "not measured"
    if {1, -1} <= {part.side(len(parts)) for part in parts}:
        return "supported"
    one_side = {part.side() for part in parts} in ({1}, {-1})
    return "contradicted" if one_side else "not shown"


def agreed(answers: Iterable[Answer]) -> Answer:
    """Return the answer that all measured cases have, else that nothing is shown."""
    different = set(answers) - {"not measured"}
    if not different:
        return "not measured"
    return different.pop() if len(different) == 1 else "not shown"


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


def listed(names: Iterable[str]) -> str:
    """Return names joined as in a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def written(parts: Sequence[Part], most: int = 3) -> str:
    """Return parts with their intervals; of more than ``most``, the largest and the smallest."""
    shown = list(parts)
    if len(parts) > most:
        shown = [max(parts, key=_above), min(parts, key=_above)]
    sentences = []
    for part in shown:
        text = f"{part.name} {signed(part.value)}"
        if part.interval is None:
            text += " (no interval)"
        else:
            ends = part.interval(1 - LEVEL)
            text += f" ({signed(ends[0])} to {signed(ends[1])})"
        sentences.append(text)
    if len(parts) > most:
        n_above, n_below = (sum(part.side() == side for part in parts) for side in (1, -1))
        limit = f"{parts[0].limit:g}"
        sentences.append(f"{n_above} of {len(parts)} intervals are above {limit}, {n_below} below")
    return "; ".join(sentences)


def _above(part: Part) -> float:
    return part.value - part.limit


NOT_MEASURED = "These records do not answer it."


def clearly(first: str, second: str, parts: Sequence[Part], of: str) -> str:
    """Return how many intervals of a difference are above 0, and how many below."""
    above, below = (sum(part.side() == side for part in parts) for side in (1, -1))
    return (
        f"{first} is clearly better than {second} in {above} of {len(parts)} {of}, clearly worse "
        f"in {below}."
    )


def more(value: float) -> str:
    """Return a difference as a comparison."""
    return f"{share(abs(value))} {'more' if value > 0 else 'less'} accurate"


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

Splits = Mapping[int, float]
"""A number for each split."""


@dataclass(frozen=True)
class Pair:
    """Two accuracies at one place, on the splits that both have.

    ``name`` is what is compared; ``images`` are those that had a part in the model, and those that
    tested it.
    """

    name: str
    panel: Panel
    size: int
    first: Splits
    second: Splits
    images: tuple[int, int]

    @property
    def differences(self) -> dict[int, float]:
        """By how much the first is better, by split."""
        both = self.first.keys() & self.second.keys()
        return {split: self.first[split] - self.second[split] for split in sorted(both)}

    @property
    def difference(self) -> float:
        """By how much the first is better, as a mean over the splits."""
        return mean(self.differences.values())


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

    def pairs(self, first: str, second: str, coding: str | None = None) -> list[Pair]:
        """Compare two methods wherever both were measured on the same splits.

        With ``coding``, the second method is that of the same set, words and size in this coding.
        """
        name = f"{first} − {TITLES.get(second, second)}"
        if coding is not None:
            name = f"{first}: soft − {coding}"
        found = []
        places = sorted((p, size) for p, method, size in self._found if method == first)
        for panel, size in places:
            other = panel if coding is None else (panel[0], coding, panel[2])
            if size < panel[2] and (coding is None or other != panel):
                ours = self._found[panel, first, size]
                theirs = self._found.get(
                    (other, second, panel[2] if second == "full" else size), {}
                )
                if ours.keys() & theirs.keys():
                    found.append(Pair(name, panel, size, ours, theirs, self._images[panel]))
        order = {panel: place for place, panel in enumerate(self.panels)}
        return sorted(found, key=lambda pair: (order[pair.panel], pair.size))


def per_split(pairs: Iterable[Pair]) -> dict[str, dict[int, float]]:
    """Return the mean difference of each set and split, on splits that all pairs of a set have."""
    groups: dict[str, list[dict[int, float]]] = {}
    for pair in pairs:
        groups.setdefault(pair.panel[0], []).append(pair.differences)
    return {
        name: {
            split: mean(gap[split] for gap in gaps)
            for split in sorted(set.intersection(*(set(gap) for gap in gaps)))
        }
        for name, gaps in groups.items()
    }


def part_of(
    name: str, values: Mapping[str, Splits], pairs: Sequence[Pair], limit: float = 0.0
) -> Part:
    """Return a part from a number for each set and split."""
    images = {pair.panel[0]: pair.images for pair in pairs}
    middle = mean(mean(splits.values()) for splits in values.values())
    if min(map(len, values.values())) < 2:
        return Part(name, middle, None, limit)
    tests = [
        paired_test(list(splits.values()), [0.0] * len(splits), *images[key])
        for key, splits in values.items()
    ]
    return Part(name, middle, pooled(tests).interval, limit)


def named(panel: Panel) -> str:
    """Return a panel's name in a sentence, such as "15-Scenes hard 1000"."""
    return " ".join(map(str, panel))


def scope(pairs: Sequence[Pair]) -> str:
    """Return how many panels and splits an answer is based on, and what is missing."""
    panels = {pair.panel for pair in pairs}
    counts = [len(pair.differences) for pair in pairs]
    splits = "1 split" if max(counts) == 1 else f"{between(counts, str)} splits"
    text = f"{len(panels)} panel{'s' * (len(panels) != 1)}, {splits}."
    missing = [named(panel) for panel in PANELS if panel not in panels]
    if pairs[0].panel[1] == "soft" and not {p for p in panels if p[1] == "hard"}:
        missing = [name for name in missing if " soft " in name]
    if 0 < len(missing) < len(PANELS):
        text += f" Not there, of the paper's eight panels: {listed(missing)}."
    return text


# -- claims on accuracies ----------------------------------------------------------------------

TITLES = {"full": "all words"}
"""Of methods that are not shown by their name."""
MAPPINGS = ("sqrt", "raw")
CALLED = {"sqrt": "Square-rooted", "raw": "Raw"}
COMPARABLE = 0.02
"""Accuracy that a comparable method may lose."""
TWO_ORDERS = 100

Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Claim:
    """A claim on accuracies.

    ``pairs`` compares the method that decides, or ours; ``parts`` turns pairs into numbers, and
    ``decide`` these into an answer, as ``rule`` says in words. ``plain`` is what was found.
    """

    id: str
    claim: str
    where: str
    pairs: Callable[[Accuracies, str], list[Pair]]
    parts: Callable[[Sequence[Pair]], list[Part]]
    decide: Callable[[Sequence[Part]], Answer]
    plain: Callable[[Sequence[Part]], str]
    rule: str
    ours_beside: bool = True

    def judge(self, cells: Cells) -> Verdict:
        found = {name: Accuracies(cells, name) for name in MAPPINGS}
        pairs = {name: self.pairs(found[name], "paper") for name in MAPPINGS}
        parts = {name: self.parts(pairs[name]) for name in MAPPINGS}
        chief, other = MAPPINGS if parts["sqrt"] else MAPPINGS[::-1]
        text = "The records hold no cells to compare. "
        if parts[chief]:
            text = "Intervals are of 95 %, from the splits. "
        for name in (chief, other):
            if parts[name]:
                text += f"{CALLED[name]} histograms: {self.decide(parts[name])}; "
                text += f"{written(parts[name])}. "
        shown = list(pairs[chief])
        if self.ours_beside and parts[chief]:
            beside = self.pairs(found[chief], "refinement")
            ours = self.parts(beside)
            if ours:
                text += f"Of refinement: {self.decide(ours)}; {written(ours)}. "
                shown += beside
        if parts[chief]:
            text += f"Measured: {scope(pairs[chief])} "
        header = ["set", "coding", "full words", "words", "compared", "first", "second"]
        header += ["difference", "ahead in", f"{CALLED[other].lower()}: difference"]
        there = {(p.name, p.panel, p.size): p.difference for p in pairs[other]}
        rows = []
        for pair in shown if parts[chief] else ():
            gaps = pair.differences
            means = [mean(side[i] for i in gaps) for side in (pair.first, pair.second)]
            name = pair.name.replace(" ", "\u00a0")
            row = [*map(str, pair.panel), str(pair.size), name, *map(share, means)]
            ahead = f"{sum(gap > 0 for gap in gaps.values())} of {len(gaps)}"
            row += [signed(pair.difference), ahead]
            rows.append([*row, signed(there.get((pair.name, pair.panel, pair.size)))])
        answer = agreed(self.decide(side) for side in parts.values())
        plain = self.plain(parts[chief]) if parts[chief] else NOT_MEASURED
        summary = f"{text}Rule: {self.rule} Where the two kinds of histograms disagree, not shown."
        return Verdict(self.id, self.claim, self.where, answer, plain, summary, header, rows)


def _against(second: str, pairs_of: Accuracies, method: str) -> list[Pair]:
    return pairs_of.pairs(method, second)


def _average(pairs: Sequence[Pair], limit: float = 0.0) -> list[Part]:
    return [part_of("mean", per_split(pairs), pairs, limit)] if pairs else []


def _from_largest(pairs: Sequence[Pair], name: str) -> list[Part]:
    """Return the mean difference from the largest full codebook minus that from the smallest.

    At the sizes of a set and coding that both have.
    """
    places: dict[tuple[str, str, int], dict[int, Pair]] = {}
    for pair in pairs:
        places.setdefault((*pair.panel[:2], pair.size), {})[pair.panel[2]] = pair
    several = [place for place in places.values() if len(place) > 1]
    if not several:
        return []
    large, small = (per_split(place[end(place)] for place in several) for end in (max, min))
    values = {
        key: {i: large[key][i] - small[key][i] for i in large[key] if i in small[key]}
        for key in large
    }
    return [part_of(name, values, pairs)]


def _better(pairs: Sequence[Pair]) -> list[Part]:
    more = "from the smallest to the largest full codebook"
    return _average(pairs) + _from_largest(pairs, more)


def _hundredth(pairs: Sequence[Pair]) -> list[Part]:
    """Return a part per panel: its largest size of at most 1/100 of the full codebook."""
    best: dict[Panel, Pair] = {}
    for pair in pairs:
        if pair.size * TWO_ORDERS <= pair.panel[2]:
            best[pair.panel] = max(pair, best.get(pair.panel, pair), key=lambda one: one.size)
    return [
        part_of(f"{named(panel)} with {pair.size} words", per_split([pair]), [pair])
        for panel, pair in best.items()
    ]


def _by_size(pairs: Sequence[Pair]) -> list[Part]:
    sizes = {size: [p for p in pairs if p.size == size] for size in sorted({p.size for p in pairs})}
    return [part_of(f"{size} words", per_split(some), some) for size, some in sizes.items()]


def _both_gains(found: Accuracies, method: str) -> list[Pair]:
    methods = ("paper", "bottleneck") if method == "paper" else (method,)
    return [pair for name in methods for pair in found.pairs(name, "full")]


def _larger(pairs: Sequence[Pair]) -> list[Part]:
    names = dict.fromkeys(pair.name for pair in pairs)
    some = (([p for p in pairs if p.name == name], name) for name in names)
    return [part for one, name in some for part in _from_largest(one, name)]


def _codings(found: Accuracies, method: str) -> list[Pair]:
    return found.pairs(method, method, coding="hard")


def _by_panel(pairs: Sequence[Pair]) -> list[Part]:
    panels = {pair.panel: [p for p in pairs if p.panel == pair.panel] for pair in pairs}
    return [
        part_of(f"{panel[0]} {panel[2]}", per_split(some), some) for panel, some in panels.items()
    ]


CLAIMS = (
    _Claim(
        "better-than-presence",
        "Pruning by annealing is better than keeping the words of most mutual information "
        "(Yang et al. 2007), and most so from the 5000-word codebook.",
        "Section 4.1, Discussion, and Section 5",
        partial(_against, "presence"),
        _better,
        all_hold,
        lambda parts: (
            f"paper is {more(parts[0].value)} than presence on average"
            + "".join(f"; the lead changes by {signed(p.value)} {p.name}" for p in parts[1:])
            + "."
        ),
        "supported when the 95 % intervals of the mean difference and of the difference from the "
        "largest full codebook minus that from the smallest are both above 0; contradicted when "
        "one interval (corrected for their number) is below 0; else not shown.",
    ),
    _Claim(
        "comparable-to-fulkerson",
        "It is comparable to merging words by the information bottleneck (Fulkerson et al. 2008).",
        "Section 4.1, Discussion, and Section 5",
        partial(_against, "bottleneck"),
        partial(_average, limit=-COMPARABLE),
        all_hold,
        lambda parts: (
            f"paper is {more(parts[0].value)} than bottleneck on average; {COMPARABLE} less counts "
            "as comparable."
        ),
        f"supported when the 95 % interval of the mean difference is above −{COMPARABLE}; "
        "contradicted when it is below; else not shown.",
    ),
    _Claim(
        "smaller-and-better",
        "In certain cases the codebook shrinks by two orders of magnitude while accuracy rises.",
        "Section 4.1, Discussion",
        partial(_against, "full"),
        _hundredth,
        some_hold,
        lambda parts: clearly("With a hundredth of the words, paper", "all words", parts, "panels"),
        f"the largest size of at most 1/{TWO_ORDERS} of the full codebook, panel by panel, minus "
        "all words; supported when one interval (corrected for the number of panels) is above 0; "
        "contradicted when the 95 % intervals of all panels are below 0; else not shown.",
    ),
    _Claim(
        "merging-better-than-full",
        "Merging words instead of discarding them can improve on the full codebook.",
        "Section 4.1, Discussion",
        lambda found, _: found.pairs("bottleneck", "full"),
        _by_size,
        some_hold,
        partial(clearly, "bottleneck", "all words", of="sizes"),
        "size by size, over all panels; supported when one interval (corrected for the number of "
        "sizes) is above 0; contradicted when the 95 % intervals of all sizes are below 0; else "
        "not shown.",
        ours_beside=False,
    ),
    _Claim(
        "larger-gain",
        "Pruning and merging have more effect when they start from an overcomplete codebook: "
        "5000 words instead of 1000.",
        "Section 4.1, Discussion",
        _both_gains,
        _larger,
        all_hold,
        lambda parts: (
            "From the largest instead of the smallest codebook, the gain changes by "
            + listed(f"{signed(p.value)} ({p.name.split(' ')[0]})" for p in parts)
            + "."
        ),
        "the gain (accuracy minus that of all words, mean over sizes) from the largest full "
        "codebook minus that from the smallest; supported when the 95 % intervals of both methods "
        "are above 0; contradicted when one (corrected for their number) is below 0; else not "
        "shown.",
    ),
    _Claim(
        "neither-coding",
        "Neither coding dominates: hard and soft coding each do better in certain cases.",
        "Section 4.1, Discussion",
        _codings,
        _by_panel,
        both_occur,
        partial(clearly, "Soft coding", "hard coding", of="cases"),
        "soft minus hard coding, mean over sizes, for each set and full codebook; supported when "
        "one interval (corrected for their number) is above 0 and another below 0; contradicted "
        "when all 95 % intervals are on the same side; else not shown.",
    ),
)
"""The claims on accuracies, in the paper's order."""


# -- claims that the probes answer -------------------------------------------------------------

Lines = Iterable[Mapping[str, Any]]

NEAR = 0.01
"""Accuracy that a longer search must gain to count as needed."""
SETTLED = 0.9
"""Share of the score's rise that must be done for the search to have settled."""
TIMES = 2.0
"""A time that is measured again is within this factor."""
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
    rows: list[list[str]] = []
    starts: dict[tuple[str, int], dict[str, dict[int, Mapping[str, list[float]]]]] = {}
    for line in _lines(probes, "iterations"):
        for coding, published in line["published_steps"].items():
            path = {row["n_steps"]: row for row in line["rows"] if row["coding"] == coding}
            if published in path and 0 in path:
                starts.setdefault((coding, published), {})[line["set"]] = path
            for n_steps in sorted(path):
                row = path[n_steps]
                means = [mean(row[key]) for key in ("score", "recoded_score", "accuracy")]
                cells = [line["set"], coding, str(n_steps), *map(share, means)]
                gain = means[-1] - mean(path[0]["accuracy"]) if 0 in path else None
                rows.append([*cells, signed(gain)])
    parts = [part for key, paths in starts.items() for part in _search_parts(*key, paths)]
    text, plain = NO_PROBE.format("iterations"), NOT_MEASURED
    if parts:
        gains = listed(f"{signed(p.value)} ({p.name.split(',')[0]})" for p in parts[::3])
        plain = f"After the published number of steps, accuracy has changed by {gains}."
        about = _lines(probes, "iterations")[0]
        text = (
            f"Intervals are of 95 %, from the random starts: {written(parts, most=6)}. Algorithm 1 "
            f"as published, {about['size']} of {about['full_words']} words, one split, "
            "square-rooted histograms, words re-encoded. "
        )
    return Verdict(
        "few-iterations",
        "The search does well after relatively few steps: 100 (hard) and 500 (soft).",
        "Section 4.1, Discussion",
        all_hold(parts),
        plain,
        f"{text}Rule: for each coding three numbers, as means over the sets: accuracy after the "
        f"published steps minus that of the start; {NEAR} minus what the longest search gains on "
        f"it; the rise of the search's own score minus {SETTLED:.0%} of the longest search's. "
        "Supported when all 95 % intervals are above 0, contradicted when one (corrected for their "
        "number) is below 0; else, and where no search is longer than the published one, not "
        "shown.",
        ["set", "coding", "steps", "score", "score, re-encoded", "accuracy", "minus start"],
        rows,
    )


def _search_parts(
    coding: str, published: int, paths: Mapping[str, Mapping[int, Mapping[str, list[float]]]]
) -> list[Part]:
    """Return the three parts of one coding; each path has a list of starts per number of steps."""

    def part(name: str, number: Callable[..., float]) -> Part:
        values = []
        for path in paths.values():
            ends = path[0], path[published], path[max(path)]
            columns = [end[key] for key in ("accuracy", "score") for end in ends]
            values.append([number(*start) for start in zip(*columns, strict=True)])
        # Starts are independent: there is no overlap to correct for.
        tests = [paired_test(one, [0.0] * len(one), 1, 0) for one in values if len(one) > 1]
        interval = pooled(tests).interval if len(tests) == len(values) else None
        is_longer = all(max(path) > published for path in paths.values())
        known = is_longer or name == "accuracy above the start"
        middle = mean(map(mean, values))
        return Part(f"{coding}, {name}", middle, interval if known else None)

    return [
        part("accuracy above the start", lambda a0, a, _a, s0, s, _s: a - a0),
        part("accuracy near the longest", lambda a0, a, longest, s0, s, _s: NEAR - (longest - a)),
        part(
            "score settled",
            lambda a0, a, _a, s0, s, longest: (s - s0) - SETTLED * (longest - s0),
        ),
    ]


def hoeffding(value: float, n: int, width: float, level: float) -> tuple[float, float]:
    """Return the interval of a mean of n independent numbers within a range of this width."""
    half = width * math.sqrt(math.log(2 / (1 - level)) / (2 * n))
    return value - half, value + half


def error_falls(probes: Lines) -> Verdict:
    """Judge whether Ψ gives the histograms of images with many descriptors."""
    parts, ends, rows = [], [], []
    for line in _lines(probes, "transfer-error"):
        for (way, n_kept), path in _curves(line["rows"]).items():
            floor = _floor(path)
            for row in path:
                cells = [line["set"], way, str(n_kept), f"{row['n_descriptors']:.0f}"]
                rows.append([*cells, *(share(row[key]) for key in _PARTS), share(floor)])
            if way != PUBLISHED_WAY or len(path) < 2:
                continue
            left = path[-1]["limit"] - path[-1]["error"]
            interval = partial(hoeffding, left, line["n_images"], 2.0)
            parts.append(Part(f"{line['set']} {n_kept} words", left, interval))
            ends.append((path[0]["error"], path[-1]["error"], floor or 0.0, path[-1]["limit"]))
    text, plain = NO_PROBE.format("transfer-error"), NOT_MEASURED
    if parts:
        about = _lines(probes, "transfer-error")[0]
        first, last, floors, limits = map(list, zip(*ends, strict=True))
        plain = (
            f"With all descriptors the error of Eq. 6 is {between(last)}; if the claim held, at "
            f"most {between(limits)} would be left."
        )
        text = (
            f"Mean L1 error (0 to 2) of Eq. 6 against re-coding: {between(first)} with the fewest "
            f"descriptors per image, {between(last)} with all, and on the way to {between(floors)} "
            "(a line in one over the root of their number); were the transfer right, at most "
            f"{between(limits)} would be left. Allowed minus measured, with intervals of 95 % "
            f"(Hoeffding): {written(parts)}. Exact inference has no error at any number. "
            f"{about['full_words']} words, {about['n_images']} training images of one split. "
        )
    return Verdict(
        "error-falls",
        "When an image has many local features, Ψ gives its representation without re-coding.",
        "Section 3.2.1, Proposition 1 and the heuristic of Eq. 6",
        all_hold(parts),
        plain,
        f"{text}Rule: what Proposition 1's variance allows (the sum of the standard deviations) "
        "minus the error of Eq. 6 with all descriptors, for each set and number of kept words; "
        "supported when all 95 % intervals are above 0; contradicted when one (corrected for their "
        "number) is below 0: more descriptors cannot remove the rest; else not shown.",
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


def repeated(value: float, level: float) -> tuple[float, float]:
    """Return the interval of a ratio of times, whatever the level."""
    return value / TIMES, value * TIMES


def counted(value: float, level: float) -> tuple[float, float]:
    """Return the interval of bytes, which are counted and not measured."""
    return value, value


def coding_dominates(probes: Lines) -> Verdict:
    """Judge whether coding takes most of an image's time."""
    parts: list[Part] = []
    rows: list[list[str]] = []
    shares_of: dict[int, list[float]] = {}
    names = ("describe_ms", "code_ms", "pool_ms", "classify_ms")
    for line in _lines(probes, "cost-shares"):
        for row in line["rows"]:
            times = [row[name] for name in names]
            whole = sum(value for value in times if value is not None)
            coding = row["code_ms"] / whole if whole else 0.0
            cells = [line["set"], row["coding"], str(row["n_words"])]
            cells += ["—" if value is None else amount(value) for value in times]
            rows.append([*cells, f"{coding:.0%}"])
            if row["full"]:
                others = whole - row["code_ms"]
                ratio = row["code_ms"] / others if others else math.inf
                where = f"{line['set']} {row['coding']} {row['n_words']}"
                parts.append(Part(where, ratio, partial(repeated, ratio), 1.0))
            shares_of.setdefault(row["n_words"], []).append(coding)
    text, plain = NO_PROBE.format("cost-shares"), NOT_MEASURED
    if shares_of:
        shares = [
            f"{between(shares_of[n], '{:.0%}'.format)} with {n} words" for n in sorted(shares_of)
        ]
        text = (
            "Coding's share of the time to describe, code, pool and classify an image: "
            f"{listed(shares)}. One thread; reading the file is not counted. "
        )
    if parts:
        whole = between((1 - 1 / (1 + part.value) for part in parts), "{:.0%}".format)
        plain = f"With a full codebook, coding takes {whole} of the time of an image."
    return Verdict(
        "coding-dominates",
        "Coding dominates the cost of the pipeline.",
        "Section 1 and Section 2",
        all_hold(parts),
        plain,
        f"{text}Rule: the time of coding with a full codebook against all other time of an image, "
        f"for each set, coding and codebook. A time repeats within a factor of {TIMES:g}: "
        f"supported when coding takes more than {TIMES:g} times as long in all of them; "
        f"contradicted when less than 1/{TIMES:g} in one; else not shown.",
        ["set", "coding", "words", *(f"{name[:-3]}, ms" for name in names), "coding's share"],
        rows,
    )


def brute_force(probes: Lines) -> Verdict:
    """Judge what inference saves against re-encoding at each step, in time and in space."""
    parts: list[Part] = []
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
                where = f"{line['set']} {row['coding']} {row['n_kept']}"
                parts.append(Part(f"{where}: time", speed, partial(repeated, speed), 1.0))
                parts.append(Part(f"{where}: space", -space, partial(counted, -space), -1.0))
    text, plain = NO_PROBE.format("brute-force"), NOT_MEASURED
    if parts:
        plain = (
            f"A step is {between((p.value for p in parts[::2]), amount)} times faster than "
            f"re-coding, and holds {between((-p.value for p in parts[1::2]), amount)} times the "
            "bytes."
        )
    if ratios:
        about = _lines(probes, "brute-force")[0]
        sentences = []
        for name, pairs in ratios.items():
            speeds, spaces = zip(*pairs, strict=True)
            sentences.append(
                f"{name}: {between(speeds, amount)} times faster, {between(spaces, amount)} times "
                "the bytes"
            )
        text = (
            "A move of a few words inferred, against re-encoding all training images: "
            f"{'; '.join(sentences)}. Bytes are what is held, against the descriptors and words "
            f"that re-coding reads at each step. {about['full_words']} words, one split; coding "
            "once with all words comes before the first move. "
        )
    return Verdict(
        "brute-force",
        "Inference needs less time and space than instantiating the whole pipeline at each step.",
        "Section 4.1.1, Complexity Analysis",
        all_hold(parts),
        plain,
        f"{text}Rule: of the paper's own ways (Eq. 6 for hard, Claim 2 for soft coding); supported "
        f"when a step is more than {TIMES:g} times quicker (a time repeats within that factor) and "
        "what is held is smaller in every set and size; contradicted when one step is slower by "
        "that factor, or holds more; else not shown.",
        _COST_HEADER,
        rows,
    )


PROBE_CLAIMS = (few_iterations, error_falls, coding_dominates, brute_force)
"""The claims that the probes answer."""


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
    by_cells = [claim.judge(run.cells) for claim in CLAIMS]
    return by_cells + [judge(run.probes) for judge in PROBE_CLAIMS]
