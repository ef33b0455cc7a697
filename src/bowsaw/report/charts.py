"""Charts as SVG: accuracy against size, the trace of a search, and figures in files of their own.

A curve is a group with its method's name. It holds a band (or a dot per split where they are few),
a line, one marker per size and a label at its end, and each of these carries its place on both x
scales (``data-log``, ``data-linear``), so that the script changes the scale without a calculation.
Colours are classes with a light and a dark value in the style sheet. Methods also differ by marker,
and lines of methods that code with all words are dashed. A scale clips at its ends, so nothing is
drawn outside the frame.

**Labels** of curves that end at the same x stand beside these ends, moved apart where they would
overlap, with a thin line to the end of the curve. Where there is no space between the ends and the
full codebook, they stand at the right of the frame, which becomes narrower.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bowsaw.checkpoint import atomic_write
from bowsaw.comparison.records import read_run
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classifier import CALLED
from bowsaw.formatting import format_count
from bowsaw.markup import Content, Markup, tag, text
from bowsaw.report.summary import FULL, Entry, Panel, panels_of
from bowsaw.validation import check_choice

MARKERS = (
    "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z",
    "M-4.5-4.5H4.5V4.5H-4.5Z",
    "M0-5.8L5.4 4.2H-5.4Z",
    "M0-6L6 0L0 6L-6 0Z",
    "M0 5.8L5.4-4.2H-5.4Z",
    "M-1.8-5.4H1.8V-1.8H5.4V1.8H1.8V5.4H-1.8V1.8H-5.4V-1.8H-1.8Z",
    "M0-6.2L1.8-1.9L6.2-1.7L2.8 1.2L3.9 5.6L0 3.2L-3.9 5.6L-2.8 1.2L-6.2-1.7L-1.8-1.9Z",
    "M-5.4 0L-2.7-4.7H2.7L5.4 0L2.7 4.7H-2.7Z",
)
N_COLOURS = 8
MIN_BAND, MAX_BAND = 5, 0.25
"""Splits that make a band, and the share of a chart's height that it may have; else dots."""
AXES = {"coding": "words used in coding", "columns": "dimensions of a histogram"}
Limits = tuple[float, float, list[float]]


@dataclass(frozen=True)
class Scale:
    """Map numbers from ``low`` to ``high`` to pixels from ``start`` to ``end``; clip beyond."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        fraction = 0.5 if high == low else (at - low) / (high - low)
        return round(self.start + fraction * (self.end - self.start), 1)


def round_limits(values: Sequence[float], most: int = 6) -> Limits:
    """Return round ends around ``values``, and ticks 1, 2 or 5 × a power of ten apart."""
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.01, high + 0.01
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    # Dividing by a negative power loses less than multiplying by it: 0.05, not 0.05000000000000001.
    step = next(
        size * power if power >= 1 else size / round(1 / power)
        for size in (1, 2, 5, 10)
        if size * power * most >= (high - low) * (1 - 1e-9)
    )
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(i * step, 10) for i in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def spaced(values: Sequence[float], scale: Scale, gap: float) -> list[float]:
    """Return the values that stand at least ``gap`` pixels apart; the two ends always stay."""
    ordered = sorted(set(values))
    if len(ordered) < 3:
        return ordered
    chosen = [ordered[0]]
    for value in ordered[1:-1]:
        if min(scale(value) - scale(chosen[-1]), scale(ordered[-1]) - scale(value)) >= gap:
            chosen.append(value)
    return [*chosen, ordered[-1]]


class Look(NamedTuple):
    """How a method is drawn everywhere; no two methods share style and marker."""

    name: str
    style: str
    marker: str
    dashed: bool


class Frame(NamedTuple):
    """Size and margins of a chart in pixels, and the width of a label's letter in large type."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    letter: float


# The page enlarges type on phones; a figure in a file and small charts have one type.
FRAMES = {
    "curves": Frame(600, 420, 60, 18, 34, 60, 12.5),
    "small": Frame(320, 250, 48, 12, 30, 48, 8.5),
    "headline": Frame(560, 400, 58, 20, 34, 56, 12.5),
    "grid": Frame(460, 320, 52, 14, 32, 52, 8.5),
}


