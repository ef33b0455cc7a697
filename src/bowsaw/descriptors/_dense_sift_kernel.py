"""The arithmetic of dense SIFT: arrays in, arrays out.

Cost: one pass over the pixels with eight-lane loops, then one gather per patch. The eight
orientation channels of a pixel lie side by side, so the inner loops have a fixed length, which
compilers vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

N_ORIENTATIONS = 8


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True, inline="always")
def _eighths(y: Any, x: Any) -> Any:
    """Angle of (x, y) in eighths of a turn, 0 to 8, by Cephes' polynomial (error below 2e-7)."""
    ay = abs(y)
    ax = abs(x)
    small = ax if ax < ay else ay
    large = ay if ax < ay else ax
    ratio = small / (large + np.float32(1e-30))
    upper = ratio > np.float32(0.41421356)
    reduced = (ratio - np.float32(1)) / (ratio + np.float32(1)) if upper else ratio
    z = reduced * reduced
    poly = (
        (np.float32(8.05374449538e-2) * z - np.float32(1.38776856032e-1)) * z
        + np.float32(1.99777106478e-1)
    ) * z - np.float32(3.33329491539e-1)
    angle = (poly * z * reduced + reduced) * np.float32(4 / np.pi)
    if upper:
        angle += np.float32(1)
    if ay > ax:
        angle = np.float32(2) - angle
    if x < 0:
        angle = np.float32(4) - angle
    if y < 0:
        angle = np.float32(8) - angle
    return angle


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def cell_maps(
    grey: NDArray[np.uint8],
    first_x: NDArray[np.int64],
    weights_x: NDArray[np.float32],
    first_y: NDArray[np.int64],
    weights_y: NDArray[np.float32],
    scratch: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Pool oriented gradients into cells.

    ``grey`` is (height, width); ``out`` is (n_rows, n_columns, 8); ``scratch`` is uninitialised
    memory, (n_rows, 8 · (width + 2 · reach)) with the reach of ``weights_x``. Cell column ``c``
    takes pixels ``first_x[c] + i`` with weight ``weights_x[c, i]``, and cell rows likewise. Both
    are sorted, and a weight is 0 where the pixel lies outside the image. Rows are pooled first,
    then the few rows that are left along x: both inner loops run over neighbouring memory.
    """
    height, width = grey.shape
    n_rows, n_columns, _ = out.shape
    reach_x, reach_y = weights_x.shape[1], weights_y.shape[1]
    margin = reach_x
    bins, size = np.empty(width, np.float32), np.empty(width, np.float32)
    channel = np.empty(width, np.float32)
    scratch[:] = 0
    pooled = scratch.reshape((n_rows, 8, width + 2 * margin))
    half = np.float32(0.5)
    begin = 0
    for y in range(height):
        while begin < n_rows and first_y[begin] + reach_y <= y:
            begin += 1
        if begin == n_rows:
            break
        end = begin
        while end < n_rows and first_y[end] <= y:
            end += 1
        if begin == end:
            continue
        above = grey[max(y - 1, 0)]
        here = grey[y]
        below = grey[min(y + 1, height - 1)]
        for x in range(1, width - 1):
            dx = (np.float32(here[x + 1]) - np.float32(here[x - 1])) * half
            dy = (np.float32(below[x]) - np.float32(above[x])) * half
            size[x] = np.sqrt(dx * dx + dy * dy)
            bins[x] = _eighths(dy, dx)
        for x in (0, width - 1):
            dx = (np.float32(here[min(x + 1, width - 1)]) - np.float32(here[max(x - 1, 0)])) * half
            dy = (np.float32(below[x]) - np.float32(above[x])) * half
            size[x] = np.sqrt(dx * dx + dy * dy)
            bins[x] = _eighths(dy, dx)
        for o in range(8):
            centre = np.float32(o)
            for x in range(width):
                away = abs(bins[x] - centre)
                around = np.float32(8) - away
                share = np.float32(1) - (away if away < around else around)
                channel[x] = size[x] * share if share > np.float32(0) else np.float32(0)
            for r in range(begin, end):
                w = weights_y[r, y - first_y[r]]
                target = pooled[r, o, margin : margin + width]
                for x in range(width):
                    target[x] += w * channel[x]
    for r in range(n_rows):
        for o in range(8):
            source = pooled[r, o]
            for c in range(n_columns):
                near = source[first_x[c] + margin : first_x[c] + margin + reach_x]
                total = np.float32(0)
                for i in range(reach_x):
                    total += weights_x[c, i] * near[i]
                out[r, c, o] = total


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def gather(
    maps: NDArray[np.float32],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    threshold: float,
    clip: float,
    scale: float,
    out: NDArray[Any],
    as_bytes: bool,
) -> None:
    """Collect each patch's 16 cells, normalise, clip, normalise again, scale and store.

    ``rows`` is (n_patch_rows, 4): the cell rows of each row of patches; ``columns`` likewise.
    ``out`` is (n_patch_rows * n_patch_columns, 128), uint8 when ``as_bytes`` (rounded, at most 255)
    else float32. A patch whose raw norm is below ``threshold`` keeps a norm in proportion to it.
    """
    vector = np.empty(128, np.float32)
    limit = np.float32(clip)
    n = 0
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            k = 0
            for a in range(4):
                for b in range(4):
                    r = rows[i, a]
                    c = columns[j, b]
                    for o in range(8):
                        vector[k + o] = maps[r, c, o]
                    k += 8
            total = np.float32(0)
            for m in range(128):
                total += vector[m] * vector[m]
            norm = np.sqrt(total)
            if norm <= np.float32(0):
                for m in range(128):
                    out[n, m] = 0
                n += 1
                continue
            scaled = np.float32(1) / norm
            total = np.float32(0)
            for m in range(128):
                v = vector[m] * scaled
                v = v if v < limit else limit
                vector[m] = v
                total += v * v
            factor = np.float32(scale) / np.sqrt(total)
            if norm < threshold:
                factor *= norm / np.float32(threshold)
            if as_bytes:
                for m in range(128):
                    v = vector[m] * factor + np.float32(0.5)
                    out[n, m] = np.uint8(v if v < np.float32(255.5) else np.float32(255.5))
            else:
                for m in range(128):
                    out[n, m] = vector[m] * factor
            n += 1
