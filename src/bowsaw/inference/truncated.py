"""Soft coding cut to each descriptor's nearest words, with a certificate (paper, Eq. 2).

**The problem.** The weights of every word take 2 bytes · n_descriptors · n_words. Where codes are
sharp, nearly all of a code lies on a few words, so a list of the ``n_ranked`` nearest words of each
descriptor is enough, whatever is pruned, as long as enough of them are kept.

**The error, exactly.** Let Z be the kept words' weight inside the list and t that outside it. The
cut code gives w/Z instead of w/(Z + t) inside, and 0 instead of t/(Z + t) in all outside: an L1
error of 2t/(Z + t).

**The certificate.** A word outside the list is no nearer than the last one in it, so it weighs at
most as much, and t ≤ (kept words outside) · (last listed weight): a bound for every descriptor.
Those above ``tolerance`` are coded anew with the kept words, at each move, and so have no such
error at all; the bound of a bag is the mean over its descriptors, plus rounding. Lists that end
early (``nearest.ranking``) end with the last word that is certain, and the same holds. Rounding
does not spoil it: if listed weights are off by factors within e^±h, those outside are within e^±h
of numbers that the rounded last weight bounds, so the code moves by what ``rounding`` proves for h,
and 2t/(Z + t) holds for the rounded weights.

**Where the bound says nothing.** In flat codes the words outside outweigh those inside. If more
than half of the descriptors would have to be coded anew, the move is refused: truncation is then no
shortcut. On dense SIFT with 1000 words that is so at the default sharpness of 40.

**A move** touches the totals of the descriptors that list the moved words, looks at every
descriptor's certificate, and pools the postings of the kept words: 8 bytes and one multiplication
for each pair of a descriptor and a kept word in its list. Totals are unevaluated sums of two
float64, as in ``soft``; below 2⁻⁴⁰ of the nearest word's weight a descriptor is coded anew. With 64
words listed, the others drift by less than 2⁻⁴⁵ of themselves a move, and ``reset`` starts afresh.

Departure from the paper: the paper keeps whole codes.
"""

from __future__ import annotations

import numbers
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.soft import WordScores, check_sharpness, score_factor, soft_histograms
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference import _postings_kernel as kernel
from bowsaw.inference import rounding
from bowsaw.inference.recode_rows import add_rows, weights_in_float32
from bowsaw.inference.state import HistogramState, Positions
from bowsaw.nearest.ranking import ranked_words
from bowsaw.parallel import ordered_map
from bowsaw.progress import Progress

BUILD_ROWS = 8192
TASK_WORDS = 16
_LEAST = 2.0**-40
_MOST_ANEW = 0.5


