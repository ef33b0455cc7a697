"""Bags: the one ragged container.

A *bag* is the set of local descriptors of one image (or of anything described by a set of vectors).
``Bags`` holds many of them; rows are descriptors, columns are dimensions:

- ``values``: all descriptors, ``(n_descriptors, n_dims)``;
- ``offsets``: bag ``i`` is ``values[offsets[i]:offsets[i + 1]]``, ``(n_bags + 1,)``;
- ``scale``: stored value / scale is in unit-norm units, the unit of every distance, ``sharpness``
  and tolerance in bowsaw. SIFT is stored as uint8 with scale 512.

The rows may be memory-mapped files, and choosing bags (``bags[rows]``) copies no descriptor. Only
``values`` copies; ``read`` converts a block at a time. scikit-learn chooses bags in the same way,
so cross-validation keeps their scale. ``projected`` bags are projected as they are read.
"""

from __future__ import annotations

import copy
import hashlib
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bowsaw.errors import DataError
from bowsaw.projection import Projection
from bowsaw.validation import (
    DTYPES,
    Description,
    as_descriptors,
    as_integers,
    as_numbers,
    canonical_json,
    check_scale,
    json_mapping,
)

PROJECTED = "projection"
"""The entry of a description that names the projection of projected bags."""
_BLOCK_ROWS = 4096


