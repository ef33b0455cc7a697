"""The slope of the leave-one-out error by the words, on a sample of descriptors.

The mathematics is told in :mod:`bowsaw.selection.refinement`, which walks down these slopes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.coding._pooling_kernel import weigh
from bowsaw.errors import DataError
from bowsaw.parallel import ordered_map
from bowsaw.random_streams import stream
from bowsaw.scores.leave_one_out import leave_one_out_gradient
from bowsaw.selection._refine_kernel import count_nearest, normalise, pull

POOL = 2048
"""Descriptors of a bag that are held at most."""
BLOCK_ROWS = 2048
FEW_WORDS = 32
SOFTNESS = 20.0
"""The sharpest codes that give a direction: sharpness times the mean squared distance to the
nearest word. Sharper ones are flat but where two words are equally near."""


def usual_per_bag(n_words: int) -> int:
    """Return how many descriptors of a bag a step looks at.

    More make a truer slope; fewer make one that changes from step to step, which keeps many words
    from fitting the very images. On the benchmarks 256 were better than 128 with 20 words, and 128
    better than 256 and than 64 with 100.

    Examples
    --------
    >>> usual_per_bag(20), usual_per_bag(100)
    (256, 128)
    """
    return 256 if n_words <= FEW_WORDS else 128


class Pool:
    """The descriptors that steps draw from: of each bag so many a step, in turn."""

    def __init__(
        self, bags: Bags, labels: NDArray[np.int64], per_bag: int, max_bags: int, seed: int
    ) -> None:
        full = np.flatnonzero(bags.counts)
        if not len(full):
            raise DataError(f"the {len(bags)} bags have no descriptors. Give bags with some.")
        shuffle = stream(seed, "refinement", "descriptors")
        rows = []
        for bag in full:
            values = bags[int(bag)]
            rows.append(values[shuffle.permutation(len(values))[:POOL]])
        self._counts = np.array([len(values) for values in rows])
        self._first = np.concatenate(([0], np.cumsum(self._counts)[:-1]))
        self._values = np.concatenate(rows)
        self._labels = labels[full]
        self._n_classes = int(labels.max()) + 1
        self._seed = seed
        self._scale = np.float32(bags.scale)
        self.per_bag = per_bag
        self.n_bags = min(len(full), max_bags)

    def draw(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return rows of ``n_bags`` bags, ``(n_bags, per_bag)``, and their classes as 0 and 1."""
        chosen = np.arange(len(self._labels))
        if self.n_bags < len(chosen):
            # A stream for each step, so that a run that goes on draws what it would have drawn.
            draw = stream(self._seed, "refinement", "bags", step)
            chosen = np.sort(draw.choice(len(chosen), self.n_bags, replace=False))
        turn = step * self.per_bag + np.arange(self.per_bag)
        rows = self._first[chosen][:, None] + turn % self._counts[chosen][:, None]
        targets = np.zeros((len(chosen), self._n_classes))
        targets[np.arange(len(chosen)), self._labels[chosen]] = 1
        return rows, targets

    @property
    def n_dims(self) -> int:
        """Dimensions of a descriptor."""
        return int(self._values.shape[1])

    def read_into(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write descriptors in unit-norm units, one a row."""
        np.multiply(self._values[rows.ravel()], np.float32(1) / self._scale, out=out)


class Slopes:
    """The gradient of the error by the words, on a sample."""

    def __init__(
        self,
        pool: Pool,
        start: NDArray[np.float32],
        coding: Literal["hard", "soft"],
        sharpness: float,
        n_jobs: int | None,
    ) -> None:
        self._pool = pool
        self._hard = coding == "hard"
        self._n_jobs = n_jobs
        size = max(1, BLOCK_ROWS // pool.per_bag)
        self._blocks = [slice(b, min(b + size, pool.n_bags)) for b in range(0, pool.n_bags, size)]
        n_rows = pool.n_bags * pool.per_bag
        self._values = np.empty((n_rows, pool.n_dims), dtype=np.float32)
        self._codes = np.empty(len(start) * n_rows, dtype=np.float32)
        square = self._mean_square(start)
        self.unit = np.sqrt(square)
        self._told = sharpness
        self._sharpness = SOFTNESS / square if self._hard else min(sharpness, SOFTNESS / square)

    def _mean_square(self, words: NDArray[np.float32]) -> float:
        """Return the mean squared distance of a descriptor from its nearest word."""
        half = np.float32(0.5) * np.einsum("ij,ij->i", words, words)
        rows = self._pool.draw(0)[0]

        def block(bags: slice) -> float:
            values = self._values_of(bags)
            self._pool.read_into(rows[bags], values)
            best = (words @ values.T - half[:, None]).max(axis=0)
            squares = np.einsum("ij,ij->i", values, values) - 2 * best
            return float(np.maximum(squares, 0).sum(dtype=np.float64))

        total = sum(ordered_map(block, self._blocks, self._n_jobs))
        # Descriptors that all are words leave no distance to measure by; any will do.
        return total / rows.size or 1.0

    def gradient(self, words: NDArray[np.float32], step: int) -> tuple[float, NDArray[np.float64]]:
        """Return the error of a sample and its slopes by the words, ``(n_words, n_dims)``."""
        pool = self._pool
        rows, targets = pool.draw(step)
        half = np.float32(0.5) * np.einsum("ij,ij->i", words, words)
        histograms = np.zeros((pool.n_bags, len(words)))

        def forward(bags: slice) -> None:
            values = self._values_of(bags)
            pool.read_into(rows[bags], values)
            codes = self._room(bags, len(words))
            np.matmul(words, values.T, out=codes)
            total = np.empty(len(values), dtype=np.float32)
            into = histograms[bags]
            if self._hard:
                count_nearest(codes, half, pool.per_bag, into)
            elif self._sharpness < self._told:
                sharp = codes.copy()
                weigh(sharp, half, 2 * self._told, total)
                normalise(sharp, total, pool.per_bag, into)
            weigh(codes, half, 2 * self._sharpness, total)
            direct = not self._hard and self._sharpness == self._told
            normalise(codes, total, pool.per_bag, into if direct else np.empty_like(into))

        for _ in ordered_map(forward, self._blocks, self._n_jobs):
            pass
        histograms /= pool.per_bag
        error, by_entry = leave_one_out_gradient(histograms, targets)
        slopes = (by_entry * (2 * self._sharpness / pool.per_bag)).astype(np.float32)

        def backward(bags: slice) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            codes = self._room(bags, len(words))
            pull(codes, slopes[bags], pool.per_bag)
            return codes @ self._values_of(bags), codes.sum(axis=1)

        total, weight = np.zeros(words.shape), np.zeros(len(words))
        for part, share in ordered_map(backward, self._blocks, self._n_jobs):
            total += part
            weight += share
        return error, total - weight[:, None] * words

    def _values_of(self, bags: slice) -> NDArray[np.float32]:
        """Return the memory of a block's descriptors, one a row."""
        per_bag = self._pool.per_bag
        return self._values[bags.start * per_bag : bags.stop * per_bag]

    def _room(self, bags: slice, n_words: int) -> NDArray[np.float32]:
        """Return the memory of a block's codes, ``(n_words, n_rows)``."""
        per_bag = self._pool.per_bag
        first, last = (n_words * b * per_bag for b in (bags.start, bags.stop))
        return self._codes[first:last].reshape(n_words, -1)
