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

A move costs the index of the words that it names and the descriptors that change hands, not the
corpus. Counts are whole numbers and an entry is divided anew when its count changes, so any history
of moves gives the bits of a fresh start, which are those of ``hard_histograms``.

**Far descriptors.** With few words kept, some descriptors have none of them in their lists. They
remember their word and its score. An incoming word that they do not list is compared with it; when
their word goes, they are compared with all kept words, which are few. Comparisons are settled by
float64 distances where float32 leaves doubt, as in ``nearest.search``.

**Cost.** With N descriptors, lists of m words and T of K words kept, a word has N·m/K index entries
and N/T descriptors. Memory: 7 bytes an entry of a list (2 the list, 5 the index), so the lists are
as long as ``max_bytes`` allows, 128 at most: beyond that building takes longer than the few far
descriptors cost.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import ParameterError
from bowsaw.inference import _exact_kernel as kernel
from bowsaw.inference.state import HistogramState, Positions
from bowsaw.nearest.ranking import ranked_words
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import ordered_map, single_threaded_blas

MOST_RANKED = 128
LIMIT_RANKED = 254
"""Ranks are stored in a byte, and 255 means none."""
INDEX_PARTS = 8
BLOCK_ROWS = 8192


class ExactState(HistogramState):
    """Hard histograms under any subset of the words, identical to re-coding.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus.
    n_ranked : int or None, default=None
        Words in a descriptor's list, 1 to 254; None for 128 or what ``max_bytes`` allows. Changes
        speed and memory, never the histograms.
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
    _by_column = ("_table", "_counts", "_touched")
    _own = ("_rank", "_far", "_far_word", "_far_score", "_far_error")

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
        length = list_length(bags.n_descriptors, codebook.n_words, n_ranked, max_bytes)
        super().__init__(codebook, len(bags), bags=bags)
        self._n_jobs = n_jobs
        self._search = WordSearch(words, skip=False)
        self._values = bags.values
        self._sizes = np.maximum(bags.counts, 1).astype(np.float32)
        self._bag_of = np.repeat(np.arange(len(bags), dtype=np.int32), bags.counts)
        self._lists = ranked_words(bags, words, length, n_jobs=n_jobs, verbose=verbose)
        self._index()
        n = bags.n_descriptors
        self._rank = np.zeros(n, dtype=np.uint8)
        self._far = np.empty(0, dtype=np.int32)
        self._far_word = np.full(n, -1, dtype=np.int32)
        self._far_score = np.zeros(n, dtype=np.float32)
        self._far_error = np.zeros(n, dtype=np.float32)
        self._counts = np.zeros(self._table.shape, dtype=np.int32)
        self._touched = np.zeros(len(self._table), dtype=np.uint8)
        self.reset()

    @property
    def n_ranked(self) -> int:
        """Words in a descriptor's list."""
        return int(self._lists.shape[1])

    @property
    def n_far(self) -> int:
        """Descriptors that have no kept word in their list at the moment."""
        return len(self._far)

    def _index(self) -> None:
        """Invert the lists: the (descriptor, rank) entries of each word, by descriptor."""
        n_words = self._book.n_words
        limits = np.linspace(0, len(self._lists), INDEX_PARTS + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(limits)]

        def count(part: slice) -> NDArray[np.int64]:
            n = np.zeros(n_words + 1, dtype=np.int64)
            kernel.count_entries(self._lists[part], n)
            return n

        counts = np.array(list(ordered_map(count, parts, self._n_jobs)))
        totals = counts[:, :n_words].sum(axis=0)
        self._starts = np.concatenate([[0], np.cumsum(totals)])
        self._entry_rows = np.empty(int(self._starts[-1]), dtype=np.int32)
        self._entry_ranks = np.empty(int(self._starts[-1]), dtype=np.uint8)
        places = self._starts + np.concatenate(
            [np.zeros((1, n_words + 1), dtype=np.int64), np.cumsum(counts, axis=0)[:-1]]
        )

        def place(number: int) -> None:
            part = parts[number]
            kernel.place_entries(
                self._lists[part], part.start, places[number], self._entry_rows, self._entry_ranks
            )

        for _ in ordered_map(place, range(INDEX_PARTS), self._n_jobs):
            pass

    # -- from scratch ----------------------------------------------------------------------------

    def _begin(self) -> None:
        blocks = [
            (a, min(a + BLOCK_ROWS, len(self._rank))) for a in range(0, len(self._rank), BLOCK_ROWS)
        ]

        def one(limits: tuple[int, int]) -> None:
            part = slice(*limits)
            kernel.walk_all(self._lists[part], self._column, self._rank[part])

        for _ in ordered_map(one, blocks, self._n_jobs, ahead=8):
            pass
        self._far_word[:] = -1
        self._list_far()
        self._far_word[self._far] = self._search_far(self._far)
        counts = self._counts[: self.n_kept]
        counts[:] = 0
        kernel.fill_counts(
            self._lists, self._bag_of, self._column, self._rank, self._far_word, counts
        )
        kernel.divide(counts, self._sizes, self._table[: self.n_kept])

    def _list_far(self) -> None:
        rows = np.empty(len(self._rank) + 1, dtype=np.int32)
        self._far = rows[: kernel.far_rows(self._rank, rows)].copy()

    def _search_far(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the nearest kept word of each of these descriptors; note its score and error."""
        if not len(rows):
            return np.empty(0, dtype=np.int32)
        # Not _kept: until a move is over, it still names words whose columns are to be removed.
        kept = np.flatnonzero(self._column[:-1] >= 0)
        search = WordSearch(self._search.exact_words[kept], skip=False)
        out = np.empty(len(rows), dtype=np.int32)

        def one(begin: int) -> None:
            some = rows[begin : begin + search.block_rows]
            values = self._values[some].astype(np.float32)
            codes = kept[search.find(values).code].astype(np.int32)
            out[begin : begin + len(some)] = codes
            centred, error = self._search.centre_rows(values)
            scores = np.empty(len(some), dtype=np.float32)
            kernel.score_rows(centred, codes, self._search.words, self._search.half_norms, scores)
            self._far_score[some] = scores
            self._far_error[some] = error

        with single_threaded_blas():
            for _ in ordered_map(
                one, range(0, len(rows), search.block_rows), self._n_jobs, ahead=8
            ):
                pass
        return out

    # -- following a move ------------------------------------------------------------------------

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        touched = self._touched
        touched[:] = 0
        touched[out_columns] = 1
        books = (self._sizes, self._counts, self._table, touched)
        n_lost = self._release(out, out_columns)
        n_far_lost = 0
        if len(self._far) and len(out):
            was = np.full(self._book.n_words, -1, dtype=np.int32)
            was[out] = out_columns
            sizes, counts, table, _ = books
            n_far_lost = kernel.release_far(
                self._far,
                self._column,
                was,
                self._bag_of,
                sizes,
                self._far_word,
                counts,
                table,
                touched,
            )
        n_back = kernel.claim(
            in_,
            in_columns,
            self._starts,
            self._entry_rows,
            self._entry_ranks,
            self._lists,
            self._bag_of,
            self._column,
            self._sizes,
            self._rank,
            self._far_word,
            self._counts,
            self._table,
            touched,
        )
        if n_lost or n_back:
            self._list_far()
        if len(self._far):
            self._settle_far(in_, n_lost + n_far_lost > 0)
        return np.flatnonzero(touched)

    def _release(self, out: Positions, out_columns: NDArray[np.int64]) -> int:
        most = int((self._starts[out + 1] - self._starts[out]).sum())
        rows = np.empty(most, dtype=np.int32)
        n_of = np.zeros(len(out), dtype=np.int64)
        n = kernel.owned(
            out, self._starts, self._entry_rows, self._entry_ranks, self._rank, rows, n_of
        )
        rows = rows[:n]
        found = np.empty(n, dtype=np.uint8)

        def one(begin: int) -> None:
            part = slice(begin, begin + BLOCK_ROWS)
            kernel.walk(self._lists, rows[part], self._column, self._rank, found[part])

        for _ in ordered_map(one, range(0, n, BLOCK_ROWS), self._n_jobs, ahead=8):
            pass
        return int(
            kernel.release(
                rows,
                n_of,
                out_columns,
                found,
                self._lists,
                self._bag_of,
                self._column,
                self._sizes,
                self._rank,
                self._far_word,
                self._counts,
                self._table,
                self._touched,
            )
        )

    def _settle_far(self, in_: Positions, some_lost: bool) -> None:
        """Compare far descriptors with the incoming words, or all kept ones where theirs went."""
        winner = np.empty(len(self._far), dtype=np.int32)

        def one(begin: int) -> None:
            part = slice(begin, begin + BLOCK_ROWS)
            kernel.challenge(
                self._far[part],
                in_,
                self._values,
                self._search.centre,
                self._search.words,
                self._search.half_norms,
                self._search.exact_words,
                self._far_word,
                self._far_score,
                self._far_error,
                winner[part],
            )

        for _ in ordered_map(one, range(0, len(self._far), BLOCK_ROWS), self._n_jobs, ahead=8):
            pass
        if some_lost:
            lost = winner < 0
            winner[lost] = self._search_far(self._far[lost])
        kernel.settle_far(
            self._far,
            winner,
            self._bag_of,
            self._column,
            self._sizes,
            self._far_word,
            self._counts,
            self._table,
            self._touched,
        )

    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        return hard_histograms(bags, words, n_jobs=self._n_jobs)


def list_length(n_descriptors: int, n_words: int, n_ranked: int | None, max_bytes: int) -> int:
    """Return how many words a list holds: as asked, or what pays and fits.

    Examples
    --------
    >>> list_length(700_000, 5000, None, 2**30), list_length(10**8, 5000, None, 2**30)
    (128, 1)
    """
    if n_ranked is None:
        entry = 7 if n_words < 2**16 else 9
        fits = max_bytes // (entry * max(n_descriptors, 1))
        most = LIMIT_RANKED if n_words <= LIMIT_RANKED else MOST_RANKED
        return int(max(1, min(n_words, most, fits)))
    if not 1 <= n_ranked <= LIMIT_RANKED:
        raise ParameterError(f"n_ranked must be between 1 and {LIMIT_RANKED}; got {n_ranked!r}.")
    return min(int(n_ranked), n_words)
