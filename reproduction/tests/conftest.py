"""Small images in three classes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest


@pytest.fixture(scope="session")
def small_scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 20 images of 80 × 80 noise per class, each class blurred differently."""
    folder, rng = tmp_path_factory.mktemp("study") / "scenes", np.random.default_rng(0)
    for name, blur in (("coarse", 7), ("fine", 1), ("medium", 3)):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            noise = rng.integers(0, 256, size=(80, 80), dtype=np.uint8)
            cv2.imwrite(str(folder / name / f"{number:02}.png"), cv2.blur(noise, (blur, blur)))
    return folder
