"""A run's folder written by hand, with every record that a comparison leaves.

Accuracies follow a rule that a test can repeat: of 100 test images per class, ``right(...)`` are
recognised, so the accuracy of a cell is a mean of percentages.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bowsaw.comparison.records import FORMAT, SCHEMA

N_TEST, N_DIMS = 100, 128
"""Test images per class, and dimensions of a descriptor."""
REACHED = {
    "full": 74,
    "refinement": 72,
    "annealing": 66,
    "paper": 62,
    "presence": 52,
    "bottleneck": 70,
    "random": 63,
    "kmeans": 65,
}
"""Percentage recognised at the largest size, before the size, the split and the class."""
CODES_WITH_FULL = ("full", "presence", "bottleneck")
OURS = ("refinement", "annealing")
SMALL = ["full", "refinement", "annealing", "presence", "random", "kmeans"]
LARGE = ["full", "paper", "refinement", "presence", "bottleneck", "random", "kmeans"]
WORDS = {False: [200], True: [1000, 5000]}
SETS = {
    False: {"scenes": ["beach", "city", "forest", "indoor"]},
    True: {
        "15-Scenes": [f"scene {i:02}" for i in range(15)],
        "Caltech-10": [f"object {i}" for i in range(10)],
    },
}
CODINGS = ("hard", "soft")


def right(method: str, place: int, split: int, label: int, *, coding: str, raw: bool) -> int:
    """Return how many of 100 images of a class are recognised; place 0 is the largest size."""
    value = REACHED[method] - (0 if method == "full" else 2 * place)
    return value + split - label % 3 - 3 * raw + (coding == "soft")


def made_run(
    folder: Path,
    *,
    large: bool = False,
    details: bool = True,
    splits: int = 3,
    sizes: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    raw: Sequence[str] | None = None,
    folds: bool = False,
) -> Path:
    """Write a run and return its folder.

    ``large`` has two sets and two full codebooks; ``classes`` replaces the classes of every set;
    ``raw`` names the methods that were measured with raw histograms, by default all. With ``folds``
    the splits are folds.
    """
    sizes = list(sizes or ([10, 20, 50, 100, 200, 500] if large else [10, 20, 50]))
    methods = list(methods or (LARGE if large else SMALL))
    sets = {name: list(classes or known) for name, known in SETS[large].items()}
    folder.mkdir(parents=True, exist_ok=True)
    about = _about(sets, WORDS[large], sizes, methods, splits)
    (folder / "run.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    cells = []
    for name, coding, words, split, method in product(
        sets, CODINGS, WORDS[large], range(splits), methods
    ):
        for size in [words] if method == "full" else sizes:
            place = 0 if method == "full" else len(sizes) - 1 - sizes.index(size)
            cell = _cell((name, split, coding, words, method, size), len(sets[name]), place)
            if folds:
                cell["n_folds"] = splits
            if raw is not None and method not in raw:
                del cell["results"]["raw"]
            cells.append(cell)
    _write(folder / "cells.jsonl", cells)
    if details:
        _write(folder / "details.jsonl", _details(sets, WORDS[large], sizes, methods))
    return folder


def _write(path: Path, lines: Any) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def _about(sets: Any, words: list[int], sizes: list[int], methods: list[str], splits: int) -> Any:
    descriptor = {"name": "dense-sift", "patch": 16, "step": 8}
    about_sets = {
        name: {
            "classes": classes,
            "n_images": 200 * len(classes),
            "n_dims": N_DIMS,
            "n_train": 50 * len(classes),
            "descriptor": descriptor,
        }
        for name, classes in sets.items()
    }
    about_methods = {
        method: {
            "title": method,
            "summary": f"{method.capitalize()}, in one sentence.",
            "codes_with": _codes_with(method),
            "ours": method in OURS,
        }
        for method in methods
    }
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "command": f'bowsaw compare "images & more" --sizes {",".join(map(str, sizes))} -o run/',
        "created": "2026-01-02T03:04:05+00:00",
        "seconds": 3600.0,
        "machine": {"processor": "made", "cores": 2, "memory_bytes": 8 * 2**30},
        "versions": {"bowsaw": "made", "numpy": "2.0.0"},
        "parameters": {"seed": 0, "splits": splits, "sizes": sizes, "words": words},
        "sets": about_sets,
        "methods": about_methods,
    }


def _codes_with(method: str) -> str:
    return "full" if method in CODES_WITH_FULL else "pruned"


def _cell(key: tuple[str, int, str, int, str, int], n_classes: int, place: int) -> dict[str, Any]:
    names = ("set", "split", "coding", "full_words", "method", "size")
    _, split, coding, words, method, size = key
    n_coding = words if method in CODES_WITH_FULL else size
    results = {}
    for view in ("sqrt", "raw"):
        confusion = np.zeros((n_classes, n_classes), dtype=int)
        for label in range(n_classes):
            n = right(method, place, split, label, coding=coding, raw=view == "raw")
            confusion[label, label] = n
            confusion[label, (label + 1) % n_classes] += N_TEST - n
        accuracy = float(np.mean(np.diag(confusion) / N_TEST))
        results[view] = {"accuracy": accuracy, "confusion": confusion.tolist(), "C": 4.0}
    certificate = {"n_bags": 50, "mean": 1e-8, "worst": 3e-8, "allowed": 1e-6, "holds": True}
    if method == "paper":
        certificate |= {"mean": 0.4, "worst": 0.9, "allowed": None, "holds": None}
    costs = {"codebook_seconds": 60.0, "code_ms": 0.2 + n_coding / 100, "classify_seconds": 1.0}
    costs |= {"select_seconds": 0.0 if method == "full" else 10.0 + split}
    return {
        **dict(zip(names, key, strict=True)),
        "n_columns": size,
        "n_coding_words": n_coding,
        "codes_with": _codes_with(method),
        "codebook_bytes": n_coding * N_DIMS * 4,
        "n_codebook": 50 * n_classes,
        "n_train": 50 * n_classes,
        "n_test": N_TEST * n_classes,
        "sharpness": 40.0 if coding == "soft" else None,
        "results": results,
        "score": None,
        "certificate": certificate if method in (*OURS, "paper") else None,
        "seed": 0,
        "parameters": {"n_kept": size},
        "costs": costs,
        "fingerprint": "f" * 16,
    }


def _base64(values: Any) -> str:
    return base64.b64encode(bytes(values)).decode("ascii")


def _values(words: Sequence[int]) -> str:
    """Return the bytes of words, each strong in one direction."""
    rows = []
    for i in words:
        random = np.random.default_rng(i)
        cells = random.gamma(0.6, 40, (16, 8))
        cells[:, int(random.integers(8))] += 90 * random.random(16)
        rows.append(np.minimum(cells, 255).astype(np.uint8).tobytes())
    return _base64(b"".join(rows))


def kept(size: int, words: int) -> list[int]:
    """Return which words of the full codebook are kept, spread over all of them."""
    return [(7 * i + 3) % words for i in range(size)]


def _details(
    sets: dict[str, list[str]], all_words: list[int], sizes: list[int], methods: list[str]
) -> Iterator[dict[str, Any]]:
    method = next((m for m in methods if m in OURS), methods[-1])
    for name, classes in sets.items():
        for words in all_words:
            book = {"set": name, "split": 0, "full_words": words}
            ids = list(range(words))
            yield {"kind": "codebook", **book, "n_dims": N_DIMS, "ids": ids, "values": _values(ids)}
            for coding in CODINGS:
                for size in sizes:
                    yield _words({**book, "coding": coding, "method": method, "size": size})
            yield _image({**book, "method": method}, classes, sizes)
            for traced in [m for m in ("refinement", "paper", "annealing") if m in methods]:
                yield _trace({**book, "coding": "hard", "method": traced, "size": sizes[-1]})


def _words(key: dict[str, Any]) -> dict[str, Any]:
    words, size = key["full_words"], key["size"]
    ids = kept(size, words)
    gone = [i for i in range(words) if i not in set(ids)][:200]
    return {
        "kind": "words",
        **key,
        "n_dims": N_DIMS,
        "ids": ids,
        "values": _values(ids),
        "moved": True,
        "mass": [1 / size] * size,
        "kept_mass": [1 / words] * size,
        "from": [[[i, 0.5], [(i + 1) % words, 0.3], [(i + 2) % words, 0.2]] for i in ids],
        "pruned": [[i, 1 / words, i % size, 0.75] for i in gone],
        "n_pruned": words - size,
        "patches": _patches(ids) if key["coding"] == "soft" else None,
    }


def _patches(ids: list[int]) -> dict[str, Any]:
    """Return a column of tiles, each of the grey of its word's place."""
    tiles = np.repeat(np.arange(len(ids), dtype=np.uint8), 24)[:, None] * np.ones(24, np.uint8)
    png = _base64(cv2.imencode(".png", tiles)[1])
    return {"ids": ids, "columns": 1, "rows": len(ids), "png": png}


