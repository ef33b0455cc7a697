"""The sections of the page, each from summaries to markup; one that has nothing to say is None.

What depends on the panel, the map or the axis is there once for each, and carries ``data-panel``,
``data-map`` and ``data-axis``; all but the first are hidden, and the script shows those that fit
what a reader chose. So the page has its figures and tables without the script, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bowsaw.evaluation.classify import CALLED
from bowsaw.report.figures import AXES, SMALL, Look, chart, legend_mark, y_range
from bowsaw.report.headline import answer
from bowsaw.report.markup import Content, Markup, tag, text
from bowsaw.report.summary import FULL, Panel, headline_pick
from bowsaw.report.tables import (
    accuracy_table,
    certificate,
    cost_table,
    difference_table,
)


@dataclass(frozen=True)
class View:
    """What all sections are told: the run's summaries, and what is shown first."""

    about: Mapping[str, Any]
    panels: Sequence[Panel]
    looks: Mapping[str, Look]
    panel: Panel
    map: str

    @property
    def methods(self) -> Mapping[str, Any]:
        """What the run says of its methods."""
        found: Mapping[str, Any] = self.about["methods"]
        return found

    def hidden(self, panel: Panel | None = None, view: str | None = None) -> bool:
        """Tell whether something of a panel and a map is hidden at first."""
        return (panel is not None and panel is not self.panel) or view not in (None, self.map)


def section(
    ident: str, title: str, said: Content, *content: Content, attached: str | None = None
) -> Markup:
    """Return a section: a heading, a sentence for a newcomer, and what it is about."""
    return tag(
        "section",
        tag("h2", title, id=f"h-{ident}"),
        tag("p", said, class_="lead"),
        *content,
        id=ident,
        aria_labelledby=f"h-{ident}",
        class_=attached,
    )


def per_view(views: Iterable[tuple[Panel, str | None, Markup | None]], view: View) -> list[Content]:
    """Wrap what belongs to a panel and a map; hide all but what is shown first."""
    return [
        tag(
            "div",
            made,
            data_panel=panel.ident,
            data_map=name,
            hidden=view.hidden(panel, name),
        )
        for panel, name, made in views
        if made is not None
    ]


def choice(name: str, legend: str, options: Sequence[tuple[str, str]], checked: str) -> Markup:
    """Return a group of radio buttons."""
    return tag(
        "fieldset",
        tag("legend", legend),
        [
            tag(
                "label",
                tag("input", type="radio", name=name, value=value, checked=value == checked),
                tag("span", title),
            )
            for value, title in options
        ],
        id=name,
        class_="choice",
    )


def choosers(view: View) -> Markup | None:
    """Return the choice of panel and of map, where there is one."""
    parts: list[Content] = []
    if len(view.panels) > 1:
        options = [
            tag("option", p.title, value=p.ident, selected=p is view.panel) for p in view.panels
        ]
        chosen = tag("select", options, id="panel", autocomplete="off")
        parts.append(tag("label", tag("span", "Images, coding and full codebook"), chosen))
    maps = [name for name in CALLED if any(name in p.maps for p in view.panels)]
    if len(maps) > 1:
        parts.append(choice("map", "Histograms", [(m, CALLED[m]) for m in maps], view.map))
    return tag("div", parts, class_="controls") if parts else None


def answers(view: View) -> Markup:
    """Return the first screen."""
    shown = []
    for panel in view.panels:
        for name in panel.maps:
            made = answer(panel, name, view.methods, view.looks)
            if made is not None:
                shown.append((panel, name, made))
    missing = tag("p", "No cell has been measured yet.", class_="none") if not shown else None
    return tag(
        "section",
        tag("h1", "How small can my codebook be, and what does it cost?", id="h-answer"),
        choosers(view),
        per_view(shown, view),
        missing,
        id="answer",
        aria_labelledby="h-answer",
    )


def legend(view: View) -> Markup:
    """Return the toggles, each with its line's colour and marker."""
    seen = {m for p in view.panels for m in p.methods}
    rows: list[Content] = []
    for method, look in view.looks.items():
        if method in seen:
            note = tag("small", " codes with all words") if look.dashed else None
            about = view.methods.get(method, {}).get("about")
            rows.append(
                tag(
                    "label",
                    tag("input", type="checkbox", checked=True, data_toggle=method),
                    legend_mark(look),
                    tag("span", look.title, note),
                    title=about,
                )
            )
    return tag("fieldset", tag("legend", "Methods"), rows, class_="legend")