class TruncatedSoftState(HistogramState):
    """Soft histograms from each descriptor's nearest words alone, with a proven bound.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus; read again for descriptors whose bound is above ``tolerance``.
    sharpness : float, default=40.0
        In units of unit-norm descriptors, above 0.
    n_ranked : int, default=64
        Nearest words kept of each descriptor, 8 bytes each; at most n_words are.
    tolerance : float, default=1e-3
        The largest L1 error (0 to 2) that truncation may cause in a descriptor's code.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    sharpness, tolerance : float
        As given.
    n_ranked : int
        Words listed of each descriptor.

    Raises
    ------
    DataError
        Where more than half of the descriptors are above ``tolerance``: on making the state, and
        on any move, which leaves the state as it was.

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw import Bags, Codebook
    >>> book = Codebook(np.arange(5.0)[:, None])
    >>> state = TruncatedSoftState(book, Bags([[0.9], [3.2]]), sharpness=10.0, n_ranked=3)
    >>> state.swap(remove=[1]).histograms.round(3)
    array([[0.491, 0.001, 0.009, 0.499]], dtype=float32)
    >>> bool(state.bound()[0] < 1e-3)
    True
    """

    is_exact: ClassVar[bool] = True
    leaves_traces: ClassVar[bool] = True
    _own = ("_high", "_low", "_n_listed", "_cut_off", "_n_anew")

    def __init__(
        self,
        codebook: Codebook,
        bags: Bags,
        *,
        sharpness: float = 40.0,
        n_ranked: int = 64,
        tolerance: float = 1e-3,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.sharpness = check_sharpness(sharpness)
        self.n_ranked = min(_check_ranked(n_ranked), codebook.n_words)
        self.tolerance = _check_tolerance(tolerance)
        self._words = codebook.words_for(bags)
        super().__init__(codebook, len(bags), bags=bags)
        self._n_jobs = n_jobs
        self._offsets = bags.offsets
        self._arrays = list(bags)
        self._factor = score_factor(self.sharpness, bags.scale)
        self._centre, self._code_error = self._rounding(bags)
        self._list(bags, verbose)
        self._high = np.zeros(bags.n_descriptors)
        self._low = np.zeros(bags.n_descriptors)
        self._n_listed = np.zeros(bags.n_descriptors, dtype=np.int32)
        self._cut_off = np.zeros(len(bags))
        self._n_anew = np.zeros(len(bags), dtype=np.int64)
        self._begin()

    # -- building --------------------------------------------------------------------------------

    def _rounding(self, bags: Bags) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return what words are centred on, and each bag's error of codes from rounding alone.

        Listed weights come from distances in float64, as does their order, and are stored in
        float32; those coded anew come from scores. The sum of all errors covers either.
        """
        scores, n_dims = WordScores(self._words), bags.n_dims
        errors = np.empty(bags.n_descriptors)
        cut = len(self._words) * 2.0**-85
        for start, stop in bags.blocks(BUILD_ROWS):
            norms = np.linalg.norm(bags.read(start, stop, np.float64) - scores.centre, axis=1)
            log_error = rounding.score_log_error(
                norms, scores.largest, n_dims, self._factor, rounding.CODING_OCTAVES
            )
            log_error += 2 * rounding.direct_log_error(norms, scores.largest, n_dims, self._factor)
            errors[start:stop] = rounding.code_error(log_error + 2 * rounding.UNIT, cut)
        return scores.centre, rounding.bag_means(errors, self._offsets)

    def _list(self, bags: Bags, verbose: bool) -> None:
        """Rank the words of each descriptor, then turn the lists into postings."""
        n_words, words = len(self._words), self._words
        ranked = ranked_words(bags, words, self.n_ranked, n_jobs=self._n_jobs, verbose=verbose)
        blocks = list(bags.blocks(BUILD_ROWS))
        counts = np.zeros((len(blocks) + 1, n_words), dtype=np.int64)
        for i, (start, stop) in enumerate(blocks):
            kernel.count_listed(ranked[start:stop], counts[i + 1])
        self._starts = np.concatenate(([0], np.cumsum(counts.sum(axis=0))))
        # Where each block's postings of each word begin: blocks are filled in any order.
        places = self._starts[:-1] + np.cumsum(counts[:-1], axis=0)
        number = np.int32 if bags.n_descriptors < 2**31 else np.int64
        self._posting_rows = np.empty(self._starts[-1], dtype=number)
        self._posting_weights = np.empty(self._starts[-1], dtype=np.float32)
        self._last = np.empty(bags.n_descriptors, dtype=np.float32)

        def one(i: int) -> int:
            start, stop = blocks[i]
            kernel.fill_postings(
                ranked[start:stop],
                bags.read(start, stop),
                words,
                self._factor / 2,
                start,
                places[i],
                self._posting_rows,
                self._posting_weights,
                self._last[start:stop],
            )
            return stop - start

        with Progress("weighing", bags.n_descriptors, show=verbose) as bar:
            for n_done in ordered_map(one, range(len(blocks)), self._n_jobs):
                bar.step(n_done)

    # -- moves -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._high[:] = 0
        self._low[:] = 0
        self._n_listed[:] = 0
        self._move(self._kept, self._kept[:0])

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        self._move(in_, out)
        return np.arange(self.n_kept)

    def _move(self, come: Positions, gone: Positions) -> None:
        """Update totals, certify every descriptor, pool the kept words' postings."""
        # A column that is about to be removed still names its word, which has no column any more.
        columns = np.flatnonzero(self._column[self._kept] >= 0)
        words = self._kept[columns]
        postings = (self._starts, self._posting_rows, self._posting_weights)
        totals = (self._high, self._low, self._n_listed)
        kernel.add_postings(come, 1, *postings, *totals)
        kernel.add_postings(gone, -1, *postings, *totals)
        inverse = np.empty(len(self._last), dtype=np.float32)
        errors = np.empty(len(self._last))
        n_above = kernel.certify(
            *totals, self._last, len(words), self.tolerance, _LEAST, inverse, errors
        )
        self._refuse_flat(n_above, len(words))
        self._cut_off[:] = rounding.bag_means(errors, self._offsets)

        def one(first: int) -> None:
            some = slice(first, first + TASK_WORDS)
            kernel.pool_postings(
                words[some], columns[some], *postings, inverse, self._offsets, self._table
            )

        for _ in ordered_map(one, range(0, len(words), TASK_WORDS), self._n_jobs, ahead=8):
            pass
        self._n_anew[:] = 0
        if n_above:
            rows = np.flatnonzero(inverse == 0)
            weights = weights_in_float32(self._words[words], self._centre, self._factor)
            self._n_anew[:] = add_rows(
                self._arrays, self._offsets, rows, weights, columns, self._table, self._n_jobs
            )

    def _refuse_flat(self, n_above: int, n_kept: int) -> None:
        n_rows = len(self._last)
        if n_above > _MOST_ANEW * n_rows:
            raise DataError(
                f"the n_ranked = {self.n_ranked} nearest words say too little of the codes at "
                f"sharpness {self.sharpness:g} with {n_kept} words kept: {n_above} of {n_rows} "
                f"descriptors may err by more than tolerance = {self.tolerance:g}, and at most "
                "half may. Raise n_ranked, sharpness or the number of words kept, or use "
                "SoftState, which keeps every weight."
            )

    # -- how far to trust it ---------------------------------------------------------------------

    def bound(self) -> NDArray[np.float64]:
        """Return a proven bound of each bag's L1 error against exact re-coding, ``(n_bags,)``."""
        counts = np.diff(self._offsets)
        anew = self._n_anew / np.maximum(counts, 1)
        sums = rounding.sum_error(6) + anew * rounding.sum_error(self.n_kept + 5)
        total = self._cut_off + self._code_error + sums
        out: NDArray[np.float64] = np.minimum(total, 2.0) * (counts > 0)
        return out

    def recoding_error(self, chosen: Bags) -> NDArray[np.float64]:
        """Return a bound of what rounding does to ``recode`` itself, ``(n_bags,)``."""
        words = self._book.words_for(chosen)[np.sort(self._kept)]
        return rounding.recoding_error(chosen, words, self.sharpness)

    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        return soft_histograms(bags, words, self.sharpness, n_jobs=self._n_jobs)


def _check_ranked(n_ranked: object) -> int:
    if isinstance(n_ranked, bool) or not isinstance(n_ranked, numbers.Integral) or n_ranked < 1:
        raise ParameterError(f"n_ranked must be a whole number above 0; got {n_ranked!r}.")
    return int(n_ranked)


def _check_tolerance(tolerance: object) -> float:
    value = float(tolerance) if isinstance(tolerance, numbers.Real) else np.nan
    if not 0 <= value < 2:
        raise ParameterError(
            f"tolerance must be an L1 distance from 0 to below 2; got {tolerance!r}."
        )
    return value
