"""The base class of descriptors: reading images, and one bag per image in order."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from bowsaw.bags import Bags
from bowsaw.errors import DataError, ImageError
from bowsaw.images.decode import GreyImage, read_image
from bowsaw.parallel import ordered_map
from bowsaw.progress import CallbackSupport, Progress, fit_task, with_callbacks
from bowsaw.validation import check_choice, check_int

Descriptors = NDArray[Any]
"""``(n, n_dims)``, in the descriptor's dtype and stored units."""

Positions = NDArray[np.float32]
"""``(n, 3)``: x and y of the centre and the side of the square patch, in pixels of the resized
image; (0, 0) is the centre of the top left pixel."""


class Descriptor(CallbackSupport, TransformerMixin, BaseEstimator, ABC):
    """A transformer from images to Bags.

    A subclass defines ``description``, ``scale``, ``stored_dtype``, ``n_dims``, the smallest side
    of an image (``min_side``), and ``describe`` for one grey image. It has the parameters
    ``max_side``, ``max_pixels``, ``on_error``, ``n_jobs`` and ``verbose``.
    """

    max_side: int | None
    max_pixels: int
    on_error: Literal["raise", "empty"]
    n_jobs: int | None
    verbose: bool | int

    def __init_subclass__(cls, **more: Any) -> None:
        """Keep scikit-learn from turning results into tables."""
        super().__init_subclass__(auto_wrap_output_keys=None, **more)

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return the name and the parameters that define the descriptor, JSON-able."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Stored value / scale is in unit-norm units."""

    @property
    @abstractmethod
    def n_dims(self) -> int:
        """Dimensions of one descriptor."""

    @property
    @abstractmethod
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of ``describe``'s result."""

    @property
    def min_side(self) -> int:
        """The smallest side of an image that can be described, after resizing."""
        return 1

    @abstractmethod
    def describe(self, grey: NDArray[np.uint8]) -> tuple[Descriptors, Positions]:
        """Return the descriptors of one grey image, and their positions."""

    def validate(self) -> None:
        """Raise a ParameterError when a parameter is out of range."""
        check_choice(self.on_error, "on_error", ("raise", "empty"))
        if self.max_side is not None:
            check_int(self.max_side, "max_side", 1, remedy="Give pixels, or None.")
        check_int(self.max_pixels, "max_pixels", 1)

    def load(self, source: Any) -> GreyImage:
        """Read one image as this descriptor needs it, or raise an ImageError with the reason."""
        image = read_image(source, max_side=self.max_side, max_pixels=self.max_pixels)
        side = min(image.grey.shape)
        if side < self.min_side:
            raise ImageError(
                image.path,
                f"too small: {image.grey.shape[1]}×{image.grey.shape[0]} pixels after "
                f"resizing, and a patch needs {self.min_side}",
            )
        return image

    @with_callbacks
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters; there is nothing to learn."""
        with fit_task(self, X=X, y=y):
            self.validate()
        return self

    def transform(self, X: Iterable[Any]) -> Bags:
        """Describe images.

        Parameters
        ----------
        X : ImageFolder or iterable of paths or arrays
            Arrays are grey ``(height, width)``, RGB or RGBA ``(height, width, 3 or 4)``.

        Returns
        -------
        Bags
            One bag per image, in order.
        """
        self.validate()
        if isinstance(X, (str, bytes, PathLike)):
            raise DataError(
                f"expected images, one path or array each; got a single {X!r:.80}. Give a folder "
                "of classes as ImageFolder(folder), a single file as [path]."
            )
        sources = list(getattr(X, "paths", X))

        def one(source: Any) -> tuple[Descriptors, int | None, str]:
            try:
                image = self.load(source)
                return self.describe(image.grey)[0], image.digest, ""
            except ImageError as error:
                if self.on_error == "raise":
                    raise
                nothing = np.empty((0, self.n_dims), dtype=self.stored_dtype)
                return nothing, 0, str(error)

        rows: list[Descriptors] = []
        digests: list[int | None] = []
        with Progress("describing", len(sources), show=bool(self.verbose)) as bar:
            for descriptors, digest, failure in bar.track(ordered_map(one, sources, self.n_jobs)):
                if failure:
                    warnings.warn(f"{failure} Its bag is empty.", UserWarning, stacklevel=3)
                rows.append(descriptors)
                digests.append(digest)
        values = np.concatenate([np.empty((0, self.n_dims), dtype=self.stored_dtype), *rows])
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        known = [d for d in digests if d is not None]
        names = np.array(known, dtype=np.uint64) if len(known) == len(rows) else None
        about = self.description()
        return Bags(values, offsets, scale=self.scale, description=about, digests=names)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return ``dim000`` and so on, so that a pipeline can name its words."""
        return np.array([f"dim{i:03d}" for i in range(self.n_dims)], dtype=object)

    def set_output(self, *, transform: Any = None) -> Self:
        """Change nothing: Bags are not a table, whatever the rest of a pipeline returns."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags
