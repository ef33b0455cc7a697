"""The page's drawings, made from the run's folder: its pruned codebooks and sample images.

Each drawing is a *line*, a plain mapping: ``codebook`` and ``words`` (words as bytes, and which
words inherit from which), ``image`` (an image's patches before and after) and ``trace`` (the path
of a search). A run without codebooks has its lines recorded in ``details.jsonl``. Drawings are of
the lowest split.

**Inheritance.** Let n_kc be the number of sample descriptors whose nearest word was word k of the
full codebook and is word c of the pruned one. The mass of k was Σ_c n_kc / n, the mass of c is
Σ_k n_kc / n, the share of c that comes from k is n_kc / Σ_k n_kc, and a pruned k is inherited by
the c with the largest n_kc. Codes are nearest words for soft coding, too. Ties go to the lower
position.

**Values as bytes.** SIFT is 512 times its unit-norm value, at most 255, whatever unit the codebook
is stored in, so glyphs of all codebooks compare. For other descriptors the range of the full
codebook (from 0, unless it has negative values) becomes 0 to 255.

**On the page.** :func:`vocabulary` makes the lines small: 8-bit values become 4-bit steps of their
square root (two per byte, base64), enough for a glyph, and of the full codebook only the words that
others inherit from are included.

**Patches.** Where pixels may be shown, a word's tile has the patches nearest to it, at most one
per image: four from four images, else one. A patch of side s at x begins at pixel x - (s - 1) / 2;
beyond the image its edge pixels repeat. SIFT ignores brightness and, above a threshold, contrast,
so its patches are normalised: the mean becomes mid-grey, the standard deviation 45 grey levels or
four times what it was.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min

from bowsaw.bags import Bags
from bowsaw.checkpoint import JsonLines, NpzReader
from bowsaw.codebook import Codebook
from bowsaw.comparison.records import Run, check_line, codebook_path, key_of
from bowsaw.errors import FormatError
from bowsaw.formats.registry import load
from bowsaw.glyphs import LARGEST
from bowsaw.nearest.search import nearest_words
from bowsaw.report.summary import FULL, Panel, PanelKey
from bowsaw.validation import Number

Line = Mapping[str, Any]
MOST_METHODS = 2
"""Methods per panel whose words are drawn."""
N_SOURCES, N_PRUNED = 4, 48
MOST_OF_A_BOOK = 1500
"""Words of one full codebook that are drawn."""
TILE = 24
"""Pixels of a side of a word's tile."""
MID_GREY, CONTRAST, MAX_GAIN = 128, 45.0, 4.0


class Samples(NamedTuple):
    """Sample images of a set, the first of each class before all others.

    ``pixels`` may be smaller than ``sizes``, or None.
    """

    bags: Bags
    positions: list[NDArray[np.float32]]
    labels: NDArray[np.int64]
    paths: list[str]
    sizes: NDArray[np.int64]
    pixels: list[NDArray[np.uint8] | None]

    def codes(self, book: Codebook) -> NDArray[np.int64]:
        """Return the position of the nearest word of each descriptor."""
        bags = book.project(self.bags)
        return nearest_words(bags, book.words_for(bags)).astype(np.int64)


def page_details(folder: Path, run: Run) -> list[Line]:
    """Return the drawings of a run."""
    if not (folder / "codebooks").is_dir():
        path = folder / "details.jsonl"
        return [_checked(path, number, line, run) for number, line in JsonLines(path).read()]
    first = min((cell["split"] for cell in run.cells), default=0)
    cells: list[Line] = sorted(
        (c for c in run.cells if c["split"] == first), key=lambda c: c["size"]
    )
    traced = (cell for cell in cells if cell.get("trace"))
    lines: list[Line] = [{"kind": "trace", **key_of(c)._asdict(), **c["trace"]} for c in traced]
    fulls = [cell for cell in cells if cell["method"] == FULL]
    for name, n_words in dict.fromkeys((cell["set"], cell["size"]) for cell in fulls):
        samples, drawn, book = read_samples(folder, name), [], None
        for full in (cell for cell in fulls if (cell["set"], cell["size"]) == (name, n_words)):
            book = _codebook(folder, full)
            if samples is not None and book is not None:
                alike = [c for c in cells if all(c[n] == full[n] for n in PanelKey._fields)]
                methods = {m: [c for c in alike if c["method"] == m] for m in run.about["methods"]}
                classes = run.about["sets"][name]["classes"]
                drawn += _panel(folder, samples, book, full, methods, classes)
        if drawn and samples is not None and book is not None:
            # Both codings share the codebook.
            key = {"set": name, "split": first, "full_words": n_words}
            drawn.append(codebook_line(key, samples, book, drawn))
        lines += drawn
    return lines


