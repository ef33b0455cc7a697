"""Accuracy against size, drawn as SVG.

A curve is a group with its method's name; it holds a band, a line and a marker a size, and each of
these knows its place on both x scales (``data-log``, ``data-linear``), so that a script changes the
scale without a calculation. Colours are classes that a style sheet gives a light and a dark value;
methods also differ by marker, and lines of methods that code with all words are dashed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bowsaw.report.axes import Scale, apart, round_limits
from bowsaw.report.markup import Content, Markup, tag, text
from bowsaw.report.summary import FULL, Entry, Panel
from bowsaw.report.wording import grouped

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
LABEL_ROOM = 155
"""Pixels that the words on the level of the whole codebook need."""
AXES = {"coding": "words used in coding", "columns": "dimensions of a histogram"}


@dataclass(frozen=True)
class Look:
    """How a method is drawn everywhere: colour, marker, dashes, and its title."""

    place: int
    title: str
    dashed: bool

    @property
    def colour(self) -> str:
        """The class that carries its colour."""
        return f"s{self.place % N_COLOURS}"

    @property
    def marker(self) -> str:
        """The outline of its marker; no two methods share colour and marker."""
        return MARKERS[(self.place + self.place // N_COLOURS) % len(MARKERS)]


class Frame(NamedTuple):
    """The size of a picture and its margins, in pixels."""

    width: int = 760
    height: int = 430
    left: int = 66
    right: int = 18
    top: int = 34
    bottom: int = 64


MAIN = Frame()
SMALL = Frame(320, 230, 48, 12, 10, 30)
HERO = Frame(560, 400, 58, 20, 34, 56)


@dataclass(frozen=True)
class Mark:
    """A point to point at: where, and what to say."""

    x: float
    y: float
    words: str


def looks_of(methods: Mapping[str, Mapping[str, object]], seen: Sequence[str]) -> dict[str, Look]:
    """Give every method its look: ours first, then the order of the run."""
    names = list(dict.fromkeys([*(m for m in methods if m != FULL), *seen]))
    names.sort(key=lambda m: not methods.get(m, {}).get("ours"))
    return {
        name: Look(
            place,
            str(methods.get(name, {}).get("title", name)),
            methods.get(name, {}).get("codes_with") == "full",
        )
        for place, name in enumerate(names)
    }


def x_of(entry: Entry, axis: str) -> int:
    """Return where an entry stands on an axis."""
    return entry.n_coding_words if axis == "coding" else entry.n_columns


def y_range(panels: Sequence[Panel], view: str) -> tuple[float, float, list[float]]:
    """Return round limits for the accuracies of panels; bands count up to a quarter of the rest."""
    levels = [e.levels[view] for p in panels for e in p.entries.values() if view in e.levels]
    means = [level.mean for level in levels] or [0.0, 1.0]
    room = max((max(means) - min(means)) / 4, 0.005)
    low = max(min(level.low for level in levels), min(means) - room) if levels else 0.0
    high = min(max(level.high for level in levels), max(means) + room) if levels else 1.0
    return round_limits([max(low, 0.0), min(high, 1.0)], 8)


def chart(
    panel: Panel,
    view: str,
    axis: str,
    looks: Mapping[str, Look],
    *,
    ident: str,
    frame: Frame = MAIN,
    limits: tuple[float, float, list[float]] | None = None,
    emphasis: str | None = None,
    mark: Mark | None = None,
    caption: str = "",
) -> Markup:
    """Draw the curves of a panel.

    Parameters
    ----------
    panel : Panel
    view : {"sqrt", "raw"}
        Which map of the histograms.
    axis : {"coding", "columns"}
        What runs along x.
    looks : mapping of str to Look
    ident : str
        A name for the picture, unique on its page.
    frame : Frame
    limits : tuple of (float, float, list of float), optional
        Ends and ticks of y, to share them between pictures.
    emphasis : str, optional
        The one method to draw in colour; the others turn into background.
    mark : Mark, optional
        A point to point at.
    caption : str
        What the picture shows, for those who cannot see it.
    """
    low, high, ticks = limits or y_range([panel], view)
    entries = [e for e in panel.entries.values() if view in e.levels]
    xs = sorted({x_of(e, axis) for e in entries if e.method != FULL or axis == "coding"}) or [1]
    box = (frame.left, frame.width - frame.right)
    # A little room on both sides, so that markers at the ends stand off the frame.
    scales = {
        "log": Scale(xs[0], xs[-1], box[0] + 14, box[1] - 14, log=True),
        "linear": Scale(0, xs[-1], box[0] + 14, box[1] - 14),
    }
    y = Scale(low, high, frame.height - frame.bottom, frame.top)
    order = [m for m in panel.methods if m != emphasis] + ([emphasis] if emphasis else [])
    parts: list[Content] = [
        tag("title", f"{panel.title}: accuracy against {AXES[axis]}", id=f"{ident}-t"),
        tag("desc", caption or described(panel, view, looks), id=f"{ident}-d"),
        _y_axis(frame, y, ticks),
        _x_axis(frame, "log", scales["log"], apart(xs, scales["log"], 34), axis),
        _x_axis(frame, "linear", scales["linear"], round_limits([0, xs[-1]], 5)[2], axis),
        _whole(panel, view, axis, frame, scales, y),
    ]
    for method in order:
        curve = [e for e in panel.of(method) if view in e.levels]
        if curve and method in looks:
            faint = emphasis is not None and method != emphasis
            parts.append(_curve(curve, view, axis, looks[method], scales, y, faint=faint))
    if mark is not None:
        parts.append(_mark(mark, frame, scales["log"], y))
    return tag(
        "svg",
        parts,
        class_="chart",
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        aria_labelledby=f"{ident}-t {ident}-d",
    )


def described(panel: Panel, view: str, looks: Mapping[str, Look]) -> str:
    """Say in a sentence a method where its curve begins and ends."""
    said = []
    whole = panel.full
    if whole is not None and view in whole.levels:
        said.append(f"All {grouped(whole.size)} words: {whole.levels[view].mean:.3f}.")
    for method in panel.methods:
        found = [e for e in panel.of(method) if view in e.levels]
        if found and method in looks:
            ends = [found[0], found[-1]] if len(found) > 1 else found
            values = ", ".join(f"{e.levels[view].mean:.3f} at {grouped(e.size)}" for e in ends)
            said.append(f"{looks[method].title}: {values}.")
    return " ".join(said)


def _y_axis(frame: Frame, y: Scale, ticks: Sequence[float]) -> Markup:
    decimals = 2 if len(ticks) < 2 or ticks[1] - ticks[0] >= 0.0099 else 3
    lines = [
        (
            tag("line", x1=frame.left, x2=frame.width - frame.right, y1=y(t), y2=y(t)),
            tag("text", f"{t:.{decimals}f}", x=frame.left - 8, y=y(t), dy=".32em", class_="end"),
        )
        for t in ticks
    ]
    title = tag("text", "accuracy", x=frame.left - 40, y=frame.top - 18, class_="name")
    return tag("g", lines, title if frame.top > 20 else None, class_="axis y")


def _x_axis(frame: Frame, name: str, x: Scale, ticks: Sequence[float], axis: str) -> Markup:
    base = frame.height - frame.bottom
    marks = [
        (
            tag("line", x1=x(t), x2=x(t), y1=base, y2=base + 5),
            tag("text", grouped(t), x=x(t), y=base + 8, dy=".9em", class_="mid"),
        )
        for t in ticks
    ]
    centre = (frame.left + frame.width - frame.right) / 2
    # A small picture has no room for the name; its caption tells it.
    roomy = frame.bottom > 40
    title = tag("text", AXES[axis], x=centre, y=frame.height - 8, class_="mid name")
    return tag(
        "g",
        marks,
        title if roomy else None,
        class_=f"axis x {name}",
        data_scale=name,
        hidden=name == "linear",
    )


def _whole(
    panel: Panel, view: str, axis: str, frame: Frame, scales: Mapping[str, Scale], y: Scale
) -> Markup | None:
    whole = panel.full
    if whole is None or view not in whole.levels:
        return None
    at = y(whole.levels[view].mean)
    ends = frame.left, frame.width - frame.right
    # The number is left out on a phone, where letters are large.
    number = tag("tspan", f": {whole.levels[view].mean:.3f}", class_="more")
    label = text([f"all {grouped(whole.size)} words", number])
    drawn: list[Content] = [tag("line", class_="line", x1=ends[0], x2=ends[1], y1=at, y2=at)]
    label_at: dict[str, Any] = {"x": ends[0] + 8}
    if axis == "coding":
        # The codebook itself stands at the far right; words stand there if no curve is in the way.
        smaller = [
            e.n_coding_words for e in panel.entries.values() if e.n_coding_words < whole.size
        ]
        if ends[1] - scales["log"](max(smaller, default=1)) > LABEL_ROOM:
            label_at = {"x": ends[1], "class_": "end"}
        place = {name: f"translate({_pair((x(whole.size), at))})" for name, x in scales.items()}
        marker = tag("path", d="M-4.5-4.5H4.5V4.5H-4.5Z")
        drawn.append(_moved("g", place, marker, class_="end-point"))
    drawn.append(tag("text", label, y=at - 9, **label_at))
    return tag("g", drawn, class_="curve whole", data_method=FULL)


def _moved(name: str, place: Mapping[str, str], *content: Content, **attributes: Any) -> Markup:
    both = {"data_log": place["log"], "data_linear": place["linear"]}
    return tag(name, *content, transform=place["log"], **both, **attributes)


def _curve(
    entries: Sequence[Entry],
    view: str,
    axis: str,
    look: Look,
    scales: Mapping[str, Scale],
    y: Scale,
    *,
    faint: bool,
) -> Markup:
    levels = [entry.levels[view] for entry in entries]
    paths: dict[str, dict[str, str]] = {"line": {}, "band": {}}
    places: dict[str, list[tuple[float, float]]] = {}
    for name, x in scales.items():
        across = [x(x_of(entry, axis)) for entry in entries]
        places[name] = [(px, y(lv.mean)) for px, lv in zip(across, levels, strict=True)]
        upper = [(px, y(lv.high)) for px, lv in zip(across, levels, strict=True)]
        lower = [(px, y(lv.low)) for px, lv in zip(across, levels, strict=True)]
        paths["line"][name] = _path(places[name])
        paths["band"][name] = _path([*upper, *reversed(lower)]) + "Z"
    drawn: list[Content] = []
    if not faint and any(lv.deviation for lv in levels):
        drawn.append(_both("path", paths["band"], class_="band"))
    drawn.append(_both("path", paths["line"], class_="line"))
    for i, (entry, lv) in enumerate(zip(entries, levels, strict=True)):
        if faint:
            break
        at = {name: f"translate({_pair(places[name][i])})" for name in scales}
        said = (
            f"{look.title}, {grouped(entry.n_columns)} dimensions, codes with "
            f"{grouped(entry.n_coding_words)} words: accuracy {lv.mean:.3f}"
        )
        if lv.deviation is not None:
            said += f" ± {lv.deviation:.3f} over {len(lv.values)} splits"
        drawn.append(
            _moved(
                "g",
                at,
                tag("path", d=look.marker),
                class_="point",
                data_size=entry.size,
                data_mean=f"{lv.mean:.4f}",
                role="img",
                aria_label=said,
            )
        )
    style = "faint" if faint else f"{look.colour}{' dashed' if look.dashed else ''}"
    return tag("g", drawn, class_=f"curve {style}", data_method=entries[0].method)


def _both(name: str, path: Mapping[str, str], class_: str) -> Markup:
    return tag(name, class_=class_, d=path["log"], data_log=path["log"], data_linear=path["linear"])


def _pair(place: tuple[float, float]) -> str:
    return f"{place[0]:g} {place[1]:g}"


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(_pair(place) for place in places)


def _mark(mark: Mark, frame: Frame, x: Scale, y: Scale) -> Markup:
    px, py, base = x(mark.x), y(mark.y), frame.height - frame.bottom
    # The words stand at the foot of the line, on the side where there is more room.
    left = px > (frame.left + frame.width) / 2
    shift = -10 if left else 10
    return tag(
        "g",
        tag("line", x1=px, x2=px, y1=py + 9, y2=base),
        tag("circle", cx=px, cy=py, r=9),
        tag("text", mark.words, x=px + shift, y=base - 12, class_="end" if left else None),
        class_="mark",
    )


def legend_mark(look: Look) -> Markup:
    """Draw a short piece of a method's line with its marker."""
    return tag(
        "svg",
        tag("path", class_="line", d="M2 8H34"),
        tag("g", tag("path", d=look.marker), class_="point", transform="translate(18 8)"),
        class_=f"key {look.colour}{' dashed' if look.dashed else ''}",
        viewBox="0 0 36 16",
        width=36,
        height=16,
        aria_hidden="true",
        focusable="false",
    )
