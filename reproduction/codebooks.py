"""Claims of the paper on full codebooks and on codings, as the cells of a run answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean

from bowsaw.evaluation.classifier import CALLED, MAPPINGS
from reproduction.accuracy import MAPS, TITLES, Cells
from reproduction.paired import Accuracies, Pair, Panel, absent, corrected, tally
from reproduction.verdict import Answer, Verdict, chance, share, signed, together

SOME = 0.1
"""Share of the places that a coding must win to count as winning in some cases."""


def larger_gain(cells: Cells) -> Verdict:
    """Judge whether pruning and merging gain more from the larger full codebook."""
    found = {name: Accuracies(cells, name) for name in MAPPINGS}
    methods = ("paper", "bottleneck", "refinement")
    gains = {name: {m: _gains(found[name], m) for m in methods} for name in MAPPINGS}
    told = ("paper", "bottleneck")
    chief, other = MAPPINGS if any(gains["sqrt"][m] for m in told) else MAPPINGS[::-1]
    deciding = [pair for method in told for pair in gains[chief][method]]
    header = ["set", "coding", "method", "gain from the largest", "gain from the smallest"]
    header += ["difference", "p (Holm)", f"{CALLED[other]}: difference"]
    rows = []
    for method in methods:
        raw = {pair.panel: pair for pair in gains[other][method]}
        for pair in gains[chief][method]:
            there = raw.get(pair.panel)
            row = [*pair.panel[:2], TITLES[method], signed(pair.first), signed(pair.second)]
            row += [signed(pair.difference), chance(pair.p)]
            rows.append([*row, signed(None if there is None else there.difference)])
    if not deciding:
        text = "The records hold no method at the same sizes from two full codebooks. "
    else:
        text = "Gain (accuracy minus that of all words, mean over sizes) from the largest full "
        text += f"codebook minus that from the smallest, {CALLED[chief]} histograms: "
        parts = [f"{TITLES[m]} {tally(gains[chief][m])}" for m in methods if gains[chief][m]]
        text += f"{'; '.join(parts)}. "
        there_too = [f"{TITLES[m]} {tally(gains[other][m])}" for m in methods if gains[other][m]]
        if there_too:
            text += f"{CALLED[other].capitalize()} histograms: {'; '.join(there_too)}. "
        text += f"{absent(found[chief].panels)} ".lstrip()
    return Verdict(
        "larger-gain",
        "Pruning and merging have more effect when they start from an overcomplete codebook: "
        "5000 words instead of 1000.",
        "Section 4.1, Discussion",
        together(_all_above([p for m in told for p in side[m]]) for side in gains.values()),
        f"{text}Rule: yes when the gain of both methods is larger from the largest full codebook "
        "in every set and coding, as means over splits; no when in none; else partly. "
        f"{MAPS}",
        header,
        rows,
    )


def _all_above(pairs: Sequence[Pair]) -> Answer:
    if not pairs:
        return "not measured"
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
        sides = [_gain_by_split(found, panel, method, sizes) for panel in (large, small)]
        pairs.append(found.pair(large, 0, *sides))
    return corrected([pair for pair in pairs if pair is not None])


def _gain_by_split(
    found: Accuracies, panel: Panel, method: str, sizes: Iterable[int]
) -> dict[int, float]:
    full = found.splits(panel, "full", 0)
    by_size = [found.splits(panel, method, size) for size in sizes]
    whole = set(full).intersection(*by_size)
    return {i: mean(one[i] for one in by_size) - full[i] for i in sorted(whole)}


def neither_coding(cells: Cells) -> Verdict:
    """Judge whether hard and soft coding each win somewhere."""
    found = {name: Accuracies(cells, name) for name in MAPPINGS}
    methods = ("paper", "refinement", "bottleneck", "full")
    pairs = {name: {m: _codings(found[name], m) for m in methods} for name in MAPPINGS}
    chief, other = MAPPINGS if pairs["sqrt"]["paper"] else MAPPINGS[::-1]
    deciding = pairs[chief]["paper"]
    header = ["set", "full words", "words", "method", "soft", "hard", "difference", "p (Holm)"]
    rows = []
    for method in methods:
        for pair in pairs[chief][method]:
            row = [pair.panel[0], str(pair.panel[2]), str(pair.size), TITLES[method]]
            row += [share(pair.first), share(pair.second), signed(pair.difference)]
            rows.append([*row, chance(pair.p)])
    if not deciding:
        text = "The records hold no place where the published method has both codings. "
    else:
        text = f"Soft minus hard coding, {CALLED[chief]} histograms: "
        parts = [f"{TITLES[m]} {tally(pairs[chief][m])}" for m in methods if pairs[chief][m]]
        text += f"{'; '.join(parts)}. "
        if pairs[other]["paper"]:
            told = tally(pairs[other]["paper"])
            text += f"{CALLED[other].capitalize()} histograms: as published {told}. "
        text += f"{absent(found[chief].panels)} ".lstrip()
    return Verdict(
        "neither-coding",
        "Neither coding dominates: hard and soft coding each do better in certain cases.",
        "Section 4.1, Discussion",
        together(_each_wins(side["paper"]) for side in pairs.values()),
        f"{text}Rule: of the published method, yes when each coding has the higher mean over "
        f"splits in at least {SOME:.0%} of the places (sets, full codebooks and sizes); partly "
        f"when one has it in fewer; no when one never has it. {MAPS}",
        header,
        rows,
    )


def _each_wins(pairs: Sequence[Pair]) -> Answer:
    if not pairs:
        return "not measured"
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
        there = [
            found.pair(
                soft, size, found.splits(soft, method, size), found.splits(hard, method, size)
            )
            for size in sizes
        ]
        pairs += corrected([pair for pair in there if pair is not None])
    return pairs
