"""What the page's script needs to draw words, patches and images, made small.

Lines of ``details.jsonl`` become one plain object. A word's 8-bit values become 4-bit steps of
their square root (two to a byte, base64), enough for a glyph; of the full codebook only the words
that others are said to inherit from are taken along, up to ``MOST_OF_A_BOOK``. Where lines of
several splits exist, those of the lowest are shown.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bowsaw.errors import FormatError
from bowsaw.report.summary import Panel

MOST_OF_A_BOOK = 1500
"""Words of one full codebook that are drawn."""
MOST_PRUNED = 48
"""Pruned words in the strip."""
MOST_SOURCES = 4
MOST_IMAGES = 6
Line = Mapping[str, Any]
NEEDED = {
    "codebook": ("n_dims", "ids", "values"),
    "words": (
        *("method", "size", "n_dims", "ids", "values"),
        *("mass", "kept_mass", "from", "pruned", "n_pruned"),
    ),
    "patches": ("tile", "png"),
    "image": ("method", "name", "class", "width", "height", "patch", "x", "y", "before", "after"),
    "trace": ("method", "size", "score"),
}
"""What a line of each kind must have; kinds that are not named here are not drawn."""


def glyphs(values: str, n_dims: int) -> list[str]:
    """Return a short base64 string a word: two dimensions a byte, 16 steps of the square root.

    Examples
    --------
    >>> import base64
    >>> one = glyphs(base64.b64encode(bytes([255, 0, 64, 255])).decode(), 2)
    >>> [base64.b64decode(word).hex() for word in one]
    ['f0', '8f']
    """
    words = np.frombuffer(base64.b64decode(values), dtype=np.uint8).reshape(-1, n_dims)
    steps = np.rint(15 * np.sqrt(words / 255.0)).astype(np.uint8)
    if n_dims % 2:
        steps = np.pad(steps, ((0, 0), (0, 1)))
    packed = (steps[:, ::2] << 4) | steps[:, 1::2]
    return [base64.b64encode(row.tobytes()).decode("ascii") for row in packed]


def check_details(details: Iterable[Line]) -> None:
    """Refuse lines that cannot be drawn, with the number that they have in their file."""
    for number, line in enumerate(details, start=1):
        missing = [name for name in NEEDED.get(line["kind"], ()) if line.get(name) is None]
        if not missing and line["kind"] in ("codebook", "words"):
            n_bytes, asked = len(_decoded(line["values"])), len(line["ids"]) * line["n_dims"]
            missing = [] if n_bytes == asked else [f"{asked} bytes of values (it has {n_bytes})"]
        if missing:
            raise FormatError(
                f"details.jsonl, line {number}, of kind {line['kind']}: it lacks "
                f"{', '.join(missing)}. Delete that line; the page is then built without it."
            )


def _decoded(values: str) -> bytes:
    try:
        return base64.b64decode(values, validate=True)
    except (ValueError, TypeError):
        return b""


def vocabulary(panels: Sequence[Panel], details: Iterable[Line]) -> dict[str, Any]:
    """Return the words, books, sprites and images of a run, by panel, method and size."""
    kinds: dict[str, list[Line]] = {}
    for line in sorted(details, key=lambda line: line.get("split") or 0):
        kinds.setdefault(str(line["kind"]), []).append(line)
    sprites: list[dict[str, Any]] = []
    words: dict[str, dict[str, dict[str, Any]]] = {}
    books: dict[str, dict[str, Any]] = {}
    for panel in panels:
        found = _words_of(panel, kinds, sprites)
        if found:
            words[panel.ident] = found
    for panel in panels:
        name = book_name(panel)
        if panel.ident in words and name not in books:
            book = _book(panel, panels, words, kinds, sprites)
            if book is not None:
                books[name] = book
    return {
        "words": words,
        "books": books,
        "sprites": sprites,
        "images": {p.ident: shown for p in panels if (shown := _images(p, kinds.get("image", [])))},
    }


def book_name(panel: Panel) -> str:
    """Return the name of the full codebook of a panel; both codings share it."""
    return f"{panel.key.set}/{panel.key.full_words}"


def _fits(line: Line, panel: Panel) -> bool:
    """Tell whether a line belongs to a panel; keys that it lacks fit anything."""
    key = panel.key._asdict()
    return all(line.get(name) is None or line[name] == value for name, value in key.items())


def _words_of(
    panel: Panel, kinds: Mapping[str, list[Line]], sprites: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in kinds.get("words", []):
        sizes = found.setdefault(line["method"], {}) if _fits(line, panel) else {}
        if not _fits(line, panel) or str(line["size"]) in sizes:
            continue
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
            "sprite": _sprite(line, kinds, sprites, method=line["method"], size=line["size"]),
        }
    return found


def _sprite(
    line: Line,
    kinds: Mapping[str, list[Line]],
    sprites: list[dict[str, Any]],
    *,
    method: str | None,
    size: int | None,
) -> int | None:
    """Add the sprite that belongs to a line to ``sprites`` and return its place."""
    for sheet in kinds.get("patches", []):
        alike = all(
            sheet.get(name) is None or line.get(name) is None or sheet[name] == line[name]
            for name in ("set", "split", "full_words", "coding")
        )
        if alike and sheet.get("method") == method and sheet.get("size") == size:
            made = {"png": sheet["png"], **_tiles(sheet)}
            if made not in sprites:
                sprites.append(made)
            return sprites.index(made)
    return None


def _tiles(sheet: Line) -> dict[str, int]:
    """Return how many tiles a sprite has across and down, as its own header says."""
    # The first chunk of a PNG begins at byte 8 and holds width and height at bytes 16 and 20.
    width, height = struct.unpack(">II", base64.b64decode(sheet["png"][:32])[16:24])
    return {"columns": width // sheet["tile"], "rows": height // sheet["tile"]}


def _book(
    panel: Panel,
    panels: Sequence[Panel],
    words: Mapping[str, Mapping[str, Mapping[str, Any]]],
    kinds: Mapping[str, list[Line]],
    sprites: list[dict[str, Any]],
) -> dict[str, Any] | None:
    line = next((b for b in kinds.get("codebook", []) if _fits(b, panel)), None)
    if line is None:
        return None
    places = {word: place for place, word in enumerate(line["ids"])}
    wanted: dict[int, None] = {}
    for other in panels:
        for sizes in words.get(other.ident, {}).values() if _fits(line, other) else []:
            for size in sorted(sizes, key=int):
                wanted.update(dict.fromkeys(row[0] for row in sizes[size]["pruned"]))
                for sources in sizes[size]["from"]:
                    wanted.update(dict.fromkeys(word for word, _ in sources))
    ids = [word for word in wanted if word in places]
    drawn = glyphs(line["values"], line["n_dims"])
    return {
        "dims": line["n_dims"],
        "glyphs": {word: drawn[places[word]] for word in ids[:MOST_OF_A_BOOK]},
        "tiles": {word: places[word] for word in ids},
        "sprite": _sprite(line, kinds, sprites, method=None, size=None),
    }


def _images(panel: Panel, lines: Iterable[Line]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if not _fits(line, panel) or len(found.get(line["method"], ())) >= MOST_IMAGES:
            continue
        kept = ("name", "class", "width", "height", "jpeg", "x", "y", "before", "after", "guess")
        shown = {name: line.get(name) for name in kept}
        shown["step"] = [_step(line["x"], line["patch"]), _step(line["y"], line["patch"])]
        found.setdefault(line["method"], []).append(shown)
    return found


def _step(centres: Sequence[float], patch: float) -> float:
    """Return how far patches stand from one another, so that each can be drawn without overlap."""
    apart = np.diff(np.unique(np.round(centres, 1)))
    return float(apart.min()) if len(apart) else float(patch)