def looks_of(methods: Mapping[str, Mapping[str, Any]], seen: Sequence[str]) -> dict[str, Look]:
    """Return a look per method, in the order of the run."""
    names = list(dict.fromkeys([*(m for m in methods if m != FULL), *seen]))
    looks = {}
    for place, name in enumerate(names):
        dashed = methods.get(name, {}).get("codes_with") == "full"
        style = f"s{place % N_COLOURS}{' dashed' if dashed else ''}"
        marker = MARKERS[(place + place // N_COLOURS) % len(MARKERS)]
        looks[name] = Look(name, style, marker, dashed)
    return looks


def x_of(entry: Entry, axis: str) -> int:
    """Return where an entry stands on an axis."""
    return entry.n_coding_words if axis == "coding" else entry.n_columns


def y_range(panels: Sequence[Panel], view: str, pick: Entry | None = None) -> Limits:
    """Return round limits of accuracy, with the interval of ``pick``.

    Bands extend them by a quarter of the range at most.
    """
    levels = [e.levels[view] for p in panels for e in p.entries.values() if view in e.levels]
    if not levels:
        return round_limits([0.0, 1.0], 8)
    means = [level.mean for level in levels]
    margin = max((max(means) - min(means)) / 4, 0.005)
    low = max(min(level.low for level in levels), min(means) - margin, 0.0)
    high = min(max(level.high for level in levels), max(means) + margin, 1.0)
    if pick is not None:
        level = pick.levels[view]
        low, high = min(low, level.mean - level.margin), max(high, level.mean + level.margin)
    return round_limits([max(low, 0.0), min(high, 1.0)], 8)


def chart(
    panel: Panel,
    view: str,
    axis: str,
    looks: Mapping[str, Look],
    *,
    use: str = "curves",
    limits: Limits | None = None,
    pick: Entry | None = None,
) -> Markup:
    """Return the curves of a panel.

    ``use`` is the name of a frame. ``limits`` shares ends and ticks of y between charts. ``pick``
    is marked, and its method is the only one in colour.
    """
    frame, ident = FRAMES[use], f"{use}-{panel.ident}-{view}-{axis}"
    low, high, ticks = limits or y_range([panel], view, pick)
    entries = [e for e in panel.entries.values() if view in e.levels]
    xs = sorted({x_of(e, axis) for e in entries if e.method != FULL or axis == "coding"}) or [1]
    curves = {m: [e for e in panel.of(m) if view in e.levels] for m in panel.methods if m in looks}
    curves = {method: curve for method, curve in curves.items() if curve}
    ends = {method: x_of(curve[-1], axis) for method, curve in curves.items()}
    scales = _x_scales(xs, frame)
    needed = frame.letter * max(map(len, curves), default=0) + 18
    # What ends at the right, or too close to it for a label, has its label outside the frame.
    far = scales["log"](xs[-1]) - needed - 12
    outside = [method for method, x in ends.items() if scales["log"](x) > far]
    if outside and use != "small":
        frame = frame._replace(right=round(needed))
        scales = _x_scales(xs, frame)
    y = Scale(low, high, frame.height - frame.bottom, frame.top)
    heights = {method: y(curve[-1].levels[view].mean) for method, curve in curves.items()}
    labels: dict[str, _Label] = {}
    for group in (outside, [m for m in curves if m not in outside]) if use != "small" else ():
        places = apart([heights[m] for m in group], 1.8 * frame.letter, y.end, y.start)
        for method, place in zip(group, places, strict=True):
            x = {k: s(xs[-1] if method in outside else ends[method]) for k, s in scales.items()}
            begin = {k: scales[k](ends[method]) - x[k] for k in x}
            labels[method] = _Label(x, place, begin, heights[method] - place)
    parts: list[Content] = [
        tag("title", f"{panel.title}: accuracy against {AXES[axis]}", id=f"{ident}-t"),
        tag("desc", described(panel, view, looks), id=f"{ident}-d"),
        _y_axis(frame, y, ticks),
        _x_axis(frame, "log", scales["log"], spaced(xs, scales["log"], 34), axis),
        _x_axis(frame, "linear", scales["linear"], round_limits([0, xs[-1]], 5)[2], axis),
        _full_level(panel, view, axis, frame, scales, y),
    ]
    coloured = [pick.method] if pick is not None else list(curves)
    levels = [e.levels[view] for m in coloured for e in curves.get(m, ())]
    bands = all(len(level.values) >= MIN_BAND for level in levels) and all(
        level.high - level.low <= MAX_BAND * (high - low) for level in levels
    )
    # The curve in colour is drawn last, above the others.
    for method in sorted(curves, key=lambda m: pick is not None and m == pick.method):
        faint = pick is not None and method != pick.method
        spread = "" if faint else "band" if bands else "dots"
        about = looks[method], labels.get(method), panel.unit
        parts.append(_curve(curves[method], view, axis, about, scales, y, spread))
    if pick is not None:
        level = pick.levels[view]
        bar = [y(level.mean + level.margin), y(level.mean - level.margin)]
        at = scales["log"](x_of(pick, axis)), y(level.mean)
        # A single size stands under the line, where the labels of other methods may be.
        is_one = len({size for method, size in panel.entries if method != FULL}) == 1
        parts.append(_mark(at, bar, "" if is_one else f"{pick.size:,} words", frame))
    return _svg(parts, "chart", frame.width, frame.height, ident)


class _Label(NamedTuple):
    """Where the label of a curve is on each scale, and the curve's end as seen from there."""

    x: Mapping[str, float]
    y: float
    begin: Mapping[str, float]
    rise: float


def _x_scales(xs: Sequence[float], frame: Frame) -> dict[str, Scale]:
    # Markers at the ends keep 14 pixels from the frame; a single size stands inside it.
    ends = frame.left + (14 if len(xs) > 2 else 70), frame.width - frame.right - 14
    return {"log": Scale(xs[0], xs[-1], *ends, log=True), "linear": Scale(0, xs[-1], *ends)}


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move numbers at least ``gap`` apart, in their order and between ``low`` and ``high``.

    The gap is less where there are too many.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    gap = min(gap, (high - low) / max(len(places) - 1, 1))
    found, limit = list(places), low
    for i in order:
        found[i] = limit = max(places[i], limit)
        limit += gap
    limit = high
    for i in reversed(order):
        found[i] = limit = min(found[i], limit)
        limit -= gap
    return found


def _svg(parts: Sequence[Content], class_: str, width: int, height: int, ident: str) -> Markup:
    box, labels = f"0 0 {width} {height}", f"{ident}-t {ident}-d"
    return tag("svg", parts, class_=class_, viewBox=box, role="img", aria_labelledby=labels)


def described(panel: Panel, view: str, looks: Mapping[str, Look]) -> str:
    """Return one sentence per method: where its curve begins and ends."""
    sentences = []
    full = panel.full
    if full is not None and view in full.levels:
        sentences.append(f"All {full.size:,} words: {full.levels[view].mean:.3f}.")
    for method in panel.methods:
        found = [e for e in panel.of(method) if view in e.levels]
        if found and method in looks:
            ends = [found[0], found[-1]] if len(found) > 1 else found
            values = ", ".join(f"{e.levels[view].mean:.3f} at {e.size:,}" for e in ends)
            sentences.append(f"{method}: {values} words.")
    return " ".join(sentences)


def _lines(ticks: Sequence[str], y: Sequence[float], left: float, right: float) -> list[Content]:
    """Return horizontal grid lines with their labels."""
    return [
        (
            tag("line", x1=left, x2=right, y1=at, y2=at),
            tag("text", label, x=left - 8, y=at, dy=".32em", class_="end"),
        )
        for label, at in zip(ticks, y, strict=True)
    ]


def _y_axis(frame: Frame, y: Scale, ticks: Sequence[float]) -> Markup:
    decimals = 2 if len(ticks) < 2 or ticks[1] - ticks[0] >= 0.0099 else 3
    labels = [f"{t:.{decimals}f}" for t in ticks]
    lines = _lines(labels, [y(t) for t in ticks], frame.left, frame.width - frame.right)
    title = tag("text", "accuracy", x=frame.left - 40, y=frame.top - 18, class_="name")
    return tag("g", lines, title, class_="axis y")


def _x_axis(frame: Frame, name: str, x: Scale, ticks: Sequence[float], axis: str) -> Markup:
    base = frame.height - frame.bottom
    marks: list[Content] = [
        (
            tag("line", x1=x(t), x2=x(t), y1=base, y2=base + 5),
            tag("text", f"{round(t):,}", x=x(t), y=base + 8, dy=".9em", class_="mid"),
        )
        for t in ticks
    ]
    centre = (frame.left + frame.width - frame.right) / 2
    marks.append(tag("text", AXES[axis], x=centre, y=frame.height - 8, class_="mid name"))
    return tag("g", marks, class_=f"axis x {name}", data_scale=name, hidden=name == "linear")


def _full_level(
    panel: Panel, view: str, axis: str, frame: Frame, scales: Mapping[str, Scale], y: Scale
) -> Markup | None:
    """Return the level of the full codebook: a line, its label, and its point when coding."""
    full = panel.full
    if full is None or view not in full.levels:
        return None
    at = y(full.levels[view].mean)
    left, right = frame.left, frame.width - frame.right
    # The style sheet hides the number on phones, where letters are large.
    number = tag("tspan", f": {full.levels[view].mean:.3f}", class_="more")
    drawn: list[Content] = [tag("line", class_="line", x1=left, x2=right, y1=at, y2=at)]
    if axis == "coding":
        ends = {name: f"translate({x(full.size):g} {at:g})" for name, x in scales.items()}
        drawn.append(_scaled("g", "transform", ends, tag("path", d=MARKERS[1]), class_="end-point"))
    label = text([f"all {full.size:,} words", number])
    # At the left, where the curves are lower; a single size has its error bar there.
    few = len({e.size for e in panel.entries.values()}) < 3
    place = (right, "label end") if few else (left + 8, "label")
    drawn.append(tag("text", label, x=place[0], y=at - 9, class_=place[1]))
    return tag("g", drawn, class_="curve whole", data_method=FULL)


def _scaled(
    element: str, key: str, values: Mapping[str, str], *content: Content, **attributes: Any
) -> Markup:
    """Return an element whose attribute ``key`` has a value per scale."""
    both = {key: values["log"], "data_log": values["log"], "data_linear": values["linear"]}
    return tag(element, *content, **both, **attributes)


def _curve(
    entries: Sequence[Entry],
    view: str,
    axis: str,
    about: tuple[Look, _Label | None, str],
    scales: Mapping[str, Scale],
    y: Scale,
    spread: str,
) -> Markup:
    """Return a curve with its ``spread`` ("band" or "dots"); faint without one."""
    look, label, unit = about
    faint = not spread
    levels = [entry.levels[view] for entry in entries]
    across = {name: [x(x_of(entry, axis)) for entry in entries] for name, x in scales.items()}
    heights = [y(level.mean) for level in levels]
    line = {name: _path(xs, heights) for name, xs in across.items()}
    drawn: list[Content] = []
    if spread == "dots" and max(len(level.values) for level in levels) > 1:
        dots = {
            name: "".join(
                f"M{x:g} {y(value):g}h0"
                for x, level in zip(xs, levels, strict=True)
                for value in level.values.values()
            )
            for name, xs in across.items()
        }
        drawn.append(_scaled("path", "d", dots, class_="dots"))
    elif spread == "band":
        outline = [y(level.high) for level in levels] + [y(level.low) for level in reversed(levels)]
        band = {name: _path([*xs, *reversed(xs)], outline) + "Z" for name, xs in across.items()}
        drawn.append(_scaled("path", "d", band, class_="band"))
    drawn.append(_scaled("path", "d", line, class_="line"))
    if faint and len(entries) == 1:
        dot = {name: f"M{xs[0]:g} {heights[0]:g}h0" for name, xs in across.items()}
        drawn.append(_scaled("path", "d", dot, class_="dots"))
    for i, (entry, level) in enumerate(zip(entries, levels, strict=True)):
        if faint:
            break
        point = _scaled(
            "g",
            "transform",
            {name: f"translate({xs[i]:g} {heights[i]:g})" for name, xs in across.items()},
            tag("path", d=look.marker),
            class_="point",
            data_size=entry.size,
            data_mean=f"{level.mean:.4f}",
            role="img",
            aria_label=f"{look.name}, {entry.n_columns:,} dimensions, codes with "
            f"{entry.n_coding_words:,} words: accuracy {level.text} (95 % interval, "
            f"{format_count(len(level.values), unit)})",
        )
        drawn.append(point)
    if label is not None:
        where = {name: f"translate({x + 16:g} {label.y:g})" for name, x in label.x.items()}
        leader = {name: f"M{x - 8:g} {label.rise:g}L0 0" for name, x in label.begin.items()}
        shown = _scaled("path", "d", leader, class_="leader") if abs(label.rise) > 3 else None
        name = tag("text", look.name, x=2, dy=".32em")
        drawn.append(_scaled("g", "transform", where, shown, name, class_="label"))
    style = "faint" if faint else look.style
    return tag("g", drawn, class_=f"curve {style}", data_method=entries[0].method)


def _path(xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in zip(xs, ys, strict=True))


def _mark(place: tuple[float, float], bar: Sequence[float], label: str, frame: Frame) -> Markup:
    """Return a ring around a point, its error bar from ``bar[0]`` to ``bar[1]``, and its label."""
    (x, y), base = place, frame.height - frame.bottom
    # The label stands at the foot of the line, on the wider side.
    left = x > (frame.left + frame.width) / 2
    at = {"x": x + (-10 if left else 10), "y": base - 12, "class_": "end" if left else None}
    line = tag("line", x1=x, x2=x, y1=y + 9, y2=base)
    top, foot = bar
    error = tag("path", d=f"M{x - 6} {top}h12M{x} {top}V{foot}M{x - 6} {foot}h12", class_="error")
    circle = tag("circle", cx=x, cy=y, r=9)
    named = tag("text", label, **at) if label else None
    return tag("g", line, error, circle, named, class_="mark")


def legend_mark(look: Look) -> Markup:
    """Return a short piece of a method's line with its marker."""
    return tag(
        "svg",
        tag("path", class_="line", d="M2 8H34"),
        tag("g", tag("path", d=look.marker), class_="point", transform="translate(18 8)"),
        class_=f"key {look.style}",
        viewBox="0 0 36 16",
        width=36,
        height=16,
        aria_hidden="true",
        focusable="false",
    )


WIDTH, ROW, LEFT, RIGHT, TOP, GAP, BOTTOM = 640, 120, 72, 16, 24, 40, 52
MOST_POINTS = 150
Row = tuple[str, Sequence[float | None], Sequence[float]]


def running_share(accepted: Sequence[float], window: int) -> list[float]:
    """Return the mean of the last ``window`` entries at each step, of fewer at the start."""
    means = []
    for i in range(1, len(accepted) + 1):
        last = accepted[max(0, i - window) : i]
        means.append(sum(last) / len(last))
    return means


def trace_chart(line: Mapping[str, Any], title: str, ident: str) -> Markup:
    """Return score, share of accepted moves and temperature by step."""
    scores: Sequence[float | None] = line["score"]
    steps: list[float] = list(line.get("step") or range(len(scores)))
    rows: list[Row] = [(f"score ({line.get('score_name') or 'of the method'})", scores, steps)]
    # Acceptance and temperature belong to the moves between the points of the score.
    if accepted := line.get("accepted"):
        shares = running_share(accepted, max(1, len(accepted) // 20))
        rows.append(("share of moves accepted", shares, steps[-len(shares) :]))
    if heat := line.get("temperature"):
        rows.append(("temperature", heat, steps[-len(heat) :]))
    height = TOP + len(rows) * ROW + (len(rows) - 1) * GAP + BOTTOM
    x = Scale(0, max(steps[-1], 1), LEFT, WIDTH - RIGHT)
    ends = [(name, [v for v in values if v is not None]) for name, values, _ in rows]
    sentences = [f"{name}: from {v[0]:.3g} to {v[-1]:.3g}." for name, v in ends if v]
    parts: list[Content] = [
        tag("title", title, id=f"{ident}-t"),
        tag("desc", " ".join(sentences), id=f"{ident}-d"),
        [_trace_row(row, x, TOP + i * (ROW + GAP), f"curve s{i}") for i, row in enumerate(rows)],
    ]
    base = height - BOTTOM
    for step in round_limits([0, steps[-1]], 6)[2]:
        if step <= steps[-1]:
            at = {"x": x(step), "y": base + 8, "dy": ".9em", "class_": "mid"}
            parts.append(tag("text", f"{round(step):,}", **at))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(tag("text", "step of the search", x=middle, y=height - 8, class_="mid name"))
    return _svg(parts, "chart trace", WIDTH, height, ident)


def _trace_row(row: Row, x: Scale, top: float, class_: str) -> Markup:
    name, values, steps = row
    known = [value for value in values if value is not None] or [0.0, 1.0]
    low, high, ticks = round_limits(known, 3)
    y = Scale(low, high, top + ROW, top)
    labels = [f"{t:.3g}".replace("-", "−") for t in ticks]
    marks = _lines(labels, [y(t) for t in ticks], LEFT, WIDTH - RIGHT)
    every = max(1, len(values) // MOST_POINTS)
    path, pen = "", "M"
    for i in sorted({*range(0, len(values), every), len(values) - 1}):
        value = values[i]
        path += "" if value is None else f"{pen}{x(steps[i]):g} {y(value):g}"
        pen = "M" if value is None else "L"
    return tag(
        "g",
        tag("g", marks, class_="axis"),
        tag("text", name, x=LEFT, y=top - 9, class_="name"),
        tag("path", d=path, class_="line"),
        class_=class_,
    )


def write_figure(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    view: str = "sqrt",
    axis: str = "coding",
    only: Mapping[str, object] | None = None,
) -> Path:
    """Write the curves of a run as one SVG file, light or dark by itself.

    Parameters
    ----------
    folder : path-like
        The run.
    path : path-like
        The file to write.
    view : {"sqrt", "raw"}, default="sqrt"
        Which map of the histograms.
    axis : {"coding", "columns"}, default="coding"
        What runs along x: words used in coding, or dimensions of a histogram.
    only : mapping, optional
        Which panels: values of ``set``, ``coding`` or ``full_words``. All by default.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ParameterError
        If the run has no such panel.
    """
    check_choice(view, "view", CALLED)
    check_choice(axis, "axis", AXES)
    run = read_run(folder)
    mapped = [panel for panel in panels_of(run.about, run.cells) if view in panel.maps]
    panels = [p for p in mapped if (only or {}).items() <= p.key._asdict().items()]
    if not panels:
        raise ParameterError(
            f"no panel of {os.fspath(folder)} has {CALLED[view]} histograms and "
            f"{dict(only or {})!r}. Ask for a set, coding and full_words that the run has."
        )
    looks = looks_of(run.about["methods"], [m for p in panels for m in p.methods])
    with atomic_write(path) as file:
        file.write(_figure(panels, view, axis, looks).encode())
    return Path(path)


def style_sheet() -> str:
    """Return the style of all figures, with light and dark colours."""
    return (files("bowsaw.report") / "templates" / "figure.css").read_text("utf-8")


def _figure(panels: Sequence[Panel], view: str, axis: str, looks: Mapping[str, Look]) -> str:
    columns, use = (1, "curves") if len(panels) == 1 else (2, "grid")
    frame, head, gap = FRAMES[use], 30, 12
    width = columns * frame.width + (columns - 1) * gap
    drawn: list[Content] = []
    for place, panel in enumerate(panels):
        left = (place % columns) * (frame.width + gap)
        top = (place // columns) * (frame.height + head)
        size = f'<svg y="{head}" width="{frame.width}" height="{frame.height}" '
        inner = chart(panel, view, axis, looks, use=use)
        title = tag("text", panel.title, x=frame.left, y=20, class_="title")
        inner = Markup(inner.replace("<svg ", size, 1))
        drawn.append(tag("g", title, inner, transform=f"translate({left} {top})"))
    height = -(-len(panels) // columns) * (frame.height + head)
    made = tag(
        "svg",
        tag("style", Markup(style_sheet())),
        tag("rect", class_="paper", width=width, height=height),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart alone",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"Accuracy against {AXES[axis]}",
    )
    return made + "\n"
