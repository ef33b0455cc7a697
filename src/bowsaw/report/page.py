"""One HTML file that shows a run, from its records alone.

Everything is inside the file: style, script, figures, data. It asks for nothing from a network (a
content security policy forbids it to), so it can be opened from a disk, sent by mail and kept.
Figures and tables are drawn here, in Python; the script only shows and hides them, and draws what
follows the size slider. Of the cells only summaries are taken along, so a large run stays small.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bowsaw.checkpoint import atomic_write
from bowsaw.comparison.records import Run, read_run
from bowsaw.errors import FormatError
from bowsaw.report import inside, sections
from bowsaw.report.figure_file import style_sheet
from bowsaw.report.figures import looks_of
from bowsaw.report.markup import Content, Markup, joined, script_json, tag
from bowsaw.report.provenance import provenance
from bowsaw.report.sections import View
from bowsaw.report.summary import FULL, Entry, Panel, headline_pick, panels_of
from bowsaw.report.tables import MOST_CLASSES
from bowsaw.report.vocabulary import book_name, check_details, vocabulary


class Section(NamedTuple):
    """A section that the caller of :func:`write_page` adds to the page.

    Attributes
    ----------
    title : str
        Its heading and its link.
    lead : str
        The sentence under the heading.
    html : str
        Its content, trusted as it is.

    Examples
    --------
    >>> Section("Claims", "What was found.", "<p>Yes.</p>").title
    'Claims'
    """

    title: str
    lead: str
    html: str

    @property
    def ident(self) -> str:
        """The anchor of the section."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def write_page(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    extra: Sequence[Section] = (),
) -> Path:
    """Build the page of a run.

    Parameters
    ----------
    folder : path-like
        The run: what ``bowsaw compare -o`` has made.
    path : path-like, optional
        The file to write; ``index.html`` in the folder by default.
    extra : sequence of Section
        Sections to add after the curves.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FormatError
        Where a record is missing, damaged or of another version; names the file and the line.
    """
    target = Path(folder) / "index.html" if path is None else Path(path)
    run = read_run(folder)
    try:
        page = page_html(run, extra)
    except FormatError:
        raise
    except Exception as error:
        # Records that something else than bowsaw has changed fail in as many ways as there are
        # numbers in them; all mean the same.
        told = " ".join(repr(error).split())[:200]
        raise FormatError(
            f"the records in {folder} do not make a page ({told}). Delete the line that was "
            "changed, or run the comparison again."
        ) from error
    with atomic_write(target) as file:
        file.write(page.encode("utf-8", "replace"))
    return target


def page_html(run: Run, extra: Sequence[Section] = ()) -> str:
    """Return the page of a run as text."""
    panels = panels_of(run.about, run.cells)
    if not panels:
        return _filled("bowsaw: nothing measured yet", [_nothing(run)], [], {})
    looks = looks_of(run.about["methods"], sections.seen_methods(panels))
    first = first_panel(panels)
    view = View(run.about, panels, looks, first, first.maps[0])
    check_details(run.details)
    drawn = vocabulary(panels, run.details)
    offers = {p.ident: _offers(p, view, drawn["words"].get(p.ident, {})) for p in panels}
    starts = {ident: entry for ident, (_, entry) in offers.items() if entry is not None}
    mistakes = inside.confusion(view, starts)
    after: list[Content] = [
        inside.words() if drawn["words"] else None,
        inside.image() if drawn["images"] else None,
        inside.search(view, run.details),
        mistakes,
    ]
    followed = [part for part in after if part is not None]
    parts = [
        sections.answers(view),
        sections.curves(view),
        sections.multiples(view),
        *(sections.section(s.ident, s.title, s.lead, Markup(s.html)) for s in extra),
        tag("div", inside.slider(), joined(followed), class_="inside") if starts else None,
        sections.costs(view),
        sections.certificates(view),
        _provenance(run),
    ]
    data = {
        "start": {"panel": first.ident, "map": view.map},
        "panels": {p.ident: _panel_data(p, offers[p.ident][0], view) for p in panels},
        "titles": {FULL: "all words", **{m: look.title for m, look in looks.items()}},
        **drawn,
    }
    shown = [part for part in parts if part is not None]
    return _filled(_title(run), parts, shown, data, extra)


def first_panel(panels: Sequence[Panel]) -> Panel:
    """Return what is shown first: of the first images and coding, the largest codebook."""
    first = panels[0].key
    alike = [p for p in panels if (p.key.set, p.key.coding) == (first.set, first.coding)]
    return max(alike, key=lambda p: p.key.full_words)


