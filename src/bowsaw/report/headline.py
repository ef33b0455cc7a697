"""The first screen: how small the codebook can be, and what it costs, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bowsaw.report.figures import HERO, Look, Mark, chart
from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.summary import FULL, MAX_LOSS, Entry, Panel, Pick, headline_pick
from bowsaw.report.wording import NARROW, grouped, milliseconds, size_of, times


def clauses(panel: Panel, view: str, pick: Pick) -> list[str]:
    """Return the parts of the sentence that answers the page's question."""
    entry, whole = pick.entry, panel.full
    mean = entry.levels[view].mean
    words = f"{grouped(entry.n_coding_words)} words"
    if whole is None or view not in whole.levels:
        return [f"{words} reach an accuracy of {mean:.3f}"]
    full = whole.levels[view].mean
    if mean >= full:
        said = [f"{words} reach {mean:.3f}", f"no less than all {grouped(whole.size)} ({full:.3f})"]
    else:
        share = f" ({100 * mean / full:.0f}{NARROW}%)" if full > 0 else ""
        said = [f"{words} keep {mean:.3f} of {full:.3f}{share}"]
    if whole.n_bytes > entry.n_bytes:
        said.append(f"{times(whole.n_bytes / entry.n_bytes)} smaller")
    before, after = whole.costs["code_ms"], entry.costs["code_ms"]
    if before and after and before > after:
        said.append(f"{times(before / after)} faster to code")
    return said


def headline(panel: Panel, view: str, pick: Pick) -> str:
    """Return the sentence that answers the page's question."""
    return f"{', '.join(clauses(panel, view, pick))}."


def rule(panel: Panel, view: str, pick: Pick, title: str) -> str:
    """Say how the size was picked, and for which method."""
    entry = pick.entry
    n_splits = len(entry.levels[view].values)
    over = "one split" if n_splits == 1 else f"{n_splits} splits"
    if pick.within:
        return (
            f"How it was picked: {title}, the smallest measured size whose mean accuracy over "
            f"{over} is at most {MAX_LOSS} below that of all words."
        )
    return (
        f"How it was picked: {title}. No measured size comes within {MAX_LOSS} of all words, so "
        f"this is the smallest within {MAX_LOSS} of the best size, by mean accuracy over {over}."
    )


def answer(
    panel: Panel, view: str, methods: Mapping[str, Any], looks: Mapping[str, Look]
) -> Markup | None:
    """Return the answer of one panel and map: sentence, numbers before and after, and a curve."""
    pick = headline_pick(panel, view, methods)
    if pick is None:
        return None
    entry = pick.entry
    look = looks[entry.method]
    said = headline(panel, view, pick)
    mark = Mark(entry.n_coding_words, entry.levels[view].mean, f"{grouped(entry.size)} words")
    # Only what can do without the large codebook is an answer to the question.
    alone = {
        key: found
        for key, found in panel.entries.items()
        if view in found.levels and (found.codes_with == "pruned" or found.method == entry.method)
    }
    whole = {key: found for key, found in panel.entries.items() if found.method == FULL}
    fewer = replace(panel, entries={**alone, **whole})
    picture = chart(
        fewer,
        view,
        "coding",
        looks,
        ident=f"hero-{panel.ident}-{view}",
        frame=HERO,
        emphasis=entry.method,
        mark=mark,
        caption=said,
    )
    others = "Grey: other methods that code with so many. " if len(fewer.methods) > 1 else ""
    caption = (
        f"The coloured line is {look.title}: how many test images are recognised (0 to 1) with so "
        f"many words. {others}The dashed level is the whole codebook."
    )
    left = [
        tag("p", _unbroken(clauses(panel, view, pick)), class_="headline"),
        tag("dl", _tiles(panel, view, entry), class_="tiles"),
        tag("p", rule(panel, view, pick, look.title), class_="rule"),
    ]
    return tag(
        "div",
        tag("div", left, class_="said"),
        tag("figure", picture, tag("figcaption", caption)),
        class_="answer",
    )


def _unbroken(said: Sequence[str]) -> list[Content]:
    """Return clauses that a line breaks between sooner than within."""
    ends = [", "] * (len(said) - 1) + ["."]
    return [tag("span", clause, end) for clause, end in zip(said, ends, strict=True)]


def _tiles(panel: Panel, view: str, entry: Entry) -> list[Content]:
    whole = panel.full
    full = whole.levels[view].mean if whole is not None and view in whole.levels else None
    rows = [
        (
            "Words to compare a patch with",
            grouped(whole.n_coding_words) if whole else None,
            grouped(entry.n_coding_words),
        ),
        ("Size of the codebook", size_of(whole.n_bytes) if whole else None, size_of(entry.n_bytes)),
        (
            "Time to code an image",
            milliseconds(whole.costs["code_ms"]) if whole else None,
            milliseconds(entry.costs["code_ms"]),
        ),
        ("Accuracy", None if full is None else f"{full:.3f}", f"{entry.levels[view].mean:.3f}"),
    ]
    return [
        tag(
            "div",
            tag("dt", name),
            tag(
                "dd",
                (tag("span", before, class_="before"), tag("span", " → ", class_="to"))
                if before is not None
                else None,
                tag("strong", after),
            ),
        )
        for name, before, after in rows
    ]