class Bags(Sequence[NDArray[Any]]):
    """Many sets of descriptors in one container.

    Parameters
    ----------
    values : array-like of shape (n_descriptors, n_dims)
        uint8 or float32; other numbers become float32. Must be finite.
    offsets : array-like of shape (n_bags + 1,), optional
        Where each bag begins and the last ends; by default all rows are one bag.
    scale : float, default=1.0
        Stored value / scale is in unit-norm units.
    description : mapping, optional
        What made the descriptors, JSON-able. Codebooks refuse bags of another description.
    digests : array-like of shape (n_bags,), optional
        A 64-bit digest of each bag's image, to detect test images in a training set.

    Examples
    --------
    >>> import numpy as np
    >>> import bowsaw as bs
    >>> bags = bs.Bags.from_list([np.zeros((2, 3)), np.ones((4, 3))])
    >>> len(bags), bags.n_descriptors, bags.n_dims, bags.counts.tolist()
    (2, 6, 3, [2, 4])
    >>> bags[1].shape, len(bags[[1, 1, 0]])
    ((4, 3), 3)
    """

    def __init__(
        self,
        values: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        scale: float = 1.0,
        description: Description | None = None,
        digests: ArrayLike | None = None,
    ) -> None:
        array = as_descriptors(values, "values")
        ends = [0, len(array)] if offsets is None else offsets
        limits = as_integers(ends, "offsets", np.int64)
        if limits.ndim != 1 or len(limits) < 1 or limits[0] != 0 or limits[-1] != len(array):
            raise DataError(
                f"offsets must begin with 0 and end with n_descriptors = {len(array)}; got shape "
                f"{limits.shape}, {limits[:1].tolist()} … {limits[-1:].tolist()}."
            )
        counts = np.diff(limits)
        if (counts < 0).any():
            raise DataError("offsets must not decrease.")
        places = (np.zeros(len(counts), dtype=np.int64), limits[:-1], counts)
        about = json_mapping(description, "description")
        named = None if digests is None else as_integers(digests, "digests", np.uint64)
        self._set((array,), *places, check_scale(scale), about, named)

    def _set(
        self,
        pieces: tuple[NDArray[Any], ...],
        piece: NDArray[np.int64],
        start: NDArray[np.int64],
        counts: NDArray[np.int64],
        scale: float,
        description: dict[str, Any] | None,
        digests: NDArray[np.uint64] | None,
    ) -> None:
        if digests is not None and digests.shape != counts.shape:
            raise DataError(
                f"digests must have one entry per bag ({len(counts)}); got shape {digests.shape}."
            )
        self._pieces, self._piece, self._start, self._counts = pieces, piece, start, counts
        self._offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._scale, self._description, self._digests = scale, description, digests
        self._projection: Projection | None = None

    @classmethod
    def from_list(
        cls,
        arrays: Iterable[ArrayLike],
        *,
        scale: float = 1.0,
        description: Description | None = None,
        digests: ArrayLike | None = None,
    ) -> Bags:
        """Make bags from one array per image, ``(n, n_dims)``; an empty one may be ``(0,)``."""
        rows = [as_numbers(array, f"bag {i}") for i, array in enumerate(arrays)]
        dims = {array.shape[1] for array in rows if array.ndim == 2 and array.shape[1]}
        if len(dims) > 1:
            raise DataError(
                f"every bag must have the same number of dimensions; got {sorted(dims)}. "
                "Rows are descriptors and columns are dimensions: is one array transposed?"
            )
        n_dims = dims.pop() if dims else 0
        rows = [as_descriptors(a, f"bag {i}") if a.size else a for i, a in enumerate(rows)]
        counts = [len(array) if array.size else 0 for array in rows]
        full = [array for array in rows if array.size]
        dtype = np.result_type(*full) if full else np.dtype(np.float32)
        values = np.empty((sum(counts), n_dims), dtype=dtype)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        for array, begin, end in zip(rows, offsets[:-1], offsets[1:], strict=True):
            if end > begin:
                values[begin:end] = array
        more: dict[str, Any] = {"scale": scale, "description": description, "digests": digests}
        return cls.from_pieces((values,), np.zeros(len(rows), int), offsets[:-1], counts, **more)

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[NDArray[Any]],
        piece: ArrayLike,
        start: ArrayLike,
        counts: ArrayLike,
        *,
        scale: float = 1.0,
        description: Description | None = None,
        digests: ArrayLike | None = None,
    ) -> Bags:
        """Make bags whose rows lie in several arrays (memory-mapped shards), without reading them.

        Bag ``i`` is ``pieces[piece[i]][start[i] : start[i] + counts[i]]``. The values are trusted
        to be finite: reading them to check would load the whole store.
        """
        self = cls.__new__(cls)
        where = as_integers(piece, "piece", np.int64)
        begin = as_integers(start, "start", np.int64)
        count = as_integers(counts, "counts", np.int64)
        if not where.shape == begin.shape == count.shape or where.ndim != 1:
            raise DataError("piece, start and counts must be one-dimensional and of one length.")
        arrays = tuple(pieces) or (np.empty((0, 0), dtype=np.float32),)
        layouts = {(a.shape[1:], a.dtype.str) for a in arrays}
        if len(layouts) != 1 or arrays[0].ndim != 2 or arrays[0].dtype not in DTYPES:
            raise DataError(
                "every piece must be two-dimensional with one n_dims and one dtype, uint8 or "
                f"float32; got {sorted(layouts)}."
            )
        lengths = np.array([len(a) for a in arrays], dtype=np.int64)
        if len(where) and (
            where.min() < 0
            or where.max() >= len(arrays)
            or begin.min() < 0
            or count.min() < 0
            or (begin + count > lengths[where]).any()
        ):
            raise DataError("a bag reaches outside its piece: the index and the pieces disagree.")
        named = None if digests is None else as_integers(digests, "digests", np.uint64)
        about = json_mapping(description, "description")
        self._set(arrays, where, begin, count, check_scale(scale), about, named)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Send only the chosen rows to another process, not their whole pieces."""
        about: Any = {"scale": self._scale, "description": self._description}
        build = partial(Bags.from_pieces, digests=self._digests, **about)
        one_piece = np.zeros(len(self), dtype=np.int64)
        return build, ([self.values], one_piece, self._offsets[:-1], self._counts)

    @property
    def scale(self) -> float:
        """Stored value / scale is in unit-norm units."""
        return self._scale

    @property
    def description(self) -> dict[str, Any] | None:
        """What made the descriptors, or None when unknown."""
        return copy.deepcopy(self._description)

    @property
    def projection(self) -> Projection | None:
        """What descriptors are projected by when they are read, or None."""
        return self._projection

    @property
    def shape(self) -> tuple[int]:
        """``(n_bags,)``; scikit-learn needs it to choose rows by an array."""
        return (len(self),)

    @property
    def digests(self) -> NDArray[np.uint64] | None:
        """A 64-bit digest of each bag's image, ``(n_bags,)``, or None when unknown."""
        return self._digests

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype in which descriptors are stored, or float32 where they are projected."""
        return self._pieces[0].dtype if self._projection is None else np.dtype(np.float32)

    @property
    def n_dims(self) -> int:
        """Dimensions of a descriptor."""
        known = self._projection
        return int(self._pieces[0].shape[1]) if known is None else known.n_dims

    @property
    def n_descriptors(self) -> int:
        """Descriptors in all bags together."""
        return int(self._offsets[-1])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Descriptors in each bag, ``(n_bags,)``."""
        return self._counts.copy()

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each bag begins among all descriptors, ``(n_bags + 1,)``."""
        return self._offsets.copy()

    @property
    def values(self) -> NDArray[Any]:
        """All descriptors, ``(n_descriptors, n_dims)``; a copy unless one array holds just them."""
        whole = self._pieces[0]
        as_stored = self._projection is None and np.array_equal(self._start, self._offsets[:-1])
        if len(self._pieces) == 1 and as_stored and self.n_descriptors == len(whole):
            return whole
        out = np.empty((self.n_descriptors, self.n_dims), dtype=self.dtype)
        self.read_into(0, out)
        return out

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return (
            f"Bags({len(self)} bags, {self.n_descriptors} descriptors of {self.n_dims} "
            f"{self.dtype}, scale {self.scale:g})"
        )

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> Bags: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one bag's rows for an integer, else the chosen bags, without a copy."""
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # scikit-learn indexes array[rows, ...]
        if isinstance(index, SupportsIndex) and not (isinstance(index, np.ndarray) and index.ndim):
            i = operator.index(index)
            if not -len(self) <= i < len(self):
                raise IndexError(f"bag {i} of {len(self)}")
            begin = self._start[i]
            rows = self._pieces[self._piece[i]][begin : begin + self._counts[i]]
            if self._projection is not None:
                return self.read(*self._offsets[[i % len(self), i % len(self) + 1]].tolist())
            return np.asarray(rows)
        chosen = index if isinstance(index, slice) else np.asarray(index)
        if isinstance(chosen, np.ndarray) and not chosen.size:
            chosen = chosen.astype(np.int64)
        if isinstance(chosen, np.ndarray) and chosen.ndim != 1:
            raise IndexError(f"bags are chosen by one list of integers; got shape {chosen.shape}")
        out = Bags.__new__(Bags)
        places = (self._piece[chosen], self._start[chosen], self._counts[chosen])
        digests = None if self._digests is None else self._digests[chosen]
        out._set(self._pieces, *places, self._scale, self._description, digests)
        out._projection = self._projection
        return out

    def projected(self, projection: Projection) -> Bags:
        """Return a view of these bags that projects descriptors when they are read."""
        out = Bags.__new__(Bags)
        about = {**(self._description or {}), PROJECTED: projection.digest}
        places = (self._piece, self._start, self._counts)
        out._set(self._pieces, *places, self._scale, about, self._digests)
        out._projection = projection
        return out

    def read(self, start: int, stop: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return rows ``start`` to ``stop`` of all descriptors, in stored units, as ``dtype``."""
        out = np.empty((stop - start, self.n_dims), dtype=dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: NDArray[Any]) -> None:
        """Fill ``out`` with the rows from ``start`` on, converted to its dtype."""
        if not len(out):
            return
        stop = start + len(out)
        if start < 0 or stop > self.n_descriptors:
            raise IndexError(f"rows {start} to {stop} of {self.n_descriptors}")
        if self._projection is None:
            self._fill(start, out)
            return
        for first in range(0, len(out), _BLOCK_ROWS):
            part = out[first : first + _BLOCK_ROWS]
            rows = np.empty((len(part), self._pieces[0].shape[1]), dtype=np.float32)
            self._fill(start + first, rows)
            part[:] = self._projection.apply(rows, self._scale)

    def _fill(self, start: int, out: NDArray[Any]) -> None:
        """Fill ``out`` with rows as they are stored."""
        stop = start + len(out)
        bag = int(np.searchsorted(self._offsets, start, side="right")) - 1
        row = start
        while row < stop:
            end = min(int(self._offsets[bag + 1]), stop)
            if end > row:
                begin = int(self._start[bag]) + row - int(self._offsets[bag])
                source = self._pieces[self._piece[bag]]
                out[row - start : end - start] = source[begin : begin + end - row]
                row = end
            bag += 1

    def places(self) -> tuple[Any, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return what :meth:`from_pieces` takes: pieces; each bag's piece, first row and rows."""
        return self._pieces, self._piece.copy(), self._start.copy(), self._counts.copy()

    def digest(self) -> str:
        """Return the SHA-256 of the bags: descriptors, offsets, scale and description.

        Where the digests of the images and the description are known, they replace the values;
        otherwise every descriptor is read once.
        """
        about = [self.dtype.str, self.n_dims, self.scale, self._description]
        found = hashlib.sha256(canonical_json(about).encode())
        found.update(self._counts.astype("<i8").tobytes())
        if self._digests is not None and self._description is not None:
            found.update(b"digests" + self._digests.astype("<u8").tobytes())
            return found.hexdigest()
        found.update(b"values")
        for start, stop in self.blocks(2**15):
            found.update(self.read(start, stop, self.dtype).data)
        return found.hexdigest()

    def blocks(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield ``(start, stop)`` of blocks of at most ``n_rows`` descriptors."""
        for start in range(0, self.n_descriptors, n_rows):
            yield start, min(start + n_rows, self.n_descriptors)


def as_bags(bags: Bags | Iterable[ArrayLike]) -> Bags:
    """Return ``bags`` as Bags; a list of arrays is converted."""
    if isinstance(bags, Bags):
        return bags
    if isinstance(bags, np.ndarray) and bags.ndim == 2 and bags.dtype != object:
        raise DataError(
            f"expected one array per bag, got a single array of shape {bags.shape}. Wrap it in a "
            "list if it is one bag: [array]."
        )
    if isinstance(bags, (str, bytes)) or not isinstance(bags, Iterable):
        raise DataError(f"expected Bags or a list of arrays; got {type(bags).__name__}.")
    if isinstance(bags, Iterator):
        raise DataError(
            f"expected Bags or a list of arrays; got a {type(bags).__name__}, which can be read "
            "once only. Make a list of it: list(...)."
        )
    return Bags.from_list(bags)
