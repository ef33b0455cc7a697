"""Far descriptors in blocks, so that an added word is compared with them quickly.

With 50 of 5000 words kept, no kept word is in the lists of a fifth to a third of the descriptors.
An added word is compared with each of these far ones; nearly always it is not nearer.

**The bound.** With P the first ``N_DIRECTIONS`` principal directions of the words and r(x) the norm
of the rest of x, x·c ≤ Px·Pc + r(x) r(c) (Cauchy and Schwarz), as in ``nearest.search``, where the
roundings are accounted for. Px is stored in a byte per direction, in units of its largest size in
the corpus over 127: half a unit times |c| along each direction is added to the bound. On dense SIFT
with 50 of 5000 words kept, 32 directions rule out nine words of ten.

**Slots.** Each segment has a run of slots, in which its far descriptors lie in the order in which
they became far. Sketches are stored in blocks of ``N_ACROSS`` slots, directions down and
descriptors across, for sums in vector registers. A descriptor that becomes far gets a slot when the
next move begins: most moves of a search are undone before. It keeps the slot when it is no longer
far. When slots run out or more than half are out of use, all are assigned again.

**Cost.** Memory: 40 bytes per descriptor for sketches, and 48 per slot and 4 per descriptor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw._arrays import Float32, Int32, Int64
from bowsaw.inference import _far_kernel as kernel
from bowsaw.inference._exact_kernel import FAR, Descriptors, Doubt, Index
from bowsaw.inference._far_kernel import N_ACROSS, AddedWords, Changes, Corpus, Slots
from bowsaw.nearest._search_kernel import squared_norms
from bowsaw.nearest.search import SMALLEST, WordSearch
from bowsaw.parallel import Scratch, ordered_map, single_threaded_blas

N_DIRECTIONS = 32
BLOCK_ROWS = 8192


class Sketch:
    """A few bytes per descriptor, enough to rule most words out.

    ``rows`` are the descriptors along the directions, ``rest`` the norms of what is left, ``norms``
    the squared norms of the whole.
    """

    def __init__(self, search: WordSearch, values: NDArray[np.generic], n_jobs: int | None) -> None:
        self._search = search
        self._axes = search.principal(N_DIRECTIONS)
        self._spread = search.spread(N_DIRECTIONS)
        self.rows = np.zeros((len(values), N_DIRECTIONS), dtype=np.int8)
        self.rest, self.norms = (np.zeros(len(values), dtype=np.float32) for _ in range(2))

        def along(begin: int) -> tuple[Float32, Float32]:
            rows = values[begin : begin + BLOCK_ROWS].astype(np.float32)
            rows -= search.centre
            norms = np.empty(len(rows), dtype=np.float32)
            squared_norms(rows, norms)
            return rows @ self._axes, norms

        def largest(begin: int) -> Any:
            return np.abs(along(begin)[0]).max(axis=0)

        def store(begin: int) -> None:
            found, norms = along(begin)
            part = slice(begin, begin + len(found))
            left = norms * np.float32(1 + self._spread) - np.einsum("ip,ip->i", found, found)
            self.rest[part] = np.sqrt(np.maximum(left, 0))
            self.norms[part] = norms
            self.rows[part, : found.shape[1]] = np.rint(found / self._unit)

        blocks = range(0, len(values), BLOCK_ROWS)
        with single_threaded_blas():
            # Two passes over the corpus, so that only bytes are held.
            sizes = list(ordered_map(largest, blocks, n_jobs, ahead=8))
            most = np.max(sizes, axis=0, initial=0) if sizes else np.ones(self._axes.shape[1])
            # Not below the smallest normal number: there float32 is coarse, and may round to 0.
            self._unit = np.maximum(most / 127, SMALLEST).astype(np.float32)
            for _ in ordered_map(store, blocks, n_jobs, ahead=8):
                pass

    @property
    def n_bytes(self) -> int:
        """Memory of the sketches."""
        return self.rows.nbytes + self.rest.nbytes + self.norms.nbytes

    @property
    def doubt(self) -> Doubt:
        """When scores are too close for float32."""
        return Doubt(self.norms, self._search.error, self._spread)

    def added(self, positions: Int64) -> AddedWords:
        """Return words as they are compared with the sketches."""
        centred = self._search.words[positions]
        wide = centred.astype(np.float64)
        found = wide @ self._axes.astype(np.float64)
        norms = (wide**2).sum(axis=1)
        left = np.sqrt(np.maximum(norms - (found**2).sum(axis=1), 0) + self._spread * norms)
        sketched = np.zeros((len(centred), N_DIRECTIONS + 1), dtype=np.float32)
        sketched[:, : found.shape[1]] = found * self._unit
        sketched[:, N_DIRECTIONS] = left
        # Half a unit for the rounding to bytes, and a little more for that of float32.
        slack = (0.501 * (np.abs(found) * self._unit).sum(axis=1)).astype(np.float32)
        half_norms = self._search.half_norms[positions]
        return AddedWords(positions, centred, half_norms, sketched, slack)


class FarBlocks:
    """Slots for ``n_far`` descriptors per segment and ``n_coming`` of the next move."""

    def __init__(
        self, index: Index, sketch: Sketch, n_far: Int64, n_coming: Int64, descriptors: Descriptors
    ) -> None:
        n_rows = np.diff(index.rows)
        # Space for several moves.
        n_slots = np.minimum(n_far + n_far // 2 + n_rows // 16 + n_coming, n_rows)
        full = -(-n_slots // N_ACROSS) * N_ACROSS
        # A segment that has a slot for each of its descriptors is never full.
        self._most = np.where(full >= n_rows, np.iinfo(np.int64).max, full)
        self._first_rows, self._sketch, self._descriptors = index.rows, sketch, descriptors
        self._scratch = Scratch()
        starts = np.concatenate([[0], np.cumsum(full)])
        n = int(starts[-1])
        self.slots = Slots(
            starts,
            np.zeros(len(n_rows), dtype=np.int64),
            np.full(int(index.rows[-1]), -1, dtype=np.int32),
            np.zeros(n, dtype=np.int32),
            np.zeros(n, dtype=np.int32),
            np.zeros(n, dtype=np.float32),
            np.zeros(n, dtype=np.float32),
            np.zeros((n // N_ACROSS, N_DIRECTIONS, N_ACROSS), dtype=np.int8),
        )

    @property
    def n_bytes(self) -> int:
        """Memory of the slots."""
        return sum(array.nbytes for array in self.slots)

    def fits(self, n_far: Int64, n_coming: Int64) -> bool:
        """Return whether so many more would find slots, and few enough are out of use."""
        n_assigned = self.slots.n_assigned
        if (n_assigned + n_coming > self._most).any():
            return False
        n_all = int(n_far.sum())
        return int(n_assigned.sum()) - n_all <= n_all + N_ACROSS * len(n_far)

    def gather(self, segment: int) -> None:
        """Assign slots to all far descriptors of a segment."""
        begin, end = self._first_rows[segment : segment + 2]
        rows = np.flatnonzero(self._descriptors.rank[begin:end] == FAR) + begin
        self.assign(rows.astype(np.int32), segment)

    def assign(self, rows: Int32, segment: int) -> None:
        """Assign slots as the kernel does, and write their words and scores."""
        sketch, rank = self._sketch, self._descriptors.rank
        kernel.assign_slots(
            rows, segment, self._first_rows, sketch.rows, sketch.rest, rank, self.slots
        )
        self.write(rows)

    def write(self, rows: Int32) -> None:
        """Write the present words and scores of the far ones of these that have slots."""
        kernel.write_slots(rows, self._descriptors, self.slots)

    def compare(
        self,
        segments: tuple[int, int],
        added: AddedWords,
        corpus: Corpus,
        column: Int32,
        moved: Int32,
        n_far: int,
    ) -> Changes:
        """Return the far descriptors of these segments that lost their word or found a better one.

        ``moved`` are those that the move changed before. Valid until the thread's next call.
        """
        # A slot from before must not show the word of that time.
        self.write(moved)
        # One entry more: the kernel writes first and then decides whether it counts.
        space = self._scratch.take(4, n_far + 1)
        lost, won, winners = (row.view(np.int32) for row in space[:3])
        changes = Changes(lost, won, winners, space[3])
        n_lost = kernel.without_slots(moved, self._descriptors.rank, self.slots, lost)
        n_lost, n_won = kernel.compare_added_words(
            *segments, added, corpus, column, self._descriptors, self.slots, changes, n_lost
        )
        return Changes(lost[:n_lost], won[:n_won], winners[:n_won], space[3][:n_won])
