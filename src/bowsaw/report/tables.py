"""The page's tables: the numbers behind the curves, costs, certificates, mistakes and claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bowsaw.evaluation.classify import CALLED
from bowsaw.report.figures import Look
from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.summary import FULL, Entry, Panel, differences
from bowsaw.report.wording import (
    chance,
    figures,
    grouped,
    milliseconds,
    seconds,
    signed,
    size_of,
    times,
)

MOST_CLASSES = 30
"""A table of mistakes with more classes is not shown: nobody can read it."""
EMPTY = "—"


def table(
    caption: str, header: Sequence[Content], rows: Iterable[Sequence[Content]], class_: str = ""
) -> Markup:
    """Return a table in a box that scrolls by itself; the first cell of a row is its head."""
    body = [
        tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]])
        for row in rows
    ]
    head = tag("tr", [tag("th", cell, scope="col") for cell in header])
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", body),
        class_=class_ or None,
    )
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def accuracy_table(panel: Panel, view: str, looks: Mapping[str, Look]) -> Markup:
    """Return mean ± standard deviation, a row a size and a column a method."""
    methods = [m for m in panel.methods if any(view in e.levels for e in panel.of(m))]
    rows: list[list[Content]] = [
        [grouped(size), *(_level(panel.entries.get((m, size)), view) for m in methods)]
        for size in panel.sizes
    ]
    if panel.full is not None and view in panel.full.levels:
        whole = _level(panel.full, view)
        rows.append([f"all {grouped(panel.full.size)}", *(whole for _ in methods)])
    return table(
        f"Accuracy, mean ± standard deviation over the splits: {panel.title}, {CALLED[view]}",
        ["Words kept", *(looks[m].title for m in methods)],
        rows,
    )


def _level(entry: Entry | None, view: str) -> str:
    if entry is None or view not in entry.levels:
        return EMPTY
    level = entry.levels[view]
    spread = "" if level.deviation is None else f" ± {level.deviation:.3f}"
    return f"{level.mean:.3f}{spread}"


def difference_table(
    panel: Panel, view: str, method: str, looks: Mapping[str, Look]
) -> Markup | None:
    """Return ``method`` minus each peer at each size, with p values; None with no peer."""
    found = differences(panel, view, method)
    if not found:
        return None
    peers = list(dict.fromkeys(d.peer for d in found))
    at = {(d.size, d.peer): d for d in found}
    rows: list[list[Content]] = []
    for entry in panel.of(method):
        row: list[Content] = [grouped(entry.size)]
        for peer in peers:
            d = at.get((entry.size, peer))
            said = EMPTY if d is None else signed(d.mean)
            p = chance(d.p) if d is not None else ""
            row.append([said, tag("span", f" ({p})", class_="p") if p else None])
        rows.append(row)
    title = looks[method].title
    names = ["all words" if peer == FULL else looks[peer].title for peer in peers]
    return table(
        f"{title.capitalize()} minus the others: {panel.title}, {CALLED[view]}",
        ["Words kept", *(f"minus {name}" for name in names)],
        rows,
    )


def cost_table(panel: Panel, looks: Mapping[str, Look]) -> Markup:
    """Return time and space of every method and size, the whole codebook first."""
    whole = panel.full
    rows = [_cost_row(whole, "all words", None)] if whole is not None else []
    for method in panel.methods:
        rows += [_cost_row(entry, looks[method].title, whole) for entry in panel.of(method)]
    header = [
        "Method",
        "Words kept",
        "Words to code with",
        "Codebook",
        "Coding, an image",
        "Against all words",
        "Choosing",
        "Training the codebook",
        "Peak memory while choosing",
    ]
    return table(f"Costs, median over the splits: {panel.title}", header, rows, "costs")


def _cost_row(entry: Entry, title: str, whole: Entry | None) -> list[Content]:
    costs = entry.costs
    against = EMPTY
    if whole is not None:
        smaller = times(whole.n_bytes / entry.n_bytes) if entry.n_bytes else EMPTY
        before, after = whole.costs["code_ms"], costs["code_ms"]
        quicker = f", {times(before / after)} faster" if before and after else ""
        against = f"{smaller} smaller{quicker}" if whole.n_bytes != entry.n_bytes else "as large"
    return [
        title,
        grouped(entry.size),
        grouped(entry.n_coding_words),
        size_of(entry.n_bytes),
        milliseconds(costs["code_ms"]),
        against,
        seconds(costs["select_seconds"]) if entry.method != FULL else EMPTY,
        seconds(costs["codebook_seconds"]),
        size_of(costs["peak_bytes"]),
    ]


def certificate(panel: Panel, looks: Mapping[str, Look]) -> Markup | None:
    """Tell what was promised of inferred histograms and what was found; None without any."""
    rows: list[list[Content]] = []
    held = broken = unpromised = 0
    for method in panel.methods:
        for entry in panel.of(method):
            if entry.certificates:
                rows.append([looks[method].title, *_certified(entry)])
                verdicts = [c.get("holds") for c in entry.certificates]
                held += sum(v is True for v in verdicts)
                broken += sum(v is False for v in verdicts)
                unpromised += sum(v is None for v in verdicts)
    if not rows:
        return None
    said = []
    if held or broken:
        said.append(
            f"An exact search promises the histograms of re-coding, up to rounding: {held} of "
            f"{held + broken} such promises were kept."
        )
    if unpromised:
        said.append(
            f"{grouped(unpromised)} searches used an approximation, which promises nothing; what "
            "it missed by is told all the same."
        )
    header = [
        "Method",
        "Words kept",
        "Images coded again",
        "Mean difference",
        "Largest",
        "Allowed",
        "Outcome",
    ]
    caption = f"Inferred against re-coded histograms, as L1 distance from 0 to 2: {panel.title}"
    return tag(
        "div",
        tag("p", " ".join(said), class_="verdict"),
        tag("details", tag("summary", "Every certificate"), table(caption, header, rows)),
        data_panel=panel.ident,
    )


def _certified(entry: Entry) -> list[Content]:
    found = entry.certificates
    allowed = [c["allowed"] for c in found if c.get("allowed") is not None]
    outcomes = [c.get("holds") for c in found]
    if any(v is False for v in outcomes):
        outcome = f"broken in {sum(v is False for v in outcomes)} of {len(outcomes)} splits"
    elif any(v is None for v in outcomes):
        outcome = "nothing promised"
    else:
        outcome = f"kept in all {len(outcomes)} splits" if len(outcomes) > 1 else "kept"
    return [
        grouped(entry.size),
        grouped(sum(c["n_bags"] for c in found)),
        _tiny(float(np.mean([c["mean"] for c in found]))),
        _tiny(max(c["worst"] for c in found)),
        _tiny(min(allowed)) if allowed else EMPTY,
        outcome,
    ]


def _tiny(value: float) -> str:
    if value == 0 or value >= 0.001:
        return figures(value)
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits} × 10{raised}"


def confusion_tables(panel: Panel, view: str, pick: Entry, ident: str) -> Markup:
    """Return the tables that the script fills anew when the size changes, filled for ``pick``."""
    names = list(panel.classes)
    after = pick.confusions[view]
    whole = panel.full
    before = whole.confusions.get(view) if whole is not None else None
    grids: list[Content] = []
    if len(names) <= MOST_CLASSES:
        pairs = [("before", "All words", before), ("after", "The words kept", after)]
        grids = [
            _grid(names, counts, title, f"{ident}-{role}", role)
            for role, title, counts in pairs
            if counts is not None
        ]
    per_class = _per_class(names, before, after)
    return tag(
        "div",
        tag("div", grids, class_="pair") if grids else _too_many(len(names)),
        per_class,
        data_set=panel.key.set,
    )


def _too_many(n_classes: int) -> Markup:
    return tag(
        "p",
        f"The table of which class is taken for which is left out: {n_classes} classes are too "
        "many to read.",
        class_="none",
    )


def shares_of(counts: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return each row as shares of its sum; zeros where a class has no test image."""
    return [[n / sum(row) if sum(row) else 0.0 for n in row] for row in counts]


