"""Fair timing on a noisy machine, and what the machine is."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")


def alternate(
    repeats: int, *, clock: Callable[[], float] = time.perf_counter, **sides: Callable[[], Any]
) -> dict[str, float]:
    """Time each side once untimed, then in turn ``repeats`` times; return medians in seconds."""
    return {name: median(times) for name, times in in_turn(repeats, clock=clock, **sides).items()}


def in_turn(
    repeats: int, *, clock: Callable[[], float] = time.perf_counter, **sides: Callable[[], Any]
) -> dict[str, list[float]]:
    """Like ``alternate``, but return all times, each side's in the order of the repeats.

    Every other time the sides come in reverse, so that a machine that grows faster or slower
    favours none of them.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    for repeat in range(repeats):
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            # The threads of a BLAS spin for a while after a call, and would disturb the next side.
            time.sleep(0.1)
            begin = clock()
            sides[name]()
            times[name].append(clock() - begin)
    return times


def gain(slow: list[float], fast: list[float]) -> tuple[float, float, float]:
    """Return the median ratio of neighbouring times, the lowest and the highest.

    What a machine shared with others does for minutes falls on both of two neighbours.
    """
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    return median(ratios), min(ratios), max(ratios)


def hardware() -> dict[str, str]:
    """Describe the machine and the versions that were measured."""
    try:
        model = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[0]
    except (OSError, IndexError):
        model = platform.processor() or platform.machine()
    packages = ("numpy", "scipy", "numba", "opencv-python-headless", "scikit-learn", "faiss-cpu")
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in packages),
    }


def peak_anonymous(command: list[str]) -> int:
    """Run a command and return the peak of its anonymous memory (RssAnon) in bytes; Linux only."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    status = Path(f"/proc/{process.pid}/status")
    peak = 0
    while process.poll() is None:
        try:
            found = re.search(r"RssAnon:\s+(\d+) kB", status.read_text())
        except OSError:
            break
        if found:
            peak = max(peak, int(found[1]) * 1024)
        time.sleep(0.004)
    _, trouble = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {trouble.decode()}")
    return peak


def peak_during(work: Callable[[], T]) -> tuple[T, int]:
    """Return what ``work`` returns, and by how much anonymous memory grew meanwhile; Linux only."""
    status = Path("/proc/self/status")

    def now() -> int:
        found = re.search(r"RssAnon:\s+(\d+) kB", status.read_text())
        return int(found[1]) * 1024 if found else 0

    before = peak = now()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, now())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = work()
    finally:
        done.set()
        watcher.join()
    return result, max(peak, now()) - before


def bowsaw(*arguments: str) -> list[str]:
    """Return the command line of bowsaw in this Python."""
    return [sys.executable, "-m", "bowsaw", *arguments, "--quiet"]