_INTS, _NUMBERS = [Number(whole=True)], [Number()]
_KEY = {
    **dict.fromkeys(("set?", "coding?", "method?"), (None, str)),
    **dict.fromkeys(("full_words?", "size?", "split?"), (None, Number(0, whole=True))),
}
_BOOK = {**_KEY, "n_dims": Number(1, whole=True), "ids": _INTS, "values": str}
_SHAPES = {
    "codebook": _BOOK,
    "words": {
        **_BOOK,
        "method": str,
        "size": Number(1, whole=True),
        **dict.fromkeys(("mass", "kept_mass"), _NUMBERS),
        "from": [list],
        "pruned": [list],
        "n_pruned": Number(0, whole=True),
    },
    "image": {**_KEY, "method": str, **dict.fromkeys(("x", "y"), _NUMBERS), "patch": Number()},
    "trace": {
        **_KEY,
        "method": str,
        "size": Number(1, whole=True),
        "score": [(None, Number())],
        "score_name?": (None, str),
        **dict.fromkeys(("step?", "accepted?", "temperature?"), (None, _NUMBERS)),
    },
}


def _checked(path: Path, number: int, line: Any, run: Run) -> Line:
    """Return a recorded line, or raise a FormatError where no drawing can be made from it."""
    remedy = "the page is then made without its drawing."
    check_line(path, number, line, {"kind": str}, remedy)
    check_line(path, number, line, _SHAPES.get(line["kind"], dict), remedy)
    try:
        if line["kind"] in ("words", "codebook"):
            dict(zip(line["ids"], glyphs(line["values"], line["n_dims"]), strict=True))
        if line["kind"] == "words":
            named_words([line])
        if line["kind"] == "trace":
            n_points = len(line["score"])
            steps, *others = (line.get(name) or () for name in ("step", "accepted", "temperature"))
            if len(steps) not in (0, n_points) or max(map(len, others)) > n_points:
                raise ValueError("its lists have different lengths")
            if line["method"] not in run.about["methods"]:
                raise ValueError(f"{line['method']!r} is no method of the run")
    except (ValueError, TypeError, LookupError) as error:
        raise FormatError(f"{path}, line {number}: {error}. Remove that line; {remedy}") from error
    checked: Line = line
    return checked


def _panel(
    folder: Path,
    samples: Samples,
    full: Codebook,
    full_cell: Line,
    methods: Mapping[str, Sequence[Line]],
    classes: Sequence[str],
) -> list[Line]:
    before = samples.codes(full)
    lines: list[Line] = []
    n_drawn = 0
    for method, cells in methods.items():
        after: dict[str, NDArray[np.int64]] = {}
        guess = {FULL: full_cell.get("answers")}
        for cell in cells if method != FULL and n_drawn < MOST_METHODS else ():
            small = _codebook(folder, cell) if cell["codes_with"] == "pruned" else None
            if small is not None and _is_pruned(small, full):
                size = str(cell["size"])
                after[size], guess[size] = samples.codes(small), cell.get("answers")
                line = words_line(key_of(cell)._asdict(), full, small, before, after[size])
                lines.append({**line, "patches": patches(samples, small)})
        n_drawn += bool(after)
        if after and samples.sizes.all():
            key = {**key_of(full_cell)._asdict(), "method": method, "size": None}
            lines.append(image_line(key, samples, full.ids[before], after, guess, classes))
    return lines


def _codebook(folder: Path, cell: Line) -> Codebook | None:
    path = codebook_path(folder, key_of(cell))
    return load(path) if path.is_file() else None


def _is_pruned(small: Codebook, full: Codebook) -> bool:
    """Return whether words come from the full codebook: chosen, or chosen and moved."""
    if not np.isin(small.ids, full.ids).all():
        return False
    shared = (small.words == full.only(small.ids).words).all(axis=1).any()
    # A codebook trained from scratch numbers its words from 0 and shares none.
    return bool(shared or not np.array_equal(small.ids, np.arange(small.n_words)))


def read_samples(folder: Path, name: str) -> Samples | None:
    """Return the sample images of a set; None if there are none."""
    path = folder / "samples" / f"{name}.npz"
    if not path.is_file():
        return None
    try:
        with NpzReader(path) as file:
            bags = Bags(file["descriptors"], file["offsets"], scale=float(file["scale"]))
            where = np.split(file["positions"], bags.offsets[1:-1])
            shapes = file["pixel_shapes"]
            pixels = np.split(file["pixels"], np.cumsum(shapes.prod(axis=1))[:-1])
            images = [p.reshape(s) if len(p) else None for p, s in zip(pixels, shapes, strict=True)]
            paths = [bytes(p).decode("utf-8", "replace") for p in file["paths"]]
            return Samples(bags, where, file["labels"], paths, file["sizes"], images)
    except Exception as error:
        raise FormatError(
            f"{path} cannot be read ({error}). Remove it; the page is then made without words."
        ) from error


