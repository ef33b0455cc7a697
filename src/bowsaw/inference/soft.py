"""Soft coding under any set of words: renormalise what is kept (paper, Claim 2).

**The problem.** The soft code of a descriptor x with the kept words T is, by Eq. 2,
h_k(x) = w_k / Σ_{j∈T} w_j with w_k = exp(−sharpness · (‖x − c_k‖² − min_j ‖x − c_j‖²)), the minimum
over all words. The weights w do not depend on T. So a state holds the weights of every word and
each descriptor's *total* over the kept words; the histogram of a bag is the mean of w_k / total
over its descriptors, which is re-encoding exactly and not an approximation.

**A move** adds the weights of added words to the totals, subtracts those of removed words, and
pools the kept words again, since every total changes. It costs n_descriptors · (n_kept + words
moved) multiplications, against n_dims times as many and an exponential each for re-encoding.

**Storage.** ``uint16``: 6 bits of octave and 10 of mantissa, rounded to nearest. The logarithm of a
weight is off by at most 2⁻¹¹, up or down at random, so that errors cancel in a bag's mean. Weights
below 2⁻⁶³ count as that. ``float64``: differences, exponentials and histograms in float64. Weights
of more than ``max_bytes`` lie in a memory-mapped file without a name, with the same numbers.

**Totals do not drift.** Each is an unevaluated sum of two float64 (``add_columns``). In 16 bits a
weight is a multiple of 2⁻⁷³ not above 1, so up to 65 536 words this arithmetic is exact. In float64
an addition errs by at most 2⁻¹⁰⁵ · n_words²; totals are computed again after ``REFRESH`` of them.

**Where totals fade.** If every word near a descriptor is pruned, its total is not much larger than
what was cut off or rounded. Below n_kept · 2⁻⁵⁰ in 16 bits, or 2⁴⁴ times the error of the sum in
float64, the descriptor is encoded again with the kept words, relative to the nearest of them.

**Departure**: weights are kept relative to the nearest word, not as the paper's normalised codes,
which underflow to 0/0 when all near words are pruned.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from bowsaw._arrays import AnyArray, Float32, Float64, Int64
from bowsaw.bags import Bags
from bowsaw.checkpoint import translate_write_errors
from bowsaw.codebook import Codebook
from bowsaw.coding._pooling_kernel import weigh
from bowsaw.coding.soft import WordScores, score_factor, soft_histograms
from bowsaw.errors import ParameterError, SpaceError
from bowsaw.inference import _soft_kernel as kernel
from bowsaw.inference import rounding
from bowsaw.inference.state import HistogramState, Positions, Swap
from bowsaw.nearest.search import check_size
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.progress import Progress

STORAGES = ("uint16", "float64")
REFRESH = 2**14
TILE_ROWS, BUILD_ROWS, RECODE_ROWS = 2**14, 2048, 512
_CUT, _DRIFT = 2.0**-13, 2.0**-44


class SoftState(HistogramState):
    """Soft histograms under any words, exact up to a stated rounding.

    Parameters
    ----------
    codebook, bags, n_jobs, verbose
        As in :func:`bowsaw.whatif`; descriptors whose near words are all pruned are read again.
    sharpness : float, default=40.0
        In units of unit-norm descriptors, above 0.
    storage : {"uint16", "float64"}, default="uint16"
        How weights are stored: 2 bytes per entry with an L1 error near 2e-5 per bag and a bound
        near 2e-3, or 8 bytes with rounding near 1e-13.
    max_bytes : int, default=2 GiB
        The most memory for weights; larger ones lie in a file.
    folder : path-like, optional
        Where that file lies; by default the folder that ``TMPDIR`` names, or ``/var/tmp``, because
        ``/tmp`` is memory on many systems. The file has no name: it goes with the process, however
        that ends.

    Attributes
    ----------
    sharpness, storage : float, str
        As given.
    on_disk : bool
        Whether the weights lie in a file.

    Examples
    --------
    >>> book, bags = Codebook([[0.0], [1.0], [3.0]]), Bags([[0.5], [2.0]])
    >>> state = SoftState(book, bags, sharpness=1.0, storage="float64")
    >>> state.histograms.round(3)
    array([[0.262, 0.494, 0.245]])
    >>> state.swap(remove=[1]).histograms.round(3), state.kept
    (array([[0.522, 0.478]]), array([0, 2]))
    """

    is_exact: ClassVar[bool] = True
    history_dependent: ClassVar[bool] = True
    _own = ("_high", "_low", "_n_recoded", "_n_added")

    def __init__(
        self,
        codebook: Codebook,
        bags: Bags,
        *,
        sharpness: float = 40.0,
        storage: Literal["uint16", "float64"] = "uint16",
        max_bytes: int = 2 * 2**30,
        folder: str | os.PathLike[str] | None = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        self.sharpness, self.storage, self._n_jobs = sharpness, storage, n_jobs
        self._wide = storage == "float64"
        self._number: Any = np.float64 if self._wide else np.float32
        self._words = codebook.words_for(bags)
        super().__init__(codebook, len(bags), bags=bags, dtype=self._number)
        self._offsets, self._arrays = bags.offsets, list(bags)
        self._factor = score_factor(self.sharpness, bags.scale)
        shape, dtype = (codebook.n_words, bags.n_descriptors), np.dtype(storage)
        self.on_disk = shape[0] * shape[1] * dtype.itemsize > max_bytes
        self._codes = _mapped(shape, dtype, folder) if self.on_disk else np.empty(shape, dtype)
        self._scores = WordScores(self._words)
        self._code_error = self._weigh(bags, verbose)
        self._high, self._low = np.zeros(bags.n_descriptors), np.zeros(bags.n_descriptors)
        self._n_recoded = np.zeros(len(bags), dtype=np.int64)
        # Words added since totals were last summed from scratch.
        self._n_added = np.zeros(1, dtype=np.int64)
        self._begin()

    def _weigh(self, bags: Bags, verbose: bool) -> Float64:
        """Fill in the weights; return each bag's error of codes."""
        scores, n_dims = self._scores, bags.n_dims
        errors = np.empty(bags.n_descriptors)
        codes = np.asarray(self._codes)
        wide_words = self._words.astype(np.float64)

        def in_float64(start: int, rows: Float32) -> Float64:
            norms = np.linalg.norm(rows.astype(np.float64) - scores.centre, axis=1)
            check_size("descriptors", float(norms.max(initial=0)))
            columns = rows.T.astype(np.float64, order="C")
            kernel.exact_weights(columns, wide_words, self._factor / 2, start, codes)
            log_error = rounding.direct_log_error(norms, scores.largest, n_dims, self._factor)
            return rounding.code_error(log_error)

        def in_16_bits(start: int, rows: Float32) -> Float64:
            norms = np.empty(len(rows))
            done = 0
            for block, products in scores.blocks(rows):
                norms[done : done + len(block)] = np.sqrt(np.einsum("nd,nd->n", block, block))
                weigh(products, scores.half_norms, self._factor, np.empty(len(block), np.float32))
                kernel.pack(products, start + done, codes)
                done += len(block)
            log_error = rounding.score_log_error(
                norms, scores.largest, n_dims, self._factor, kernel.N_OCTAVES
            )
            return rounding.code_error(log_error - np.log1p(-(2.0**-11)), _CUT)

        fill = in_float64 if self._wide else in_16_bits

        def one(limits: tuple[int, int]) -> int:
            errors[limits[0] : limits[1]] = fill(limits[0], bags.read(*limits))
            return limits[1] - limits[0]

        with single_threaded_blas(), Progress("weighing", bags.n_descriptors, show=verbose) as bar:
            for n_done in ordered_map(one, bags.blocks(BUILD_ROWS), self._n_jobs, ahead=4):
                bar.step(n_done)
        return rounding.bag_means(errors, self._offsets)

    def _begin(self) -> None:
        self._clear_totals()
        self._move(self._kept, self._kept[:0])

    def _clear_totals(self) -> None:
        for totals in (self._high, self._low, self._n_added):
            totals[:] = 0

    def _follow(self, swap: Swap) -> Int64:
        removed, added = swap.removed, swap.added
        self._save(self._table, slice(self.n_kept))
        for name in self._own:
            self._save(getattr(self, name))
        self._n_added += len(removed) + len(added)
        if self._wide and self._n_added[0] > REFRESH:
            self._clear_totals()
            added, removed = self._kept[self._column[self._kept] >= 0], removed[:0]
        self._move(added, removed)
        return np.arange(self.n_kept)

    def _move(self, added: Positions, removed: Positions) -> None:
        """Update the totals by the moved words, then pool the kept words."""
        # A column that is to be dropped still names its word, which has no column any more.
        columns = np.flatnonzero(self._column[self._kept] >= 0)
        words = self._kept[columns]
        least = self._least(len(words))
        codes, offsets, table = np.asarray(self._codes), self._offsets, self._table

        def one(bags: tuple[int, int]) -> Int64:
            start, stop = int(offsets[bags[0]]), int(offsets[bags[1]])
            high, low = self._high[start:stop], self._low[start:stop]
            kernel.add_columns(codes, added, 1.0, start, high, low)
            kernel.add_columns(codes, removed, -1.0, start, high, low)
            inverse = np.empty(stop - start, dtype=self._number)
            n_faded = kernel.invert(high, low, least, inverse)
            kernel.pool_columns(codes, words, columns, offsets, *bags, inverse, table)
            return start + np.flatnonzero(inverse == 0) if n_faded else np.empty(0, dtype=np.int64)

        faded = list(ordered_map(one, self._tiles(), self._n_jobs, ahead=8))
        rows = np.concatenate([np.empty(0, dtype=np.int64), *faded])
        self._n_recoded[:] = self._recode_rows(rows, words, columns) if len(rows) else 0

    def _least(self, n_kept: int) -> float:
        """Return the total below which a descriptor is encoded again."""
        n_words = self._book.n_words
        if self._wide:
            return (REFRESH + 2 * n_words) * n_words**2 * 2.0**-105 / _DRIFT
        return n_kept * 2.0**-kernel.N_OCTAVES / _CUT

    def _tiles(self) -> list[tuple[int, int]]:
        """Return runs of whole bags with about ``TILE_ROWS`` descriptors."""
        tile = self._offsets[:-1] // TILE_ROWS
        first = np.flatnonzero(np.diff(tile, prepend=-1))
        return list(pairwise([*first.tolist(), self.n_bags]))

    def _recode_rows(self, rows: Int64, words: Positions, columns: Int64) -> Int64:
        """Add the mean codes of some descriptors (ascending); return their number per bag."""
        offsets, bags = self._offsets, self._arrays
        counts = np.diff(offsets)
        limits = np.searchsorted(rows, offsets)
        n_rows: Int64 = np.diff(limits)
        filled = np.flatnonzero(n_rows)
        # A task is some whole bags, so that no two threads add to the same entries.
        begins = np.flatnonzero(np.diff(limits[filled] // RECODE_ROWS, prepend=-1))
        scores = WordScores(self._words[words], self._scores.centre)

        def one(some: Int64) -> None:
            found = [bags[i][rows[limits[i] : limits[i + 1]] - offsets[i]] for i in some.tolist()]
            ends = np.concatenate(([0], np.cumsum(n_rows[some])))
            sums = np.zeros((len(columns), len(some)))
            done = 0
            for block, total in self._weights(np.concatenate(found), words, scores):
                first = int(np.searchsorted(ends, done, side="right")) - 1
                last = int(np.searchsorted(ends, done + len(total)))
                runs = np.maximum(ends[first:last] - done, 0)
                sums[:, first:last] += np.add.reduceat(block / total, runs, axis=1)
                done += len(total)
            self._table[np.ix_(columns, some)] += sums / counts[some]

        with single_threaded_blas():
            for _ in ordered_map(one, np.split(filled, begins[1:]), self._n_jobs, ahead=8):
                pass
        return n_rows

    def _weights(
        self, rows: AnyArray, words: Positions, scores: WordScores
    ) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield, for blocks of rows, the weights ``(n_words, n_rows)`` and their totals."""
        if not self._wide:
            for block, products in scores.blocks(rows):
                total = np.empty(len(block), dtype=np.float32)
                weigh(products, scores.half_norms, self._factor, total)
                yield products, total.astype(np.float64)
            return
        wide = self._words[words].astype(np.float64)
        for start in range(0, len(rows), RECODE_ROWS):
            columns = rows[start : start + RECODE_ROWS].T.astype(np.float64, order="C")
            out = np.empty((len(wide), columns.shape[1]))
            kernel.exact_weights(columns, wide, self._factor / 2, 0, out)
            yield out, out.sum(axis=0)

    def bound(self) -> Float64:
        """Return a proven bound of each bag's L1 error against exact re-encoding, ``(n_bags,)``."""
        unit = rounding.UNIT64 if self._wide else rounding.UNIT
        counts = np.diff(self._offsets)
        recoded = self._n_recoded / np.maximum(counts, 1)
        sums = rounding.sum_error(np.minimum(counts, kernel.SEGMENT) + 5, unit)
        again = recoded * rounding.sum_error(self.n_kept + 5, unit)
        total = self._code_error + sums + self._wide * _DRIFT + again
        return np.asarray(np.minimum(total, 2.0) * (counts > 0))

    def recoding_error(self, chosen: Bags) -> Float64:
        """Return a bound of the rounding error of ``recode`` itself, ``(n_bags,)``."""
        words = self._book.words_for(chosen)[np.sort(self._kept)]
        return rounding.recoding_error(chosen, words, self.sharpness)

    def _code(self, bags: Bags, words: Float32) -> Float32:
        return soft_histograms(bags, words, self.sharpness, n_jobs=self._n_jobs)


def _disk_folder() -> str:
    """Return the folder of large temporary files: the user's choice, or one that is on disk."""
    is_chosen = any(map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    on_disk = os.name == "posix" and os.access("/var/tmp", os.W_OK | os.X_OK)
    return tempfile.gettempdir() if is_chosen or not on_disk else "/var/tmp"


def _mapped(
    shape: tuple[int, int], dtype: np.dtype[Any], folder: str | os.PathLike[str] | None
) -> AnyArray:
    """Return a new memory-mapped array; its file has no name and goes with its last user."""
    parent = Path(_disk_folder() if folder is None else folder)
    if not parent.is_dir():
        raise ParameterError(f"folder must be an existing folder; got {str(parent)!r}.")
    n_bytes = shape[0] * shape[1] * dtype.itemsize
    free = shutil.disk_usage(parent).free
    if n_bytes > free:
        raise SpaceError(
            f"the soft state needs {n_bytes} bytes on disk, and {parent} has {free} free. Give "
            "another folder=, or use fewer words or bags."
        )
    with translate_write_errors(parent), tempfile.TemporaryFile(dir=parent) as file:
        # Reserved now: a page that cannot be written later would kill the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)
