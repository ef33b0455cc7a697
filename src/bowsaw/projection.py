"""Projection: a linear map of descriptors to fewer dimensions, as a part of a codebook.

y = (x − mean) · matrix. The columns of the matrix are the principal directions of the codebook's
descriptors, found without labels: eigenvectors of their covariance, which is accumulated in
float64 over blocks in their order. Being orthonormal, they keep the unit of distances.

Descriptors are projected when they are read (``Bags.projected``), a block at a time, to float32:
no projected copy of a corpus is made. The cost is 2 · n_dims_in · n_dims operations per read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from bowsaw._arrays import AnyArray, Float32, Float64
from bowsaw._projection_kernel import project_rows
from bowsaw.errors import DataError
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.validation import ComparedByValue, as_numbers, check_int, check_scale


@dataclass(frozen=True, eq=False)
class Projection(ComparedByValue):
    """A linear map of descriptors to the space of a codebook's words.

    Parameters
    ----------
    mean : array-like of shape (n_dims_in,)
        What is subtracted, in stored units; kept as float32.
    matrix : array-like of shape (n_dims_in, n_dims)
        What the difference is multiplied with; kept as float32.
    scale : float, default=1.0
        Stored value / scale is in unit-norm units, as in the codebook.

    Examples
    --------
    >>> import bowsaw as bs
    >>> half = bs.Projection([1.0, 0.0], [[1.0], [0.0]])
    >>> half.apply([[3.0, 5.0]]).tolist()
    [[2.0]]
    """

    mean: AnyArray
    matrix: AnyArray
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean", "matrix"):
            with np.errstate(over="ignore"):
                array = np.array(as_numbers(getattr(self, name), name), np.float32, order="C")
            if not np.isfinite(array).all():
                raise DataError(f"{name} must be finite in float32; some are NaN or infinite.")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "scale", check_scale(self.scale))
        if (
            self.matrix.ndim != 2
            or not self.matrix.size
            or self.mean.shape != self.matrix.shape[:1]
        ):
            raise DataError(
                "a projection needs a mean (n_dims_in,) and a matrix (n_dims_in, n_dims); got "
                f"shapes {self.mean.shape} and {self.matrix.shape}."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild by the constructor, since pickled arrays forget that they are read-only."""
        return Projection, (self.mean, self.matrix, self.scale)

    @classmethod
    def pca(
        cls, blocks: Iterable[AnyArray], n_components: int, *, scale: float = 1.0, n_jobs: Any = 1
    ) -> Self:
        """Learn the principal directions of descriptors, given as blocks of rows.

        The result depends on neither the number of threads nor, for uint8, the blocks.
        """

        def sums(rows: AnyArray) -> Float64:
            wide = np.column_stack([np.ones(len(rows)), rows.astype(np.float64)])
            return np.asarray(wide.T @ wide)

        with single_threaded_blas():
            total = np.array(reduce(np.add, ordered_map(sums, blocks, n_jobs)))
            total /= total[0, 0]
            mean, remedy = total[0, 1:], "Descriptors have no more."
            n_kept = check_int(n_components, "n_components", 1, len(mean), remedy=remedy)
            covariance = total[1:, 1:] - np.outer(mean, mean)
            axes = np.linalg.eigh(covariance)[1][:, ::-1][:, :n_kept]
        # The sign of an eigenvector is arbitrary: its largest entry becomes positive.
        signs = np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0))
        return cls(mean, axes * signs, scale)

    @property
    def n_dims(self) -> int:
        """Dimensions of a projected descriptor."""
        return int(self.matrix.shape[1])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the mean, the matrix and the scale."""
        found = hashlib.sha256(json.dumps([self.matrix.shape, self.scale]).encode())
        found.update(self.mean.astype("<f4").tobytes() + self.matrix.astype("<f4").tobytes())
        return found.hexdigest()

    def apply(self, rows: AnyArray, scale: float | None = None) -> Float32:
        """Return rows of descriptors projected, in units of ``scale`` (by default its own)."""
        given = np.ascontiguousarray(rows, dtype=np.float32)
        out = np.empty((len(given), self.n_dims), dtype=np.float32)
        mean = self.mean
        if scale is not None and scale != self.scale:
            mean = self.mean * np.float32(scale / self.scale)
            mean.setflags(write=False)
        project_rows(given, mean, self.matrix, out)
        return out

    def undo(self, rows: Float32) -> Float32:
        """Return the descriptors that orthonormal directions have projected to ``rows``."""
        return np.asarray(rows @ self.matrix.T + self.mean)
