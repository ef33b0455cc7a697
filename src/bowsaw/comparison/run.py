"""The arena: every method at every size, under the same splits and the same rules.

The problem: a method looks good next to one that was measured otherwise. Here all of them get the
same images, the same full codebook, the same way to choose C and the same test images, split by
split; and each says with how many words it codes. Panels are measured one after another, each of
them split by split, so that an interrupted run has whole panels and the rest can be added.

**Resuming.** A cell is written when it is done, with a fingerprint of everything that it depends
on. A run goes on with the cells that are not there; a cell whose fingerprint is another one is
measured again, never trusted for being there. Whatever the number of sittings and threads, the
records are the same but for ``costs``.

**Sharing.** See :mod:`~bowsaw.comparison.bench`. K-means at a small size is the same in every
panel of a set and coding, so its cells are measured in one and copied to the others. With several
``workers``, groups of cells are measured side by side (:mod:`~bowsaw.comparison.crew`).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bowsaw.checkpoint import exclusive
from bowsaw.comparison.bench import Bench
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.crew import measure_together
from bowsaw.comparison.job import Group, Job, Paints, in_order
from bowsaw.comparison.memory import memory_bytes, state_limit
from bowsaw.comparison.methods import METHODS, USUAL, Effort
from bowsaw.comparison.plan import Outlook, Plan, make_plan
from bowsaw.comparison.records import (
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
from bowsaw.errors import ParameterError
from bowsaw.evaluation.fingerprint import versions
from bowsaw.parallel import available_cores, effective_jobs
from bowsaw.random_streams import check_seed
from bowsaw.validation import check_int

SIZES = (10, 20, 50, 100, 200, 500)
"""What ``arena`` keeps unless told otherwise."""


@dataclass(frozen=True)
class Step:
    """What a watcher is told after each cell.

    Attributes
    ----------
    cell : Cell
        The cell.
    n_done, n_cells : int
        Cells that are there, and that there will be.
    seconds_left : float or None
        How long the others may take.
    """

    cell: Cell
    n_done: int
    n_cells: int
    seconds_left: float | None


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
    workers: int = 1,
    verbose: bool = False,
    kind: str = "compare",
    command: str = "",
    painter: Callable[[Path], Paints] | None = None,
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
        Names of ``bowsaw.comparison.methods.METHODS``; ``full`` is always measured.
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
    workers : int, default=1
        Processes that measure cells side by side and share the threads, never more than those;
        nothing but times depends on it. Each needs memory of its own.
    verbose : bool, default=False
        Show the progress of k-means on a terminal.
    kind, command : str
        What ``run.json`` says of where the run comes from.
    painter : callable, optional
        Returns what keeps details for the page, given the folder; with several workers it must
        survive pickling.
    on_cell : callable, optional
        Called with a :class:`Step` after each cell.

    Returns
    -------
    Run
        All records of the folder.

    Examples
    --------
    >>> import tempfile, numpy as np, bowsaw as bs
    >>> from bowsaw.comparison.collection import Collection
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
    with exclusive(where, "run"):
        about = _about(where, plan, sets, kind, command, dict(kmeans or {}))
        n_threads = effective_jobs(n_jobs)
        n_workers = max(1, min(n_threads, check_int(workers, "workers", 1)))
        told = {
            "kmeans": kmeans,
            "n_jobs": n_jobs if n_workers == 1 else max(1, n_threads // n_workers),
            "verbose": verbose and n_workers == 1,
            "max_bytes": state_limit() // n_workers,
        }
        job = Job(where, plan, sets, told, painter)
        _Runner(job, about, n_workers).run(on_cell)
    return read_run(where)


class _Runner:
    """Goes through the plan; see the chapter of this module."""

    def __init__(self, job: Job, about: dict[str, Any], n_workers: int) -> None:
        self._job, self._about, self._n_workers = job, about, n_workers
        self._ledger = Ledger(job.folder / "cells.jsonl")
        self._keys = list(job.plan.cells(list(job.sets)))
        self._outlook = Outlook()
        self._begun, self._before = time.perf_counter(), float(about["seconds"])

    def run(self, on_cell: Callable[[Step], None] | None) -> None:
        # A class with too few images is told before any work is done.
        for name in self._job.sets:
            self._job.bench(name, 0)
        self._cells = self._known()
        self._left = [key for key in self._keys if key not in self._cells]
        self._on_cell = on_cell
        write_about(self._job.folder, self._about)
        try:
            groups = self._job.groups(self._cells)
            if self._n_workers > 1 and self._left:
                measure_together(self._job, groups, self._n_workers, self._begin, self._write)
            else:
                self._measure_alone(groups)
            self._put_in_order()
            self._about["finished"] = _now()
        finally:
            self._tell_time()

    def _measure_alone(self, groups: Iterator[Group]) -> None:
        painter = self._job.made_painter()
        for group in groups:
            self._begin(group)
            self._job.measure(group, painter, self._write)

    def _begin(self, group: Group) -> None:
        for twin in self._job.begin(group, self._cells):
            self._write(key_of(twin), twin, 0.0)
        self._tell_time()

    def _write(self, key: Key, cell: Cell, seconds: float) -> None:
        self._ledger.add(cell)
        self._cells[key] = cell
        self._left.remove(key)
        self._outlook.tell(key, seconds)
        if self._on_cell is not None:
            left = self._outlook.seconds(self._left)
            n_cells = len(self._keys)
            share = None if left is None else left / self._n_workers
            self._on_cell(Step(cell, n_cells - len(self._left), n_cells, share))

    def _put_in_order(self) -> None:
        """Leave the cells in the order of the plan, whoever was quicker."""
        found = list(self._cells.values())
        ordered = in_order(self._cells, self._keys)
        if [key_of(cell) for cell in found] != [key_of(cell) for cell in ordered]:
            self._ledger.rewrite(ordered)

    def _tell_time(self) -> None:
        seconds = self._before + time.perf_counter() - self._begun
        self._about["seconds"] = round(seconds, 1)
        write_about(self._job.folder, self._about)

    def _known(self) -> dict[Key, Cell]:
        """Return the cells that are there and are what would be measured; drop all others."""
        # Here and nowhere else: a worker could take for torn what another is just writing.
        for ledger in (self._ledger, Ledger(self._job.folder / "details.jsonl")):
            ledger.mend()
        found = read_run(self._job.folder).cells if _has_run(self._job.folder) else []
        benches: dict[tuple[str, int], Bench] = {}
        valid = {key_of(cell): cell for cell in found if self._is_valid(cell, benches)}
        if len(valid) < len(found):
            self._ledger.rewrite(valid.values())
        return valid

    def _is_valid(self, cell: Cell, benches: dict[tuple[str, int], Bench]) -> bool:
        name, split, coding, full_words, method, size = key_of(cell)
        if name not in self._job.sets:
            # Of a set that is not measured now; nobody can tell, and nobody asked.
            return name in self._about["sets"]
        if method not in METHODS or coding not in ("hard", "soft"):
            return False
        if (name, split) not in benches:
            benches[name, split] = self._job.bench(name, split)
        panel = self._job.panel(coding, full_words)
        maps = self._job.plan.maps(method)
        wanted = benches[name, split].fingerprint_of(panel, method, size, maps)
        return wanted == cell["fingerprint"]


def _has_run(folder: Path) -> bool:
    return (folder / "run.json").exists()


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
    if _has_run(folder):
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
    elif (folder / "cells.jsonl").exists():
        raise ParameterError(
            f"{folder} has records of cells but no run.json. Choose another output folder."
        )
    return about


def machine() -> dict[str, Any]:
    """Return what the times depend on."""
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
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
