"""Kills extractions at many moments, finishes them, and compares the stores with untouched ones.

A program, because forking is unsafe in pytest. A child counts its steps inside ``bowsaw.store`` and
kills itself, as ``kill -9`` does, before a chosen one. Prints, per scenario, the number of killed
children and the moments after which the store was damaged or ended in something else.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.store.row_pixels import RowPixels, snapshot, write_images

import bowsaw.store
from bowsaw.errors import StoreError
from bowsaw.images.folder import ImageFolder
from bowsaw.store import Store, extract

FORKS = "fork" in multiprocessing.get_all_start_methods()
PROCESSES: Any = multiprocessing.get_context("fork" if FORKS else "spawn")

OLD = (3, 0, 5, None, 4, 4, 1, 0, None, 6, 2, 7)
NEW = (3, 0, 5, None, 4, 5, 1, 0, 2, 6, None, 7, 1, 9)


def run(images: Path, store: Path, options: dict[str, Any], begun: Any = None) -> None:
    connect = sqlite3.connect

    def quick(*args: Any, **settings: Any) -> sqlite3.Connection:
        connection = connect(*args, **settings)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    sqlite3.connect = quick
    os.fsync = lambda handle: None
    options = {"n_jobs": 1, "level": 0} | options
    descriptor = RowPixels(level=options.pop("level"))
    if begun is not None:
        begun.set()
    extract(ImageFolder(images), descriptor, store, shard_bytes=32, **options)


def run_until(moment: int, steps: Any, *arguments: Any) -> None:
    package = str(Path(bowsaw.store.__file__).parent)

    def trace(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(package):
            return None
        steps.value += 1
        if steps.value == moment:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return trace

    sys.settrace(trace)
    run(*arguments)
    sys.settrace(None)


def in_child(target: Callable[..., None], *args: object) -> bool:
    child = PROCESSES.Process(target=target, args=args)
    child.start()
    child.join()
    if child.exitcode not in (0, -9, signal.SIGTERM):
        raise RuntimeError(f"a child failed with {child.exitcode}")
    return bool(child.exitcode)


class Scenario:
    """One type of extraction, from a given state to what a new extraction gives."""

    def __init__(self, folder: Path, images: Path, before: Path | None, options: Any) -> None:
        self.store, self.before = folder / "killed.store", before
        self.arguments = images, self.store, options
        shutil.rmtree(folder / "fresh.store", ignore_errors=True)
        in_child(run, images, folder / "fresh.store", options)
        self.expected = snapshot(folder / "fresh.store")
        self.n_killed = 0
        self.different: list[object] = []

    def start(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        if self.before is not None:
            shutil.copytree(self.before, self.store)

    def step_until(self, moment: int) -> int:
        steps = PROCESSES.Value("l", 0, lock=False)
        self.n_killed += in_child(run_until, moment, steps, *self.arguments)
        return int(steps.value)

    def finish(self, moment: object) -> None:
        try:
            store = Store(self.store)
            intact = store.bags.n_descriptors == store.bags.counts.sum()
        except StoreError as error:
            intact = "damaged" not in str(error)
        if not intact:
            self.different.append(f"{moment}, before resuming")
        in_child(run, *self.arguments)
        if snapshot(self.store) != self.expected:
            self.different.append(moment)

    def kill_once(self, n_moments: int) -> None:
        self.start()
        n_steps = self.step_until(0)
        for moment in range(1, n_steps, -(-n_steps // n_moments)):
            self.start()
            self.step_until(moment)
            self.finish(moment)

    def kill_repeatedly(self, n_moments: int) -> None:
        """Kill each attempt to finish a little later than the one before."""
        self.start()
        for moment in range(150, 100_000, 2250 // n_moments):
            if self.step_until(moment) < moment:
                break
        self.finish("the last")

    def kill_by_clock(self, n_moments: int) -> None:
        """Kill from outside, whatever the threads are doing."""
        for i in range(n_moments // 2):
            self.start()
            begun = PROCESSES.Event()
            child = PROCESSES.Process(target=run, args=(*self.arguments, begun))
            child.start()
            begun.wait(60)
            time.sleep(0.002 * i)
            child.kill()
            child.join()
            self.n_killed += child.exitcode != 0
            self.finish(f"{i} clock")


def main(folder: Path, n_moments: int) -> dict[str, object]:
    old, new, before = folder / "old", folder / "new", folder / "before.store"
    write_images(old, OLD)
    write_images(new, NEW)
    in_child(run, old, before, {})
    report = {}
    for name, kill, images, start, options in (
        ("fresh", Scenario.kill_once, old, None, {}),
        ("changed images", Scenario.kill_once, new, before, {}),
        ("other parameters", Scenario.kill_once, old, before, {"level": 1, "overwrite": True}),
        ("repeatedly", Scenario.kill_repeatedly, old, None, {}),
        ("by the clock", Scenario.kill_by_clock, new, before, {"n_jobs": 2}),
    ):
        scenario = Scenario(folder, images, start, options)
        kill(scenario, n_moments if FORKS else 2)
        report[name] = {"killed": scenario.n_killed, "different": scenario.different}
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
