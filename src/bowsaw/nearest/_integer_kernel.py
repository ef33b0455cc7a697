"""Scores of uint8 descriptors with words of 8 bits, by the processor's integer dot products.

One instruction, ``vpdpbusd``, multiplies four unsigned bytes of a descriptor with four signed bytes
of each of ``LANES`` words and adds the products to a 32-bit sum per word. The scores of ``ROWS``
descriptors with a tile of ``TILE`` words stay in registers; only this loop is written in LLVM's
language, the rest is numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from bowsaw._arrays import Float32, Float64, Int8, Int32, UInt8, UInt16
from bowsaw.nearest._search_kernel import squared_distance

# What numba compiles for, which is the key of its cache too: not what the processor may have.
_FEATURES = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
WIDE = {"+avx512f", "+avx512vnni"} <= set(_FEATURES)
AVAILABLE = WIDE or "+avxvnni" in _FEATURES
"""Whether the processor has the instruction."""

LANES, ROWS = (16, 8) if WIDE else (8, 4)
VECTORS = 3
TILE = LANES * VECTORS
CHUNK_TILES = 6144 // TILE
"""Tiles whose words stay in the cache (768 kB of 128 dimensions)."""

LOWEST_SCORE = -(2**31) + 2**28
"""Below the score of every word."""
STEP = 1 / 16
"""The unit of stored bounds of distances: 16 bits reach to 4096."""
TINY = 1e-30
"""Above what squares lose that are too small for float32."""


class IntegerWords(NamedTuple):
    """Words of 8 bits, and what their rounding changes; see ``integer``."""

    packed: Int8
    """``(n_tiles, n_steps, TILE, 4)``: four dimensions of each word of a tile lie together."""
    start: Int32
    """What a score is without its products, ``(n_tiles * TILE,)``."""
    origin: UInt8
    """Near the descriptors, ``(n_dims,)``: errors grow with the distance from here."""
    residual: float
    """The largest norm of what rounding left of a word."""
    exact: Float32
    names: Int32
    """The position of each word of the tiles, ``(n_tiles * TILE,)``."""
    middle: Float64
    """What words were rounded about, ``(n_dims,)``."""
    constant: float
    per_score: float
    """‖x − c‖² is ‖x‖² − 2 x·middle + constant − per_score times the score, but for rounding."""
    drift: Float64
    """How far the words of each tile have moved, ``(n_tiles,)``; see ``find_again``."""


def _emit_scores(
    context: Any,
    rows: Any,
    index: Any,
    packed: Any,
    start: Any,
    tile: Any,
    place: Any,
    scores: Any,
    tops: Any,
) -> Any:
    """Write the scores of ROWS rows with a tile as tile ``place`` of ``scores``, and the largest.

    rows (n, 4 n_steps) uint8, of which ``index`` names ROWS; packed and start as above; scores
    (ROWS, n_places * TILE) and tops (ROWS, n_places) int32: all C-contiguous.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, lane = ir.IntType(64), ir.IntType(32)
        vector, bytes_at = ir.VectorType(lane, LANES), ir.IntType(8).as_pointer()

        def function(name: str, kind: Any) -> Any:
            return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)

        multiply = function(
            f"llvm.x86.avx512.vpdpbusd.{32 * LANES}", ir.FunctionType(vector, [vector] * 3)
        )
        reduce = function(f"llvm.vector.reduce.smax.v{LANES}i32", ir.FunctionType(lane, [vector]))

        def array(number: int) -> Any:
            return context.make_array(signature.args[number])(context, builder, arguments[number])

        def at(base: Any, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

        def vectors(base: Any) -> list[Any]:
            places = (at(base, word(4 * LANES * v), vector) for v in range(VECTORS))
            return [builder.load(place, align=4) for place in places]

        rows, index, packed, start, scores, tops = (
            builder.bitcast(array(number).data, bytes_at) for number in (0, 1, 2, 3, 6, 7)
        )
        n_steps = builder.extract_value(array(2).shape, 1)
        row_bytes = builder.mul(n_steps, word(4))
        n_places = builder.extract_value(array(7).shape, 1)
        tile, place = arguments[4:6]
        tile_bytes = builder.mul(tile, word(TILE * 4))
        packed = builder.gep(packed, [builder.mul(tile_bytes, n_steps)])
        first = vectors(builder.gep(start, [tile_bytes]))
        starts = []
        for r in range(ROWS):
            number = builder.load(at(index, word(8 * r), word), align=8)
            starts.append(builder.gep(rows, [builder.mul(number, row_bytes)]))
        before, body, after = builder.block, *map(builder.append_basic_block, ("body", "after"))
        builder.branch(body)
        builder.position_at_end(body)
        step = builder.phi(word)
        step.add_incoming(word(0), before)
        totals = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
        words = vectors(builder.gep(packed, [builder.mul(step, word(4 * TILE))]))
        added = []
        for r in range(ROWS):
            four = builder.load(at(starts[r], builder.mul(step, word(4)), lane), align=1)
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), four, word(0))
            all_lanes = builder.shuffle_vector(one, one, ir.Constant(vector, [0] * LANES))
            for v in range(VECTORS):
                total = totals[r * VECTORS + v]
                total.add_incoming(first[v], before)
                added.append(builder.call(multiply, [total, all_lanes, words[v]]))
                total.add_incoming(added[-1], body)
        following = builder.add(step, word(1))
        step.add_incoming(following, body)
        builder.cbranch(builder.icmp_signed("<", following, n_steps), body, after)
        builder.position_at_end(after)
        for r in range(ROWS):
            entry = builder.add(builder.mul(n_places, word(r)), place)
            mine = added[r * VECTORS : (r + 1) * VECTORS]
            most = mine[0]
            for v in range(VECTORS):
                offset = builder.add(builder.mul(entry, word(4 * TILE)), word(4 * LANES * v))
                builder.store(mine[v], at(scores, offset, vector), align=4)
                larger = builder.icmp_signed(">", mine[v], most)
                most = builder.select(larger, mine[v], most)
            offset = builder.mul(entry, word(4))
            builder.store(builder.call(reduce, [most]), at(tops, offset, lane), align=4)
        return context.get_dummy_value()

    kinds = (rows, index, packed, start, tile, place, scores, tops)
    return types.void(*kinds), generate


