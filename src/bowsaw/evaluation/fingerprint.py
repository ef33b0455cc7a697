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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.checks import canonical
from bowsaw.codebook import Codebook

_HASH_ROWS = 65536
_NOT_SETTINGS = frozenset(
    {"n_jobs", "verbose", "random_state", "codebook", "mapping", "checkpoint"}
)


def data_digest(bags: Bags, y: NDArray[np.int64], classes: Sequence[str]) -> str:
    """Return the SHA-256 of a labelled collection, as hexadecimal digits.

    The digests of the images stand for the descriptors when it is known what made these;
    otherwise the descriptors are read and hashed themselves.

    Examples
    --------
    >>> import numpy as np
    >>> bags = Bags.from_list([np.zeros((2, 3)), np.ones((4, 3))])
    >>> first = data_digest(bags, np.array([0, 1]), ["a", "b"])
    >>> first == data_digest(bags, np.array([0, 1]), ["a", "b"]), len(first)
    (True, 64)
    >>> first == data_digest(bags, np.array([1, 0]), ["a", "b"])
    False
    """
    about = [bags.dtype.str, bags.n_dims, bags.scale, canonical(bags.description), list(classes)]
    found = hashlib.sha256(json.dumps(about).encode())
    found.update(bags.counts.astype("<i8").tobytes())
    found.update(y.astype("<i8").tobytes())
    if bags.digests is not None and bags.description is not None:
        found.update(b"digests" + bags.digests.astype("<u8").tobytes())
    else:
        found.update(b"values")
        for start, stop in bags.blocks(_HASH_ROWS):
            found.update(bags.read(start, stop, bags.dtype).tobytes())
    return found.hexdigest()


def codebook_digest(codebook: Codebook) -> str:
    """Return the SHA-256 of what a codebook codes with: its words, their order and their unit.

    Examples
    --------
    >>> import numpy as np
    >>> book = Codebook(np.eye(3))
    >>> codebook_digest(book) == codebook_digest(book.only([2, 1, 0]))
    False
    """
    about = [codebook.words.shape, codebook.scale, codebook.metric]
    found = hashlib.sha256(json.dumps(about).encode())
    found.update(codebook.ids.astype("<i8").tobytes())
    found.update(codebook.words.astype("<f4").tobytes())
    return found.hexdigest()


def settings(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator that its result depends on, as JSON knows them.

    Examples
    --------
    >>> from bowsaw.evaluation.classify import HistogramClassifier
    >>> settings(HistogramClassifier(C=2.0, cv=3, n_jobs=8))
    {'C': 2.0, 'cv': 3, 'grid': None, 'max_iter': 2000, 'tol': 0.001}
    """
    found = estimator.get_params(deep=False)
    return {name: plain(found[name]) for name in sorted(found.keys() - _NOT_SETTINGS)}


def plain(value: Any) -> Any:
    """Return a parameter as JSON knows it: numbers, texts, lists; else its ``repr``.

    Examples
    --------
    >>> plain((np.float32(0.5), "auto", None))
    [0.5, 'auto', None]
    """
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


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


def fingerprint(**parts: Any) -> str:
    """Return the SHA-256 of named JSON-able parts, whatever their order.

    Examples
    --------
    >>> fingerprint(seed=0, train=5) == fingerprint(train=5, seed=0)
    True
    """
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