def _grid(
    names: Sequence[str], counts: Sequence[Sequence[int]], title: str, ident: str, role: str
) -> Markup:
    head = [
        tag(
            "th",
            tag("span", name, class_="vh"),
            tag("span", place, aria_hidden="true"),
            scope="col",
            title=name,
        )
        for place, name in enumerate(names, 1)
    ]
    rows = [
        tag(
            "tr",
            tag("th", tag("span", f"{i + 1} ", aria_hidden="true"), names[i], scope="row"),
            [
                tag(
                    "td",
                    f"{100 * share:.0f}" if share >= 0.005 else "",
                    class_="right" if i == j else None,
                    style=f"--share:{share:.3f}",
                )
                for j, share in enumerate(row)
            ],
        )
        for i, row in enumerate(shares_of(counts))
    ]
    made = tag(
        "table",
        tag("caption", title),
        tag("thead", tag("tr", tag("th", "is ↓ taken for →", scope="col"), head)),
        tag("tbody", rows),
        class_="grid",
        data_role=role,
        id=ident,
    )
    return tag(
        "div",
        made,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=f"{title}: which class is taken for which, in percent",
    )


def _per_class(
    names: Sequence[str],
    before: Sequence[Sequence[int]] | None,
    after: Sequence[Sequence[int]],
) -> Markup:
    rows: list[list[Content]] = []
    kept = shares_of(after)
    whole = shares_of(before) if before is not None else None
    for i, name in enumerate(names):
        then = None if whole is None else whole[i][i]
        rows.append(
            [
                name,
                EMPTY if then is None else f"{then:.3f}",
                f"{kept[i][i]:.3f}",
                EMPTY if then is None else signed(kept[i][i] - then),
            ]
        )
    header = ["Class", "All words", "The words kept", "Difference"]
    return table("Accuracy of each class, all splits together", header, rows, "classes")
