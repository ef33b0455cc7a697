"""The arena: every method at every size, under the same splits and the same rules.

The problem: a method looks good next to one that was measured otherwise. Here all of them get the
same images, the same full codebook, the same way to choose C and the same test images, split by
split; and each says with how many words it codes. Panels are measured one after another, each of
them split by split, so that an interrupted run has whole panels and the rest can be added.

**Resuming.** A cell is written when it is done, with a fingerprint of everything that it depends
on. A run goes on with the cells that are not there; a cell whose fingerprint is another one is
measured again, never trusted for being there. Whatever the number of sittings and threads, the
records are the same but for ``costs``.

**Sharing.** See :mod:`~bowsaw.evaluation.arena.bench`. K-means at a small size is the same in every
panel of a set and coding, so its cells are measured in the first and copied to the others.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sklearn

from bowsaw._version import __version__
from bowsaw.errors import ParameterError
from bowsaw.evaluation.arena.bench import Bench, Chosen, Collection, Panel
from bowsaw.evaluation.arena.memory import memory_bytes
from bowsaw.evaluation.arena.methods import METHODS, RETRAINED, USUAL, Effort
from bowsaw.evaluation.arena.plan import Outlook, Plan, make_plan
from bowsaw.evaluation.arena.records import (
    FORMAT,
    SCHEMA,
    Cell,
    Key,
    Ledger,
    Run,
    key_of,
    read_about,
    read_run,
    write_about,
)
from bowsaw.seeds import check_seed
from bowsaw.store.lock import only_writer

SIZES = (10, 20, 50, 100, 200, 500)
"""What ``arena`` keeps unless told otherwise."""


@dataclass(frozen=True)
class Step:
    """What a watcher is told after each cell.

    Attributes
    ----------
    cell : Cell
        The cell.
    is_new : bool
        Whether it was measured now.
    n_done, n_cells : int
        Cells that are there, and that there will be.
    seconds_left : float or None
        How long the others may take.
    """

    cell: Cell
    is_new: bool
    n_done: int
    n_cells: int
    seconds_left: float | None


class Painter(Protocol):
    """Keeps what the page draws; see :mod:`~bowsaw.evaluation.arena.painter`."""

    def cell(self, bench: Bench, panel: Panel, cell: Cell, chosen: Chosen) -> None:
        """Keep what is to be drawn of a cell, before the cell itself is written."""

    def panel(self, bench: Bench, panel: Panel, cells: Mapping[Key, Cell]) -> None:
        """Keep what is to be drawn of a panel whose cells of this split are all done."""


def arena(
    collections: Sequence[Collection],
    folder: str | os.PathLike[str],
    *,
    words: Sequence[int] = (1000,),
    sizes: Sequence[int] = SIZES,
    codings: Sequence[str] = ("hard",),
    methods: Sequence[str] = USUAL,
    splits: int = 5,
    seed: int = 0,
    sharpness: float = 40.0,
    raw: Sequence[str] | None = None,
    effort: Effort = "usual",
    kmeans: Mapping[str, Any] | None = None,
    n_jobs: int | None = -1,
    verbose: bool = False,
    kind: str = "compare",
    command: str = "",
    painter: Callable[[Path], Painter] | None = None,
    on_cell: Callable[[Step], None] | None = None,
) -> Run:
    """Measure methods × sizes × codings × splits, and keep the records.

    Parameters
    ----------
    collections : sequence of Collection
        The labelled sets of images.
    folder : path-like
        Where the records are kept; a run that is there goes on.
    words : sequence of int, default=(1000,)
        Sizes of the full codebooks.
    sizes : sequence of int
        How many words to keep.
    codings : sequence of {"hard", "soft"}, default=("hard",)
        How descriptors are coded.
    methods : sequence of str
        Names of ``bowsaw.evaluation.arena.methods.METHODS``; ``full`` is always measured.
    splits : int, default=5
        How many random splits.
    seed : int, default=0
        Drives the splits, the codebooks and the methods.
    sharpness : float, default=40.0
        Of soft coding.
    raw : sequence of str, optional
        Methods to measure with raw histograms beside square-rooted ones; all by default.
    effort : {"usual", "bounded"}, default="usual"
        How long searches may take.
    kmeans : mapping, optional
        Further parameters of ``KMeansCodebook``, such as ``{"max_iter": 10}``.
    n_jobs : int or None, default=-1
        Threads; nothing but times depends on it.
    verbose : bool, default=False
        Show the progress of k-means on a terminal.
    kind, command : str
        What ``run.json`` says of where the run comes from.
    painter : callable, optional
        Returns what keeps details for the page, given the folder.
    on_cell : callable, optional
        Called with a :class:`Step` after each cell.

    Returns
    -------
    Run
        All records of the folder.

    Examples
    --------
    >>> import tempfile, numpy as np, bowsaw as bs
    >>> from bowsaw.evaluation.arena.bench import Collection
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 12)
    >>> bags = bs.Bags.from_list([rng.normal(2 * label, 1, size=(30, 2)) for label in y])
    >>> toys = Collection("toys", bags, y, ("low", "high"), codebook_images=4, train=4)
    >>> run = arena([toys], tempfile.mkdtemp(), words=[12], sizes=[3], methods=["random"], splits=1)
    >>> [(cell["method"], cell["size"]) for cell in run.cells]
    [('full', 12), ('random', 3)]
    """
    plan = make_plan(
        words=words,
        sizes=sizes,
        codings=codings,
        methods=methods,
        splits=splits,
        seed=check_seed(seed),
        sharpness=sharpness,
        raw=raw,
        effort=effort,
    )
    sets = {collection.name: collection for collection in collections}
    if not sets or len(sets) < len(collections):
        raise ParameterError("collections must be at least one, each of a name of its own.")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    with only_writer(where):
        about = _about(where, plan, sets, kind, command, dict(kmeans or {}))
        runner = _Runner(
            where, plan, sets, about, {"kmeans": kmeans, "n_jobs": n_jobs, "verbose": verbose}
        )
        runner.run(None if painter is None else painter(where), on_cell)
    return read_run(where)


class _Runner:
    """Goes through the plan; see the chapter of this module."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        sets: Mapping[str, Collection],
        about: dict[str, Any],
        told: Mapping[str, Any],
    ) -> None:
        self._folder, self._plan, self._sets, self._about = folder, plan, sets, about
        self._told = told
        self._ledger = Ledger(folder / "cells.jsonl")
        self._keys = list(plan.cells(list(sets)))

    def bench(self, name: str, split: int) -> Bench:
        return Bench(
            self._sets[name],
            split,
            self._plan.seed,
            self._folder / "work" / "codebooks",
            effort=self._plan.effort,
            **self._told,
        )

    def run(self, painter: Painter | None, on_cell: Callable[[Step], None] | None) -> None:
        # A class with too few images is told before any work is done.
        for name in self._sets:
            self.bench(name, 0)
        cells = self._known()
        outlook, before, begin = Outlook(), float(self._about["seconds"]), time.perf_counter()
        n_done = sum(key in cells for key in self._keys)
        left = [key for key in self._keys if key not in cells]
        write_about(self._folder, self._about)
        try:
            for (name, split, coding, full_words), group in groupby(
                self._keys, lambda key: (key[0], key[1], key[2], key[3])
            ):
                keys = list(group)
                if all(key in cells for key in keys) and painter is None:
                    continue
                bench = self.bench(name, split)
                panel = Panel(_coding(coding), full_words, self._plan.sharpness)
                for key in keys:
                    if key in cells:
                        continue
                    started = time.perf_counter()
                    cell = self._twin(bench, panel, key, cells) or self._measure(
                        bench, panel, key, painter
                    )
                    self._ledger.add(cell)
                    cells[key] = cell
                    outlook.tell(key, time.perf_counter() - started)
                    left.remove(key)
                    n_done += 1
                    if on_cell is not None:
                        on_cell(Step(cell, True, n_done, len(self._keys), outlook.seconds(left)))
                if painter is not None:
                    painter.panel(bench, panel, cells)
                bench.leave()
                self._about["seconds"] = round(before + time.perf_counter() - begin, 1)
                write_about(self._folder, self._about)
            self._about["finished"] = _now()
        finally:
            self._about["seconds"] = round(before + time.perf_counter() - begin, 1)
            write_about(self._folder, self._about)

    def _measure(self, bench: Bench, panel: Panel, key: Key, painter: Painter | None) -> Cell:
        _, _, _, _, method, size = key
        cell, chosen = bench.cell(panel, method, size, self._plan.maps(method))
        if painter is not None:
            painter.cell(bench, panel, cell, chosen)
        return cell

    def _twin(self, bench: Bench, panel: Panel, key: Key, cells: Mapping[Key, Cell]) -> Cell | None:
        """Return a cell of k-means at the size from another panel, as one of this panel."""
        name, split, coding, _, method, size = key
        if method != RETRAINED:
            return None
        for full_words in self._plan.words:
            other = cells.get((name, split, coding, full_words, method, size))
            if other is not None:
                mark = bench.fingerprint_of(panel, method, size, self._plan.maps(method))
                return {**other, "full_words": panel.full_words, "fingerprint": mark}
        return None

    def _known(self) -> dict[Key, Cell]:
        """Return the cells that are there and are what would be measured; drop all others."""
        self._ledger.mend()
        found = read_run(self._folder).cells if (self._folder / "run.json").exists() else []
        valid = {key_of(cell): cell for cell in found if self._is_valid(cell)}
        if len(valid) < len(found):
            self._ledger.rewrite(valid.values())
        return valid

    def _is_valid(self, cell: Cell) -> bool:
        if cell["set"] not in self._sets or cell["method"] not in METHODS:
            return False
        if cell["coding"] not in ("hard", "soft"):
            return False
        panel = Panel(_coding(cell["coding"]), cell["full_words"], self._plan.sharpness)
        bench = self.bench(cell["set"], cell["split"])
        wanted = bench.fingerprint_of(
            panel, cell["method"], cell["size"], self._plan.maps(cell["method"])
        )
        return wanted == cell["fingerprint"]


