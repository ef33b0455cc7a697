"""Bags that are not pictures: windows of a time series.

Think of a machine's power draw over a day. What kind of day it was shows in short events at any
hour, in the midst of drift and noise. A series becomes a bag: every window of 32 steps is one
descriptor, without its mean. Where in the day a window was is forgotten, which is what is wanted.

The series are made in code. Six shapes may occur: a hump, a plateau, a rising and a falling ramp, a
double hump and a spike. A series of class k has its own shape twice and two others, drawn at
random, once each; all of them anywhere, of any height and some stretch. Half of the series train,
the others are asked for. The series are ours, so the numbers say little of real machines.

Run it with ``python examples/gallery/time_series.py``; ``--draw FOLDER`` draws the figure as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

import bowsaw as bs

KINDS = ("hump", "plateau", "rising", "falling", "double", "spike")
N_SERIES, LENGTH, WINDOW, STEP = 60, 480, 32, 5
N_WORDS, N_KEPT, N_SPLITS = 120, 12, 3


def shape(kind: str, n: int) -> np.ndarray:
    """Return one event of ``n`` steps and height 1."""
    x = np.linspace(0, 1, n)
    if kind == "hump":
        return np.sin(np.pi * x) ** 2
    if kind == "plateau":
        return ((x > 0.1) & (x < 0.9)).astype(float)
    if kind == "rising":
        return x * (x < 0.95)
    if kind == "falling":
        return (1 - x) * (x > 0.05)
    if kind == "double":
        return np.sin(2 * np.pi * x) ** 2
    return np.exp(-((x - 0.5) ** 2) / 0.004)


def make_series(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return a series of this class, ``(480,)``."""
    series = rng.normal(size=LENGTH).cumsum() * 0.02 + rng.normal(size=LENGTH) * 0.1
    others = rng.choice([other for other in KINDS if other != kind], 2, replace=False)
    events = rng.permutation([kind, kind, *others])
    quarter = LENGTH // len(events)
    for i, event in enumerate(events):
        n = int(rng.integers(28, 44))
        begin = i * quarter + rng.integers(quarter - n)
        series[begin : begin + n] += rng.uniform(0.6, 1.2) * shape(event, n)
    return series


def describe(series: np.ndarray) -> np.ndarray:
    """Return the windows of a series, ``(n_windows, 32)``, without their means."""
    windows = sliding_window_view(series, WINDOW)[::STEP]
    return windows - windows.mean(axis=1, keepdims=True)


def main(draw_in: Path | None = None) -> dict[str, list[float]]:
    """Compare full, chosen and random words on series held out; print, and draw."""
    rng = np.random.default_rng(0)
    y = np.repeat(KINDS, N_SERIES)
    series = [make_series(kind, rng) for kind in y]
    bags = bs.Bags.from_list([describe(one) for one in series])
    accuracies: dict[str, list[float]] = {}
    splits = StratifiedShuffleSplit(N_SPLITS, train_size=0.5, random_state=0)
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

    print(f"{len(bags)} series of {len(KINDS)} kinds, {bags.counts[0]} windows each\n")
    print("recognised           mean   worst   best")
    for name, found in accuracies.items():
        print(f"{name:<18} {np.mean(found):6.1%}  {min(found):6.1%} {max(found):6.1%}")
    if draw_in:
        draw(series, chosen.codebook_, draw_in)
    return accuracies


def draw(series: list[np.ndarray], kept: bs.Codebook, folder: Path) -> None:
    """Draw one series of each class, and the kept words."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9}):
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(3, 2))
        rows = left.subplots(len(KINDS), 1, sharex=True)
        for i, (axes, kind) in enumerate(zip(rows, KINDS, strict=True)):
            axes.plot(np.arange(0, LENGTH, 3), series[i * N_SERIES][::3], color="#0072B2", lw=0.7)
            axes.set_ylabel(kind, rotation=0, ha="right", va="center")
            axes.set_yticks([])
            axes.spines[["top", "right", "left"]].set_visible(False)
        rows[-1].set_xlabel("time; each series has its own shape twice, and two others")
        for axes, word in zip(right.subplots(4, 3, sharey=True).flat, kept.words, strict=True):
            axes.plot(word, color="#D55E00", lw=1.5)
            axes.set_axis_off()
        right.suptitle(f"the {kept.n_words} windows that were chosen", fontsize=9)
        figure.savefig(folder / "time_series.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="where to draw the figure")
    main(parser.parse_args().draw)
