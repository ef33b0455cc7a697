"""Coverage: words that lie near the descriptors, for users without labels.

**The problem.** Choose T, n_kept words of a codebook, so that descriptors lie near their nearest
kept word: small Σ_x min over k in T of ‖x − c_k‖². Counted as a gain,

    F(T) = Σ_x (d(x) − min over k in T of ‖x − c_k‖²),   d(x) = max over all words k of ‖x − c_k‖²,

it is the facility location function: it never falls when a word is added, F(∅) = 0, and a word
helps the less the more words are there (it is submodular). So the greedy choice, one word after
another, each the one that helps most, has F ≥ (1 − 1/e) of the best possible F (Nemhauser, Wolsey
and Fisher, 1978). The guarantee is for F, whose zero is d, and not for the error itself.

**Lazily** (Minoux, 1978). What a word would have added earlier bounds what it adds now. The words
wait in a queue by these bounds; only the one in front is computed anew, and taken if it stays in
front. The result is that of the plain greedy choice, ties included (the first word of the codebook
wins): rounded sums of smaller terms in one order are never larger.

**Honesty.** Distances are exact, but over a sample of descriptors when there are more than
``n_sample``; the guarantee is then for the sample's F. Each bag is drawn from in proportion to its
descriptors. The paper has no such score. It is no ``Score``: those see histograms, in which the
distances are no longer.

**Cost.** Memory n_words · n_sample floats (100 MB for 5000 and 5000); the distances once, by
matrix products, then n_sample for each word looked at, a few for each one taken.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.parallel import single_threaded_blas
from bowsaw.random_streams import seed_from, stream
from bowsaw.validation import check_int

BLOCK_ROWS = 2**14
BLOCK_WORDS = 256


def greedy_coverage(
    bags: Bags,
    codebook: Codebook,
    n_kept: int,
    *,
    n_sample: int = 5000,
    random_state: Any = 0,
) -> NDArray[np.int64]:
    """Choose words that lie near the descriptors, one after another.

    Parameters
    ----------
    bags : Bags
        The descriptors to be near to.
    codebook : Codebook
        The words to choose from.
    n_kept : int
        How many.
    n_sample : int, default=5000
        At most so many descriptors are looked at, drawn without repetition.
    random_state : int, RandomState or None, default=0
        Draws them.

    Returns
    -------
    ndarray of shape (n_kept,), int64
        Positions in the codebook, the most helpful word first: the first m are the choice for m.

    Examples
    --------
    >>> import bowsaw as bs
    >>> bags = bs.Bags([[0.0], [0.1], [1.0], [1.1], [9.0]])
    >>> greedy_coverage(bags, bs.Codebook([[0.0], [1.0], [5.0], [9.0]]), 2).tolist()
    [1, 3]
    """
    if not 1 <= n_kept <= codebook.n_words:
        raise ParameterError(
            f"n_kept must be from 1 to {codebook.n_words} (the codebook has so many words); got "
            f"{n_kept}. Ask for fewer words."
        )
    return lazy_greedy(coverage_costs(bags, codebook, n_sample, random_state), n_kept)


def coverage_costs(
    bags: Bags, codebook: Codebook, n_sample: int = 5000, random_state: Any = 0
) -> NDArray[np.float32]:
    """Return the squared distances of words and sampled descriptors, in unit-norm units.

    Parameters
    ----------
    bags, codebook, n_sample, random_state
        As for :func:`greedy_coverage`.

    Returns
    -------
    ndarray of shape (n_words, n_descriptors or n_sample), float32
    """
    check_int(n_sample, "n_sample", 1)
    if not bags.n_descriptors:
        raise DataError(f"the {len(bags)} bags have no descriptors to cover. Give bags with some.")
    words = codebook.words_for(bags).astype(np.float64) / bags.scale
    rows = np.arange(bags.n_descriptors)
    if n_sample < len(rows):
        draw = stream(seed_from(random_state), "coverage")
        rows = np.sort(draw.choice(len(rows), n_sample, replace=False))
    values = np.empty((len(rows), bags.n_dims))
    for start, stop in bags.blocks(BLOCK_ROWS):
        first, last = np.searchsorted(rows, (start, stop))
        values[first:last] = bags.read(start, stop)[rows[first:last] - start]
    # Centred and in float64 before rounding: the difference of large squares would be noise.
    centre = words.mean(axis=0)
    words -= centre
    values /= bags.scale
    values -= centre
    norms = np.einsum("ij,ij->i", values, values)
    costs = np.empty((len(words), len(values)), dtype=np.float32)
    with single_threaded_blas():
        for start in range(0, len(words), BLOCK_WORDS):
            block = words[start : start + BLOCK_WORDS]
            squares = block @ values.T
            squares *= -2
            squares += np.einsum("ij,ij->i", block, block)[:, None]
            squares += norms
            np.maximum(squares, 0, out=squares)
            costs[start : start + BLOCK_WORDS] = squares
    return costs


def lazy_greedy(
    costs: NDArray[Any], n_kept: int, weights: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Choose rows so that every column has a small entry in one of them, one after another.

    Parameters
    ----------
    costs : ndarray of shape (n_words, n_points)
        What it costs to serve a point by a word.
    n_kept : int
        How many rows to choose.
    weights : array-like of shape (n_points,), optional
        How much each point counts, 0 or more; the same when not given.

    Returns
    -------
    ndarray of shape (n_kept,), int64
        The rows, the most helpful first; the lowest row on a tie.

    Examples
    --------
    >>> import numpy as np
    >>> lazy_greedy(np.array([[0.0, 4.0, 9.0], [1.0, 1.0, 4.0], [9.0, 4.0, 0.0]]), 2).tolist()
    [1, 2]
    """
    weighing = None if weights is None else np.asarray(weights, dtype=np.float64)
    so_far = costs.max(axis=0).astype(costs.dtype)
    queue = [(-_gain(so_far, row, weighing), k, 0) for k, row in enumerate(costs)]
    heapq.heapify(queue)
    chosen: list[int] = []
    while len(chosen) < n_kept:
        bound, k, seen = heapq.heappop(queue)
        if seen < len(chosen):
            # Never above the bound but by rounding of the product with weights.
            gain = min(_gain(so_far, costs[k], weighing), -bound)
            heapq.heappush(queue, (-gain, k, len(chosen)))
            continue
        chosen.append(k)
        np.minimum(so_far, costs[k], out=so_far)
    return np.array(chosen, dtype=np.int64)


def coverage_gain(costs: NDArray[Any], kept: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return F of the chapter for these rows of ``costs``."""
    rows = np.asarray(kept, dtype=np.int64)
    most = costs.max(axis=0)
    least = costs[rows].min(axis=0) if len(rows) else most
    weighing = None if weights is None else np.asarray(weights, dtype=np.float64)
    return _gain(most, least, weighing)


def _gain(so_far: NDArray[Any], row: NDArray[Any], weights: NDArray[np.float64] | None) -> float:
    saved = np.maximum(so_far - row, 0)
    if weights is None:
        return float(saved.sum(dtype=np.float64))
    return float((saved * weights).sum())
