"""The far descriptors side by side, so that a word that comes in passes them quickly.

**The problem.** With 50 of 5000 words kept, a fifth to a third of the descriptors are far, and a
word that comes in is compared with the sketch of each (``sketch``). They are strewn over the
corpus, and a sketch is too short for a sum of products to run fast: going through them one by one
takes several times as long as it has to.

**Places.** Each segment has a run of places, in which its far descriptors sit in the order in which
they became far. Sketches are held in blocks of ``N_ACROSS`` places, directions down and descriptors
across, so that the sums of a block run beside each other in vector registers and none has to be
added up across them. Beside are the word that each descriptor has, and the score that another must
reach.

- Who becomes far gets a place when the next move begins: most moves of a search are taken back
  before. It keeps the place when it is far no more; its rank tells. So nothing is ever moved.
- When places run out or more than half are out of use, all is gathered anew.

Which place a descriptor has changes nothing but the order of the work. Memory: 48 bytes a place and
4 a descriptor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.inference._exact_kernel import FAR
from bowsaw.inference._far_kernel import N_ACROSS, challenge, note, seat, without_places
from bowsaw.inference.index import Index
from bowsaw.inference.sketch import N_DIRECTIONS, Newcomers, Sketch
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import Scratch


class Gathering:
    """Places for the far descriptors of every segment; at first they are empty.

    Parameters
    ----------
    index : Index
        Gives the segments.
    sketch : Sketch
        Of all descriptors.
    n_far : ndarray of int64, shape (n_segments,)
        Descriptors to find a place for at once.
    n_coming : ndarray of int64, shape (n_segments,)
        How many more the next move may bring at most.
    descriptors : tuple of ndarray, each of shape (n_descriptors,)
        The ranks, codes and scores, as they are at any time; ``challenge`` writes scores.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_segments + 1,)
        Where the places of segments begin.
    n_seated : ndarray of int64, shape (n_segments,)
        How many of them are taken.
    """

    def __init__(
        self,
        index: Index,
        sketch: Sketch,
        n_far: NDArray[np.int64],
        n_coming: NDArray[np.int64],
        descriptors: tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.float32]],
    ) -> None:
        n_rows = np.diff(index.rows)
        # Room for some moves.
        n_places = np.minimum(n_far + n_far // 2 + n_rows // 16 + n_coming, n_rows)
        n_blocks = -(-n_places // N_ACROSS)
        # A segment that has a place for each of its descriptors is never full.
        full = n_blocks * N_ACROSS
        self._most = np.where(full >= n_rows, np.iinfo(np.int64).max, full)
        self._first_rows = index.rows
        self._sketch = sketch
        self._rank, self._code, self._score = descriptors
        self._scratch = Scratch()
        self._place = np.full(int(index.rows[-1]), -1, dtype=np.int32)
        self.starts = np.concatenate([[0], np.cumsum(full)])
        self.n_seated = np.zeros(len(index), dtype=np.int64)
        n = int(self.starts[-1])
        self._at_row = np.zeros(n, dtype=np.int32)
        self._at_code = np.zeros(n, dtype=np.int32)
        self._at_least = np.zeros(n, dtype=np.float32)
        self._at_rest = np.zeros(n, dtype=np.float32)
        self._at_sketch = np.zeros((n // N_ACROSS, N_DIRECTIONS, N_ACROSS), dtype=np.int8)

    @property
    def n_bytes(self) -> int:
        """Memory of the places."""
        mine = (self._place, self._at_row, self._at_code, self._at_least, self._at_rest)
        return sum(array.nbytes for array in (*mine, self._at_sketch))

    def serves(self, n_far: NDArray[np.int64], n_coming: NDArray[np.int64]) -> bool:
        """Return whether so many more would find places, and few enough are out of use."""
        if (self.n_seated + n_coming > self._most).any():
            return False
        n_all = int(n_far.sum())
        return int(self.n_seated.sum()) - n_all <= n_all + N_ACROSS * len(n_far)

    def gather(self, segment: int) -> None:
        """Seat all far descriptors of a segment."""
        begin, end = self._first_rows[segment : segment + 2]
        rows = np.flatnonzero(self._rank[begin:end] == FAR) + begin
        self.seat(rows.astype(np.int32), segment)

    def seat(self, rows: NDArray[np.int32], segment: int) -> None:
        """Give places to the far among these that have none, and note their words and scores.

        They are in the order of segments, and none is before ``segment``.
        """
        seat(
            rows,
            segment,
            self._first_rows,
            self._sketch.rows,
            self._sketch.rest,
            self._rank,
            self._place,
            self.starts,
            self.n_seated,
            self._at_row,
            self._at_rest,
            self._at_sketch,
        )
        self.note(rows)

    def note(self, rows: NDArray[np.int32]) -> None:
        """Write down what words and scores the far among these have now, if they have places."""
        note(
            rows,
            self._sketch.margins,
            self._rank,
            self._code,
            self._score,
            self._place,
            self._at_code,
            self._at_least,
        )

    def challenge(
        self,
        segments: tuple[int, int],
        newcomers: Newcomers,
        search: WordSearch,
        values: NDArray[Any],
        column: NDArray[np.int32],
        moved: NDArray[np.int32],
        n_far: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Return who of these segments has no word now, and who found a better one.

        Of the latter also that word and the score of the one before; their new scores are noted.
        ``moved`` are the descriptors that the move changed before; those of them that became far
        have no word yet. The arrays are good until the thread's next call.
        """
        # Who had a place from before must not stand there with the word of that time.
        self.note(moved)
        # One more: the kernel writes first and then sees whether it counts.
        room = self._scratch.take(4, n_far + 1)
        lost, won, winners = (row.view(np.int32) for row in room[:3])
        won_from = room[3]
        n_lost = without_places(moved, self._rank, self._place, lost)
        n_lost, n_won = challenge(
            *segments,
            newcomers.positions,
            newcomers.sketched,
            newcomers.slack,
            newcomers.words,
            newcomers.half_norms,
            values,
            search.centre,
            search.exact_words,
            column,
            self._sketch.margins,
            self._rank,
            self._score,
            lost,
            won,
            winners,
            won_from,
            n_lost,
            self.starts,
            self.n_seated,
            self._at_row,
            self._at_code,
            self._at_least,
            self._at_rest,
            self._at_sketch,
        )
        return lost[:n_lost], won[:n_won], winners[:n_won], won_from[:n_won]
