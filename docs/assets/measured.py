"""The measured numbers of the documents, made from the records alone.

Text between ``<!-- measured: NAME -->`` and ``<!-- /measured -->`` is written by this module. NAME
is that of a method (its table of accuracies) or one of ``BLOCKS``. A test compares every page with
what the records give; ``python docs/assets/measured.py`` writes all pages again.

Five records are read: ``results/cells.jsonl`` and ``results/probes.jsonl``, the paper's
experiments; ``docs/methods/cells.jsonl``, the accuracies of the other methods on the same splits;
``benchmarks/further_sets.jsonl``, those on other data; and ``benchmarks/results.json``, the speed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from bowsaw.comparison import read_run
from bowsaw.comparison.methods import METHODS
from bowsaw.evaluation.significance import LEVEL, RULE, holm, paired_test
from bowsaw.formatting import format_bytes
from bowsaw.report.summary import panels_of
from reproduction.claims import Verdict, verdicts

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
SIZES = (20, 50, 100)
PANELS = [
    (set_, coding, 5000) for set_ in ("15-Scenes", "Caltech-10") for coding in ("hard", "soft")
]
OVERVIEW = ("15-Scenes", "hard", 1000)
"""The panel in which every method was measured, all but one on the same splits."""
OTHER_SPLITS = ("15-Scenes, other splits", "hard", 1000)
"""The panel of ``elimination``: the same images, two other random splits."""
PAGES = {
    **{name: f"{name}.md" for name in METHODS},
    **dict.fromkeys(("chi2", "df", "pmi", "presence-recoded"), "presence.md"),
    **{
        name: f"cited.md#{anchor}"
        for name, anchor in {
            "svm": "svm-weights",
            "boosting": "boosted-stumps",
            "ridge": "ridge-reconstruction",
            "separability": "class-separability",
            "winn": "universal-dictionary",
        }.items()
    },
    **{
        name: f"baselines.md#{anchor}"
        for name, anchor in {
            "random": "random-subset",
            "farthest": "farthest-points",
            "kmeans": "k-means-at-that-size",
        }.items()
    },
}
"""The page of each method, seen from ``docs/methods/``."""
SUMMARIES = {
    "chi2": "`presence` with the χ² statistic.",
    "df": "`presence` with document frequency; needs no labels.",
    "pmi": "`presence` with pointwise mutual information.",
    "presence-recoded": "The words of `presence`, which then code alone.",
    "svm": "Keeps the columns of largest weight in linear support vector machines.",
    "boosting": "Keeps one column per round of boosting.",
    "ridge": "Keeps the columns from which the others are regressed best; needs no labels.",
    "separability": "Merges words so that the scatter between classes stays large.",
    "winn": "Merges words so that the labels stay probable.",
}
"""Variants, and methods of the study, which are not among ``METHODS``. All but one code with the
full codebook."""

_PLACE = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- /measured -->)", re.S)

Key = tuple[str, str, int, str, int]
Accuracies = dict[Key, dict[int, float]]


# -- the records ---------------------------------------------------------------------------------


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@cache
def cells() -> list[dict[str, Any]]:
    """Return the cells of the paper's experiments."""
    return _lines(TOP / "results" / "cells.jsonl")


@cache
def paper_records() -> Accuracies:
    """Return the accuracies of ``results/`` by set, coding, full words, method, size; by split."""
    return _by_key(cells(), lambda cell: cell["results"]["sqrt"]["accuracy"])


@cache
def other_records() -> Accuracies:
    """Return the accuracies of all methods from 1000 words, on the same splits for each.

    ``refinement`` comes from the paper's experiments, restricted to these splits.
    """
    found = _by_key(_lines(DOCS / "methods" / "cells.jsonl"), lambda cell: cell["accuracy"])
    splits = found[*OVERVIEW, "random", SIZES[0]].keys()
    for size in SIZES:
        key = (*OVERVIEW, "refinement", size)
        found[key] = {split: paper_records()[key][split] for split in splits}
    return found


@cache
def benchmarks() -> dict[str, Any]:
    """Return the measurements of speed by name."""
    found: dict[str, Any] = json.loads((TOP / "benchmarks" / "results.json").read_text("utf-8"))
    return found["measured"]


def _by_key(lines: list[dict[str, Any]], value: Callable[[Any], float]) -> Accuracies:
    found: Accuracies = defaultdict(dict)
    for cell in lines:
        key = tuple(cell[name] for name in ("set", "coding", "full_words", "method", "size"))
        found[key][cell["split"]] = value(cell)
    return found


def mean_accuracy(key: Key) -> float:
    """Return the mean over the splits of the paper's experiments."""
    return fmean(paper_records()[key].values())


