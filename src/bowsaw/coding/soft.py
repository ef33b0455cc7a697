"""Soft (kernel) coding: each descriptor is distributed over all words (paper, Eq. 2).

h_k(x) = exp(−sharpness · ‖x − c_k‖²) / Σ_j exp(−sharpness · ‖x − c_j‖²), then average pooling. The
distance is squared, which matches the Gaussian of the paper's Eq. 1, and in unit-norm units; the
paper does not give its β, here ``sharpness``. Exponents are relative to the nearest word, so the
codes of a descriptor far from every word still sum to 1.

Scores are in float32. With x and c centred on the mean word, the exponent of a word errs by at most
2 · sharpness · (n_dims + 6) · 2⁻²⁴ · (‖x‖ + ‖c‖) ‖c‖, and its code by about twice that share.

Cost: 2 · n_dims · n_words operations per descriptor in BLAS and one exponential per word. Memory:
one block of products per thread, at most ``BLOCK_BYTES`` or 16 descriptors. Each bag is coded by
itself, so its histogram depends neither on the other bags nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bowsaw._arrays import AnyArray, Float32, Float64
from bowsaw.bags import Bags
from bowsaw.coding._pooling_kernel import pool_soft
from bowsaw.errors import DataError
from bowsaw.nearest.search import centre_of, check_size
from bowsaw.parallel import Scratch, ordered_map, single_threaded_blas
from bowsaw.progress import Progress
from bowsaw.validation import check_real

BLOCK_BYTES = 2**20
TASK_BAGS = 4
_PERPLEXITY_SAMPLE = 2000


class WordScores:
    """Products of descriptors with words, a block at a time; shared by threads.

    The score of a word is its product with the descriptor minus half its squared norm, both
    centred: minus half the squared distance, up to a constant of the descriptor.
    """

    def __init__(self, words: Float32, centre: Float32 | None = None) -> None:
        # A common shift changes no distance, and small numbers round less.
        self.centre = centre_of(words) if centre is None else centre
        with np.errstate(over="ignore"):
            self._words = np.ascontiguousarray(words - self.centre)
        exact = np.einsum("kd,kd->k", self._words, self._words, dtype=np.float64)
        self.largest = float(np.sqrt(exact.max()))
        check_size("words", self.largest)
        self.half_norms = (exact / 2).astype(np.float32)
        self._most_rows = int(np.clip(BLOCK_BYTES // (4 * len(words)) // 16 * 16, 16, 512))
        self._blocks, self._products = Scratch(), Scratch()

    def blocks(self, rows: AnyArray) -> Iterator[tuple[Float32, Float32]]:
        """Yield, for consecutive blocks of rows, the centred block and its products.

        The products are ``(n_words, n_rows_of_the_block)``. Both are valid until the next block.
        """
        # Blocks of one size: a short last one would waste most of its matrix product.
        n_blocks = max(1, -(-len(rows) // self._most_rows))
        n_rows = 16 * max(1, -(-len(rows) // (16 * n_blocks)))
        for start in range(0, len(rows), n_rows):
            part = rows[start : start + n_rows]
            block = self._blocks.take(*part.shape)
            with np.errstate(over="ignore"):
                np.subtract(part, self.centre, out=block)
            if rows.dtype != np.uint8:
                check_size("descriptors", float(np.sqrt(np.vdot(block, block))))
            products = self._products.take(len(self._words), len(block))
            np.dot(self._words, block.T, out=products)
            yield block, products


def soft_histograms(
    bags: Bags,
    words: Float32,
    sharpness: float,
    *,
    out: Float32 | None = None,
    n_jobs: int | None = -1,
    verbose: bool = False,
) -> Float32:
    """Return the average-pooled soft codes, ``(n_bags, n_words)``; an empty bag's row is 0."""
    check_sharpness(sharpness)
    if out is None:
        out = np.empty((len(bags), len(words)), dtype=np.float32)
    target = out
    scores = WordScores(words)
    factor = score_factor(sharpness, bags.scale)

    def code(first: int) -> int:
        chosen = range(first, min(first + TASK_BAGS, len(bags)))
        for bag in chosen:
            rows = bags[bag]
            sums = np.zeros(len(words), dtype=np.float64)
            for _, products in scores.blocks(rows):
                pool_soft(products, scores.half_norms, factor, sums)
            target[bag] = sums / max(len(rows), 1)
        return len(chosen)

    with single_threaded_blas(), Progress("coding", len(bags), show=verbose) as bar:
        for n_done in ordered_map(code, range(0, len(bags), TASK_BAGS), n_jobs, ahead=8):
            bar.step(n_done)
    return out


def score_factor(sharpness: float, scale: float) -> float:
    """Return the factor of a difference of scores, in stored units, in the exponent."""
    # The limit keeps infinity times 0, a NaN, out of float32.
    return min(2 * sharpness / scale**2, 1e38)


def check_sharpness(sharpness: object, remedy: str = "") -> float:
    """Return ``sharpness`` as a float, or raise a ParameterError."""
    return check_real(sharpness, "sharpness", 0, open_low=True, remedy=remedy)


def sharpness_for(bags: Bags, words: Float32, target: float, seed: int) -> float:
    """Return the sharpness that gives a mean perplexity, by bisection on a sample."""
    check_real(target, "perplexity", 1, len(words), open_low=True, open_high=True)
    if not bags.n_descriptors:
        raise DataError("perplexity needs descriptors; all bags are empty.")
    chosen = np.random.default_rng(seed).choice(
        bags.n_descriptors, min(_PERPLEXITY_SAMPLE, bags.n_descriptors), replace=False
    )
    rows = np.concatenate([bags.read(int(i), int(i) + 1) for i in np.sort(chosen)])
    distances = _squared_distances(rows / bags.scale, words / bags.scale)

    def reached(sharpness: float) -> float:
        return float(_perplexities(distances, sharpness).mean())

    farther = distances - distances.min(axis=1, keepdims=True)
    low = high = 1 / max(float(farther.mean()), 1e-12)
    limit = high * 1e24
    while reached(high) > target and high < limit:
        low, high = high, high * 4
    while reached(low) < target:
        low, high = low / 4, low
    if reached(high) > target:
        raise DataError(
            f"perplexity cannot be as low as {target:g}: at any sharpness {reached(high):.3g} "
            "words are equally near to a descriptor. Ask for more, or remove equal words."
        )
    for _ in range(30):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if reached(middle) > target else (low, middle)
    return float(np.sqrt(low * high))


def _squared_distances(rows: NDArray[np.floating], words: NDArray[np.floating]) -> Float64:
    x, c = rows.astype(np.float64), words.astype(np.float64)
    squared = (x**2).sum(axis=1)[:, None] + (c**2).sum(axis=1) - 2 * x @ c.T
    return np.asarray(np.maximum(squared, 0))


def _perplexities(distances: Float64, sharpness: float) -> Float64:
    exponents = -sharpness * (distances - distances.min(axis=1, keepdims=True))
    weights = np.exp(exponents)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * exponents).sum(axis=1) / total
    return np.asarray(np.exp(entropy))
