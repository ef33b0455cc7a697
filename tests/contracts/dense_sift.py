"""What every implementation of dense SIFT must answer: Python, C, graph and page.

The images are odd on purpose. What is expected comes from the float64 twins in ``tests/oracles``;
the definition, with every rounding, is in the docstring of ``bowsaw.descriptors.dense_sift``.

An implementation is a function of one grey image that returns its descriptors, ``(n, 128)`` uint8,
or None where the image is smaller than a patch. ``assert_agrees`` runs it on every image that needs
no reduction; ``LARGE`` holds those that do.
"""

from functools import cache

import numpy as np
from tests.oracles import area_resize
from tests.oracles import dense_sift as oracle

MAX_SIDE = 300
RATE, STEP = 0.001, 1
"""At most this share of bytes may differ, by at most this much."""
PARAMETERS = (
    {"patch": 16, "step": 8, "min_contrast": 1.0},
    {"patch": 8, "step": 5, "min_contrast": 0.0},
    {"patch": 24, "step": 24, "min_contrast": 1.0},  # weights that are no binary fractions
    {"patch": 12, "step": 7, "min_contrast": 3.0},
    {"patch": 4, "step": 9, "min_contrast": 1.0},
)
"""The default, and others that an exporter must not take for granted."""


def _noise(height, width, low=0, high=256, seed=0):
    return np.random.default_rng(seed).integers(low, high, (height, width), dtype=np.uint8)


def _checkers(side, square, dark=0, bright=255):
    y, x = np.mgrid[:side, :side] // square
    return np.where((x + y) % 2, bright, dark).astype(np.uint8)


def _wave(height, width, angle, period=9.0, contrast=100.0):
    y, x = np.mgrid[:height, :width]
    along = x * np.cos(angle) + y * np.sin(angle)
    return np.rint(128 + contrast * np.sin(along * 2 * np.pi / period)).astype(np.uint8)


def _disc(height, width):
    y, x = np.mgrid[:height, :width]
    return np.clip(20 * (12 - np.hypot(x - width / 2, y - height / 2)), 0, 255).astype(np.uint8)


def _images():
    y, x = np.mgrid[:40, :44]
    found = {
        "one pixel": _noise(1, 1),
        "smaller than a patch": _noise(15, 15),
        "one row too few": _noise(15, 40),
        "one column too few": _noise(40, 15),
        "a row": _noise(1, MAX_SIDE),
        "a column": _noise(MAX_SIDE, 1),
        "one patch": _noise(16, 16),
        "a ribbon": _noise(16, MAX_SIDE),
        "a pillar": _noise(MAX_SIDE, 17),
        "black": np.zeros((33, 30), np.uint8),
        "grey": np.full((24, 24), 77, np.uint8),
        "white": np.full((30, 33), 255, np.uint8),
        "noise": _noise(50, 61),
        "two levels of noise": _noise(34, 41, 0, 2) * np.uint8(255),
        "faint noise": _noise(34, 41, 127, 129),
        "less faint noise": _noise(34, 41, 120, 136),
        "to the right": (x * 5).astype(np.uint8),
        "down": (y * 6).astype(np.uint8),
        "up to the left": (255 - 3 * x - 3 * y).astype(np.uint8),
        "slow": (100 + x // 8).astype(np.uint8),
        "edge": np.where(x < 20, 0, 255).astype(np.uint8),
        "dot": np.where((x == 20) & (y == 20), 255, 0).astype(np.uint8),
        "corner": np.where((x == 0) & (y == 0), 255, 0).astype(np.uint8),
        "disc": _disc(45, 40),
        **{f"checkers of {n}": _checkers(37, n) for n in (1, 2, 3, 4, 8, 16)},
        "faint checkers": _checkers(36, 5, 127, 128),
    }
    # Every remainder of both sides, and every direction.
    for r in range(8):
        found[f"remainder {r}"] = _wave(24 + r, 24 + (3 * r + 1) % 8, r * np.pi / 8 + 0.1)
    return found


IMAGES = _images()
"""Odd images by name, none of them larger than ``MAX_SIDE``."""

LARGE = {
    "a thread": _noise(1, 10_000),
    "a rope": _noise(16, 10_000),
    "a mast": _noise(10_000, 16),
    "one pixel too wide": _noise(40, MAX_SIDE + 1),
    "half": _noise(2 * 40, 2 * MAX_SIDE),
    "a third": _noise(3 * MAX_SIDE, 3 * 41),
    "vga": _wave(48, 640, 0.3),
    "tall": _noise(451, 57),
    "not quite": _checkers(307, 1),
    "edges": _checkers(480, 7),
}
"""Images that are reduced first."""


@cache
def _expected(name, parameters):
    return oracle.as_bytes(oracle.describe(IMAGES[name], **dict(parameters))[0])


def expected(name, **parameters):
    """The descriptors of an image, or None where it is smaller than a patch."""
    parameters = {**PARAMETERS[0], **parameters}
    if min(IMAGES[name].shape) < parameters["patch"]:
        return None
    return _expected(name, tuple(sorted(parameters.items())))


@cache
def reduced(name):
    """An image of ``LARGE`` at its final size; an implementation may be one grey level away."""
    return area_resize.area_resize(LARGE[name], MAX_SIDE)


def differences(describe, **parameters):
    """How many bytes differ, of how many, and by how much at most, over all images."""
    n_bytes, n_different, most = 0, 0, 0
    for name, grey in IMAGES.items():
        theirs, answer = expected(name, **parameters), describe(grey)
        if theirs is None:
            assert answer is None, f"{name} is smaller than a patch, and is described"
            continue
        assert answer is not None, f"{name} is not described"
        assert answer.shape == theirs.shape, name
        apart = np.abs(np.asarray(answer).astype(int) - theirs)
        n_bytes, n_different = n_bytes + apart.size, n_different + np.count_nonzero(apart)
        most = max(most, int(apart.max(initial=0)))
    return n_different, n_bytes, most


def assert_agrees(describe, **parameters):
    """Compare an implementation with the definition, on every image that needs no reduction."""
    n_different, n_bytes, most = differences(describe, **parameters)
    assert most <= STEP
    assert n_different <= RATE * n_bytes, f"{n_different} of {n_bytes} bytes differ"
