"""Coverage: keep the words that lie near the descriptors, without labels.

**The problem.** Choose T, n_kept words of a codebook, with a small quantisation error
Σ_x min over k in T of ‖x − c_k‖². Written as a gain,

    F(T) = Σ_x (d(x) − min over k in T of ‖x − c_k‖²),   d(x) = max over all words k of ‖x − c_k‖²,

it is the facility location function: monotone, submodular, F(∅) = 0. The greedy choice, which adds
the word with the largest gain, therefore has F ≥ (1 − 1/e) of the best possible F (Nemhauser,
Wolsey and Fisher, 1978); F, not the error itself.

**Lazy evaluation** (Minoux, 1978). The gain of a word at an earlier step bounds its gain now, so
only the first word of a queue by these bounds is computed again, and taken if it stays first. The
result equals the plain greedy choice, ties included (the first word of the codebook wins).

**Departure.** Not in the paper. The guarantee is that of the ``n_sample`` descriptors.

**Cost.** Memory n_words · n_sample floats (100 MB for 5000 and 5000); the distances once, by matrix
products, then n_sample operations per word evaluated, a few for each one taken.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError
from bowsaw.parallel import single_threaded_blas
from bowsaw.random_streams import seed_from, stream
from bowsaw.selection.base import Coding, Labels, Selection, Selector
from bowsaw.validation import check_int

BLOCK_ROWS, BLOCK_WORDS = 2**14, 256


class Coverage(Selector):
    """Keep the words that lie nearest to the descriptors, chosen greedily; needs no labels.

    Parameters
    ----------
    codebook, n_kept, coding, sharpness, random_state, n_jobs
        As in :class:`~bowsaw.selection.base.Selector`.
    n_sample : int, default=5000
        Descriptors that are sampled at most; each takes 4 bytes of memory per word.

    Attributes
    ----------
    order_ : ndarray of int64, shape (n_kept,)
        The kept words (ids) as they were taken. ``selection_.scores`` are minus the mean squared
        distance of the sample to the nearest kept word after each, in unit-norm units.

    Examples
    --------
    >>> import bowsaw as bs
    >>> bags = [[[0.0], [0.5], [1.0], [1.5]], [[9.0]]]
    >>> cover = bs.Coverage([[0.0], [1.0], [5.0], [9.0]], n_kept=2).fit(bags)
    >>> cover.order_.tolist(), cover.selection_.kept.tolist(), cover.selection_.scores
    ([1, 3], [1, 3], (-13.1..., -0.3...))
    """

    name = "coverage"
    _needs_labels = False

    def __init__(
        self,
        codebook: Any = None,
        n_kept: int = 50,
        *,
        n_sample: int = 5000,
        coding: Coding = "hard",
        sharpness: float = 40.0,
        random_state: Any = None,
        n_jobs: int | None = -1,
    ) -> None:
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.n_sample = n_sample
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        check_int(self.n_sample, "n_sample", 1)

    def _select(self, bags: Bags, labels: Labels, codebook: Codebook, n_kept: int) -> Selection:
        seed = seed_from(self.random_state)
        costs = coverage_costs(bags, codebook, self.n_sample, seed)
        taken = lazy_greedy(costs, n_kept)
        self.order_ = codebook.ids[taken]
        nearest = np.minimum.accumulate(costs[taken], axis=0)
        scores = tuple(-float(row.mean(dtype=np.float64)) for row in nearest)
        parameters = {"n_kept": n_kept, "n_sample": costs.shape[1], "coding": self.coding}
        return self._subset(codebook, taken, scores=scores, seed=seed, parameters=parameters)


def coverage_costs(bags: Bags, codebook: Codebook, n_sample: int, seed: int) -> NDArray[np.float32]:
    """Return squared distances in unit-norm units, ``(n_words, n_sample)`` or fewer columns."""
    if not bags.n_descriptors:
        raise DataError(f"the {len(bags)} bags have no descriptors to cover. Give bags with some.")
    words = codebook.words_for(bags).astype(np.float64) / bags.scale
    rows = np.arange(bags.n_descriptors)
    if n_sample < len(rows):
        rows = np.sort(stream(seed, "coverage").choice(len(rows), n_sample, replace=False))
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
            costs[start : start + BLOCK_WORDS] = np.maximum(squares, 0, out=squares)
    return costs


def lazy_greedy(costs: NDArray[Any], n_kept: int) -> NDArray[np.int64]:
    """Return rows of ``costs`` that give every column a small entry, in the order taken."""
    so_far = costs.max(axis=0).astype(costs.dtype)
    queue = [(-_gain(so_far, row), k, 0) for k, row in enumerate(costs)]
    heapq.heapify(queue)
    chosen: list[int] = []
    while len(chosen) < n_kept:
        _, k, seen = heapq.heappop(queue)
        if seen < len(chosen):
            heapq.heappush(queue, (-_gain(so_far, costs[k]), k, len(chosen)))
            continue
        chosen.append(k)
        np.minimum(so_far, costs[k], out=so_far)
    return np.array(chosen, dtype=np.int64)


def _gain(so_far: NDArray[Any], row: NDArray[Any]) -> float:
    return float(np.maximum(so_far - row, 0).sum(dtype=np.float64))
