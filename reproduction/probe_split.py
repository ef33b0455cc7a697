"""What a probe is given: one split of one set, with its codebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.images.split import Split

SHARPNESS = 40.0
"""Of soft coding; the paper gives none."""

Row = dict[str, Any]
"""Plain data, as JSON holds it."""


class Probed(Protocol):
    """One split of one set.

    Attributes
    ----------
    name : str
        Of the set.
    bags : Bags
        The descriptors of every image.
    y : ndarray of int64, shape (n_bags,)
        The class of each image: a position in ``classes``.
    classes : sequence of str
        The names of the classes.
    split : Split
        Which images trained the codebook, train the classifier and test it.
    n_jobs : int or None
        Threads.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def bags(self) -> Bags: ...  # noqa: D102
    @property
    def y(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def classes(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def split(self) -> Split: ...  # noqa: D102
    @property
    def n_jobs(self) -> int | None: ...  # noqa: D102

    def book(self, n_words: int) -> Codebook:
        """Return the full codebook of so many words."""
