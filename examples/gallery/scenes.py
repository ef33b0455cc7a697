"""Photographs in, names out: a recogniser whose vocabulary was pruned.

Ten photographs that come with scikit-image are cut into tiles of 64 × 64 pixels. No two tiles
share a pixel. The recogniser learns from six tiles in ten which photograph a tile belongs to, and
is asked about the others. That is easier than a real set of scenes, where each image is another
place.

The recogniser is one scikit-learn ``Pipeline``: dense SIFT describes a picture, the words nearest
to its descriptors are counted, linear machines tell the class. Only the step in the middle
changes: all the words that k-means found, or a few of these that tell the classes
(``Annealing``), or as many drawn at random, or as many that k-means found at once.

Run it with ``python examples/gallery/scenes.py``; ``--draw FOLDER`` draws the figure as well.
"""

from __future__ import annotations

import argparse
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

import bowsaw as bs

PICTURES = {
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
SIDE, N_TILES = 64, 54
N_WORDS, N_KEPT, N_SPLITS = 200, 20, 3


def load_tiles() -> tuple[list[np.ndarray], np.ndarray]:
    """Return grey tiles and the photograph that each is from."""
    tiles: list[np.ndarray] = []
    for file_name in PICTURES.values():
        with as_file(files("skimage") / "data" / file_name) as path:
            picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        corners = [
            (y, x)
            for y in range(0, picture.shape[0] - SIDE + 1, SIDE)
            for x in range(0, picture.shape[1] - SIDE + 1, SIDE)
        ]
        tiles += [picture[y : y + SIDE, x : x + SIDE] for y, x in corners[:N_TILES]]
        assert len(corners) >= N_TILES
    return tiles, np.repeat(list(PICTURES), N_TILES)


def recogniser(words: Any) -> Pipeline:
    """Return picture → descriptors → histogram → class."""
    return Pipeline([("describe", bs.DenseSift()), ("count", words), ("tell", classifier())])


def classifier() -> bs.HistogramClassifier:
    """Return linear machines on square-rooted histograms."""
    return bs.HistogramClassifier(C=4.0)


def compare(bags: bs.Bags, y: np.ndarray) -> dict[str, list[float]]:
    """Return the accuracy of each way on every split's test tiles."""
    accuracies: dict[str, list[float]] = {}
    splits = StratifiedShuffleSplit(N_SPLITS, train_size=0.6, random_state=0)
    for seed, (train, test) in enumerate(splits.split(y, y)):
        book = bs.KMeansCodebook(N_WORDS, random_state=seed).fit(bags[train]).codebook_
        ways = {
            f"all {N_WORDS} words": bs.BagOfWords(book),
            f"{N_KEPT} chosen": bs.Annealing(book, N_KEPT, n_steps=700, random_state=seed),
            f"{N_KEPT} at random": bs.RandomSubset(book, N_KEPT, random_state=seed),
            f"{N_KEPT} by k-means": bs.KMeansAtSize(book, N_KEPT, random_state=seed),
        }
        for name, words in ways.items():
            model = Pipeline([("count", words), ("tell", classifier())]).fit(bags[train], y[train])
            accuracies.setdefault(name, []).append(float(model.score(bags[test], y[test])))
    return accuracies


def main(draw_in: Path | None = None) -> dict[str, list[float]]:
    """Compare, print, use the whole pipeline once, and draw."""
    tiles, y = load_tiles()
    # The same descriptors serve every way, so they are computed once.
    accuracies = compare(bs.DenseSift().transform(tiles), y)
    print(f"{len(tiles)} tiles of {len(PICTURES)} photographs, {N_SPLITS} splits\n")
    print("recognised           mean   worst   best")
    for name, found in accuracies.items():
        print(f"{name:<18} {np.mean(found):6.1%}  {min(found):6.1%} {max(found):6.1%}")

    words = bs.Annealing(bs.KMeansCodebook(100, random_state=0), n_kept=10, n_steps=100)
    model = recogniser(words).fit(tiles[::4], y[::4])
    picture = tiles[np.flatnonzero(y == "brick")[1]]
    print(f"\nfrom an image to its class, by {words.n_kept} words: {model.predict([picture])[0]}")
    if draw_in:
        draw(tiles, accuracies, draw_in)
    return accuracies


def draw(tiles: list[np.ndarray], accuracies: dict[str, list[float]], folder: Path) -> None:
    """Draw one tile of each photograph, and the accuracy of every way and split."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9}):
        figure = Figure(figsize=(8, 2.8), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(5, 4))
        for i, (axes, name) in enumerate(zip(left.subplots(2, 5).flat, PICTURES, strict=True)):
            small = cv2.resize(tiles[i * N_TILES + 19], (40, 40), interpolation=cv2.INTER_AREA)
            axes.imshow(small, cmap="gray", vmin=0, vmax=255, interpolation="none")
            axes.set_title(name, fontsize=8)
            axes.set_axis_off()
        axes = right.subplots()
        for row, found in enumerate(accuracies.values()):
            axes.plot(found, [row] * len(found), "o", color="#0072B2", alpha=0.5, ms=5)
            axes.plot([np.mean(found)], [row], "|", color="#D55E00", ms=16, mew=2)
        axes.set_yticks(range(len(accuracies)), list(accuracies))
        axes.set_ylim(len(accuracies) - 0.5, -0.5)
        axes.set_xlabel("test tiles recognised")
        axes.set_xticks(np.arange(0.65, 0.81, 0.05))
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        figure.savefig(folder / "scenes.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="where to draw the figure")
    main(parser.parse_args().draw)
