"""scikit-learn's k-means, as an object and as a skops file.

A skops file is a zip of ``schema.json``, which describes how an object is built from parts, and a
``.npy`` file per array. ``skops.io.load`` builds the object, once its types are trusted. Here
nothing is built: the schema is read as data, and if it is a k-means, the member that holds its
``cluster_centers_`` is read as an array. A pickle is never opened, whatever its name.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.numpy_files import archived_array
from bowsaw.formats.reader import Axes, Matrices, UnsupportedError, open_archive, printable

SCHEMA = "schema.json"
_CLASSES = ("KMeans", "MiniBatchKMeans")
_CENTRES = "cluster_centers_"
_MAX_SCHEMA = 2**24


def from_sklearn(estimator: Any, *, scale: float | None = None) -> Codebook:
    """Return the centres of a fitted k-means as a codebook.

    Parameters
    ----------
    estimator : sklearn.cluster.KMeans or MiniBatchKMeans
        Fitted.
    scale : float, optional
        Stored value / scale is in unit-norm units. Unknown by default; the codebook then fits
        descriptors in the units that the estimator was fitted to.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> kmeans = KMeans(2, n_init=1, random_state=0).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> sorted(from_sklearn(kmeans).words.ravel().tolist())
    [0.5, 9.5]
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    title = type(estimator).__name__
    if not isinstance(estimator, (KMeans, MiniBatchKMeans)):
        raise ParameterError(
            f"estimator must be a fitted KMeans or MiniBatchKMeans of scikit-learn; got {title}."
        )
    if not hasattr(estimator, _CENTRES):
        raise ParameterError(f"the {title} is not fitted, so it has no words. Call fit first.")
    centres = np.asarray(estimator.cluster_centers_)
    found = Matrices(f"scikit-learn {title}", Axes.ROWS, {_CENTRES: centres})
    return found.codebook(f"the {title}", scale=scale)


def to_sklearn(codebook: Codebook, *, dtype: DTypeLike = np.float64) -> Any:
    """Return a fitted ``KMeans`` whose centres are the words, in their order and stored units.

    It is fitted to the words themselves: ``labels_`` are their positions.

    Parameters
    ----------
    codebook : Codebook
        The words.
    dtype : {float64, float32}, default=float64
        Of the centres. scikit-learn predicts only for descriptors of the same dtype; it converts
        lists and integers to float64.

    Examples
    --------
    >>> to_sklearn(Codebook([[0.0], [4.0]])).predict([[3.0], [1.0]]).tolist()
    [1, 0]
    """
    from sklearn.cluster import KMeans

    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ParameterError(f"dtype must be float64 or float32; got {dtype!r}.")
    words = codebook.words.astype(dtype)
    kmeans = KMeans(codebook.n_words, init=words, n_init=1, max_iter=1)
    with warnings.catch_warnings():
        # Words that are equal make fewer clusters than asked for.
        warnings.simplefilter("ignore")
        kmeans.fit(words)
    # The words are kept once, not as a parameter; fitting again starts as usual.
    kmeans.set_params(**KMeans(codebook.n_words).get_params())
    # The fit has centred the words and moved them back, which rounds.
    kmeans.cluster_centers_ = words
    kmeans.labels_ = np.arange(codebook.n_words, dtype=np.int32)
    kmeans.inertia_ = 0.0
    return kmeans


def read_skops(file: BinaryIO) -> Matrices:
    """Return the centres of the k-means in a skops file, building nothing."""
    archive = open_archive(file)
    if SCHEMA not in archive.members:
        raise FormatError(f"it is a zip file without {SCHEMA}, so not of skops")
    try:
        text = archive.read(SCHEMA)
        if len(text) > _MAX_SCHEMA:
            raise ValueError(f"{len(text):,} bytes are more than {_MAX_SCHEMA:,}")
        schema = json.loads(text)
        title, parts = schema["__class__"], schema["content"]["content"]
        module = schema["__module__"]
    except Exception as error:
        # Damaged bytes make zipfile raise many kinds of exceptions.
        raise FormatError(
            f"its schema is not that of an estimator ({printable(error, 200)})"
        ) from error
    if title not in _CLASSES or not str(module).startswith("sklearn.cluster"):
        raise UnsupportedError(
            f"it holds a {printable(module)}.{printable(title)}; {' and '.join(_CLASSES)} of "
            "scikit-learn are read",
            "Save the k-means alone.",
        )
    centres = parts.get(_CENTRES) if isinstance(parts, dict) else None
    if not isinstance(centres, dict):
        raise FormatError(f"its {title} has no {_CENTRES}: it is not fitted")
    member = centres.get("file")
    if centres.get("type") != "numpy" or member not in archive.members:
        raise FormatError(f"its {_CENTRES} are not a NumPy array in the file")
    array = archived_array(archive, member.removesuffix(".npy"))
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise FormatError(f"its {_CENTRES} are {array.dtype} of shape {array.shape}")
    return Matrices(f"skops {title}", Axes.ROWS, {_CENTRES: array})


def write_skops(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write ``to_sklearn`` of the codebook with skops, which must be installed."""
    try:
        from skops.io import dumps
    except ImportError as error:
        raise ParameterError(
            "writing .skops needs skops, which is not installed. Install it with "
            "'pip install bowsaw[skops]', or save as .npz."
        ) from error
    data = dumps(to_sklearn(codebook), compression=zipfile.ZIP_DEFLATED)
    with atomic_write(path) as file:
        file.write(data)
