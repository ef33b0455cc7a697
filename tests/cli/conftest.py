"""A way to type commands, and a store, a codebook and histograms that were made by typing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bowsaw.cli.main import main

PARTS = ("--train-codebook", "10", "--train", "10")
"""A split that the small pictures can fill; the rest, 124 of each class, is for tests."""

CODEBOOK = ("--part", "codebook", *PARTS)


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line of standard error."""
        return self.err.splitlines()[-1] if self.err else ""

    def lines(self) -> list[str]:
        """Return the lines of standard output of a command that went well, made for a pipe."""
        assert self.code == 0, self.err
        assert "\x1b" not in self.out
        return self.out.splitlines()


@pytest.fixture
def bowsaw(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """Type a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def type_command(*words: object) -> Outcome:
        capfd.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Outcome(code, *capfd.readouterr())

    return type_command


@dataclass(frozen=True)
class Made:
    """Where the things lie that a session of commands has made."""

    images: Path
    store: Path
    other_store: Path
    book: Path
    book_of_all: Path
    other_book: Path
    histograms: Path


@pytest.fixture(scope="session")
def made(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Make one thing of each kind; tests must not change them."""
    folder = tmp_path_factory.mktemp("made")
    images = folder / "scenes"
    shutil.copytree(scenes, images)
    (images / "grass" / "broken.png").write_bytes(b"no picture")
    (images / "brick" / "[bold] 1.png").write_bytes(b"")
    found = Made(
        images,
        folder / "scenes.store",
        folder / "coarse.store",
        folder / "book.safetensors",
        folder / "all.safetensors",
        folder / "coarse.safetensors",
        folder / "histograms.npz",
    )
    for words in (
        ("extract", images, "-o", found.store),
        ("extract", images, "-o", found.other_store, "--step", 16),
        ("train", found.store, "--words", 12, *CODEBOOK, "-o", found.book),
        ("train", found.store, "--words", 12, "-o", found.book_of_all),
        ("train", found.other_store, "--words", 12, *CODEBOOK, "-o", found.other_book),
        ("encode", found.book, found.store, "-o", found.histograms),
    ):
        assert main([*map(str, words), "-q"]) == 0
    return found


def content_of(path: Path) -> object:
    """Return all that a command has written, but for what may differ: how long it took."""
    if path.is_dir():
        with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
            dump = list(connection.iterdump())
        files = sorted(file for file in path.rglob("*") if file.is_file())
        arrays = {file.name: file.read_bytes() for file in files if file.suffix == ".npy"}
        return [file.relative_to(path).as_posix() for file in files], arrays, dump
    if path.suffix == ".json":
        result = json.loads(path.read_text("utf-8"))
        for record in result["records"]:
            del record["seconds"]
        return result
    return path.read_bytes()


@pytest.fixture(scope="session")
def content() -> Callable[[Path], object]:
    return content_of


@pytest.fixture(scope="session")
def parts() -> tuple[str, ...]:
    return PARTS
