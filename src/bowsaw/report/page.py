"""One HTML file that shows a run, from its folder alone.

Style, script, charts and data are inside the file. A content security policy forbids network
access, so the page can be opened from a disk, sent by mail and archived. Charts and tables are made
here; the script shows and hides them, and draws what follows the size slider. What depends on the
panel, the map or the axis is there once for each, with ``data-panel``, ``data-map`` and
``data-axis``, and all but the first are hidden. Of the cells only summaries are included, so the
page of a large run stays small.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from bowsaw.checkpoint import atomic_write
from bowsaw.comparison.records import Run, read_run
from bowsaw.evaluation.classifier import CALLED
from bowsaw.evaluation.significance import RULE
from bowsaw.formatting import format_bytes, format_count
from bowsaw.markup import Content, Markup, script_json, tag, text
from bowsaw.report import charts, summary, tables
from bowsaw.report.charts import chart
from bowsaw.report.details import Line, book_name, fits, page_details, vocabulary
from bowsaw.report.summary import FULL, MAX_LOSS, Entry, Panel, Pick, headline_pick
from bowsaw.report.tables import milliseconds, times


@dataclass(frozen=True)
class Section:
    """An additional section of a page.

    Parameters
    ----------
    title : str
        Heading and link.
    lead : str
        One or two sentences below the title.
    html : str
        The content. It is inserted unchanged: escape names of classes and files, as
        :func:`bowsaw.report.tag` and :func:`bowsaw.report.table` do.
    first : bool, default=False
        Whether it comes before the curves, and not after the page's own sections.

    Examples
    --------
    >>> import bowsaw as bs
    >>> bs.Section("Claims", "The claims of the paper.", "<p>Supported.</p>").title
    'Claims'
    """

    title: str
    lead: str
    html: str
    first: bool = False


def write_page(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    extra: Sequence[Section] = (),
    title: str | None = None,
    pick: tuple[str, int] | None = None,
) -> Path:
    """Write the page of a run.

    Parameters
    ----------
    folder : path-like
        The run's folder, made by :func:`bowsaw.compare` or ``bowsaw compare -o``.
    path : path-like, optional
        The file to write; ``index.html`` in the folder by default.
    extra : sequence of Section, default=()
        Additional sections.
    title : str, optional
        The run's name at the top of the page; the names of its image sets by default.
    pick : tuple of str and int, optional
        Method and size of the headline; by default the method that needs the fewest words.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FormatError
        If a record is missing, damaged or of another version; names the file and the line.
    """
    target = Path(folder) / "index.html" if path is None else Path(path)
    run = read_run(folder)
    page = page_html(run, page_details(Path(folder), run), extra, title, pick)
    with atomic_write(target) as file:
        file.write(page.encode("utf-8", "replace"))
    return target


def page_html(
    run: Run,
    details: Sequence[Line],
    extra: Sequence[Section] = (),
    title: str | None = None,
    pick: tuple[str, int] | None = None,
) -> str:
    """Return the page of a run as text; ``details`` are its drawings."""
    panels = summary.panels_of(run.about, run.cells)
    title = title or ", ".join(run.about["sets"])
    if not panels:
        return _filled(title, [_fragment("nothing", title=title, command=run.about["command"])], {})
    view = View(run.about, panels, pick)
    drawn = vocabulary(panels, details)
    offers = {p.ident: _offers(p, view, drawn["words"].get(p.ident, {})) for p in panels}
    starts = {ident: entry for ident, (_, entry) in offers.items() if entry is not None}
    follow = [
        _fragment("words") if drawn["words"] else None,
        _fragment("image") if drawn["images"] else None,
        _searches(view, details),
        _mistakes(view, starts),
    ]
    notes = {p.ident: tag("p", tables.cost_notes(p), class_="rule") for p in panels}
    costs = view.wrapped((p, None, [tables.cost_table(p), notes[p.ident]]) for p in panels)
    certificates = view.wrapped((p, None, tables.certificate(p)) for p in panels)
    parts = [
        _answers(view, title, _facts(run.about, panels)),
        None,
        _curves(view),
        _all_panels(view) if len(panels) > 1 else None,
        tag("div", _fragment("slider"), follow, class_="inside") if starts else None,
        _fragment("costs", tables=costs),
        _fragment("certificate", tables=certificates) if certificates else None,
        _fragment("provenance", command=run.about["command"], tables=tables.provenance(run.about)),
    ]
    for section in extra:
        ident = re.sub(r"\W+", "-", section.title.lower()).strip("-") or "section"
        while any(f'id="{ident}"' in (part or "") for part in parts):
            ident += "-more"
        about = {"ident": ident, "title": section.title, "lead": section.lead}
        made = _fragment("extra", **about, html=Markup(section.html))
        if section.first:
            parts[1] = text([parts[1], made])
        else:
            parts.append(made)
    data = {
        "start": {"panel": view.panel.ident, "map": view.map},
        "panels": {p.ident: _panel_data(p, offers[p.ident][0]) for p in panels},
        **drawn,
    }
    return _filled(title, parts, data)


def _facts(about: Mapping[str, Any], panels: Sequence[Panel]) -> str:
    """Return what was measured, and when, in one line."""
    n_images = sum(one.get("n_images", 0) for one in about["sets"].values())
    facts = [format_count(n_images, "image")] if n_images else []
    n, unit = max(panel.n_splits for panel in panels), panels[0].unit
    facts.append(format_count(n, unit if unit == "fold" else f"random {unit}"))
    return " · ".join([*facts, str(about.get("created", ""))[:10]]).removesuffix(" · ")


class View:
    """The run's summaries, and what is shown first: the largest codebook of the first images."""

    def __init__(
        self, about: Mapping[str, Any], panels: Sequence[Panel], asked: tuple[str, int] | None
    ) -> None:
        self.panels, self.asked = panels, asked
        self.methods: Mapping[str, Any] = about["methods"]
        self.looks = charts.looks_of(self.methods, [m for p in panels for m in p.methods])
        alike = [p for p in panels if p.key[:2] == panels[0].key[:2]]
        self.panel = max(alike, key=lambda p: p.key.full_words)
        self.map = self.panel.maps[0]
        self.maps = [name for name in CALLED if any(name in p.maps for p in panels)]

    def pick(self, panel: Panel, name: str) -> Pick | None:
        """Return what the headline of a panel and a map is about."""
        return headline_pick(panel, name, self.methods, self.asked)

    def hides(self, panel: Panel | None = None, name: str | None = None) -> bool:
        """Return whether something of a panel and a map is hidden at first."""
        return (panel is not None and panel is not self.panel) or name not in (None, self.map)

    def wrapped(self, parts: Iterable[tuple[Panel, str | None, Content]]) -> list[Content]:
        """Wrap what belongs to a panel and a map; hide all but what is shown first."""
        return [
            tag("div", part, data_panel=p.ident, data_map=name, hidden=self.hides(p, name))
            for p, name, part in parts
            if part is not None
        ]

    def views(self) -> list[tuple[Panel, str]]:
        """Return every panel with each of its maps."""
        return [(panel, name) for panel in self.panels for name in panel.maps]