def _offers(
    panel: Panel, view: View, words: Mapping[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], Entry | None]:
    """Return the methods and sizes that the slider offers, and the entry that it starts with."""
    pick = headline_pick(panel, view.map, view.methods)
    ours = [m for m in panel.methods if view.methods.get(m, {}).get("ours")]
    names = [m for m in panel.methods if m in words] or ours or panel.methods
    if pick is not None and pick.entry.method in names:
        names = [pick.entry.method, *(m for m in names if m != pick.entry.method)]
    offered, start = [], None
    for method in names:
        measured = [entry.size for entry in panel.of(method)]
        sizes = sorted(int(size) for size in words.get(method, {})) or measured
        wanted = recommended(panel, view, method)
        at = min(sizes, key=lambda size: (abs(size - wanted), size))
        offered.append({"method": method, "sizes": sizes, "start": sizes.index(at)})
        if start is None:
            start = panel.entries.get((method, at))
    return offered, start


def recommended(panel: Panel, view: View, method: str) -> int:
    """Return the size at which a method's slider starts."""
    pick = headline_pick(panel, view.map, {method: {"ours": True, "codes_with": "pruned"}})
    return pick.entry.size if pick is not None else 0


def _panel_data(panel: Panel, offered: list[dict[str, Any]], view: View) -> dict[str, Any]:
    shown = {FULL, *(row["method"] for row in offered)}
    levels: dict[str, dict[str, dict[str, float]]] = {}
    confusion: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (method, size), entry in panel.entries.items():
        for name, level in entry.levels.items():
            at = levels.setdefault(name, {}).setdefault(method, {})
            at[str(size)] = round(level.mean, 4)
            if method in shown:
                table = entry.confusions[name]
                wide = len(panel.classes) <= MOST_CLASSES
                # Of many classes only each one's own share is shown: hits and images.
                flat = [n for row in table for n in row] if wide else _hits(table)
                confusion.setdefault(name, {}).setdefault(method, {})[str(size)] = flat
    return {
        "set": panel.key.set,
        "title": panel.title,
        "full_words": panel.key.full_words,
        "n_classes": len(panel.classes),
        "wide": len(panel.classes) <= MOST_CLASSES,
        "book": book_name(panel),
        "offered": offered,
        "levels": levels,
        "confusion": confusion,
    }


def _hits(table: Sequence[Sequence[int]]) -> list[int]:
    return [n for i, row in enumerate(table) for n in (row[i], sum(row))]


def _title(run: Run) -> str:
    names = ", ".join(run.about["sets"])
    return f"bowsaw: a comparison on {names}"


def _provenance(run: Run) -> Markup:
    return sections.section(
        "provenance",
        "Where the numbers come from",
        "Everything that was set, on which images, with which versions and on which machine; the "
        "command repeats it all.",
        provenance(run.about),
    )


def _nothing(run: Run) -> Markup:
    return tag(
        "section",
        tag("h1", "Nothing has been measured yet", id="h-answer"),
        tag("p", "Run the command again; it goes on where it stopped.", class_="lead"),
        tag("pre", tag("code", run.about["command"])),
        id="answer",
        aria_labelledby="h-answer",
    )


def _template(name: str) -> str:
    return (files("bowsaw.report") / "templates" / name).read_text("utf-8")


def _links(parts: Sequence[Markup], extra: Sequence[Section] = ()) -> list[Content]:
    """Return links to the sections that are there, by their headings."""
    short = {
        "curves": "Curves",
        "panels": "Panels",
        **{section.ident: section.title for section in extra},
        "words": "Words",
        "image": "Image",
        "search": "Search",
        "confusion": "Mistakes",
        "costs": "Costs",
        "certificate": "Certificate",
        "provenance": "Provenance",
    }
    there = set(re.findall(r'<section id="([\w-]+)"', joined(parts)))
    return [tag("a", title, href=f"#{ident}") for ident, title in short.items() if ident in there]


def _filled(
    title: str,
    parts: Sequence[Content],
    shown: Sequence[Markup],
    data: Mapping[str, Any],
    extra: Sequence[Section] = (),
) -> str:
    values = {
        "title": tag("title", title),
        "style": style_sheet() + _template("page.css"),
        "links": joined(_links(shown, extra)),
        "main": joined(parts),
        "data": script_json(data),
        "script": _template("page.js"),
    }
    # In one pass, so that nothing inside a value is taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _template("page.html"))
