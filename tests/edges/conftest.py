"""A few pictures, and a store, a codebook and histograms of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from bowsaw.cli.main import main


@dataclass(frozen=True)
class Place:
    """Where things lie."""

    images: Path
    store: Path
    book: Path
    histograms: Path

    @property
    def folder(self) -> Path:
        """What holds all of them."""
        return self.store.parent


@pytest.fixture(scope="session")
def made_once(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("edges")
    place = Place(
        folder / "images", folder / "a.store", folder / "book.safetensors", folder / "h.npz"
    )
    for name in ("brick", "grass"):
        (place.images / name).mkdir(parents=True)
        for i in range(5):
            shutil.copy(scenes / name / f"{i:03}.png", place.images / name)
    for words in (
        ("extract", place.images, "-o", place.store),
        ("train", place.store, "--words", 8, "-o", place.book),
        ("encode", place.book, place.store, "-o", place.histograms),
    ):
        assert main([*map(str, words), "-q", "-j", "1"]) == 0
    return place


@pytest.fixture
def place(made_once: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a copy that a test may spoil; commands are typed beside it."""
    shutil.copytree(made_once.folder, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    here = tmp_path / "place"
    return Place(here / "images", here / "a.store", here / "book.safetensors", here / "h.npz")
