"""How far rounding can move a soft code: the proofs behind the bounds of soft states.

**A code moves less than the logarithms of its weights.** Let a code be p_k = w_k / Σ w, and let
each weight be off by a factor between e⁻ʰ and eʰ. The L1 distance of two codes is twice the largest
difference q(A) − p(A) over sets A of words. The odds of A change at most by the factor e²ʰ, so
with p(A) = σ(z), σ the logistic function, q(A) ≤ σ(z + 2h), and σ(z + 2h) − σ(z) is largest at
z = −h, where it is tanh(h/2). Hence the L1 error is at most 2·tanh(h/2) ≤ h.

**Weights that are cut off.** Let all weights that are not the word's own be at most δ off in sum.
Then the code moves by at most 2δ / Σ w. A weight that is stored as f because it seemed to be below
f is truly below f·eʰ, so n of them are at most δ = n·f·eʰ off.

**Where h comes from.** A score in float32 errs by γ(n_dims + 6) (‖x‖ + ‖c‖) ‖c‖ and a constant for
products too small for float32 (see ``nearest.search``, x and c centred); the exponent is ``factor``
= 2 · sharpness / scale² times the score. Its difference from the best score, the factor and their
product round once each, and 2^t is within 2·10⁻⁷; a constant per descriptor cancels.

**Sums.** A sum of n numbers that are not negative is within γ(n) of itself in any order. A
histogram's entries sum to 1, so relative errors of entries are L1 errors of the histogram; the mean
of the codes' L1 errors over a bag bounds that of its histogram.
"""

from __future__ import annotations

import numpy as np

from bowsaw._arrays import Float32, Float64, Int64
from bowsaw.bags import Bags
from bowsaw.coding.soft import WordScores, score_factor
from bowsaw.nearest import search

UNIT = search.UNIT
UNIT64 = 2.0**-53
CODING_OCTAVES, CODING_ROWS = 100, 512
"""Of soft coding: weights below 2 to the minus this count as that; rows summed in float32."""
_SLACK, _EXP2_ERROR, _BLOCK_ROWS = 1.001, 2e-7, 4096


def sum_error(n_terms: Int64 | int, unit: float = UNIT) -> Float64:
    """Return γ(n): the relative error of n roundings, for numbers that are not negative."""
    rounded = np.minimum(np.asarray(n_terms) * unit, 0.25)
    return np.asarray(rounded / (1 - 2 * rounded))


def code_error(log_error: Float64, cut: float = 0.0) -> Float64:
    """Return the L1 error of codes by that of log weights and the share of the total cut off."""
    with np.errstate(over="ignore"):
        moved = 2 * np.tanh(log_error / 2) + 2 * cut * np.exp(np.minimum(log_error, 700.0))
    return np.minimum(moved, 2.0)


def score_log_error(
    norms: Float64, largest: float, n_dims: int, factor: float, octaves: int
) -> Float64:
    """Return the error of a log weight of at least 2^-octaves, from scores in float32.

    ``norms`` are those of centred descriptors, ``largest`` that of the words, in stored units.
    """
    score = sum_error(n_dims + 6) * (norms + largest) * largest + (n_dims + 6) * search.SMALLEST
    exponent = 4 * UNIT * octaves * np.log(2.0) + _EXP2_ERROR
    return np.asarray(_SLACK * factor * score + exponent)


def direct_log_error(norms: Float64, largest: float, n_dims: int, factor: float) -> Float64:
    """Return the error of a log weight from differences in float64."""
    # Two roundings per dimension, the sum, two of the exponent, the exponential.
    squares = _SLACK * factor / 2 * (norms + largest) ** 2
    return np.asarray(squares * (2 * n_dims + 6) * UNIT64 + 4 * UNIT64)


def bag_means(values: Float64, offsets: Int64) -> Float64:
    """Return the mean of each bag's values, 0 for an empty one, ``(n_bags,)``."""
    counts = np.diff(offsets)
    means = np.zeros(len(counts))
    full = np.flatnonzero(counts)
    if len(full):
        means[full] = np.add.reduceat(values, offsets[full]) / counts[full]
    return means


def recoding_error(bags: Bags, words: Float32, sharpness: float) -> Float64:
    """Return a bound of the rounding error of ``soft_histograms``, ``(n_bags,)``."""
    scores = WordScores(words)
    factor = score_factor(sharpness, bags.scale)
    errors = np.empty(bags.n_descriptors)
    cut = len(words) * 2.0**-CODING_OCTAVES
    for start, stop in bags.blocks(_BLOCK_ROWS):
        norms = np.linalg.norm(bags.read(start, stop) - scores.centre, axis=1).astype(np.float64)
        log_error = score_log_error(norms, scores.largest, bags.n_dims, factor, CODING_OCTAVES)
        errors[start:stop] = code_error(log_error, cut)
    sums = sum_error(len(words) + CODING_ROWS + 4) * (bags.counts > 0)
    return np.minimum(bag_means(errors, bags.offsets) + sums, 2.0)
