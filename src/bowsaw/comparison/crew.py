"""A crew of processes that measure groups of cells side by side.

Threads inside one cell do not help where the work is a chain of small steps: five cells of
Caltech-10 took 37 s with two threads and 55 s with one, so two processes with one thread each get
further in an hour. Whole groups (one split of one panel) are dealt to processes. The parent deals
the next group when one is done, writes the records and owns the folder; cells come to it one by
one.

What a cell holds does not depend on who measured it. Workers ignore Ctrl-C, the parent stops them;
a worker whose parent is gone ends by itself, and one that dies (the system may kill it for memory)
is an error that says so, with everything that was done kept.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from threadpoolctl import threadpool_limits

from bowsaw.comparison.job import Group, Job
from bowsaw.comparison.records import Cell, Key
from bowsaw.errors import BowsawError

PATIENCE = 1.0
"""Seconds between looks at whether the others are alive."""


class WorkerError(BowsawError):
    """A process of the crew died."""


def measure_together(
    job: Job,
    groups: Iterator[Group],
    n_workers: int,
    begin: Callable[[Group], None],
    write: Callable[[Key, Cell, float], None],
) -> None:
    """Measure groups in several processes.

    Parameters
    ----------
    job : Job
        What is to be measured; must survive pickling.
    groups : iterator of Group
        In the order in which they are dealt.
    n_workers : int
        How many processes.
    begin : callable
        Called with each group before it is dealt.
    write : callable
        Called with the key, the cell and its seconds as each is done.
    """
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    workers = [
        context.Process(target=_work, args=(job, tasks, results), daemon=True)
        for _ in range(n_workers)
    ]
    n_dealt = n_done = 0

    def deal() -> int:
        for group in groups:
            begin(group)
            if group.keys or job.painter is not None:
                tasks.put(group)
                return 1
        return 0

    try:
        for worker in workers:
            worker.start()
        n_dealt = sum(deal() for _ in workers)
        while n_done < n_dealt:
            kind, *rest = _next(results, workers)
            if kind == "cell":
                write(*rest)
            elif kind == "error":
                raise rest[0]
            else:
                n_done += 1
                n_dealt += deal()
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        for line in (tasks, results):
            line.cancel_join_thread()
            line.close()


def _next(results: Any, workers: list[Any]) -> tuple[Any, ...]:
    """Return the next message, or say that a worker has died."""
    while True:
        try:
            found: tuple[Any, ...] = results.get(timeout=PATIENCE)
        except queue.Empty:
            dead = [worker.exitcode for worker in workers if worker.exitcode is not None]
            if dead and results.empty():
                raise WorkerError(
                    f"a worker process ended by itself (exit code {dead[0]}; -9 means that the "
                    "system killed it, mostly for memory). What was done is kept: run the same "
                    "command again, with --workers 1 if memory is short."
                ) from None
        else:
            return found


def _work(job: Job, tasks: Any, results: Any) -> None:
    """Measure the groups that are dealt until the parent ends the process, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def write(key: Key, cell: Cell, seconds: float) -> None:
        results.put(("cell", key, cell, seconds))
        if parent is not None and not parent.is_alive():
            sys.exit(1)

    try:
        painter = job.made_painter()
        with threadpool_limits(job.told.get("n_jobs") or 1):
            while True:
                try:
                    group = tasks.get(timeout=PATIENCE)
                except queue.Empty:
                    if parent is not None and not parent.is_alive():
                        return
                    continue
                job.measure(group, painter, write)
                results.put(("done",))
    except Exception as error:
        results.put(("error", _portable(error)))


def _portable(error: Exception) -> Exception:
    """Return the error, or one that says the same where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
    return error
