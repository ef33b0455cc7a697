"""1,000 test images of a benchmark, a recogniser of 50 words, and what another one must answer.

The words are those of k-means from other images of the set: how good they are does not matter here.
A class may differ only where the two best scores are closer than the scores of both sides.
"""

import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.formats.classifier import LinearModel

SETS = {"BOWSAW_SCENE15": bs.ImageFolder, "BOWSAW_CALTECH101": bs.ImageFolder.caltech10}
EACH_SET = pytest.mark.parametrize(
    "variable",
    [
        pytest.param(name, marks=pytest.mark.skipif(name not in os.environ, reason="no folder"))
        for name in ("BOWSAW_SCENE15", "BOWSAW_CALTECH101")
    ],
)
N_TEST, N_TRAIN = 1000, 1500


class Benchmark(NamedTuple):
    """Test images with their descriptors, and recognisers by coding."""

    paths: list[Any]
    greys: list[Any]
    descriptors: list[Any]
    recognisers: dict[str, bs.Recogniser]


@cache
def benchmark_of(variable: str) -> Benchmark:
    """The images of the set that a variable of the environment names."""
    images = SETS[variable](os.environ[variable])
    order = np.random.default_rng(0).permutation(len(images))
    train, sift = order[N_TEST : N_TEST + N_TRAIN], bs.DenseSift()
    bags, y = sift.transform(images[train]), np.array(images.classes)[images.y[train]]
    means = bs.KMeansCodebook(50, max_iter=10, sample=100_000, random_state=0)
    book = means.fit(bags).codebook_
    made = {}
    for coding in ("hard", "soft"):
        coder = bs.BagOfWords(book, coding=coding)
        machine = bs.HistogramClassifier(C=4.0).fit(coder.transform(bags), y)
        made[coding] = bs.Recogniser(book, LinearModel.of(machine, coder))
    paths = images[order[:N_TEST]]
    greys = [sift.load(path).grey for path in paths]
    descriptors = [sift.describe(grey)[0] for grey in greys]
    return Benchmark(paths, greys, descriptors, made)


def assert_agrees(found: Any, descriptors: Any, expected: np.ndarray) -> None:
    """Compare descriptors and scores of each image with Python's."""
    n_bytes = n_different = n_wrong = 0
    for (theirs, scores), ours, wanted in zip(found, descriptors, expected, strict=True):
        apart = np.abs(theirs.astype(int) - ours)
        assert apart.max() <= 1
        n_bytes, n_different = n_bytes + apart.size, n_different + np.count_nonzero(apart)
        if np.argmax(scores) != np.argmax(wanted):
            n_wrong += 1
            low, high = np.sort(wanted)[-2:]
            assert high - low <= 2 * np.abs(scores - wanted).max()
    assert n_different <= 0.001 * n_bytes
    assert n_wrong <= 0.002 * len(expected)
