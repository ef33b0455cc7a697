"""From photographs to a pruned codebook and a page about it, with the commands that a user types.

The images are those that scikit-image ships, so nothing is downloaded. Each becomes one class: a
grid of tiles that do not overlap is cut out of it, so whichever tiles a split puts into the
codebook's part, the training part and the test part, they come from disjoint regions and share no
pixel. To tell the classes apart is then to recognise brick, grass or a motorcycle from other parts
of the same scene.

Run it with ``make demo``; everything it makes lies in ``demo/``.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from importlib.resources import as_file, files
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import bowsaw as bs

SIDE = 80
"""Side of a tile in pixels: 81 patches of dense SIFT."""

GRID = 6
"""At most this many rows and columns of tiles are cut out of a image."""

CLASSES = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "moon": "moon.png",
    "motorcycle": "motorcycle_left.png",
    "photographer": "camera.png",
    "tissue": "ihc.png",
}

WORDS, KEPT = "200", "20"
STEPS = ("--steps", "100")
"""Words move at most so often; a third of what is usual, so that the demo stays short."""
SIZES, SPLITS = "10,20,50,100", "2"
METHODS = "annealing,paper,presence,bottleneck,random,kmeans"
"""What is compared: the methods whose choice takes seconds, so that the demo stays short."""

CODEBOOK, TRAIN = "10", "10"
"""Tiles per class whose descriptors become words, and that the classifier learns from."""


def cut(image: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """Cut disjoint tiles out of the middle of a image, row by row."""
    rows, columns = (min(GRID, size // SIDE) for size in image.shape[:2])
    top = (image.shape[0] - rows * SIDE) // 2
    left = (image.shape[1] - columns * SIDE) // 2
    return [
        image[y : y + SIDE, x : x + SIDE]
        for y in range(top, top + rows * SIDE, SIDE)
        for x in range(left, left + columns * SIDE, SIDE)
    ]


def write_images(folder: Path) -> int:
    """Write the tiles as one folder per class; return how many there are."""
    n_tiles = 0
    for name, file_name in CLASSES.items():
        (folder / name).mkdir(parents=True)
        with as_file(files("skimage") / "data" / file_name) as source:
            image = cv2.imread(str(source))
        if image is None:
            raise SystemExit(
                f"the installed scikit-image has no readable {file_name}; run make demo"
            )
        for i, tile in enumerate(cut(image)):
            cv2.imwrite(str(folder / name / f"{i:02}.png"), tile)
            n_tiles += 1
    return n_tiles


def run(*arguments: str | Path) -> None:
    """Show a command, run it, and stop with its exit code when it fails."""
    words = [Path(word).as_posix() if isinstance(word, Path) else word for word in arguments]
    print(f"\n$ bowsaw {shlex.join(words)}", flush=True)
    finished = subprocess.run([sys.executable, "-m", "bowsaw", *words], check=False)
    if finished.returncode:
        raise SystemExit(finished.returncode)


def size_of(path: Path) -> str:
    """Return what a file, or all files of a folder, take on disk."""
    parts = path.rglob("*") if path.is_dir() else [path]
    return f"{sum(part.stat().st_size for part in parts if part.is_file()) / 1000:,.0f} kB"


def main(folder: Path = Path("demo")) -> None:
    """Cut, extract, train, encode, evaluate, prune, compare, and say what was found and where."""
    begin = time.perf_counter()
    images, store = folder / "images", folder / "images.store"
    book, histograms = folder / "book.safetensors", folder / "histograms.npz"
    small, result = folder / "small.safetensors", folder / "evaluation"
    large_alone, small_alone = folder / "evaluation-large", folder / "evaluation-small"
    comparison = folder / "run"
    for old in (images, store, result, large_alone, small_alone, comparison):
        shutil.rmtree(old, ignore_errors=True)
    for old in (book, histograms, small):
        old.unlink(missing_ok=True)

    n_tiles = write_images(images)
    print(
        f"{n_tiles} tiles of {SIDE} × {SIDE} pixels from {len(CLASSES)} photographs are in "
        f"{images.as_posix()}/, one folder per class; no two share a pixel."
    )
    parts = ("--train-codebook", CODEBOOK, "--train", TRAIN, "--seed", "0")
    run("extract", images, "-o", store)
    run("train", store, "--words", WORDS, "--part", "codebook", *parts, "-o", book)
    run("encode", book, store, "-o", histograms)
    run("inspect", book)
    run("evaluate", store, "--words", WORDS, *parts, "--splits", "5", "-o", result)
    run("prune", book, store, "--part", "train", *parts, "--keep", KEPT, *STEPS, "-o", small)
    for words, output in ((book, large_alone), (small, small_alone)):
        run("evaluate", store, "--codebook", words, *parts, "--splits", "1", "-o", output)
    asked = ("--words", WORDS, "--sizes", SIZES, "--methods", METHODS, "--splits", SPLITS)
    run("compare", images, *asked, *parts, "-o", comparison)

    run_of = {name: bs.read_run(name) for name in (result, large_alone, small_alone)}
    found, large, pruned = (run.accuracies("sqrt") for run in run_of.values())
    (about,) = run_of[result].about["sets"].values()
    margin = run_of[result].table()[0]["margin"]
    seconds = time.perf_counter() - begin
    print(
        f"\nFound in {seconds:.0f} s: {found.mean():.1%} of the test tiles "
        f"are recognised, ± {margin:.1%} (95 % interval, {len(found)} splits).\n"
        f"(Mean per-class accuracy, square-rooted histograms of {WORDS} words; guessing would get "
        f"{1 / len(about['classes']):.0%}.)\n"
        f"Pruned to {KEPT} words, which code alone: {pruned.mean():.1%} of the first split's "
        f"test tiles, where all {WORDS} get {large.mean():.1%}.\n"
        "The files:"
    )
    for path, what in (
        (images, f"{n_tiles} tiles, one folder per class"),
        (store, f"{about['n_descriptors']} descriptors of {about['n_dims']} numbers"),
        (book, f"{WORDS} words learned from {CODEBOOK} tiles per class"),
        (small, f"{KEPT} words, pruned by the labels of {TRAIN} other tiles per class"),
        (histograms, "one row per tile, one column per word"),
        (result, "every split: accuracy, confusion matrix, settings, and a page"),
        (comparison, "six ways to prune at four sizes: records and page"),
    ):
        print(f"  {path.as_posix():<24} {size_of(path):>8}  {what}")
    print(
        "\nHow small can the codebook be, and what does it cost? Open this page in a browser:\n"
        f"  {(comparison / 'index.html').as_posix()}"
    )


if __name__ == "__main__":
    main()
