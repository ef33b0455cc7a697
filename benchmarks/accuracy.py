"""Accuracy of small codebooks on the two benchmarks, by the protocol, one cell at a time.

python -m benchmarks.accuracy --work DIR         measure what is not there yet, write the page
python -m benchmarks.accuracy --draw             write the page and the tables of docs/choosing.md
python -m benchmarks.accuracy -o DIR --sizes 20 --methods refined,random --codings hard --splits 2

``BOWSAW_SCENE15`` and ``BOWSAW_CALTECH101`` name the folders of classes; a set that is not there is
left out. A cell is (set, split, coding, size, method): the same splits, full codebook (k-means on
the codebook's images) and classifier (C chosen on the codebook's images) for every method. Cells
are lines of ``cells.jsonl``; descriptors and codebooks are kept in a folder of work, so a run that
was killed goes on where it was. ``ACCURACY.md`` is made of the cells alone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bowsaw as bs
from benchmarks.accuracy_page import write_into, write_page
from bowsaw.evaluation.classify import HistogramClassifier
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.images.split import Split
from bowsaw.selection.base import Selector
from bowsaw.selection.merging import Bottleneck

SETS = {"15-Scenes": ("BOWSAW_SCENE15", 50), "Caltech-10": ("BOWSAW_CALTECH101", 25)}
SIZES = (20, 50, 100, 200, 500, 1000)
CODINGS = ("hard", "soft")
METHODS = ("refined", "random", "retrained", "annealed", "bottleneck", "full")
SHARPNESS = 40.0
HERE = Path(__file__).resolve().parent
CHUNK = 1000
"""Images that are coded at a time."""


def steps_of(size: int) -> int:
    """Return how many steps words are refined: one costs more the more words there are."""
    for most, n_steps in ((20, 200), (100, 300), (200, 150), (500, 60)):
        if size <= most:
            return n_steps
    return 40


class Bench:
    """One split of one set: its bags, its full codebook and its classifier."""

    def __init__(self, folder: Path, name: str, index: int, n_words: int) -> None:
        variable, n_each = SETS[name]
        self.folder, self.name, self.index, self.n_words = folder, name, index, n_words
        images = bs.ImageFolder(os.environ[variable])
        self._store = bs.extract(images, bs.DenseSift(), folder / f"{name}.store")
        self.y = np.asarray(self._store.y, dtype=np.int64)
        self.split: Split = self._store.split(codebook=n_each, train=n_each, seed=0, index=index)
        self.train = self._store.bags[self.split.train]
        self.labels = self.y[self.split.train]

    def book(self, n_words: int) -> bs.Codebook:
        """Return k-means on the codebook's images, trained once and kept."""
        path = self.folder / f"{self.name}-{self.index}-{n_words}.safetensors"
        if not path.exists():
            bags = self._store.bags[self.split.codebook]
            trained = bs.KMeansCodebook(n_words, random_state=self.split.seed_for("kmeans")).fit(
                bags
            )
            bs.save(trained.codebook_, path)
        return bs.load(path)

    def selector(self, method: str, size: int, coding: Any) -> Selector | None:
        """Return the method; None codes with k-means trained at that size."""
        if method == "retrained":
            return None
        told: dict[str, Any] = {
            "codebook": self.book(self.n_words),
            "n_kept": size,
            "coding": coding,
            "sharpness": SHARPNESS,
        }
        if method == "bottleneck":
            return Bottleneck(**told)
        if method == "annealed":
            return bs.Annealing(random_state=self.index, **told)
        if method == "refined":
            return bs.Refinement(
                start=bs.RandomSubset(None, random_state=self.index),
                n_folds=0,
                n_steps=steps_of(size),
                random_state=self.index,
                **told,
            )
        return bs.RandomSubset(random_state=self.index, **told)

    def cell(self, method: str, size: int, coding: Any) -> dict[str, Any]:
        """Choose words, code, classify; return the record of the cell."""
        begin = time.perf_counter()
        saw = self.selector(method, size, coding)
        if saw is None:
            book, reduce = self.book(size), _same
        else:
            saw.fit(self.train, self.labels)
            book, reduce = saw.codebook_, saw.selection_.reduce
        chosen = time.perf_counter()
        coder = bs.BagOfWords(book, coding=coding, sharpness=SHARPNESS)
        X, held, test = (
            np.concatenate(
                [
                    reduce(coder.transform(self._store.bags[rows[i : i + CHUNK]]))
                    for i in range(0, len(rows), CHUNK)
                ]
            )
            for rows in (self.split.train, self.split.codebook, self.split.test)
        )
        model = HistogramClassifier(random_state=self.index, n_jobs=-1)
        model.fit(X, self.labels, held, self.y[self.split.codebook])
        truth = self.y[self.split.test]
        return {
            "set": self.name,
            "split": self.index,
            "coding": coding,
            "size": size,
            "method": method,
            "n_words": self.n_words,
            "accuracy": mean_class_accuracy(truth, model.predict(test), int(truth.max()) + 1),
            "C": model.C_,
            "n_coding_words": book.n_words,
            "n_train": len(self.split.train),
            "n_test": len(self.split.test),
            "choosing_seconds": round(chosen - begin, 2),
            "seconds": round(time.perf_counter() - begin, 2),
            "parameters": {} if saw is None else saw.selection_.record()["parameters"],
        }


