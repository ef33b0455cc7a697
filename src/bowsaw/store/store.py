"""Store: the result of ``extract``, open for reading.

Opening reads the catalogue (checked, read-only, then held in memory) and compares the length of
every shard's file; no descriptor is read and no file stays open. ``bags`` maps the shards into
memory when first used.

``bags``, ``y``, ``paths`` and ``sizes`` have one entry per usable image, in the same order. A class
whose images were all set aside is none of ``classes``: no split could draw an image of it.
``split.json`` holds the sizes and the seed of the store's split, from which its rows follow.
"""

from __future__ import annotations

import json
import operator
import os
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.checkpoint import atomic_write, exclusive, json_digest, regular_bytes
from bowsaw.errors import DataError, ParameterError, StoreError
from bowsaw.images.split import Split, auto_sizes, split_by_class
from bowsaw.store.catalog import OK, SET_ASIDE, n_rows, read_catalog
from bowsaw.store.shards import check_sizes, open_positions, open_values
from bowsaw.validation import Number, misfit, parse_json

SPLIT_NAME = "split.json"
_COUNT = Number(0, whole=True)
_SPLIT = {"codebook": _COUNT, "train": Number(1, whole=True), "seed": Number(0, 2.0**128, True)}


class Store:
    """A finished store, open for reading.

    Parameters
    ----------
    path : path-like
        The folder that ``extract`` made.

    Raises
    ------
    StoreError
        When it is not there, unfinished, damaged, incomplete or of another version.

    Examples
    --------
    >>> import tempfile, cv2, numpy as np
    >>> from pathlib import Path
    >>> import bowsaw as bs
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("cats", "dogs"):
    ...     (root / "pets" / name).mkdir(parents=True)
    ...     noise = np.random.default_rng(0).integers(0, 256, (32, 40), dtype=np.uint8)
    ...     _ = cv2.imwrite(str(root / "pets" / name / "1.png"), noise)
    >>> _ = (root / "pets" / "cats" / "2.png").write_bytes(b"")
    >>> _ = bs.extract(bs.ImageFolder(root / "pets"), bs.DenseSift(), root / "pets.store")
    >>> store = bs.Store(root / "pets.store")
    >>> store
    Store('...pets.store', 2 of 3 images, 24 descriptors of 128 uint8)
    >>> store.y.tolist(), store.classes, store.positions(0)[0].tolist()
    ([0, 1], ('cats', 'dogs'), [7.5, 7.5, 16.0])
    >>> store.set_aside
    [('cats/2.png', 'empty file')]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path)
        self._content = content = read_catalog(self._folder)
        if content.n_done < len(content.entries):
            raise StoreError(
                f"the store {self._folder} is unfinished: {content.n_done} of "
                f"{len(content.entries)} images are done. Run the same `bowsaw extract` again to "
                "finish it, or wait for the one that is running."
            )
        self._recipe = content.recipe
        self._usable = tuple(entry for entry in content.entries if entry.status == OK)
        self._shard_rows = tuple(map(n_rows, content.shards()))
        layout = (self._recipe.n_dims, self._recipe.stored_dtype)
        for number, length in enumerate(self._shard_rows):
            check_sizes(self._folder, number, length, *layout)

    def __reduce__(self) -> tuple[type[Store], tuple[Path]]:
        return (type(self), (self._folder.absolute(),))

    @cached_property
    def bags(self) -> Bags:
        """The descriptors of the usable images, on disk: choosing among them copies nothing."""
        n_dims, dtype = self._recipe.n_dims, self._recipe.stored_dtype
        rows = enumerate(self._shard_rows)
        shards = [open_values(self._folder, *item, n_dims, dtype) for item in rows]
        self._refuse_change()
        return Bags.from_pieces(
            shards or [np.empty((0, n_dims), dtype)],
            *map(self._column, ("shard", "start", "count")),
            scale=self.scale,
            description=self.description,
            digests=np.array([int(e.digest or "", 16) for e in self._usable], dtype=np.uint64),
        )

    @property
    def y(self) -> NDArray[np.int64]:
        """The label of each usable image, a position in ``classes``, ``(n_usable,)``."""
        return np.searchsorted(self._labels, self._column("label")).astype(np.int64)

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        """The labels that usable images have, ascending."""
        return np.unique(self._column("label"))

    @property
    def paths(self) -> tuple[str, ...]:
        """The path of each usable image, relative to the images' folder, with ``/``."""
        return tuple(entry.path for entry in self._usable)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Width and height of each usable image after resizing, in pixels, ``(n_usable, 2)``."""
        return np.stack([self._column("width"), self._column("height")], axis=1)

    def positions(self, i: SupportsIndex) -> NDArray[np.float32]:
        """Return x and y of the centre and the side of each patch of image ``i``, ``(n, 3)``."""
        place = operator.index(i)
        if not -self.n_usable <= place < self.n_usable:
            raise IndexError(f"image {place} of {self.n_usable}")
        entry = self._usable[place]
        shard, start, count = entry.shard or 0, entry.start or 0, entry.count or 0
        return np.asarray(self._positions[shard][start : start + count])

    @cached_property
    def _positions(self) -> list[NDArray[np.float32]]:
        shards = [open_positions(self._folder, *item) for item in enumerate(self._shard_rows)]
        self._refuse_change()
        return shards

    def _refuse_change(self) -> None:
        """Raise when the catalogue, which changes before any shard, is not the one opened."""
        if read_catalog(self._folder) != self._content:
            raise StoreError(
                f"the store {self._folder} was changed since it was opened. Open it again."
            )

    def _column(self, name: str) -> NDArray[np.int64]:
        return np.array([getattr(entry, name) for entry in self._usable], dtype=np.int64)

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self._folder

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that have usable images."""
        return tuple(self._content.classes[label] for label in self._labels)

    @property
    def empty_classes(self) -> tuple[str, ...]:
        """The names of the classes whose images were all set aside."""
        return tuple(name for name in self._content.classes if name not in self.classes)

    @property
    def set_aside(self) -> list[tuple[str, str]]:
        """Relative path and reason of each image that could not be used."""
        return [(e.path, e.reason) for e in self._content.entries if e.status == SET_ASIDE]

    @property
    def copies(self) -> list[tuple[str, ...]]:
        """Groups of paths of usable images whose files are identical."""
        alike: dict[str, list[str]] = {}
        for entry in self._usable:
            alike.setdefault(entry.digest or "", []).append(entry.path)
        return [tuple(paths) for paths in alike.values() if len(paths) > 1]

    @property
    def description(self) -> dict[str, Any]:
        """The name and the parameters of the descriptor."""
        return dict(json.loads(self._recipe.description))

    @property
    def scale(self) -> float:
        """Stored value / scale is in unit-norm units."""
        return self._recipe.scale

    @property
    def n_images(self) -> int:
        """Images in the folder, usable or not."""
        return len(self._content.entries)

    @property
    def n_usable(self) -> int:
        """Images that have a bag."""
        return len(self._usable)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the descriptor, classes, paths, labels and images of the store."""
        y = self.y.tolist()
        images = [(e.path, label, e.digest) for e, label in zip(self._usable, y, strict=True)]
        return json_digest([self._recipe.fingerprint, self.classes, images])

    @cached_property
    def split(self) -> Split | None:
        """The split that is kept with the store; None if there is none."""
        path = self._folder / SPLIT_NAME
        try:
            found = parse_json(regular_bytes(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _unreadable(path, getattr(error, "strerror", None) or error) from error
        if (wrong := misfit(found, _SPLIT)) is not None:
            raise _unreadable(path, f"{wrong or 'its content'} is not as written by bowsaw")
        return self.draw_split(**{name: found[name] for name in _SPLIT})

    def set_split(
        self, *, codebook: int | None = None, train: int | None = None, seed: int = 0
    ) -> Split:
        """Keep a split with the store, in place of the one that it has, and return it.

        Parameters
        ----------
        codebook, train : int, optional
            Images per class for the codebook and to train; all others are test images. None for
            both: 50 and 50 where every class has at least 150 images, else a third of the smallest
            class.
        seed : int, default=0
            Which images they are.
        """
        if (codebook is None) != (train is None):
            raise ParameterError("codebook and train must both be numbers, or both None.")
        if codebook is None or train is None:
            sizes = auto_sizes(self.y, self.classes)
            if sizes is None:
                raise DataError(
                    f"a class of {self._folder} has fewer than 3 images, and a split needs at "
                    "least 3 per class. Add images, or move its folder away and extract again."
                )
            codebook, train = sizes
        split = self.draw_split(codebook=codebook, train=train, seed=seed)
        record = {"codebook": split.n_codebook, "train": split.n_train, "seed": split.seed}
        with exclusive(self._folder, "store"), atomic_write(self._folder / SPLIT_NAME) as file:
            file.write(json.dumps(record).encode() + b"\n")
        self.__dict__["split"] = split
        return split

    def draw_split(self, *, codebook: int, train: int, seed: int = 0, index: int = 0) -> Split:
        """Draw a split of the usable images class by class; see ``ImageFolder.split``."""
        return split_by_class(
            self.y, self.classes, codebook=codebook, train=train, seed=seed, index=index
        )

    def summary(self) -> dict[str, Any]:
        """Return what ``bowsaw inspect`` shows, JSON-able."""
        per_class = np.bincount(self.y, minlength=len(self.classes)).tolist()
        counts = dict(zip(self.classes, per_class, strict=True))
        return {
            "path": str(self._folder),
            "n_images": self.n_images,
            "n_usable": self.n_usable,
            "set_aside": [{"path": path, "reason": reason} for path, reason in self.set_aside],
            "copies": [list(paths) for paths in self.copies],
            "classes": {name: counts.get(name, 0) for name in self._content.classes},
            "n_descriptors": sum(self._shard_rows),
            "n_dims": self._recipe.n_dims,
            "dtype": self._recipe.dtype,
            "scale": self.scale,
            "n_shards": len(self._shard_rows),
            "split": None if self.split is None else self.split.record(),
            "description": self.description,
            "digest": self.digest,
            "bowsaw_version": self._content.bowsaw_version,
        }

    def __len__(self) -> int:
        return self.n_usable

    def __repr__(self) -> str:
        return (
            f"Store({str(self._folder)!r}, {self.n_usable} of {self.n_images} images, "
            f"{sum(self._shard_rows)} descriptors of {self._recipe.n_dims} {self._recipe.dtype})"
        )


def _unreadable(path: Path, reason: object) -> StoreError:
    return StoreError(
        f"the store's split {path} cannot be read: {' '.join(str(reason).split())}. Write it again "
        f"with `bowsaw split {path.parent} A/B/rest`."
    )
