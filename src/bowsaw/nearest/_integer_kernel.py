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

from bowsaw._arrays import Float32, Int8, Int32, UInt8
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
TINY = np.float32(1e-30)
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


def _emit_scores(
    context: Any, rows: Any, packed: Any, start: Any, tile: Any, place: Any, scores: Any
) -> Any:
    """Write the scores of all rows with the words of a tile, as tile ``place`` of ``scores``.

    rows (ROWS, 4 n_steps) uint8, packed and start as above, scores (ROWS, n) int32: C-contiguous.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
        kind = ir.FunctionType(vector, [vector] * 3)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"
        multiply = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        arrays = [
            context.make_array(signature.args[i])(context, builder, arguments[i])
            for i in (0, 1, 2, 5)
        ]
        bytes_at = ir.IntType(8).as_pointer()
        rows, packed, start, scores = (builder.bitcast(a.data, bytes_at) for a in arrays)
        n_steps = builder.extract_value(arrays[1].shape, 1)
        row_bytes = builder.mul(n_steps, word(4))
        score_bytes = builder.mul(builder.extract_value(arrays[3].shape, 1), word(4))
        tile, place = (builder.mul(arguments[i], word(TILE * 4)) for i in (3, 4))
        packed = builder.gep(packed, [builder.mul(tile, n_steps)])
        start, scores = builder.gep(start, [tile]), builder.gep(scores, [place])

        def at(base: Any, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

        def vectors(base: Any) -> list[Any]:
            places = (at(base, word(4 * LANES * v), vector) for v in range(VECTORS))
            return [builder.load(place, align=4) for place in places]

        first = vectors(start)
        before, body, after = builder.block, *map(builder.append_basic_block, ("body", "after"))
        builder.branch(body)
        builder.position_at_end(body)
        step = builder.phi(word)
        step.add_incoming(word(0), before)
        totals = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
        words = vectors(builder.gep(packed, [builder.mul(step, word(4 * TILE))]))
        added = []
        for r in range(ROWS):
            offset = builder.add(builder.mul(row_bytes, word(r)), builder.mul(step, word(4)))
            four = builder.load(at(rows, offset, ir.IntType(32)), align=1)
            lane = builder.insert_element(ir.Constant(vector, ir.Undefined), four, word(0))
            zeros = ir.Constant(vector, [0] * LANES)
            all_lanes = builder.shuffle_vector(lane, lane, zeros)
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
            for v in range(VECTORS):
                offset = builder.add(builder.mul(score_bytes, word(r)), word(4 * LANES * v))
                builder.store(added[r * VECTORS + v], at(scores, offset, vector), align=4)
        return context.get_dummy_value()

    return types.void(rows, packed, start, tile, place, scores), generate


_score_tile: Any = intrinsic(_emit_scores)


@njit(nogil=True, error_model="numpy", cache=True)
def score_rows(
    rows: UInt8, words: IntegerWords, first_tile: int, n_tiles: int, scores: Int32
) -> None:
    """Write the scores of ROWS rows with the words of some tiles to ``scores``, (ROWS, n)."""
    for t in range(n_tiles):
        _score_tile(rows, words.packed, words.start, first_tile + t, t, scores)


@njit(nogil=True, error_model="numpy", cache=True)
def _largest(scores: Int32) -> Any:
    most = scores[0]
    for j in range(len(scores)):
        most = scores[j] if scores[j] > most else most
    return most


def _emit_next_tile(context: Any, scores: Any, tile: Any, n_tiles: Any, limit: Any) -> Any:
    """Return the first tile from ``tile`` on with a score of ``limit`` or more, or ``n_tiles``.

    numba does not vectorise a loop with two ways out; this took a third of the search.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
        scores = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        lane = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[3], word(0))
        limits = builder.shuffle_vector(lane, lane, ir.Constant(vector, [0] * LANES))
        before = builder.block
        test, body, after = map(builder.append_basic_block, ("test", "body", "after"))
        builder.branch(test)
        builder.position_at_end(test)
        t = builder.phi(word)
        t.add_incoming(arguments[1], before)
        builder.cbranch(builder.icmp_signed("<", t, arguments[2]), body, after)
        builder.position_at_end(body)
        found = None
        for v in range(VECTORS):
            offset = builder.add(builder.mul(t, word(TILE)), word(LANES * v))
            place = builder.bitcast(builder.gep(scores, [offset]), vector.as_pointer())
            some = builder.icmp_signed(">=", builder.load(place, align=4), limits)
            found = some if found is None else builder.or_(found, some)
        lanes = ir.IntType(LANES)
        t.add_incoming(builder.add(t, word(1)), body)
        reached = builder.icmp_unsigned("!=", builder.bitcast(found, lanes), lanes(0))
        builder.cbranch(reached, after, test)
        builder.position_at_end(after)
        return t

    return types.intp(scores, types.intp, types.intp, types.int32), generate


