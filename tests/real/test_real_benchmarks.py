"""The protocol on the real benchmarks, one split each; run where a variable names the folder.

The means of five splits are in benchmarks/RESULTS.md. A single split scatters by about 0.01, so the
limits here are that much below what is asked of the mean. Words are learned from 200 descriptors
each in ten rounds: a tenth of the work of the measured runs, and about 0.01 less.
"""

import os
from pathlib import Path

import pytest

import bowsaw as bs


def accuracies(images: bs.ImageFolder, per_class: int, folder: Path) -> dict[str, float]:
    store = bs.extract(images, bs.DenseSift(), folder / "images.store")
    assert not store.set_aside
    data = bs.Collection.from_store(store, codebook_images=per_class, train=per_class)
    kmeans = {"sample": 200_000, "max_iter": 10}
    run = bs.evaluate(data, n_words=1000, n_splits=1, kmeans=kmeans)
    return {mapping: float(run.accuracies(mapping).mean()) for mapping in ("sqrt", "raw")}


@pytest.mark.skipif("BOWSAW_SCENE15" not in os.environ, reason="BOWSAW_SCENE15 names no folder")
def test_fifteen_scenes(tmp_path: Path) -> None:
    images = bs.ImageFolder(os.environ["BOWSAW_SCENE15"])
    assert len(images) == 4485
    found = accuracies(images, 50, tmp_path)
    assert found["sqrt"] >= 0.69
    assert found["raw"] >= 0.645


@pytest.mark.skipif(
    "BOWSAW_CALTECH101" not in os.environ, reason="BOWSAW_CALTECH101 names no folder"
)
def test_caltech_ten(tmp_path: Path) -> None:
    images = bs.ImageFolder.caltech10(os.environ["BOWSAW_CALTECH101"])
    assert len(images) == 3044
    found = accuracies(images, 25, tmp_path)
    assert found["sqrt"] >= 0.82
    assert found["raw"] >= 0.76
