"""From images to a store, by a run that can be killed at any moment.

Images are described in order and their rows appended to the current shard. A shard is closed by
the first image that brings its descriptors to ``shard_bytes`` (or that is its 4096th), whatever the
threads and interruptions: both files are flushed and renamed, then the shard's images are committed
to the catalogue in one transaction. After a crash the store is a whole number of shards, and
continuing gives the same bytes as an uninterrupted run.

A run first proves that the output is a store (its catalogue is ours) or empty; nothing is deleted
before. Then it finds how much of the store is still valid:

1. another fingerprint (a parameter, the layout): nothing; refused without ``overwrite``;
2. the leading shards whose images are the same files in the same order with the same labels (every
   digest is compared; an image that was set aside is tried again) and whose own files are sound;
3. a last shard that is not full only if no image follows it.

Memory: at most ``2 × n_jobs`` images with their descriptors, and about 500 bytes per image for the
catalogue. On a cluster workers describe images and write shards (``describing``) by the same rules.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from bowsaw.checkpoint import exclusive, make_folder
from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import DataError, ImageError, StoreError
from bowsaw.images.folder import ImageFolder
from bowsaw.images.split import auto_sizes
from bowsaw.parallel import effective_jobs, ordered_map
from bowsaw.parallel.dask import Cluster, connected
from bowsaw.progress import Progress
from bowsaw.store.catalog import (
    CATALOG_NAME,
    SET_ASIDE,
    Catalog,
    Content,
    Entry,
    Recipe,
    is_ours,
    n_rows,
    open_catalog,
)
from bowsaw.store.describing import (
    Describer,
    Finding,
    Target,
    extract_shards,
    make_staging_dir,
    same_images,
)
from bowsaw.store.shards import ShardWriter, discard, open_positions, open_values
from bowsaw.store.store import SPLIT_NAME, Store
from bowsaw.validation import check_int

Images = Sequence[tuple[Target, Entry]]
Shards = Generator[tuple[Entry, ...], None, None]
OnImage = Callable[[Entry, Finding], None]

SHARD_BYTES = 64 * 2**20
SHARD_IMAGES = 4096
"""A shard also ends here, so that images with few descriptors are committed now and then too."""


def extract(
    images: ImageFolder,
    descriptor: Descriptor,
    path: str | os.PathLike[str],
    *,
    split: tuple[int, int] | Literal["auto"] | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    strict: bool = False,
    overwrite: bool = False,
    shard_bytes: int = SHARD_BYTES,
    parallel: Any = None,
    verbose: bool | int = False,
) -> Store:
    """Describe a folder of images into a store on disk, or bring such a store up to date.

    Run it again after an interruption, and it continues; run it again on a finished store, and it
    redoes only what changed images require.

    Parameters
    ----------
    images : ImageFolder
        The images with their classes.
    descriptor : Descriptor
        What to compute for each image.
    path : path-like
        The store, a folder: a new one, an empty one or a store.
    split : tuple of int, "auto" or None, default=None
        The split to keep with the store: images per class for the codebook and to train; all
        others are test images. "auto" chooses both as ``Store.set_split`` does, and keeps no split
        where a class has fewer than 3 images. None keeps the split that the store has, or is
        "auto" for a new store.
    seed : int, default=0
        The seed of a split that is drawn.
    n_jobs : int or None, default=-1
        Threads; the result is the same for any number.
    strict : bool, default=False
        Stop at the first image that cannot be used, with its ImageError, instead of setting it
        aside. Committed shards are kept.
    overwrite : bool, default=False
        Replace a store that was made with other parameters or whose catalogue is damaged. A store
        with the same parameters is continued.
    shard_bytes : int, default=64 MiB
        Size of a shard's descriptors. A store keeps the size it was begun with.
    parallel : distributed.Client, str or None, default=None
        A client of Dask, or the address of its scheduler: workers instead of threads describe the
        images. They must see the images and the store under the same paths as this process. The
        store is the same.
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
    BusyError
        When another process is writing it.
    SpaceError
        When the disk is full. Free some space and run it again to continue.
    ClusterError
        When the cluster cannot do the work. Committed shards are kept.

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
    check_int(shard_bytes, "shard_bytes", 1)
    folder = Path(path)
    with connected(parallel) as cluster:
        describer = Describer(descriptor, Recipe.of(descriptor))
        run = _Run(images, describer, folder, n_jobs, cluster, bool(verbose))
        if cluster is not None:
            cluster.check({images.root.absolute(): None})
        _claim(folder)
        run.update(strict, overwrite, shard_bytes)
    store = Store(folder)
    if store.n_usable and store.empty_classes:
        warnings.warn(
            f"left out, because none of their images can be used: {', '.join(store.empty_classes)}",
            stacklevel=2,
        )
    if store.n_usable:
        _keep_split(store, split, seed)
    return store


