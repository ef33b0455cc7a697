"""Claims of the paper that the probes answer: the search, the inference and their costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np

from reproduction.verdict import (
    Answer,
    Verdict,
    amount,
    between,
    listed,
    share,
    signed,
    together,
)

Lines = Iterable[Mapping[str, Any]]

NEAR = 0.01
"""Accuracy that a longer search must gain to count as needed."""
SETTLED = 0.9
"""Share of the score's rise that must be done for the search to have settled."""
PUBLISHED_WAY = "uniform, nearest-surviving"
"""Eq. 6 as Algorithm 1 uses it here."""


_PARTS = ("error", "limit", "moved")
_COST_HEADER = [
    "set",
    "coding",
    "transfer",
    "words kept",
    "move, ms",
    "re-coding, ms",
    "faster",
    "building, s",
    "held, MB",
    "re-coding holds, MB",
    "space",
    "L1 error",
]


def _lines(probes: Lines, name: str) -> list[Mapping[str, Any]]:
    return [line for line in probes if line["probe"] == name]


def _absent(name: str) -> str:
    return f"The records hold no probe «{name}». "


# -- the search --------------------------------------------------------------------------------


def few_iterations(probes: Lines) -> Verdict:
    """Judge whether Algorithm 1 needs few steps."""
    answers: list[Answer] = []
    rows, told = [], []
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
            told.append(
                f"{line['set']} {coding}: {share(start)} at the random start, {share(at)} after "
                f"the published {published} steps, "
                + (f"{share(max(longer))} at best after more; " if longer else "no longer search; ")
                + f"{max(risen, 0.0) / rise if rise > 0 else 0:.0%} of the score's rise done"
            )
            for row in path:
                means = [mean(row[key]) for key in ("score", "recoded_score", "accuracy")]
                cells = [line["set"], coding, str(row["n_steps"]), *map(share, means)]
                rows.append([*cells, signed(means[-1] - start)])
    text = _absent("iterations")
    if told:
        text = f"Accuracy: {'. '.join(told)}. "
        about = _lines(probes, "iterations")[0]
        text += (
            f"Algorithm 1 as published, {about['size']} of {about['full_words']} words, one split, "
            "a few random starts, square-rooted histograms, words coded anew. "
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
        ["set", "coding", "steps", "score", "score, coded anew", "accuracy", "minus start"],
        rows,
    )


# -- the inference -----------------------------------------------------------------------------


def error_falls(probes: Lines) -> Verdict:
    """Judge whether the error of Ψ falls with the descriptors of an image."""
    answers: list[Answer] = []
    rows, told = [], []
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
            told.append((errors[0], errors[-1], floor or 0.0, path[-1]["limit"], n_kept))
    text = _absent("transfer-error")
    if told:
        about = _lines(probes, "transfer-error")[0]
        first, last, floors, limits, sizes = map(list, zip(*told, strict=True))
        text = (
            f"Mean L1 error (0 to 2) of Eq. 6 against re-coding: {between(first)} with the fewest "
            f"descriptors an image, {between(last)} with all, and on the way to {between(floors)} "
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


# -- the costs ---------------------------------------------------------------------------------


def coding_dominates(probes: Lines) -> Verdict:
    """Judge whether coding takes most of an image's time."""
    answers: list[Answer] = []
    rows: list[list[str]] = []
    told: dict[int, list[float]] = {}
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
            told.setdefault(row["n_words"], []).append(coding)
    text = _absent("cost-shares")
    if told:
        shares = [f"{between(told[n], '{:.0%}'.format)} with {n} words" for n in sorted(told)]
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
    """Judge what inference saves against coding anew at each step, in time and in space."""
    quicker: list[bool] = []
    smaller: list[bool] = []
    rows: list[list[str]] = []
    told: dict[str, list[tuple[float, float]]] = {}
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
            told.setdefault(f"{row['coding']}, {row['transfer']}", []).append((speed, space))
            if row["transfer"] == ("uniform" if row["coding"] == "hard" else "exact"):
                quicker.append(speed > 1)
                smaller.append(space < 1)
    text = _absent("brute-force")
    if told:
        about = _lines(probes, "brute-force")[0]
        parts = []
        for name, pairs in told.items():
            speeds, spaces = zip(*pairs, strict=True)
            parts.append(
                f"{name}: {between(speeds, amount)} times faster, {between(spaces, amount)} times "
                "the bytes"
            )
        text = (
            "A move of a few words inferred, against coding all training images anew: "
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
