"""Runs a search in a child process, so that an input that kills the process is found.

The child has limits of address space and of processor time per input, and writes each input to a
memory map first. When the child dies, or the map does not change for long, that input is the
finding; the next child leaves it out and continues. ``state.json``, ``corpus`` and ``findings`` lie
in one folder per reader, where a run that is started again continues.

Memory: after the first inputs, no input may raise the highest resident size by more than
``MEMORY_BESIDE + MEMORY_PER_BYTE × its bytes``, nor the address space by more than ``ADDRESSES``.
"""

import gc
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.engine import Finding, Hang, Search
from tests.fuzz.readers import READERS

SECONDS = 5
"""Of processor time per input, in Python."""
SECONDS_OF_SILENCE = 600
"""Without a new input: stuck in native code. Long, because a machine may be busy."""
MEMORY_BESIDE = 64 << 20
MEMORY_PER_BYTE = 64
ADDRESSES = 1 << 30
SAVE_EVERY = 1000
MOST_FINDINGS = 50
_MAP_SIZE = 1 << 20


class CurrentInput:
    """The input that is being tried, where another process can see it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_MAP_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _MAP_SIZE)

    def write(self, index: int, data: bytes) -> None:
        self._map[16 : 16 + len(data)] = data
        self._map[:16] = struct.pack("<qq", index, len(data))

    def read(self) -> tuple[int, bytes]:
        index, size = struct.unpack("<qq", self._map[:16])
        return index, self._map[16 : 16 + size]


def search_for(folder: Path, reader: str, seed: int, inputs: int, minutes: float) -> dict[str, Any]:
    place = folder / f"{reader}-{seed}"
    (place / "findings").mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    while True:
        words = [reader, str(seed), str(inputs), str(max(0.0, end - time.monotonic())), str(place)]
        child = subprocess.Popen([sys.executable, "-m", "tests.fuzz.supervisor", *words])
        trouble = _wait(child, place / "now")
        state = read_state(place)
        if trouble is None or len(state["left_out"]) >= MOST_FINDINGS:
            break
        index, data = CurrentInput(place / "now").read()
        keep(place, Finding(reader, trouble, f"the child process ended ({trouble})", data, index))
        state["left_out"].append(index)
        write_state(place, state)
    state["findings"] += len(state.pop("left_out"))
    return {"reader": reader, "seed": seed, **state, "seconds": round(state["seconds"])}


def _wait(child: subprocess.Popen[bytes], now: Path) -> str | None:
    """Wait for a child; return None for a normal end, or what happened to it."""
    last, since = b"", time.monotonic()
    while child.poll() is None:
        time.sleep(0.5)
        current = now.read_bytes()[:16] if now.exists() else b""
        if current != last:
            last, since = current, time.monotonic()
        elif time.monotonic() - since > SECONDS_OF_SILENCE:
            child.kill()
            child.wait()
            return "hang"
    if child.returncode > 0:
        raise SystemExit(f"the search itself failed with exit code {child.returncode}; see above.")
    return signal.Signals(-child.returncode).name if child.returncode else None


def read_state(place: Path) -> dict[str, Any]:
    names = ("inputs", "accepted", "refused", "edges_of_seeds", "new_edges", "corpus", "findings")
    try:
        found: dict[str, Any] = json.loads((place / "state.json").read_text())
    except FileNotFoundError:
        found = {**dict.fromkeys((*names, "seconds", "peak_bytes_above"), 0), "left_out": []}
    return found


def write_state(place: Path, state: dict[str, Any]) -> None:
    partial = place / "state.json.partial"
    partial.write_text(json.dumps(state))
    partial.replace(place / "state.json")


def keep(place: Path, finding: Finding) -> None:
    number = len(list((place / "findings").glob("*.bin")))
    if number < MOST_FINDINGS:
        (place / "findings" / f"{number:03}.bin").write_bytes(finding.data)
        about = {"kind": finding.kind, "detail": finding.detail, "index": finding.index}
        (place / "findings" / f"{number:03}.json").write_text(json.dumps(about))


def _child(reader: str, seed: int, inputs: int, seconds: float, place: Path) -> None:
    state = read_state(place)
    now = CurrentInput(place / "now")
    begin = time.monotonic()
    scratch = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=scratch, prefix=f"fuzz-{reader}-"))
    try:
        search = Search(READERS[reader], seed, folder)
        n_seeds = len(search.corpus)
        if grown := sorted(place.glob("corpus/*")):
            edges = search.n_begun
            search.begin([*search.corpus, *(path.read_bytes() for path in grown)])
            search.n_begun = edges
        for finding in search.findings:
            keep(place, finding)
        (place / "corpus").mkdir(exist_ok=True)
        left_out, before = set(state["left_out"]), dict(state)
        # Imported modules are never garbage; looking through them takes a quarter of the time.
        gc.collect()
        gc.freeze()
        _limit(now)
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        index = state["inputs"]
        n_saved, n_kept = len(search.corpus), 0
        findings = search.findings
        findings.clear()
        over = index >= inputs
        while not over:
            data = search.draw(index)
            now.write(index, data)
            if index not in left_out:
                search.step(data, index)
                peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
                if peak > MEMORY_BESIDE + MEMORY_PER_BYTE * len(data):
                    detail = f"{peak >> 20} MiB for {len(data)} bytes"
                    findings.append(Finding(reader, "memory", detail, data, index))
                    base += peak // 1024
                state["peak_bytes_above"] = max(state["peak_bytes_above"], peak)
            index += 1
            for finding in findings[n_kept:]:
                keep(place, finding)
            n_kept = len(findings)
            over = index == inputs or time.monotonic() - begin >= seconds
            if index % SAVE_EVERY == 0 or over:
                for number, entry in enumerate(search.corpus[n_saved:], start=n_saved - n_seeds):
                    (place / "corpus" / f"{number:06}").write_bytes(entry)
                n_saved = len(search.corpus)
                state.update(
                    inputs=index,
                    accepted=before["accepted"] + search.counts["accepted"],
                    refused=before["refused"] + search.counts["refused"],
                    findings=before["findings"] + n_kept,
                    corpus=n_saved,
                    edges_of_seeds=search.n_begun,
                    new_edges=len(search.seen) - search.n_begun,
                    seconds=before["seconds"] + time.monotonic() - begin,
                )
                write_state(place, state)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _limit(now: CurrentInput) -> None:
    """Bound the address space, and stop an input that keeps Python busy."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    seen = [-1, 0]

    def tick(*_: object) -> None:
        index, _data = now.read()
        seen[1] = seen[1] + 1 if index == seen[0] else 0
        seen[0] = index
        if seen[1] >= SECONDS:
            seen[1] = 0
            raise Hang(f"more than {SECONDS} seconds of processor time")

    signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, 1, 1)


if __name__ == "__main__":
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    name, seed_text, inputs_text, seconds_text, place_text = sys.argv[1:]
    # libpng and libjpeg write there about every second input.
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        _child(name, int(seed_text), int(inputs_text), float(seconds_text), Path(place_text))
    except BaseException:
        os.dup2(errors, 2)
        raise
