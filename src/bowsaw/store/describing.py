"""Describing images: one image becomes rows of a store, or the reason why it does not.

Threads and workers of a cluster describe through the same ``Describer``, so the store is the same.
Where a shard ends depends on all images before. So a worker writes the rows of a block into a
segment, two files in the staging folder ``segments/…`` of the run, and reports sizes, counts,
digests and errors. This process cuts the reports, in the order of the images, into shards; a worker
joins each shard from its segments; this process commits it to the catalogue.

Invariant: the store has the same bytes whichever workers died, because a segment or shard written
twice has the same content, and each attempt has its own files until it is done.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bowsaw.checkpoint import short_digest, translate_write_errors
from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import ClusterError, DataError, ImageError
from bowsaw.parallel.dask import Cluster, block_size
from bowsaw.store.catalog import OK, SET_ASIDE, Entry, Recipe
from bowsaw.store.shards import (
    N_POSITION,
    POSITIONS,
    SEGMENTS,
    VALUES,
    ShardWriter,
    open_positions,
    open_values,
    shard_path,
)

T = TypeVar("T")

CHECKED_IMAGES = 128
"""Images per block that a worker compares with the catalogue, which is quicker than describing."""


@dataclass(frozen=True, slots=True)
class Target:
    """An image to describe: its path in the catalogue, and its file (None for an unusable name)."""

    path: str
    source: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about an image, beside its descriptors."""

    count: int = 0
    width: int | None = None
    height: int | None = None
    digest: str | None = None
    error: ImageError | None = None
    is_missing: bool = False
    """Whether the error is that there was no file."""

    def entry(self, pending: Entry, shard: int, start: int) -> Entry:
        """Return the image's row of the catalogue."""
        status, reason = (OK, "") if self.error is None else (SET_ASIDE, self.error.reason)
        about = {name: getattr(self, name) for name in ("count", "width", "height", "digest")}
        return replace(pending, status=status, reason=reason, shard=shard, start=start, **about)


Described = tuple[Finding, NDArray[Any], NDArray[np.float32]]
"""A finding, the descriptors ``(count, n_dims)`` and their positions ``(count, 3)``."""


@dataclass(frozen=True)
class Describer:
    """A descriptor and its recipe, to which results are held; small enough to be sent."""

    descriptor: Descriptor
    recipe: Recipe

    def describe(self, target: Target) -> Described:
        """Describe one image."""
        n_dims, dtype = self.recipe.n_dims, self.recipe.stored_dtype
        try:
            if target.source is None:
                raise ImageError(target.path, "a file name that is not Unicode")
            image = self.descriptor.load(target.source)
            values, positions = self.descriptor.describe(image.grey)
        except ImageError as error:
            is_missing = target.source is not None and not os.path.lexists(target.source)
            finding = Finding(error=error, is_missing=is_missing)
            return finding, np.empty((0, n_dims), dtype), np.empty((0, N_POSITION), np.float32)
        # A store trusts its rows: an error of a descriptor must be noticed here.
        if values.dtype != dtype or values.shape != (len(values), n_dims):
            raise DataError(
                f"the descriptor declares {dtype} (n, {n_dims}), but for {target.path} it returned "
                f"{values.dtype} {values.shape}. Correct its describe()."
            )
        if positions.shape != (len(values), N_POSITION):
            raise DataError(
                f"a position must be (x, y, side) for each of the {len(values)} descriptors of "
                f"{target.path}; got shape {positions.shape}. Correct the descriptor's describe()."
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"descriptors must be finite; those of {target.path} hold NaN or infinity. "
                "Correct the descriptor's describe()."
            )
        height, width = image.grey.shape
        return Finding(len(values), width, height, f"{image.digest or 0:016x}"), values, positions

    def is_same(self, target: Target, entry: Entry) -> bool:
        """Return whether a new extraction would record the image as ``entry``."""
        if entry.status == SET_ASIDE:
            error = self.describe(target)[0].error
            return error is not None and error.reason == entry.reason
        source = Path(target.source or "")
        with suppress(OSError):
            # Reading a pipe in the file's place would block.
            if target.source is not None and source.is_file():
                with source.open("rb") as file:
                    return f"{short_digest(file):016x}" == entry.digest
        return False


@dataclass(frozen=True)
class Span:
    """Rows ``start`` to ``stop`` of the segment of a block, which has ``n_rows``."""

    block: int
    n_rows: int
    start: int
    stop: int


@dataclass(frozen=True)
class ShardPlan:
    """A shard to be joined from spans, and its images."""

    number: int
    spans: tuple[Span, ...]
    entries: tuple[Entry, ...]


def describe_block(
    block: tuple[int, Sequence[Target]], describer: Describer, staging_dir: Path
) -> list[Finding]:
    """Write the segment of a numbered block of images, and return what was found."""
    number, targets = block
    recipe, findings = describer.recipe, []
    with ShardWriter(
        staging_dir, number, recipe.n_dims, recipe.stored_dtype, staging_dir=staging_dir, sync=False
    ) as writer:
        for target in targets:
            finding, values, positions = describer.describe(target)
            writer.append(values, positions)
            findings.append(finding)
    return findings