def words_line(
    key: Line, full: Codebook, small: Codebook, before: NDArray[np.int64], after: NDArray[np.int64]
) -> Line:
    """Return the words of a pruned codebook, and which words they inherit from.

    ``before`` and ``after`` are the positions of each descriptor's nearest word. ``from`` has up to
    4 ``[id, share of this word's descriptors]`` per word; ``pruned`` up to 48 ``[id, mass it had,
    column of the inheriting word, share that it inherits]``.
    """
    n = len(before)
    kept = full.positions(small.ids)
    had = np.bincount(before, minlength=full.n_words)
    has = np.bincount(after, minlength=small.n_words)
    pairs, counts = np.unique(before * small.n_words + after, return_counts=True)
    sources: list[list[list[Any]]] = [[] for _ in range(small.n_words)]
    heaviest: dict[int, list[Any]] = {}
    for pair in np.argsort(-counts, kind="stable"):
        giver, taker = divmod(int(pairs[pair]), small.n_words)
        word = int(full.ids[giver])
        if len(sources[taker]) < N_SOURCES:
            sources[taker].append([word, _share(counts[pair], has[taker])])
        part = _share(counts[pair], had[giver])
        heaviest.setdefault(giver, [word, _share(had[giver], n), taker, part])
    gone = np.setdiff1d(np.arange(full.n_words), kept)
    by_mass = gone[np.argsort(-had[gone], kind="stable")].tolist()
    return {
        "kind": "words",
        **key,
        "n_dims": small.unprojected_words.shape[1],
        "ids": small.ids.tolist(),
        "values": _base64(_bytes(small, full).tobytes()),
        "moved": not np.array_equal(small.words, full.words[kept]),
        "mass": [_share(count, n) for count in has],
        "kept_mass": [_share(count, n) for count in had[kept]],
        "from": sources,
        "pruned": [heaviest[word] for word in by_mass if word in heaviest][:N_PRUNED],
        "n_pruned": len(gone),
    }


def codebook_line(key: Line, samples: Samples, full: Codebook, lines: Sequence[Line]) -> Line:
    """Return the words of a full codebook, with patches of those that ``lines`` name."""
    named = full.only(named_words(line for line in lines if line["kind"] == "words"))
    return {
        "kind": "codebook",
        **key,
        "n_dims": full.unprojected_words.shape[1],
        "ids": full.ids.tolist(),
        "values": _base64(_bytes(full, full).tobytes()),
        "patches": patches(samples, named),
    }


def image_line(
    key: Line,
    samples: Samples,
    before: NDArray[np.int64],
    after: Mapping[str, NDArray[np.int64]],
    guess: Mapping[str, Sequence[str] | None],
    classes: Sequence[str],
) -> Line:
    """Return one image: its patches, and their words before and after.

    Of the first images of each class it is the first by path that the full codebook recognises,
    else the first by path: a rule that ignores what the pruned codebooks make of it.
    """
    names = [classes[label] for label in samples.labels[: len(np.unique(samples.labels))]]
    right = [name == found for name, found in zip(names, guess[FULL] or names, strict=True)]
    filled = samples.bags.counts > 0
    *_, row = min((not (ok and filled[i]), samples.paths[i], i) for i, ok in enumerate(right))
    part = slice(samples.bags.offsets[row], samples.bags.offsets[row + 1])
    where, grey = samples.positions[row], samples.pixels[row]
    width, height = samples.sizes[row].tolist()
    return {
        "kind": "image",
        **key,
        "name": samples.paths[row],
        "class": names[row],
        "width": width,
        "height": height,
        "jpeg": None if grey is None else _encoded(".jpg", grey, cv2.IMWRITE_JPEG_QUALITY, 70),
        "patch": float(np.median(where[:, 2])) if len(where) else 0.0,
        "x": np.round(where[:, 0].astype(float), 1).tolist(),
        "y": np.round(where[:, 1].astype(float), 1).tolist(),
        "before": before[part].tolist(),
        "after": {size: codes[part].tolist() for size, codes in after.items()},
        "guess": {name: found[row] for name, found in guess.items() if found} or None,
    }


def named_words(lines: Iterable[Line]) -> list[int]:
    """Return the words of the full codebook that lines of words name, in order."""
    named: dict[int, None] = {}
    for line in lines:
        named.update(dict.fromkeys(row[0] for row in line["pruned"][:N_PRUNED]))
        named.update(dict.fromkeys(word for row in line["from"] for word, _ in row))
    return list(named)[:MOST_OF_A_BOOK]


