"""A folder with one sub-folder per class, listed in the same order on every machine.

Row numbers must not depend on the file system or the locale, so everything is sorted by code
points: the classes by name, the files of a class by their path inside it. Nothing is opened here:
the reader refuses what is not an image. Only hidden files and folders and those of desktops
(``Thumbs.db``, ``__MACOSX`` …) are left out.

Sub-folders of a class are walked. Links are followed, each real folder once per class, so a link
that leads back up ends there.
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.checkpoint import is_temporary
from bowsaw.errors import DataError, ParameterError
from bowsaw.images.split import Split, split_by_class
from bowsaw.validation import check_choice

_IGNORED = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "$recycle.bin"}

_CALTECH101 = "101_ObjectCategories"
_CALTECH10_WITHOUT = {"BACKGROUND_Google", "Faces_easy"}


class ImageFolder(Sequence[str]):
    """The images of a folder that has one sub-folder per class; a sequence of their paths.

    Parameters
    ----------
    root : path-like
        The folder. Files directly in it belong to no class and are left out.
    classes : sequence of str, optional
        The sub-folders to use; all of them by default. Their order does not matter.

    Attributes
    ----------
    root : Path
        The folder.
    classes : tuple of str
        The names of the classes, sorted.
    paths : tuple of str
        The files, class by class, sorted within each: ``root/class/…``.
    relative_paths : tuple of str
        The same without ``root``, with forward slashes on every system.
    y : ndarray of int64, shape (n_images,)
        The class of each file: a position in ``classes``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ["dog/2.jpg", "dog/1.jpg", "cat/1.jpg"]:
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     (root / name).touch()
    >>> images = ImageFolder(root)
    >>> len(images), images.classes, images.y.tolist()
    (3, ('cat', 'dog'), [0, 1, 1])
    >>> images.relative_paths
    ('cat/1.jpg', 'dog/1.jpg', 'dog/2.jpg')
    """

    def __init__(self, root: str | PathLike[str], *, classes: Sequence[str] | None = None) -> None:
        self.root = Path(root)
        found = _class_folders(self.root)
        self.classes = tuple(found) if classes is None else _chosen(classes, found, self.root)
        files = {name: files_in(self.root / name) for name in self.classes}
        for name, inside in files.items():
            if not inside:
                raise DataError(
                    f"class {name!r} has no files in {self.root}. Put images in its folder, or "
                    "remove the folder."
                )
        self.relative_paths = tuple(
            f"{name}/{path}" for name, inside in files.items() for path in inside
        )
        self.paths = tuple(str(self.root / path) for path in self.relative_paths)
        counts = [len(inside) for inside in files.values()]
        self.y: NDArray[np.int64] = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        self.y.setflags(write=False)

    @classmethod
    def caltech10(cls, root: str | PathLike[str]) -> ImageFolder:
        """Return the ten largest categories of Caltech-101, the first by name among equals.

        ``BACKGROUND_Google`` is not a category, and ``Faces_easy`` repeats the faces of ``Faces``.
        ``root`` is the folder ``101_ObjectCategories`` or its parent.
        """
        folder = Path(root)
        if (folder / _CALTECH101).is_dir():
            folder = folder / _CALTECH101
        names = [name for name in _class_folders(folder) if name not in _CALTECH10_WITHOUT]
        if len(names) < 10:
            raise DataError(
                f"caltech10 needs a folder of at least 10 categories; {folder} has {len(names)}. "
                f"Give the folder {_CALTECH101} of Caltech-101."
            )
        sizes = {name: len(files_in(folder / name)) for name in names}
        names.sort(key=lambda name: (-sizes[name], name))
        return cls(folder, classes=names[:10])

    @classmethod
    def from_preset(cls, name: str, root: str | PathLike[str]) -> ImageFolder:
        """Return the images of a known collection in the folder ``root``: ``"caltech10"``."""
        check_choice(name, "preset", list(PRESETS))
        return PRESETS[name](root)

    def split(self, *, codebook: int, train: int, seed: int = 0, index: int = 0) -> Split:
        """Draw ``codebook`` and ``train`` images per class, and the rest to test.

        ``index`` is which of the splits of the run with this ``seed`` to draw.
        """
        return split_by_class(
            self.y, self.classes, codebook=codebook, train=train, seed=seed, index=index
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    @overload
    def __getitem__(self, rows: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, rows: slice) -> list[str]: ...
    @overload
    def __getitem__(self, rows: ArrayLike) -> list[str]: ...
    def __getitem__(self, rows: Any) -> Any:
        """Return the path of one row, or the list of the paths of many."""
        if isinstance(rows, slice):
            return list(self.paths[rows])
        if np.ndim(rows) == 0:
            return self.paths[operator.index(rows)]
        chosen = np.asarray(rows) if len(rows) else np.empty(0, dtype=np.int64)
        return [self.paths[row] for row in np.arange(len(self))[chosen]]

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.root)!r}: {len(self)} files, {len(self.classes)} classes)"


PRESETS: Mapping[str, Callable[[str | PathLike[str]], ImageFolder]] = {
    "caltech10": ImageFolder.caltech10,
}
"""Known collections by name, for the command line."""


def check_outside(output: str | PathLike[str], images: str | PathLike[str]) -> None:
    """Refuse an output among the images."""
    if Path(output).resolve().is_relative_to(Path(images).resolve()):
        raise ParameterError(
            f"the output {output} would lie among the images of {images} and be taken for a class. "
            "Choose a folder beside them."
        )


def check_output(folder: Path, images: str | PathLike[str], what: str, *marks: str) -> None:
    """Refuse a folder that holds files, but none of those that outputs of this kind have."""
    check_outside(folder, images)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"the output {folder} is a file. Name a folder.")
    begun = ("work", "writer.lock")
    inside = (path.name for path in folder.iterdir()) if folder.exists() else ()
    others = sorted(name for name in inside if name not in begun and not is_temporary(name))
    if others and not any((folder / mark).exists() for mark in marks):
        raise ParameterError(
            f"the folder {folder} holds {others[0]} and no {what}. Choose another."
        )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted by name, without hidden files and those of desktops."""
    try:
        with os.scandir(folder) as entries:
            kept = [e for e in entries if not (e.name[0] == "." or e.name.lower() in _IGNORED)]
    except OSError as error:
        raise DataError(
            f"{folder} cannot be listed ({error.strerror}). Make it readable, or move it away."
        ) from None
    return sorted(kept, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself; the reader reports it
        return False


def _class_folders(root: Path) -> list[str]:
    if not root.exists():
        raise DataError(f"{root} does not exist. Give the folder that holds one folder per class.")
    if not root.is_dir():
        raise DataError(f"{root} is a file. Give the folder that holds one folder per class.")
    entries = _entries(root)
    for entry in entries:
        if not Path(entry.path).exists():
            warnings.warn(f"{entry.path} is left out: a link that leads nowhere.", stacklevel=2)
    names = [entry.name for entry in entries if _is_folder(entry)]
    if not names:
        raise DataError(
            f"{root} has no class folders ({len(entries)} files are directly in it). Move the "
            "images of each class into a folder of its own."
        )
    return names


def _chosen(classes: Sequence[str], found: list[str], root: Path) -> tuple[str, ...]:
    names = sorted(classes)
    if isinstance(classes, str) or not names or len(set(names)) < len(names):
        raise ParameterError(f"classes must be different names, at least one; got {classes!r}.")
    for name in names:
        if name not in found:
            raise DataError(
                f"{root} has no class {name!r}; its {len(found)} classes are "
                f"{', '.join(found[:20])}{' …' if len(found) > 20 else ''}."
            )
    return tuple(names)


def files_in(folder: Path) -> list[str]:
    """Return all files of a folder, at any depth, as sorted paths relative to it."""
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [(folder, "")]
    while waiting:
        here, prefix = waiting.pop()
        entries = _entries(here)
        info = here.stat()
        if (info.st_dev, info.st_ino) in seen:
            continue
        seen.add((info.st_dev, info.st_ino))
        inner = [entry.name for entry in entries if _is_folder(entry)]
        found += [prefix + entry.name for entry in entries if not _is_folder(entry)]
        waiting += [(here / name, f"{prefix}{name}/") for name in reversed(inner)]
    return sorted(found)
