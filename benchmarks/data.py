"""Real pictures and descriptors to measure on.

With ``BOWSAW_SCENE15`` naming the folder of 15-Scenes, its images; otherwise overlapping crops of
the photographs and textures that scikit-image ships, which are few but real.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import bowsaw as bs

PACKAGED = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "grass.png",
    "gravel.png",
    "motorcycle_left.png",
    "rocket.jpg",
)
N_CROPS = 100
"""Crops that stand for the images of the protocol, half for the codebook and half to train."""


def scenes() -> Path | None:
    """Return the folder of 15-Scenes, or None where there is none."""
    folder = os.environ.get("BOWSAW_SCENE15", "")
    return Path(folder) if folder else None


def source() -> str:
    """Say in words where the pictures come from."""
    return "15-Scenes" if scenes() else "crops of scikit-image's packaged pictures"


@cache
def pictures(n: int) -> list[NDArray[np.uint8]]:
    """Return ``n`` grey pictures of at most 300 pixels a side."""
    folder = scenes()
    if folder is not None:
        images = bs.ImageFolder(folder)
        step = max(1, len(images) // n)
        sift = bs.DenseSift()
        return [sift.load(path).grey for path in list(images.paths)[::step][:n]]
    return _crops(n)


def _crops(n: int) -> list[NDArray[np.uint8]]:
    import skimage

    base = Path(skimage.__file__).parent / "data"
    whole = [cv2.imread(str(base / name), cv2.IMREAD_GRAYSCALE) for name in PACKAGED]
    rng = np.random.default_rng(0)
    crops = []
    for i in range(n):
        picture = whole[i % len(whole)]
        height, width = picture.shape
        top = int(rng.integers(0, height - 200 + 1))
        left = int(rng.integers(0, max(width - 267, 0) + 1))
        crop = picture[top : top + 200, left : left + 267]
        if rng.random() < 0.5:
            crop = crop[:, ::-1]
        crops.append(np.ascontiguousarray(crop))
    return crops


@cache
def bags(n_descriptors: int) -> bs.Bags:
    """Return dense SIFT bags of at least ``n_descriptors`` descriptors, uint8."""
    found = bs.DenseSift().transform(pictures(-(-n_descriptors // 600)))
    n_bags = int(np.searchsorted(found.offsets, n_descriptors))
    if n_bags > len(found):
        raise SystemExit(
            f"only {found.n_descriptors} of {n_descriptors} descriptors to be had from {source()}"
        )
    return found[:n_bags]


@cache
def words(n_words: int) -> NDArray[np.float32]:
    """Return words from a short k-means on some of the descriptors."""
    sample = bags(max(20 * n_words, 20_000))
    book = bs.KMeansCodebook(n_words, max_iter=5, random_state=0).fit(sample).codebook_
    return np.array(book.words)


def corpus(n_images: int, n_words: int) -> tuple[bs.Bags, bs.Codebook]:
    """Return the bags of training images and a codebook from others, as the protocol has them.

    15-Scenes: split 0, up to 750 images, evenly over the classes; else packaged pictures.
    """
    return _parts()[1][_chosen(n_images)], _codebook(n_words)


def labels(n_images: int) -> NDArray[np.int64]:
    """Return the classes of the images of ``corpus``, whole numbers from 0.

    A packaged picture is a class, and its crops are the images.
    """
    folder = scenes()
    if folder is None:
        found = np.arange(1, N_CROPS, 2) % len(PACKAGED)
    else:
        images = bs.ImageFolder(folder)
        found = images.y[images.split(codebook=50, train=50, seed=0).train]
    return np.unique(found[_chosen(n_images)], return_inverse=True)[1].astype(np.int64)


def _chosen(n_images: int) -> NDArray[np.int64]:
    n_train = len(_parts()[1])
    return np.linspace(0, n_train - 1, min(n_images, n_train)).astype(np.int64)


@cache
def _parts() -> tuple[bs.Bags, bs.Bags]:
    folder = scenes()
    if folder is None:
        found = bs.DenseSift().transform(_crops(N_CROPS))
        return found[::2], found[1::2]
    images = bs.ImageFolder(folder)
    split = images.split(codebook=50, train=50, seed=0)
    sift = bs.DenseSift()
    return sift.transform(images[split.codebook]), sift.transform(images[split.train])


@cache
def _codebook(n_words: int) -> bs.Codebook:
    model = bs.KMeansCodebook(n_words, max_iter=5, random_state=0)
    book: bs.Codebook = model.fit(_parts()[0]).codebook_
    return book


def write_folder(folder: Path, n: int) -> None:
    """Write ``n`` pictures as a folder of five classes."""
    for i, picture in enumerate(pictures(n)):
        place = folder / f"class{i % 5}"
        place.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(place / f"{i:06d}.png"), picture)