def _about(
    folder: Path,
    plan: Plan,
    sets: Mapping[str, Collection],
    kind: str,
    command: str,
    kmeans: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what ``run.json`` is to say, or refuse a folder that holds another experiment."""
    about: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "kind": kind,
        "command": command,
        "created": _now(),
        "finished": None,
        "seconds": 0.0,
        "machine": machine(),
        "versions": versions(),
        "parameters": {**plan.record(), "kmeans": dict(kmeans)},
        "sets": {name: collection.record() for name, collection in sets.items()},
        "methods": {name: METHODS[name].record() for name in plan.methods},
    }
    if (folder / "run.json").exists():
        before = read_about(folder)
        for name, now in about["sets"].items():
            was = before["sets"].get(name)
            if was is not None and was.get("digest") != now["digest"]:
                raise ParameterError(
                    f"{folder} holds a run on other images called {name!r}. Choose another output "
                    "folder, or delete that one."
                )
        about["created"], about["seconds"] = before.get("created"), before.get("seconds", 0.0)
        about["sets"] = {**before["sets"], **about["sets"]}
        about["methods"] = {
            name: {**before["methods"], **about["methods"]}[name]
            for name in METHODS
            if name in before["methods"] or name in about["methods"]
        }
    elif any(folder.glob("cells.jsonl")):
        raise ParameterError(
            f"{folder} has records of cells but no run.json. Choose another output folder."
        )
    return about


def machine() -> dict[str, Any]:
    """Return what the times depend on."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on."""
    return {
        "bowsaw": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _coding(name: str) -> Any:
    return name


def splits_of(cells: Iterable[Cell]) -> Iterator[int]:
    """Yield the numbers of the splits that cells are of, each once."""
    yield from sorted({cell["split"] for cell in cells})
