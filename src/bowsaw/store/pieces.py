"""Extraction by several machines: pieces, and shards joined of them.

**The problem.** Where a shard ends depends on how many descriptors all images before have, and
that is known only once they are described. Workers describe many blocks of images at a time, so
none of them can know which shard it is writing.

**The method.** A worker writes the rows of a block into a piece, two files of the run's room
``pieces/…`` in the store's folder, and reports what it found: sizes, counts, digests, troubles.
The client takes the reports in the order of the images and cuts them into shards by the rule that
``extraction`` uses on one machine. Each shard is then joined from its pieces by a worker, in
another room-file that gets the shard's name when it is whole. The client commits the shards in
their order, to the one catalogue that it alone writes, and removes pieces that are used up.

So images are read and descriptors written by workers alone, and what travels are names and counts.
The price is that rows are written twice and read once more. The store ends in the same bytes,
however many workers there were and whichever of them died: a piece or a shard that is written
twice has the same content, and each attempt has files of its own until it is done.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bowsaw.checkpoint import translate_enospc
from bowsaw.errors import ClusterError
from bowsaw.parallel.dask import Cluster, block_size
from bowsaw.store.content import Entry, Recipe
from bowsaw.store.describing import Describer, Finding, Target
from bowsaw.store.shards import (
    PIECES,
    POSITIONS,
    VALUES,
    ShardWriter,
    open_positions,
    open_values,
    shard_path,
)

T = TypeVar("T")

CHECKED_IMAGES = 128
"""Images that a worker looks at again at a time, which takes less than describing them."""


@dataclass(frozen=True)
class Block:
    """Images that one worker describes into one piece."""

    number: int
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Span:
    """Rows of a piece, and how many the piece has."""

    block: int
    n_rows: int
    start: int
    stop: int


@dataclass(frozen=True)
class Joint:
    """A shard to be joined of spans, and the images in it."""

    number: int
    spans: tuple[Span, ...]
    entries: tuple[Entry, ...]


# -- what workers do -------------------------------------------------------------------------------


def describe_block(block: Block, describer: Describer, room: Path) -> list[Finding]:
    """Write the piece of a block, and return what was found out about its images."""
    recipe, findings = describer.recipe, []
    with ShardWriter(
        room, block.number, recipe.n_dims, recipe.stored_dtype, room=room, sync=False
    ) as writer:
        for target in block.targets:
            finding, values, positions = describer.describe(target)
            writer.append(values, positions)
            findings.append(finding)
    return findings


def check_block(block: Sequence[tuple[Target, Entry]], describer: Describer) -> list[bool]:
    """Say for each image whether it is as its entry tells."""
    return [describer.is_same(target, entry) for target, entry in block]


def join(work: tuple[int, tuple[Span, ...]], recipe: Recipe, folder: Path, room: Path) -> None:
    """Write one shard from its pieces."""
    number, spans = work
    n_dims, dtype = recipe.n_dims, recipe.stored_dtype
    with ShardWriter(folder, number, n_dims, dtype, room=room) as writer:
        for span in spans:
            values = open_values(room, span.block, span.n_rows, n_dims, dtype)
            positions = open_positions(room, span.block, span.n_rows)
            rows = slice(span.start, span.stop)
            writer.append(values[rows], positions[rows])


# -- what the client does --------------------------------------------------------------------------


@contextmanager
def room_in(folder: Path) -> Iterator[Path]:
    """Make a room for a run in a store's folder, and remove it with everything in it."""
    room = folder.absolute() / PIECES / uuid.uuid4().hex
    with translate_enospc(room):
        room.mkdir(parents=True)
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
        with suppress(OSError):
            room.parent.rmdir()


def same_images(
    cluster: Cluster, describer: Describer, images: Sequence[tuple[Target, Entry]]
) -> Generator[bool, None, None]:
    """Yield for each image whether it is as its entry tells, in order."""
    blocks = _parts(images, CHECKED_IMAGES)
    with closing(cluster.ordered_map(check_block, blocks, describer)) as checked:
        for answers in checked:
            yield from answers


