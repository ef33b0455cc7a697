"""What tests of formats share: a codebook with every field, words of real images, forged files."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

import bowsaw as bs
from bowsaw.checkpoint import tensors_digest


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


@pytest.fixture
def forge():
    """Change the content of a safetensors file of ours; its digest is right, or left out."""

    def change(path, tensors=None, *, signed=True, **texts):
        with safe_open(path, framework="numpy") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = {k: v for k, v in (file.metadata() | texts).items() if v is not None}
        found |= tensors or {}
        del metadata["digest"]
        digest = {"digest": tensors_digest(found, metadata)} if signed else {}
        path.write_bytes(to_bytes(found, metadata | digest))

    return change
