"""What the page's script needs to draw words, patches and images, made small.

Drawing lines (those of :mod:`~bowsaw.report.details`, or of a recorded ``details.jsonl``) become
one plain object. A word's 8-bit values become 4-bit steps of their square root (two per byte,
base64), enough for a glyph. Of the full codebook only the words that others inherit from are
included, up to ``MOST_OF_A_BOOK``. Of several splits, the lowest is shown.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bowsaw.report.summary import Panel

MOST_OF_A_BOOK = 1500
"""Words of one full codebook that are drawn."""
MOST_PRUNED = 48
MOST_SOURCES = 4
MOST_IMAGES = 6
Line = Mapping[str, Any]


def glyphs(values: str, n_dims: int) -> list[str]:
    """Return a base64 string per word: two dimensions per byte, 16 steps of the square root."""
    words = np.frombuffer(base64.b64decode(values), dtype=np.uint8).reshape(-1, n_dims)
    steps = np.rint(15 * np.sqrt(words / 255.0)).astype(np.uint8)
    steps = np.pad(steps, ((0, 0), (0, n_dims % 2)))
    packed = (steps[:, ::2] << 4) | steps[:, 1::2]
    return [base64.b64encode(row.tobytes()).decode("ascii") for row in packed]


def vocabulary(panels: Sequence[Panel], details: Iterable[Line]) -> dict[str, Any]:
    """Return the words, codebooks and images of a run, by panel, method and size."""
    kinds: dict[str, list[Line]] = {"codebook": [], "words": [], "image": []}
    for line in sorted(details, key=lambda line: line.get("split") or 0):
        kinds.setdefault(str(line["kind"]), []).append(line)
    found = {p.ident: _words(p, kinds["words"]) for p in panels}
    words = {ident: methods for ident, methods in found.items() if methods}
    books: dict[str, dict[str, Any]] = {}
    for panel in panels:
        fitting = [b for b in kinds["codebook"] if fits(b, panel)]
        if fitting and panel.ident in words and book_name(panel) not in books:
            line = fitting[0]
            sharing = [words[p.ident] for p in panels if p.ident in words and fits(line, p)]
            books[book_name(panel)] = _book(line, sharing)
    images = {p.ident: _images(p, kinds["image"]) for p in panels}
    shown = {ident: methods for ident, methods in images.items() if methods}
    return {"words": words, "books": books, "images": shown}


def book_name(panel: Panel) -> str:
    """Return the name of a panel's full codebook; both codings share it."""
    return f"{panel.key.set}/{panel.key.full_words}"


def fits(line: Line, panel: Panel) -> bool:
    """Return whether a line belongs to a panel; fields that it lacks fit anything."""
    return all(line.get(name) in (None, value) for name, value in panel.key._asdict().items())


def _words(panel: Panel, lines: Iterable[Line]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        sizes = found.get(line["method"], {})
        if not fits(line, panel) or str(line["size"]) in sizes:
            continue
        found[line["method"]] = sizes
        sizes[str(line["size"])] = {
            "split": line.get("split"),
            "dims": line["n_dims"],
            "ids": line["ids"],
            "glyphs": glyphs(line["values"], line["n_dims"]),
            "moved": bool(line.get("moved")),
            "mass": line["mass"],
            "kept": line["kept_mass"],
            "from": [sources[:MOST_SOURCES] for sources in line["from"]],
            "pruned": line["pruned"][:MOST_PRUNED],
            "n_pruned": line["n_pruned"],
        }
    return found


def _book(line: Line, sharing: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the words of a full codebook that the panels sharing it name."""
    places = {word: place for place, word in enumerate(line["ids"])}
    named: dict[int, None] = {}
    for methods in sharing:
        for sizes in methods.values():
            for size in sorted(sizes, key=int):
                named.update(dict.fromkeys(row[0] for row in sizes[size]["pruned"]))
                for sources in sizes[size]["from"]:
                    named.update(dict.fromkeys(word for word, _ in sources))
    ids = [word for word in named if word in places]
    drawn = glyphs(line["values"], line["n_dims"])
    return {
        "dims": line["n_dims"],
        "glyphs": {word: drawn[places[word]] for word in ids[:MOST_OF_A_BOOK]},
    }


def _images(panel: Panel, lines: Iterable[Line]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    fields = ("name", "class", "width", "height", "jpeg", "x", "y", "before", "after", "guess")
    for line in lines:
        if fits(line, panel) and len(found.get(line["method"], ())) < MOST_IMAGES:
            shown = {name: line.get(name) for name in fields}
            shown["step"] = [_step(line[axis], line["patch"]) for axis in ("x", "y")]
            found.setdefault(line["method"], []).append(shown)
    return found


def _step(centres: Sequence[float], patch: float) -> float:
    """Return the distance between neighbouring patches, drawn without overlap."""
    gaps = np.diff(np.unique(np.round(centres, 1)))
    return float(gaps.min()) if len(gaps) else float(patch)
