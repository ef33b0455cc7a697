"""The search without inference: a state that codes the corpus anew for every move.

What Algorithm 1 would cost if nothing were inferred. It is as quick as plain re-coding can be: the
faster of our coder and faiss, one coding a move (a move that is taken back finds the histograms of
before), and only the columns that differ are told to the score.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import bowsaw as bs
from benchmarks.inference import SHARPNESS, Rivals
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import soft_histograms
from bowsaw.inference.state import HistogramState, Swap


class RecodedState(HistogramState):
    """Histograms of the kept words by re-coding all bags.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus.
    coder : callable
        Codes the corpus with some words, ``(n_bags, n_words)``.
    coding : {"hard", "soft"}
        How the certificate re-codes.
    """

    is_exact = True

    def __init__(
        self,
        codebook: bs.Codebook,
        bags: bs.Bags,
        coder: Callable[[NDArray[np.float32]], Any],
        coding: Literal["hard", "soft"] = "hard",
    ) -> None:
        super().__init__(codebook, len(bags), bags=bags)
        self._words = codebook.words_for(bags)
        self._coder = coder
        self._soft = coding == "soft"
        self._known: dict[bytes, Any] = {}
        self.n_codings = 0

    def _begin(self) -> None:
        words = np.flatnonzero(self._column[:-1] >= 0)
        name = words.tobytes()
        if name not in self._known:
            coded = self._coder(self._words[words])
            self.n_codings += 1
            # The present words and those of before the move are all that a search returns to.
            last = list(self._known.items())[-1:]
            self._known = dict([*last, (name, coded)])
        else:
            self._known[name] = self._known.pop(name)
        self._table[self._column[words]] = self._known[name].T

    def _follow(self, swap: Swap) -> NDArray[np.int64]:
        before = self._table[: self.n_kept].copy()
        known = dict(self._known)
        self._save(self._table, slice(self.n_kept))
        self._on_undo(lambda: setattr(self, "_known", known))
        self._begin()
        different = (before != self._table[: self.n_kept]).any(axis=1)
        different[swap.added_columns] = True
        return np.flatnonzero(different)

    def _code(self, bags: bs.Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._soft:
            return soft_histograms(bags, words, SHARPNESS)
        return hard_histograms(bags, words)


def fastest_coder(
    corpus: bs.Bags, words: NDArray[np.float32], coding: Literal["hard", "soft"], repeats: int = 3
) -> tuple[str, Callable[[NDArray[np.float32]], Any]]:
    """Return the way of coding with as many words that took least, and its name."""
    rivals = Rivals(corpus)
    make = rivals.soft if coding == "soft" else rivals.hard
    times: dict[str, list[float]] = {}
    for number in range(repeats + 1):
        for name, rival in make(words).items():
            time.sleep(0.1)
            begin = time.perf_counter()
            rival()
            # The first round compiles.
            times.setdefault(name, []).extend([time.perf_counter() - begin] if number else [])
    fastest = min(times, key=lambda name: median(times[name]))
    return fastest, lambda some: make(some)[fastest]()
