"""Pictures for a cluster, and a descriptor that workers can import and may die of."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
from tests.store import pictures
from tests.store.pictures import DEADLY, snapshot, write_images

__all__ = ["RowPixels", "deaths", "snapshot", "write_images"]


class RowPixels(pictures.RowPixels):
    """Pixel rows, divided by seven where they can be; a deadly picture may kill who reads it."""

    def __init__(self, dtype="uint8", *, level=0, max_pixels=10**6, deaths=""):
        super().__init__(dtype, level=level, max_pixels=max_pixels)
        self.deaths = deaths

    def describe(self, grey):
        if self.deaths and grey[0, 0] == DEADLY:
            self.die()
        values, places = super().describe(grey)
        return values if self.dtype == "uint8" else values / np.float32(7), places

    def die(self) -> None:
        """Take one of the deaths that lie in a folder; without any left, live on."""
        for death in sorted(Path(self.deaths).iterdir()):
            try:
                death.unlink()
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


def deaths(folder: Path, n: int) -> str:
    """Make a folder of so many deaths."""
    folder.mkdir()
    for i in range(n):
        (folder / str(i)).touch()
    return str(folder)
