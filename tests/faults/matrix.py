"""One command of the fault matrix: its undisturbed result, and what every trial must show.

A trial begins with a folder of its own, disturbs the command, looks at the files that are left, and
runs the same command again without the fault. Whatever the fault was:

- the command ends by the signal, or with an exit code of ``bowsaw.errors`` and one line;
- files that are not its own stay as they are;
- the same command then ends with the same bytes as an undisturbed one, in the same files, so that
  no temporary file is left;
- finished pieces of work are not done again.

The bytes of SQLite depend on the order of its transactions, and those of skops on the time and on
addresses in memory; their content is compared instead.
"""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import zipfile
from collections import Counter
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.faults.commands import COMMANDS, Given, words_of
from tests.faults.runner import Server

import bowsaw as bs
from bowsaw import errors
from bowsaw.checkpoint import is_temporary

FIGURES = ("trials", "SIGKILL", "SIGINT", "failed writes", "refusals", "same bytes", "lost")
"""What is counted; "lost" is 0 where the tests pass."""
CODES = {
    kind.exit_code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.BowsawError)
} - {errors.BowsawError.exit_code}
SLACK = 2
"""Pieces of work that may be done twice: the one in progress, and the record of a beginning."""
Files = dict[str, Any]


def files_in(folder: Path) -> Files:
    """Return the content of every file below a folder."""
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = "folder"
        else:
            # A worker that outlives a killed command for a moment removes its temporary files.
            with suppress(FileNotFoundError):
                found[name] = _content(path)
    return found


def _content(path: Path) -> Any:
    if path.suffix == ".skops" and zipfile.is_zipfile(path):
        return bs.load(path).digest
    if path.suffix != ".sqlite":
        return path.read_bytes()
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return list(connection.iterdump())
    except sqlite3.Error:
        return path.read_bytes()


def differences(found: Files, expected: Files) -> list[str]:
    """Return the files that differ."""
    return [
        f"{name}: {'more' if name not in expected else 'missing' if name not in found else 'other'}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]


def lasting(files: Files) -> Files:
    """Leave out what a killed process leaves and any later one may remove."""
    return {
        name: content
        for name, content in files.items()
        if not is_temporary(Path(name).name) and not (name.endswith(".lock") and content == b"")
    }


class Matrix:
    """A command, and its trials."""

    def __init__(self, name: str, given: Given, server: Server, folder: Path) -> None:
        self.name, self.command = name, COMMANDS[name]
        self.words = words_of(self.command, given)
        self.given, self._server, self._folder = given, server, folder
        self._n_folders = 0
        self.figures: Counter[str] = Counter()
        self.random = random.Random(name)

    @cached_property
    def whole(self) -> dict[str, Any]:
        """The undisturbed run: its files, seconds, writing calls and pieces of work."""
        found = {}
        # The second is as quick as those that follow.
        for _ in range(2):
            folder = self.folder()
            found = self.run(folder)
            assert found["code"] == 0, found["err"]
            files = files_in(folder)
            shutil.rmtree(folder)
        return {**found, "files": files}

    def folder(self) -> Path:
        """Return a new folder with files that are not the command's own."""
        self._n_folders += 1
        folder = self._folder / f"{self.name.replace(': ', '-')}-{self._n_folders}"
        (folder / "tmp").mkdir(parents=True)
        (folder / "notes.txt").write_text("not a file of bowsaw")
        (folder / f".{Path(self.command.output).name}.draft.partial").write_text("neither")
        if self.command.copies:
            shutil.copytree(self.given.run, folder / "run")
        return folder

    def run(self, folder: Path, fault: Any = None, *more: str) -> dict[str, Any]:
        """Run the command in a folder."""
        return self._server.run(self.name, [*self.words, *more], folder, fault)

    def go_on(self, pid: int) -> dict[str, Any]:
        """Let a command that was stopped go on."""
        return self._server.resume(pid)

    def disturbed(self, fault: Any, folder: Path | None = None) -> tuple[Path, dict[str, Any]]:
        """Run the command with a fault, and check how it ended."""
        folder = folder or self.folder()
        found = self.run(folder, fault)
        self.figures["trials"] += 1
        self.check_end(found)
        return folder, found

    def check_end(self, found: dict[str, Any]) -> None:
        """Check the exit code and the message; a message is one line."""
        code, lines = found["code"], found["err"].splitlines()
        assert code in CODES | {0, -signal.SIGKILL, 130}, (code, found["err"])
        if code > 0:
            assert lines[-1].startswith("bowsaw: "), found["err"]
            assert sum(line.startswith("bowsaw: ") for line in lines) == 1, found["err"]
        assert "Traceback" not in found["err"], found["err"]

    def refused(self, folder: Path, *more: str, fault: Any = None) -> dict[str, Any]:
        """Run the command where it must refuse, and check that every file stays as it is."""
        before = files_in(folder)
        found = self.run(folder, fault, *more)
        self.figures["trials"] += 1
        self.figures["refusals"] += 1
        self.check_end(found)
        assert found["code"] in CODES, (found["code"], found["out"], found["err"])
        assert differences(lasting(files_in(folder)), lasting(before)) == []
        return found

    def finish(self, folder: Path, *more: str, expected: Files | None = None) -> dict[str, Any]:
        """Run the command to its end and compare all files with the undisturbed ones."""
        found = self.run(folder, None, *more)
        assert found["code"] == 0, found["err"]
        wrong = differences(files_in(folder), expected or self.whole["files"])
        self.figures["lost"] += bool(wrong)
        assert wrong == []
        self.figures["same bytes"] += 1
        shutil.rmtree(folder)
        return found

    def continued(self, folder: Path, before: dict[str, Any]) -> None:
        """Run the command again: the same bytes, and no finished piece of work done again."""
        output = self.command.output
        done = files_in(folder).get(output, b"") == self.whole["files"][output]
        after = self.finish(folder)
        if self.command.resumes and before["code"] != 0 and not done:
            twice = before["units"] + after["units"] - self.whole["units"]
            assert twice <= SLACK, (before["units"], after["units"], self.whole["units"])
