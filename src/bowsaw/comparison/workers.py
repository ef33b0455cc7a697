"""Processes that measure groups of cells side by side.

Threads inside a cell do not help where the work is a chain of small steps: five cells of Caltech-10
took 37 s with two threads and 55 s with one, so two processes with one thread each are faster. A
task is one split of one panel, whose cells share the most. The parent hands out the next task when
one is done, writes the records and owns the folder.

Cells reach the parent one by one, so that an interrupt loses at most the cells in progress. This is
why the pool is not joblib's: its results come per task, and a task here takes minutes to hours.
Workers ignore Ctrl-C and are stopped by the parent; a worker whose parent is gone ends by itself,
and one that dies (the system may kill it for memory) raises an error that says so.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from threadpoolctl import threadpool_limits

from bowsaw.comparison.cell import Experiment
from bowsaw.comparison.records import Cell, Key
from bowsaw.errors import BowsawError

POLL_SECONDS = 1.0

Write = Callable[[Key, Cell, float], None]


class WorkerError(BowsawError):
    """A worker process died."""


def measure_group(experiment: Experiment, keys: Sequence[Key], write: Write) -> None:
    """Measure cells of one split and panel; each goes to ``write`` with the seconds it took."""
    run = experiment.split(keys[0].set, keys[0].split)
    for key in keys:
        begin = time.perf_counter()
        cell = run.measure(key)
        write(key, cell, time.perf_counter() - begin)


def measure_groups(
    experiment: Experiment, groups: Sequence[Sequence[Key]], n_workers: int, write: Write
) -> None:
    """Measure groups of cells, in this process or in several; ``write`` is called in this one."""
    if n_workers == 1:
        for keys in groups:
            measure_group(experiment, keys, write)
        return
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    workers = [
        context.Process(target=_work, args=(experiment, tasks, results), daemon=True)
        for _ in range(n_workers)
    ]
    left = len(groups)
    for keys in groups:
        tasks.put(keys)
    try:
        for worker in workers:
            worker.start()
        while left:
            message = _next_message(results, workers)
            if isinstance(message, Exception):
                raise message
            if message is None:
                left -= 1
            else:
                write(*message)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        for line in (tasks, results):
            line.cancel_join_thread()
            line.close()


def _next_message(results: Any, workers: Sequence[Any]) -> Any:
    """Return a cell, an error, or None for the end of a group; raise if a worker has died."""
    while True:
        try:
            return results.get(timeout=POLL_SECONDS)
        except queue.Empty:
            dead = [worker.exitcode for worker in workers if worker.exitcode is not None]
            if dead and results.empty():
                raise WorkerError(
                    f"a worker process ended (exit code {dead[0]}; -9 means that the system killed "
                    "it, mostly for memory). Finished cells are kept: run the same command again, "
                    "with --workers 1 if memory is short."
                ) from None


def _work(experiment: Experiment, tasks: Any, results: Any) -> None:
    """Measure groups until the parent ends this process, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def write(key: Key, cell: Cell, seconds: float) -> None:
        results.put((key, cell, seconds))
        if parent is not None and not parent.is_alive():
            sys.exit(1)

    try:
        with threadpool_limits(experiment.n_jobs or 1):
            while parent is None or parent.is_alive():
                try:
                    keys = tasks.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    continue
                measure_group(experiment, keys, write)
                results.put(None)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = WorkerError(f"{type(error).__name__}: {error}")
        results.put(error)