def gather_shards(
    cluster: Cluster,
    describer: Describer,
    room: Path,
    images: Sequence[tuple[Target, Entry]],
    first: int,
    is_full: Callable[[int, int], bool],
    look_at: Callable[[Entry, Finding], None],
) -> Iterator[tuple[Entry, ...]]:
    """Describe images into shards, and yield the entries of each once its files are on disk.

    Parameters
    ----------
    cluster : Cluster
        Who does it.
    describer : Describer
        How.
    room : Path
        Where the pieces go, in the store's folder.
    images : sequence of (Target, Entry)
        What is pending.
    first : int
        The number of the first shard.
    is_full : callable
        Says whether a shard of so many images and descriptors is closed.
    look_at : callable
        Called with each image in order before anything is done with it; may raise.
    """
    folder = room.parent.parent
    waiting: deque[tuple[Joint, Any]] = deque()
    try:
        with closing(_joints(cluster, describer, room, images, first, is_full, look_at)) as joints:
            for joint in joints:
                work = (joint.number, joint.spans)
                future = cluster.submit(join, work, describer.recipe, folder, room, priority=1)
                waiting.append((joint, future))
                while waiting and (waiting[0][1].done() or len(waiting) > 2):
                    yield _joined(cluster, room, waiting)
        while waiting:
            yield _joined(cluster, room, waiting)
    finally:
        cluster.cancel([future for _, future in waiting])


def _joined(cluster: Cluster, room: Path, waiting: deque[tuple[Joint, Any]]) -> tuple[Entry, ...]:
    joint, future = waiting[0]
    cluster.take(future)
    waiting.popleft()
    for span in joint.spans:
        if span.stop == span.n_rows:
            for kind in (VALUES, POSITIONS):
                with suppress(OSError):
                    shard_path(room, kind, span.block).unlink()
    return joint.entries


def _joints(
    cluster: Cluster,
    describer: Describer,
    room: Path,
    images: Sequence[tuple[Target, Entry]],
    first: int,
    is_full: Callable[[int, int], bool],
    look_at: Callable[[Entry, Finding], None],
) -> Generator[Joint, None, None]:
    """Cut what workers report into shards, in the order of the images."""
    pending = _parts(images, block_size(len(images)))
    blocks = (
        Block(number, tuple(target for target, _ in part)) for number, part in enumerate(pending)
    )
    entries: list[Entry] = []
    spans: list[Span] = []
    number, n_rows = first, 0
    with closing(cluster.ordered_map(describe_block, blocks, describer, room)) as reports:
        for block, (part, findings) in enumerate(zip(pending, reports, strict=True)):
            piece_rows = sum(finding.count for finding in findings)
            begin = end = 0
            for (target, entry), finding in zip(part, findings, strict=True):
                _refuse_blind(target, finding)
                look_at(entry, finding)
                entries.append(finding.entry(entry, number, n_rows))
                n_rows += finding.count
                end += finding.count
                if is_full(len(entries), n_rows):
                    if end > begin:
                        spans.append(Span(block, piece_rows, begin, end))
                    yield Joint(number, tuple(spans), tuple(entries))
                    entries, spans, number, n_rows, begin = [], [], number + 1, 0, end
            if end > begin:
                spans.append(Span(block, piece_rows, begin, end))
    if entries:
        yield Joint(number, tuple(spans), tuple(entries))


def _refuse_blind(target: Target, finding: Finding) -> None:
    """Raise when a worker found no file where there is one: it would set every image aside."""
    if finding.is_missing and target.source is not None and os.path.lexists(target.source):
        raise ClusterError(
            f"a worker does not see {target.source}, which this process sees. Put the images on a "
            "file system that all machines share under one path."
        )


def _parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
