"""The Bag-of-Words classes of OpenCV 4, for programs that run on OpenCV 5.

- The trainer passes all added descriptors to ``cv2.kmeans``, which draws from OpenCV's own
  generator (``cv2.setRNGSeed``).
- The extractor asks the matcher for the word of each keypoint's descriptor and counts. With n
  descriptors, c of which are nearest to a word, its bin is c · (1/n), both as float32. (That is how
  OpenCV divides a matrix by a number; c/n differs in the last bit for about every other n.)

Names, argument order, shapes, dtypes, aliasing and what is ``None`` are those of the Python binding
of OpenCV 4.14. ``tests/compat`` compares with figures that OpenCV 4 computed, to the bit.

Departures: an error names the remedy, and is both OpenCV's class of error and ours, so ``except
cv2.error`` catches it; initial labels, which cannot be passed, are refused, where OpenCV read
uninitialised memory; anything that has the methods of a feature or of a matcher is accepted as one.
"""

# The names of the methods are OpenCV's.
# ruff: noqa: N802

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from bowsaw.codebook import Codebook
from bowsaw.descriptors.opencv import OpenCvFeatures
from bowsaw.errors import DataError, ParameterError

TermCriteria = tuple[int, int, float]
"""When ``cv2.kmeans`` stops: the kinds, the number of iterations, the distance."""
_ADDED: Any = object()
"""Stands for the descriptors that were added, since OpenCV refused None."""


class OpenCvDataError(DataError, cv2.error):
    """Data that OpenCV's classes refused too; both kinds of ``except`` catch it."""


class OpenCvArgumentError(ParameterError, TypeError):
    """An argument of the wrong type, for which OpenCV raised a TypeError."""


