"""What the page's script needs to draw words and images, made small.

Drawing lines (those of :mod:`~bowsaw.report.details`, or of a recorded ``details.jsonl``) become
one plain object. A word's 8-bit values become 4-bit steps of their square root (two per byte,
base64), enough for a glyph. Of the full codebook only the words that others inherit from are
included, up to ``MOST_OF_A_BOOK``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bowsaw.report.details import N_PRUNED, Line, named_words
from bowsaw.report.summary import Panel


def glyphs(values: str, n_dims: int) -> list[str]:
    """Return a base64 string per word: two dimensions per byte, 16 steps of the square root."""
    words = np.frombuffer(base64.b64decode(values), dtype=np.uint8).reshape(-1, n_dims)
    steps = np.rint(15 * np.sqrt(words / 255.0)).astype(np.uint8)
    steps = np.pad(steps, ((0, 0), (0, n_dims % 2)))
    packed = (steps[:, ::2] << 4) | steps[:, 1::2]
    return [base64.b64encode(row.tobytes()).decode("ascii") for row in packed]


def vocabulary(panels: Sequence[Panel], details: Iterable[Line]) -> dict[str, Any]:
    """Return the words, codebooks and images of a run, by panel, method and size."""
    words: dict[str, dict[str, dict[str, Any]]] = {}
    images: dict[str, dict[str, list[Any]]] = {}
    books = {}
    for panel in panels:
        for line in (line for line in details if fits(line, panel)):
            if line["kind"] == "words":
                sizes = words.setdefault(panel.ident, {}).setdefault(line["method"], {})
                sizes[str(line["size"])] = _words(line)
            elif line["kind"] == "image":
                found = images.setdefault(panel.ident, {}).setdefault(line["method"], [])
                found.append(_image(line))
    for line in details:
        fitting = [p for p in panels if p.ident in words and fits(line, p)]
        if line["kind"] == "codebook" and fitting:
            books[book_name(fitting[0])] = _book(line, [words[p.ident] for p in fitting])
    return {"words": words, "books": books, "images": images}


def book_name(panel: Panel) -> str:
    """Return the name of a panel's full codebook; both codings share it."""
    return f"{panel.key.set}/{panel.key.full_words}"


def fits(line: Line, panel: Panel) -> bool:
    """Return whether a line belongs to a panel; fields that it lacks fit anything."""
    return all(line.get(name) in (None, value) for name, value in panel.key._asdict().items())


def _words(line: Line) -> dict[str, Any]:
    return {
        "split": line.get("split"),
        "dims": line["n_dims"],
        "ids": line["ids"],
        "glyphs": glyphs(line["values"], line["n_dims"]),
        "moved": bool(line.get("moved")),
        "mass": line["mass"],
        "kept": line["kept_mass"],
        "from": line["from"],
        "pruned": line["pruned"][:N_PRUNED],
        "n_pruned": line["n_pruned"],
        "patches": line.get("patches"),
    }


def _book(line: Line, sharing: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the words of a full codebook that are named by the panels that share it."""
    drawn = dict(zip(line["ids"], glyphs(line["values"], line["n_dims"]), strict=True))
    sizes = (
        by_size[size]
        for by_method in sharing
        for by_size in by_method.values()
        for size in sorted(by_size, key=int)
    )
    ids = [word for word in named_words(sizes) if word in drawn]
    faces = {word: drawn[word] for word in ids}
    return {"dims": line["n_dims"], "glyphs": faces, "patches": line.get("patches")}


def _image(line: Line) -> dict[str, Any]:
    fields = ("name", "class", "width", "height", "jpeg", "x", "y", "before", "after", "guess")
    gaps = [np.diff(np.unique(np.round(line[axis], 1))) for axis in ("x", "y")]
    step = [float(gap.min()) if len(gap) else float(line["patch"]) for gap in gaps]
    return {**{name: line.get(name) for name in fields}, "step": step}
