"""Tokens instead of descriptors: bags of patch embeddings.

A vision transformer turns a picture into tokens, one a patch: vectors that tell what is there and,
a little, where. A picture is then a bag of tokens, and a vocabulary of tokens gives short
histograms that are easy to store, to compare and to explain. This example prunes such a vocabulary.

No network is loaded. As a stand-in, each patch of 4 × 4 pixels of scikit-learn's handwritten digits
goes through a random layer (a fixed matrix, then ReLU), and a code of its place is added, as a
transformer does. With real tokens everything after ``embed`` stays as it is::

    tokens = network.forward_features(pictures)[:, 1:]   # (n_pictures, n_tokens, n_dims), no class
    tokens = tokens / np.linalg.norm(tokens, axis=2, keepdims=True)
    bags = bs.Bags.from_list(list(tokens))

A third of the digits train, the others are asked for. (Logistic regression on all 64 pixels gets
95 %, more than any row of the table: a digit is small and upright, so nothing is gained by cutting
it up. What is shown is what choosing words is worth.)

Run it with ``python examples/gallery/patch_embeddings.py``; ``--draw FOLDER`` draws the figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

import bowsaw as bs

PATCH, N_DIMS = 4, 48
N_WORDS, N_KEPT, N_SPLITS = 200, 40, 2


def cut(pictures: np.ndarray) -> np.ndarray:
    """Return every patch of 8 × 8 pictures, ``(n_pictures, 25, 16)``."""
    windows = sliding_window_view(pictures, (PATCH, PATCH), axis=(1, 2))
    return windows.reshape(len(pictures), -1, PATCH * PATCH) / 16


def embed(patches: np.ndarray) -> np.ndarray:
    """Return one token a patch, ``(n_pictures, n_patches, n_dims)``, each of norm 1."""
    rng = np.random.default_rng(0)
    layer = rng.normal(size=(patches.shape[2], N_DIMS)) / PATCH
    places = rng.normal(size=(patches.shape[1], N_DIMS)) * 0.4
    tokens = np.maximum(patches @ layer, 0) + places
    return tokens / np.linalg.norm(tokens, axis=2, keepdims=True)


def main(draw_in: Path | None = None) -> dict[str, list[float]]:
    """Compare full, chosen and random words on digits held out; print, and draw."""
    pictures, y = load_digits(return_X_y=True)
    patches = cut(pictures.reshape(-1, 8, 8))
    bags = bs.Bags.from_list(list(embed(patches)))
    accuracies: dict[str, list[float]] = {}
    splits = StratifiedShuffleSplit(N_SPLITS, train_size=1 / 3, random_state=0)
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

    print(f"{len(bags)} digits, {bags.counts[0]} tokens of {N_DIMS} numbers each\n")
    print("recognised           mean   worst   best")
    for name, found in accuracies.items():
        print(f"{name:<18} {np.mean(found):6.1%}  {min(found):6.1%} {max(found):6.1%}")
    if draw_in:
        draw(patches, bags, chosen.codebook_, draw_in)
    return accuracies


def draw(patches: np.ndarray, bags: bs.Bags, kept: bs.Codebook, folder: Path) -> None:
    """Draw what each kept word stands for: the mean of its patches, where they are."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    tokens = bags.values
    words = (2 * tokens @ kept.words.T - (kept.words**2).sum(axis=1)).argmax(axis=1)
    places = np.tile(np.arange(patches.shape[1]), len(bags))
    flat = patches.reshape(-1, PATCH, PATCH)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9}):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        axes = figure.subplots()
        mosaic = np.full((kept.n_words // 10 * 9, 90), -0.1)  # a gap round each
        for word in range(kept.n_words):
            ink, seen = np.zeros((8, 8)), np.zeros((8, 8))
            for patch, place in zip(flat[words == word], places[words == word], strict=True):
                y, x = divmod(place, 8 - PATCH + 1)
                ink[y : y + PATCH, x : x + PATCH] += patch
                seen[y : y + PATCH, x : x + PATCH] += 1
            mean = np.where(seen > 0.02 * seen.max(), ink / np.maximum(seen, 1), np.nan)
            top, left = word // 10 * 9, word % 10 * 9
            mosaic[top : top + 8, left : left + 8] = mean
        colours = mpl.colormaps["magma_r"].with_extremes(bad="#dddddd", under="#ffffff")
        axes.imshow(mosaic, cmap=colours, vmin=0, vmax=1, interpolation="none")
        axes.set_title("what the chosen words stand for: their mean patch, where it is", fontsize=9)
        axes.set_axis_off()
        figure.savefig(folder / "patch_embeddings.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="where to draw the figure")
    main(parser.parse_args().draw)
