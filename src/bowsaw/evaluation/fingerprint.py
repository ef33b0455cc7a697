"""By what an experiment is recognised.

A finished split may be used again only when everything that its result depends on is the same: the
data, the parameters, the version. A *fingerprint* is the SHA-256 of all that, so two fingerprints
are equal when a rerun would give the same numbers. How the work is done (threads, progress bars,
how many splits follow) is no part of it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence

import numpy as np
import sklearn
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags


def data_digest(bags: Bags, y: NDArray[np.int64], classes: Sequence[str]) -> str:
    """Return the SHA-256 of a labelled collection: bags, labels and class names."""
    found = hashlib.sha256(json.dumps([bags.digest(), list(classes)]).encode())
    found.update(y.astype("<i8").tobytes())
    return found.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions that numbers depend on.

    Examples
    --------
    >>> sorted(versions())
    ['bowsaw', 'numpy', 'python', 'scikit-learn']
    """
    return {
        "bowsaw": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