_next_tile: Any = intrinsic(_emit_next_tile)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def _distance(row: UInt8, word: Float32) -> Any:
    """Squared distance in float32: all terms are positive, so its error is a share of itself."""
    total = np.float32(0)
    for d in range(word.shape[0]):
        gap = np.float32(row[d]) - word[d]
        total += gap * gap
    return total


@njit(nogil=True, error_model="numpy", cache=True)
def _twice_the_error(row: UInt8, words: IntegerWords) -> Any:
    """Return the largest difference of two scores that rounding of the words can reverse."""
    total = np.int32(0)
    for d in range(words.origin.shape[0]):
        gap = np.int32(row[d]) - np.int32(words.origin[d])
        total += gap * gap
    return np.int32(2.0001 * (np.sqrt(np.float64(total)) * words.residual + 1)) + 1


@njit(nogil=True, error_model="numpy", cache=True)
def find_nearest(rows: UInt8, words: IntegerWords, code: Int32) -> None:
    """Write the nearest word of each row, (n_rows, n_dims)."""
    n_rows, n_dims = rows.shape
    n_tiles, n_steps = words.packed.shape[0], words.packed.shape[1]
    exact = words.exact
    block = np.zeros((ROWS, 4 * n_steps), np.uint8)
    scores = np.empty((ROWS, TILE * min(n_tiles, CHUNK_TILES)), np.int32)
    top = np.full(n_rows, LOWEST_SCORE, np.int32)
    nearest = np.full(n_rows, np.inf, np.float32)
    code[:] = 0
    # Of a float32 distance; twice, as two are compared, and twice again to be safe.
    doubt = np.float32(4 * (n_dims + 4) * 2.0**-24)
    for first in range(0, n_tiles, CHUNK_TILES):
        some = min(CHUNK_TILES, n_tiles - first)
        for begin in range(0, n_rows, ROWS):
            n = min(ROWS, n_rows - begin)
            block[:n, :n_dims] = rows[begin : begin + n]
            score_rows(block, words, first, some, scores)
            for r in range(n):
                i = begin + r
                row, found = block[r, :n_dims], scores[r]
                top[i] = max(top[i], _largest(found[: some * TILE]))
                limit = np.int32(top[i] - _twice_the_error(row, words))
                t = _next_tile(found, 0, some, limit)
                while t < some:
                    for j in range(t * TILE, (t + 1) * TILE):
                        if found[j] < limit:
                            continue
                        k = np.int32(first * TILE + j)
                        distance = _distance(row, exact[k])
                        if distance < nearest[i] * (1 - doubt) - TINY:
                            code[i] = k
                        elif distance <= nearest[i] * (1 + doubt) + TINY:
                            # Too close for float32; an earlier word wins a tie.
                            ours = squared_distance(row, exact[k])
                            if ours < squared_distance(row, exact[code[i]]):
                                code[i] = k
                        nearest[i] = min(nearest[i], distance)
                    t = _next_tile(found, t + 1, some, limit)
