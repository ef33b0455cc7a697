"""A pseudo-terminal and a full disk, for systems that have them."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 300.0
"""Seconds after which a program that says nothing more has failed."""

# A session without a terminal gets the first one that it opens, and with it Ctrl-C.
_OWN_TERMINAL = (
    "import os, sys\n"
    "os.close(os.open(os.ttyname(0), os.O_RDWR))\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)

COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What begins or ends coloured, bold or dim text."""


class Terminal:
    """Runs a program and shows what stands on its terminal."""

    def __init__(self, *words, env):
        import pty
        import termios

        self._handle, inside = pty.openpty()
        termios.tcsetwinsize(inside, (40, 120))
        self._child = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *map(str, words)],
            **dict.fromkeys(("stdin", "stdout", "stderr"), inside),
            env=env,
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        os.close(self._handle)

    def type(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def send(self, number: int) -> None:
        self._child.send_signal(number)

    def wait_for(self, text: str) -> None:
        """Read until ``text`` is shown."""
        while text not in self.shown:
            assert self._read(), f"{text!r} never came: {self.shown!r}"

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + _PATIENCE
        while self._read():
            assert time.monotonic() < end, f"it never ended: {self.shown[-1000:]!r}"
        return self._child.wait()

    def _read(self) -> bool:
        end = time.monotonic() + _PATIENCE
        while not select.select([self._handle], [], [], 1)[0]:
            assert time.monotonic() < end, f"silence after {self.shown!r}"
        try:
            found = os.read(self._handle, 65536)
        except OSError:  # Linux: the other end is closed
            found = b""
        self.shown += found.decode(errors="replace")
        return bool(found)


def surroundings(**more: str) -> dict[str, str]:
    """Return the environment of a modern terminal."""
    left_out = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHON_COLORS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more}


def bowsaw_at_a_terminal(*words: object, **variables: str) -> Terminal:
    return Terminal(sys.executable, "-m", "bowsaw", *words, env=surroundings(**variables))


@contextmanager
def no_file_larger_than(n_bytes: int) -> Iterator[None]:
    """Let the system refuse larger files, which fails like a full disk, by an error of a write."""
    import resource

    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    # Python would cache modules imported meanwhile in files that are cut short.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes
