"""The heirs of each pruned word: its nearest surviving words, followed from move to move.

The paper's Eq. 6 lets a pruned word give equal parts to its nearest words. For a set of pruned
words ``nearest-surviving`` reads: to its nearest words among the survivors. They are the first
survivors in the word's ranked list of other words, so a move concerns just

- the words that go out, which now need heirs;
- pruned words with an heir among those that go out;
- pruned words that list an incoming word before their last heir, which an inverted index tells.

Lists hold the 256 nearest words. Where fewer survivors than needed are in a word's list, its heirs
are found by the distances to all survivors, who are few then, and an incoming word is compared with
the last heir. Distances are sums in float64 in the order of the dimensions, and of equally near
words the first in the codebook is an heir; so nothing depends on how the state was reached.

Cost of a move: one pass over n_words · neighbours whole numbers, and the lists of the words that
are concerned; nothing in it depends on the number of bags. Memory: 8 bytes an entry of a list.
"""

from __future__ import annotations

import copy
import numbers
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.errors import ParameterError
from bowsaw.inference._transfer_kernel import find_stale, list_givers, renew_heirs
from bowsaw.inference.state import Positions
from bowsaw.nearest.ranking import ranked_words

LISTED = 256


class Heirs:
    """The ``neighbours`` nearest survivors of every pruned word; all of them if they are fewer.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_dims), float32
        The full codebook's.
    neighbours : int
        Heirs of a word, above 0.
    n_jobs : int or None, default=-1
        Threads for the ranked lists.

    Examples
    --------
    >>> import numpy as np
    >>> heirs = Heirs(np.array([[0.0], [1.0], [5.0], [7.0]], dtype=np.float32), neighbours=1)
    >>> heirs.begin(np.array([True, False, False, True]))
    >>> starts, sources = heirs.givers(np.array([0, 3]))
    >>> starts.tolist(), sources.tolist()
    ([0, 1, 2], [1, 2])
    """

    def __init__(
        self, words: NDArray[np.float32], neighbours: int, *, n_jobs: int | None = -1
    ) -> None:
        self.words = words
        self.neighbours = check_neighbours(neighbours)
        n_words = len(words)
        self.ranked = ranked_words(Bags(words), words, min(LISTED + 1, n_words), n_jobs=n_jobs)
        self._starts, self._listers, self._ranks = _inverted(self.ranked, n_words)
        self.n_heirs = 0
        width = min(self.neighbours, n_words)
        self._heirs = np.full((n_words, width), n_words, dtype=np.int32)
        # The rank of the last heir, -1 for a kept word; where the list is too short for all heirs,
        # its length, and the squared distance of the last heir counts.
        self._reach = np.full(n_words, -1, dtype=np.int32)
        self._farthest = np.zeros(n_words)

    @property
    def n_bytes(self) -> int:
        """Memory that it holds in arrays."""
        arrays = (self.ranked, self._starts, self._listers, self._ranks, self._heirs, self._reach)
        return sum(array.nbytes for array in arrays) + self._farthest.nbytes

    def copy(self) -> Self:
        """Return heirs that move by themselves; the lists are shared."""
        other = copy.copy(self)
        for name in ("_heirs", "_reach", "_farthest"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def begin(self, kept: NDArray[np.bool_]) -> None:
        """Find the heirs from scratch, ``kept`` telling of each word whether it survives."""
        alive = np.append(kept, False)
        self._heirs[:] = len(self.words)
        self._reach[:] = -1
        self.n_heirs = min(self.neighbours, int(kept.sum()))
        self._renew(np.flatnonzero(~kept), alive, np.zeros(len(alive), dtype=bool))

    def follow(self, out: Positions, in_: Positions, kept: NDArray[np.bool_]) -> Positions:
        """Follow a move; return the words, incoming ones included, that anybody gives more or less.

        ``kept`` is that after the move.
        """
        if min(self.neighbours, int(kept.sum())) != self.n_heirs:
            self.begin(kept)
            return np.flatnonzero(kept)
        alive = np.append(kept, False)
        stale = find_stale(
            out,
            in_,
            self.words,
            self.ranked.shape[1],
            self._starts,
            self._listers,
            self._ranks,
            alive,
            self._heirs,
            self.n_heirs,
            self._reach,
            self._farthest,
        )
        touched = np.zeros(len(alive), dtype=bool)
        touched[in_] = True
        touched[self._heirs[in_]] = True
        self._heirs[in_] = len(self.words)
        self._reach[in_] = -1
        self._renew(stale, alive, touched)
        return np.flatnonzero(touched & alive)

    def nearest(self, words: Positions, kept: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the nearest kept word of each of these words, which are none of them."""
        n_words = len(kept)
        heirs = np.full((n_words, 1), n_words, dtype=np.int32)
        reach, farthest = np.zeros(n_words, dtype=np.int32), np.zeros(n_words)
        touched = np.zeros(n_words + 1, dtype=bool)
        alive = np.append(kept, False)
        renew_heirs(words, self.words, self.ranked, alive, heirs, 1, reach, farthest, touched)
        found: NDArray[np.int32] = heirs[words, 0]
        return found

    def givers(self, words: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return who gives to each of these kept words: starts and ascending sources."""
        starts, sources = list_givers(words, self._heirs, self.n_heirs)
        return starts, sources

    def _renew(
        self, stale: Positions, alive: NDArray[np.bool_], touched: NDArray[np.bool_]
    ) -> None:
        renew_heirs(
            stale,
            self.words,
            self.ranked,
            alive,
            self._heirs,
            self.n_heirs,
            self._reach,
            self._farthest,
            touched,
        )


def check_neighbours(neighbours: object) -> int:
    """Return ``neighbours`` as an int above 0, or refuse it."""
    if (
        isinstance(neighbours, bool)
        or not isinstance(neighbours, numbers.Integral)
        or neighbours < 1
    ):
        raise ParameterError(f"neighbours must be a whole number above 0; got {neighbours!r}.")
    return int(neighbours)


def _inverted(
    ranked: NDArray[np.integer], n_words: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]:
    """Return for each word which words list it, and at which rank."""
    order = np.argsort(ranked, axis=None, kind="stable")
    starts = np.searchsorted(ranked.ravel()[order], np.arange(n_words + 1))
    order = order[: starts[-1]]
    length = ranked.shape[1]
    return starts, (order // length).astype(np.int32), (order % length).astype(np.uint16)