def _offers(
    panel: Panel, view: View, words: Mapping[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], Entry | None]:
    """Return the methods and sizes of the slider, and the entry that it starts with."""
    pick = view.pick(panel, view.map)
    names = [m for m in panel.methods if m in words] or panel.methods
    if pick is not None:
        names = sorted(names, key=lambda m: m != pick.entry.method)
    offered, start = [], None
    for method in names:
        measured = [entry.size for entry in panel.of(method)]
        sizes = sorted(int(size) for size in words.get(method, {})) or measured
        best = summary.recommend(panel, view.map, method)
        wanted = best.entry.size if best is not None else 0
        at = min(sizes, key=lambda size: (abs(size - wanted), size))
        offered.append({"method": method, "sizes": sizes, "start": sizes.index(at)})
        if start is None:
            start = panel.entries.get((method, at))
    return offered, start


def _panel_data(panel: Panel, offered: list[dict[str, Any]]) -> dict[str, Any]:
    shown = {FULL, *(row["method"] for row in offered)}
    wide = len(panel.classes) <= tables.MOST_CLASSES
    levels: dict[str, dict[str, dict[str, float]]] = {}
    confusion: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (method, size), entry in panel.entries.items():
        for name, level in entry.levels.items():
            levels.setdefault(name, {}).setdefault(method, {})[str(size)] = round(level.mean, 4)
            if method in shown:
                rows = entry.confusions[name]
                # Of many classes only hits and images are shown.
                hits = [n for i, row in enumerate(rows) for n in (row[i], sum(row))]
                flat = [n for row in rows for n in row] if wide else hits
                confusion.setdefault(name, {}).setdefault(method, {})[str(size)] = flat
    return {
        "set": panel.key.set,
        "title": panel.title,
        "full_words": panel.key.full_words,
        "n_classes": len(panel.classes),
        "wide": wide,
        "book": book_name(panel),
        "offered": offered,
        "levels": levels,
        "confusion": confusion,
    }


