"""The nearest word of each descriptor, exactly and quickly.

**The problem.** Hard coding and k-means need, for every descriptor x, the word c that minimises
‖x − c‖². With both centred on the mean word, it is the word with the largest score x·c − ‖c‖²/2.

Blocks of descriptors are multiplied with tiles of words by BLAS in float32, one thread per block,
and each tile is scanned while it is still in the cache.

**Skipping.** Most words can be ruled out without their full score. Let P be the first p principal
directions of the words and r(x) the norm of what P leaves of x. By Cauchy and Schwarz
x·c ≤ Px·Pc + r(x) r(c), a product of p + 1 dimensions instead of n_dims. Only words whose bound
reaches the best score so far are scored in full: on dense SIFT with 5000 words and 48 dimensions,
one in a thousand. Where words have no such directions, or are few, all scores are computed.

**Invariants.** The answer is the arg-min of Σ_d (x_d − c_d)² summed in float64 in the order of the
dimensions, the lowest index where sums are equal: the same for any BLAS, block size and number of
threads. Float32 only rules out words, by worst-case bounds. With u = 2⁻²⁴ and
γ(n) = n·u / (1 − 2·n·u), which covers n roundings in any order of summation and the roundings of
the bound itself:

- a score errs by at most γ(n_dims + 6) · (‖x‖ ‖c‖ + ‖c‖²): n_dims of the product, 2 of centring x
  and c (relative to x and c themselves, wherever the origin is), 1 of the subtraction, 2 of ‖c‖²/2.
  To this come a constant for products too small for float32, and 2⁻⁵² (n_dims + 6) ‖x‖² for the
  float64 sums, which matters only for descriptors very far from all words;
- rows along p directions err by at most t·‖x‖ with t = √p γ(n_dims + 8), directions being rounded
  to float32 as well. So squared remainders are taken too large by s = 2t + t² + 2γ(n_dims + 8)
  times the squared norm, which keeps them upper bounds, and bounds are widened by s ‖x‖ ‖c‖.

Where the two best scores of a descriptor differ by less than twice the error, every word that could
still win is compared in float64.

**Integers.** Where the processor multiplies bytes faster, uint8 descriptors are searched as in
``integer``; the answer is the same.

**Far words.** A word with ‖c‖ > ‖x‖ + d is farther from x than d. So errors are not those of the
longest word but of one of length (1 + 8 √γ) (‖x‖ + d), with d² = ‖x‖² − 2 · the best score so far:
no longer word, rounding included, comes within twice the error of the best. Words ``FAR`` times as
far from the mean as the median count neither for the mean nor for the directions: one such word
would make all norms large, and errors with them.

**Cost.** 2 · n_dims · n_words operations per descriptor without skipping, about half the time with
it. Memory: one block of scores per thread, at most 1 MiB (2 MiB for few words).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bowsaw._arrays import AnyArray, Bools, Float32, Float64, Int32, UInt8, UInt16
from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.nearest._integer_kernel import IntegerWords, find_again, find_nearest
from bowsaw.nearest._search_kernel import (
    LOWEST,
    Rows,
    ScoreError,
    Words,
    scan_best_two,
    scan_bounds,
    score_guess,
    settle,
    squared_norms,
    write_errors,
)
from bowsaw.nearest.integer import Groups, integer_words, uses_integers
from bowsaw.parallel import Scratch, ordered_map, single_threaded_blas
from bowsaw.progress import Progress

T = TypeVar("T", bound=np.generic)

TILE_WORDS = 512
BLOCK_ROWS = 512
# With few words Python's overhead per block matters; larger blocks cost no memory.
FEW_WORDS = 256
FEW_WORDS_BLOCK_ROWS = 2048

BOUND_ENERGY = 0.94
FAR = 8.0

UNIT = 2.0**-24
SMALLEST = 2.0**-126
LARGEST = 2.0**62
"""Norms up to this have squares and products within float32."""


class Bounds(NamedTuple):
    """Directions, ``(n_dims, n)``, and the words along them with what is left over."""

    directions: Float32
    words: Float32
    error: float


class WordSearch:
    """Search for the nearest of some words; shared by threads."""

    def __init__(
        self, words: Float32, groups: Groups | None = None, *, skip: bool | None = None
    ) -> None:
        self.exact_words = read_only(np.ascontiguousarray(words, dtype=np.float32))
        n_words, n_dims = self.exact_words.shape
        self.centre = centre_of(self.exact_words)
        with np.errstate(over="ignore"):
            self.words = self.exact_words - self.centre
        norms = np.einsum("kd,kd->k", self.words, self.words, dtype=np.float64)
        self.largest = float(np.sqrt(norms.max()))
        check_size("words", self.largest)
        self.half_norms = (norms / 2).astype(np.float32)
        self.arrays = Words(self.words, self.half_norms, self.exact_words)
        relative = _rounding(n_dims + 6)
        # The proof takes the error for a small share of the score.
        reach = float(1 + 8 * np.sqrt(relative)) if relative < 0.01 else np.inf
        absolute = ((n_dims + 6) * 2.0**-52, (n_dims + 6) * SMALLEST)
        self.error = ScoreError(relative, *absolute, reach, self.largest)
        self.block_rows = BLOCK_ROWS if n_words >= FEW_WORDS else FEW_WORDS_BLOCK_ROWS
        self._scratch, self._centred, self._rows = Scratch(), Scratch(), Scratch()
        self._product, self._bounded = Scratch(), Scratch()
        self._skip = skip
        self.integer = integer_words(self.exact_words, groups) if uses_integers() else None

    @cached_property
    def bounds(self) -> Bounds | None:
        """What rules most words out, if that saves work."""
        n_words, n_dims = self.words.shape
        if self._skip is None and (n_words < FEW_WORDS or n_dims > 1024):
            return None
        if self._skip is False:
            return None
        # The matrices are small: one thread is faster than several.
        with single_threaded_blas():
            return self._find_bounds(always=bool(self._skip))

    def _find_bounds(self, always: bool) -> Bounds | None:
        n_dims = self.words.shape[1]
        norms = np.einsum("kd,kd->k", self.words, self.words, dtype=np.float64)
        energy, axes = self._axes()
        share = np.cumsum(energy) / max(float(energy.sum()), 1e-300)
        # One less than a multiple of 8: with the column of norms the depth of the product is a
        # multiple of a vector register.
        n_kept = int(np.searchsorted(share, BOUND_ENERGY)) + 1
        n_kept = min(8 * -(-(n_kept + 1) // 8) - 1, n_dims)
        if 2 * n_kept > n_dims and not always:
            return None
        directions = np.ascontiguousarray(axes[:, :n_kept], dtype=np.float32)
        along = self.words.astype(np.float64) @ directions.astype(np.float64)
        spread = self.spread(n_kept)
        left = np.sqrt(np.maximum(norms - (along**2).sum(axis=1), 0) + spread * norms)
        words = np.concatenate([along, left[:, None]], axis=1).astype(np.float32)
        return Bounds(directions, words, spread)

    def _axes(self) -> tuple[Float64, Float64]:
        """Return the energies of the words' principal directions, falling, and the directions."""
        wide = self.words[_usual(self.half_norms)].astype(np.float64)
        energy, axes = np.linalg.eigh(wide.T @ wide)
        return energy[::-1], axes[:, ::-1]

    def principal(self, n_directions: int) -> Float32:
        """Return the words' first principal directions, ``(n_dims, n_directions)`` or fewer."""
        return np.ascontiguousarray(self._axes()[1][:, :n_directions], dtype=np.float32)

    def spread(self, n_directions: int) -> float:
        """Return s, the widening of bounds along so many directions, relative to ‖x‖ ‖c‖."""
        n_dims = self.words.shape[1]
        along_error = np.sqrt(n_directions) * _rounding(n_dims + 8)
        return float(along_error * (2 + along_error) + 2 * _rounding(n_dims + 8))

    def n_bounds(self, bags: Bags) -> int:
        """Return how many bounds per row ``find`` can use in the next round of k-means."""
        return len(self.integer.packed) if self.integer and bags.dtype == np.uint8 else 0

    def find(
        self, rows: AnyArray, guess: Int32 | None = None, bounds: UInt16 | None = None
    ) -> Int32:
        """Return the nearest word of each row, ``(n_rows,)``, found in the calling thread.

        Rows are float32, or uint8 where ``read`` returns that. ``guess`` may name words that are
        near. ``bounds``, n_bounds per row, are written for the next round; with a guess they are
        those of a round before, of the same rows and groups.
        """
        if rows.dtype == np.uint8 and self.integer is not None:
            return self._find_integer(rows, self.integer, guess, bounds)
        centred, norms = self.centre_rows(rows)
        block = Rows(centred, rows, np.empty(len(rows), dtype=np.float32))
        code = np.zeros(len(rows), dtype=np.int32)
        best = np.full(len(rows), LOWEST, dtype=np.float32)
        if self.bounds is None:
            self._scan_all(block, norms, best, code)
        else:
            self._scan_some(block, norms, best, code, guess, self.bounds)
        return code

    @staticmethod
    def _find_integer(
        rows: UInt8, words: IntegerWords, guess: Int32 | None, bounds: UInt16 | None
    ) -> Int32:
        n_tiles, n_steps = words.packed.shape[:2]
        if 4 * n_steps != rows.shape[1]:
            rows = np.pad(rows, ((0, 0), (0, 4 * n_steps - rows.shape[1])))
        code = np.zeros(len(rows), dtype=np.int32)
        if bounds is None:
            find_nearest(rows, words, code, np.empty((0, 0), dtype=np.uint16))
            return code
        bounds = bounds.reshape(n_tiles, len(rows))
        if guess is None:
            find_nearest(rows, words, code, bounds)
        else:
            code[:] = guess
            find_again(rows, words, code, bounds)
        return code

    def read(self, bags: Bags, start: int, stop: int) -> AnyArray:
        """Return rows of bags as ``find`` takes them, valid until the thread's next call."""
        # Workers of Dask return freed memory at once: fresh rows take 20 times the page faults.
        n_rows, n_dims = stop - start, bags.n_dims
        rows: AnyArray = self._rows.take(n_rows, n_dims)
        if bags.dtype == np.uint8 and self.integer is not None:
            rows = rows.view(np.uint8).ravel()[: n_rows * n_dims].reshape(n_rows, n_dims)
        bags.read_into(start, rows)
        return rows

    def centre_rows(self, rows: Float32) -> tuple[Float32, Float32]:
        """Return centred rows, valid until the thread's next call, and their squared norms."""
        norms = np.empty(len(rows), dtype=np.float32)
        centred = self._centred.take(*rows.shape)
        with np.errstate(over="ignore"):
            np.subtract(rows, self.centre, out=centred)
        squared_norms(centred, norms)
        check_size("descriptors", float(np.sqrt(norms.max(initial=0))))
        return centred, norms

    def _scan_all(self, rows: Rows, norms: Float32, best: Float32, code: Int32) -> None:
        """Score every word, then settle what float32 leaves open."""
        second = np.full_like(best, LOWEST)
        for first, scores in self._tiles(self.words, rows.centred):
            half = self.half_norms[first : first + len(scores)]
            scan_best_two(scores, half, first, best, second, code)
        write_errors(norms, best, self.error, 0.0, rows.error, np.empty_like(best))
        settle(rows, self.arrays, best, second, code)

    def _scan_some(
        self,
        rows: Rows,
        norms: Float32,
        best: Float32,
        code: Int32,
        guess: Int32 | None,
        limits: Bounds,
    ) -> None:
        """Score the words whose bounds reach the best score so far."""
        margin = np.empty_like(best)
        along = self._along(rows.centred, norms, limits)
        for first, bounds in self._tiles(limits.words, along):
            if first == 0:
                if guess is None:
                    half = self.half_norms[: len(bounds)]
                    scan_best_two(bounds, half, 0, best, np.full_like(best, LOWEST), code)
                else:
                    code[:] = guess
                score_guess(rows, self.arrays, best, code)
                write_errors(norms, best, self.error, limits.error, rows.error, margin)
            scan_bounds(bounds, first, rows, self.arrays, margin, best, code)

    def _tiles(self, operands: Float32, rows: Float32) -> Iterator[tuple[int, Float32]]:
        """Yield the products of each tile of words with the rows, all in the same memory."""
        columns = rows.T
        for first in range(0, len(operands), TILE_WORDS):
            tile = operands[first : first + TILE_WORDS]
            products = self._scratch.take(len(tile), len(rows))
            np.dot(tile, columns, out=products)
            yield first, products

    def _along(self, centred: Float32, norms: Float32, limits: Bounds) -> Float32:
        """Return the rows along the directions, and the norm of their remainder."""
        n_kept = limits.directions.shape[1]
        out = self._bounded.take(len(centred), n_kept + 1)
        product = self._product.take(len(centred), n_kept)
        out[:, :n_kept] = np.dot(centred, limits.directions, out=product)
        squares = np.empty_like(norms)
        squared_norms(product, squares)
        left = norms * np.float32(1 + limits.error) - squares
        out[:, n_kept] = np.sqrt(np.maximum(left, 0))
        return out


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view that cannot be written.

    Words of a codebook are such arrays and a user's may not be; kernels that get both would be
    compiled for each.
    """
    view = array[:]
    view.flags.writeable = False
    return view


def _rounding(n: int) -> float:
    """Return γ(n): the relative error of n roundings to float32, and of using it as a bound."""
    return n * UNIT / (1 - 2 * n * UNIT)


def centre_of(words: Float32) -> Float32:
    """Return the mean of the words that are not far from it, ``(n_dims,)``."""
    mean: Float64 = words.mean(axis=0, dtype=np.float64)
    gaps = words - mean
    usual = _usual(np.einsum("kd,kd->k", gaps, gaps))
    if not usual.all():
        mean = words[usual].mean(axis=0, dtype=np.float64)
    return mean.astype(np.float32)


def _usual(squares: NDArray[np.floating]) -> Bools:
    """Return which words are not ``FAR``, by their squared distances from a centre."""
    return np.asarray(squares <= FAR**2 * np.float64(np.median(squares)))


def check_size(what: str, norm: float) -> None:
    """Raise a DataError for norms whose squares exceed float32."""
    if not norm <= LARGEST:
        raise DataError(
            f"{what} must lie within {LARGEST:.1e} of their mean, or their squares are too "
            f"large for float32; got {norm:.1e}. Divide descriptors and words by a constant."
        )


def nearest_words(
    bags: Bags, words: Float32, *, n_jobs: int | None = -1, verbose: bool = False
) -> Int32:
    """Return the nearest of ``words`` (in stored units) for each descriptor."""
    codes = np.empty(bags.n_descriptors, dtype=np.int32)
    with Progress("coding", bags.n_descriptors, show=verbose) as bar:
        for start, found in find_blocks(bags, WordSearch(words), n_jobs=n_jobs):
            codes[start : start + len(found)] = found
            bar.step(len(found))
    return codes


def find_blocks(
    bags: Bags, search: WordSearch, *, n_jobs: int | None = -1
) -> Iterator[tuple[int, Int32]]:
    """Yield ``(start, codes)`` for consecutive blocks of descriptors."""

    def find(limits: tuple[int, int]) -> tuple[int, Int32]:
        return limits[0], search.find(search.read(bags, *limits))

    with single_threaded_blas():
        yield from ordered_map(find, bags.blocks(search.block_rows), n_jobs, ahead=8)
