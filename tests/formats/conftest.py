"""What tests of formats share: a codebook with every field, and words of real images."""

from __future__ import annotations

import numpy as np
import pytest

import bowsaw as bs


@pytest.fixture
def full_book():
    return bs.Codebook(
        np.random.default_rng(0).normal(size=(5, 4)),
        [4, 8, 2, 1, 0],
        scale=512,
        description={"name": "dense-sift", "sizes": [4, 8]},
        provenance={"seed": 0, "objective": 0.1 + 0.2, "place": "Küche ☃\0"},
        trained_on=[3, 2**64 - 1],
    )


@pytest.fixture(scope="session")
def images(scenes):
    """Bags of images, uint8, and their classes."""
    folder = bs.ImageFolder(scenes)
    rows = np.arange(0, len(folder), 9)
    return bs.DenseSift(step=4).transform(folder[rows]), np.array(folder.classes)[folder.y[rows]]


@pytest.fixture(scope="session")
def book(images):
    return bs.KMeansCodebook(30, max_iter=3, random_state=0).fit(images[0]).codebook_