def clauses(panel: Panel, view: str, pick: Pick) -> list[str]:
    """Return the parts of the sentence that answers the page's question."""
    entry, full = pick.entry, panel.full
    mean, reached = entry.levels[view].mean, entry.levels[view].text
    words = format_count(entry.n_coding_words, "word")
    if full is None or view not in full.levels:
        return [f"{words} reach an accuracy of {reached}"]
    whole = full.levels[view].mean
    if mean >= whole:
        found = [f"{words} reach {reached}", f"no less than all {full.size:,} ({whole:.3f})"]
    else:
        share = f"\u00a0({100 * mean / whole:.0f}\u202f%)" if whole > 0 else ""
        found = [f"{words} keep {reached} of\u00a0{whole:.3f}{share}"]
    if full.n_bytes > entry.n_bytes:
        found.append(f"{times(full.n_bytes / entry.n_bytes)} smaller")
    before, after = (panel.code_ms.get(e.n_coding_words) for e in (full, entry))
    if before and after and before > after:
        found.append(f"{times(before / after)} faster to code")
    return found


def rule(view: str, pick: Pick, unit: str) -> str:
    """Return how the size was chosen, and for which method."""
    method = pick.entry.method
    over = format_count(len(pick.entry.levels[view].values), unit)
    if not pick.chosen:
        return f"Method {method}. Mean accuracy over {over} ± half of its 95 % interval."
    chosen = "Chosen on the test images: optimistic."
    if pick.validated:
        chosen = "Chosen on the codebook's images, shown for the test images."
    if pick.within:
        return (
            f"Method {method}, which needs the fewest words: the smallest measured size whose mean "
            f"accuracy over {over} is at most {MAX_LOSS} below that of all words. {chosen} ±: half "
            "of the 95 % interval."
        )
    return (
        f"Method {method}, the most accurate. No measured size comes within {MAX_LOSS} of all "
        f"words, so this is the smallest within {MAX_LOSS} of its best, by mean accuracy over "
        f"{over}. {chosen} ±: half of the 95 % interval."
    )


