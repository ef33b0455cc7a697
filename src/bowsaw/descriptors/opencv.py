"""Any float descriptor of OpenCV, as a transformer from images to Bags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from bowsaw.descriptors.base import Descriptor, Descriptors, Positions
from bowsaw.errors import ParameterError
from bowsaw.validation import check_real

SIFT_SCALE = 512.0


class OpenCvFeatures(Descriptor):
    """Keypoints and descriptors of a ``cv2.Feature2D``.

    Parameters
    ----------
    feature : cv2.Feature2D
        A detector and descriptor with float descriptors, such as ``cv2.SIFT_create()``. Binary ones
        (ORB, BRISK, AKAZE) are refused: their distance is not Euclidean.
    norm : float or None, default=None
        The norm of the feature's descriptors, which is 1 in distances. None is 512 for SIFT and 1
        for others.
    max_side : int or None, default=300
        Images are reduced so that the longest side has at most this many pixels.
    max_pixels : int, default=100_000_000
        A file that claims more pixels is refused before it is decoded.
    on_error : {"raise", "empty"}, default="raise"
        What ``transform`` does with a file that cannot be used.
    n_jobs : int or None, default=None
        Threads. One by default, unlike elsewhere: OpenCV's own threads already share the work of
        one image.
    verbose : bool, default=False
        Show progress on a terminal.

    Notes
    -----
    An image without keypoints gives an empty bag. Keypoints are sorted (y, x, size, angle, then
    response), so that the order does not depend on OpenCV's threads.

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> noise = np.random.default_rng(0).integers(0, 256, (64, 64)).astype(np.uint8)
    >>> bags = bs.OpenCvFeatures(cv2.SIFT_create()).transform([noise])
    >>> bags.n_dims, bags.scale, bags.n_descriptors > 0
    (128, 512.0, True)
    """

    def __init__(
        self,
        feature: Any,
        *,
        norm: float | None = None,
        max_side: int | None = 300,
        max_pixels: int = 100_000_000,
        on_error: Literal["raise", "empty"] = "raise",
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.feature = feature
        self.norm = norm
        self.max_side = max_side
        self.max_pixels = max_pixels
        self.on_error = on_error
        self.n_jobs = n_jobs
        self.verbose = verbose

    def validate(self) -> None:
        """Raise a ParameterError when the feature cannot be used."""
        super().validate()
        if not isinstance(self.feature, cv2.Feature2D):
            raise ParameterError(
                "feature must be a cv2.Feature2D such as cv2.SIFT_create(); got "
                f"{type(self.feature).__name__}."
            )
        if not self.feature.descriptorSize():
            raise ParameterError(
                f"{_class_name(self.feature)} finds keypoints but does not describe them. Use a "
                "feature with descriptors such as SIFT."
            )
        if self.feature.defaultNorm() != cv2.NORM_L2:
            raise ParameterError(
                f"{_class_name(self.feature)} has binary descriptors, whose distance is not "
                "Euclidean. Use a float descriptor such as SIFT."
            )
        if self.norm is not None:
            check_real(self.norm, "norm", 0, open_low=True)

    def description(self) -> dict[str, Any]:
        """Return the feature's class and every parameter that it has a getter for."""
        return {
            "name": "opencv",
            "version": 1,
            "feature": _class_name(self.feature),
            "parameters": _parameters(self.feature),
            "max_side": None if self.max_side is None else int(self.max_side),
        }

    @property
    def scale(self) -> float:
        """The norm that is 1 in distances."""
        if self.norm is not None:
            return float(self.norm)
        return SIFT_SCALE if _class_name(self.feature) == "SIFT" else 1.0

    def __sklearn_clone__(self) -> OpenCvFeatures:
        """Share the feature: OpenCV's objects cannot be copied."""
        return type(self)(**self.get_params(deep=False))

    @property
    def n_dims(self) -> int:
        """Dimensions of one descriptor."""
        return int(self.feature.descriptorSize())

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Always float32."""
        return np.dtype(np.float32)

    def describe(self, grey: NDArray[np.uint8]) -> tuple[Descriptors, Positions]:
        """Detect and describe the keypoints of one grey image."""
        keypoints, values = self.feature.detectAndCompute(grey, None)
        if values is None or not len(keypoints):
            return np.empty((0, self.n_dims), np.float32), np.empty((0, 3), np.float32)
        table = np.array([(k.pt[1], k.pt[0], k.size, k.angle, k.response) for k in keypoints])
        order = np.lexsort(table.T[::-1])
        positions = table[order][:, [1, 0, 2]].astype(np.float32)
        return np.ascontiguousarray(values[order], dtype=np.float32), positions


def _class_name(feature: Any) -> str:
    return type(feature).__name__.removeprefix("Feature2D_")


def _parameters(feature: Any) -> dict[str, Any]:
    """Read every getter without arguments whose value is a number or text."""
    found: dict[str, Any] = {}
    for name in sorted(dir(feature)):
        if name.startswith("get") and name not in ("getDefaultName",):
            try:
                value = getattr(feature, name)()
            except (cv2.error, TypeError):
                continue
            if isinstance(value, (bool, int, float, str)):
                found[name.removeprefix("get")] = value
            elif isinstance(value, Sequence) and all(isinstance(v, (int, float)) for v in value):
                found[name.removeprefix("get")] = list(value)
    return found
