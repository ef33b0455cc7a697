"""From the raw numbers to RESULTS.md and docs/inference.md: data first, words second."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster import cluster_section
from benchmarks.device import device_section
from benchmarks.peers import ASKED, TARGETS

_HEAD = """# Measurements

Written by `make bench`; the raw numbers are in `results.json`. Both sides run in one process with
the same number of threads, in turn, after one untimed call each (which compiles the kernels; the
compiled code is cached on disk, so that happens once per machine). Times are medians.
"""

MARKS = ("<!-- measured -->", "<!-- /measured -->")
"""Between these two, docs/inference.md is written by ``write_measured``."""

_PAPER = {
    "hard, exact": r"O(d\|T\|N) | not in the paper",
    "hard, uniform": r"O(d\|T\|N) | O(\|S\|\|N_δ\|) per image",
    "soft, 16-bit": r"O(d\|T\|N) | O(N\|T\|)",
}
"""What the paper says that re-coding and inference cost; the bars are escaped for a table."""


CHOOSING = ("search_hard", "search_soft", "swap_rate", "path", "bottleneck", "beta_fits")
"""The measurements of searches and selection, in the order of the report."""


def write_report(results: dict[str, Any], path: Path) -> None:
    """Write the page."""
    measured = results["measured"]
    parts = [_HEAD, _hardware(results["hardware"]), _ratios(measured)]
    if "whatif_hard" in measured or "whatif_soft" in measured:
        parts.append(_inference(measured))
    if any(name in measured for name in CHOOSING):
        parts.append(_choosing([measured[name] for name in CHOOSING if name in measured]))
    if measured.get("accuracy", {}).get("accuracy"):
        parts.append(_accuracy(measured["accuracy"]["accuracy"]))
    if "memory" in measured:
        parts.append(_memory(measured["memory"]))
    if "curves" in measured:
        parts.append(_curves(measured["curves"]))
    if "device" in measured:
        parts.append(device_section(measured["device"]))
    if "cluster" in measured:
        parts.append(cluster_section(measured["cluster"]))
    path.write_text("\n".join(parts), encoding="utf-8")


def _hardware(facts: dict[str, str]) -> str:
    rows = [f"| {name} | {value} |" for name, value in facts.items()]
    return "\n".join(["## Machine", "", "| | |", "|---|---|", *rows, ""])


def _ratios(measured: dict[str, Any]) -> str:
    rows = [
        "## Against peers",
        "",
        "| work | size | peer | threads | ours | peer | ratio | asked | same answer |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (work, peer, asked) in TARGETS.items():
        for label in (name, f"{name} (told its CPU)"):
            if label not in measured:
                continue
            m = measured[label]
            kind = f" [BLAS: {m['peer_blas']}]" if "peer_blas" in m else ""
            if "gain" in m:
                spread = f" ({m['gain'][1]:.2f} to {m['gain'][2]:.2f} in {m['runs']} runs)"
            else:
                spread = ""
            if m.get("search") == "vnni":
                kind += ", ours by VNNI"
            ours, theirs = (f"{m[side] / m['per']:.3g} {m['unit']}" for side in ("ours", "peer"))
            rows.append(
                f"| {work} | {m['size']} | {peer}{kind} | {m['threads']} | {ours} | {theirs} | "
                f"**{m['peer'] / m['ours']:.2f}**{spread} | ≥ {asked:g} | "
                f"{m.get('agreement', 'yes') if m['same'] else 'NO'}: {m['answer']} |"
            )
    rows += [
        "",
        "faiss's wheel brings an OpenBLAS of its own, which does not know every processor and then "
        "falls back to its oldest code. Rows in which the BLAS is a newer kind are the same "
        "measurement with faiss given its processor (`OPENBLAS_CORETYPE`): the harder peer.",
        "",
    ]
    return "\n".join(rows)


def _inference(measured: dict[str, Any]) -> str:
    found = [measured[name] for name in ("whatif_hard", "whatif_soft") if name in measured]
    rows = [
        "## Inference against re-coding",
        "",
        f"{found[0]['size']}, {found[0]['threads']} threads on both sides. A move replaces words "
        "at random; re-coding is the faster of `hard_histograms` and faiss's flat search given its "
        "CPU (hard), and `soft_histograms` (soft), with the kept words alone. Medians over moves "
        "from several random sets of kept words.",
        "",
        "| state | kept of | replaced | a move | re-coding | times faster | asked | answer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = [row for result in found for row in result["rows"]]
    for row in (r for r in every if "ours" in r):
        rows.append(
            f"| {row['state']} | {row['kept']} of {row['of']} | {row['replaced']} | "
            f"{_short(1e3 * row['ours'])} ms | {_short(1e3 * row['peer'])} ms ({row['fastest']}) | "
            f"**{_short(row['peer'] / row['ours'])}** | ≥ {row['asked']:g} | "
            f"{'' if row['same'] else 'NO: '}{row['answer']} |"
        )
    rows += [
        "",
        "| building | words | seconds | times one coding | asked | peak memory | allowed |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in (r for r in every if "building" in r):
        asked = "" if row["asked"] is None else f"≤ {row['asked']:g}"
        rows.append(
            f"| {row['state']} | {row['of']} | {row['building']:.3g} | "
            f"**{row['building'] / row['coding']:.2f}** | {asked} | "
            f"**{row['peak'] / 2**20:.0f} MiB** | ≤ {row['room'] / 2**20:.0f} MiB |"
        )
    rows += ["", "Peak memory is the growth of anonymous memory while the state is built.", ""]
    return "\n".join(rows)


def _choosing(found: list[dict[str, Any]]) -> str:
    rows = [
        "## Choosing words",
        "",
        f"{found[0]['size']}. A search that re-codes takes the same steps by the same code; its "
        "state re-encodes all images with the kept words, once per step, by the faster of our "
        "coder and faiss given its CPU, and gives the score only the columns that differ.",
        "",
        "| work | threads | against | ours | peer | measured | asked | answer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every = [(result["threads"], row) for result in found for row in result["rows"]]
    for threads, row in every:
        peer = "" if row["peer"] is None else _seconds(row["peer"])
        sign = "≤" if row.get("at_most") else "≥"
        rows.append(
            f"| {row['work']} | {threads} | {row['against'] or ''} | {_seconds(row['ours'])} | "
            f"{peer} | **{_short(row['value'])}** {row['unit']} | {sign} {row['asked']:g} | "
            f"{'' if row['same'] else 'NO: '}{row['answer']} |"
        )
    rows += ["", "Where a search's time goes:", ""]
    rows += [f"- {_where_time_goes(row)}" for _, row in every if "building" in row]
    return "\n".join([*rows, ""])


def _where_time_goes(row: dict[str, Any]) -> str:
    parts = [
        f"{row['work']}: {_seconds(row['building'])} until the first score, then "
        f"{_seconds(row['step'])} per step (median; {_seconds(row['processor'])} of processor "
        "time), of which the score takes "
        f"{100 * row['score_share']:.0f} %; {100 * row['accepted']:.0f} % of the moves accepted"
    ]
    if "peer_step" in row:
        parts.append(
            f"re-coding by {row['fastest']}, {_seconds(row['peer_step'])} per step "
            f"({_seconds(row['peer_processor'])} of processor time), the score "
            f"{100 * row['peer_score_share']:.1f} % of it"
        )
    if "whole" in row:
        parts.append(
            f"with building and certificate {_seconds(row['whole'])} against "
            f"{_seconds(row['peer_whole'])}, {_short(row['peer_whole'] / row['whole'])} times "
            f"faster; a search that codes once with all words can be at most "
            f"{_short(row['ceiling'])} times faster"
        )
    if row.get("peak"):
        parts.append(f"memory grew by {row['peak'] / 2**20:.0f} MiB")
    return "; ".join(parts) + "."


def write_measured(
    results: dict[str, Any], page: Path, block: Callable[[dict[str, Any]], str] | None = None
) -> None:
    """Replace what stands between the marks of a page by a block, ``measured_block`` or another."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (begin and end):
        raise ValueError(f"{page.name} has no {MARKS[0]} … {MARKS[1]}. Put both marks back.")
    page.write_text(
        f"{before}{begin}\n{(block or measured_block)(results)}{end}{after}",
        encoding="utf-8",
        newline="\n",
    )