def check_block(block: Sequence[tuple[Target, Entry]], describer: Describer) -> list[bool]:
    """Return for each image whether it still matches its entry."""
    return [describer.is_same(target, entry) for target, entry in block]


def join_shard(
    work: tuple[int, tuple[Span, ...]], recipe: Recipe, folder: Path, staging_dir: Path
) -> None:
    """Write one shard from its segments."""
    number, spans = work
    n_dims, dtype = recipe.n_dims, recipe.stored_dtype
    with ShardWriter(folder, number, n_dims, dtype, staging_dir=staging_dir) as writer:
        for span in spans:
            values = open_values(staging_dir, span.block, span.n_rows, n_dims, dtype)
            positions = open_positions(staging_dir, span.block, span.n_rows)
            rows = slice(span.start, span.stop)
            writer.append(values[rows], positions[rows])


@contextmanager
def make_staging_dir(folder: Path) -> Iterator[Path]:
    """Make the staging folder of a run in a store, and remove it with everything in it."""
    staging_dir = folder.absolute() / SEGMENTS / uuid.uuid4().hex
    with translate_write_errors(staging_dir):
        staging_dir.mkdir(parents=True)
    try:
        yield staging_dir
    finally:
        shutil.rmtree(staging_dir, ignore_errors=True)
        with suppress(OSError):
            staging_dir.parent.rmdir()


def same_images(
    cluster: Cluster, describer: Describer, images: Sequence[tuple[Target, Entry]]
) -> Generator[bool, None, None]:
    """Yield for each image, in order, whether it still matches its entry."""
    blocks = _parts(images, CHECKED_IMAGES)
    with closing(cluster.ordered_map(check_block, blocks, describer)) as checked:
        for answers in checked:
            yield from answers


def extract_shards(
    cluster: Cluster,
    describer: Describer,
    staging_dir: Path,
    images: Sequence[tuple[Target, Entry]],
    first: int,
    is_full: Callable[[int, int], bool],
    on_image: Callable[[Entry, Finding], None],
) -> Iterator[tuple[Entry, ...]]:
    """Describe images into shards, from number ``first`` on; yield each one's entries when on disk.

    ``on_image`` is called with each image in order before it is used, and may raise.
    """
    folder = staging_dir.parent.parent
    waiting: deque[tuple[ShardPlan, Any]] = deque()

    def finish_one() -> tuple[Entry, ...]:
        plan, future = waiting[0]
        cluster.take(future)
        waiting.popleft()
        for span in plan.spans:
            if span.stop == span.n_rows:
                for kind in (VALUES, POSITIONS):
                    with suppress(OSError):
                        shard_path(staging_dir, kind, span.block).unlink()
        return plan.entries

    pending = _parts(images, block_size(len(images)))
    blocks = ((number, [target for target, _ in part]) for number, part in enumerate(pending))
    try:
        with closing(
            cluster.ordered_map(describe_block, blocks, describer, staging_dir)
        ) as reports:
            for plan in _plan_shards(zip(pending, reports, strict=True), first, is_full, on_image):
                work = (plan.number, plan.spans)
                future = cluster.submit(
                    join_shard, work, describer.recipe, folder, staging_dir, priority=1
                )
                waiting.append((plan, future))
                while waiting and (waiting[0][1].done() or len(waiting) > 2):
                    yield finish_one()
        while waiting:
            yield finish_one()
    finally:
        cluster.cancel([future for _, future in waiting])


def _plan_shards(
    reported: Iterator[tuple[Sequence[tuple[Target, Entry]], list[Finding]]],
    first: int,
    is_full: Callable[[int, int], bool],
    on_image: Callable[[Entry, Finding], None],
) -> Iterator[ShardPlan]:
    """Cut what workers report into shards, in the order of the images."""
    entries: list[Entry] = []
    spans: list[Span] = []
    number, n_rows = first, 0
    for block, (part, findings) in enumerate(reported):
        segment_rows = sum(finding.count for finding in findings)
        begin = end = 0
        for (target, entry), finding in zip(part, findings, strict=True):
            _check_visible(target, finding)
            on_image(entry, finding)
            entries.append(finding.entry(entry, number, n_rows))
            n_rows += finding.count
            end += finding.count
            if is_full(len(entries), n_rows):
                if end > begin:
                    spans.append(Span(block, segment_rows, begin, end))
                yield ShardPlan(number, tuple(spans), tuple(entries))
                entries, spans, number, n_rows, begin = [], [], number + 1, 0, end
        if end > begin:
            spans.append(Span(block, segment_rows, begin, end))
    if entries:
        yield ShardPlan(number, tuple(spans), tuple(entries))


def _check_visible(target: Target, finding: Finding) -> None:
    """Raise when a worker found no file where there is one: it would set every image aside."""
    if finding.is_missing and target.source is not None and os.path.lexists(target.source):
        raise ClusterError(
            f"a worker does not see {target.source}, which this process sees. Put the images on a "
            "file system that all machines share under one path."
        )


def _parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
