"""What the last move changed, so that it can be taken back.

A search takes most of its moves back. The way back costs what the way there did: every far
descriptor is compared with the words that return. A journal knows the answers: it costs 9 bytes for
each descriptor that changed hands, and undoing it touches those alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Piece:
    """What a move changed in some segments, in order: what each descriptor had before.

    ``segment`` is the first of them, and ``bags`` are those of all. ``rows``, ``ranks`` and
    ``codes`` are those that found their words in lists; ``far_rows``, ``far_codes`` and
    ``far_scores`` those that were compared with words, afterwards.
    """

    segment: int
    bags: slice
    rows: NDArray[np.int32]
    ranks: NDArray[np.uint8]
    codes: NDArray[np.int32]
    far_rows: NDArray[np.int32]
    far_codes: NDArray[np.int32]
    far_scores: NDArray[np.float32]


@dataclass(frozen=True)
class Journal:
    """What taking a move back needs: pieces, and how the move counted.

    ``held`` gives the columns of the words before and after the move; ``tally`` is that of before.
    """

    held: NDArray[np.int32]
    often: bool
    tally: NDArray[np.int64]
    pieces: list[Piece]
