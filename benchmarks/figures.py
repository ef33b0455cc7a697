"""The figures of docs/inference.md and docs/choosing.md.

``draw_costs`` plots what ``whatif_curves`` measured. ``draw_alternatives`` shows pruning beside its
alternatives, in one plane per cost. ``draw_cell`` needs no measurement: it draws descriptors in the
plane, lets bowsaw train words on them, prunes one and shows what three ways of inferring say of its
mass. Drawing the same numbers with the same matplotlib gives the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.inheritance import WAYS, Heir, Inheritance, Points, cell_of

# Okabe and Ito's colours, told apart with any eyesight; yellow is left out, too pale for lines.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
)
INK, GREY, PALE, PAPER = "#222222", "#767676", "#c8c8c8", "#ffffff"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bowsaw",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}


def draw_costs(results: dict[str, Any], folder: Path) -> Path | None:
    """Draw ``move-cost.svg``; nothing where the curves have not been measured."""
    measured = results.get("measured", {}).get("whatif_curves")
    if measured is None:
        return None
    return _draw("move-cost.svg", folder, lambda: _costs(measured))


def draw_cell(folder: Path) -> Path:
    """Draw ``pruned-cell.svg``."""
    return _draw("pruned-cell.svg", folder, lambda: _cell(Inheritance()))


def _draw(name: str, folder: Path, make: Callable[[], tuple[Figure, str]]) -> Path:
    with mpl.rc_context(STYLE):
        figure, title = make()
        page = io.StringIO()
        # Neither a date nor a version: the same numbers are the same file.
        facts = {"Title": title, "Date": None, "Creator": None}
        figure.savefig(page, format="svg", metadata=facts)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    lines = (line.rstrip() for line in page.getvalue().splitlines())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return path


# -- pruning and its alternatives ------------------------------------------------------------------

GROUPS = {
    "all words": (GREY, "o"),
    "PCA": (SKY, "D"),
    "fewer bits": (ORANGE, "P"),
    "k-means": (GREEN, "s"),
    "annealing": (PURPLE, "v"),
    "refinement": (VERMILION, "^"),
    "refinement, PCA, 8 bits": (BLUE, "*"),
}
COSTS = {
    "bytes": ("words and classifier, bytes", "Accuracy against the size of a recogniser"),
    "ms": ("coding an image, milliseconds on one core", "Accuracy against the time of coding"),
}


def draw_alternatives(planes: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    """Draw ``alternatives-bytes.svg`` and ``alternatives-ms.svg``."""
    for cost, (label, title) in COSTS.items():
        if any(point[cost] is not None for points in planes.values() for point in points):
            name = f"alternatives-{cost}.svg"
            _draw(name, folder, partial(_planes, planes, cost, label, title))


def _planes(
    planes: dict[str, list[dict[str, Any]]], cost: str, label: str, title: str
) -> tuple[Figure, str]:
    figure = Figure(figsize=(8.6, 4.9), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06, h_pad=0.1, w_pad=0.08)
    figure.suptitle(title, x=0.015, ha="left", fontsize=13, weight="bold")
    panels = np.atleast_1d(figure.subplots(1, len(planes)))
    for panel, (name, points) in zip(panels, planes.items(), strict=True):
        shown = [point for point in points if point[cost] is not None]
        for group, (colour, marker) in GROUPS.items():
            mine = [point for point in shown if point["group"] == group]
            xs, ys = ([point[axis] for point in mine] for axis in (cost, "accuracy"))
            size = 60 if marker == "*" else 30
            panel.scatter(xs, ys, size, color=colour, marker=marker, label=group, zorder=3)
        front = sorted((p[cost], p["accuracy"], p["name"]) for p in shown if p[f"by_{cost}"])
        steps = {"where": "post", "color": INK, "linewidth": 0.8, "zorder": 2}
        panel.step([x for x, _, _ in front], [y for _, y, _ in front], **steps)
        for x, y, text in front:
            place = {"textcoords": "offset points", "xytext": (4, -9), "fontsize": 6.5}
            panel.annotate(text, (x, y), **place)
        panel.set(xscale="log", xlabel=label)
        panel.set_title(name, loc="left", weight="bold")
        panel.grid(color="#e6e6e6", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.tick_params(which="minor", length=0)
        panel.margins(x=0.12)
    panels[0].set_ylabel("mean per-class accuracy")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    n_splits = min(point["n_splits"] for points in planes.values() for point in points)
    figure.supxlabel(
        f"Mean of {n_splits} splits, hard coding. The line is the Pareto front: no other "
        "alternative is at least as accurate and as cheap.",
        x=0.015,
        ha="left",
        fontsize=8,
        color=INK,
    )
    return figure, title


# -- what a move costs -----------------------------------------------------------------------------

LINES = {
    "exact": ("hard, exact", BLUE, "o"),
    "uniform": ("hard, uniform", VERMILION, "s"),
    "soft, 16-bit": ("soft, 16-bit", GREEN, "^"),
}
AXES = {
    "images": "images in the corpus",
    "words of the codebook": "words of the full codebook",
    "kept words": "words that are kept",
    "words that a move replaces": "words that a move replaces",
}


def _costs(measured: dict[str, Any]) -> tuple[Figure, str]:
    lines, fixed = measured["lines"], measured["fixed"]
    times = [t for states in lines.values() for points in states.values() for _, t in points]
    bottom, top = min(times) / 2.5, max(times) * 2.5
    figure = Figure(figsize=(8.6, 6.8), layout="constrained")
    figure.get_layout_engine().set(hspace=0.05, wspace=0.05, h_pad=0.1, w_pad=0.08)
    title = "How the time of one move grows"
    figure.suptitle(title, x=0.015, ha="left", fontsize=13, weight="bold")
    panels = figure.subplots(2, 2, sharey=True)
    for number, (panel, (name, label)) in enumerate(zip(panels.flat, AXES.items(), strict=True)):
        panel.set(xscale="log", yscale="log", ylim=(bottom, top))
        panel.set_title(label, loc="left", weight="bold")
        _cost_panel(panel, lines[name], fixed[name])
        panel.yaxis.set_major_formatter(lambda t, _: _duration(t))
        panel.tick_params(which="minor", length=0)
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.7)
        panel.set_axisbelow(True)
        if number % 2 == 0:
            panel.set_ylabel("time of one move")
    figure.supxlabel(
        f"Dotted: the values in the other three panels ({fixed['images']} images, "
        f"{fixed['words of the codebook']} words, {fixed['kept words']} of them kept, "
        f"{fixed['words that a move replaces']} replaced). {measured['threads']} threads. "
        "Both axes are logarithmic.\n"
        "The number at a line is its slope from end to end: 1 (the grey line) is twice the time "
        "for twice the size, 0 is no more time.",
        x=0.015,
        ha="left",
        fontsize=8,
        color=INK,
    )
    return figure, f"{title} with images, words, kept words and words replaced"


def _cost_panel(panel: Axes, states: dict[str, list[tuple[int, float]]], here: int) -> None:
    sizes = sorted({size for points in states.values() for size, _ in points})
    width = sizes[-1] / sizes[0] if len(sizes) > 1 else 2.0
    panel.set_xlim(sizes[0] / width**0.08, sizes[-1] * width**0.72)
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.set_xticks([], minor=True)
    panel.axvline(here, color=GREY, linewidth=0.8, linestyle=":")
    labels = []
    for state, points in states.items():
        name, colour, marker = LINES[state]
        x, y = np.array(points, dtype=float).T
        panel.plot(x, y, color=colour, marker=marker, markersize=5, linewidth=1.8)
        labels.append((float(y[-1]), f"{name} ({_slope(x, y)})", colour))
    limits = panel.get_ylim()
    heights = apart([y for y, *_ in labels], *limits)
    for height, (_, text, colour) in zip(heights, labels, strict=True):
        panel.annotate(
            text,
            (sizes[-1], height),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=colour,
            weight="bold",
        )
    start = sizes[-1] * width**0.18
    _slope_guide(
        panel,
        (start, start * min(width**0.4, 3.0)),
        widest_gap([limits[0], *heights, limits[1]]),
    )


def _slope_guide(panel: Axes, across: tuple[float, float], height: float) -> None:
    rise = math.sqrt(across[1] / across[0])
    panel.plot(across, (height / rise, height * rise), color=GREY, linewidth=1.2)
    panel.annotate(
        "slope 1",
        (across[1], height * rise),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=GREY,
    )


def widest_gap(heights: list[float]) -> float:
    """Return the middle of the widest gap between heights on a logarithmic axis."""
    places = np.sort(np.log(heights))
    widest = int(np.argmax(np.diff(places)))
    return float(np.exp((places[widest] + places[widest + 1]) / 2))


def _slope(x: Points, y: Points) -> str:
    if len(x) < 2:
        return "no slope"
    slope = math.log(y[-1] / y[0]) / math.log(x[-1] / x[0])
    return f"{slope:.1f}".replace("-0.0", "0.0").replace("-", "−")


def apart(heights: list[float], low: float, high: float, share: float = 0.075) -> list[float]:
    """Return heights on a logarithmic axis, moved so that labels there do not overlap."""
    order = np.argsort(heights)
    gap = share * math.log(high / low)
    places = np.log(heights)[order]
    for _ in range(50):
        for i in range(len(places) - 1):
            lack = gap - (places[i + 1] - places[i])
            if lack > 0:
                places[i] -= lack / 2
                places[i + 1] += lack / 2
    out = np.empty(len(places))
    out[order] = np.exp(places)
    return out.tolist()


def _duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.99 * unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


# -- how a pruned cell is divided ------------------------------------------------------------------

HEIRS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
NOBODY = "#999999"
"""A word that some way gives a part and coding again does not."""
KNOWS = {
    "exact": "counts every descriptor,\nequal to re-encoding",
    "voronoi": "assumes a round Gaussian\naround the pruned word (Eq. 3)",
    "uniform": "equal parts to the five words\nnearest to the pruned one (Eq. 6)",
}


def _cell(what: Inheritance) -> tuple[Figure, str]:
    title = "Where the descriptors of a pruned word go"
    figure = Figure(figsize=(8.6, 7.9))
    figure.text(0.02, 0.985, title, fontsize=13, weight="bold", va="top")
    maps = figure.add_gridspec(1, 2, left=0.02, right=0.98, top=0.885, bottom=0.38, wspace=0.04)
    bars = figure.add_gridspec(1, 3, left=0.02, right=0.98, top=0.225, bottom=0.045, wspace=0.08)
    _before(figure.add_subplot(maps[0], anchor="W"), what)
    _after(figure.add_subplot(maps[1], anchor="E"), what)
    figure.text(0.02, 0.335, "3. Which share of ★ each neighbour gets, by three ways of inferring")
    first = None
    for i, way in enumerate(WAYS):
        panel = figure.add_subplot(bars[i], sharey=first)
        first = first or panel
        _bars(panel, what, way)
    return figure, f"{title}: an example in the plane"


def _map(panel: Axes, what: Inheritance, title: str) -> Points:
    """Set up a map of the words; return the corners of the part of the plane that it shows."""
    low, high = what.words.min(axis=0) - 0.25, what.words.max(axis=0) + 0.25
    panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xticks=[], yticks=[])
    panel.set_title(title, loc="left")
    for side in panel.spines.values():
        side.set(visible=True, color=PALE)
    return np.array([low, (high[0], low[1]), high, (low[0], high[1])])


def _before(panel: Axes, what: Inheritance) -> None:
    everyone = np.arange(len(what.words))
    own = what.codes == what.pruned
    title = (
        f"1. With all {len(everyone)} words (diamonds, ★): the word ★\n"
        f"codes the {int(own.sum())} descriptors (dots) in its cell"
    )
    box = _map(panel, what, title)
    for word in everyone:
        cell = cell_of(word, everyone, what.words, box)
        colour = "#dedede" if word == what.pruned else PAPER
        panel.fill(*cell.T, facecolor=colour, edgecolor=PALE, linewidth=1)
    panel.scatter(*what.descriptors[~own].T, s=5, color=PALE, linewidths=0)
    panel.scatter(*what.descriptors[own].T, s=11, color=INK, linewidths=0)
    panel.scatter(*what.words[what.kept].T, s=28, marker="D", color=GREY)
    panel.scatter(*what.words[what.pruned], s=230, marker="*", color=INK, edgecolor=PAPER, zorder=3)


def _after(panel: Axes, what: Inheritance) -> None:
    title = (
        "2. Without ★: each of them goes to the nearest\n"
        "word that is left, so neighbours divide the cell"
    )
    box = _map(panel, what, title)
    own = what.codes == what.pruned
    lost = cell_of(what.pruned, np.arange(len(what.words)), what.words, box)
    for word in what.kept:
        cell = cell_of(word, what.kept, what.words, box)
        panel.fill(*cell.T, facecolor=PAPER, edgecolor=PALE, linewidth=1)
    panel.scatter(*what.descriptors[~own].T, s=5, color=PALE, linewidths=0)
    panel.scatter(*what.words[what.kept].T, s=28, marker="D", color=GREY)
    for heir, colour in zip(what.heirs, _colours(what), strict=True):
        whole = cell_of(heir.word, what.kept, what.words, box)
        panel.fill(*whole.T, color=colour, alpha=0.1, linewidth=0)
        part = cell_of(heir.word, what.kept, what.words, lost)
        panel.fill(*part.T, color=colour, alpha=0.38, linewidth=0)
        taken = own & (what.codes_after == heir.word)
        panel.scatter(*what.descriptors[taken].T, s=12, color=colour, edgecolor=INK, linewidth=0.4)
        panel.scatter(*what.words[heir.word], s=32, marker="D", color=colour, zorder=3)
        _name(panel, heir, what.words[heir.word] - what.words[what.pruned], what.words)
    panel.plot(*np.vstack([lost, lost[:1]]).T, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))


def _colours(what: Inheritance) -> list[str]:
    some = iter(HEIRS)
    return [next(some) if heir.shares["exact"] > 0 else NOBODY for heir in what.heirs]


def _name(panel: Axes, heir: Heir, away: Points, words: Points) -> None:
    """Write an heir's letter and share beside its word, on the side away from the pruned cell."""
    right, up = away / np.linalg.norm(away)
    panel.annotate(
        f"{heir.letter} {_percent(heir.shares['exact'])}",
        words[heir.word],
        xytext=(8 * right, 9 * up),
        textcoords="offset points",
        ha="left" if right > 0.4 else "right" if right < -0.4 else "center",
        va="bottom" if up > 0.4 else "top" if up < -0.4 else "center",
        weight="bold",
        zorder=4,
    )


def _bars(panel: Axes, what: Inheritance, way: str) -> None:
    places = np.arange(len(what.heirs))
    shares = [heir.shares[way] for heir in what.heirs]
    panel.bar(places, shares, color=_colours(what), width=0.72)
    panel.set_ylim(0, 1.14 * max(share for heir in what.heirs for share in heir.shares.values()))
    for place, share in zip(places, shares, strict=True):
        _above(panel, place, share, _percent(share))
    panel.set_xticks(places, [heir.letter for heir in what.heirs], weight="bold")
    panel.tick_params(axis="x", length=0)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    wrong = what.misplaced(way)
    verdict = "no error" if wrong == 0 else f"{_percent(wrong)} of ★ goes to wrong words"
    for text, lift, weight in ((way, 44, "bold"), (KNOWS[way], 20, "normal"), (verdict, 6, "bold")):
        panel.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, lift),
            textcoords="offset points",
            weight=weight,
            fontsize=8.5,
        )


def _above(panel: Axes, place: float, height: float, text: str) -> None:
    panel.annotate(
        text, (place, height), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
