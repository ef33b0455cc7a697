"""Processes that measure tasks of cells side by side.

Threads inside a cell do not help where the work is a chain of small steps: five cells of Caltech-10
took 37 s with two threads and 55 s with one, so two processes with one thread each are faster. The
parent hands out the next task when one is done, writes the records and owns the folder.

Cells reach the parent one by one, so that an interrupt loses at most the cells in progress. This is
why the pool is not joblib's: its results come per task, and a task here takes minutes to hours.
Each worker has a pipe of its own: a worker that dies (the system may kill it for memory) closes it,
which raises an error that says so, and can leave no lock or half a message to others. Workers
ignore Ctrl-C and are stopped by the parent; a worker whose parent is gone ends by itself.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any

from numba.core.event import TimingListener, install_listener
from threadpoolctl import threadpool_limits

from bowsaw.comparison.cell import Experiment, SplitRun
from bowsaw.comparison.methods import GIVEN, KMEANS
from bowsaw.comparison.records import Cell, Key
from bowsaw.errors import BowsawError
from bowsaw.progress import Progress, announce_compiling, defer_signals, watch_compiling

STOP_SECONDS = 5.0
"""How long a worker may take to end before it is killed."""

Write = Callable[[Key, Cell, float], None]


class WorkerError(BowsawError):
    """A worker process died."""


def measure_tasks(
    experiment: Experiment,
    tasks: Sequence[Sequence[Key]],
    n_workers: int,
    began: dict[Key, float],
    write: Write,
) -> None:
    """Measure tasks of cells, in this process or in several.

    ``write`` is called in this one, with the seconds that a cell took without the compilation of
    kernels. ``began`` gets the time at which each cell was begun.
    """
    if n_workers == 1:
        run = None
        for keys in tasks:
            run = _measure(experiment, keys, run, write, began)
        return
    _train_codebooks(experiment, tasks)
    context = multiprocessing.get_context("spawn")
    waiting, workers = deque(tasks), dict[Any, Any]()
    running: dict[Any, deque[Key]] = {}
    try:
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(experiment, theirs), daemon=True)
            with defer_signals(), _without_interrupts():
                worker.start()
                workers[ours], running[ours] = worker, deque()
            theirs.close()
        while True:
            for pipe, keys in running.items():
                if not keys and waiting:
                    keys.extend(waiting.popleft())
                    began[keys[0]] = time.perf_counter()
                    _exchange(workers[pipe], pipe.send, list(keys))
            if not any(running.values()):
                return
            ready: list[Any] = wait(list(workers))
            for pipe in ready:
                message = _exchange(workers[pipe], pipe.recv)
                if message is None:
                    announce_compiling()
                    continue
                if isinstance(message, Exception):
                    raise message
                keys = running[pipe]
                keys.popleft()
                if keys:
                    began[keys[0]] = time.perf_counter()
                write(*message)
    finally:
        with defer_signals():
            for worker in workers.values():
                worker.terminate()
            for worker in workers.values():
                worker.join(STOP_SECONDS)
                if worker.exitcode is None:
                    # It does not end by itself.
                    worker.kill()
                    worker.join(STOP_SECONDS)


def _measure(
    experiment: Experiment,
    keys: Sequence[Key],
    run: SplitRun | None,
    write: Write,
    began: dict[Key, float],
) -> SplitRun:
    """Measure the cells of a task; one of the same split shares what the task before has left."""
    name, split = keys[0][:2]
    if run is None or (run.collection.name, run.index) != (name, split):
        run = experiment.split(name, split)
    for key in keys:
        began[key] = time.perf_counter()
        compiling = TimingListener()  # type: ignore[no-untyped-call]
        stage = Progress(f"split {split}, {key.method}", show=experiment.verbose)
        with install_listener("numba:compile", compiling), stage:
            cell = run.measure(key)
        # Kernels are compiled once: cells to come take less.
        once = compiling.duration if compiling.done else 0.0
        write(key, cell, time.perf_counter() - began[key] - once)
    return run


def _train_codebooks(experiment: Experiment, tasks: Sequence[Sequence[Key]]) -> None:
    """Train the codebooks that several tasks need, with all threads, before any waits for one."""
    everywhere = replace(experiment, n_jobs=(experiment.n_jobs or 1) * experiment.n_workers)
    training = [keys for keys in tasks if any(key.method not in (GIVEN, KMEANS) for key in keys)]
    for (name, split, _, n_words), n_tasks in Counter(keys[0][:4] for keys in training).items():
        if n_tasks > 1:
            everywhere.split(name, split).codebook(n_words)


def _exchange(worker: Any, call: Callable[..., Any], *message: Any) -> Any:
    """Send or receive a message; raise if the worker has died."""
    try:
        return call(*message)
    except (EOFError, OSError):
        worker.join(STOP_SECONDS)
        raise WorkerError(
            f"a worker process ended (exit code {worker.exitcode}; -9 means that the system killed "
            "it, mostly for memory). Finished cells are kept: run the same command again, with "
            "-j 1 if memory is short."
        ) from None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let a process that is started in the block never see Ctrl-C, not even while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Where it is not running yet, the start of a process starts it and lets interrupts in again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(experiment: Experiment, pipe: Any) -> None:
    """Measure tasks until the parent ends this process, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def write(key: Key, cell: Cell, seconds: float) -> None:
        pipe.send((key, cell, seconds))

    run = None
    try:
        with (
            watch_compiling(lambda: pipe.send(None)),
            threadpool_limits(experiment.n_jobs or 1),
            suppress(EOFError, BrokenPipeError),
        ):
            while True:
                run = _measure(experiment, pipe.recv(), run, write, {})
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = WorkerError(f"{type(error).__name__}: {error}")
        with suppress(OSError):
            pipe.send(error)
