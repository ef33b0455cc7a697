"""Runs a search in a child process, so that whatever an input does to a process is told.

The child works under limits: address space, so that an allocation without measure fails; and a
clock of its own processor time, so that an input that keeps Python busy is stopped. Before each
input it writes the input down in a memory map. When the child dies, or nothing changes there for
long, that input is the finding; the next child leaves it out and goes on.

Everything lies in one folder a reader: ``state.json``, ``corpus`` and ``findings``. A run that is
started again goes on there.

Memory: when the reader is warm, no input may raise the highest resident size by more than
``MEMORY_BESIDE + MEMORY_A_BYTE × its bytes``, nor ask for more address space than ``ADDRESSES``
above what the child had.
"""

from __future__ import annotations

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
from tests.fuzz.readers import reader_named

SECONDS = 5
"""Of processor time for one input, in Python."""
SECONDS_STUCK, SECONDS_OF_SILENCE = 30, 900
"""Of processor time, and of any time, without a new input: stuck in native code, or waiting. Long,
because importing counts too, and a machine may be busy with others."""
MEMORY_BESIDE = 64 << 20
MEMORY_A_BYTE = 64
ADDRESSES = 1 << 30
KEEP_EVERY = 1000
MOST_FINDINGS = 50
_ROOM = 1 << 20


class Diary:
    """The input that is being tried, where another process can see it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_ROOM))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _ROOM)

    def write(self, index: int, data: bytes) -> None:
        """Note what comes now."""
        self._map[16 : 16 + len(data)] = data
        self._map[:16] = struct.pack("<qq", index, len(data))

    def read(self) -> tuple[int, bytes]:
        """Return what was noted last."""
        index, size = struct.unpack("<qq", self._map[:16])
        return index, self._map[16 : 16 + size]


def search_for(folder: Path, reader: str, seed: int, inputs: int, minutes: float) -> dict[str, Any]:
    """Try inputs of a reader until there were so many, or the time is over; return the figures."""
    place = folder / f"{reader}-{seed}"
    (place / "findings").mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    while True:
        words = [reader, str(seed), str(inputs), str(max(0.0, end - time.monotonic()))]
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.supervisor", *words, str(place)]
        )
        trouble = _wait(child, place)
        if trouble is None:
            break
        index, data = Diary(place / "now").read()
        state = read_state(place)
        keep(place, Finding(reader, trouble, f"the child process ended ({trouble})", data, index))
        state["left_out"].append(index)
        write_state(place, state)
        if len(state["left_out"]) >= MOST_FINDINGS:
            break
    return figures(place, reader, seed)


def _wait(child: subprocess.Popen[bytes], place: Path) -> str | None:
    """Wait for a child; return None when it ended as it should, or what happened to it."""
    last, since, used = b"", time.monotonic(), 0.0
    while child.poll() is None:
        time.sleep(0.5)
        now = (place / "now").read_bytes()[:16] if (place / "now").exists() else b""
        if now != last:
            last, since, used = now, time.monotonic(), _processor_seconds(child.pid)
        elif (
            time.monotonic() - since > SECONDS_OF_SILENCE
            or _processor_seconds(child.pid) - used > SECONDS_STUCK
        ):
            child.kill()
            child.wait()
            return "hang"
    if child.returncode > 0:
        raise SystemExit(f"the search itself failed with exit code {child.returncode}; see above.")
    return signal.Signals(-child.returncode).name if child.returncode else None


def _processor_seconds(process: int) -> float:
    """Return how long a process has worked; 0 where the system does not tell, or it is gone."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def figures(place: Path, reader: str, seed: int) -> dict[str, Any]:
    """Return what a run came to."""
    state = read_state(place)
    return {
        "reader": reader,
        "engine": "coverage",
        "seed": seed,
        "inputs": state["done"],
        "accepted": state["accepted"],
        "refused": state["refused"],
        "edges_of_seeds": state["edges_of_seeds"],
        "new_edges": state["new_edges"],
        "corpus": state["corpus"],
        "findings": state["findings"] + len(state["left_out"]),
        "seconds": round(state["seconds"]),
        "peak_bytes_above": state["peak"],
    }


