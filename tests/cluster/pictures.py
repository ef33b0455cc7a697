"""Descriptors that workers can import, some of which are the death of a worker; and pictures."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bowsaw.descriptors.base import Descriptor
from bowsaw.images.folder import ImageFolder

N_DIMS = 4
DEADLY = 255
"""The first pixel of a picture that kills whoever describes it."""


class RowPixels(Descriptor):
    """Describes each pixel row but the first by its four pixels, divided by seven where it can."""

    def __init__(self, dtype="uint8", *, deaths="", max_pixels=10**6):
        self.dtype = dtype
        self.deaths = deaths
        self.max_pixels = max_pixels
        self.max_side = None
        self.on_error = "raise"
        self.n_jobs = 1
        self.verbose = False

    def description(self) -> dict[str, Any]:
        return {"name": "row-pixels", "version": 1}

    @property
    def scale(self) -> float:
        return 255.0

    @property
    def n_dims(self) -> int:
        return N_DIMS

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    def describe(self, grey):
        if self.deaths and grey[0, 0] == DEADLY:
            self.die()
        rows = grey[1:].astype(self.dtype)
        values = rows if self.dtype == "uint8" else rows / np.float32(7)
        places = np.arange(1, len(grey), dtype=np.float32)
        return values, np.stack([places * 0 + 1.5, places, places * 0 + 1], axis=1)

    def die(self) -> None:
        """Take one of the deaths that lie in a folder; without any left, live on."""
        for death in sorted(Path(self.deaths).iterdir()):
            try:
                death.unlink()
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


def write_images(root: Path, counts: list[int | None], deadly: int = -1) -> ImageFolder:
    """Write a picture a count, in three classes; it has so many descriptors, None is broken."""
    random = np.random.default_rng(0)
    for i, count in enumerate(counts):
        target = root / "abc"[i * 3 // len(counts)] / f"{i:03}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        if count is None:
            target.write_bytes(b"not a picture")
            continue
        pixels = random.integers(0, 255, (count + 1, N_DIMS), dtype=np.uint8)
        pixels[0, 0] = DEADLY if i == deadly else 0
        assert cv2.imwrite(str(target), pixels)
    return ImageFolder(root)


def deaths(folder: Path, n: int) -> str:
    """Make a folder of so many deaths."""
    folder.mkdir()
    for i in range(n):
        (folder / str(i)).touch()
    return str(folder)


def snapshot(folder: Path) -> dict[str, object]:
    """Return all that a store is: its files, the bytes of its shards, the dump of its catalogue."""
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        dump = list(connection.iterdump())
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    shards = {name: path.read_bytes() for name, path in files.items() if name.endswith(".npy")}
    return {"files": sorted(files), "shards": shards, "dump": dump}
