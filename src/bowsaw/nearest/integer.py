"""Words of 8 bits for descriptors of 8 bits: the nearest words by integer products, still exact.

**The problem.** As in ``search``: the word c with the largest score x·c − ‖c‖²/2. Descriptors are
stored as uint8, and processors with ``vpdpbusd`` (AVX-512 VNNI, AVX-VNNI) multiply and add four
times as many bytes as float32 numbers in the same time.

**The method.** Words are rounded to int8 about the middle m of their range, in units of 1/s:
s (c − m) = q + e with the residual e, |e_d| ≤ 1/2. With a fixed point a near the descriptors,

    s (x·(c − m) − ‖c‖²/2) = x·q + (a·e − s ‖c‖²/2) + (x − a)·e,

and x·m is the same for all words. The middle term is rounded to an integer that the sum starts
with; the last is left out.

**Invariants.** By Cauchy and Schwarz a score errs by at most ‖x − a‖ E + 1, where E is the largest
norm of a residual and 1 covers the rounding of the middle term and of the float64 arithmetic. Words
whose scores are within twice that of the best are compared by float32 distances, and those too
close for these by float64 sums in the order of the dimensions, the lowest index first on a tie:
the answer of ``search``, to the bit. On dense SIFT that is 2 words per descriptor of 1000 and 5 of
5000.

The proof needs words within ``LOWEST`` and ``HIGHEST`` and at most ``MOST_DIMS`` dimensions, so
that no sum leaves 32 bits. Means of uint8 descriptors are within; others take the float path.

**Choice.** ``BOWSAW_SEARCH=float`` or ``=vnni`` chooses the path; by default the processor does.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from bowsaw._arrays import Float32, Float64, Int64
from bowsaw.errors import ParameterError
from bowsaw.nearest._integer_kernel import AVAILABLE, LOWEST_SCORE, TILE, IntegerWords

LOWEST, HIGHEST = -256.0, 511.0
MOST_DIMS = 512
LEAST_RANGE = 8.0
"""Words closer together are not stretched further, or sums would leave 32 bits."""


GROUP = 48
"""Words whose movement is added up together; a whole number of tiles."""


class Groups(NamedTuple):
    """The order in which words of k-means are packed, and how far each group has moved."""

    order: Int64
    """Words that are near each other lie in one group, ``(n_words,)``."""
    drift: Float64
    """The sum over rounds of the largest movement of a word of each group, ``(n_groups,)``."""

    @classmethod
    def of(cls, words: Float32) -> Groups:
        """Divide words into groups, at right angles to where they differ most."""
        order = np.concatenate(_halved(words, np.arange(len(words))))
        return cls(order, np.zeros(-(-len(words) // GROUP)))

    def moved(self, before: Float32, after: Float32) -> Groups:
        """Return the groups after a round."""
        far = np.linalg.norm(after.astype(np.float64) - before, axis=1)[self.order]
        most = np.maximum.reduceat(far, np.arange(0, len(far), GROUP))
        return Groups(self.order, self.drift + most)


def _halved(words: Float32, some: Int64) -> list[Int64]:
    if len(some) <= GROUP:
        return [some]
    gaps = words[some] - words[some].mean(axis=0)
    along = gaps[np.argmax(np.einsum("kd,kd->k", gaps, gaps))]
    for _ in range(8):  # the first principal direction, nearly
        along = gaps.T @ (gaps @ along)
        along /= max(float(np.linalg.norm(along)), 1e-30)
    sorted_ = some[np.argsort(gaps @ along, kind="stable")]
    half = GROUP * round(-(-len(some) // GROUP) / 2)
    return _halved(words, sorted_[:half]) + _halved(words, sorted_[half:])


def uses_integers() -> bool:
    """Return whether uint8 descriptors are searched by integer products."""
    chosen = os.environ.get("BOWSAW_SEARCH", "") or ("vnni" if AVAILABLE else "float")
    if chosen not in ("float", "vnni"):
        raise ParameterError(
            f"BOWSAW_SEARCH must be float or vnni; got {chosen}. Unset it to let the processor "
            "decide."
        )
    if chosen == "vnni" and not AVAILABLE:
        raise ParameterError(
            "BOWSAW_SEARCH=vnni needs a processor with AVX-512 VNNI or AVX-VNNI, which numba does "
            "not find here. Unset it, or set it to float."
        )
    return chosen == "vnni"


def integer_words(words: Float32, groups: Groups | None = None) -> IntegerWords | None:
    """Return words rounded to 8 bits, or None where the proof does not hold."""
    n_words, n_dims = words.shape
    inside = words.min() >= LOWEST and words.max() <= HIGHEST  # false for NaN
    if not inside or n_dims > MOST_DIMS:
        return None
    order = np.arange(n_words) if groups is None else groups.order
    exact = words[order].astype(np.float64)
    low, high = exact.min(axis=0), exact.max(axis=0)
    unit = 127 / max(float((high - low).max()) / 2, LEAST_RANGE)
    scaled = unit * (exact - (low + high) / 2)
    rounded = np.rint(scaled)
    residuals = scaled - rounded
    origin = np.clip(np.rint(exact.mean(axis=0)), 0, 255)
    middle = residuals @ origin - unit / 2 * np.einsum("kd,kd->k", exact, exact)
    n_tiles, n_steps = -(-n_words // TILE), -(-n_dims // 4)
    start = np.full(n_tiles * TILE, LOWEST_SCORE, dtype=np.int32)
    start[:n_words] = np.rint(middle - middle.mean())
    names = np.zeros(n_tiles * TILE, dtype=np.int32)
    names[:n_words] = order
    padded = np.zeros((n_tiles * TILE, n_steps * 4), dtype=np.int8)
    padded[:n_words, :n_dims] = rounded
    packed = padded.reshape(n_tiles, TILE, n_steps, 4).transpose(0, 2, 1, 3)
    drift = np.zeros(n_tiles)
    if groups is not None:
        drift = groups.drift[np.arange(n_tiles) * TILE // GROUP]
    return IntegerWords(
        packed=np.ascontiguousarray(packed),
        start=start,
        origin=origin.astype(np.uint8),
        residual=float(np.sqrt(np.einsum("kd,kd->k", residuals, residuals).max())),
        exact=words,
        names=names,
        middle=(low + high) / 2,
        constant=-2 / unit * float(middle.mean()),
        per_score=2 / unit,
        drift=drift,
    )
