"""The sections that follow the size slider: the words, an image, the search, the mistakes.

The script draws words and images, which are too many to draw at every size; here are the frames
that it draws into. Searches and mistakes are here whole, for the size that is shown first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.sections import View, section
from bowsaw.report.summary import Entry
from bowsaw.report.tables import confusion_tables
from bowsaw.report.traces import trace_chart


def slider() -> Markup:
    """Return the size slider and the method chooser that the sections after it follow."""
    return tag(
        "div",
        tag(
            "label",
            tag("span", "Words kept"),
            tag(
                "input", type="range", id="size", min=0, max=0, step=1, value=0, autocomplete="off"
            ),
        ),
        tag("output", id="size-text", for_="size", aria_live="polite"),
        tag(
            "label",
            tag("span", "Method"),
            tag("select", id="method", autocomplete="off"),
            id="method-choice",
        ),
        class_="slider",
        role="group",
        aria_label="Size of the codebook",
    )


def words() -> Markup:
    """Return the frame that the script draws words into."""
    return section(
        "words",
        "The words that stay",
        tag("span", id="words-said"),
        tag("div", id="mosaic", role="group", aria_label="Surviving words"),
        tag("div", id="word", class_="card", role="status"),
        tag("h3", "Pruned words with the most patches, and who inherits them"),
        tag("p", id="pruned-said"),
        tag("div", id="pruned", tabindex="0", role="region", aria_label="Pruned words"),
        tag("p", class_="none", hidden=True),
    )


def image() -> Markup:
    """Return the frame that the script draws an image's patches into."""
    return section(
        "image",
        "One image, patch by patch",
        "Every patch is coloured by the word it is coded as; a word that stays keeps its colour. "
        "Choose a word above, and its patches are outlined here.",
        tag(
            "label",
            tag("span", "Image"),
            tag("select", id="image-choice", autocomplete="off"),
            class_="controls",
        ),
        tag(
            "div",
            [
                tag(
                    "figure",
                    tag("canvas", id=f"image-{role}", role="img", width=10, height=10),
                    tag("figcaption", id=f"image-{role}-said"),
                )
                for role in ("before", "after")
            ],
            class_="pair",
        ),
        tag("p", class_="none", hidden=True),
    )


def search(view: View, details: Iterable[Mapping[str, Any]]) -> Markup | None:
    """Return the ways of the searches; None where none was recorded."""
    figures: list[Content] = []
    seen: set[tuple[str, str, int]] = set()
    for line in details:
        if line["kind"] != "trace":
            continue
        for panel in view.panels:
            key = (panel.ident, line["method"], line["size"])
            fits = all(line.get(k) in (None, v) for k, v in panel.key._asdict().items())
            if not fits or key in seen:
                continue
            look = view.looks.get(line["method"])
            title = f"{look.title if look else line['method']}, {line['size']} words"
            first = panel is view.panel and not any(k[0] == panel.ident for k in seen)
            made = trace_chart(line, f"The search: {title}, {panel.title}", f"trace-{len(seen)}")
            if made is not None:
                seen.add(key)
                name = f"{line['method']}/{line['size']}"
                figures.append(
                    tag(
                        "div",
                        made,
                        data_panel=panel.ident,
                        data_trace=name,
                        data_title=title,
                        hidden=not first,
                    )
                )
    if not figures:
        return None
    return section(
        "search",
        "The search",
        "A search tries changes of the words one after another: its score should climb and level "
        "off, and a falling temperature lets it accept fewer and fewer changes for the worse.",
        tag(
            "label",
            tag("span", "Search"),
            tag("select", id="trace", autocomplete="off"),
            class_="controls",
        ),
        tag("figure", figures),
        tag("p", class_="none", hidden=True),
    )


def confusion(view: View, starts: Mapping[str, Entry]) -> Markup | None:
    """Return the tables of mistakes, one pair a set of images; None where nothing was pruned."""
    shown: list[Content] = []
    seen: set[str] = set()
    for panel in [view.panel, *view.panels]:
        entry = starts.get(panel.ident)
        if entry is None or panel.key.set in seen or not panel.classes:
            continue
        name = view.map if view.map in entry.confusions else next(iter(entry.confusions))
        seen.add(panel.key.set)
        made = confusion_tables(panel, name, entry, f"grid-{panel.ident}")
        shown.append(tag("div", made, hidden=panel.key.set != view.panel.key.set))
    if not shown:
        return None
    return section(
        "confusion",
        "Which classes are mistaken for which",
        "A row is what the images show, a column what they are taken for, in percent; the stronger "
        "the colour of the diagonal, the better.",
        shown,
    )
