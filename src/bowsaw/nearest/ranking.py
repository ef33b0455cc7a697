"""The nearest words of each descriptor in order, exactly.

When words are pruned, a descriptor's new code is the first kept word of its ranked list.

**The method.** As in ``search``: scores x·c − ‖c‖²/2 of blocks of descriptors by BLAS in float32.
The words are dealt into about 4 n_ranked groups, and a limit is found that n_ranked of the groups'
best scores reach: at least n_ranked words are above it, and about a seventh more. These are sorted
by counting, for each, how many are better (n² comparisons, vectorised and without branches).

**Invariants.** The order is that of Σ_d (x_d − c_d)² in float64 summed in the order of the
dimensions, then of the word's position, as in ``search``; rounding does not change it. Scores that
differ by less than their worst-case errors form runs, which are sorted by exact distances. An
entry too near to the limit to be certain is left out, with all after it: such a list is shorter and
ends with ``n_words``.

**Cost.** 2 · n_dims · n_words operations per descriptor in BLAS, n_words in the scan, and about
2 · n_ranked² in vector registers. Memory: 2 bytes per entry (4 from 65 535 words on) and a block of
scores per thread.
"""

from __future__ import annotations

import numpy as np

from bowsaw._arrays import AnyArray, Float32
from bowsaw.bags import Bags
from bowsaw.nearest._ranking_kernel import rank_rows
from bowsaw.nearest.search import WordSearch
from bowsaw.parallel import Scratch, ordered_map, single_threaded_blas
from bowsaw.progress import Progress

TASK_ROWS = 1024
# Enough rows for BLAS to reuse the words; 1 MiB was measured to take a quarter longer.
SCORES_BYTES = 2**22


def ranked_words(
    bags: Bags, words: Float32, n_ranked: int, *, n_jobs: int | None = -1, verbose: bool = False
) -> AnyArray:
    """Return the ``n_ranked`` nearest words of every descriptor, nearest first."""
    search = WordSearch(words, skip=False)
    # With few words everything is a candidate. Otherwise about four groups per entry of the list:
    # fewer leave more candidates, more take longer to compare.
    n_words = n_groups = len(words)
    if n_words > 2 * n_ranked:
        n_groups = int(n_words / max(1, n_words // (4 * n_ranked)))
    out = np.empty((bags.n_descriptors, n_ranked), dtype=list_dtype(n_words))
    columns = np.ascontiguousarray(search.words.T)
    n_rows = int(np.clip(SCORES_BYTES // (4 * n_words), 8, 1024))
    lengths = np.sqrt(2.0 * search.half_norms)
    products = Scratch()

    def rank(limits: tuple[int, int]) -> int:
        rows = bags.read(*limits)
        centred, norms = search.centre_rows(rows)
        for begin in range(0, len(rows), n_rows):
            part = slice(begin, min(begin + n_rows, len(rows)))
            scores = products.take(part.stop - begin, n_words)
            np.dot(centred[part], columns, out=scores)
            lists = out[limits[0] + begin : limits[0] + part.stop]
            these = (lengths, rows[part], norms[part])
            rank_rows(scores, search.arrays, *these, search.error, n_groups, lists)
        return len(rows)

    with single_threaded_blas(), Progress("ranking", bags.n_descriptors, show=verbose) as bar:
        for n_done in ordered_map(rank, bags.blocks(TASK_ROWS), n_jobs, ahead=4):
            bar.step(n_done)
    return out


def list_dtype(n_words: int) -> type[np.uint16] | type[np.int32]:
    """Return the smallest dtype that holds every position and ``n_words`` itself."""
    return np.uint16 if n_words < 2**16 else np.int32