def code_ms(key: Key) -> float:
    """Return the time to code an image with as many words, as on the page of the results."""
    panels = panels_of({}, cells())
    return next(p.code_ms[key[4]] for p in panels if p.key == key[:3])


def _mean(records: Accuracies, key: Key) -> str:
    return f"{fmean(records[key].values()):.3f}" if records.get(key) else ""


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


# -- accuracies ----------------------------------------------------------------------------------


def _home() -> Iterator[str]:
    panel = PANELS[0]
    small, full = (*panel, "refinement", 100), (*panel, "full", 5000)
    sizes = {cell["size"]: cell["codebook_bytes"] for cell in cells() if cell["full_words"] == 5000}
    losses = [
        mean_accuracy((*p, "full", 5000)) - mean_accuracy((*p, "refinement", 100)) for p in PANELS
    ]
    most = math.ceil(round(max(losses) * 1000, 6)) / 1000
    yield (
        f"**{mean_accuracy(small):.3f} with 100 words, {mean_accuracy(full):.3f} with all 5000** "
        "(15-Scenes, hard coding)."
    )
    bytes_of = [format_bytes(sizes[n]) for n in (100, 5000)]
    yield (
        f"The codebook takes {bytes_of[0]} instead of {bytes_of[1]}, and coding an image "
        f"{code_ms(small):.2f} ms instead of {code_ms(full):.0f}. On both image sets, with hard "
        f"and with soft coding, 100 words lose at most {most:.3f}."
    )


def _of_method(name: str) -> Iterator[str]:
    records, panels = paper_records(), PANELS
    if not any(key[3] == name for key in records):
        records = other_records()
        panels = [dict.fromkeys(key[:3] for key in records if key[3] == name).popitem()[0]]
    splits = len(next(accuracies for key, accuracies in records.items() if key[3] == name))
    sizes = list(map(str, SIZES))
    compared = () if name == "random" else ("random",)
    head = [f"mean per-class accuracy, {splits} splits", *sizes]
    for other in compared:
        head += [f"{other}: {sizes[0]}", *sizes[1:]]
    rows = []
    for panel in panels:
        row = [f"{panel[0]}, {panel[1]} coding, from {panel[2]} words"]
        for method in (name, *compared):
            row += [_mean(records, (*panel, method, size)) for size in SIZES]
        rows.append([*row, _mean(records, (*panel, "full", panel[2]))])
    yield from _table([*head, "all"], rows)


def _overview() -> Iterator[str]:
    records = other_records()
    measured = dict.fromkeys(key[3] for key in records if " by " not in key[3])
    rows = []
    for name in dict.fromkeys([*METHODS, *measured]):
        if name == "full":
            continue
        panel = OTHER_SPLITS if name == "elimination" else OVERVIEW
        means = [_mean(records, (*panel, name, size)) for size in SIZES]
        if name in METHODS:
            codes_with, summary = METHODS[name].codes_with, METHODS[name].summary
        else:
            codes_with = "pruned" if name.endswith("-recoded") else "full"
            summary = SUMMARIES[name]
        rows.append([f"[`{name}`]({PAGES[name]})", *means, codes_with, summary])
    full = _mean(records, (*OVERVIEW, "full", 1000))
    rows.append(["`full`", f"{full} (all 1000)", "", "", "full", METHODS["full"].summary])
    yield from _table(
        ["method", *(f"{s} words" for s in SIZES), "codes with", "what it does"], rows
    )
    means = ", ".join(_mean(records, (*OTHER_SPLITS, "random", size)) for size in SIZES)
    full = _mean(records, (*OTHER_SPLITS, "full", 1000))
    yield ""
    yield (
        f"`elimination` was measured on two other splits, on which `random` has {means} and `full` "
        f"has {full}."
    )


def _of_scores() -> Iterator[str]:
    found = {
        key[3]: accuracies[0]
        for key, accuracies in other_records().items()
        if key[4] == 20 and key[3].startswith(("annealed by ", "random"))
    }
    rows = [
        [
            name.replace("random", "a random subset").replace("annealed by ", ""),
            f"{found[name]:.3f}",
        ]
        for name in sorted(found, key=lambda name: -found[name])
    ]
    yield from _table(
        ["score that the search maximises", "mean per-class accuracy, first split"], rows
    )


def _panels() -> Iterator[str]:
    methods = ("refinement", "paper", "kmeans", "random", "bottleneck")
    rows = []
    for panel in PANELS:
        for size in SIZES:
            name = f"{panel[0]}, {panel[1]}" if size == SIZES[0] else ""
            full = _mean(paper_records(), (*panel, "full", 5000)) if name else ""
            means = [_mean(paper_records(), (*panel, method, size)) for method in methods]
            rows.append([name, str(size), *means, full])
    yield from _table(["panel", "words", *(f"`{name}`" for name in methods), "all 5000"], rows)


