"""A way to run commands, and a store, a codebook and histograms that they made."""

import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.formats.classifier import save_classifier

SIZES = "10/10/rest"
"""A split that the small images can fill; the rest, 124 per class, is for tests."""


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
def bowsaw(capfd, monkeypatch, tmp_path):
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        capfd.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        out, err = capfd.readouterr()
        # In a new checkout any command may compile kernels.
        return Outcome(code, out, err.replace("compiling kernels (first run only)\n", ""))

    return run


@pytest.fixture(scope="session")
def made(scenes, tmp_path_factory):
    """One thing of each kind; tests must not change them."""
    folder = tmp_path_factory.mktemp("made")
    found = SimpleNamespace(
        images=folder / "scenes",
        store=folder / "scenes.store",
        other_store=folder / "coarse.store",
        book=folder / "book.safetensors",
        book_of_all=folder / "all.safetensors",
        other_book=folder / "coarse.safetensors",
        histograms=folder / "histograms.npz",
    )
    shutil.copytree(scenes, found.images)
    (found.images / "grass" / "broken.png").write_bytes(b"not an image")
    (found.images / "brick" / "[bold] 1.png").write_bytes(b"")
    for words in (
        ("extract", found.images, "-o", found.store, "--split", SIZES),
        ("extract", found.images, "-o", found.other_store, "--split", SIZES, "--patch-step", 16),
        ("train", found.store, "--words", 12, "-o", found.book),
        ("train", found.store, "--words", 12, "--part", "all", "-o", found.book_of_all),
        ("train", found.other_store, "--words", 12, "-o", found.other_book),
        ("encode", found.book, found.store, "-o", found.histograms),
    ):
        assert main([*map(str, words), "-q"]) == 0
    return found


@pytest.fixture(scope="session")
def model(made, tmp_path_factory):
    """A classifier by soft codes, of the session's codebook."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    store = bs.Store(made.store)
    coder = bs.BagOfWords(bs.load(made.book), coding="soft", sharpness=20.0, random_state=0)
    y = np.array(store.classes)[store.y]
    fitted = bs.HistogramClassifier(C=4.0, random_state=0).fit(coder.transform(store.bags), y)
    save_classifier(fitted, path, coder)
    return path


def content(path: Path) -> object:
    """Return all that a command has written, except how long it took."""
    if path.is_file():
        return path.read_bytes()
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        dump = list(connection.iterdump())
    files = sorted(file for file in path.rglob("*") if file.is_file())
    arrays = {file.name: file.read_bytes() for file in files if file.suffix == ".npy"}
    return [file.relative_to(path).as_posix() for file in files], arrays, dump


class Interrupter:
    """Calls a method, counts the calls, and sends a signal after some of them."""

    def __init__(self, monkeypatch, owner, name):
        self.method, self.number, self.n_calls, self.stop = getattr(owner, name), None, 0, 0
        monkeypatch.setattr(owner, name, self)

    def stop_after(self, n_calls, number=signal.SIGINT):
        """Send a signal after so many calls from now; 0 for never."""
        self.n_calls, self.stop, self.number = 0, n_calls, number

    def __get__(self, thing, kind=None):
        return partial(self, thing)

    def __call__(self, *args, **options):
        result = self.method(*args, **options)
        self.n_calls += 1
        if self.n_calls == self.stop:
            signal.raise_signal(self.number)
        return result
