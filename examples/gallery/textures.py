"""Textures by their own little pieces: words that can be looked at.

A texture is what repeats, so its words can be small patches of the picture itself, as in Varma and
Zisserman's textons. Here a descriptor is a patch of 7 × 7 pixels without its mean and its contrast.
Nothing of it is specific to pictures: bowsaw takes any ``(n, n_dims)`` array as a bag.

The tiles are cut out of photographs that come with scikit-image: brick, the same brick wall turned
by a quarter, grass, gravel, stained tissue and a written page. No two tiles share a pixel. Six
tiles in ten train, the others are asked for.

Run it with ``python examples/gallery/textures.py``; ``--draw FOLDER`` draws the figure as well.
"""

from __future__ import annotations

import argparse
from importlib.resources import as_file, files
from pathlib import Path

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

import bowsaw as bs

TEXTURES = {
    "brick": ("brick.png", 0),
    "brick, turned": ("brick.png", 1),
    "grass": ("grass.png", 0),
    "gravel": ("gravel.png", 0),
    "tissue": ("ihc.png", 0),
    "writing": ("text.png", 0),
}
SIDE, PATCH, STEP, N_TILES = 32, 7, 3, 60
N_WORDS, N_KEPT, N_SPLITS = 120, 6, 3


def load_tiles() -> tuple[list[np.ndarray], np.ndarray]:
    """Return grey tiles and the name of each one's texture."""
    tiles: list[np.ndarray] = []
    for file_name, quarters in TEXTURES.values():
        with as_file(files("skimage") / "data" / file_name) as path:
            picture = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        # The turned wall begins in the lower half, so that no brick is in two classes.
        picture = np.rot90(picture[picture.shape[0] // 2 :] if quarters else picture, quarters)
        corners = [
            (y, x)
            for y in range(0, picture.shape[0] - SIDE + 1, SIDE)
            for x in range(0, picture.shape[1] - SIDE + 1, SIDE)
        ]
        tiles += [picture[y : y + SIDE, x : x + SIDE] for y, x in corners[:N_TILES]]
        assert len(corners) >= N_TILES
    return tiles, np.repeat(list(TEXTURES), N_TILES)


def describe(tile: np.ndarray) -> np.ndarray:
    """Return the patches of a tile, ``(n, 49)``, without mean and contrast."""
    windows = sliding_window_view(tile.astype(np.float32), (PATCH, PATCH))[::STEP, ::STEP]
    patches = windows.reshape(-1, PATCH * PATCH)
    patches = patches - patches.mean(axis=1, keepdims=True)
    # Flat patches stay small: 10 grey levels of contrast count as none.
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    return patches / np.hypot(norms, 10 * PATCH)


def main(draw_in: Path | None = None) -> dict[str, list[float]]:
    """Compare full, chosen and random words on tiles held out; print, and draw."""
    tiles, y = load_tiles()
    bags = bs.Bags.from_list([describe(tile) for tile in tiles])
    accuracies: dict[str, list[float]] = {}
    splits = StratifiedShuffleSplit(N_SPLITS, train_size=0.6, random_state=0)
    for seed, (train, test) in enumerate(splits.split(y, y)):
        book = bs.KMeansCodebook(N_WORDS, random_state=seed).fit(bags[train]).codebook_
        chosen = bs.Annealing(book, N_KEPT, n_steps=700, random_state=seed)
        ways = {
            f"all {N_WORDS} words": bs.BagOfWords(book),
            f"{N_KEPT} chosen": chosen,
            f"{N_KEPT} at random": bs.RandomSubset(book, N_KEPT, random_state=seed),
            f"{N_KEPT} by k-means": bs.KMeansAtSize(book, N_KEPT, random_state=seed),
        }
        for name, words in ways.items():
            model = make_pipeline(words, bs.HistogramClassifier(C=4.0)).fit(bags[train], y[train])
            accuracies.setdefault(name, []).append(float(model.score(bags[test], y[test])))

    print(f"{len(tiles)} tiles of {len(TEXTURES)} textures, {bags.counts[0]} patches each\n")
    print("recognised           mean   worst   best")
    for name, found in accuracies.items():
        print(f"{name:<18} {np.mean(found):6.1%}  {min(found):6.1%} {max(found):6.1%}")
    if draw_in:
        draw(tiles, book, chosen.codebook_, draw_in)
    return accuracies


def draw(tiles: list[np.ndarray], book: bs.Codebook, kept: bs.Codebook, folder: Path) -> None:
    """Draw a tile of each texture, and the words as patches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    def mosaic(words: np.ndarray, n_columns: int) -> np.ndarray:
        """Return patches side by side with a gap, each with its own contrast."""
        scaled = words / np.abs(words).max(axis=1, keepdims=True)
        n_rows = len(words) // n_columns
        padded = np.full((n_rows, n_columns, PATCH + 1, PATCH + 1), np.nan)
        padded[:, :, :PATCH, :PATCH] = scaled.reshape(n_rows, n_columns, PATCH, PATCH)
        side = PATCH + 1
        return padded.transpose(0, 2, 1, 3).reshape(n_rows * side, n_columns * side)[:-1, :-1]

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9}):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, middle, right = figure.subfigures(1, 3, width_ratios=(4, 4, 3))
        for i, (axes, name) in enumerate(zip(left.subplots(2, 3).flat, TEXTURES, strict=True)):
            axes.imshow(tiles[i * N_TILES + 34], cmap="gray", interpolation="none")
            axes.set_title(name, fontsize=8)
            axes.set_axis_off()
        for part, words, n_columns, title in (
            (middle, book.words, 12, f"all {N_WORDS} words"),
            (right, kept.words, 3, f"the {N_KEPT} chosen"),
        ):
            axes = part.subplots()
            axes.imshow(mosaic(words, n_columns), cmap="gray", interpolation="none")
            axes.set_title(title, fontsize=9)
            axes.set_axis_off()
        figure.savefig(folder / "textures.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="where to draw the figure")
    main(parser.parse_args().draw)
