"""Soft codes as weights, words down and descriptors across: arrays in, arrays out.

A stored entry is a float64 weight, or a weight from 2⁻⁶³ to 1 in 16 bits: 6 bits of octave and 10
of mantissa. Those 16 bits are the ones in the middle of a float32, so decoding is a shift and an
addition. Loops are compiled for both from one source; ``weight`` is where they differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from bowsaw._arrays import AnyArray, Float32, Float64, Int64, UInt16

N_OCTAVES = 63
"""The smallest weight in 16 bits is 2 to the minus this."""

SEGMENT = 1024
"""Rows that are summed in the precision of the weights before float64 takes over."""

_SHIFT = 13
_LOWEST = (127 - N_OCTAVES) << 23
_HALF_STEP = 1 << (_SHIFT - 1)


def weight(code: Any) -> Any:
    """Return the weight that a stored entry means: the plain twin of what kernels compile in."""
    if isinstance(code, float):
        return code
    return np.int32((int(code) << _SHIFT) + _LOWEST).view(np.float32)


@overload(weight)
def _weight(code: Any) -> Any:
    def as_it_is(code: Any) -> Any:
        return code

    def unpack(code: Any) -> Any:
        bits = np.int32((np.int32(code) << np.int32(_SHIFT)) + np.int32(_LOWEST))
        return bits.view(np.float32)

    return as_it_is if isinstance(code, types.Float) else unpack


@njit(nogil=True, error_model="numpy", cache=True)
def pack(weights: Float32, start: int, codes: UInt16) -> None:
    """Write weights (n_words, n_rows) in 16 bits, 2⁻⁶³ at least, to rows ``start`` onwards."""
    n_words, n_rows = weights.shape
    for j in range(n_words):
        bits = weights[j].view(np.int32)
        out = codes[j, start : start + n_rows]
        for i in range(n_rows):
            step = bits[i] - np.int32(_LOWEST - _HALF_STEP)
            step = step if step > 0 else np.int32(0)
            out[i] = np.uint16(step >> np.int32(_SHIFT))


@njit(nogil=True, error_model="numpy", cache=True)
def exact_weights(
    columns: Float64, words: Float64, factor: float, start: int, out: Float64
) -> None:
    """Write exp(−factor · (distance² − that of the nearest word)) to rows ``start`` onwards.

    ``columns`` is (n_dims, n_rows), ``words`` (n_words, n_dims), ``out`` words down, rows across.
    Distances are sums of squares in the order of the dimensions.
    """
    n_dims, n_rows = columns.shape
    nearest = np.empty(n_rows)
    nearest[:] = np.inf
    for j in range(len(words)):
        row = out[j, start : start + n_rows]
        row[:] = 0
        for d in range(n_dims):
            along = columns[d]
            at = words[j, d]
            for i in range(n_rows):
                difference = along[i] - at
                row[i] += difference * difference
        for i in range(n_rows):
            nearest[i] = row[i] if row[i] < nearest[i] else nearest[i]
    for j in range(len(words)):
        row = out[j, start : start + n_rows]
        for i in range(n_rows):
            row[i] = np.exp(-factor * (row[i] - nearest[i]))


@njit(nogil=True, error_model="numpy", cache=True)
def add_columns(
    codes: AnyArray, words: Int64, sign: float, start: int, high: Float64, low: Float64
) -> None:
    """Add ``sign`` times the weights of some words to the totals of rows ``start`` onwards.

    A total is ``high + low``: ``low`` collects what rounding takes from ``high`` (Knuth's two-sum,
    which fastmath would optimise away).
    """
    n_rows = len(high)
    for word in words:
        row = codes[word, start : start + n_rows]
        for i in range(n_rows):
            more = sign * np.float64(weight(row[i]))
            before = high[i]
            after = before + more
            taken = after - before
            low[i] += (before - (after - taken)) + (more - taken)
            high[i] = after


@njit(nogil=True, error_model="numpy", cache=True)
def invert(high: Float64, low: Float64, least: float, inverse: AnyArray) -> int:
    """Write 1 / total, normalised, or 0 where it is below ``least``; return how many are."""
    faded = 0
    for i in range(len(high)):
        total = high[i] + low[i]
        low[i] -= total - high[i]
        high[i] = total
        is_faded = total < least
        faded += is_faded
        inverse[i] = 0.0 if is_faded else 1.0 / total
    return faded


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def pool_columns(
    codes: AnyArray,
    words: Int64,
    columns: Int64,
    offsets: Int64,
    first_bag: int,
    last_bag: int,
    inverse: AnyArray,
    table: AnyArray,
) -> None:
    """Write the means over each bag of weight · inverse to ``table[column of the word, bag]``.

    ``inverse`` begins with the first row of ``first_bag``. Four words at a time share the reading
    of ``inverse`` and the end of the loop, which is not a full vector; where fewer are left the
    last is computed again, so that every word is summed in the same way wherever it is.
    """
    last = len(words) - 1
    base = offsets[first_bag]
    zero = np.zeros(1, inverse.dtype)[0]
    for j in range(0, last + 1, 4):
        j1, j2, j3 = min(j + 1, last), min(j + 2, last), min(j + 3, last)
        for bag in range(first_bag, last_bag):
            end = offsets[bag + 1]
            s0 = s1 = s2 = s3 = 0.0
            for begin in range(offsets[bag], end, SEGMENT):
                stop = begin + SEGMENT if begin + SEGMENT < end else end
                c0 = codes[words[j], begin:stop]
                c1 = codes[words[j1], begin:stop]
                c2 = codes[words[j2], begin:stop]
                c3 = codes[words[j3], begin:stop]
                part = inverse[begin - base : stop - base]
                p0 = p1 = p2 = p3 = zero
                for i in range(stop - begin):
                    r = part[i]
                    p0 += weight(c0[i]) * r
                    p1 += weight(c1[i]) * r
                    p2 += weight(c2[i]) * r
                    p3 += weight(c3[i]) * r
                s0 += p0
                s1 += p1
                s2 += p2
                s3 += p3
            count = max(end - offsets[bag], 1)
            table[columns[j], bag] = s0 / count
            table[columns[j1], bag] = s1 / count
            table[columns[j2], bag] = s2 / count
            table[columns[j3], bag] = s3 / count