def _answer(panel: Panel, name: str, view: View) -> Markup | None:
    """Return the answer of one panel and map: sentence, numbers before and after, and a curve."""
    pick = view.pick(panel, name)
    if pick is None:
        return None
    entry = pick.entry
    parts = clauses(panel, name, pick)
    # Only methods that do not need the full codebook answer the question.
    fewer = {
        key: e
        for key, e in panel.entries.items()
        if e.method in (FULL, entry.method) or (name in e.levels and e.codes_with == "pruned")
    }
    small = replace(panel, entries=fewer)
    others = "Grey: other methods that use only the kept words. " if len(small.methods) > 1 else ""
    spread = _spread(panel) if len(panel.of(entry.method)) > 1 else ""
    ends = [", "] * (len(parts) - 1) + ["."]

    def numbers(value: Callable[[Entry], str]) -> Content:
        if panel.full is None:
            return tag("strong", value(entry))
        before = tag("span", value(panel.full), class_="before")
        return before, tag("span", " → ", class_="to"), tag("strong", value(entry))

    return _fragment(
        "answer",
        headline=[
            tag("span", _small_margin(clause), end) for clause, end in zip(parts, ends, strict=True)
        ],
        words=numbers(lambda e: f"{e.n_coding_words:,}"),
        bytes=numbers(lambda e: format_bytes(e.n_bytes)),
        time=numbers(lambda e: milliseconds(panel.code_ms.get(e.n_coding_words))),
        accuracy=numbers(lambda e: f"{e.levels[name].mean:.3f}" if name in e.levels else "—"),
        rule=rule(name, pick, panel.unit),
        chart=chart(small, name, "coding", view.looks, use="headline", pick=entry),
        caption="Accuracy (mean share of a class's test images that are recognised) by number of "
        f"words. {others}Dashed: all words. Bar: 95 % interval. {spread}",
    )


def _small_margin(clause: str) -> Content:
    """Return a clause whose margin is small and on the line of its number."""
    before, sign, after = clause.partition(" ± ")
    margin, space, rest = after.partition(" ")
    return [before, tag("small", f"\u00a0±\u00a0{margin}"), space, rest] if sign else clause


def _spread(panel: Panel) -> str:
    """Return what is drawn around the curves of a panel."""
    shaded = f"Shaded: from the lowest to the highest {panel.unit}. "
    dots = f"Small dots: single {panel.unit}s."
    is_line = any(len(panel.of(method)) > 1 for method in panel.methods)
    return shaded * (is_line and panel.n_splits >= charts.MIN_BAND) + dots * (panel.n_splits > 1)


def _answers(view: View, title: str, facts: str) -> Markup:
    controls: list[Content] = []
    if len(view.panels) > 1:
        options = [
            tag("option", p.title, value=p.ident, selected=p is view.panel) for p in view.panels
        ]
        chosen = tag("select", options, id="panel", autocomplete="off")
        controls.append(tag("label", tag("span", "Images, coding and full codebook"), chosen))
    if len(view.maps) > 1:
        labels = []
        for name in view.maps:
            box = tag("input", type="radio", name="map", value=name, checked=name == view.map)
            labels.append(tag("label", box, tag("span", CALLED[name])))
        legend = tag("legend", "Histograms")
        controls.append(tag("fieldset", legend, labels, id="map", class_="choice"))
    shown = view.wrapped((p, name, _answer(p, name, view)) for p, name in view.views())
    return _fragment(
        "answers",
        title=title,
        facts=facts,
        controls=tag("div", controls, class_="controls") if controls else None,
        answers=shown or tag("p", "No pruned codebook has been measured.", class_="none"),
    )


def _curves(view: View) -> Markup:
    drawn: list[Content] = []
    numbers: list[tuple[Panel, str | None, Content]] = []
    for panel, name in view.views():
        for axis in charts.AXES:
            hidden = view.hides(panel, name) or axis != "coding"
            keys = {"data_panel": panel.ident, "data_map": name, "data_axis": axis}
            drawn.append(tag("div", chart(panel, name, axis, view.looks), **keys, hidden=hidden))
        shown: list[Content] = [tables.method_table(panel, name)]
        pick = view.pick(panel, name)
        if pick is not None:
            shown.append(tables.difference_table(panel, name, pick.entry.method))
        numbers.append((panel, name, shown))
    legend: list[Content] = []
    for method, look in view.looks.items():
        if any(method in p.methods for p in view.panels):
            box = tag("input", type="checkbox", checked=True, data_toggle=method)
            hint = view.methods.get(method, {}).get("summary")
            legend.append(tag("label", box, charts.legend_mark(look), method, title=hint))
    dashed = any(look.dashed for look in view.looks.values())
    return _fragment(
        "curves",
        charts=drawn,
        legend=legend,
        spread=f"{_spread(view.panel)} " + "Broken lines: codes with all words. " * dashed,
        numbers=view.wrapped(numbers),
        rule=RULE,
    )


