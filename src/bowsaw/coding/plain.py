"""Histograms as a plain array, whatever tables scikit-learn is told to make.

``sklearn.set_config(transform_output="pandas")`` turns what every transformer returns into a table.
That is for the user's eyes; code of ours that goes on with histograms wants the array.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords


def coded(
    bags: Bags,
    codebook: Codebook,
    coding: Literal["hard", "soft"],
    sharpness: float,
    n_jobs: int | None = -1,
) -> NDArray[np.float32]:
    """Return the histograms of bags, ``(n_bags, n_words)``; parameters are ``BagOfWords``'s.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> from sklearn import config_context
    >>> bags, book = bs.Bags([[0.1], [0.9]], [0, 2]), bs.Codebook([[0.0], [1.0]])
    >>> with config_context(transform_output="pandas"):
    ...     coded(bags, book, "hard", 40.0)
    array([[0.5, 0.5]], dtype=float32)
    """
    coder = BagOfWords(codebook, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
    histograms: NDArray[np.float32] = coder.set_output(transform="default").transform(bags)
    return histograms
