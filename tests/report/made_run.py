"""A run folder made by hand: no experiment, but every line that one would leave.

Accuracies follow a rule that a test can repeat: a class of 100 test images has ``right(...)`` of
them right, so the accuracy of a cell is the mean of whole percentages.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

N_TEST = 100
"""Test images of a class."""
N_DIMS = 128
REACHED = {
    "full": 74,
    "refined": 72,
    "annealed": 66,
    "published": 62,
    "yang": 52,
    "bottleneck": 70,
    "random": 63,
    "retrained": 65,
}
"""Percentage right at the largest size, before what the size, the split and the class take away."""
TITLES = {
    "full": "all words",
    "refined": "refined words",
    "annealed": "annealed words",
    "published": "Algorithm 1 as published",
    "yang": "presence ranking",
    "bottleneck": "information bottleneck",
    "random": "random words",
    "retrained": "k-means at the size itself",
}
CODES_WITH_FULL = ("full", "yang", "bottleneck")
OURS = ("refined", "annealed")
METHODS = {
    "compare": ["full", "refined", "annealed", "yang", "random", "retrained"],
    "reproduce": ["full", "published", "refined", "yang", "bottleneck", "random", "retrained"],
}
SIZES = {"compare": [10, 20, 50], "reproduce": [10, 20, 50, 100, 200, 500]}
WORDS = {"compare": [200], "reproduce": [1000, 5000]}
SETS = {
    "compare": {"scenes": ["beach", "city", "forest", "indoor"]},
    "reproduce": {
        "15-Scenes": [f"scene {i:02}" for i in range(15)],
        "Caltech-10": [f"object {i}" for i in range(10)],
    },
}


def right(method: str, place: int, split: int, label: int, *, coding: str, raw: bool) -> int:
    """Return how many of 100 images of a class are right; place 0 is the largest size."""
    value = REACHED[method] - (0 if method == "full" else 2 * place)
    return value + split - label % 3 - 3 * raw + (coding == "soft")


def made_run(
    folder: Path,
    kind: str = "compare",
    *,
    details: bool = True,
    splits: int = 3,
    sizes: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    pixels: bool | None = None,
    raw: Sequence[str] | None = None,
) -> Path:
    """Write a whole run and return its folder.

    ``classes`` takes the place of the classes of every set; ``pixels`` says whether words come
    with patches and images with their picture, by default only where ``kind`` is compare; ``raw``
    names the methods that were measured with raw histograms, by default all.
    """
    sizes = list(sizes or SIZES[kind])
    methods = list(methods or METHODS[kind])
    sets = {name: list(classes or known) for name, known in SETS[kind].items()}
    pixels = kind == "compare" if pixels is None else pixels
    folder.mkdir(parents=True, exist_ok=True)
    about = _about(kind, sets, sizes, methods, splits)
    (folder / "run.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    cells = list(_cells(kind, sets, sizes, methods, splits))
    for cell in cells:
        if raw is not None and cell["method"] not in raw:
            del cell["results"]["raw"]
    _write(folder / "cells.jsonl", cells)
    if kind == "reproduce":
        _write(folder / "probes.jsonl", ({"probe": "made", "set": n, "seconds": 1.0} for n in sets))
    if details:
        _write(folder / "details.jsonl", _details(kind, sets, sizes, methods, pixels))
    return folder


def _write(path: Path, lines: Any) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def _about(
    kind: str, sets: dict[str, list[str]], sizes: list[int], methods: list[str], splits: int
) -> dict[str, Any]:
    return {
        "format": "bowsaw-arena",
        "schema": 1,
        "kind": kind,
        "command": f'bowsaw {kind} "pictures & more" --sizes {",".join(map(str, sizes))} -o run/',
        "created": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T04:04:05+00:00",
        "seconds": 3600.0,
        "machine": {
            "processor": "a made processor",
            "cores": 2,
            "memory_bytes": 8 * 2**30,
            "system": "Linux",
        },
        "versions": {"bowsaw": "made", "numpy": "2.0.0", "python": "3.11.7"},
        "parameters": {
            "seed": 0,
            "codebook_images": 50,
            "train": 50,
            "splits": splits,
            "sizes": sizes,
            "codings": ["hard", "soft"],
            "words": WORDS[kind],
            "methods": methods,
            "sharpness": 40.0,
            "kmeans": {"n_iterations": 20},
        },
        "sets": {
            name: {
                "classes": classes,
                "n_images": 200 * len(classes),
                "n_descriptors": 180_000 * len(classes),
                "n_dims": N_DIMS,
                "digest": "0123456789abcdef",
                "n_codebook": 50 * len(classes),
                "n_train": 50 * len(classes),
                "descriptor": {"name": "DenseSift", "patch": 16, "step": 8},
                "n_set_aside": 0,
                "extract_seconds": 12.5,
            }
            for name, classes in sets.items()
        },
        "methods": {
            method: {
                "title": TITLES[method],
                "about": f"{TITLES[method].capitalize()}, told in one sentence.",
                "codes_with": "full" if method in CODES_WITH_FULL else "pruned",
                "ours": method in OURS,
                "reference": "Yang et al. 2007" if method == "yang" else None,
                "settings": {"n_steps": 300} if method in OURS else {},
            }
            for method in methods
        },
    }


def panels(kind: str, sets: dict[str, list[str]]) -> Iterator[tuple[str, str, int]]:
    for name in sets:
        for coding in ("hard", "soft"):
            for words in WORDS[kind]:
                yield name, coding, words


def _cells(
    kind: str, sets: dict[str, list[str]], sizes: list[int], methods: list[str], splits: int
) -> Iterator[dict[str, Any]]:
    for name, coding, words in panels(kind, sets):
        for split in range(splits):
            for method in methods:
                for size in [words] if method == "full" else sizes:
                    place = len(sizes) - 1 - sizes.index(size) if method != "full" else 0
                    key = (name, split, coding, words, method, size)
                    yield _cell(key, len(sets[name]), place)


def _cell(key: tuple[str, int, str, int, str, int], n_classes: int, place: int) -> dict[str, Any]:
    name, split, coding, words, method, size = key
    whole = method in CODES_WITH_FULL
    n_coding = words if whole else size
    results = {}
    for view in ("sqrt", "raw"):
        confusion = np.zeros((n_classes, n_classes), dtype=int)
        for label in range(n_classes):
            n = right(method, place, split, label, coding=coding, raw=view == "raw")
            confusion[label, label] = n
            confusion[label, (label + 1) % n_classes] += N_TEST - n
        shares = (np.diag(confusion) / N_TEST).tolist()
        results[view] = {
            "accuracy": float(np.mean(shares)),
            "class_accuracy": shares,
            "confusion": confusion.tolist(),
            "C": 4.0,
            "C_grid": [1.0, 4.0, 16.0],
            "C_scores": [0.5, 0.6, 0.55],
        }
    searched = method in ("refined", "annealed", "published")
    certificate = {"n_bags": 50, "mean": 1e-8, "worst": 3e-8, "allowed": 1e-6, "holds": True}
    if method == "published":
        certificate = {"n_bags": 50, "mean": 0.4, "worst": 0.9, "allowed": None, "holds": None}
    return {
        "set": name,
        "split": split,
        "coding": coding,
        "full_words": words,
        "method": method,
        "size": size,
        "n_columns": size,
        "n_coding_words": n_coding,
        "codes_with": "full" if whole else "pruned",
        "codebook_bytes": n_coding * N_DIMS * 4,
        "n_codebook": 50 * n_classes,
        "n_train": 50 * n_classes,
        "n_test": N_TEST * n_classes,
        "sharpness": 40.0 if coding == "soft" else None,
        "results": results,
        "score": -0.5 - place / 10 if searched else None,
        "certificate": certificate if searched else None,
        "seed": None if method == "full" else 0,
        "parameters": {"n_kept": size},
        "costs": {
            "select_seconds": 0.0 if method == "full" else 10.0 + split,
            "codebook_seconds": 60.0,
            "code_ms": 0.2 + n_coding / 100,
            "classify_seconds": 1.0,
            "peak_bytes": None if method == "full" else 500_000_000,
        },
        "fingerprint": "f" * 16,
    }


def _base64(values: Any) -> str:
    return base64.b64encode(bytes(values)).decode("ascii")


def _pattern(i: int) -> bytes:
    """The values of a word: strong where it has an edge, weak elsewhere."""
    random = np.random.default_rng(i)
    cells = random.gamma(0.6, 40, (16, 8))
    cells[:, int(random.integers(8))] += 90 * random.random(16)
    return np.minimum(cells, 255).astype(np.uint8).tobytes()


def _sprite(ids: Sequence[int], columns: int, tile: int) -> str:
    rows = -(-len(ids) // columns)
    sheet = np.full((rows * tile, columns * tile), 128, np.uint8)
    y, x = np.mgrid[:tile, :tile] / tile
    for place, i in enumerate(ids):
        angle, waves = i * 2.4, 1 + i % 4
        wave = np.sin(2 * np.pi * waves * (x * np.cos(angle) + y * np.sin(angle)))
        top, left = tile * (place // columns), tile * (place % columns)
        sheet[top : top + tile, left : left + tile] = 128 + 90 * wave
    return _base64(cv2.imencode(".png", sheet)[1])


def kept(size: int, words: int) -> list[int]:
    """Return which words of the full codebook survive, spread over all of them."""
    return [(7 * i + 3) % words for i in range(size)]


def _details(
    kind: str, sets: dict[str, list[str]], sizes: list[int], methods: list[str], pixels: bool
) -> Iterator[dict[str, Any]]:
    method = next((m for m in methods if m in OURS), methods[-1])
    for name, classes in sets.items():
        for words in WORDS[kind]:
            values = [_pattern(i) for i in range(words)]
            book = {"set": name, "split": 0, "full_words": words}
            yield {
                "kind": "codebook",
                **book,
                "n_dims": N_DIMS,
                "ids": list(range(words)),
                "values": _base64(b"".join(values)),
                "mass": [1 / words] * words,
            }
            if pixels:
                sheet = {"tile": 24, "columns": 20, "n_each": 9}
                everything = _sprite(range(words), 20, 24)
                yield {"kind": "patches", **book, "method": None, "size": None, **sheet} | {
                    "png": everything
                }
            for coding in ("hard", "soft"):
                for size in sizes:
                    yield _words(book, coding, method, size, values)
            for size in sizes if pixels else []:
                sprite = _sprite(kept(size, words), 20, 24)
                yield {"kind": "patches", **book, "method": method, "size": size, **sheet} | {
                    "png": sprite
                }
            yield _image(book, method, classes, sizes, pixels)
            for traced in [m for m in ("refined", "published", "annealed") if m in methods]:
                yield _trace(book, traced, sizes[-1])


def _words(
    book: dict[str, Any], coding: str, method: str, size: int, values: list[bytes]
) -> dict[str, Any]:
    words = book["full_words"]
    ids = kept(size, words)
    stays = set(ids)
    gone = [i for i in range(words) if i not in stays][:200]
    return {
        "kind": "words",
        **book,
        "coding": coding,
        "method": method,
        "size": size,
        "n_dims": N_DIMS,
        "ids": ids,
        "values": _base64(b"".join(values[i] for i in ids)),
        "moved": True,
        "mass": [1 / size] * size,
        "kept_mass": [1 / words] * size,
        "from": [[[i, 0.5], [(i + 1) % words, 0.3], [(i + 2) % words, 0.2]] for i in ids],
        "pruned": [[i, 1 / words, i % size, 0.75] for i in gone],
        "n_pruned": words - size,
    }


def _image(
    book: dict[str, Any], method: str, classes: list[str], sizes: list[int], pixels: bool
) -> dict[str, Any]:
    width, height, words = 200, 120, book["full_words"]
    x, y = np.meshgrid(np.arange(8, width - 7, 8), np.arange(8, height - 7, 8))
    x, y = x.ravel(), y.ravel()
    jpeg = None
    if pixels:
        rows, columns = np.mgrid[:height, :width]
        picture = 128 + 60 * np.sin(columns / 9) + 60 * np.cos(rows / 13)
        jpeg = _base64(cv2.imencode(".jpg", picture.astype(np.uint8))[1])
    return {
        "kind": "image",
        **book,
        "method": method,
        "name": f"{classes[0]}/picture 1.jpg",
        "class": classes[0],
        "width": width,
        "height": height,
        "jpeg": jpeg,
        "patch": 16.0,
        "x": x.tolist(),
        "y": y.tolist(),
        "before": ((x * 31 + y * 17) % words).tolist(),
        "after": {str(size): ((x // 24 + 3 * (y // 24)) % size).tolist() for size in sizes},
        "guess": {"full": classes[0], **{str(size): classes[-1] for size in sizes[:1]}}
        | {str(size): classes[0] for size in sizes[1:]},
    }


def _trace(book: dict[str, Any], method: str, size: int) -> dict[str, Any]:
    n_steps = 400
    annealed = method != "refined"
    return {
        "kind": "trace",
        **book,
        "coding": "hard",
        "method": method,
        "size": size,
        "score": [-1 + 0.5 * (1 - 0.99**step) for step in range(n_steps)],
        "accepted": [int(step % (2 + step // 50) == 0) for step in range(n_steps)]
        if annealed
        else None,
        "temperature": [0.98**step for step in range(n_steps)] if annealed else None,
        "score_name": "relevance",
    }
