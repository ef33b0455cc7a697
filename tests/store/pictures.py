"""A descriptor whose answer is known by looking at the picture, and pictures for it."""

from __future__ import annotations

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
"""The first pixel of a picture that kills whoever describes it, where somebody may be killed."""


class RowPixels(Descriptor):
    """Describes each pixel row but the first by its four pixels; one row alone has none."""

    def __init__(self, dtype="uint8", *, level=0, max_pixels=10_000):
        self.dtype = dtype
        self.level = level
        self.max_pixels = max_pixels
        self.max_side = None
        self.on_error = "raise"
        self.n_jobs = 1
        self.verbose = False

    def description(self) -> dict[str, Any]:
        return {"name": "row-pixels", "version": 1, "level": self.level}

    @property
    def scale(self) -> float:
        return 255.0

    @property
    def n_dims(self) -> int:
        return N_DIMS

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def min_side(self) -> int:
        return 1

    def describe(self, grey):
        values = grey[1:].astype(self.dtype)
        places = np.arange(1, len(grey), dtype=np.float32)
        return values, np.stack([np.full_like(places, 1.5), places, places * 0 + 1], axis=1)


def write_images(
    root: Path, counts: Sequence[int | None], seed: int = 0, deadly: int = -1
) -> ImageFolder:
    """Write one picture a count, in three classes; it has that many descriptors, None is broken."""
    for i, count in enumerate(counts):
        target = root / "abc"[i * 3 // len(counts)] / f"{i:03}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_image(target, count, seed + i, first=DEADLY if i == deadly else 0)
    return ImageFolder(root)


def write_image(target: Path, count: int | None, seed: int = 0, first: int = 0) -> None:
    """Write one picture; its first row, which nobody describes, begins with ``first``."""
    if count is None:
        target.write_bytes(b"not a picture")
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
