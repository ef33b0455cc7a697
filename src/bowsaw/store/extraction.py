"""From images to a store: the driver that can be killed at any moment.

Images are described in order and their rows appended to the current shard. A shard is closed by
the first image that brings its descriptors to ``shard_bytes`` (or that is its 4096th), a rule
that knows neither threads nor interruptions. Closing means: both files synced and renamed, then
the shard's images committed to the catalogue in one transaction. So after a crash the store is a
whole number of shards, and going on from there ends in the same bytes as never having stopped.

Every run first finds out how much of what is there still holds:

1. another fingerprint (a parameter, the layout): nothing does, and the run is refused unless it
   may overwrite;
2. shards hold as long as their images are the same files in the same order with the same labels
   (every file is read and its digest compared; an image that was set aside is tried again) and
   their own files are sound; from the first shard that does not hold, all is redone;
3. a last shard that is not full holds only if no image comes after it.

What a run ends with is thus always what a fresh extraction would give.

Memory: rows go to disk picture by picture, so at most ``2 × n_jobs`` pictures with their
descriptors are held at a time, whatever the number of images and the size of a shard, beside
about 500 bytes an image for the catalogue.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import DataError, ImageError, ParameterError, StoreError
from bowsaw.files import disk_full_is_clear
from bowsaw.images.folder import ImageFolder
from bowsaw.parallel import effective_jobs, ordered_map
from bowsaw.progress import Progress
from bowsaw.store.catalog import CATALOG_NAME, Catalog, open_catalog
from bowsaw.store.content import OK, SET_ASIDE, Content, Entry, Recipe, n_rows
from bowsaw.store.lock import LOCK_NAME, only_writer
from bowsaw.store.shards import N_POSITION, ShardWriter, discard, open_positions, open_values
from bowsaw.store.store import Store

SHARD_BYTES = 64 * 2**20
SHARD_IMAGES = 4096
"""A shard also ends here, so that images with few descriptors are committed now and then too."""


def extract(
    images: ImageFolder,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    *,
    n_jobs: int | None = -1,
    strict: bool = False,
    overwrite: bool = False,
    shard_bytes: int = SHARD_BYTES,
    verbose: bool | int = False,
) -> Store:
    """Describe a folder of images into a store on disk, or bring such a store up to date.

    Run it again after an interruption and it goes on where it was; run it again on a finished store
    and it redoes just what changed images ask for.

    Parameters
    ----------
    images : ImageFolder
        The images with their classes.
    descriptor : Descriptor
        What to compute of each image.
    path : path-like
        The store, a folder: a new one, an empty one or a store.
    n_jobs : int or None, default=-1
        Threads; -1 for every core. The result is the same for any number.
    strict : bool, default=False
        Stop at the first image that cannot be used, with its ImageError, instead of setting it
        aside. What was committed stays.
    overwrite : bool, default=False
        Replace a store that was made with other parameters or whose catalogue is damaged. A store
        with the same parameters is continued all the same.
    shard_bytes : int, default=64 MiB
        Size of a shard's descriptors. A store keeps the size that it was begun with.
    verbose : bool, default=False
        Show progress on a terminal.

    Returns
    -------
    Store
        The finished store, open.

    Raises
    ------
    StoreError
        When the store has other parameters and ``overwrite`` is False, or cannot be written.
    StoreBusyError
        When another process writes to it.
    SpaceError
        When the disk is full. Run it again with more space, and it goes on.

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
    >>> store = bs.extract(bs.ImageFolder(root / "pets"), bs.DenseSift(), root / "pets.store")
    >>> store.bags, store.y.tolist(), store.paths
    (Bags(2 bags, 24 descriptors of 128 uint8, scale 512), [0, 1], ('cats/1.png', 'dogs/1.png'))
    """
    descriptor.validate()
    effective_jobs(n_jobs)
    if shard_bytes < 1:
        raise ParameterError(f"shard_bytes must be at least 1; got {shard_bytes!r}.")
    folder = Path(path)
    run = _Run(images, descriptor, folder, n_jobs, bool(verbose))
    _claim(folder)
    with only_writer(folder), closing(open_catalog(folder, overwrite)) as catalog:
        found = catalog.read()
        before = found or Content(run.recipe, shard_bytes=shard_bytes)
        if before.recipe != run.recipe:
            if not overwrite:
                raise StoreError(_difference(folder, before.recipe, run.recipe))
            before = Content(run.recipe, shard_bytes=shard_bytes)
        kept = run.sound_entries(before)
        if strict:
            run.refuse_set_aside(kept)
        classes = tuple(str(name) for name in images.classes)
        content = replace(before, classes=classes, entries=kept + run.listing[len(kept) :])
        if content != found:
            catalog.begin(content)
        discard(folder, len(content.shards()))
        run.finish(catalog, content, strict)
    return Store(folder)


def _claim(folder: Path) -> None:
    """Make the folder, unless it is there and holds somebody else's files."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if names and not names & {LOCK_NAME, CATALOG_NAME}:
            raise StoreError(
                f"{folder} is not a store and not empty (it holds {min(names)!r}). Choose another "
                "output."
            )
        with disk_full_is_clear(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise StoreError(
            f"{folder} cannot become a store: {error.strerror}. Choose another output."
        ) from error


def _difference(folder: Path, stored: Recipe, asked: Recipe) -> str:
    old, new = stored.parameters(), asked.parameters()
    names = sorted(name for name in old | new if old.get(name) != new.get(name))
    told = ", ".join(f"{n} was {old.get(n)!r} and is {new.get(n)!r}" for n in names)
    return (
        f"the store {folder} was made with other parameters: {told}. Choose another output, or "
        "replace the store with --overwrite."
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One image described, or the trouble with it."""

    descriptors: NDArray[Any]
    positions: NDArray[np.float32]
    width: int | None = None
    height: int | None = None
    digest: str | None = None
    trouble: ImageError | None = None

    def entry(self, pending: Entry, shard: int, start: int) -> Entry:
        """Return the image's line in the catalogue."""
        return replace(
            pending,
            status=OK if self.trouble is None else SET_ASIDE,
            reason="" if self.trouble is None else self.trouble.reason,
            shard=shard,
            start=start,
            count=len(self.descriptors),
            width=self.width,
            height=self.height,
            digest=self.digest,
        )


class _Run:
    """One run over a folder of images."""

    def __init__(
        self,
        images: ImageFolder,
        descriptor: Descriptor,
        folder: Path,
        n_jobs: int | None,
        verbose: bool,
    ) -> None:
        self.recipe = Recipe.of(descriptor)
        self._names = images.relative_paths
        self.listing = tuple(
            Entry(row, name.encode("utf-8", "backslashreplace").decode(), int(label))
            for row, (name, label) in enumerate(zip(self._names, images.y, strict=True))
        )
        self._sources = images.paths
        self._descriptor = descriptor
        self._folder = folder
        self._n_jobs = n_jobs
        self._verbose = verbose

    def _is_full(self, n_images: int, n_descriptors: int, shard_bytes: int) -> bool:
        row_bytes = self.recipe.n_dims * self.recipe.stored_dtype.itemsize
        return n_images >= SHARD_IMAGES or n_descriptors * row_bytes >= shard_bytes

    # -- what holds ------------------------------------------------------------------------------

    def sound_entries(self, before: Content) -> tuple[Entry, ...]:
        """Return the images of the leading shards that a fresh extraction would write alike."""
        n_same = self._count_same(before.entries[: before.n_done])
        kept = 0
        for number, shard in enumerate(before.shards()):
            end, length = kept + len(shard), n_rows(shard)
            closed = self._is_full(len(shard), length, before.shard_bytes)
            if end > n_same or not (closed or end == len(self.listing)):
                break
            if not self._has_files(number, length):
                break
            kept = end
        return before.entries[:kept]

    def _count_same(self, done: tuple[Entry, ...]) -> int:
        """Count the leading images that are listed as they were and whose files are the same."""
        listed = 0
        for old, new in zip(done, self.listing, strict=False):
            if (old.path, old.label) != (new.path, new.label):
                break
            listed += 1
        with Progress("checking", listed, show=self._verbose and listed > 0) as bar:
            checks = ordered_map(self._is_same, done[:listed], self._n_jobs)
            return sum(1 for _ in takewhile(bool, bar.track(checks)))

    def _is_same(self, entry: Entry) -> bool:
        if entry.status == SET_ASIDE:
            trouble = self._describe(entry).trouble
            return trouble is not None and trouble.reason == entry.reason
        source = Path(self._sources[entry.row])
        try:
            # A pipe in the file's place would be waited for without end.
            if not source.is_file():
                return False
            with source.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()[:16] == entry.digest
        except OSError:
            return False

    def _has_files(self, number: int, length: int) -> bool:
        recipe = self.recipe
        try:
            open_values(self._folder, number, length, recipe.n_dims, recipe.stored_dtype)
            open_positions(self._folder, number, length)
        except StoreError:
            return False
        return True

    def refuse_set_aside(self, entries: Iterable[Entry]) -> None:
        """Raise the ImageError of the first image that was set aside."""
        for entry in entries:
            if entry.status == SET_ASIDE:
                raise ImageError(self._sources[entry.row], entry.reason)

    # -- what is missing -------------------------------------------------------------------------

    def finish(self, catalog: Catalog, content: Content, strict: bool) -> None:
        """Describe the pending images, shard by shard."""
        n_done, n_images = content.n_done, len(content.entries)
        pending = content.entries[n_done:]
        outcomes = ordered_map(self._describe, pending, self._n_jobs)
        number = len(content.shards())
        with Progress("extracting", n_images, show=self._verbose) as bar:
            bar.step(n_done)
            work = bar.track(zip(pending, outcomes, strict=True))
            while n_done < n_images:
                with ShardWriter(
                    self._folder, number, self.recipe.n_dims, self.recipe.stored_dtype
                ) as writer:
                    shard = self._fill(writer, number, work, content.shard_bytes, strict)
                catalog.commit(shard)
                n_done += len(shard)
                number += 1

    def _fill(
        self,
        writer: ShardWriter,
        number: int,
        work: Iterator[tuple[Entry, _Outcome]],
        shard_bytes: int,
        strict: bool,
    ) -> list[Entry]:
        """Append images to one shard until it is full or there are no more."""
        shard: list[Entry] = []
        for pending, outcome in work:
            if strict and outcome.trouble is not None:
                raise outcome.trouble
            shard.append(outcome.entry(pending, number, writer.n_rows))
            writer.append(outcome.descriptors, outcome.positions)
            if self._is_full(len(shard), writer.n_rows, shard_bytes):
                break
        return shard

    def _describe(self, entry: Entry) -> _Outcome:
        """Describe one image; runs in worker threads."""
        n_dims, dtype = self.recipe.n_dims, self.recipe.stored_dtype
        try:
            if entry.path != self._names[entry.row]:
                raise ImageError(entry.path, "a file name that is not Unicode")
            picture = self._descriptor.load(self._sources[entry.row])
            values, positions = self._descriptor.describe(picture.grey)
        except ImageError as error:
            nothing = np.empty((0, n_dims), dtype)
            return _Outcome(nothing, np.empty((0, N_POSITION), np.float32), trouble=error)
        # A store trusts its rows from here on: what a descriptor does wrong has to end here.
        if values.dtype != dtype or values.shape != (len(values), n_dims):
            raise DataError(
                f"the descriptor says that it gives {dtype} (n, {n_dims}), but for {entry.path} it "
                f"gave {values.dtype} {values.shape}. Correct its describe()."
            )
        if positions.shape != (len(values), N_POSITION):
            raise DataError(
                f"a position must be (x, y, side) for each of the {len(values)} descriptors of "
                f"{entry.path}; got shape {positions.shape}. Correct the descriptor's describe()."
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"descriptors must be finite; those of {entry.path} hold NaN or infinity. Correct "
                "the descriptor's describe()."
            )
        height, width = picture.grey.shape
        return _Outcome(values, positions, width, height, f"{picture.digest or 0:016x}")
