"""Hard coding, exactly: each descriptor's code is the first kept word of its ranked list.

The paper approximates which survivors take over a pruned word's mass (Eq. 6), without looking at
descriptors again. This departs from it: the first survivor of a list is exact re-encoding.

**The state.** Per descriptor the ranked list of its nearest words (``nearest.ranking``), and its
rank: the place of its code in the list. Per word the inverted index: which descriptors list it, and
where. The index of a removed word gives the descriptors that have it as code, and each moves on to
the next kept word of its list. That of an added word gives the descriptors that list it before
their code, which it takes. ``undo`` reads from a journal what they had before.

A move costs the index of the moved words and the descriptors that change words, not the corpus. An
entry is an integer divided by the size of the bag, and divided again when that integer changes, so
any sequence of moves gives the bits of a fresh start, those of ``hard_histograms``.

**Far descriptors.** With few words kept, some descriptors have none of them in their lists. They
store their word and its score. An added word that they do not list is compared with it
(``far_blocks``); when their word is removed, they are compared with all kept words, which are few.
Comparisons are settled by float64 distances where float32 leaves doubt, as in ``nearest.search``.

**Cost.** With N descriptors, lists of m words and T of K words kept, a word has N·m/K index entries
and N/T descriptors. Memory: 5 bytes per entry of a list. Lists of 2.5 √K words, 64 to 176, pay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bowsaw._arrays import AnyArray, Float32, Int32, Int64
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError
from bowsaw.inference import _exact_kernel as kernel
from bowsaw.inference import _far_kernel
from bowsaw.inference._exact_kernel import FAR, Counts, Descriptors, Index, Journal, Move
from bowsaw.inference.far_blocks import FarBlocks, Sketch
from bowsaw.inference.state import HistogramState, Positions, Swap
from bowsaw.nearest.ranking import ranked_words
from bowsaw.nearest.search import WordSearch, read_only
from bowsaw.parallel import Scratch, effective_jobs, ordered_map, single_threaded_blas

SEGMENT_ROWS = 2**16
LEAST_RANKED, MOST_RANKED, LIMIT_RANKED = 64, 176, 254
"""Ranks are stored in a byte, and 255 means none."""
LARGEST_BAG = 2**22
"""From here on float32 shares of counts are ambiguous."""
SCORES_BYTES = 2**20
_NO_FAR = Journal(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int32))
_NO_SCORES = np.empty(0, np.float32)


class _Piece(NamedTuple):
    """What a move changed in some segments: by lists, and afterwards of far descriptors."""

    segment: int
    bags: slice
    near: Journal
    far: Journal
    far_scores: Float32


class ExactState(HistogramState):
    """Hard histograms under any subset of the words, identical to re-encoding.

    Parameters
    ----------
    codebook, bags, n_jobs, verbose
        As in :func:`bowsaw.whatif`.
    n_ranked : int or None, default=None
        Words in a descriptor's list, 1 to 254; None for what pays and fits into
        ``max_bytes``. Changes speed and memory, never the histograms.
    max_bytes : int, default=2**30
        Memory for lists and index when ``n_ranked`` is None.

    Examples
    --------
    >>> state = ExactState(Codebook([[0.0], [1.0], [2.5]]), Bags([[0.1], [0.9], [1.2], [3.0]]))
    >>> state.histograms.tolist()
    [[0.25, 0.5, 0.25]]
    >>> state.without([1]).histograms.tolist()
    [[0.75, 0.25]]
    """

    is_exact = True
    _own = ("_rank", "_word", "_score", "_tally", "_touched")

    def __init__(
        self,
        codebook: Codebook,
        bags: Bags,
        *,
        n_ranked: int | None = None,
        max_bytes: int = 2**30,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        words = codebook.words_for(bags)
        if len(bags) and int(bags.counts.max()) >= LARGEST_BAG:
            raise DataError(
                f"a bag may have at most {LARGEST_BAG - 1} descriptors here; got "
                f"{int(bags.counts.max())}. Divide it into several bags."
            )
        length = list_length(bags.n_descriptors, codebook.n_words, n_ranked, max_bytes)
        super().__init__(codebook, len(bags), bags=bags)
        self._n_jobs = n_jobs
        self._search = WordSearch(words, skip=False)
        self._values = bags.values
        self._sizes = np.maximum(bags.counts, 1).astype(np.float32)
        # Ranking refuses what float32 cannot square; the sketch relies on that.
        self._lists = ranked_words(bags, words, length, n_jobs=n_jobs, verbose=verbose)
        self._sketch = Sketch(self._search, self._values, n_jobs)
        self._index = inverted(self._lists, bags.offsets, codebook.n_words, n_jobs)
        self._bag_of = np.repeat(np.arange(len(bags), dtype=np.int32), bags.counts)
        n = bags.n_descriptors
        self._rank = np.zeros(n, dtype=np.uint8)
        self._word = np.zeros(n, dtype=np.int32)
        self._score = np.zeros(n, dtype=np.float32)
        # Per segment the number of far descriptors, and of those deep in their lists.
        self._tally = np.zeros((len(self._index.starts), 2), dtype=np.int64)
        self._touched = np.zeros(len(self._table), dtype=np.uint8)
        self._rows_scratch, self._scores_scratch = Scratch(), Scratch()
        self._past_scratch = Scratch()
        self._far_blocks: FarBlocks | None = None
        # Pieces of the last move whose far descriptors may still need slots.
        self._recent: list[_Piece] = []
        self.reset()

    @property
    def n_ranked(self) -> int:
        """Words in a descriptor's list."""
        return int(self._lists.shape[1])

    @property
    def n_far(self) -> int:
        """Descriptors that have no kept word in their list at the moment."""
        return int(self._tally[:, 0].sum())

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy begins with: it assigns slots again."""
        return {**super().__getstate__(), "_far_blocks": None, "_recent": []}

    @property
    def _descriptors(self) -> Descriptors:
        doubt = self._sketch.doubt
        return Descriptors(self._lists, self._bag_of, self._rank, self._word, self._score, doubt)

    @property
    def _corpus(self) -> _far_kernel.Corpus:
        return _far_kernel.Corpus(self._values, self._search.centre, self._search.exact_words)

    def _begin(self) -> None:
        self._far_blocks, self._recent = None, []
        kept = self._kept_words()
        index, n_kept = self._index, self.n_kept

        def one(begin: int, end: int) -> None:
            for number in range(begin, end):
                rows = slice(index.rows[number], index.rows[number + 1])
                bags = slice(index.bags[number], index.bags[number + 1])
                far = np.empty(rows.stop - rows.start, dtype=np.int32)
                tally, code = self._tally[number], self._word[rows]
                kernel.first_kept(
                    self._lists[rows], self._column, self._rank[rows], code, far, tally
                )
                far = far[: tally[0]] + np.int32(rows.start)
                self._word[far] = self._search_far(far, kept)
                bag_of = self._bag_of[rows] - np.int32(bags.start)
                table = self._table[:n_kept, bags]
                kernel.fill(code, bag_of, self._column, self._sizes[bags], table)

        self._each(one)

    def _each(self, work: Callable[[int, int], None], threads: bool = True) -> None:
        """Do the work on all segments, in as few pieces as keep the threads busy."""
        n_segments = len(self._tally)
        n_jobs = effective_jobs(self._n_jobs) if threads else 1
        n_pieces = min(n_segments, 1 if n_jobs == 1 else 2 * n_jobs)
        limits = [k * n_segments // n_pieces for k in range(n_pieces + 1)]
        with single_threaded_blas():
            for _ in ordered_map(lambda part: work(*part), pairwise(limits), n_jobs):
                pass

    def _kept_words(self) -> _far_kernel.KeptWords:
        # Not _kept: until a move is over, it still names words whose columns are to be dropped.
        positions = np.flatnonzero(self._column[:-1] >= 0)
        search = self._search
        return _far_kernel.KeptWords(
            positions,
            search.words[positions],
            search.half_norms[positions],
            read_only(search.exact_words[positions]),
        )

    def _search_far(self, rows: Int32, kept: _far_kernel.KeptWords) -> Int32:
        """Return the nearest kept word of some descriptors, and store its score."""
        doubt, values, n_kept = self._sketch.doubt, self._values, len(kept.positions)
        out = np.empty(len(rows), dtype=np.int32)
        n_block = int(np.clip(SCORES_BYTES // (4 * n_kept), 16, 4096))
        for at in range(0, len(rows), n_block):
            some = rows[at : at + n_block]
            centred = self._rows_scratch.take(len(some), kept.words.shape[1])
            _far_kernel.centre_rows(self._corpus, some, centred)
            products = self._scores_scratch.take(n_kept, len(some))
            np.dot(kept.words, centred.T, out=products)
            code, best = _far_kernel.best_of_rows(products, kept.half_norms, some, doubt)
            _far_kernel.settle_doubts(products, kept, some, doubt, best, values, code)
            out[at : at + len(some)] = kept.positions[code]
            self._score[some] = best
        return out

    def _follow(self, swap: Swap) -> Int64:
        removed, removed_columns, added, added_columns = swap
        held = self._column.copy()
        held[removed] = removed_columns
        self._touched[:] = 0
        # A removed word's column goes to an added word, or it is dropped.
        self._touched[added_columns] = 1
        # Many descriptors and few cells: shares become counts and, in the end, shares again.
        n_moving = len(self._rank) * (len(removed) + len(added)) // self.n_kept
        as_counts = n_moving > self.n_kept * self._n_bags // 4
        added_words = cache(lambda: self._sketch.added(added))
        kept_words = cache(self._kept_words)

        index, table, corpus = self._index, self._table[: self.n_kept], self._corpus
        space = _n_entries(index, removed) + _n_entries(index, added)
        far_blocks = self._gather(removed_columns)
        descriptors = self._descriptors
        counts = Counts(as_counts, self._sizes, self._table, self._touched)
        move = Move(*swap, self._column.copy(), held)
        tally = self._tally.copy()
        pieces: list[_Piece] = []

        def one(begin: int, end: int) -> None:
            bags = slice(index.bags[begin], index.bags[end])
            if as_counts:
                kernel.to_counts(self._sizes[bags], table[:, bags])
            taken = self._past_scratch.take(3, int(space[begin:end].sum()))
            past = Journal(
                taken[0].view(np.int32), taken[1].view(np.uint8), taken[2].view(np.int32)
            )
            n_far, n_past = kernel.follow_lists(
                begin, end, index, move, descriptors, counts, self._tally, past
            )
            near = Journal._make(array[:n_past].copy() for array in past)
            far, scores = _NO_FAR, _NO_SCORES
            if n_far:
                changes = far_blocks.compare(
                    (begin, end), added_words(), corpus, move.column, near.rows, n_far
                )
                lost, won = changes.lost, changes.won
                rows = np.concatenate([lost, won])
                far = Journal(rows, np.full(len(rows), FAR), self._word[rows])
                scores = np.concatenate([self._score[lost], changes.won_from])
                if len(lost):
                    found = self._search_far(lost, kept_words())
                    kernel.assign_words(lost, found, move, descriptors, counts)
                    far_blocks.write(lost)
                kernel.assign_words(won, changes.winners, move, descriptors, counts)
            if as_counts:
                kernel.to_shares(self._sizes[bags], table[:, bags])
            pieces.append(_Piece(begin, bags, near, far, scores))

        # About 100 ns per moving descriptor and 10 per far one; threads cost half a millisecond.
        self._each(one, threads=100 * n_moving + 10 * self.n_far > 2_000_000)
        self._recent = pieces
        self._on_undo(partial(self._restore, pieces, move, counts, table, far_blocks, tally))
        return np.flatnonzero(self._touched)

    def _restore(
        self,
        pieces: list[_Piece],
        move: Move,
        counts: Counts,
        table: Float32,
        far_blocks: FarBlocks,
        tally: Int64,
    ) -> None:
        descriptors = self._descriptors

        def one(piece: _Piece) -> None:
            bags = piece.bags
            if counts.as_counts:
                kernel.to_counts(self._sizes[bags], table[:, bags])
            kernel.restore(piece.far, move, descriptors, counts)
            self._score[piece.far.rows] = piece.far_scores
            kernel.restore(piece.near, move, descriptors, counts)
            far_blocks.write(piece.far.rows)
            if counts.as_counts:
                kernel.to_shares(self._sizes[bags], table[:, bags])

        for _ in ordered_map(one, pieces, self._n_jobs):
            pass
        self._recent = []
        self._tally[:] = tally

    def _gather(self, removed_columns: Int64) -> FarBlocks:
        """Return the far descriptors in slots, with space for those of the removed words."""
        leaving = np.rint(self._table[removed_columns] * self._sizes).sum(axis=0, dtype=np.int64)
        n_before = np.concatenate([[0], np.cumsum(leaving)])
        n_coming = np.diff(n_before[self._index.bags])
        n_far = self._tally[:, 0]
        blocks = self._far_blocks
        if blocks is not None and n_far.any():
            assign = blocks.assign
            for _ in ordered_map(
                lambda piece: assign(piece.near.rows, piece.segment), self._recent, self._n_jobs
            ):
                pass
        if blocks is None or not blocks.fits(n_far, n_coming):
            blocks = FarBlocks(self._index, self._sketch, n_far, n_coming, self._descriptors)
            for _ in ordered_map(blocks.gather, np.flatnonzero(n_far).tolist(), self._n_jobs):
                pass
            self._far_blocks = blocks
        return blocks

    def _code(self, bags: Bags, words: Float32) -> Float32:
        return hard_histograms(bags, words, n_jobs=self._n_jobs)


def _n_entries(index: Index, words: Positions) -> Int64:
    """Return the number of entries of these words in each segment, ``(n_segments,)``."""
    return np.asarray((index.starts[:, 2 * words + 2] - index.starts[:, 2 * words]).sum(axis=1))


def inverted(lists: AnyArray, offsets: Int64, n_words: int, n_jobs: int | None) -> Index:
    """Return the inverted index of ranked lists, padded with n_words, segment by segment."""
    bags = np.array(cut(offsets), dtype=np.int64)
    rows = offsets[bags]
    n_segments, length = len(bags) - 1, lists.shape[1]
    starts = np.zeros((n_segments, 2 * n_words + 3), dtype=np.int64)
    small = int(np.diff(rows).max(initial=0)) <= 2**16
    entry_rows: AnyArray = np.empty(lists.size, dtype=np.uint16 if small else np.int32)
    entry_ranks = np.empty(lists.size, dtype=np.uint8)

    def one(number: int) -> None:
        part = slice(rows[number], rows[number + 1])
        space = slice(part.start * length, part.stop * length)
        kernel.invert(lists[part], starts[number], entry_rows[space], entry_ranks[space])
        starts[number] += space.start

    for _ in ordered_map(one, range(n_segments), n_jobs):
        pass
    return Index(bags, rows, starts, entry_rows, entry_ranks)


def cut(offsets: Int64) -> list[int]:
    """Return where segments begin and end: whole bags, at most ``SEGMENT_ROWS`` descriptors."""
    cuts = [0]
    for bag in range(1, len(offsets)):
        if offsets[bag] - offsets[cuts[-1]] > SEGMENT_ROWS and bag - 1 > cuts[-1]:
            cuts.append(bag - 1)
    return [*cuts, len(offsets) - 1] if len(offsets) > 1 else [0, 0]


def list_length(n_descriptors: int, n_words: int, n_ranked: int | None, max_bytes: float) -> int:
    """Return how many words a list holds: as given, or what pays and fits."""
    if n_ranked is not None:
        return min(n_ranked, n_words)
    entry = 5 if n_words < 2**16 else 7
    fits = max_bytes // (entry * max(n_descriptors, 1))
    pays = int(np.clip(2.49 * n_words**0.5, LEAST_RANKED, MOST_RANKED))
    return int(max(1, min(n_words if n_words <= LIMIT_RANKED else pays, fits)))
