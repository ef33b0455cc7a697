"""Bags that are not pictures: frames of sound.

A recording is a bag, too: of the spectra of its short frames. Eight kinds of sound are made here in
code: five instruments that play one note of any pitch, a bell, and two birds. Each sounds somewhere
in a second of noise. So most frames of a recording are nothing but noise.

A frame becomes 24 logarithmic energies of bands that widen as our hearing does (mel), scaled to
norm 1. Frames go into ``Bags``; from there on nothing knows that they were sounds. Half of the
recordings train, the others are asked for. The sounds are ours, so the numbers say little of real
birds.

Run it with ``python examples/gallery/sounds.py``; ``--draw FOLDER`` draws the figure as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import signal
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

import bowsaw as bs

RATE, SECONDS, FRAME, HOP, N_BANDS = 8000, 1.0, 256, 128, 24
KINDS = ("flute", "clarinet", "trumpet", "fiddle", "plucked", "bell", "sparrow", "warbler")
N_RECORDINGS = 40
N_WORDS, N_KEPT, N_SPLITS = 120, 20, 3


def play(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return a second of sound, ``(8000,)``: one event in noise."""
    length = rng.uniform(0.25, 0.4)
    t = np.arange(int(length * RATE)) / RATE
    pitch = rng.uniform(220, 660)
    overtones = np.arange(1, 6)[:, None]
    swell = np.sin(np.pi * t / length) ** 0.5
    if kind == "flute":
        heights = np.array([1, 0.25, 0.1, 0, 0])
        sound = swell * (heights @ np.sin(2 * np.pi * pitch * overtones * t))
    elif kind == "clarinet":
        heights = np.array([1, 0, 0.75, 0, 0.5])
        sound = swell * (heights @ np.sin(2 * np.pi * pitch * overtones * t))
    elif kind == "trumpet":
        heights = np.array([0.6, 1, 0.9, 0.8, 0.7])
        sound = swell * (heights @ np.sin(2 * np.pi * pitch * overtones * t))
    elif kind == "fiddle":
        vibrato = 0.02 * pitch / 6 * np.sin(2 * np.pi * 6 * t)
        sound = swell * signal.sawtooth(2 * np.pi * pitch * t + 2 * np.pi * vibrato)
    elif kind == "plucked":
        decays = np.exp(-8 * overtones * t)
        sound = ((1 / overtones) * decays * np.sin(2 * np.pi * pitch * overtones * t)).sum(axis=0)
    elif kind == "bell":
        partials = 2 * pitch * np.array([0.56, 0.92, 1.19, 1.71, 2.74])[:, None]
        sound = (np.exp(-6 * t) * np.sin(2 * np.pi * partials * t)).sum(axis=0)
    elif kind == "sparrow":
        falls = (t * rng.uniform(8, 12)) % 1
        sound = swell * np.sin(2 * np.pi * np.cumsum(3400 - 1400 * falls) / RATE)
    else:
        trill = 2500 + 500 * np.sin(2 * np.pi * rng.uniform(25, 35) * t)
        sound = swell * np.sin(2 * np.pi * np.cumsum(trill) / RATE)
    recording = rng.normal(size=int(SECONDS * RATE)) * rng.uniform(0.05, 0.5)
    begin = rng.integers(len(recording) - len(t))
    recording[begin : begin + len(t)] += sound / np.abs(sound).max()
    return recording


def mel_bands() -> np.ndarray:
    """Return triangles over the spectrum, ``(n_bands, n_frequencies)``, even on the mel scale."""
    edges = 700 * (np.exp(np.linspace(0, np.log1p(RATE / 2 / 700), N_BANDS + 2)) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    rise = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.clip(np.minimum(rise, fall), 0, None)


def describe(recording: np.ndarray) -> np.ndarray:
    """Return the frames of a recording, ``(n_frames, n_bands)``, each of norm 1."""
    stft = signal.ShortTimeFFT(signal.windows.hann(FRAME), HOP, RATE, scale_to="psd")
    energies = np.log(mel_bands() @ stft.spectrogram(recording) + 1e-7).T
    centred = energies - energies.mean(axis=1, keepdims=True)
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def main(draw_in: Path | None = None) -> dict[str, list[float]]:
    """Compare full, chosen and random words on recordings held out; print, and draw."""
    rng = np.random.default_rng(0)
    y = np.repeat(KINDS, N_RECORDINGS)
    recordings = [play(kind, rng) for kind in y]
    bags = bs.Bags.from_list([describe(recording) for recording in recordings])
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

    print(f"{len(bags)} recordings of {len(KINDS)} kinds, {bags.counts[0]} frames each\n")
    print("recognised           mean   worst   best")
    for name, found in accuracies.items():
        print(f"{name:<18} {np.mean(found):6.1%}  {min(found):6.1%} {max(found):6.1%}")
    if draw_in:
        draw(bags, chosen.codebook_, draw_in)
    return accuracies


def draw(bags: bs.Bags, kept: bs.Codebook, folder: Path) -> None:
    """Draw a recording of each kind, and below it the kept word of every frame."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bowsaw", "font.size": 9}):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        grid = figure.subplots(4, 4, height_ratios=(4, 1, 4, 1))
        for i, kind in enumerate(KINDS):
            frames = bags[i * N_RECORDINGS + 3]
            squares = ((frames[:, None] - kept.words) ** 2).sum(axis=2)
            above, below = grid[i // 4 * 2, i % 4], grid[i // 4 * 2 + 1, i % 4]
            above.imshow(
                frames.T,
                cmap="Greys",
                vmin=0.1,
                origin="lower",
                aspect="auto",
                interpolation="none",
            )
            above.set_title(kind, fontsize=9)
            nearest = squares.argmin(axis=1)[None]
            below.imshow(
                nearest, aspect="auto", cmap="tab20", vmin=0, vmax=19, interpolation="none"
            )
            for axes in (above, below):
                axes.set_xticks([])
                axes.set_yticks([])
        grid[0, 0].set_ylabel("mel bands")
        grid[1, 0].set_ylabel("word", rotation=0, ha="right", va="center")
        figure.savefig(folder / "sounds.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="where to draw the figure")
    main(parser.parse_args().draw)