_NEW: dict[str, Any] = {
    **dict.fromkeys(("done", "accepted", "refused", "findings", "corpus"), 0),
    **dict.fromkeys(("new_edges", "edges_of_seeds", "seconds", "peak"), 0),
}


def read_state(place: Path) -> dict[str, Any]:
    """Return where a run stands."""
    try:
        found: dict[str, Any] = json.loads((place / "state.json").read_text())
    except FileNotFoundError:
        found = {**_NEW, "left_out": []}
    return found


def write_state(place: Path, state: dict[str, Any]) -> None:
    """Put down where a run stands."""
    partial = place / "state.json.partial"
    partial.write_text(json.dumps(state))
    partial.replace(place / "state.json")


def keep(place: Path, finding: Finding) -> None:
    """Keep the input of a finding, and what it did."""
    number = len(list((place / "findings").glob("*.bin")))
    if number < MOST_FINDINGS:
        (place / "findings" / f"{number:03}.bin").write_bytes(finding.data)
        told = {"kind": finding.kind, "detail": finding.detail, "index": finding.index}
        (place / "findings" / f"{number:03}.json").write_text(json.dumps(told))


def _child(reader: str, seed: int, inputs: int, seconds: float, place: Path) -> None:
    state = read_state(place)
    diary = Diary(place / "now")
    begin = time.monotonic()
    scratch = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=scratch, prefix=f"fuzz-{reader}-"))
    try:
        search = Search(reader_named(reader), seed, folder)
        n_seeds = len(search.corpus)
        grown = sorted(place.glob("corpus/*"))
        if grown:
            edges = search.n_begun
            search.begin([*search.corpus, *(path.read_bytes() for path in grown)])
            search.n_begun = edges
        for finding in search.tally.findings:
            keep(place, finding)
        (place / "corpus").mkdir(exist_ok=True)
        left_out, before = set(state["left_out"]), dict(state)
        # What was imported is never garbage; looking through it takes a quarter of the time.
        gc.collect()
        gc.freeze()
        _limit(diary)
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        index = state["done"]
        n_kept, n_told = len(search.corpus), 0
        search.tally.findings.clear()
        over = index >= inputs
        while not over:
            data = search.draw(index)
            diary.write(index, data)
            if index in left_out:
                search.tally.done += 1
            else:
                search.step(data, index)
                peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
                if peak > MEMORY_BESIDE + MEMORY_A_BYTE * len(data):
                    told = f"{peak >> 20} MiB for {len(data)} bytes"
                    search.tally.findings.append(Finding(reader, "memory", told, data, index))
                    base += peak // 1024
                state["peak"] = max(state["peak"], peak)
            index += 1
            findings = search.tally.findings
            for finding in findings[n_told:]:
                keep(place, finding)
            n_told = len(findings)
            over = index == inputs or time.monotonic() - begin >= seconds
            if index % KEEP_EVERY == 0 or over:
                for number, entry in enumerate(search.corpus[n_kept:], start=n_kept - n_seeds):
                    (place / "corpus" / f"{number:06}").write_bytes(entry)
                n_kept = len(search.corpus)
                tally = search.tally
                state.update(
                    done=index,
                    accepted=before["accepted"] + tally.accepted,
                    refused=before["refused"] + tally.refused,
                    findings=before["findings"] + n_told,
                    corpus=n_kept,
                    edges_of_seeds=search.n_begun,
                    new_edges=search.n_edges,
                    seconds=before["seconds"] + time.monotonic() - begin,
                )
                write_state(place, state)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _limit(diary: Diary) -> None:
    """Bound the address space, and let an input that keeps Python busy be stopped."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    seen = [-1, 0]

    def tick(*_: object) -> None:
        index, _data = diary.read()
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
    # libpng and libjpeg complain there of every second input.
    said = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        _child(name, int(seed_text), int(inputs_text), float(seconds_text), Path(place_text))
    except BaseException:
        os.dup2(said, 2)
        raise