_score_tile: Any = intrinsic(_emit_scores)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _distance(row: UInt8, word: Float32) -> Any:
    """Squared distance in float32: all terms are positive, so its error is a share of itself."""
    total = np.float32(0)
    for d in range(word.shape[0]):
        gap = np.float32(row[d]) - word[d]
        total += gap * gap
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def _error(row: UInt8, words: IntegerWords) -> Any:
    """Return by how much a score can be wrong."""
    total = np.int32(0)
    for d in range(words.origin.shape[0]):
        gap = np.int32(row[d]) - np.int32(words.origin[d])
        total += gap * gap
    return 1.0001 * (np.sqrt(np.float64(total)) * words.residual + 1)


@njit(nogil=True, error_model="numpy", cache=True)
def _compare(
    row: UInt8, found: Int32, limit: Any, names: Int32, exact: Float32, nearest: Any, code: Any
) -> Any:
    """Compare the words of a tile that reach ``limit`` with the best so far; return the better."""
    # Of a float32 distance; twice, as two are compared, and twice again to be safe.
    doubt = np.float64(4 * (exact.shape[1] + 4) * 2.0**-24)
    for j in range(TILE):
        if found[j] < limit:
            continue
        k = names[j]
        distance = np.float64(_distance(row, exact[k]))
        if distance < nearest * (1 - doubt) - TINY:
            code = k
        elif distance <= nearest * (1 + doubt) + TINY:
            # Too close for float32; an earlier word wins a tie.
            ours, theirs = squared_distance(row, exact[k]), squared_distance(row, exact[code])
            if ours < theirs or (ours == theirs and k < code):
                code = k
        nearest = min(nearest, distance)
    return nearest, code


