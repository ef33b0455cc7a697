"""The same figures alone in a file, for a document: with a legend, light or dark by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from bowsaw.checkpoint import atomic_write
from bowsaw.comparison.records import read_run
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classify import CALLED
from bowsaw.report.figures import AXES, MAIN, Frame, Look, chart, legend_mark, looks_of
from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.summary import Panel, panels_of

GRID = Frame(420, 300, 52, 14, 12, 52)
"""One picture among several."""


def write_figure(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    view: str = "sqrt",
    axis: str = "coding",
    only: Mapping[str, object] | None = None,
    columns: int = 2,
) -> Path:
    """Write the curves of a run as one SVG file.

    Parameters
    ----------
    folder : path-like
        The run.
    path : path-like
        The file to write.
    view : {"sqrt", "raw"}, default="sqrt"
        Which map of the histograms.
    axis : {"coding", "columns"}, default="coding"
        What runs along x.
    only : mapping, optional
        Which panels: values of ``set``, ``coding`` or ``full_words``. All by default.
    columns : int, default=2
        Pictures side by side.

    Returns
    -------
    Path
    """
    if view not in CALLED or axis not in AXES:
        raise ParameterError(
            f"view must be one of {', '.join(CALLED)}, and axis one of {', '.join(AXES)}; got "
            f"{view!r} and {axis!r}."
        )
    run = read_run(folder)
    panels = [
        panel
        for panel in panels_of(run.about, run.cells)
        if view in panel.maps and (only or {}).items() <= panel.key._asdict().items()
    ]
    if not panels:
        raise ParameterError(
            f"no panel of {os.fspath(folder)} has the {CALLED[view]} map and {dict(only or {})!r}. "
            "Ask for a set, coding and full_words that the run has."
        )
    looks = looks_of(run.about["methods"], [m for p in panels for m in p.methods])
    with atomic_write(path) as file:
        file.write(standalone(panels, view, axis, looks, columns=columns).encode())
    return Path(path)


def style_sheet() -> str:
    """Return the style of all figures, with its light and dark colours."""
    return (files("bowsaw.report") / "templates" / "figure.css").read_text("utf-8")


def standalone(
    panels: Sequence[Panel], view: str, axis: str, looks: Mapping[str, Look], *, columns: int = 2
) -> str:
    """Return one SVG file with a picture a panel and one legend, light or dark by itself."""
    frame = MAIN if len(panels) == 1 else GRID
    columns = min(columns, len(panels))
    head, gap = 30, 12
    rows = -(-len(panels) // columns)
    methods = [m for m in looks if any(m in p.methods for p in panels)]
    width = columns * frame.width + (columns - 1) * gap
    lines = _legend_rows([looks[m] for m in methods], width)
    height = rows * (frame.height + head) + 26 * len(lines) + 8
    parts: list[Content] = [tag("style", Markup(style_sheet())), _paper(width, height)]
    for place, panel in enumerate(panels):
        left = (place % columns) * (frame.width + gap)
        top = (place // columns) * (frame.height + head)
        picture = chart(panel, view, axis, looks, ident=panel.ident, frame=frame)
        inner = picture.replace("<svg ", f'<svg y="{head}" ', 1).replace(
            "viewBox", f'width="{frame.width}" height="{frame.height}" viewBox', 1
        )
        title = tag("text", panel.title, x=frame.left, y=20, class_="title")
        parts.append(tag("g", title, Markup(inner), transform=f"translate({left} {top})"))
    for i, line in enumerate(lines):
        top = rows * (frame.height + head) + 26 * i + 16
        for left, look in line:
            key = legend_mark(look).replace("<svg ", f'<svg x="{left}" y="{top - 8}" ', 1)
            parts += [Markup(key), tag("text", look.title, x=left + 42, y=top, dy=".32em")]
    return (
        tag(
            "svg",
            parts,
            xmlns="http://www.w3.org/2000/svg",
            class_="chart alone",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            aria_label=f"Accuracy against {AXES[axis]}",
        )
        + "\n"
    )


def _paper(width: int, height: int) -> Markup:
    return tag("rect", class_="paper", width=width, height=height)


def _legend_rows(looks: Sequence[Look], width: int) -> list[list[tuple[int, Look]]]:
    rows: list[list[tuple[int, Look]]] = [[]]
    left = 8
    for look in looks:
        # Seven pixels a letter is an upper guess; nobody measures text without a font.
        room = 42 + 7 * len(look.title) + 22
        if left + room > width and rows[-1]:
            rows.append([])
            left = 8
        rows[-1].append((left, look))
        left += room
    return rows
