"""Which words a move takes out, and which it brings in instead."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.nearest.ranking import ranked_words

N_NEIGHBOURS = 128


class Proposals(ABC):
    """Proposes moves of a fixed size between kept and pruned words (positions)."""

    @abstractmethod
    def draw(
        self, kept: NDArray[np.int64], is_kept: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words that go and those that come, as many; ``kept`` is not empty."""


class RandomSwaps(Proposals):
    """Any kept word for any pruned one.

    Parameters
    ----------
    n_moved : int
        Words that a move replaces.
    """

    def __init__(self, n_moved: int) -> None:
        self.n_moved = n_moved

    def draw(
        self, kept: NDArray[np.int64], is_kept: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words that go and those that come."""
        pruned = np.flatnonzero(~is_kept)
        n = min(self.n_moved, len(kept), len(pruned))
        return rng.choice(kept, n, replace=False), rng.choice(pruned, n, replace=False)


class NearestSwaps(Proposals):
    """The paper's neighbour state: kept words, each replaced by its nearest word that is free.

    Free is a word that is neither kept nor chosen already in this move; otherwise the number of
    kept words would shrink. Nearest is by the distance between words, the lower position on a tie.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_dims), float32
        All words.
    n_moved : int
        Words that a move replaces.
    n_jobs : int or None
        Threads that rank the words.
    """

    def __init__(self, words: NDArray[np.float32], n_moved: int, n_jobs: int | None = -1) -> None:
        self.n_moved = n_moved
        self._words = words.astype(np.float64)
        n_listed = min(len(words), N_NEIGHBOURS)
        self._lists = ranked_words(Bags(words), words, n_listed, n_jobs=n_jobs)

    def draw(
        self, kept: NDArray[np.int64], is_kept: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the words that go and those that come."""
        n = min(self.n_moved, len(kept), int((~is_kept).sum()))
        out = rng.choice(kept, n, replace=False)
        taken = np.append(is_kept, True)
        in_ = np.empty(n, dtype=np.int64)
        for j, word in enumerate(out):
            listed = self._lists[word].astype(np.int64)
            free = listed[~taken[listed]]
            in_[j] = free[0] if len(free) else self._nearest_of_all(int(word), taken[:-1])
            taken[in_[j]] = True
        return out, in_

    def _nearest_of_all(self, word: int, taken: NDArray[np.bool_]) -> int:
        free = np.flatnonzero(~taken)
        gaps = self._words[free] - self._words[word]
        return int(free[np.argmin((gaps**2).sum(axis=1))])
