"""A few images, and a store, a codebook and histograms of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from bowsaw.cli.main import main


class Place(NamedTuple):
    """A folder with ``images``, ``a.store``, ``book.safetensors`` and ``h.npz``."""

    folder: Path
    images: Path
    store: Path
    book: Path
    histograms: Path

    @classmethod
    def at(cls, folder: Path) -> Place:
        names = ("images", "a.store", "book.safetensors", "h.npz")
        return cls(folder, *map(folder.joinpath, names))


@pytest.fixture(scope="session")
def made_once(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place.at(tmp_path_factory.mktemp("edges"))
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
    return Place.at(tmp_path / "place")
