"""Measuring the probes of a run: those that are not there yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bowsaw.checkpoint import JsonLines, exclusive
from bowsaw.comparison.cell import Experiment
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.records import Run, read_run
from reproduction.probes import PROBES, probe_line


class _Split:
    """The first split of a set, with its full codebooks."""

    def __init__(self, collection: Collection, folder: Path, seed: int, n_jobs: int | None) -> None:
        sets = {collection.name: collection}
        run = Experiment(folder, sets, {}, seed, 40.0, n_jobs=n_jobs).split(collection.name, 0)
        self.name, self.bags, self.y = collection.name, collection.bags, collection.y
        self.classes, self.split, self.n_jobs = collection.classes, run.split, n_jobs
        self.book = run.codebook


def probe(
    collections: Sequence[Collection],
    folder: Path,
    *,
    words: Sequence[int],
    seed: int = 0,
    n_jobs: int | None = -1,
    on_probe: Callable[[str, str], None] | None = None,
) -> Run:
    """Measure what the run of a folder lacks, on the first split.

    Parameters
    ----------
    collections : sequence of Collection
        The sets of images.
    folder : path-like
        The run.
    words : sequence of int
        Sizes of its full codebooks.
    seed : int, default=0
        The seed of the run.
    n_jobs : int or None, default=-1
        Threads.
    on_probe : callable, optional
        Called with the names of probe and set before each.

    Returns
    -------
    Run
        All records of the folder.
    """
    with exclusive(folder, "run"):
        ledger = JsonLines(folder / "probes.jsonl")
        ledger.repair()
        done = {(line["probe"], line["set"]) for line in read_run(folder).probes}
        for collection in collections:
            bench = _Split(collection, folder, seed, n_jobs)
            for name, _ in PROBES:
                if (name, collection.name) in done:
                    continue
                if on_probe is not None:
                    on_probe(name, collection.name)
                ledger.append(probe_line(name, bench, sorted(words)))
    return read_run(folder)