class BOWTrainer:
    """Descriptors to cluster: the base of every trainer."""

    def __init__(self) -> None:
        self._descriptors: list[NDArray[Any]] = []

    def add(self, descriptors: NDArray[Any]) -> None:
        """Add the descriptors of one image, ``(n, n_dims)``; the array is kept, not copied."""
        if descriptors is None or not np.size(descriptors):
            raise OpenCvDataError(
                f"descriptors must hold at least one row; got {_shape(descriptors)}. Leave out the "
                "images without keypoints, which have no descriptors."
            )
        rows = _as_matrix(descriptors, "descriptors")
        if self._descriptors:
            first = _as_matrix(self._descriptors[0], "descriptors")
            if (first.shape[1], first.dtype) != (rows.shape[1], rows.dtype):
                raise OpenCvDataError(
                    f"descriptors must have {first.shape[1]} columns of {first.dtype}, as those "
                    f"added before; got {rows.shape[1]} of {rows.dtype}. Use one feature for all "
                    "images, or call clear()."
                )
        self._descriptors.append(descriptors)

    def clear(self) -> None:
        """Forget every descriptor."""
        self._descriptors.clear()

    def descriptorsCount(self) -> int:
        """Return how many descriptors have been added."""
        return sum(len(rows) for rows in self._descriptors)

    def getDescriptors(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that were added."""
        return tuple(self._descriptors)

    def cluster(self, descriptors: NDArray[np.float32] = _ADDED) -> NDArray[np.float32]:
        """Return the words of these descriptors, or of those added before."""
        raise NotImplementedError("BOWTrainer has no method of its own; use BOWKMeansTrainer.")


class BOWKMeansTrainer(BOWTrainer):
    """k-means on the descriptors of many images, as ``cv2.BOWKMeansTrainer`` did it.

    Parameters
    ----------
    clusterCount : int
        How many words to make.
    termcrit : (int, int, float) or None, default=None
        When ``cv2.kmeans`` stops: kinds, iterations, distance. None is its own default: 100
        iterations, or until no word moves.
    attempts : int, default=3
        How many starts; the most compact result is kept.
    flags : int, default=cv2.KMEANS_PP_CENTERS
        ``cv2.KMEANS_PP_CENTERS`` or ``cv2.KMEANS_RANDOM_CENTERS``.

    See Also
    --------
    bowsaw.KMeansCodebook : bowsaw's own, seeded, on every core, for descriptors on disk.

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> from bowsaw.compat.opencv import BOWKMeansTrainer
    >>> cv2.setRNGSeed(0)
    >>> trainer = BOWKMeansTrainer(2)
    >>> trainer.add(np.array([[0, 0], [0, 2]], np.float32))
    >>> trainer.add(np.array([[9, 9], [9, 7]], np.float32))
    >>> trainer.descriptorsCount()
    4
    >>> sorted(trainer.cluster().tolist())
    [[0.0, 1.0], [9.0, 8.0]]
    """

    def __init__(
        self,
        clusterCount: int,
        termcrit: TermCriteria | None = None,
        attempts: int = 3,
        flags: int = cv2.KMEANS_PP_CENTERS,
    ) -> None:
        super().__init__()
        self._n_words = _as_int(clusterCount, "clusterCount")
        self._attempts = _as_int(attempts, "attempts")
        self._flags = _as_int(flags, "flags")
        self._termcrit = (0, 0, 0.0) if termcrit is None else termcrit
        if not isinstance(self._termcrit, Sequence) or len(self._termcrit) != 3:
            raise OpenCvArgumentError(
                "termcrit must be three numbers (kinds, iterations, distance) such as "
                f"(cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_COUNT, 10, 1.0); got {termcrit!r}."
            )
        if self._flags & cv2.KMEANS_USE_INITIAL_LABELS:
            raise OpenCvDataError(
                f"flags must not contain KMEANS_USE_INITIAL_LABELS (got {self._flags}): a trainer "
                "has no labels to begin with. Use KMEANS_PP_CENTERS, or cv2.kmeans with labels."
            )

    def cluster(self, descriptors: NDArray[np.float32] = _ADDED) -> NDArray[np.float32]:
        """Return the words, ``(clusterCount, n_dims)`` float32.

        Parameters
        ----------
        descriptors : ndarray of float32, shape (n, n_dims), optional
            What to cluster; they are not added. By default those that were added.
        """
        given = self._descriptors if descriptors is _ADDED else [descriptors]
        if not any(np.size(rows) for rows in given if rows is not None):
            raise OpenCvDataError("there must be descriptors to cluster; got none. Call add first.")
        rows = np.concatenate([_as_matrix(array, "descriptors") for array in given])
        if rows.dtype != np.float32:
            raise OpenCvDataError(
                f"descriptors must be float32 to be clustered; got {rows.dtype}. Convert them with "
                "descriptors.astype(np.float32)."
            )
        if not 1 <= self._n_words <= len(rows):
            raise OpenCvDataError(
                f"clusterCount must be between 1 and {len(rows)} (the number of descriptors); got "
                f"{self._n_words}. Ask for fewer words or add more descriptors."
            )
        if not np.isfinite(rows).all():
            raise OpenCvDataError(
                f"descriptors must be finite; got {int((~np.isfinite(rows)).sum())} values that "
                "are NaN or infinite. Leave out their rows."
            )
        labels = np.empty((len(rows), 1), np.int32)
        how = (self._termcrit, self._attempts, self._flags)
        return np.asarray(cv2.kmeans(rows, self._n_words, labels, *how)[2], np.float32)


class BOWImgDescriptorExtractor:
    """One histogram of words per image, as ``cv2.BOWImgDescriptorExtractor`` made it.

    Parameters
    ----------
    dextractor : cv2.Feature2D
        Describes keypoints, such as ``cv2.SIFT_create()``.
    dmatcher : cv2.DescriptorMatcher
        Finds the nearest word, such as ``cv2.BFMatcher(cv2.NORM_L2)``. Its own words are replaced
        by the vocabulary.

    See Also
    --------
    bowsaw.BagOfWords : bowsaw's own, for many images at once.

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> from bowsaw.compat.opencv import BOWImgDescriptorExtractor
    >>> noise = np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)
    >>> sift = cv2.SIFT_create()
    >>> keypoints, descriptors = sift.detectAndCompute(noise, None)
    >>> extractor = BOWImgDescriptorExtractor(sift, cv2.BFMatcher(cv2.NORM_L2))
    >>> extractor.setVocabulary(descriptors[:4])
    >>> histogram = extractor.compute(noise, keypoints)
    >>> histogram.shape, histogram.dtype.name, round(float(histogram.sum()), 4)
    ((1, 4), 'float32', 1.0)
    """

    def __init__(self, dextractor: Any, dmatcher: Any) -> None:
        _check_methods(dextractor, ("compute",), "dextractor", "a cv2.Feature2D")
        _check_methods(dmatcher, ("clear", "add", "match"), "dmatcher", "a cv2.DescriptorMatcher")
        self._feature = dextractor
        self._matcher = dmatcher
        self._vocabulary: NDArray[Any] | None = None

    def setVocabulary(self, vocabulary: NDArray[Any] | None) -> None:
        """Use these words, one per row; the array is kept, not copied. None takes them away."""
        if vocabulary is not None:
            _as_matrix(vocabulary, "vocabulary")
        self._matcher.clear()
        self._vocabulary = vocabulary
        if vocabulary is not None:
            self._matcher.add([vocabulary])

    def getVocabulary(self) -> NDArray[Any] | None:
        """Return the words, or None before there are any."""
        return self._vocabulary

    def descriptorSize(self) -> int:
        """Return the number of words, 0 before there are any."""
        return 0 if self._vocabulary is None else len(self._vocabulary)

    def descriptorType(self) -> int:
        """Return OpenCV's number for float32."""
        return int(cv2.CV_32F)

    def compute(
        self,
        image: NDArray[Any],
        keypoints: Sequence[cv2.KeyPoint],
        imgDescriptor: NDArray[Any] | None = None,
    ) -> NDArray[np.float32] | None:
        """Return the share of each word among the keypoints' descriptors.

        Parameters
        ----------
        image : ndarray of uint8
            The image.
        keypoints : sequence of cv2.KeyPoint
            Where to describe it.
        imgDescriptor : ndarray, optional
            As in OpenCV 4, where nothing was written into it.

        Returns
        -------
        ndarray of float32, shape (1, n_words), or None
            None without keypoints. It sums to 1.
        """
        if keypoints is None or not len(keypoints):
            return None
        words = self._vocabulary
        if words is None or not words.size:
            raise OpenCvDataError(
                "the extractor has no words; got none or an empty array. Call setVocabulary with "
                "the array that BOWKMeansTrainer.cluster() returns."
            )
        _, descriptors = self._feature.compute(image, keypoints)
        if descriptors is None or not len(descriptors):
            raise OpenCvDataError(
                f"none of the {len(keypoints)} keypoints could be described. Leave this image out, "
                "or detect keypoints farther from the border."
            )
        if (words.shape[1:], words.dtype) != (descriptors.shape[1:], descriptors.dtype):
            raise OpenCvDataError(
                f"the words must be like the descriptors, {_kind(descriptors)}; got "
                f"{_kind(words)}. Train them with the same feature."
            )
        counts = np.zeros((1, len(words)), np.float32)
        for i, match in enumerate(self._matcher.match(descriptors)):
            if match.queryIdx != i:
                raise OpenCvDataError(
                    f"the matcher found no word for descriptor {i} of {len(descriptors)}. Use one "
                    "that always finds a word, such as cv2.BFMatcher with crossCheck=False."
                )
            counts[0, match.trainIdx] += 1
        return counts * np.float32(1 / len(descriptors))