def _all_panels(view: View) -> Markup:
    rows: list[Content] = []
    keys = [tag("span", charts.legend_mark(look), m) for m, look in view.looks.items()]
    for name in view.maps:
        cells: list[Content] = []
        for panel in view.panels:
            if name in panel.maps:
                alike = [p for p in view.panels if p.key.set == panel.key.set]
                limits = charts.y_range(alike, name)
                drawn = chart(panel, name, "columns", view.looks, use="small", limits=limits)
                heading = tag("h3", panel.title.replace(" coding", ""))
                cells.append(tag("div", heading, drawn, class_="small"))
        hidden = view.hides(None, name)
        rows.append(tag("div", cells, class_="multiples", data_map=name, hidden=hidden))
    return _fragment("panels", legend=keys, rows=rows)


def _searches(view: View, details: Iterable[Line]) -> Markup | None:
    """Return the traces of the searches; None if none was recorded."""
    figures: list[Content] = []
    traces = [line for line in details if line["kind"] == "trace" and line.get("score")]
    for panel in view.panels:
        for place, line in enumerate(line for line in traces if fits(line, panel)):
            method, size = line["method"], line["size"]
            title = f"{method}, {size} words"
            label = f"The search: {title}, {panel.title}"
            drawn = charts.trace_chart(line, label, f"trace-{len(figures)}")
            keys = {"data_panel": panel.ident, "data_trace": f"{method}/{size}"}
            hidden = place > 0 or view.hides(panel)
            figures.append(tag("div", drawn, **keys, data_title=title, hidden=hidden))
    return _fragment("search", traces=figures) if figures else None


def _mistakes(view: View, starts: Mapping[str, Entry]) -> Markup | None:
    """Return the tables of mistakes, one pair per set of images; None if nothing was pruned."""
    shown: dict[str, Markup] = {}
    for panel in [view.panel, *view.panels]:
        entry, name = starts.get(panel.ident), panel.key.set
        if entry is not None and name not in shown and panel.classes:
            chosen = view.map if view.map in entry.confusions else next(iter(entry.confusions))
            made = tables.confusion_tables(panel, chosen, entry, f"grid-{panel.ident}")
            shown[name] = tag("div", made, hidden=name != view.panel.key.set)
    return _fragment("confusion", tables=shown.values()) if shown else None


def _fragment(name: str, **values: Content) -> Markup:
    """Return one part of ``sections.html`` with its placeholders filled."""
    parts = re.split(r"<!-- (\w+) -->\n", template("sections.html"))
    return fill(parts[parts.index(name) + 1], values)


def fill(source: str, values: Mapping[str, Content]) -> Markup:
    """Return a template with its placeholders filled."""
    # In one pass, so that nothing inside a value is taken for a placeholder.
    return Markup(re.sub(r"\{\{(\w+)\}\}", lambda found: text(values[found[1]]), source))


def template(name: str) -> str:
    """Return the text of a template."""
    return (files("bowsaw.report") / "templates" / name).read_text("utf-8")


def _filled(title: str, parts: Iterable[Content], data: Mapping[str, Any]) -> str:
    main = Markup("\n".join(text(part) for part in parts))
    links = re.findall(r'<section id="([\w-]+)" data-link="([^"]+)"', main)
    values = {
        "title": tag("title", f"bowsaw: {title}"),
        "style": Markup(charts.style_sheet() + template("page.css")),
        "links": [tag("a", Markup(name), href=f"#{ident}") for ident, name in links],
        "main": main,
        "data": script_json(data),
        "script": Markup(template("page.js")),
    }
    return fill(template("page.html"), values)
