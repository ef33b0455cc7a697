"""Descriptors of each word, drawn or found: one bag a word, for ``sampled``.

- *Gaussian*: points of N(c, Σ) around each word c, truncated to the word's cell by rejection: a
  point counts if c is its nearest word. Σ is σ²I or one covariance for all words. Cells are the
  codebook's own, by Euclidean distance, since that is how descriptors are coded; the paper's
  Mahalanobis cells are those of a codebook that codes by that distance.
- *Empirical*: training descriptors by their nearest word, all or a sample of each word's.

Every word has a random stream of its own, named after its id: what is drawn for it does not depend
on the other words, nor on their order, nor on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.nearest.search import WordSearch, nearest_words
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.random_streams import stream

ATTEMPTS = 20
"""Points drawn for each one that is wanted, before a cell is left with fewer."""
TASK_WORDS = 4
BLOCK_ROWS = 2**14


def gaussian_samples(
    codebook: Codebook,
    root: NDArray[np.float64],
    n_samples: int,
    seed: int,
    *,
    n_jobs: int | None = -1,
) -> Bags:
    """Return up to ``n_samples`` points of each word's truncated Gaussian, a bag a word.

    Parameters
    ----------
    codebook : Codebook
        Its words are the centres.
    root : ndarray of shape (n_dims, n_dims), float64
        The symmetric root of the covariance, in unit-norm units.
    n_samples : int
        Points a word; cells that hardly hold their own word's points get fewer.
    seed : int
        Of all draws.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    """
    words, search = codebook.words, WordSearch(codebook.words)
    stored_root = root * codebook.scale

    def draw(word: int) -> NDArray[np.float32]:
        random = stream(seed, "gaussian transfer", int(codebook.ids[word]))
        found = [np.empty((0, codebook.n_dims), dtype=np.float32)]
        n_missing, n_left = n_samples, ATTEMPTS * n_samples
        while n_missing and n_left:
            # A few more than are missing, or the last of them would take many rounds.
            n = min(n_missing + n_missing // 4 + 8, n_left)
            n_left -= n
            noise = random.standard_normal((n, codebook.n_dims)) @ stored_root
            rows = (words[word] + noise).astype(np.float32)
            own = rows[search.find(rows).code == word][:n_missing]
            n_missing -= len(own)
            found.append(own)
        return np.concatenate(found)

    def some(first: int) -> list[NDArray[np.float32]]:
        return [draw(word) for word in range(first, min(first + TASK_WORDS, len(words)))]

    with single_threaded_blas():
        blocks = ordered_map(some, range(0, len(words), TASK_WORDS), n_jobs, ahead=8)
        drawn = [rows for block in blocks for rows in block]
    return Bags.from_list(drawn, scale=codebook.scale, description=codebook.description)


def empirical_samples(
    codebook: Codebook,
    bags: Bags,
    n_samples: int | None,
    seed: int,
    *,
    n_jobs: int | None = -1,
) -> Bags:
    """Return the descriptors of each word, a bag a word: all, or a sample of ``n_samples``.

    Descriptors keep their order; ``bags`` may lie on disk, and are read twice.
    """
    codes = nearest_words(bags, codebook.words_for(bags), n_jobs=n_jobs)
    order = np.argsort(codes, kind="stable")
    limits = np.searchsorted(codes[order], np.arange(codebook.n_words + 1))
    if n_samples is not None:
        kept = np.ones(len(order), dtype=bool)
        for word in np.flatnonzero(np.diff(limits) > n_samples):
            random = stream(seed, "empirical transfer", int(codebook.ids[word]))
            own = np.arange(limits[word], limits[word + 1])
            kept[own] = False
            kept[random.choice(own, n_samples, replace=False)] = True
        order = order[kept]
        limits = np.concatenate([[0], np.cumsum(kept)])[limits]
    values = np.empty((len(order), codebook.n_dims), dtype=bags.dtype)
    by_row = np.argsort(order)
    rows = order[by_row]
    for start, stop in bags.blocks(BLOCK_ROWS):
        begin, end = np.searchsorted(rows, [start, stop])
        block = bags.read(start, stop, dtype=bags.dtype)
        values[by_row[begin:end]] = block[rows[begin:end] - start]
    return Bags(values, limits, scale=bags.scale, description=bags.description)
