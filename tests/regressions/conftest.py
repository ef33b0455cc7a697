"""A way to run commands, and a store and a codebook of small images."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tests.regressions.adapter import PART_ALL

import bowsaw as bs
from bowsaw.cli.main import main

SIZES = "8/8/rest"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Made:
    images: Path
    store: Path
    book: Path
    book_of_all: Path


@pytest.fixture
def bowsaw(capfd, monkeypatch, tmp_path) -> Callable[..., Outcome]:
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


@pytest.fixture(scope="session")
def made(scenes: Path, tmp_path_factory) -> Made:
    """A store of 72 images, a codebook of a split's part and one of all images."""
    folder = tmp_path_factory.mktemp("regressions")
    images = folder / "scenes"
    for source in sorted(scenes.iterdir()):
        (images / source.name).mkdir(parents=True)
        for image in sorted(source.iterdir())[:24]:
            shutil.copy(image, images / source.name / image.name)
    found = Made(images, folder / "s.store", folder / "b.safetensors", folder / "a.safetensors")
    for words in (
        ("extract", images, "-o", found.store, "--split", SIZES),
        ("train", found.store, "--words", 16, "-o", found.book),
        ("train", found.store, "--words", 16, *PART_ALL, "-o", found.book_of_all),
    ):
        assert main([*map(str, words), "-q", "-j", "1"]) == 0
    return found


@pytest.fixture
def fast_clock(monkeypatch) -> None:
    """Let seconds pass quickly, so that every checkpoint that is due every few seconds is due."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 100.0
        return now[0]

    monkeypatch.setattr("time.monotonic", monotonic)


@pytest.fixture(scope="session")
def toy() -> tuple[bs.Bags, np.ndarray, bs.Codebook]:
    """24 bags of two classes with names of their images, their labels, and a codebook."""
    rng = np.random.default_rng(3)
    y = np.arange(24) % 2
    rows = [rng.normal([0.5 * label, 0.0, 0.0], 1.0, size=(20, 3)) for label in y]
    offsets = np.arange(0, 24 * 20 + 1, 20)
    digests = np.arange(100, 124, dtype=np.uint64)
    bags = bs.Bags(np.concatenate(rows), offsets, digests=digests)
    return bags, y, bs.Codebook(rng.normal(size=(12, 3)))
