"""Words of SIFT as glyphs: four by four cells with eight directions each.

A value v from 0 to 1 is a stroke from the centre of its cell, 12 v^0.75 units long and at most 8,
in a square of 48 units whose y axis points down; strokes below 0.7 units are left out. The exponent
makes strong directions stand out and keeps weak ones visible. The page's script draws the same
strokes from packed values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 48
LARGEST = 255 / 512
"""The value of a unit-norm descriptor that is drawn as 1, as are larger ones."""


def sift_strokes(words: NDArray[np.floating]) -> list[NDArray[np.float64]]:
    """Return the strokes per unit-norm word, ``(n_strokes, 2, 2)``: x and y of both ends.

    Examples
    --------
    >>> word = np.zeros((1, 128))
    >>> word[0, 2] = 0.5
    >>> sift_strokes(word)[0].round(1).tolist()
    [[[6.0, 6.0], [6.0, 14.0]]]
    """
    cell, direction = np.divmod(np.arange(128), 8)
    centres = 12.0 * np.column_stack([cell % 4, cell // 4]) + 6
    ways = np.column_stack([np.cos(direction * np.pi / 4), np.sin(direction * np.pi / 4)])
    lengths = np.minimum(8, 12 * np.clip(words / LARGEST, 0, 1) ** 0.75)
    ends = centres + lengths[:, :, None] * ways
    shown = lengths >= 0.7
    return [np.stack([centres[s], e[s]], axis=1) for e, s in zip(ends, shown, strict=True)]
