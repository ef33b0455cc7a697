"""Soft coding under any set of words: renormalise what is kept (paper, claim 2).

**The problem.** The soft code of a descriptor x with the kept words T is, by Eq. 2,
h_k(x) = w_k / Σ_{j∈T} w_j with w_k = exp(−sharpness · (‖x − c_k‖² − min_j ‖x − c_j‖²)), the minimum
over all words. The weights w do not depend on T. So a state holds the weights of every word and
each descriptor's *total* over the kept words; the histogram of a bag is the mean of w_k / total
over its descriptors, which is re-coding exactly and not an approximation.

**A move** adds the weights of the words that come to the totals, subtracts those that go, and pools
the kept words anew, since every total changes. It costs n_descriptors · (n_kept + words moved)
multiplications, against n_dims times as many and an exponential each for re-coding. Weights lie
words down, descriptors across: pruned words are never read, and a kept one is read in long runs.

**Storage.**

- ``float64``, for small data: differences and exponentials in float64, histograms in float64.
- ``uint16``: 2 bytes an entry, 6 bits of octave and 10 of mantissa, rounded to nearest. The
  logarithm of a weight is off by at most 2⁻¹¹, up or down by chance, so that errors cancel in a
  bag's mean. Weights below 2⁻⁶³ count as that. Products in float32 as in soft coding.
- ``disk``: the same in a memory-mapped file, which is removed with the last state that uses it.

**Totals do not drift.** Each is kept as an unevaluated sum of two float64 (``add_columns``). In 16
bits a weight is a multiple of 2⁻⁷³ not above 1, so up to 65 536 words this arithmetic is exact:
after any moves a total is the very one that ``reset`` would compute. In float64 each addition errs
by at most 2⁻¹⁰⁵ · n_words²; after ``REFRESH`` additions totals are computed from scratch.

**Where totals fade.** If every word near a descriptor is pruned, its total is no longer much larger
than what was cut off or rounded. Below n_kept · 2⁻⁵⁰ in 16 bits (what was cut off could then be
2⁻¹³ of it), or 2⁴⁴ times the error of the sum in float64, the descriptor is coded anew with the
kept words, relative to the nearest of them: never 0/0, and at worst about the cost of re-coding. On
dense SIFT with 1000 words that is at most one descriptor in 400 with 20 words kept at sharpness 40,
but one in six with 100 kept at sharpness 160.

**The bound** of a bag is the mean over its descriptors of what ``rounding`` proves for distances,
storage and cut weights, and of the sums: γ(min(rows, 1024) + 5), and γ(n_kept + 5) for the share
that is coded anew.

Departure from the paper: weights are kept relative to the nearest word, not as normalised codes,
which underflow to 0/0 when all near words go.
"""

from __future__ import annotations

import numbers
import os
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding._pooling_kernel import weigh
from bowsaw.coding.soft import WordScores, check_sharpness, score_factor, soft_histograms
from bowsaw.errors import ParameterError
from bowsaw.inference import rounding
from bowsaw.inference._soft_kernel import (
    N_OCTAVES,
    SEGMENT,
    add_columns,
    exact_weights,
    invert,
    pack,
    pool_columns,
)
from bowsaw.inference.recode_rows import add_rows, weights_in_float32, weights_in_float64
from bowsaw.inference.state import HistogramState, Positions
from bowsaw.inference.weights_file import room_on_disk
from bowsaw.nearest.search import check_size
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.progress import Progress

Storage = Literal["auto", "float64", "uint16", "disk"]

SMALL_BYTES = 64 * 2**20
"""Up to here ``storage="auto"`` takes float64."""
REFRESH = 2**14
TILE_ROWS = 2**14
BUILD_ROWS = 2048
_STORAGES = ("auto", "float64", "uint16", "disk")
_CUT = 2.0**-13
_DRIFT = 2.0**-44


