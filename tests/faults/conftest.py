"""What the commands of the fault matrix are given, their undisturbed results, and the figures."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.faults.matrix")

from tests.faults.commands import COMMANDS, SPLIT, Given  # noqa: E402
from tests.faults.matrix import FIGURES, Matrix  # noqa: E402
from tests.faults.runner import Server  # noqa: E402

from bowsaw.cli.main import main  # noqa: E402

# Trials fork, and find the names of open files in /proc.
collect_ignore = [] if sys.platform == "linux" else ["test_faults.py"]


@pytest.fixture(scope="session")
def given(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Given:
    """A store, a codebook, a classifier and a run of 45 small images; no command changes them."""
    folder = tmp_path_factory.mktemp("given")
    images = folder / "scenes"
    for source in sorted(scenes.iterdir()):
        (images / source.name).mkdir(parents=True)
        for image in sorted(source.iterdir())[:15]:
            shutil.copy(image, images / source.name / image.name)
    names = ("scenes", "s.store", "book.safetensors", "model.safetensors", "run")
    made = Given(*(folder / name for name in names))
    one_cell = ("--words", 8, "--sizes", 4, "--methods", "random", "--splits", 1)
    for words in (
        ("extract", images, *SPLIT, "-o", made.store),
        ("train", made.store, "--words", 10, "-o", made.book),
        ("fit", made.book, made.store, "-o", made.model),
        ("compare", made.store, *one_cell, "-o", made.run),
    ):
        assert main([*map(str, words), "-q", "-j", "1"]) == 0
    return made


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The process that commands are forked from."""
    found = Server(tmp_path_factory.mktemp("log") / "command")
    yield found
    found.close()


@pytest.fixture(scope="session")
def matrices(
    given: Given, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Matrix]:
    """The commands with their undisturbed results, made when they are needed first."""
    folder = tmp_path_factory.mktemp("trials")
    return {name: Matrix(name, given, server, folder) for name in COMMANDS}


@pytest.fixture
def matrix(command: str, matrices: dict[str, Matrix], record_property: Any) -> Iterator[Matrix]:
    """One command; what its trials count is added up at the end of the tests."""
    found = matrices[command]
    found.figures.clear()
    yield found
    for name, value in found.figures.items():
        record_property(f"faults: {name}", value)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what all trials have counted."""
    counts = dict.fromkeys(FIGURES, 0)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") == "teardown" and name.startswith("faults: "):
                    counts[name.removeprefix("faults: ")] += int(value)
    if any(counts.values()):
        terminalreporter.write_line(
            "faults: " + ", ".join(f"{name} {value:,}" for name, value in counts.items())
        )
