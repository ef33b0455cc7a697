"""The way of a search: score, share of accepted moves and temperature, by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bowsaw.report.axes import Scale, round_limits
from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.wording import grouped

WIDTH, ROW, LEFT, RIGHT, TOP, GAP, BOTTOM = 640, 120, 72, 16, 24, 40, 52
MOST_POINTS = 150
"""A line of more is thinned: nobody sees more on so many pixels."""


def running_share(accepted: Sequence[float], window: int) -> list[float]:
    """Return the mean of the last ``window`` entries at each step, of fewer at the start.

    Examples
    --------
    >>> running_share([1, 0, 0, 1], 2)
    [1.0, 0.5, 0.0, 0.5]
    """
    out, total = [], 0.0
    for i, value in enumerate(accepted):
        total += value - (accepted[i - window] if i >= window else 0)
        out.append(total / min(i + 1, window))
    return out


def trace_chart(line: Mapping[str, Any], title: str, ident: str) -> Markup | None:
    """Draw one line of kind ``trace``; None where it has no score."""
    scores: list[float | None] = list(line.get("score") or [])
    if not scores:
        return None
    steps: list[float] = list(line.get("step") or range(len(scores)))
    # Acceptance and temperature may tell of the moves between the points of the score.
    rows = [(f"score ({line.get('score_name') or 'of the method'})", scores, steps)]
    accepted = line.get("accepted")
    if accepted:
        window = max(1, len(accepted) // 20)
        shares: list[float | None] = [*running_share(accepted, window)]
        rows.append(("share of moves accepted", shares, steps[-len(shares) :]))
    heat = line.get("temperature")
    if heat:
        rows.append(("temperature", list(heat), steps[-len(heat) :]))
    height = TOP + len(rows) * ROW + (len(rows) - 1) * GAP + BOTTOM
    x = Scale(0, max(steps[-1], 1), LEFT, WIDTH - RIGHT)
    parts: list[Content] = [
        tag("title", title, id=f"{ident}-t"),
        tag("desc", _described(rows), id=f"{ident}-d"),
    ]
    for place, (name, values, where) in enumerate(rows):
        parts.append(_row(name, values, where, x, TOP + place * (ROW + GAP), place))
    base = height - BOTTOM
    for step in round_limits([0, steps[-1]], 6)[2]:
        if step <= steps[-1]:
            parts.append(tag("text", grouped(step), x=x(step), y=base + 8, dy=".9em", class_="mid"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(tag("text", "step of the search", x=middle, y=height - 8, class_="mid name"))
    return tag(
        "svg",
        parts,
        class_="chart trace",
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_labelledby=f"{ident}-t {ident}-d",
    )


def _row(
    name: str,
    values: Sequence[float | None],
    steps: Sequence[float],
    x: Scale,
    top: float,
    place: int,
) -> Markup:
    known = [value for value in values if value is not None] or [0.0, 1.0]
    low, high, ticks = round_limits(known, 3)
    y = Scale(low, high, top + ROW, top)
    marks = [
        (
            tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(t), y2=y(t)),
            tag("text", f"{t:.3g}".replace("-", "−"), x=LEFT - 8, y=y(t), dy=".32em", class_="end"),
        )
        for t in ticks
    ]
    every = max(1, len(values) // MOST_POINTS)
    chosen = sorted({*range(0, len(values), every), len(values) - 1})
    path, pen = "", "M"
    for i in chosen:
        value = values[i]
        if value is None:
            pen = "M"
            continue
        path += f"{pen}{x(steps[i]):g} {y(value):g}"
        pen = "L"
    return tag(
        "g",
        tag("g", marks, class_="axis"),
        tag("text", name, x=LEFT, y=top - 9, class_="name"),
        tag("path", d=path, class_="line"),
        class_=f"curve s{place}",
    )


def _described(rows: Sequence[tuple[str, Sequence[float | None], Sequence[float]]]) -> str:
    said = []
    for name, values, _ in rows:
        known = [value for value in values if value is not None]
        if known:
            said.append(f"{name}: from {known[0]:.3g} to {known[-1]:.3g}.")
    return " ".join(said)
