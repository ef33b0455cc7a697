"""The page's tables: accuracies, differences, costs, certificates, mistakes and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bowsaw.evaluation.classifier import CALLED
from bowsaw.formatting import format_bytes, format_count, format_seconds, format_signed
from bowsaw.report.charts import Look
from bowsaw.report.markup import Content, Markup, table, tag
from bowsaw.report.summary import FULL, Entry, Panel, differences

MOST_CLASSES = 30
"""A confusion table with more classes is too large to read."""
EMPTY = "—"
Looks = Mapping[str, Look]


def significant(number: float, digits: int) -> str:
    """Return a number with this many digits, never as a power of ten."""
    whole = len(str(int(abs(number)))) if abs(number) >= 1 else 0
    return f"{number:,.{max(digits - whole, 0)}f}" if number else "0"


def milliseconds(value: float | None) -> str:
    """Return a time in milliseconds."""
    return EMPTY if value is None else f"{significant(value, 2)} ms"


def seconds(value: float | None) -> str:
    """Return a duration, below 0.1 s in milliseconds."""
    if value is None or 0 < value < 0.1:
        return milliseconds(None if value is None else 1000 * value)
    return format_seconds(value)


def times(ratio: float) -> str:
    """Return a ratio such as "24 ×"."""
    return f"{significant(ratio, 2).removesuffix('.0')}\u202f×"


def tiny(value: float) -> str:
    """Return a small number, below 0.001 with a power of ten."""
    if value == 0 or value >= 0.001:
        return significant(value, 3)
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits} × 10{raised}"


def accuracy_table(panel: Panel, view: str, looks: Looks) -> Markup:
    """Return mean ± standard deviation, one row per size and one column per method."""
    methods = [m for m in panel.methods if any(view in e.levels for e in panel.of(m))]
    sizes = sorted({e.size for e in panel.entries.values() if e.method != FULL})
    rows: list[list[Content]] = [
        [f"{size:,}", *(_accuracy(panel.entries.get((m, size)), view) for m in methods)]
        for size in sizes
    ]
    if panel.full is not None and view in panel.full.levels:
        rows.append([f"all {panel.full.size:,}", *[_accuracy(panel.full, view)] * len(methods)])
    return table(
        f"Accuracy, mean ± standard deviation over the splits: {panel.title}, {CALLED[view]}",
        ["Words kept", *(looks[m].title for m in methods)],
        rows,
    )


def _accuracy(entry: Entry | None, view: str) -> str:
    if entry is None or view not in entry.levels:
        return EMPTY
    level = entry.levels[view]
    return f"{level.mean:.3f}" + ("" if level.deviation is None else f" ± {level.deviation:.3f}")


def difference_table(panel: Panel, view: str, method: str, looks: Looks) -> Markup | None:
    """Return ``method`` minus each peer: sizes, and their mean with p; None without peers."""
    found = differences(panel, view, method)
    if not found:
        return None
    rows: list[list[Content]] = [
        [f"{entry.size:,}", *(_ahead(d.sizes.get(entry.size)) for d in found)]
        for entry in panel.of(method)
    ]
    rows.append(["mean over sizes", *([format_signed(d.mean), _p_value(d.p)] for d in found)])
    names = ["all words" if d.peer == FULL else looks[d.peer].title for d in found]
    title = looks[method].title
    return table(
        f"{title[:1].upper()}{title[1:]} minus the others: {panel.title}, {CALLED[view]}",
        ["Words kept", *(f"minus {name}" for name in names)],
        rows,
    )


def _ahead(at: tuple[float, int, int] | None) -> Content:
    if at is None:
        return EMPTY
    mean, n_ahead, n_splits = at
    counted = f" ahead in {n_ahead} of {format_count(n_splits, 'split')}"
    return [f"{format_signed(mean)},", tag("span", counted, class_="p ahead")]


def _p_value(p: float | None) -> Markup | None:
    if p is None:
        return None
    return tag("span", " (p < 0.001)" if p < 0.001 else f" (p = {p:.3f})", class_="p")


def cost_table(panel: Panel, looks: Looks) -> Markup:
    """Return time and memory of every method and size, the full codebook first."""
    full = panel.full
    rows = [_cost_row(full, "all words", None)] if full is not None else []
    for method in panel.methods:
        rows += [_cost_row(entry, looks[method].title, full) for entry in panel.of(method)]
    cells = [row.values() for row in rows]
    return table(f"Costs, median over the splits: {panel.title}", rows[0], cells, "costs")


def _cost_row(entry: Entry, title: str, full: Entry | None) -> dict[str, Content]:
    costs = entry.costs
    against = EMPTY
    if full is not None:
        smaller = times(full.n_bytes / entry.n_bytes) if entry.n_bytes else EMPTY
        before, after = full.costs["code_ms"], costs["code_ms"]
        faster = f", {times(before / after)} faster" if before and after else ""
        against = f"{smaller} smaller{faster}" if full.n_bytes != entry.n_bytes else "same size"
    peak = costs["peak_bytes"]
    return {
        "Method": title,
        "Words kept": f"{entry.size:,}",
        "Words to code with": f"{entry.n_coding_words:,}",
        "Codebook": format_bytes(entry.n_bytes),
        "Coding, per image": milliseconds(costs["code_ms"]),
        "Against all words": against,
        "Choosing": seconds(costs["select_seconds"]) if entry.method != FULL else EMPTY,
        "Training the codebook": seconds(costs["codebook_seconds"]),
        "Peak memory while choosing": EMPTY if peak is None else format_bytes(peak),
    }


def certificate(panel: Panel, looks: Looks) -> Markup | None:
    """Return the bounds of inferred histograms and the differences found; None without any."""
    certified = [e for method in panel.methods for e in panel.of(method) if e.certificates]
    if not certified:
        return None
    holds = [c.get("holds") for entry in certified for c in entry.certificates]
    n_approximate = holds.count(None)
    sentences = []
    if n_approximate < len(holds):
        sentences.append(
            "An exact search infers the histograms of re-coding, up to rounding: "
            f"{holds.count(True)} of {len(holds) - n_approximate} bounds hold."
        )
    if n_approximate:
        sentences.append(
            f"{n_approximate:,} searches used an approximation, which has no bound; their error "
            "is in the table."
        )
    caption = f"Inferred against re-coded histograms, as L1 distance from 0 to 2: {panel.title}"
    rows = [_certified(entry, looks[entry.method].title) for entry in certified]
    shown = table(caption, rows[0], [row.values() for row in rows])
    details = tag("details", tag("summary", "All certificates"), shown)
    return tag("div", tag("p", " ".join(sentences), class_="verdict"), details)


def _certified(entry: Entry, title: str) -> dict[str, Content]:
    found = entry.certificates
    bounds = [c["allowed"] for c in found if c.get("allowed") is not None]
    holds = [c.get("holds") for c in found]
    if False in holds:
        outcome = f"exceeded in {holds.count(False)} of {len(holds)} splits"
    elif None in holds:
        outcome = "no bound"
    else:
        outcome = f"holds in all {len(holds)} splits" if len(holds) > 1 else "holds"
    return {
        "Method": title,
        "Words kept": f"{entry.size:,}",
        "Images re-coded": f"{sum(c['n_bags'] for c in found):,}",
        "Mean difference": tiny(float(np.mean([c["mean"] for c in found]))),
        "Largest": tiny(max(c["worst"] for c in found)),
        "Bound": tiny(min(bounds)) if bounds else EMPTY,
        "Outcome": outcome,
    }


def confusion_tables(panel: Panel, view: str, pick: Entry, ident: str) -> Markup:
    """Return the tables of mistakes, filled for ``pick``; the script fills them for other sizes."""
    names = list(panel.classes)
    full = panel.full
    before = full.confusions.get(view) if full is not None else None
    after = pick.confusions[view]
    tables: Content = tag(
        "p",
        f"The table of mistakes between classes is left out: {len(names)} classes are too many "
        "to read.",
        class_="none",
    )
    if len(names) <= MOST_CLASSES:
        pairs = [("before", "All words", before), ("after", "The words kept", after)]
        grids = [_grid(names, n, title, ident, role) for role, title, n in pairs if n is not None]
        tables = tag("div", grids, class_="pair")
    kept = shares_of(after)
    all_words = shares_of(before) if before is not None else None
    rows: list[list[Content]] = []
    for i, name in enumerate(names):
        now, then, change = kept[i][i], EMPTY, EMPTY
        if all_words is not None:
            then, change = f"{all_words[i][i]:.3f}", format_signed(now - all_words[i][i])
        rows.append([name, then, f"{now:.3f}", change])
    header = ["Class", "All words", "The words kept", "Difference"]
    per_class = table("Accuracy per class, all splits together", header, rows, "classes")
    return tag("div", tables, per_class, data_set=panel.key.set)


def shares_of(counts: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return each row as shares of its sum; zeros for a class without test images."""
    return [[n / sum(row) if sum(row) else 0.0 for n in row] for row in counts]


