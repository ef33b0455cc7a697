"""The page's tables: accuracies, differences, costs, certificates, mistakes and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bowsaw.comparison.methods import KMEANS
from bowsaw.evaluation.classifier import CALLED
from bowsaw.formatting import format_bytes, format_count, format_seconds, format_signed
from bowsaw.markup import Content, Markup, table, tag
from bowsaw.report.summary import FULL, Entry, Gap, Panel, differences

MOST_CLASSES, SIDE_BY_SIDE = 30, 15
"""Classes of a confusion table that can be read, and of two that stand side by side."""
EMPTY = "—"


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


def method_table(panel: Panel, view: str) -> Markup:
    """Return accuracies, one row per method and one column per size; the script sorts it."""
    full = panel.full
    sizes = sorted({e.size for e in panel.entries.values() if e.method != FULL})
    rows: list[list[Content]] = []
    for method in panel.methods:
        if any(view in e.levels for e in panel.of(method)):
            found = [panel.entries.get((method, size)) for size in sizes]
            coding = "all words" if panel.of(method)[0].codes_with == "full" else "kept words"
            rows.append([method, coding, *(_accuracy(entry, view) for entry in found)])
    if full is not None and view in full.levels:
        rows.append(["all words", "all words", *[_accuracy(full, view)] * max(len(sizes), 1)])
    return table(
        f"Accuracy ± half of its 95 % interval by words kept: {panel.title}, {CALLED[view]}",
        ["Method", "Codes with", *([f"{size:,}" for size in sizes] or ["all"])],
        rows,
        "sortable",
    )


def _accuracy(entry: Entry | None, view: str) -> str:
    return EMPTY if entry is None or view not in entry.levels else entry.levels[view].text


def difference_table(panel: Panel, view: str, method: str) -> Markup | None:
    """Return ``method`` minus each peer, by size and on average; None without peers."""
    found = differences(panel, view, method)
    if not found:
        return None
    sizes = [e.size for e in panel.of(method) if view in e.levels]
    several = len(sizes) > 1
    rows: list[list[Content]] = []
    for d in found:
        cells = [_ahead(d.sizes.get(size), panel.unit) for size in sizes if several]
        mean = _ahead(d.mean, panel.unit, d.significant)
        rows.append(["all words" if d.peer == FULL else d.peer, *cells, mean])
    return table(
        f"{method} minus the others by words kept: {panel.title}, {CALLED[view]}",
        [f"{method} minus", *(f"{size:,}" for size in sizes), *["mean over sizes"] * several],
        rows,
        "sortable",
    )


def _ahead(gap: Gap | None, unit: str, significant: bool = False) -> Content:
    if gap is None:
        return EMPTY
    counted = f" ahead in {gap.n_ahead} of {format_count(gap.n_splits, unit)}"
    mark = tag("abbr", "*", title="significant") if significant else None
    return [format_signed(gap.mean), mark, ",", tag("span", counted, class_="ahead")]


def cost_table(panel: Panel) -> Markup:
    """Return size and time of a codebook and the time to choose it, one row per size."""
    full, methods = panel.full, panel.methods
    rows: list[list[Content]] = []
    for size in sorted({e.size for e in panel.entries.values() if e.method != FULL}):
        found = {m: panel.entries.get((m, size)) for m in methods}
        alone = [e for e in found.values() if e is not None and e.codes_with == "pruned"]
        row = _coding_cost(panel, alone[0]) if alone else [EMPTY] * 3
        rows.append([f"{size:,}", *row, *(_choosing_time(e) for e in found.values())])
    if full is not None:
        row = _coding_cost(panel, full)
        rows.append([f"all {full.size:,}", *row, *[EMPTY] * len(methods)])
    header = ["Words", "Codebook", "Coding, per image", "Against all words"]
    caption = f"Costs: {panel.title}"
    return table(caption, [*header, *(f"Choosing: {m}" for m in methods)], rows, "costs")


def _coding_cost(panel: Panel, entry: Entry) -> list[Content]:
    full, after = panel.full, panel.code_ms.get(entry.n_coding_words)
    against = EMPTY
    if full is not None and full.n_bytes > entry.n_bytes:
        before = panel.code_ms.get(full.n_coding_words)
        faster = f", {times(before / after)} faster" if before and after else ""
        against = f"{times(full.n_bytes / entry.n_bytes)} smaller{faster}"
    return [format_bytes(entry.n_bytes), milliseconds(after), against]


def _choosing_time(entry: Entry | None) -> str:
    """Return the time to choose words; where nothing is chosen, that to train the codebook."""
    if entry is None:
        return EMPTY
    return seconds(entry.costs[f"{'codebook' if entry.method == KMEANS else 'select'}_seconds"])


def cost_notes(panel: Panel) -> str:
    """Return what the table of costs leaves out."""
    trained = panel.full.costs["codebook_seconds"] if panel.full is not None else None
    notes = [] if trained is None else [f"Training the full codebook takes {seconds(trained)}."]
    if KMEANS in panel.methods:
        notes.append(f"{KMEANS} chooses no words: its time is that of training a small codebook.")
    dashed = [m for m in panel.methods if panel.of(m)[0].codes_with == "full"]
    if dashed:
        verb = "codes" if len(dashed) == 1 else "code"
        notes.append(f"{' and '.join(dashed)} {verb} with all words at any size.")
    return " ".join([*notes, f"Times are medians over the {panel.unit}s."])


def certificate(panel: Panel) -> Markup | None:
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
    rows = [_certified(entry, panel.unit) for entry in certified]
    shown = table(caption, rows[0], [row.values() for row in rows])
    details = tag("details", tag("summary", "All certificates"), shown)
    return tag("div", tag("p", " ".join(sentences), class_="verdict"), details)


def _certified(entry: Entry, unit: str) -> dict[str, Content]:
    found = entry.certificates
    bounds = [c["allowed"] for c in found if c.get("allowed") is not None]
    holds = [c.get("holds") for c in found]
    if False in holds:
        outcome = f"exceeded in {holds.count(False)} of {len(holds)} {unit}s"
    elif None in holds:
        outcome = "no bound"
    else:
        outcome = f"holds in all {len(holds)} {unit}s" if len(holds) > 1 else "holds"
    return {
        "Method": entry.method,
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
        # More columns than fit beside one another are one below the other.
        tables = tag("div", grids, class_="pair" if len(names) <= SIDE_BY_SIDE else None)
    kept = shares_of(after)
    all_words = shares_of(before) if before is not None else None
    rows: list[list[Content]] = []
    for i, name in enumerate(names):
        now, then, change = kept[i][i], EMPTY, EMPTY
        if all_words is not None:
            then, change = f"{all_words[i][i]:.3f}", format_signed(now - all_words[i][i])
        rows.append([name, then, f"{now:.3f}", change])
    header = ["Class", "All words", "The words kept", "Difference"]
    caption = f"Accuracy per class, all {panel.unit}s together"
    per_class = table(caption, header, rows, "classes sortable")
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
