"""The tables of measured accuracies on the pages of methods, made from the records alone.

A table stands between ``<!-- measured: NAME -->`` and ``<!-- /measured -->``. NAME is that of a
method, ``all`` or ``scores``. A test holds every page to what this module makes of the
records; ``python docs/assets/measured.py`` writes the tables again.

Two records are read: ``results/cells.jsonl``, the paper's experiments, and
``docs/methods/cells.jsonl``, the other methods on the same splits, of which only the accuracies
are kept.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from bowsaw.comparison.methods import METHODS

TOP = Path(__file__).resolve().parents[2]
PAGES = (TOP / "docs" / "methods", TOP / "docs" / "scores")
SIZES = (20, 50, 100)
CODES_WITH = {
    **dict.fromkeys(
        ("chi2", "df", "pmi", "svm", "boosting", "ridge", "separability", "winn"), "full"
    ),
    "presence-recoded": "pruned",
}
"""Variants, and methods of the study, which are not among ``METHODS``."""

_PLACE = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- /measured -->)", re.S)

Key = tuple[str, str, int, str, int]
Accuracies = dict[Key, dict[int, float]]


@cache
def paper_records() -> Accuracies:
    """Return the accuracies of ``results/`` by set, coding, full words, method, size; by split."""
    return _by_key(
        TOP / "results" / "cells.jsonl", lambda cell: cell["results"]["sqrt"]["accuracy"]
    )


@cache
def other_records() -> Accuracies:
    """Return those of the methods that the paper's experiments leave out."""
    return _by_key(TOP / "docs" / "methods" / "cells.jsonl", lambda cell: cell["accuracy"])


def _by_key(path: Path, accuracy: Any) -> Accuracies:
    found: Accuracies = defaultdict(dict)
    for line in path.read_text("utf-8").splitlines():
        cell = json.loads(line)
        key = tuple(cell[name] for name in ("set", "coding", "full_words", "method", "size"))
        found[key][cell["split"]] = accuracy(cell)
    return found


def table(name: str) -> str:
    """Return the Markdown of one table."""
    lines = {"all": _overview, "scores": _of_scores}.get(name, lambda: _of_method(name))()
    return "\n".join(lines) + "\n"


def _mean(records: Accuracies, key: Key) -> str:
    return f"{fmean(records[key].values()):.3f}" if key in records else ""


def _of_method(name: str) -> Iterator[str]:
    records = paper_records()
    panels = [
        (set_, coding, 5000) for set_ in ("15-Scenes", "Caltech-10") for coding in ("hard", "soft")
    ]
    if not any(key[3] == name for key in records):
        records, panels = other_records(), [("15-Scenes", "hard", 1000)]
    splits = len(next(accuracies for key, accuracies in records.items() if key[3] == name))
    sizes = " | ".join(map(str, SIZES))
    yield f"| mean per-class accuracy, {splits} splits | {sizes} | a random subset: {sizes} | all |"
    yield "|---" * (2 * len(SIZES) + 2) + "|"
    for panel in panels:
        row = [f"{panel[0]}, {panel[1]} coding, from {panel[2]} words"]
        for method in (name, "random"):
            row += [_mean(records, (*panel, method, size)) for size in SIZES]
        yield f"| {' | '.join([*row, _mean(records, (*panel, 'full', panel[2]))])} |"


def _overview() -> Iterator[str]:
    records = other_records()
    yield f"| method | codes with | {' | '.join(f'{size} words' for size in SIZES)} |"
    yield "|---" * (2 + len(SIZES)) + "|"
    panel = ("15-Scenes", "hard", 1000)
    measured = dict.fromkeys(key[3] for key in records if " by " not in key[3])
    for name in dict.fromkeys([*METHODS, *measured]):
        cells = [_mean(records, (*panel, name, size)) for size in SIZES]
        if any(cells):
            codes_with = METHODS[name].codes_with if name in METHODS else CODES_WITH[name]
            yield f"| `{name}` | {codes_with} | {' | '.join(cells)} |"
    yield f"| all 1000 words | full | {_mean(records, (*panel, 'full', 1000))} | | |"


def _of_scores() -> Iterator[str]:
    records = other_records()
    found = {
        key[3]: records[key][0]
        for key in records
        if key[4] == 20 and key[3].startswith(("annealed by ", "random"))
    }
    yield "| 20 of 1000 words, 15-Scenes, hard coding | mean per-class accuracy, the first split |"
    yield "|---|---|"
    for name in sorted(found, key=lambda name: -found[name]):
        yield f"| {name.replace('random', 'a random subset')} | {found[name]:.3f} |"


def filled(text: str) -> str:
    """Return a page with its tables made again."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{table(place[2])}\n{place[3]}", text)


def main() -> None:
    """Write the tables of all pages again."""
    for folder in PAGES:
        for path in sorted(folder.glob("*.md")):
            path.write_text(filled(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