def to_codebook(
    vocabulary: NDArray[np.float32], feature: cv2.Feature2D, **provenance: Any
) -> Codebook:
    """Return a vocabulary of OpenCV as a codebook, which bowsaw can code with, prune and save.

    Parameters
    ----------
    vocabulary : ndarray of shape (n_words, n_dims)
        One word per row.
    feature : cv2.Feature2D
        What described the keypoints; it gives the unit of the words (512 for SIFT).
    **provenance : JSON-able values
        More on how the words were made.

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> from bowsaw.compat.opencv import to_codebook, to_vocabulary
    >>> book = to_codebook(np.full((3, 128), 45, np.float32), cv2.SIFT_create())
    >>> book
    Codebook(3 words of 128, scale 512)
    >>> to_vocabulary(book).shape
    (3, 128)
    """
    features = OpenCvFeatures(feature)
    features.validate()
    words = _as_matrix(vocabulary, "vocabulary")
    if words.shape[1] != features.n_dims:
        raise DataError(
            f"vocabulary must have {features.n_dims} columns, the dimensions of the feature's "
            f"descriptors; got {_shape(vocabulary)}. Rows are words: is the array transposed?"
        )
    return Codebook(words, scale=features.scale, provenance={"from": "opencv", **provenance})


def to_vocabulary(codebook: Codebook) -> NDArray[np.float32]:
    """Return the words of a codebook as an array for ``setVocabulary``, in the feature's units."""
    return np.array(codebook.words, np.float32)


def _as_matrix(array: Any, name: str) -> NDArray[Any]:
    """Return an array of one or two dimensions as rows; a flat one is a column, as in OpenCV 4."""
    if not isinstance(array, np.ndarray):
        raise OpenCvArgumentError(
            f"{name} must be a numpy array with one row per descriptor; got {type(array).__name__}."
        )
    if array.ndim not in (1, 2):
        raise OpenCvDataError(
            f"{name} must have two dimensions, (rows, columns); got {_shape(array)}. Reshape it."
        )
    return array if array.ndim == 2 else array.reshape(-1, 1)


def _as_int(value: Any, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise OpenCvArgumentError(f"{name} must be an integer; got {value!r}.")
    return int(value)


def _check_methods(thing: Any, methods: tuple[str, ...], name: str, kind: str) -> None:
    missing = [method for method in methods if not callable(getattr(thing, method, None))]
    if missing:
        raise OpenCvArgumentError(
            f"{name} must be {kind} or have its methods; got {type(thing).__name__} without "
            f"{', '.join(missing)}. The feature comes first, the matcher second."
        )


def _shape(array: Any) -> str:
    return "×".join(map(str, np.shape(array))) if isinstance(array, np.ndarray) else repr(array)


def _kind(rows: NDArray[Any]) -> str:
    return f"{'×'.join(map(str, rows.shape[1:])) or 1} numbers of {rows.dtype}"