def _of_sizes() -> Iterator[str]:
    sizes = (10, 20, 50, 100, 500)
    rows = []
    for panel in (PANELS[0], PANELS[2]):
        for method in ("refinement", "random"):
            row = [f"{panel[0]}, {panel[1]}, `{method}`"]
            row += [_mean(paper_records(), (*panel, method, size)) for size in sizes]
            rows.append([*row, _mean(paper_records(), (*panel, "full", 5000))])
    yield from _table(["panel and method", *map(str, sizes), "all 5000"], rows)


# -- other data -----------------------------------------------------------------------------------


@cache
def _further() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the facts of the further sets by name, and their cells."""
    about, *found = _lines(TOP / "benchmarks" / "further_sets.jsonl")
    return about["sets"], found


def _further_sets() -> Iterator[str]:
    sets, found = _further()
    rows = []
    for name, facts in sets.items():
        cell = next(cell for cell in found if cell["set"] == name)
        parts = " / ".join(str(cell[key]) for key in ("n_codebook", "n_train", "n_test"))
        package = f"`{facts['package']}`, {facts['license']}, SHA-256 `{facts['sha256'][:12]}`"
        each = f"{facts['n_descriptors'] / facts['n_images']:.0f} × {facts['n_dims']}"
        rows.append([name, package, str(len(facts["classes"])), parts, each])
    yield from _table(
        ["set", "package", "classes", "codebook / train / test", "descriptors × dimensions"], rows
    )


def _further_table() -> Iterator[str]:
    sets, found = _further()
    records = _by_key(found, lambda cell: cell["accuracy"])
    methods = [name for name in METHODS if name != "full" and any(k[3] == name for k in records)]
    rows, full_words = [], {key[0]: key[2] for key in records}
    for name in sets:
        panel = (name, "hard", full_words[name])
        sizes = sorted({key[4] for key in records if key[:3] == panel and key[3] != "full"})
        for size in sizes:
            means = {m: fmean(records[*panel, m, size].values()) for m in methods}
            best = max(value for m, value in means.items() if METHODS[m].codes_with == "pruned")
            row = [f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in means.values()]
            first = size == sizes[0]
            full = f"{_mean(records, (*panel, 'full', panel[2]))} ({panel[2]})" if first else ""
            rows.append([name if first else "", str(size), *row, full])
    yield from _table(["set", "words", *(f"`{m}`" for m in methods), "all words"], rows)


def _further_findings() -> Iterator[str]:
    """Say of each set which differences of our methods are significant, by the one rule."""
    sets, found = _further()
    for name in sets:
        here = [cell for cell in found if cell["set"] == name and cell["method"] != "full"]
        sides: dict[str, list[list[float]]] = {}
        for method in (name for name in METHODS if any(c["method"] == name for c in here)):
            splits: dict[int, list[float]] = defaultdict(list)
            for cell in (cell for cell in here if cell["method"] == method):
                splits[cell["split"]].append(cell["accuracy"])
            sides[method] = [splits[split] for split in sorted(splits)]
        n_train, n_test = here[0]["n_codebook"] + here[0]["n_train"], here[0]["n_test"]
        parts = []
        for ours in ("refinement", "annealing"):
            others = [peer for peer in sides if peer != ours]
            tests = [paired_test(sides[ours], sides[peer], n_train, n_test) for peer in others]
            kinds: dict[str, list[str]] = defaultdict(list)
            for peer, test, p in zip(others, tests, holm([t.p for t in tests]), strict=True):
                kind = "open" if p >= LEVEL else "better" if test.mean > 0 else "worse"
                kinds[kind].append(f"`{peer}` ({test.mean:+.3f})".replace("-", "−"))
            texts = {
                "better": "significantly better than",
                "worse": "significantly worse than",
                "open": "no significant difference from",
            }
            said = [f"{texts[kind]} {', '.join(kinds[kind])}" for kind in texts if kinds[kind]]
            parts.append(f"`{ours}`: {'; '.join(said)}.")
        yield f"- **{name}.** {' '.join(parts)}"


# -- time, bytes and memory ----------------------------------------------------------------------


def _milliseconds() -> Iterator[str]:
    (probe,) = (
        line
        for line in _lines(TOP / "results" / "probes.jsonl")
        if line["probe"] == "cost-shares" and line["set"] == "15-Scenes"
    )
    rows = {(row["coding"], row["n_words"]): row for row in probe["rows"]}
    table = []
    for n_words in (50, 1000, 5000):
        hard, soft = rows["hard", n_words], rows["soft", n_words]
        times = [hard["describe_ms"], hard["code_ms"], soft["code_ms"]]
        times += [hard["pool_ms"], hard["classify_ms"]]
        table.append([str(n_words), *(f"{time:.2f}" for time in times)])
    yield (
        f"Milliseconds to recognise one image of 15-Scenes, {probe['n_descriptors']} descriptors, "
        "one thread:"
    )
    yield ""
    yield from _table(["words", "describe", "code, hard", "code, soft", "pool", "classify"], table)


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):.0f}" if value >= 10 else f"{value:.1f}"


def _speed() -> Iterator[str]:
    found = benchmarks()

    def ratio(name: str) -> str:
        return _short(found[name]["peer"] / found[name]["ours"])

    def against_faiss(name: str) -> str:
        with_cpu = next(key for key in found if key.startswith(f"{name} ("))
        return f"{ratio(name)}; {ratio(with_cpu)}"

    rows = [
        ["dense SIFT, one core", "`cv2.SIFT.compute` on the same grid", ratio("dense_sift")],
        [
            "hard coding, 5000 words",
            "`faiss.IndexFlatL2.search` as installed; with its CPU set",
            against_faiss("hard_coding"),
        ],
        ["soft coding, 1000 words", "NumPy", ratio("soft_coding")],
        [
            "k-means, 600,000 × 128 to 2000 words",
            "`faiss.Kmeans` as installed; with its CPU set",
            against_faiss("kmeans"),
        ],
    ]
    for row in found["whatif_hard"]["rows"] + found["whatif_soft"]["rows"]:
        if "ours" in row and "uniform" not in row["state"]:
            number = "1 word" if row["replaced"] == 1 else f"{row['replaced']} words"
            rows.append(
                [
                    f"replacing {number}, {row['state']}, {row['kept']} of {row['of']} kept",
                    "re-encoding all images, by the faster of bowsaw and faiss",
                    _short(row["peer"] / row["ours"]),
                ]
            )
    for name in ("search_hard", "search_soft", "bottleneck", "beta_fits"):
        row = found[name]["rows"][0]
        rows.append([row["work"], row["against"], _short(row["value"])])
    path = found["path"]["rows"][0]
    rows.append([path["work"], path["against"], _short(path["peer"] / path["ours"])])
    yield from _table(["work", "against", "times faster"], rows)


def _baseline() -> Iterator[str]:
    rows = []
    for name, found in benchmarks()["accuracy"]["accuracy"].items():
        means = {row["mapping"]: f"{row['mean']:.3f}" for row in found}
        rows.append([name, means["sqrt"], means["raw"]])
    yield from _table(
        ["mean per-class accuracy, 1000 words, 5 splits", "square-rooted", "raw"], rows
    )


def _memory() -> Iterator[str]:
    found = benchmarks()["memory"]
    peak = max(max(pair) for pair in found["peaks"].values()) / 2**20
    yield (
        f"`extract`, `train` and `encode` need at most {peak:.0f} MiB of anonymous memory for 4400 "
        "images and 1000 words."
    )


# -- the claims of the paper ---------------------------------------------------------------------


@cache
def _verdicts() -> list[Verdict]:
    return verdicts(read_run(TOP / "results"))


def _strip() -> Iterator[str]:
    counts = Counter(verdict.answer for verdict in _verdicts())
    order = ("supported", "not shown", "contradicted")
    yield "**" + " · ".join(f"{counts[answer]} {answer}" for answer in order) + "**"


def _claims() -> Iterator[str]:
    for number, verdict in enumerate(_verdicts(), start=1):
        where = verdict.where.replace("Section ", "").replace(", Discussion", "")
        found = re.sub(rf"\b({'|'.join(METHODS)})\b(?! coding| codebook)", r"`\1`", verdict.found)
        yield f"{number}. *{verdict.claim}* (section {where.replace(', and', ' and')})\n"
        yield f"    **{verdict.answer.capitalize()}.** {found}\n"


def _rule() -> Iterator[str]:
    yield f"**{RULE}**"


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "home": _home,
    "all": _overview,
    "scores": _of_scores,
    "panels": _panels,
    "sizes": _of_sizes,
    "further-sets": _further_sets,
    "further-table": _further_table,
    "further-findings": _further_findings,
    "milliseconds": _milliseconds,
    "speed": _speed,
    "baseline": _baseline,
    "memory": _memory,
    "verdicts": _strip,
    "claims": _claims,
    "rule": _rule,
}


def block(name: str) -> str:
    """Return the Markdown of one place."""
    lines = BLOCKS[name]() if name in BLOCKS else _of_method(name)
    return "\n".join(lines).strip() + "\n"


def filled(text: str) -> str:
    """Return a page with its measured places written again."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{block(place[2])}\n{place[3]}", text)


def main() -> None:
    """Write the measured places of all pages again."""
    for path in sorted(DOCS.rglob("*.md")):
        path.write_text(filled(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
