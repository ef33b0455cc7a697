"""A way to run commands, and a store, a codebook and histograms that they made."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.formats.classifier import save_classifier

PARTS = ("--train-codebook", "10", "--train", "10")
"""A split that the small images can fill; the rest, 124 per class, is for tests."""

CODEBOOK = ("--part", "codebook", *PARTS)


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line of standard error."""
        return self.err.splitlines()[-1] if self.err else ""

    def lines(self) -> list[str]:
        """Return the lines of standard output of a command that succeeded, made for a pipe."""
        assert self.code == 0, self.err
        assert "\x1b" not in self.out
        return self.out.splitlines()


@pytest.fixture
def bowsaw(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Outcome:
        capfd.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Outcome(code, *capfd.readouterr())

    return run


@dataclass(frozen=True)
class Made:
    """The paths of what the commands of a session have made."""

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
    (images / "grass" / "broken.png").write_bytes(b"not an image")
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
    """Return all that a command has written, except how long it took."""
    if path.is_dir():
        with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
            dump = list(connection.iterdump())
        files = sorted(file for file in path.rglob("*") if file.is_file())
        arrays = {file.name: file.read_bytes() for file in files if file.suffix == ".npy"}
        return [file.relative_to(path).as_posix() for file in files], arrays, dump
    return path.read_bytes()


@pytest.fixture(scope="session")
def model(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier by soft codes, of the session's codebook."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    store = bs.Store(made.store)
    coder = bs.BagOfWords(bs.load(made.book), coding="soft", sharpness=20.0, random_state=0)
    y = np.array(store.classes)[store.y]
    fitted = bs.HistogramClassifier(C=4.0, random_state=0).fit(coder.transform(store.bags), y)
    save_classifier(fitted, path, coder)
    return path


@pytest.fixture(scope="session")
def content() -> Callable[[Path], object]:
    return content_of


@pytest.fixture(scope="session")
def parts() -> tuple[str, ...]:
    return PARTS


@pytest.fixture
def one_class(bowsaw: Callable[..., Outcome], made: Made, tmp_path: Path) -> None:
    """A store of one class, in the folder of the test."""
    shutil.copytree(made.images / "gravel", tmp_path / "one" / "gravel")
    bowsaw("extract", "one", "-o", "one.store").lines()


class Interrupter:
    """Calls a method, counts the calls, and sends a signal after some of them."""

    def __init__(self, method: Any) -> None:
        self.method, self.number, self.n_calls, self.stop = method, signal.SIGINT, 0, 0

    @classmethod
    def replace(cls, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Interrupter:
        found = cls(getattr(owner, name))
        monkeypatch.setattr(owner, name, found)
        return found

    def stop_after(self, n_calls: int, number: int = signal.SIGINT) -> None:
        """Send a signal after so many calls from now; 0 for never."""
        self.n_calls, self.stop, self.number = 0, n_calls, number

    def __get__(self, thing: object, kind: type | None = None) -> Any:
        return partial(self, thing)

    def __call__(self, *args: Any, **options: Any) -> Any:
        result = self.method(*args, **options)
        self.n_calls += 1
        if self.n_calls == self.stop:
            signal.raise_signal(self.number)
        return result
