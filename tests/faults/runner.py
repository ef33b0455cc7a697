"""Commands in forked processes, each with one fault at a chosen moment.

``python -m tests.faults.runner`` is a server: it reads one task per line of standard input, as
JSON, runs the command once in itself so that everything is imported and compiled, then in a fork
for every task, and answers with the exit code and what was counted. A fork begins at once, so that
a signal after a random time arrives inside the command.

The fork sees a disk that counts: every call that changes a file below the folder of the task has a
number, and a fault names one of them. From that call on the system refuses to write (``error``), or
a signal arrives just before it (``signal``); of a ``write``, half of the bytes are written by then.
SQLite writes by itself, so its transactions are counted at their beginning and end.

Clocks stand still, so that records and pages that hold times are the same bytes in every run, and
a checkpoint is always due.
"""

from __future__ import annotations

import builtins
import errno
import faulthandler
import io
import json
import mmap
import multiprocessing
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bowsaw.checkpoint import Checkpoint, JsonLines
from bowsaw.cli.main import _Signals, main
from bowsaw.store.catalog import Catalog
from bowsaw.store.histograms import HistogramWriter

MOST_SECONDS = 60
"""A command that takes longer hangs, and is aborted."""
NOT_OURS = 99
"""The exit code of an exception that is not one of bowsaw's."""
UNITS = (
    (Checkpoint, "save"),
    (JsonLines, "append"),
    (Catalog, "commit"),
    (HistogramWriter, "mark_done"),
)
"""What keeps a finished piece of work."""

# Which calls fail: a full disk still removes files, and a folder without permission still lets
# open files be written.
REFUSED = {
    errno.ENOSPC: {"open", "write", "fsync", "replace", "mkdir", "commit"},
    errno.EROFS: {"open", "write", "fsync", "replace", "mkdir", "commit", "unlink", "chmod"},
    errno.EACCES: {"open", "replace", "mkdir", "commit", "unlink"},
}
SQLITE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_CANTOPEN,
}