def patches(samples: Samples, book: Codebook) -> dict[str, Any] | None:
    """Return a sprite with a tile per word, row by row; None without pixels."""
    usable = (samples.bags.counts > 0) & samples.sizes.all(axis=1)
    images = [i for i, grey in enumerate(samples.pixels) if grey is not None and usable[i]]
    if not images:
        return None
    bags = book.project(samples.bags)
    words = book.words_for(bags)
    found = [pairwise_distances_argmin_min(words, bags[i].astype("f4")) for i in images]
    best = np.argsort([distance for _, distance in found], axis=0, kind="stable")
    side = 2 if len(images) >= 4 else 1
    cell, columns = TILE // side, math.isqrt(book.n_words - 1) + 1
    rows = -(-book.n_words // columns)
    sprite = np.full((TILE * rows, TILE * columns), MID_GREY, dtype=np.uint8)
    for word in range(book.n_words):
        for rank, place in enumerate(best[: side * side, word]):
            y = TILE * (word // columns) + cell * (rank // side)
            x = TILE * (word % columns) + cell * (rank % side)
            piece = _patch(samples, images[place], found[place][0][word], cell, book.is_sift)
            sprite[y : y + cell, x : x + cell] = piece
    png = _encoded(".png", sprite, cv2.IMWRITE_PNG_COMPRESSION, 9)
    return {"ids": book.ids.tolist(), "columns": columns, "rows": rows, "png": png}


def _patch(samples: Samples, row: int, place: int, side: int, normalise: bool) -> NDArray[Any]:
    """Cut a patch out of an image, and resize it to ``side`` pixels."""
    grey = samples.pixels[row]
    assert grey is not None
    x, y, size = samples.positions[row][place].tolist()
    zoom = grey.shape[1] / samples.sizes[row][0]
    length = max(1, round(size * zoom))
    begin = ((centre + 0.5) * zoom - length / 2 for centre in (y, x))
    pixels = (
        np.clip(math.floor(start + 0.5) + np.arange(length), 0, limit - 1)
        for start, limit in zip(begin, grey.shape, strict=True)
    )
    how = cv2.INTER_AREA if length >= side else cv2.INTER_LINEAR
    piece = cv2.resize(grey[np.ix_(*pixels)], (side, side), interpolation=how)
    if not normalise:
        return piece
    away = piece - piece.mean()
    gain = min(CONTRAST / max(float(away.std()), 1e-9), MAX_GAIN)
    return np.asarray(np.clip(np.rint(MID_GREY + gain * away), 0, 255))


def _bytes(book: Codebook, full: Codebook) -> NDArray[np.uint8]:
    """Return words as bytes that compare with those of ``full``."""
    low, high = 0.0, LARGEST
    if not full.is_sift:
        shown = full.unprojected_words / full.scale
        low, high = min(0.0, shown.min()), shown.max()
    values = (book.unprojected_words / np.float64(book.scale) - low) / ((high - low) or 1.0)
    return np.clip(np.rint(255 * values), 0, 255).astype(np.uint8)


def _share(part: float, whole: float) -> float:
    """Return part / whole to four significant digits; 0 of nothing."""
    return float(f"{part / whole:.4g}") if whole else 0.0


def _encoded(suffix: str, grey: NDArray[np.uint8], *options: int) -> str:
    return _base64(cv2.imencode(suffix, grey, options)[1].tobytes())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def glyphs(values: str, n_dims: int) -> list[str]:
    """Return a base64 string per word: two dimensions per byte, 16 steps of the square root."""
    words = np.frombuffer(base64.b64decode(values), dtype=np.uint8).reshape(-1, n_dims)
    steps = np.rint(15 * np.sqrt(words / 255.0)).astype(np.uint8)
    steps = np.pad(steps, ((0, 0), (0, n_dims % 2)))
    packed = (steps[:, ::2] << 4) | steps[:, 1::2]
    return [_base64(row.tobytes()) for row in packed]


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
    faces = {word: drawn[word] for word in named_words(sizes) if word in drawn}
    return {"dims": line["n_dims"], "glyphs": faces, "patches": line.get("patches")}


def _image(line: Line) -> dict[str, Any]:
    fields = ("name", "class", "width", "height", "jpeg", "x", "y", "before", "after", "guess")
    gaps = [np.diff(np.unique(np.round(line[axis], 1))) for axis in ("x", "y")]
    step = [float(gap.min()) if len(gap) else float(line["patch"]) for gap in gaps]
    return {**{name: line.get(name) for name in fields}, "step": step}
