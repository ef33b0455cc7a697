"""A descriptor whose result is known from the image, and images for it."""

import os
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bowsaw.descriptors.base import Descriptor
from bowsaw.images.folder import ImageFolder

N_DIMS = 4
DEADLY = 255
"""The first pixel of an image that kills the process that describes it, while deaths are left."""


class RowPixels(Descriptor):
    """Describes each pixel row but the first by its four pixels; one row alone has none."""

    def __init__(self, dtype="uint8", *, level=0, max_pixels=10**6, deaths=""):
        self.dtype = dtype
        self.level = level
        self.max_pixels = max_pixels
        self.deaths = deaths
        self.max_side, self.on_error, self.n_jobs, self.verbose = None, "raise", 1, False

    def description(self) -> dict[str, Any]:
        return {"name": "row-pixels", "version": 1, "level": self.level}

    scale = 255.0
    n_dims = N_DIMS
    min_side = 1

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    def describe(self, grey):
        if self.deaths and grey[0, 0] == DEADLY:
            for death in sorted(Path(self.deaths).iterdir()):
                death.unlink(missing_ok=True)
                os.kill(os.getpid(), signal.SIGKILL)
        values = grey[1:].astype(self.dtype)
        places = np.arange(1, len(grey), dtype=np.float32)
        positions = np.stack([np.full_like(places, 1.5), places, places * 0 + 1], axis=1)
        return values if self.dtype == "uint8" else values / values.dtype.type(7), positions


def make_deaths(folder: Path, n: int) -> str:
    folder.mkdir()
    for i in range(n):
        (folder / str(i)).touch()
    return str(folder)


def write_images(
    root: Path, counts: Sequence[int | None], seed: int = 0, deadly: int = -1
) -> ImageFolder:
    """Write an image with each number of descriptors, in three classes; None is a broken file."""
    for i, count in enumerate(counts):
        target = root / "abc"[i * 3 // len(counts)] / f"{i:03}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_image(target, count, seed + i, first=DEADLY if i == deadly else 0)
    return ImageFolder(root)


def write_image(target: Path, count: int | None, seed: int = 0, first: int = 0) -> None:
    """Write one image; its first row, which is not described, begins with ``first``."""
    if count is None:
        target.write_bytes(b"not an image")
    else:
        shape = (count + 1, N_DIMS)
        pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        pixels[0, 0] = first
        assert cv2.imwrite(str(target), pixels)


def snapshot(folder: Path) -> dict[str, object]:
    """Return all that a store is: its files, the bytes of its shards, the dump of its catalogue."""
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
        dump = list(connection.iterdump())
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    shards = {name: path.read_bytes() for name, path in files.items() if name.endswith(".npy")}
    return {"files": sorted(files), "shards": shards, "dump": dump}