@njit(nogil=True, error_model="numpy", cache=True)
def find_nearest(rows: UInt8, words: IntegerWords, code: Int32, bounds: UInt16) -> None:
    """Write the nearest word of each row, (n_rows, 4 n_steps).

    ``bounds``, (n_tiles, n_rows) or without rows, becomes a lower bound of the distance of each row
    from the words of each tile; see ``find_again``.
    """
    n_rows, n_tiles = len(rows), len(words.packed)
    n_dims = words.exact.shape[1]
    some = min(n_tiles, CHUNK_TILES)
    scores, tops = np.empty((ROWS, TILE * some), np.int32), np.empty((ROWS, some), np.int32)
    index = np.empty(ROWS, np.int64)
    best = np.full(n_rows, LOWEST_SCORE, np.int32)
    nearest = np.full(n_rows, np.inf)
    code[:] = 0
    for first in range(0, n_tiles, CHUNK_TILES):
        some = min(CHUNK_TILES, n_tiles - first)
        for begin in range(0, n_rows, ROWS):
            n = min(ROWS, n_rows - begin)
            for r in range(ROWS):
                index[r] = begin + min(r, n - 1)
            for t in range(some):
                _score_tile(rows, index, words.packed, words.start, first + t, t, scores, tops)
            for r in range(n):
                i = begin + r
                row = rows[i, :n_dims]
                error = _error(row, words)
                for t in range(some):
                    best[i] = tops[r, t] if tops[r, t] > best[i] else best[i]
                limit = np.int32(best[i] - 2 * error) - 1
                for t in range(some):
                    if tops[r, t] >= limit:
                        place = (first + t) * TILE
                        names = words.names[place : place + TILE]
                        found = scores[r, t * TILE : (t + 1) * TILE]
                        nearest[i], code[i] = _compare(
                            row, found, limit, names, words.exact, nearest[i], code[i]
                        )
                if len(bounds):
                    base = _squared_at_zero(row, words) - words.per_score * error
                    for t in range(some):
                        squared = base - words.per_score * tops[r, t]
                        bounds[first + t, i] = _stored(squared, words.drift[first + t])


@njit(nogil=True, error_model="numpy", cache=True)
def _squared_at_zero(row: UInt8, words: IntegerWords) -> float:
    """Return the squared distance that a score of 0 stands for."""
    total = words.constant
    for d in range(words.middle.shape[0]):
        value = np.float64(row[d])
        total += value * (value - 2 * words.middle[d])
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def _stored(squared: float, drift: float) -> Any:
    """Return a lower bound of a distance, plus what its words have moved so far, in STEPs."""
    # A thousandth covers all float64 roundings.
    bound = np.sqrt(squared) if squared > 0 else 0.0
    steps = (bound - 0.001 + drift) / STEP
    return np.uint16(min(max(steps, 0.0), 65535.0))


@njit(nogil=True, error_model="numpy", cache=True)
def find_again(rows: UInt8, words: IntegerWords, code: Int32, bounds: UInt16) -> None:
    """Like ``find_nearest``, from the nearest words of some round before, in ``code``.

    A distance from a word changes by no more than the word moved. So the words of a tile are no
    nearer than the bound of the last time they were compared, less the largest movement of one of
    them in each round since. ``words.drift`` adds these up from the first round, and a bound is
    stored with the drift of its time added: older bounds stay valid.
    """
    n_rows, n_tiles = len(rows), len(words.packed)
    n_dims = words.exact.shape[1]
    scores, tops = np.empty((ROWS, TILE), np.int32), np.empty((ROWS, 1), np.int32)
    nearest, base, reach = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows, np.float32)
    needed = np.empty(n_rows + ROWS, np.int64)
    for i in range(n_rows):
        row = rows[i, :n_dims]
        nearest[i] = _distance(row, words.exact[code[i]])
        reach[i] = np.sqrt(nearest[i]) + 0.01
        base[i] = _squared_at_zero(row, words) - words.per_score * _error(row, words)
    for t in range(n_tiles):
        drift = np.float32(words.drift[t])
        names, stored = words.names[t * TILE : (t + 1) * TILE], bounds[t]
        n = 0
        for i in range(n_rows):
            needed[n] = i
            n += 1 if np.float32(STEP) * stored[i] <= reach[i] + drift else 0
        for r in range(n, n + ROWS):
            needed[r] = needed[n - 1]
        for begin in range(0, n, ROWS):
            index = needed[begin : begin + ROWS]
            _score_tile(rows, index, words.packed, words.start, t, 0, scores, tops)
            for r in range(min(ROWS, n - begin)):
                i = index[r]
                squared = base[i] - words.per_score * tops[r, 0]
                stored[i] = _stored(squared, words.drift[t])
                if squared > 1.001 * nearest[i] + 0.001:
                    continue
                limit = np.int32((base[i] - 1.001 * nearest[i]) / words.per_score) - 2
                nearest[i], code[i] = _compare(
                    rows[i, :n_dims], scores[r], limit, names, words.exact, nearest[i], code[i]
                )
                reach[i] = np.sqrt(nearest[i]) + 0.01
