"""Bags that lie in a store, as names of files: what is sent to a worker instead of descriptors.

``Store.bags`` and whatever was chosen from it (``bags[rows]``) consists of shards mapped into
memory and of the place of each bag in them. ``Located`` says the same with the paths of the
shards, so that another process with the same file system can open them: about 50 bytes a bag
instead of its descriptors. A shard is checked when it is opened, as it always is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.store.shards import is_shard, open_rows


@dataclass(frozen=True)
class Located:
    """Where bags are.

    Attributes
    ----------
    files : tuple of (str, int)
        The absolute path of each shard's descriptors, and its rows.
    shard, start, counts : ndarray of int64, shape (n_bags,)
        Bag i is the rows ``start[i]`` to ``start[i] + counts[i]`` of ``files[shard[i]]``.
    n_dims : int
        Dimensions of a descriptor.
    dtype : str
        Of the descriptors.
    scale : float
        Stored value / scale is in unit-norm units.
    """

    files: tuple[tuple[str, int], ...]
    shard: NDArray[np.int64]
    start: NDArray[np.int64]
    counts: NDArray[np.int64]
    n_dims: int
    dtype: str
    scale: float

    @classmethod
    def of(cls, bags: Bags) -> Located:
        """Return where bags are, or raise a DataError when they are not in a store.

        Examples
        --------
        >>> Located.of(Bags([[1.0]]))
        Traceback (most recent call last):
        ...
        bowsaw.errors.DataError: a cluster reads descriptors from a store; these 1 bags lie in ...
        """
        pieces, shard, start, counts = bags.places()
        if not all(map(is_shard, pieces)):
            raise DataError(
                f"a cluster reads descriptors from a store; these {len(bags)} bags lie in the "
                "memory of this process. Extract them to a store and give its bags, or leave "
                "parallel out."
            )
        files = tuple((str(piece.filename), len(piece)) for piece in pieces)
        return cls(files, shard, start, counts, bags.n_dims, bags.dtype.name, bags.scale)

    def landmarks(self) -> dict[Path, int | None]:
        """Return the first and the last file with their sizes, to see whether they are seen."""
        ends = {Path(self.files[i][0]): i for i in (0, -1)}
        return {path: path.stat().st_size for path in ends}

    def bags(self, first: int, last: int) -> Located:
        """Return where some of the bags are, with no more files than they need."""
        return self._cut(self.shard[first:last], self.start[first:last], self.counts[first:last])

    def rows(self, start: int, stop: int, offsets: NDArray[np.int64]) -> Located:
        """Return where rows ``start`` to ``stop`` of all descriptors are.

        ``offsets`` are those of the bags. The bags at both ends are cut.
        """
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        begin = np.maximum(offsets[first:last], start)
        end = np.minimum(offsets[first + 1 : last + 1], stop)
        return self._cut(
            self.shard[first:last],
            self.start[first:last] + begin - offsets[first:last],
            end - begin,
        )

    def around(
        self, numbers: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> tuple[Located, NDArray[np.int64]]:
        """Return where the bags of some rows are, and the numbers of the rows among them.

        ``numbers`` rise; ``offsets`` are those of the bags.
        """
        touched, owner = np.unique(
            np.searchsorted(offsets, numbers, side="right") - 1, return_inverse=True
        )
        counts = self.counts[touched]
        begins = np.cumsum(counts) - counts
        located = self._cut(self.shard[touched], self.start[touched], counts)
        return located, numbers - offsets[touched][owner] + begins[owner]

    def _cut(
        self, shard: NDArray[np.int64], start: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Located:
        used, place = np.unique(shard, return_inverse=True)
        files = tuple(self.files[i] for i in used)
        return Located(
            files, place.astype(np.int64), start, counts, self.n_dims, self.dtype, self.scale
        )

    def open(self) -> Bags:
        """Map the files into memory; raises a StoreError when one is not as it was."""
        dtype: np.dtype[Any] = np.dtype(self.dtype)
        pieces = [open_rows(Path(path), n, self.n_dims, dtype) for path, n in self.files]
        empty = np.empty((0, self.n_dims), dtype)
        return Bags.from_pieces(
            pieces or [empty], self.shard, self.start, self.counts, scale=self.scale
        )


def rows_at(bags: Bags, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Return chosen rows of all descriptors, ``(n_chosen, n_dims)``, in stored units and dtype.

    Nothing else is read from disk but the pages that they lie in.

    Parameters
    ----------
    bags : Bags
        The descriptors.
    numbers : ndarray of int64, shape (n_chosen,)
        Which, rising.

    Examples
    --------
    >>> bags = Bags([[1.0], [2.0], [3.0]], [0, 1, 3])
    >>> rows_at(bags, np.array([0, 2])).tolist()
    [[1.0], [3.0]]
    """
    out = np.empty((len(numbers), bags.n_dims), dtype=bags.dtype)
    offsets = bags.offsets
    owner = np.searchsorted(offsets, numbers, side="right") - 1
    touched, begins = np.unique(owner, return_index=True)
    for bag, begin, end in zip(touched, begins, [*begins[1:], len(numbers)], strict=True):
        out[begin:end] = bags[int(bag)][numbers[begin:end] - offsets[bag]]
    return out
