"""What every descriptor shares: reading pictures, never slipping a row, the shape of a result."""

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
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.images.decode import GreyImage, read_image
from bowsaw.parallel import ordered_map
from bowsaw.progress import CallbackSupport, Progress, fit_task, with_callbacks
from bowsaw.validation import check_int

Descriptors = NDArray[Any]
"""``(n, n_dims)``, in the descriptor's dtype and stored units."""

Positions = NDArray[np.float32]
"""``(n, 3)``: x and y of the centre and the side of the square patch, in pixels of the resized
picture; (0, 0) is the centre of the top left pixel."""


class Descriptor(CallbackSupport, TransformerMixin, BaseEstimator, ABC):
    """A transformer from pictures to Bags.

    Subclasses say what they are (``description``, ``scale``, ``dtype``, ``n_dims``), what they need
    of a picture (``min_side``), and describe one grey picture. They have the parameters
    ``max_side``, ``max_pixels``, ``on_error``, ``n_jobs`` and ``verbose``.
    """

    max_side: int | None
    max_pixels: int
    on_error: Literal["raise", "empty"]
    n_jobs: int | None
    verbose: bool | int

    def __init_subclass__(cls, **more: Any) -> None:
        """Keep scikit-learn from turning results into tables: Bags are none."""
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
        """The smallest side of a picture that can be described, after resizing."""
        return 1

    @abstractmethod
    def describe(self, grey: NDArray[np.uint8]) -> tuple[Descriptors, Positions]:
        """Describe one grey picture: descriptors and their positions."""

    def validate(self) -> None:
        """Raise a ParameterError when a parameter is out of range."""
        if self.on_error not in ("raise", "empty"):
            raise ParameterError(f"on_error must be 'raise' or 'empty'; got {self.on_error!r}.")
        if self.max_side is not None:
            check_int(self.max_side, "max_side", 1, remedy="Give pixels, or None.")
        check_int(self.max_pixels, "max_pixels", 1)

    def load(self, source: Any) -> GreyImage:
        """Read one picture as this descriptor wants it, or raise an ImageError with the reason."""
        picture = read_image(source, max_side=self.max_side, max_pixels=self.max_pixels)
        side = min(picture.grey.shape)
        if side < self.min_side:
            raise ImageError(
                picture.path,
                f"too small: {picture.grey.shape[1]}×{picture.grey.shape[0]} pixels after "
                f"resizing, and a patch needs {self.min_side}",
            )
        return picture

    @with_callbacks
    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing but check the parameters: there is nothing to learn."""
        with fit_task(self, X=X, y=y):
            self.validate()
        return self

    def transform(self, X: Iterable[Any]) -> Bags:
        """Describe pictures.

        Parameters
        ----------
        X : ImageFolder or iterable of paths or arrays
            Arrays are grey ``(height, width)``, RGB or RGBA ``(height, width, 3 or 4)``.

        Returns
        -------
        Bags
            One bag a picture, in order.
        """
        self.validate()
        if isinstance(X, (str, bytes, PathLike)):
            raise DataError(
                f"expected pictures, one path or array each; got a single {X!r:.80}. Give a folder "
                "of classes as ImageFolder(folder), a single file as [path]."
            )
        sources = list(getattr(X, "paths", X))

        def one(source: Any) -> tuple[Descriptors, int | None, str]:
            try:
                picture = self.load(source)
                return self.describe(picture.grey)[0], picture.digest, ""
            except ImageError as error:
                if self.on_error == "raise":
                    raise
                nothing = np.empty((0, self.n_dims), dtype=self.stored_dtype)
                return nothing, 0, str(error)

        rows: list[Descriptors] = []
        digests: list[int | None] = []
        with Progress("describing", len(sources), show=bool(self.verbose)) as bar:
            for descriptors, digest, trouble in bar.track(ordered_map(one, sources, self.n_jobs)):
                if trouble:
                    warnings.warn(f"{trouble} Its bag is empty.", UserWarning, stacklevel=3)
                rows.append(descriptors)
                digests.append(digest)
        values = (
            np.concatenate(rows) if rows else np.empty((0, self.n_dims), dtype=self.stored_dtype)
        )
        offsets = np.concatenate(([0], np.cumsum([len(r) for r in rows]))).astype(np.int64)
        known = [d for d in digests if d is not None]
        return Bags(
            values,
            offsets,
            scale=self.scale,
            description=self.description(),
            digests=np.array(known, dtype=np.uint64) if len(known) == len(rows) else None,
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return ``dim000`` and so on, so that a pipeline can go on to the names of its words."""
        return np.array([f"dim{i:03d}" for i in range(self.n_dims)], dtype=object)

    def set_output(self, *, transform: Any = None) -> Self:
        """Change nothing: Bags are no table, whatever the rest of a pipeline gives."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.two_d_array = False
        return tags