def _keep_split(store: Store, split: tuple[int, int] | Literal["auto"] | None, seed: int) -> None:
    """Keep a split with a store whose images may have changed."""
    if split is None:
        try:
            if store.split is not None:
                return
        except DataError as error:
            warnings.warn(f"the store gets another split, because {error}", stacklevel=3)
    sizes = split if isinstance(split, tuple) else auto_sizes(store.y, store.classes)
    if sizes is None:
        (store.path / SPLIT_NAME).unlink(missing_ok=True)
    else:
        codebook, train = sizes
        store.set_split(codebook=codebook, train=train, seed=seed)


def _claim(folder: Path) -> None:
    """Make the folder, or prove that it is a store of ours or empty."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        catalog = folder / CATALOG_NAME
        # A run that ended before its catalogue was begun leaves its lock and an empty catalogue.
        begun = {"writer.lock", CATALOG_NAME, f"{CATALOG_NAME}-journal"}
        is_empty = names <= begun and not (catalog.exists() and catalog.stat().st_size)
        if not is_empty and not is_ours(catalog):
            what = "not a bowsaw catalogue" if CATALOG_NAME in names else "not a store"
            raise StoreError(
                f"{catalog if CATALOG_NAME in names else folder} is {what}, and the folder is not "
                f"empty (it holds {min(names)!r}). Choose another output."
            )
        make_folder(folder)
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise StoreError(
            f"{folder} cannot become a store: {error.strerror}. Choose another output."
        ) from error


def _difference(folder: Path, stored: Recipe, asked: Recipe) -> str:
    old, new = stored.parameters(), asked.parameters()
    names = sorted(name for name in old | new if old.get(name) != new.get(name))
    changes = ", ".join(f"{n} was {old.get(n)!r} and is {new.get(n)!r}" for n in names)
    return (
        f"the store {folder} was made with other parameters: {changes}. Choose another output, or "
        "replace the store with --overwrite."
    )


def _listing(images: ImageFolder) -> tuple[Entry, ...]:
    """Return the pending entry of each image; names that are not Unicode are escaped."""
    taken = set(images.relative_paths)
    entries = []
    for row, (given, label) in enumerate(zip(images.relative_paths, images.y, strict=True)):
        name = given.encode("utf-8", "backslashreplace").decode()
        while name != given and name in taken:
            name += "?"
        taken.add(name)
        entries.append(Entry(row, name, int(label)))
    return tuple(entries)


@dataclass
class _Run:
    _images: ImageFolder
    _describer: Describer
    _folder: Path
    _n_jobs: int | None
    _cluster: Cluster | None
    _verbose: bool
    _shard_bytes: int = 0

    def __post_init__(self) -> None:
        self.recipe, self.listing = self._describer.recipe, _listing(self._images)

    def update(self, strict: bool, overwrite: bool, shard_bytes: int) -> None:
        """Keep what is valid of the store, and describe the rest."""
        folder = self._folder
        with exclusive(folder, "store"), closing(open_catalog(folder, overwrite)) as catalog:
            found = catalog.read()
            before = found or Content(self.recipe, shard_bytes=shard_bytes)
            if before.recipe != self.recipe:
                if not overwrite:
                    raise StoreError(_difference(folder, before.recipe, self.recipe))
                before = Content(self.recipe, shard_bytes=shard_bytes)
            self._shard_bytes = before.shard_bytes
            kept = self._valid_entries(before)
            for entry in kept if strict else ():
                if entry.status == SET_ASIDE:
                    raise ImageError(self._images.paths[entry.row], entry.reason)
            classes = tuple(str(name) for name in self._images.classes)
            content = replace(before, classes=classes, entries=kept + self.listing[len(kept) :])
            if content != found:
                catalog.begin(content)
            discard(folder, len(content.shards()))
            self._finish(catalog, content, strict)

    def _target(self, entry: Entry) -> Target:
        """Return where an image is; absolute, because workers have another working folder."""
        if entry.path != self._images.relative_paths[entry.row]:
            return Target(entry.path, None)
        source = self._images.paths[entry.row]
        if self._cluster is not None:
            source = str(Path(source).absolute())
        return Target(entry.path, source)

    def _is_full(self, n_images: int, n_descriptors: int) -> bool:
        row_bytes = self.recipe.n_dims * self.recipe.stored_dtype.itemsize
        return n_images >= SHARD_IMAGES or n_descriptors * row_bytes >= self._shard_bytes

    def _valid_entries(self, before: Content) -> tuple[Entry, ...]:
        """Return the images of the leading shards that a new extraction would write alike."""
        n_same = self._count_same(before.entries[: before.n_done])
        kept = 0
        for number, shard in enumerate(before.shards()):
            end, length = kept + len(shard), n_rows(shard)
            if end > n_same or not (self._is_full(len(shard), length) or end == len(self.listing)):
                break
            try:
                dtype = self.recipe.stored_dtype
                open_values(self._folder, number, length, self.recipe.n_dims, dtype)
                open_positions(self._folder, number, length)
            except StoreError:
                break
            kept = end
        return before.entries[:kept]

    def _count_same(self, done: tuple[Entry, ...]) -> int:
        """Count the leading images that are listed as before and whose files are the same."""
        pairs = zip(done, self.listing, strict=False)
        of_both = attrgetter("path", "label")
        alike = takewhile(lambda pair: of_both(pair[0]) == of_both(pair[1]), pairs)
        images = [(self._target(old), old) for old, _ in alike]
        with Progress("checking", len(images), show=self._verbose and bool(images)) as bar:
            if self._cluster is None:
                check = self._describer.is_same
                checks = ordered_map(lambda image: check(*image), images, self._n_jobs)
                return sum(1 for _ in takewhile(bool, bar.track(checks)))
            with closing(same_images(self._cluster, self._describer, images)) as answers:
                return sum(1 for _ in takewhile(bool, bar.track(answers)))

    def _finish(self, catalog: Catalog, content: Content, strict: bool) -> None:
        """Describe the pending images, shard by shard."""
        images = [(self._target(entry), entry) for entry in content.entries[content.n_done :]]
        with Progress("extracting", len(content.entries), show=self._verbose) as bar:
            bar.begin_at(content.n_done)

            def on_image(entry: Entry, finding: Finding) -> None:
                if strict and finding.error is not None:
                    raise finding.error
                bar.step()

            first = len(content.shards())
            shards = self._by_threads if self._cluster is None else self._by_cluster
            with closing(shards(images, first, on_image)) as work:
                for entries in work:
                    catalog.commit(entries)

    def _by_cluster(self, images: Images, first: int, on_image: OnImage) -> Shards:
        assert self._cluster is not None
        with make_staging_dir(self._folder) as staging_dir:
            self._cluster.check({staging_dir: None})
            yield from extract_shards(
                self._cluster, self._describer, staging_dir, images, first, self._is_full, on_image
            )

    def _by_threads(self, images: Images, first: int, on_image: OnImage) -> Shards:
        """Write shards one after the other, and yield the entries of each."""
        targets = (target for target, _ in images)
        described = ordered_map(self._describer.describe, targets, self._n_jobs)
        work = zip((entry for _, entry in images), described, strict=True)
        n_left, number = len(images), first
        while n_left:
            shard: list[Entry] = []
            with ShardWriter(
                self._folder, number, self.recipe.n_dims, self.recipe.stored_dtype
            ) as writer:
                for pending, (finding, values, positions) in work:
                    on_image(pending, finding)
                    shard.append(finding.entry(pending, number, writer.n_rows))
                    writer.append(values, positions)
                    if self._is_full(len(shard), writer.n_rows):
                        break
            yield tuple(shard)
            n_left -= len(shard)
            number += 1