class Counters:
    """Numbers that a fork shares with the server.

    They are calls that write, pieces of work that are kept, and whether the command has begun.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 24)

    def add(self, place: int) -> int:
        value = self.read()[place] + 1
        struct.pack_into("q", self._memory, 8 * place, value)
        return value

    def read(self) -> tuple[int, int, int]:
        calls, units, begun = struct.unpack("qqq", self._memory[:24])
        return calls, units, begun

    def clear(self) -> None:
        self._memory[:24] = bytes(24)


class Disk:
    """The calls that change files below a folder; from the chosen one on they fail, or kill."""

    def __init__(self, folder: str, fault: dict[str, Any], counters: Counters) -> None:
        self._folder, self._counters = os.path.realpath(folder), counters
        self._at, self._error = fault.get("call", 0), fault.get("error")
        self._signals = fault.get("signals", [])

    def _is_inside(self, target: Any) -> bool:
        if isinstance(target, int):
            target = Path(f"/proc/self/fd/{target}").readlink()
        path = str(Path(os.fsdecode(target)).absolute())
        return os.path.realpath(path).startswith(self._folder) or path.startswith(self._folder)

    def call(self, kind: str, target: Any, begin: Callable[[], object] = lambda: None) -> None:
        """Count a call; ``begin`` is done first where it is the one with the fault."""
        if not self._is_inside(target):
            return
        number = self._counters.add(0)
        if not self._at or number < self._at:
            return
        if number == self._at:
            # A command that goes on writes all of it.
            if self._error in (errno.ENOSPC, errno.EROFS) or signal.SIGKILL in self._signals:
                begin()
            signals, self._signals = self._signals, []
            for one in signals:
                signal.raise_signal(one)
        if self._error and kind in REFUSED[self._error]:
            name = None if isinstance(target, int) else os.fspath(target)
            raise OSError(self._error, os.strerror(self._error), name)

    def install(self) -> None:
        """Replace the functions of Python that write."""
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                view = memoryview(data).cast("B")
                half = view[: len(view) // 2]
                disk.call("write", self.fileno(), lambda: io.FileIO.write(self, half))
                return super().write(view)

            def truncate(self, size: int | None = None, /) -> int:
                disk.call("write", self.fileno())
                return super().truncate(size)

        def counted(name: str, kind: str) -> None:
            real = getattr(os, name)

            def call(path: Any, *args: Any, **options: Any) -> Any:
                disk.call(kind, path)
                return real(path, *args, **options)

            setattr(os, name, call)

        for name, kind in {
            "replace": "replace",
            "rename": "replace",
            "mkdir": "mkdir",
            "unlink": "unlink",
            "rmdir": "unlink",
            "chmod": "chmod",
            "fsync": "fsync",
        }.items():
            counted(name, kind)
        os_open, io_open, connect = os.open, io.open, sqlite3.connect

        def open_descriptor(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                disk.call("open", path)
            return os_open(path, flags, *args, **options)

        def open_file(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+"):
                return io_open(file, mode, *args, **options)
            if not disk._is_inside(file):
                return io_open(file, mode, *args, **options)
            opener = options.get("opener")
            if not isinstance(file, int) and opener is None:
                disk.call("open", file)
            raw = Raw(file, mode.replace("b", "").replace("t", ""), opener=opener)
            buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, "utf-8")

        class Connection(sqlite3.Connection):
            def execute(self, statement: str, *args: Any) -> Any:
                if statement.startswith(("BEGIN", "COMMIT")):
                    try:
                        disk.call("commit", disk._folder)
                    except OSError as error:
                        refused = sqlite3.OperationalError(error.strerror)
                        refused.sqlite_errorcode = SQLITE[error.errno]  # type: ignore[index]
                        raise refused from None
                return super().execute(statement, *args)

        os.open = open_descriptor
        io.open = builtins.open = open_file  # type: ignore[assignment]
        sqlite3.connect = lambda *args, **options: connect(  # type: ignore[assignment]
            *args, **{"factory": Connection, **options}
        )


def make_repeatable(counters: Counters) -> None:
    """Let clocks stand still, pieces of work be small, and each be kept and counted."""
    time.perf_counter = lambda: 0.0
    Checkpoint.due = property(lambda self: self.path is not None)  # type: ignore[assignment]
    for module, name, value in (
        ("comparison.compare", "_now", lambda: "2000-01-01T00:00:00+00:00"),
        ("store.extraction", "SHARD_IMAGES", 9),
        ("coding.bag_of_words", "CHUNK_BAGS", 9),
        ("selection.annealing", "RENEWAL", 50),
    ):
        # A name of the package may be a function of the same name as its module.
        found = import_module(f"bowsaw.{module}")
        assert hasattr(found, name)
        setattr(found, name, value)
    context = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: context("fork")  # type: ignore[assignment,misc]
    for owner, name in UNITS:
        _count_units(owner, name, counters)


def _count_units(owner: type, name: str, counters: Counters) -> None:
    method = getattr(owner, name)

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        found = method(self, *args, **options)
        if getattr(self, "path", True) is not None:
            counters.add(1)
        return found

    setattr(owner, name, counted)


def run_command(task: dict[str, Any], counters: Counters) -> int:
    """Run the command of a task in this process, with its fault, and return the exit code."""
    folder = Path(task["folder"])
    os.chdir(folder)
    faulthandler.enable(Path(f"{task['log']}.hang").open("w"))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, stream in (("out", 1), ("err", 2)):
        handle = os.open(f"{task['log']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, stream)
    tempfile.tempdir = str(folder / "tmp")
    make_repeatable(counters)
    Disk(task["folder"], task.get("fault", {}), counters).install()
    install = _Signals.install

    def install_and_begin(signals: _Signals) -> None:
        install(signals)
        counters.add(2)

    _Signals.install = install_and_begin  # type: ignore[method-assign]
    sys.argv[1:] = task["words"]
    try:
        code = main()
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
        code = NOT_OURS
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def fork_command(task: dict[str, Any], counters: Counters) -> dict[str, Any]:
    """Run a task in a fork; send its signals by the clock; return how it ended, or stopped."""
    counters.clear()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            code = run_command(task, counters)
        except BaseException:
            traceback.print_exc()
            code = NOT_OURS
        os._exit(code)
    while not counters.read()[2]:
        time.sleep(0.0005)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
    begin = time.monotonic()
    for seconds, number in task.get("fault", {}).get("clock", []):
        while time.monotonic() < begin + seconds:
            time.sleep(0.0005)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
        os.kill(pid, number)
    return wait_for(pid, begin, counters)


def wait_for(pid: int, begin: float, counters: Counters) -> dict[str, Any]:
    """Wait until a fork ends or stops."""
    last = time.monotonic() + MOST_SECONDS
    while not (found := os.waitpid(pid, os.WUNTRACED | os.WNOHANG))[0]:
        time.sleep(0.001)
        if time.monotonic() > last:
            os.kill(pid, signal.SIGABRT)
    status = found[1]
    calls, units, _ = counters.read()
    answer = {"seconds": time.monotonic() - begin, "calls": calls, "units": units}
    if os.WIFSTOPPED(status):
        return {**answer, "code": None, "stopped": pid}
    return {**answer, "code": os.waitstatus_to_exitcode(status)}


def serve() -> None:
    """Answer tasks until standard input ends."""
    warm, counters = set(), Counters()
    for line in sys.stdin:
        task = json.loads(line)
        if "resume" in task:
            os.kill(task["resume"], signal.SIGCONT)
            answer = wait_for(task["resume"], time.monotonic(), counters)
        else:
            if task["name"] not in warm:
                warm.add(task["name"])
                # Compiled here, kernels need not be compiled in every fork.
                with tempfile.TemporaryDirectory() as folder:
                    run_quietly(task, folder)
            answer = fork_command(task, counters)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def run_quietly(task: dict[str, Any], folder: str) -> None:
    """Run the command of a task in this process, without its fault."""
    import contextlib
    import shutil

    before = Path.cwd()
    shutil.copytree(task["folder"], folder, dirs_exist_ok=True, symlinks=True)
    os.chdir(folder)
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    try:
        # What fails here fails in the fork, too, and is reported from there.
        with quiet[0], quiet[1], contextlib.suppress(Exception):
            main([*task["words"], "--quiet"])
    finally:
        os.chdir(before)


class Server:
    """The server, as the tests use it."""

    def __init__(self, log: Path) -> None:
        self._log, self._n_tasks = log, 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.runner"],
            cwd=Path(__file__).parents[2],
            # The threads of OpenMP do not survive a fork.
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, words: list[str], folder: Path, fault: Any = None) -> dict[str, Any]:
        """Run a command in a folder; return its code, output, seconds and counts."""
        task = {"name": name, "words": words, "folder": str(folder), "fault": fault or {}}
        self._n_tasks += 1
        log = f"{self._log}.{self._n_tasks % 8}"
        for one in ("out", "err"):
            Path(f"{log}.{one}").touch()
        found = self._ask({**task, "log": log})
        texts = {one: Path(f"{log}.{one}").read_text("utf-8") for one in ("out", "err")}
        return {**found, **texts}

    def resume(self, pid: int) -> dict[str, Any]:
        """Let a command that was stopped go on, and wait for its end."""
        return self._ask({"resume": pid})

    def _ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server has died"
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


if __name__ == "__main__":
    serve()
