"""scikit-learn's k-means, as an object and as a skops file.

``from_sklearn`` takes the centres of a fitted ``KMeans`` or ``MiniBatchKMeans``; ``to_sklearn``
gives a fitted ``KMeans`` whose ``predict`` names, for descriptors in the codebook's units, the
position of the nearest word, as hard coding does.

A skops file is a zip of ``schema.json``, which tells how an object was made of parts, and a
``.npy`` file for each array. ``skops.io.load`` builds the object, once its types are trusted. Here
nothing is built: the schema is read as data, and if it is a k-means, the member that holds its
``cluster_centers_`` is read as an array. A pickle is never opened, whatever it is called.
"""

from __future__ import annotations

import importlib
import io
import json
import warnings
import zipfile
from os import PathLike
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from bowsaw.checkpoint import atomic_write
from bowsaw.codebook import Codebook
from bowsaw.errors import FormatError, ParameterError
from bowsaw.formats.bounded import Archive, RefusedError, shown
from bowsaw.formats.matrices import Axes, Matrices
from bowsaw.formats.numpy_files import array_of

SCHEMA = "schema.json"
_KINDS = ("KMeans", "MiniBatchKMeans")
_CENTRES = "cluster_centers_"
_MOST_SCHEMA = 2**24


def from_sklearn(estimator: Any, *, scale: float | None = None) -> Codebook:
    """Return the centres of a fitted k-means as a codebook.

    Parameters
    ----------
    estimator : sklearn.cluster.KMeans or MiniBatchKMeans
        Fitted.
    scale : float, optional
        Stored value / scale is in unit-norm units; unknown by default, and then the codebook fits
        descriptors in just the units that the estimator was fitted in.

    Examples
    --------
    >>> import bowsaw as bs
    >>> from sklearn.cluster import KMeans
    >>> kmeans = KMeans(2, n_init=1, random_state=0).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> sorted(bs.from_sklearn(kmeans).words.ravel().tolist())
    [0.5, 9.5]
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    kind = type(estimator).__name__
    if not isinstance(estimator, (KMeans, MiniBatchKMeans)):
        raise ParameterError(
            f"estimator must be a fitted KMeans or MiniBatchKMeans of scikit-learn's; got {kind}."
        )
    if not hasattr(estimator, _CENTRES):
        raise ParameterError(f"the {kind} is not fitted, so it has no words. Call fit first.")
    centres = np.asarray(estimator.cluster_centers_)
    found = Matrices(f"scikit-learn {kind}", Axes.ROWS, {_CENTRES: centres})
    return found.codebook(f"the {kind}", scale=scale)


def to_sklearn(codebook: Codebook, *, dtype: DTypeLike = np.float64) -> Any:
    """Return a fitted ``KMeans`` whose centres are the words, in their order and stored units.

    It is fitted to the words themselves: ``labels_`` are their positions.

    Parameters
    ----------
    codebook : Codebook
        The words.
    dtype : {float64, float32}, default=float64
        Of the centres. scikit-learn predicts for descriptors of the same type alone; it turns
        lists and whole numbers into float64.

    Examples
    --------
    >>> import bowsaw as bs
    >>> bs.to_sklearn(bs.Codebook([[0.0], [4.0]])).predict([[3.0], [1.0]]).tolist()
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
    # The words are kept once, and not as a parameter; whoever fits again, begins as usual.
    kmeans.set_params(**KMeans(codebook.n_words).get_params())
    # The fit has centred the words and moved them back, which rounds.
    kmeans.cluster_centers_ = words
    kmeans.labels_ = np.arange(codebook.n_words, dtype=np.int32)
    kmeans.inertia_ = 0.0
    return kmeans


def read_skops(file: BinaryIO) -> Matrices:
    """Return the centres of the k-means in a skops file, building nothing."""
    archive = Archive(file)
    if SCHEMA not in archive.names:
        raise FormatError(f"it is a zip file without {SCHEMA}, so not of skops")
    text = archive.read(SCHEMA)
    if len(text) > _MOST_SCHEMA:
        raise FormatError(f"its schema of {len(text):,} bytes is longer than {_MOST_SCHEMA:,}")
    try:
        schema = json.loads(text)
        kind, parts = schema["__class__"], schema["content"]["content"]
        module = schema["__module__"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError("its schema is not that of an estimator") from error
    if kind not in _KINDS or not str(module).startswith("sklearn.cluster"):
        raise RefusedError(
            f"it holds a {shown(module)}.{shown(kind)}; {' and '.join(_KINDS)} of "
            "scikit-learn's are read",
            "Save the k-means alone.",
        )
    centres = parts.get(_CENTRES) if isinstance(parts, dict) else None
    if not isinstance(centres, dict):
        raise FormatError(f"its {kind} has no {_CENTRES}: it is not fitted")
    member = centres.get("file")
    if centres.get("type") != "numpy" or member not in archive.names:
        raise FormatError(f"its {_CENTRES} are not a NumPy array in the file")
    array = array_of(io.BytesIO(archive.read(member)))
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise FormatError(f"its {_CENTRES} are {array.dtype} of shape {array.shape}")
    return Matrices(f"skops {kind}", Axes.ROWS, {_CENTRES: array})


def write_skops(codebook: Codebook, path: str | PathLike[str]) -> None:
    """Write ``to_sklearn`` of the codebook with skops, which must be installed."""
    data = _skops().dumps(to_sklearn(codebook), compression=zipfile.ZIP_DEFLATED)
    with atomic_write(path) as file:
        file.write(data)


def _skops() -> ModuleType:
    try:
        return importlib.import_module("skops.io")
    except ImportError as error:
        raise ParameterError(
            "writing .skops needs skops, which is not installed. Install it with «pip install "
            "bowsaw[skops]», or save as .npz."
        ) from error
