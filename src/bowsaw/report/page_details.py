"""What the page draws of a run, kept as it happens.

Pictures are of the first split alone. Of each cell that has one, the trace of its search is kept,
and for which class the first test image of every class is taken. When all cells of a panel are
done, the words of bowsaw's own methods are drawn at every size: what they are, whom they inherit
from, what an image looks like before and after.

Small codebooks are kept in the folder of work meanwhile, by the fingerprint of their cell. One that
is missing is chosen again, which gives the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import fingerprint
from bowsaw.codebook import Codebook
from bowsaw.comparison.bench import Bench, Chosen
from bowsaw.comparison.collection import Panel
from bowsaw.comparison.methods import FULL, METHODS, RETRAINED
from bowsaw.comparison.records import KEY, Cell, Key, Ledger, Line, key_of, read_lines
from bowsaw.errors import BowsawError
from bowsaw.formats.registry import load, save
from bowsaw.nearest.search import nearest_words
from bowsaw.report.lines import codebook_line, named_words, trace_line, words_line
from bowsaw.report.pictures import image_line, patches_line, telling_image
from bowsaw.store import Store

FIRST = 0
"""The split that pictures are of."""


class Painter:
    """Keeps details of a run's first split.

    Parameters
    ----------
    folder : path-like
        The run.
    stores : mapping of str to Store, optional
        The stores of sets whose patches and images may be placed.
    roots : mapping of str to path-like, optional
        The folders of images of those sets whose pixels may be shown.
    coding : {"hard", "soft"}, default="hard"
        The coding whose panels have their words drawn. Who inherits from whom is told by nearest
        words in either case.
    """

    def __init__(
        self,
        folder: Path,
        stores: Mapping[str, Store] | None = None,
        roots: Mapping[str, str | PathLike[str]] | None = None,
        coding: str = "hard",
    ) -> None:
        self._kept = folder / "work" / "chosen"
        self._stores, self._roots, self._coding = dict(stores or {}), dict(roots or {}), coding
        self._ledger = Ledger(folder / "details.jsonl")
        self._known = read_lines(self._ledger.path, {"kind": str})

    def cell(self, bench: Bench, panel: Panel, cell: Cell, chosen: Chosen) -> None:
        """Keep the trace of a search, some answers, and the words."""
        if cell["split"] != FIRST:
            return
        key = _key(cell)
        if chosen.selector is not None:
            trace = trace_line(key, chosen.selector)
            if trace is not None:
                self._ledger.add(trace)
        if chosen.guess is not None:
            rows = example_rows(bench)
            places = np.searchsorted(bench.split.test, rows)
            answers = [bench.classes[i] for i in chosen.guess[places].tolist()]
            self._ledger.add({"kind": "answers", **key, "rows": rows.tolist(), "answers": answers})
        if cell["codes_with"] == "pruned" and cell["method"] != RETRAINED:
            self._kept.mkdir(parents=True, exist_ok=True)
            save(chosen.codebook, self._path(cell))

    def panel(self, bench: Bench, panel: Panel, cells: Mapping[Key, Cell]) -> None:
        """Draw the words of a panel, unless they are drawn already."""
        if bench.index != FIRST or panel.coding != self._coding:
            return
        mine = [
            cell
            for key, cell in sorted(cells.items(), key=lambda item: item[0][5])
            if key[:4] == (bench.name, FIRST, panel.coding, panel.full_words) and is_drawn(key[4])
        ]
        mark = fingerprint(
            cells=sorted(cell["fingerprint"] for cell in mine), root=self._root(bench)
        )
        where = {"set": bench.name, "split": FIRST, "full_words": panel.full_words}
        if not mine or any(line.get("of") == mark for line in self._known):
            return
        # The codebook's line comes last: where it is, all the others are.
        for line in self._lines(bench, panel, mine, where):
            self._ledger.add({**line, "of": mark if line["kind"] == "codebook" else None})

    def _root(self, bench: Bench) -> str | None:
        root = self._roots.get(bench.name)
        return None if root is None else str(Path(root).resolve())

    def _lines(
        self, bench: Bench, panel: Panel, cells: list[Cell], where: dict[str, Any]
    ) -> Iterator[Line]:
        full, rows = bench.book(panel.full_words), bench.split.train
        before = _codes(bench, full)
        store, root, drawn = self._stores.get(bench.name), self._root(bench), []
        for method in dict.fromkeys(cell["method"] for cell in cells):
            smalls: dict[int, Codebook] = {}
            for cell in cells:
                if cell["method"] != method:
                    continue
                small = smalls[cell["size"]] = self._words(bench, panel, cell)
                after = _codes(bench, small)
                moved = not np.array_equal(small.words, full.only(small.ids).words)
                drawn.append(words_line(_key(cell), full, small, before, after, moved))
                yield drawn[-1]
                if store is not None:
                    tiles = patches_line(
                        _key(cell), small, store, root, rows, after, n_jobs=bench.n_jobs
                    )
                    if tiles is not None:
                        yield tiles
            if store is not None:
                answers = self._answers(where, panel.coding, method)
                image = _telling_row(bench, store, answers.get(FULL, {}))
                told = {size: found[image] for size, found in answers.items() if image in found}
                yield image_line(
                    {**where, "coding": panel.coding, "method": method},
                    store,
                    root,
                    image,
                    full,
                    smalls,
                    told or None,
                )
        named = named_words(drawn)
        if store is not None:
            tiles = patches_line(
                {**where, "method": None, "size": None},
                full,
                store,
                root,
                rows,
                before,
                only=named,
                n_jobs=bench.n_jobs,
            )
            if tiles is not None:
                yield tiles
        yield codebook_line(where, full, before, only=named)

    def _answers(
        self, where: Mapping[str, Any], coding: str, method: str
    ) -> dict[str, dict[int, str]]:
        """Return what example images were taken for, with all words and with each size."""
        found: dict[str, dict[int, str]] = {}
        for line in read_lines(self._ledger.path, {"kind": str}):
            if line["kind"] != "answers" or line["coding"] != coding:
                continue
            if any(line[name] != value for name, value in where.items()):
                continue
            if line["method"] in (FULL, method):
                name = FULL if line["method"] == FULL else str(line["size"])
                found[name] = dict(zip(line["rows"], line["answers"], strict=True))
        return found

    def _path(self, cell: Cell) -> Path:
        return self._kept / f"{cell['fingerprint'][:32]}.safetensors"

    def _words(self, bench: Bench, panel: Panel, cell: Cell) -> Codebook:
        """Return the words that a cell chose."""
        try:
            return load(self._path(cell))
        except (BowsawError, OSError):
            bench.enter(panel)
            return bench.choose(cell["method"], cell["size"]).codebook


def example_rows(bench: Bench) -> NDArray[np.int64]:
    """Return the first test image of each class."""
    test = bench.split.test
    _, first = np.unique(bench.y[test], return_index=True)
    return np.sort(test[first])


def _telling_row(bench: Bench, store: Store, known: Mapping[int, str]) -> int:
    """Return the image to show, by what the examples are taken for with all words."""
    rows = example_rows(bench)
    places = {name: i for i, name in enumerate(bench.classes)}
    guessed = [places.get(known.get(row, ""), -1) for row in rows.tolist()]
    return telling_image(store, rows, guessed)


def _codes(bench: Bench, book: Codebook) -> NDArray[np.int64]:
    """Return the position of the nearest word of each training descriptor."""
    words = book.words_for(bench.train_bags)
    return nearest_words(bench.train_bags, words, n_jobs=bench.n_jobs).astype(np.int64)


def is_drawn(method: str) -> bool:
    """Return whether the words of a method are drawn: ours, and those that code alone."""
    return METHODS[method].ours and METHODS[method].codes_with == "pruned"


def _key(cell: Cell) -> dict[str, Any]:
    return dict(zip(KEY, key_of(cell), strict=True))