def _grid(
    names: Sequence[str], counts: Sequence[Sequence[int]], title: str, ident: str, role: str
) -> Markup:
    head: list[Content] = []
    rows: list[Content] = []
    for i, (name, row) in enumerate(zip(names, shares_of(counts), strict=True)):
        number = tag("span", i + 1, aria_hidden="true")
        head.append(tag("th", tag("span", name, class_="vh"), number, scope="col", title=name))
        cells: list[Content] = []
        for j, share in enumerate(row):
            shown = f"{100 * share:.0f}" if share >= 0.005 else ""
            right = "right" if i == j else None
            cells.append(tag("td", shown, class_=right, style=f"--share:{share:.3f}"))
        number = tag("span", f"{i + 1} ", aria_hidden="true")
        rows.append(tag("tr", tag("th", number, name, scope="row"), cells))
    made = tag(
        "table",
        tag("caption", title),
        tag("thead", tag("tr", tag("th", "class ↓ recognised as →", scope="col"), head)),
        tag("tbody", rows),
        class_="grid",
        data_role=role,
        id=f"{ident}-{role}",
    )
    label = f"{title}: which class is recognised as which, in percent"
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=label)


def provenance(about: Mapping[str, Any]) -> list[Content]:
    """Return every value of ``run.json``, grouped."""
    groups: dict[str, Mapping[str, Any]] = {
        "The run": {key: value for key, value in about.items() if not isinstance(value, Mapping)}
    }
    for key, value in about.items():
        if key in ("sets", "methods"):
            groups |= {f"{key[:-1].capitalize()}: {name}": facts for name, facts in value.items()}
        elif isinstance(value, Mapping):
            groups[key.capitalize()] = value
    parts: list[Content] = []
    for title, facts in groups.items():
        rows = [(key, v if isinstance(v, str) else json.dumps(v)) for key, v in facts.items()]
        shown = table(title, ["Name", "Value"], rows, "facts")
        parts += [tag("details", tag("summary", title), shown)] if rows else []
    return parts