def measured_block(results: dict[str, Any]) -> str:
    """Return the paper's complexities with what was measured beside them, as Markdown."""
    measured = results.get("measured", {})
    found = [measured[name] for name in ("whatif_hard", "whatif_soft") if name in measured]
    every = [row for result in found for row in result["rows"]]
    parts = [_beside_the_paper(found[0], every, results["hardware"])] if found else []
    if "whatif_curves" in measured:
        parts.append(
            "![How the time of one move grows with the images, the words of the codebook, the kept "
            "words and the words that a move replaces](figures/move-cost.svg)\n"
        )
    return "\n".join(parts) if parts else "Not measured yet: `make bench` fills this in.\n"


def _beside_the_paper(
    first: dict[str, Any], every: list[dict[str, Any]], hardware: dict[str, str]
) -> str:
    rows = [
        f"{first['size']} of {hardware['images']}; {hardware['processor']}, "
        f"{first['threads']} threads.",
        "",
        "| state | kept of | replaced | re-coding, by the paper | inference, by the paper | "
        "re-coding, measured | a move, measured | times faster | against re-coding |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in (r for r in every if "ours" in r):
        rows.append(
            f"| {row['state']} | {row['kept']} of {row['of']} | {row['replaced']} | "
            f"{_PAPER[row['state']]} | {_short(1e3 * row['peer'])} ms | "
            f"{_short(1e3 * row['ours'])} ms | **{_short(row['peer'] / row['ours'])}** | "
            f"{'' if row['same'] else 'NO: '}{row['answer']} |"
        )
    rows += [
        "",
        "| to build | words | time | one coding takes | peak memory |",
        "|---|---|---|---|---|",
    ]
    for row in (r for r in every if "building" in r):
        rows.append(
            f"| {row['state']} | {row['of']} | {_short(row['building'])} s | "
            f"{_short(row['coding'])} s | {row['peak'] / 2**20:.0f} MiB |"
        )
    return "\n".join([*rows, ""])


def _short(value: float) -> str:
    """Return three digits that matter, without an exponent."""
    return f"{float(f'{value:.3g}'):.10g}"


def _seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{_short(value / size)} {unit}"
    return f"{_short(value / 1e-6)} µs"


def _accuracy(found: dict[str, Any]) -> str:
    rows = [
        "## Accuracy",
        "",
        "Mean per-class accuracy on test images, hard coding, linear SVM with C chosen on the "
        "codebook's images. 15-Scenes: 50 + 50 images per class; Caltech-10: 25 + 25.",
        "",
        "| benchmark | words | histograms | splits | mean | spread | asked |",
        "|---|---|---|---|---|---|---|",
    ]
    names = {"sqrt": "square-rooted", "raw": "raw"}
    for name, table in found.items():
        for row in table:
            spread = "" if row["std"] is None else f"{row['std']:.4f}"
            rows.append(
                f"| {name} | {row['n_words']} | {names[row['mapping']]} | {row['n_splits']} | "
                f"**{row['mean']:.4f}** | {spread} | ≥ {ASKED[name, row['mapping']]:g} |"
            )
    return "\n".join([*rows, ""])


def _memory(m: dict[str, Any]) -> str:
    rows = [
        "## Memory",
        "",
        f"Peak anonymous memory (RssAnon) of the whole process, Python and libraries included; "
        f"{m['size']}. Stated cap: {m['cap'] / 2**20:.0f} MiB.",
        "",
        "| command | n images | 10 n images | growth |",
        "|---|---|---|---|",
    ]
    for verb, (before, after) in m["peaks"].items():
        rows.append(
            f"| {verb} | {before / 2**20:.0f} MiB | {after / 2**20:.0f} MiB | "
            f"{100 * (after / before - 1):+.0f} % |"
        )
    return "\n".join([*rows, ""])


def _curves(m: dict[str, Any]) -> str:
    rows = [
        "## How cost grows",
        "",
        f"One run per point, {m['threads']} threads. The last column is the exponent between the "
        "ends: 1 is linear.",
        "",
    ]
    for name, points in m["curves"].items():
        (first, t0), (last, t1) = points[0], points[-1]
        slope = math.log(t1 / t0) / math.log(last / first) if last > first else float("nan")
        rows += [
            f"**{name}**",
            "",
            "| " + " | ".join(str(size) for size, _ in points) + " | exponent |",
            "|" + "---|" * (len(points) + 1),
            "| " + " | ".join(f"{t:.3g}" for _, t in points) + f" | {slope:.2f} |",
            "",
        ]
    return "\n".join(rows)
