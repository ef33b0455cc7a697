"""k-means++: the initial words (Arthur and Vassilvitskii 2007).

**The problem.** Draw words one after the other from a sample of descriptors, each with probability
proportional to D²(x), its squared distance to the nearest word drawn so far. Done literally, that
is one pass over the sample per word, limited by the bandwidth of memory.

**The method.** Candidates are drawn in batches from the current D², their distances computed by one
matrix product. Then, in order, a candidate drawn with weight D²_then is accepted with probability
D²_now / D²_then. This is rejection sampling: each accepted word has exactly the distribution of
k-means++.

**Cost.** 2 · n_dims · n_words operations per sampled descriptor, in BLAS.

**Invariants.** Distances are within a hundredth; equal descriptors are at distance 0, so no
descriptor is drawn twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowsaw.clustering._lloyd_kernel import write_distances
from bowsaw.nearest.search import check_size, read_only
from bowsaw.parallel import ordered_map

BATCH = 64
_SLICE = 8192


def kmeans_plus_plus(
    rows: NDArray[np.float32], n_words: int, rng: np.random.Generator, n_jobs: int | None = 1
) -> NDArray[np.int64]:
    """Return the distinct positions of ``n_words`` rows drawn by k-means++, in the order drawn.

    Fewer are returned where ``rows`` has fewer distinct rows. The result depends on ``rng``, not on
    ``n_jobs``.
    """
    # float64 weights: cumulative sums of float32 would lose the far tail of a large sample.
    with np.errstate(over="ignore"):
        centred = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        norms = np.einsum("nd,nd->n", centred, centred, dtype=np.float32)
    check_size("descriptors", float(np.sqrt(norms.max())))
    drawn = [int(rng.integers(len(rows)))]
    everywhere = np.full(len(rows), np.inf)
    nearest = _distances(rows, centred, norms, drawn, everywhere, n_jobs)[0].astype(np.float64)
    while len(drawn) < n_words:
        cumulative = np.cumsum(nearest)
        if not cumulative[-1] > 0:
            break
        size = min(BATCH, n_words - len(drawn), max(1, len(drawn) // 2))
        places = rng.random(size) * cumulative[-1]
        picks = np.minimum(np.searchsorted(cumulative, places, side="right"), len(rows) - 1)
        chances = rng.random(size)
        distances = _distances(rows, centred, norms, picks.tolist(), nearest, n_jobs)
        before = nearest[picks]
        for place, pick in enumerate(picks.tolist()):
            if nearest[pick] > 0 and chances[place] * before[place] <= nearest[pick]:
                drawn.append(pick)
                np.minimum(nearest, distances[place], out=nearest)
    return np.array(drawn, dtype=np.int64)


def _distances(
    rows: NDArray[np.float32],
    centred: NDArray[np.float32],
    norms: NDArray[np.float32],
    picks: list[int],
    nearest: NDArray[np.float64],
    n_jobs: int | None,
) -> NDArray[np.float32]:
    """Squared distances of all rows to the picked ones, ``(n_picks, n_rows)``.

    Those that are certainly not below ``nearest`` may be less exact.
    """
    chosen, picked, picked_norms = centred[picks], read_only(rows[picks]), norms[picks]
    out = np.empty((len(picks), len(rows)), dtype=np.float32)
    noise = (rows.shape[1] + 4) * 2.0**-23

    def one(start: int) -> None:
        part = slice(start, start + _SLICE)
        write_distances(
            chosen @ centred[part].T,
            norms[part],
            rows[part],
            picked,
            picked_norms,
            nearest[part],
            noise,
            start,
            out,
        )

    for _ in ordered_map(one, range(0, len(rows), _SLICE), n_jobs):
        pass
    return out