def curves(view: View) -> Markup:
    """Return accuracy against size, with toggles, and the numbers beneath."""
    figures: list[Content] = []
    for panel in view.panels:
        for name in panel.maps:
            for axis in AXES:
                ident = f"curve-{panel.ident}-{name}-{axis}"
                figures.append(
                    tag(
                        "div",
                        chart(panel, name, axis, view.looks, ident=ident),
                        data_panel=panel.ident,
                        data_map=name,
                        data_axis=axis,
                        hidden=view.hidden(panel, name) or axis != "coding",
                    )
                )
    tables: list[tuple[Panel, str | None, Markup | None]] = []
    for panel in view.panels:
        for name in panel.maps:
            pick = headline_pick(panel, name, view.methods)
            peers = difference_table(panel, name, pick.entry.method, view.looks) if pick else None
            tables.append((panel, name, text([accuracy_table(panel, name, view.looks), peers])))
    controls = tag(
        "div",
        choice("axis", "Along the bottom", list(AXES.items()), "coding"),
        choice("scale", "Scale", [("log", "logarithmic"), ("linear", "linear")], "log"),
        class_="controls",
    )
    note = (
        "p: the chance of so large a lead, were the method no better (one-sided corrected "
        "resampled t, since splits overlap; Holm's correction over all of the table)."
    )
    caption = (
        "The shade around a line is where its mean would lie nineteen times in twenty, were the "
        "splits independent. The accuracy scale does not begin at 0."
    )
    return section(
        "curves",
        "Accuracy against size",
        "Higher is better, further left is cheaper. A method that only drops columns of a finished "
        "histogram still compares every patch with all words, so counted by words used in coding "
        "it stands at the far right.",
        controls,
        tag(
            "figure",
            tag("div", figures, class_="stage"),
            tag("p", class_="tip", hidden=True, aria_hidden="true"),
            legend(view),
            tag("figcaption", caption),
        ),
        tag(
            "details",
            tag("summary", "The numbers, and how sure they are"),
            per_view(tables, view),
            tag("p", note),
            id="numbers",
        ),
    )


def multiples(view: View) -> Markup | None:
    """Return all panels side by side; None where there is one."""
    if len(view.panels) < 2:
        return None
    maps = [name for name in CALLED if any(name in p.maps for p in view.panels)]
    rows: list[Content] = []
    for name in maps:
        cells: list[Content] = []
        for panel in view.panels:
            if name in panel.maps:
                alike = [p for p in view.panels if p.key.set == panel.key.set]
                picture = chart(
                    panel,
                    name,
                    "columns",
                    view.looks,
                    ident=f"small-{panel.ident}-{name}",
                    frame=SMALL,
                    limits=y_range(alike, name),
                )
                title = tag("h3", panel.short)
                cells.append(tag("div", title, picture, class_="small"))
        hidden = view.hidden(None, name)
        rows.append(tag("div", cells, class_="multiples", data_map=name, hidden=hidden))
    return section(
        "panels",
        "All panels side by side",
        "The same curves for every set of images, coding and full codebook, against the number of "
        "dimensions as papers usually draw them; panels of the same images share their scale.",
        rows,
    )


def costs(view: View) -> Markup:
    """Return time and space, before and after."""
    return section(
        "costs",
        "What it costs",
        "The codebook is trained and its words are chosen once; the time to code is paid for every "
        "image, and the codebook has to be kept for as long.",
        per_view([(p, None, cost_table(p, view.looks)) for p in view.panels], view),
    )


def certificates(view: View) -> Markup | None:
    """Return what was promised of inferred histograms and what was found."""
    made = [(p, None, certificate(p, view.looks)) for p in view.panels]
    shown = [(p, name, m) for p, name, m in made if m is not None]
    if not shown:
        return None
    return section(
        "certificate",
        "The certificate",
        "A search does not code images anew at every step, it infers what their histograms would "
        "be; afterwards some images are coded again with the kept words, and the two compared.",
        per_view(shown, view),
    )


def seen_methods(panels: Iterable[Panel]) -> list[str]:
    """Return all methods of all panels but the whole codebook."""
    return [m for p in panels for m in p.methods if m != FULL]
