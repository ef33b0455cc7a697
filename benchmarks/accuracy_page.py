"""The page of ``benchmarks.accuracy``: means over splits, and what is better than what."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.evaluation.comparison import compare, holm

TARGETS = {
    ("15-Scenes", "hard"): {20: 0.63, 50: 0.69, 100: 0.705},
    ("Caltech-10", "hard"): {20: 0.73, 50: 0.79, 100: 0.81},
}
"""What the refined words should reach, at least."""
NAMES = {
    "refined": "refined",
    "random": "random subset",
    "retrained": "k-means at that size",
    "annealed": "annealed, 2000 swaps",
    "bottleneck": "bottleneck (codes with the full codebook)",
}
OURS, PEERS = "refined", ("random", "retrained")
BEGIN, END = "<!-- accuracy -->", "<!-- /accuracy -->"
INTRODUCTION = (
    "# Accuracy of small codebooks",
    "",
    "Mean per-class accuracy (± standard deviation over the splits). Square-rooted",
    "histograms, a linear machine, C chosen on the codebook's images; dense SIFT. `refined`: a",
    "random subset of the full codebook whose words were then moved by the labels of the",
    "training images: `bs.Refinement(start=RandomSubset, n_folds=0)`, all steps unchecked, 200 of",
    "them at 20 words, 300 at 50 and 100, 150 at 200, 60 at 500, 40 at 1000 (a step costs more the",
    "more words there are). All but the bottleneck code with the small codebook alone. Made by",
    "`python -m benchmarks.accuracy`.",
)

Panel = dict[tuple[str, int], dict[int, dict[str, Any]]]
"""The cells of one set and coding, by method, size and split."""


def panels(cells: list[dict[str, Any]]) -> dict[tuple[str, str, int], Panel]:
    """Return the cells by set, coding and full size, then by method, size and split."""
    out: dict[tuple[str, str, int], Panel] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        panel = out[cell["set"], cell["coding"], cell["n_words"]]
        panel[cell["method"], cell["size"]][cell["split"]] = cell
    return out


def accuracies(splits: dict[int, dict[str, Any]], only: set[int] | None = None) -> list[float]:
    """Return the accuracies of splits, in their order."""
    return [splits[i]["accuracy"] for i in sorted(splits) if only is None or i in only]


def write_page(cells: list[dict[str, Any]], path: Path) -> None:
    """Write the tables of all panels that have cells."""
    path.write_text("\n".join([*INTRODUCTION, *_panels(cells)]).rstrip() + "\n")


def write_into(cells: list[dict[str, Any]], document: Path) -> None:
    """Write the tables between the two marks of a document."""
    before, _, rest = document.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(line.replace("## ", "### ") for line in _panels(cells))
    document.write_text(f"{before}{BEGIN}\n{tables.strip()}\n\n{END}{after}")


def _panels(cells: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for (name, coding, n_words), panel in sorted(panels(cells).items()):
        title = f"## {name}, {coding} coding, from {n_words} words"
        lines += ["", title, "", *_table(name, coding, panel)]
        lines += ["", *_verdicts(panel)]
    return lines


def _table(name: str, coding: str, panel: Panel) -> list[str]:
    sizes = sorted({size for method, size in panel if method != "full"})
    lines = [
        "| words | " + " | ".join(map(str, sizes)) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for method, title in NAMES.items():
        if any((method, size) in panel for size in sizes):
            row = [_mean(panel.get((method, size), {})) for size in sizes]
            lines.append(f"| {title} | " + " | ".join(row) + " |")
    wanted = TARGETS.get((name, coding), {})
    if wanted:
        row = [f"≥ {wanted[size]:g}" if size in wanted else "" for size in sizes]
        lines.append("| asked of refined | " + " | ".join(row) + " |")
    for (method, size), splits in panel.items():
        if method == "full":
            lines += ["", f"All {size} words: {_mean(splits)}."]
    return lines


def _mean(splits: dict[int, dict[str, Any]]) -> str:
    values = accuracies(splits)
    if not values:
        return ""
    told = f"{np.mean(values):.3f}"
    return f"{told} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{told} (1 split)"


def _verdicts(panel: Panel) -> list[str]:
    """Return the corrected comparisons of the refined words with their peers, a line each."""
    lines = []
    for peer in PEERS:
        found = differences(panel, peer)
        if not found:
            continue
        corrected = holm([comparison.p for _, comparison in found])
        told = [
            f"{size}: {comparison.mean:+.3f} (p {p:.3f})"
            for (size, comparison), p in zip(found, corrected, strict=True)
        ]
        lines.append(f"- Refined minus {NAMES[peer]}: " + ", ".join(told) + ".")
    if lines:
        lines.append(
            "\nOne-sided corrected resampled t, with Holm's correction over the sizes of a line."
        )
    return lines


def differences(panel: Panel, peer: str) -> list[tuple[int, Any]]:
    """Return the comparison of ours with a peer for every size that both have two splits of."""
    out = []
    for size in sorted({size for _, size in panel}):
        ours, theirs = panel.get((OURS, size), {}), panel.get((peer, size), {})
        both = set(ours) & set(theirs)
        if len(both) >= 2:
            one = ours[min(both)]
            out.append(
                (
                    size,
                    compare(
                        accuracies(ours, both),
                        accuracies(theirs, both),
                        one["n_train"],
                        one["n_test"],
                    ),
                )
            )
    return out