def _same(histograms: NDArray[Any]) -> NDArray[Any]:
    return histograms


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, int, str, int, str]]:
    """Yield the cells in the order in which they matter: small sizes first."""
    for coding in options.codings:
        for size in options.sizes:
            for index in range(options.splits):
                for name in options.sets:
                    for method in options.methods:
                        if method == "full" and size != min(options.sizes):
                            continue
                        width = options.words if method == "full" else size
                        yield name, index, coding, width, method


def main() -> int:
    """Measure the cells that are not there, and write the page."""
    parser = argparse.ArgumentParser("python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="where cells.jsonl lies")
    parser.add_argument("--draw", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--work", type=Path, help="where descriptors and codebooks are kept")
    parser.add_argument("--words", type=int, default=5000)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sizes", type=_numbers, default=SIZES)
    parser.add_argument("--codings", type=_names, default=CODINGS)
    parser.add_argument("--methods", type=_names, default=("refined", "random", "retrained"))
    parser.add_argument("--sets", type=_names, default=tuple(SETS))
    options = parser.parse_args()
    options.sets = [name for name in options.sets if os.environ.get(SETS[name][0])]
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "cells.jsonl"
    cells = read_cells(path)
    done = {key_of(cell) for cell in cells}
    benches: dict[tuple[str, int], Bench] = {}
    work = options.work or options.output
    work.mkdir(parents=True, exist_ok=True)
    for name, index, coding, size, method in [] if options.draw else wanted(options):
        if (name, index, coding, size, method, options.words) in done:
            continue
        if (name, index) not in benches:
            benches[name, index] = Bench(work, name, index, options.words)
        cell = benches[name, index].cell(method, size, coding)
        with path.open("a") as file:
            file.write(json.dumps(cell) + "\n")
        cells.append(cell)
        print(
            f"{name} {index} {coding} {size} {method}: {cell['accuracy']:.4f} "
            f"({cell['seconds']:.0f} s)",
            flush=True,
        )
    if not cells:
        parser.error(f"nothing to tell: set {' or '.join(v for v, _ in SETS.values())} to a folder")
    write_page(cells, options.output / "ACCURACY.md")
    if options.output.resolve() == HERE:
        write_into(cells, HERE.parent / "docs" / "choosing.md")
    return 0


def key_of(cell: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a cell is told from others by."""
    return tuple(cell[k] for k in ("set", "split", "coding", "size", "method", "n_words"))


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file of cells; the last may have been cut by a kill."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    if lines[-1]:
        path.write_text("\n".join([*lines[:-1], ""]))
    return [json.loads(line) for line in lines[:-1]]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    raise SystemExit(main())