class SoftState(HistogramState):
    """Soft histograms under any words, exact up to a stated rounding.

    Parameters
    ----------
    codebook : Codebook
        The full codebook.
    bags : Bags
        The corpus; read again for descriptors whose near words are all pruned.
    sharpness : float, default=40.0
        In units of unit-norm descriptors, above 0.
    storage : {"auto", "float64", "uint16", "disk"}, default="auto"
        How weights are kept: 8 bytes an entry with rounding near 1e-13, or 2 bytes in memory or on
        disk with an L1 error near 2e-5 a bag and a bound near 2e-3. ``"auto"`` takes float64 up to
        64 MiB, then uint16 up to ``max_bytes``, then the disk.
    max_bytes : int, default=2 GiB
        The most that ``"auto"`` takes of the memory.
    folder : path-like, optional
        Where the file on disk lies; the system's temporary folder by default.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    verbose : bool, default=False
        Show progress on a terminal.

    Attributes
    ----------
    sharpness : float
        As given.
    storage : str
        How weights are kept: "float64", "uint16" or "disk".

    Examples
    --------
    >>> import numpy as np
    >>> from bowsaw import Bags, Codebook
    >>> book = Codebook([[0.0], [1.0], [3.0]])
    >>> state = SoftState(book, Bags(np.array([[0.5], [2.0]])), sharpness=1.0)
    >>> state.histograms.round(3)
    array([[0.262, 0.494, 0.245]])
    >>> state.swap(remove=[1]).histograms.round(3), state.kept
    (array([[0.522, 0.478]]), array([0, 2]))
    """

    is_exact: ClassVar[bool] = True
    leaves_traces: ClassVar[bool] = True
    _own = ("_high", "_low", "_n_anew", "_n_added")

    def __init__(
        self,
        codebook: Codebook,
        bags: Bags,
        *,
        sharpness: float = 40.0,
        storage: Storage = "auto",
        max_bytes: int = 2 * 2**30,
        folder: str | os.PathLike[str] | None = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.sharpness = check_sharpness(sharpness)
        n_entries = codebook.n_words * bags.n_descriptors
        self.storage = _choose(storage, n_entries, max_bytes)
        wide = self.storage == "float64"
        self._number: Any = np.float64 if wide else np.float32
        self._words = codebook.words_for(bags)
        super().__init__(codebook, len(bags), bags=bags, dtype=self._number)
        self._n_jobs = n_jobs
        self._offsets = bags.offsets
        self._arrays = list(bags)
        self._factor = score_factor(self.sharpness, bags.scale)
        shape = (codebook.n_words, bags.n_descriptors)
        self._codes: NDArray[Any]
        if self.storage == "disk":
            self._codes = room_on_disk(shape, np.uint16, folder)
        else:
            self._codes = np.empty(shape, dtype=np.float64 if wide else np.uint16)
        self._centre, self._code_error = self._weigh(bags, verbose)
        self._high = np.zeros(bags.n_descriptors)
        self._low = np.zeros(bags.n_descriptors)
        self._n_anew = np.zeros(len(bags), dtype=np.int64)
        # Words added since totals were last summed afresh.
        self._n_added = np.zeros(1, dtype=np.int64)
        self._begin()

    # -- building --------------------------------------------------------------------------------

    def _weigh(self, bags: Bags, verbose: bool) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Fill in the weights; return what words are centred on and each bag's error of codes."""
        scores = WordScores(self._words)
        errors = np.empty(bags.n_descriptors)
        codes = np.asarray(self._codes)
        wide_words = self._words.astype(np.float64)

        def in_float64(start: int, rows: NDArray[np.float32]) -> NDArray[np.float64]:
            norms = np.linalg.norm(rows.astype(np.float64) - scores.centre, axis=1)
            check_size("descriptors", float(norms.max(initial=0)))
            exact_weights(
                rows.T.astype(np.float64, order="C"), wide_words, self._factor / 2, start, codes
            )
            log_error = rounding.direct_log_error(norms, scores.largest, bags.n_dims, self._factor)
            return rounding.code_error(log_error)

        def in_16_bits(start: int, rows: NDArray[np.float32]) -> NDArray[np.float64]:
            norms = np.empty(len(rows))
            done = 0
            for block, products in scores.blocks(rows):
                norms[done : done + len(block)] = np.sqrt(np.einsum("nd,nd->n", block, block))
                weigh(products, scores.half_norms, self._factor, np.empty(len(block), np.float32))
                pack(products, start + done, codes)
                done += len(block)
            log_error = rounding.score_log_error(
                norms, scores.largest, bags.n_dims, self._factor, N_OCTAVES
            )
            return rounding.code_error(log_error - np.log1p(-(2.0**-11)), _CUT)

        fill = in_float64 if self.storage == "float64" else in_16_bits

        def one(limits: tuple[int, int]) -> int:
            errors[limits[0] : limits[1]] = fill(limits[0], bags.read(*limits))
            return limits[1] - limits[0]

        with (
            single_threaded_blas(),
            Progress("weighing", bags.n_descriptors, show=verbose) as bar,
        ):
            for n_done in ordered_map(one, bags.blocks(BUILD_ROWS), self._n_jobs, ahead=4):
                bar.step(n_done)
        return scores.centre, rounding.bag_means(errors, self._offsets)

    # -- moves -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._high[:] = 0
        self._low[:] = 0
        self._n_added[:] = 0
        self._move(self._kept, self._kept[:0])

    def _follow(
        self,
        out: Positions,
        out_columns: NDArray[np.int64],
        in_: Positions,
        in_columns: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        self._n_added += len(out) + len(in_)
        if self.storage == "float64" and self._n_added[0] > REFRESH:
            self._high[:] = 0
            self._low[:] = 0
            self._n_added[:] = 0
            in_, out = self._kept[self._column[self._kept] >= 0], out[:0]
        self._move(in_, out)
        return np.arange(self.n_kept)

    def _move(self, come: Positions, gone: Positions) -> None:
        """Update the totals by the words that come and go, then pool the kept words."""
        # A column that is about to be removed still names its word, which has no column any more.
        columns = np.flatnonzero(self._column[self._kept] >= 0)
        words = self._kept[columns]
        least = self._least(len(words))
        codes, offsets, table = np.asarray(self._codes), self._offsets, self._table

        def one(bags: tuple[int, int]) -> NDArray[np.int64]:
            start, stop = int(offsets[bags[0]]), int(offsets[bags[1]])
            high, low = self._high[start:stop], self._low[start:stop]
            add_columns(codes, come, 1.0, start, high, low)
            add_columns(codes, gone, -1.0, start, high, low)
            inverse = np.empty(stop - start, dtype=self._number)
            n_faded = invert(high, low, least, inverse)
            pool_columns(codes, words, columns, offsets, *bags, inverse, table)
            return start + np.flatnonzero(inverse == 0) if n_faded else np.empty(0, dtype=np.int64)

        faded = list(ordered_map(one, self._tiles(), self._n_jobs, ahead=8))
        rows = np.concatenate([np.empty(0, dtype=np.int64), *faded])
        self._n_anew[:] = self._code_anew(rows, words, columns) if len(rows) else 0

    def _least(self, n_kept: int) -> float:
        """Return the total below which a descriptor is coded anew."""
        n_words = self._book.n_words
        if self.storage == "float64":
            return (REFRESH + 2 * n_words) * n_words**2 * 2.0**-105 / _DRIFT
        return n_kept * 2.0**-N_OCTAVES / _CUT

    def _code_anew(
        self, rows: NDArray[np.int64], words: Positions, columns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        some = self._words[words]
        weights = (
            weights_in_float64(some, self._factor / 2)
            if self.storage == "float64"
            else weights_in_float32(some, self._centre, self._factor)
        )
        return add_rows(
            self._arrays, self._offsets, rows, weights, columns, self._table, self._n_jobs
        )

    def _tiles(self) -> list[tuple[int, int]]:
        """Return runs of whole bags with about ``TILE_ROWS`` descriptors."""
        tile = self._offsets[:-1] // TILE_ROWS
        first = np.flatnonzero(np.diff(tile, prepend=-1))
        return list(pairwise([*first.tolist(), self.n_bags]))

    # -- how far to trust it ---------------------------------------------------------------------

    def bound(self) -> NDArray[np.float64]:
        """Return a proven bound of each bag's L1 error against exact re-coding, ``(n_bags,)``."""
        wide = self.storage == "float64"
        unit = rounding.UNIT64 if wide else rounding.UNIT
        counts = np.diff(self._offsets)
        anew = self._n_anew / np.maximum(counts, 1)
        sums = rounding.sum_error(np.minimum(counts, SEGMENT) + 5, unit) + wide * _DRIFT
        again = anew * rounding.sum_error(self.n_kept + 5, unit)
        out: NDArray[np.float64] = np.minimum(self._code_error + sums + again, 2.0) * (counts > 0)
        return out

    def recoding_error(self, chosen: Bags) -> NDArray[np.float64]:
        """Return a bound of what rounding does to ``recode`` itself, ``(n_bags,)``."""
        words = self._book.words_for(chosen)[np.sort(self._kept)]
        return rounding.recoding_error(chosen, words, self.sharpness)

    def _code(self, bags: Bags, words: NDArray[np.float32]) -> NDArray[np.float32]:
        return soft_histograms(bags, words, self.sharpness, n_jobs=self._n_jobs)


def _choose(storage: str, n_entries: int, max_bytes: object) -> str:
    if storage not in _STORAGES:
        raise ParameterError(f"storage must be one of {list(_STORAGES)}; got {storage!r}.")
    most = float(max_bytes) if isinstance(max_bytes, numbers.Real) else np.nan
    if isinstance(max_bytes, bool) or not most >= 0:
        raise ParameterError(f"max_bytes must be a number of bytes from 0 up; got {max_bytes!r}.")
    if storage != "auto":
        return storage
    if 8 * n_entries <= min(SMALL_BYTES, most):
        return "float64"
    return "uint16" if 2 * n_entries <= most else "disk"
