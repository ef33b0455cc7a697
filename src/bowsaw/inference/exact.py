"""Hard coding, exactly: each descriptor's code is the first kept word of its ranked list.

**The problem.** Λ of the paper's Eq. 3 is the share of a pruned word's mass that each survivor
takes: P(second nearest = k | nearest = l), and for a set of pruned words P(first survivor = k |
nearest = l). The paper approximates it (Eq. 6), for lack of the integral. Once descriptors exist,
no integral is needed: a descriptor goes to the first survivor of its ranked list, and moving
descriptors one by one is exact re-coding. This departs from the paper, which never looks at
descriptors again; ``uniform`` is its way.

**The state.** Of every descriptor the ranked list of its nearest words (``nearest.ranking``), and
its rank: the place of its code in the list. Of every word the inverted index: which descriptors
list it, and where.

- A word goes: its index tells the descriptors that have it as code (those whose rank is the
  entry's), and each walks on in its list to the next kept word.
- A word comes: its index tells the descriptors that list it before their code, and it takes them.
- A move is taken back: a journal of it tells which descriptors changed, and what they had before.

A move costs the index of the words that it names and the descriptors that change hands, not the
corpus. An entry is a whole number divided by the size of the bag, and divided anew when that number
changes, so any history of moves gives the bits of a fresh start, those of ``hard_histograms``.

**Far descriptors.** With few words kept, some descriptors have none of them in their lists. They
remember their word and its score. An incoming word that they do not list is compared with it; when
their word goes, they are compared with all kept words, which are few. Comparisons are settled by
float64 distances where float32 leaves doubt, as in ``nearest.search``. For these comparisons they
sit side by side (``gathering``), from the first move after a fresh start on.

**Cost.** With N descriptors, lists of m words and T of K words kept, a word has N·m/K index entries
and N/T descriptors. Memory: 5 bytes an entry of a list (2 the list, 3 the index). Lists of 2.5 √K
words, from 64 to 176, pay: longer ones take more to build than the few far descriptors cost. They
are shorter where ``max_bytes`` asks for it.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference import _begin_kernel, _exact_kernel, _far_kernel
from bowsaw.inference.far_blocks import Gathering
from bowsaw.inference.index import Index
from bowsaw.inference.journal import Journal, Piece
from bowsaw.inference.sketch import Kept, Newcomers, Sketch
from bowsaw.inference.state import HistogramState, Past, Positions
from bowsaw.nearest.ranking import ranked_words
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import Scratch, effective_jobs, ordered_map, single_threaded_blas

LEAST_RANKED, MOST_RANKED = 64, 176
LIMIT_RANKED = 254
"""Ranks are stored in a byte, and 255 means none."""
LARGEST_BAG = 2**22
"""From here on a count could not be told from its share in float32."""
SCORES_BYTES = 2**20


class ExactState(HistogramState):
    """Hard histograms under any subset of the words, identical to re-coding.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus.
    n_ranked : int or None, default=None
        Words in a descriptor's list, 1 to 254; None for what pays and fits into
        ``max_bytes``. Changes speed and memory, never the histograms.
    max_bytes : int, default=2**30
        Memory for lists and index when ``n_ranked`` is None.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = bs.Bags(np.array([[0.1], [0.9], [1.2], [3.0]]))
    >>> state = ExactState(bs.Codebook([[0.0], [1.0], [2.5]]), bags)
    >>> state.histograms.tolist()
    [[0.25, 0.5, 0.25]]
    >>> state.without([1]).histograms.tolist()
    [[0.75, 0.25]]
    """

    is_exact = True
    _by_column = ("_table", "_touched")
    _own = ("_rank", "_word", "_score", "_tally")

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
        # Ranking refuses what float32 cannot square; the sketch trusts that it has.
        self._lists = ranked_words(bags, words, length, n_jobs=n_jobs, verbose=verbose)
        self._sketch = Sketch(self._search, self._values, n_jobs)
        self._index = Index(self._lists, bags.offsets, codebook.n_words, n_jobs)
        self._bag_of = np.repeat(np.arange(len(bags), dtype=np.int32), bags.counts)
        n = bags.n_descriptors
        self._rank = np.zeros(n, dtype=np.uint8)
        self._word = np.zeros(n, dtype=np.int32)
        self._score = np.zeros(n, dtype=np.float32)
        self._margin = self._sketch.margins
        # Of each segment how many descriptors are far, and how many are deep in their lists.
        self._tally = np.zeros((len(self._index), 2), dtype=np.int64)
        self._touched = np.zeros(len(self._table), dtype=np.uint8)
        self._rows_scratch, self._scores_scratch = Scratch(), Scratch()
        self._past_scratch = Scratch()
        self._journal: Journal | None = None
        self._gathering: Gathering | None = None
        self.reset()

    @property
    def n_ranked(self) -> int:
        """Words in a descriptor's list."""
        return int(self._lists.shape[1])

    @property
    def n_far(self) -> int:
        """Descriptors that have no kept word in their list at the moment."""
        return int(self._tally[:, 0].sum())

    @property
    def n_bytes(self) -> int:
        """Memory that the state holds in arrays."""
        gathered = 0 if self._gathering is None else self._gathering.n_bytes
        return super().n_bytes + self._sketch.n_bytes + self._index.n_bytes + gathered

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy begins with: it gathers anew, and undoes by going back."""
        return {**vars(self), "_gathering": None, "_journal": None}

    # -- from scratch ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._gathering = self._journal = None
        kept = self._kept_now()
        index, n_kept = self._index, self.n_kept

        def one(begin: int, end: int) -> None:
            for number in range(begin, end):
                rows = slice(index.rows[number], index.rows[number + 1])
                bags = slice(index.bags[number], index.bags[number + 1])
                far = np.empty(rows.stop - rows.start, dtype=np.int32)
                tally = self._tally[number]
                _begin_kernel.begin(
                    self._lists[rows],
                    self._column,
                    self._rank[rows],
                    self._word[rows],
                    far,
                    tally,
                )
                far = far[: tally[0]] + np.int32(rows.start)
                self._word[far] = self._search_far(far, kept)
                _begin_kernel.fill(
                    self._word[rows],
                    self._bag_of[rows] - np.int32(bags.start),
                    self._column,
                    self._sizes[bags],
                    self._table[:n_kept, bags],
                )

        self._each(one)

    def _each(self, work: Callable[[int, int], None], threads: bool = True) -> None:
        """Do the work on all segments, in as few pieces as keep the threads busy."""
        n_jobs = effective_jobs(self._n_jobs) if threads else 1
        n_pieces = min(len(self._index), 1 if n_jobs == 1 else 2 * n_jobs)
        limits = np.linspace(0, len(self._index), n_pieces + 1).astype(int).tolist()
        with single_threaded_blas():
            for _ in ordered_map(lambda part: work(*part), pairwise(limits), n_jobs):
                pass

    def _kept_now(self) -> Kept:
        # Not _kept: until a move is over, it still names words whose columns are to be removed.
        positions = np.flatnonzero(self._column[:-1] >= 0)
        search = self._search
        return Kept(
            positions,
            search.words[positions],
            search.half_norms[positions],
            search.exact_words[positions],
        )

    def _search_far(self, rows: NDArray[np.int32], kept: Kept) -> NDArray[np.int32]:
        """Return the nearest kept word of some descriptors, and note its score."""
        search, values = self._search, self._values
        out = np.empty(len(rows), dtype=np.int32)
        n_block = int(np.clip(SCORES_BYTES // (4 * len(kept.positions)), 16, 4096))
        for at in range(0, len(rows), n_block):
            some = rows[at : at + n_block]
            centred = self._rows_scratch.take(len(some), search.words.shape[1])
            _far_kernel.centre_rows(values, some, search.centre, centred)
            products = self._scores_scratch.take(len(kept.positions), len(some))
            np.dot(kept.words, centred.T, out=products)
            code, best = _far_kernel.best_of_rows(products, kept.half_norms, some, self._margin)
            _far_kernel.settle_doubts(
                products, kept.half_norms, some, self._margin, best, values, kept.exact, code
            )
            out[at : at + len(some)] = kept.positions[code]
            self._score[some] = best
        return out

    # -- following a move ------------------------------------------------------------------------

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        held = self._column.copy()
        held[out] = out_columns
        self._touched[:] = 0
        # An outgoing word's column is that of an incoming one, or it will be removed.
        self._touched[in_columns] = 1
        # Many descriptors and few cells: shares become counts and, in the end, shares again.
        n_moving = len(self._rank) * (len(out) + len(in_)) // self.n_kept
        often = n_moving > self.n_kept * self._n_bags // 4
        newcomers = cache(lambda: Newcomers(self._search, self._sketch, in_))
        kept = cache(self._kept_now)

        index, table = self._index, self._table[: self.n_kept]
        room = index.n_entries(out) + index.n_entries(in_)
        gathering = self._gather(out_columns)
        journal = Journal(held, often, self._tally.copy(), [])
        books: tuple[Any, ...] = (
            often,
            self._sizes,
            self._table,
            self._touched,
        )

        def one(begin: int, end: int) -> None:
            bags = slice(index.bags[begin], index.bags[end])
            if often:
                _exact_kernel.to_counts(self._sizes[bags], table[:, bags])
            taken = self._past_scratch.take(3, int(room[begin:end].sum()))
            past = (taken[0].view(np.int32), taken[1].view(np.uint8), taken[2].view(np.int32))
            far = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
            n_far, n_past = _exact_kernel.move(
                begin,
                end,
                index.rows,
                index.starts,
                index.entry_rows,
                index.entry_ranks,
                out,
                out_columns,
                in_,
                in_columns,
                self._lists,
                self._bag_of,
                self._column,
                held,
                self._rank,
                self._word,
                often,
                self._sizes,
                self._table,
                self._touched,
                self._tally,
                *past,
            )
            near = (past[0][:n_past].copy(), past[1][:n_past].copy(), past[2][:n_past].copy())
            if n_far:
                lost, won, winners, won_from = gathering.challenge(
                    (begin, end),
                    newcomers(),
                    self._search,
                    self._values,
                    self._column,
                    near[0],
                    n_far,
                )
                places = (self._bag_of, self._column, held, self._word)
                both = np.concatenate([lost, won])
                far = (both, self._word[both], np.concatenate([self._score[lost], won_from]))
                if len(lost):
                    _exact_kernel.settle(lost, self._search_far(lost, kept()), *places, *books)
                    gathering.note(lost)
                _exact_kernel.settle(won, winners, *places, *books)
            if often:
                _exact_kernel.to_shares(self._sizes[bags], table[:, bags])
            journal.pieces.append(Piece(begin, bags, *near, *far))

        # About what 100 ns a moving descriptor and 10 a far one come to; threads cost half of it.
        self._each(one, threads=100 * n_moving + 10 * self.n_far > 2_000_000)
        self._journal = journal
        return np.flatnonzero(self._touched)

    def _take_back(self, past: Past) -> None:
        journal, gathering = self._journal, self._gathering
        if journal is None or gathering is None or len(past.out) != len(past.in_):
            # Columns were moved or added: the way back is as good, and searches do not go it.
            super()._take_back(past)
            return
        table = self._table[: self.n_kept]
        books = (journal.often, self._sizes, self._table, self._touched)
        places = (self._bag_of, self._column, journal.held, self._rank, self._word)

        def one(piece: Piece) -> None:
            bags, far = piece.bags, piece.far_rows
            if journal.often:
                _exact_kernel.to_counts(self._sizes[bags], table[:, bags])
            ranks = np.full(len(far), _exact_kernel.FAR)
            _exact_kernel.take_back(far, ranks, piece.far_codes, *places, *books)
            self._score[far] = piece.far_scores
            _exact_kernel.take_back(piece.rows, piece.ranks, piece.codes, *places, *books)
            gathering.note(far)
            if journal.often:
                _exact_kernel.to_shares(self._sizes[bags], table[:, bags])

        for _ in ordered_map(one, journal.pieces, self._n_jobs):
            pass
        self._journal = None
        self._tally[:] = journal.tally
        self._name_columns(past)

    def _gather(self, out_columns: NDArray[np.int64]) -> Gathering:
        """Return the far descriptors side by side, with room for those of the outgoing words."""
        leaving = np.rint(self._table[out_columns] * self._sizes).sum(axis=0, dtype=np.int64)
        n_before = np.zeros(self._n_bags + 1, dtype=np.int64)
        np.cumsum(leaving, out=n_before[1:])
        limits = n_before[self._index.bags]
        n_coming = limits[1:] - limits[:-1]
        n_far = self._tally[:, 0]
        if self._gathering is not None and self._journal is not None and n_far.any():
            pieces, last = self._journal.pieces, self._gathering
            for _ in ordered_map(lambda p: last.seat(p.rows, p.segment), pieces, self._n_jobs):
                pass
        if self._gathering is None or not self._gathering.serves(n_far, n_coming):
            descriptors = (self._rank, self._word, self._score)
            new = Gathering(self._index, self._sketch, n_far, n_coming, descriptors)
            for _ in ordered_map(new.gather, np.flatnonzero(n_far).tolist(), self._n_jobs):
                pass
            self._gathering = new
        return self._gathering

    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        return hard_histograms(bags, words, n_jobs=self._n_jobs)


def list_length(n_descriptors: int, n_words: int, n_ranked: int | None, max_bytes: int) -> int:
    """Return how many words a list holds: as asked, or what pays and fits.

    Examples
    --------
    >>> list_length(700_000, 5000, None, 2**30), list_length(10**8, 5000, None, 2**30)
    (176, 2)
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, numbers.Real) or not max_bytes >= 0:
        raise ParameterError(f"max_bytes must be a number of bytes from 0 up; got {max_bytes!r}.")
    if n_ranked is None:
        entry = 5 if n_words < 2**16 else 7
        fits = max_bytes // (entry * max(n_descriptors, 1))
        pays = int(np.clip(2.49 * n_words**0.5, LEAST_RANKED, MOST_RANKED))
        return int(max(1, min(n_words if n_words <= LIMIT_RANKED else pays, fits)))
    whole = isinstance(n_ranked, numbers.Integral) and not isinstance(n_ranked, bool)
    if not (whole and 1 <= n_ranked <= LIMIT_RANKED):
        raise ParameterError(
            f"n_ranked must be a whole number from 1 to {LIMIT_RANKED} or None; got {n_ranked!r}."
        )
    return min(int(n_ranked), n_words)