def _image(key: dict[str, Any], classes: list[str], sizes: list[int]) -> dict[str, Any]:
    width, height = 200, 120
    y, x = (grid.ravel() for grid in np.mgrid[8 : height - 7 : 8, 8 : width - 7 : 8])
    rows, columns = np.mgrid[:height, :width]
    grey = 128 + 60 * np.sin(columns / 9) + 60 * np.cos(rows / 13)
    guess = {"full": classes[0], **{str(size): classes[0] for size in sizes}}
    return {
        "kind": "image",
        **key,
        "name": f"{classes[0]}/image 1.jpg",
        "class": classes[0],
        "width": width,
        "height": height,
        "jpeg": _base64(cv2.imencode(".jpg", grey.astype(np.uint8))[1]),
        "patch": 16.0,
        "x": x.tolist(),
        "y": y.tolist(),
        "before": ((x * 31 + y * 17) % key["full_words"]).tolist(),
        "after": {str(size): ((x // 24 + 3 * (y // 24)) % size).tolist() for size in sizes},
        "guess": guess | {str(sizes[0]): classes[-1]},
    }


def _trace(key: dict[str, Any]) -> dict[str, Any]:
    steps = range(400)
    score = [-1 + 0.5 * (1 - 0.99**step) for step in steps]
    line = {"kind": "trace", **key, "score": score, "score_name": "relevance"}
    if key["method"] == "refinement":
        return line
    accepted = [int(step % (2 + step // 50) == 0) for step in steps]
    return {**line, "accepted": accepted, "temperature": [0.98**step for step in steps]}
