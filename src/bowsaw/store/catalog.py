"""The catalogue: what a store knows about each of its images.

``catalog.sqlite`` holds two tables. The same images with the same parameters give the same dump.
The images of a shard are committed in one transaction, after its files are on disk.

``meta`` (name, value), both text, describes the whole store:

- ``schema``: the version of this layout; another version is refused.
- ``bowsaw_version``: the release that began the store.
- ``description``: the descriptor's name, version and parameters, as sorted JSON.
- ``reading``: the limits of reading that decide which images are set aside, as sorted JSON.
- ``scale``, ``dtype``, ``n_dims``: how a descriptor is stored.
- ``fingerprint``: SHA-256 over schema, description, reading, scale, dtype and n_dims. A store
  with another fingerprint is never continued or reused.
- ``shard_bytes``: a shard is closed once its descriptors reach this size.
- ``classes``: the names of the classes, a JSON list; a label is a position in it.

``images`` has one row per image, in the order of the folder:

- ``row``: 0, 1, 2 …
- ``path``: relative to the images' folder, with ``/``.
- ``label``: a position in ``classes``.
- ``status``: ``ok``, ``set-aside`` (with a ``reason``, else empty) or ``pending`` (not yet done;
  the fields that follow are then empty). Pending images are the last rows.
- ``shard``, ``start``, ``count``: the image's descriptors are the rows ``start`` to ``start +
  count`` of shard number ``shard``; an image that was set aside has count 0. Shards are numbered
  from 0 in the order of the images, which fill each shard without a gap.
- ``width``, ``height``, ``digest``: of usable images only: pixels after resizing, and the first
  64 bits of the SHA-256 of the file's bytes in hexadecimal (SQLite's integers have a sign).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.checkpoint import json_digest
from bowsaw.descriptors.base import Descriptor
from bowsaw.errors import ParameterError, SpaceError, StoreError
from bowsaw.validation import canonical_json, check_scale, parse_json

CATALOG_NAME = "catalog.sqlite"
SCHEMA = 1
"""The version of the layout; it changes with the tables, the files or their meaning."""

OK, SET_ASIDE, PENDING = "ok", "set-aside", "pending"
_DTYPES = ("uint8", "float32")
_NOT_DAMAGE = {
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("BUSY", "LOCKED", "READONLY", "IOERR", "CANTOPEN", "PERM")
}
_MAX_STEPS, _STEPS_PER_CHECK = 200_000, 1000
"""Steps of SQLite that reading may take beyond one per byte, and between two checks of them."""

_IMAGES = """\
images (
    row INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    label INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    shard INTEGER,
    start INTEGER,
    count INTEGER,
    width INTEGER,
    height INTEGER,
    digest TEXT
)"""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    f"CREATE TABLE IF NOT EXISTS {_IMAGES}",
)
_MARK = _IMAGES.partition("label")[0].encode()
"""What every catalogue of ours has in its first page, however damaged the rest is."""
_FIRST_PAGE = 65536


@dataclass(frozen=True, slots=True)
class Entry:
    """One image; the fields are the columns of ``images``."""

    row: int
    path: str
    label: int
    status: str = PENDING
    reason: str = ""
    shard: int | None = None
    start: int | None = None
    count: int | None = None
    width: int | None = None
    height: int | None = None
    digest: str | None = None


COLUMNS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Recipe:
    """Everything but the image that decides which descriptors it gets."""

    description: str
    reading: str
    scale: float
    dtype: str
    n_dims: int

    @classmethod
    def of(cls, descriptor: Descriptor) -> Recipe:
        """Return the recipe of a descriptor."""
        dtype = descriptor.stored_dtype.name
        if dtype not in _DTYPES:
            raise ParameterError(
                f"a store holds descriptors of {' or '.join(_DTYPES)}; got {dtype}. Convert them "
                "in the descriptor."
            )
        limits = ("max_pixels", "max_side", "min_side")
        reading = {name: getattr(descriptor, name) for name in limits}
        return cls(
            description=canonical_json(descriptor.description() or {}),
            reading=json.dumps(reading, sort_keys=True),
            scale=check_scale(descriptor.scale),
            dtype=dtype,
            n_dims=int(descriptor.n_dims),
        )

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the descriptors."""
        return np.dtype(self.dtype)

    @property
    def fingerprint(self) -> str:
        """Equal for two recipes only when they give the same descriptors in the same layout."""
        return json_digest([SCHEMA, *astuple(self)])

    def parameters(self) -> dict[str, Any]:
        """Return every parameter by name, to report which one differs."""
        stored = {"scale": self.scale, "dtype": self.dtype, "n_dims": self.n_dims}
        return {**stored, **parse_json(self.reading), **parse_json(self.description)}


@dataclass(frozen=True)
class Content:
    """Everything that a catalogue holds."""

    recipe: Recipe
    classes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    shard_bytes: int = 0
    bowsaw_version: str = __version__

    @property
    def n_done(self) -> int:
        """The number of images that are no longer pending."""
        return next((e.row for e in self.entries if e.status == PENDING), len(self.entries))

    def shards(self) -> list[tuple[Entry, ...]]:
        """Return the images of each shard, set aside or not."""
        done = self.entries[: self.n_done]
        return [tuple(images) for _, images in groupby(done, key=attrgetter("shard"))]


def n_rows(images: Iterable[Entry]) -> int:
    """Return the number of descriptors of the images of a shard."""
    return sum(entry.count or 0 for entry in images)


def _find_damage(content: Content, fingerprint: str) -> str:
    """Return what is wrong with a catalogue that was changed by anything but bowsaw, or ""."""
    recipe = content.recipe
    if recipe.dtype not in _DTYPES or recipe.n_dims < 1 or not 0 < recipe.scale < np.inf:
        return f"it has {recipe.n_dims} dimensions of {recipe.dtype}, scale {recipe.scale}"
    if recipe.fingerprint != fingerprint:
        return "its parameters do not match its fingerprint"
    if not all(isinstance(name, str) for name in content.classes):
        return "its class names are not text"
    n_shards, end, pending = 0, 0, False
    for row, entry in enumerate(content.entries):
        if entry.row != row or not _is_typed(entry) or not 0 <= entry.label < len(content.classes):
            return f"row {row} is missing, has no class or a value of a wrong type"
        if _escapes(entry.path):
            return f"the path {entry.path!r} leads out of the images' folder"
        if entry.status == PENDING:
            pending = True
            continue
        if pending or entry.status not in (OK, SET_ASIDE):
            return f"the status of row {row} ({entry.status!r}) is impossible"
        if entry.shard == n_shards and entry.start == 0:
            n_shards, end = n_shards + 1, 0
        if entry.shard != n_shards - 1 or entry.start != end:
            return f"row {row} does not follow row {row - 1} in its shard"
        count = entry.count or 0
        if count < 0 or (count and entry.status == SET_ASIDE):
            return f"row {row} has {count} descriptors"
        if entry.status == OK and not (entry.count is not None and entry.width and entry.height):
            return f"row {row} has no size"
        if entry.status == OK and len(bytes.fromhex(entry.digest or "")) != 8:
            return f"row {row} has no digest"
        end += count
    return ""


def _is_typed(entry: Entry) -> bool:
    """Check types: SQLite keeps any value in any column."""
    texts = {*map(type, (entry.path, entry.status, entry.reason))}
    others = (entry.shard, entry.start, entry.count, entry.width, entry.height)
    numbers = {*map(type, others)}
    return type(entry.label) is int and texts == {str} and numbers <= {int, type(None)}


def _escapes(path: str) -> bool:
    if os.name == "nt":
        path = path.replace("\\", "/").replace(":", "/../")
    return path.startswith("/") or not path or ".." in path.split("/")


class DamagedError(StoreError):
    """A catalogue that only extracting again can repair."""


class Catalog:
    """The catalogue as its one writer uses it; made when it is not there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CATALOG_NAME
        with _translate_errors(self._path):
            # Transactions are begun and ended by hand: Python would not put CREATE inside one.
            self._connection = sqlite3.connect(self._path, isolation_level=None)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def read(self) -> Content | None:
        """Return the content, checked, or None when nothing was begun yet."""
        return _read(self._connection, self._path)

    def begin(self, content: Content) -> None:
        """Replace everything by ``content``, in one transaction."""
        recipe = content.recipe
        meta = {
            "schema": SCHEMA,
            "bowsaw_version": content.bowsaw_version,
            **vars(recipe),
            "scale": repr(recipe.scale),
            "fingerprint": recipe.fingerprint,
            "shard_bytes": content.shard_bytes,
            "classes": json.dumps(content.classes),
        }
        with self._transaction():
            for statement in _TABLES:
                self._connection.execute(statement)
            self._connection.execute("DELETE FROM meta")
            self._connection.execute("DELETE FROM images")
            pairs = [(name, str(value)) for name, value in meta.items()]
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", pairs)
            self._insert(content.entries)

    def commit(self, entries: Iterable[Entry]) -> None:
        """Record the images of one shard, in one transaction."""
        with self._transaction():
            self._insert(entries)

    def _insert(self, entries: Iterable[Entry]) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        rows = map(attrgetter(*COLUMNS), entries)
        self._connection.executemany(f"INSERT OR REPLACE INTO images VALUES ({marks})", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translate_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def is_ours(path: Path) -> bool:
    """Return whether a file is a catalogue of bowsaw, damaged or not."""
    with suppress(OSError), path.open("rb") as file:
        return _MARK in file.read(_FIRST_PAGE)
    return False


def open_catalog(folder: Path, overwrite: bool) -> Catalog:
    """Open a catalogue to write; a damaged one of ours is replaced if it may be overwritten."""
    catalog = Catalog(folder)
    try:
        catalog.read()
    except StoreError as error:
        catalog.close()
        path = folder / CATALOG_NAME
        if not (overwrite and isinstance(error, DamagedError) and is_ours(path)):
            raise
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        return Catalog(folder)
    return catalog


def read_catalog(folder: Path) -> Content:
    """Return the content of a store's catalogue, checked, without writing anything."""
    path = folder / CATALOG_NAME
    try:
        exists = path.is_file()
    except PermissionError as error:
        raise StoreError(
            f"the store {folder} may not be read: {error.strerror}. Ask for permission to read it, "
            "or copy it to a folder of your own."
        ) from error
    if not exists:
        what = "not a store (no catalog.sqlite)" if folder.exists() else "not there"
        raise StoreError(f"{folder} is {what}. Make a store with `bowsaw extract IMAGES -o STORE`.")
    with _translate_errors(path):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            content = _read(connection, path)
        finally:
            connection.close()
    if content is None:
        raise StoreError(
            f"the store {folder} is unfinished: no image is done. Run the same `bowsaw extract` "
            "again to finish it."
        )
    return content


def _read(connection: sqlite3.Connection, path: Path) -> Content | None:
    with _translate_errors(path), _bounded(connection, path):
        schema = connection.execute("SELECT type, name FROM sqlite_master LIMIT 20").fetchall()
        if not schema:
            return None
        if path.stat().st_size % connection.execute("PRAGMA page_size").fetchone()[0]:
            # SQLite would take the rest of the last page for zeros.
            raise _damaged(path, "its end is missing")
        tables = {str(name) for kind, name in schema if kind == "table"}
        # A view may have the name of a table, and rows without end.
        if not {"meta", "images"} <= tables:
            raise StoreError(
                f"{path} is not a bowsaw catalogue (its tables are {sorted(tables)}). Choose "
                "another output."
            )
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        if meta.get("schema") != str(SCHEMA):
            raise DamagedError(
                f"{path} has layout version {meta.get('schema')}, this bowsaw reads version "
                f"{SCHEMA}. Use the bowsaw that made it, or extract again with --overwrite."
            )
        columns = ", ".join(COLUMNS)
        lines = connection.execute(f"SELECT {columns} FROM images ORDER BY row").fetchall()
    try:
        content = Content(
            recipe=Recipe(
                **{name: meta[name] for name in ("description", "reading", "dtype")},
                scale=float(meta["scale"]),
                n_dims=int(meta["n_dims"]),
            ),
            classes=tuple(parse_json(meta["classes"])),
            shard_bytes=int(meta["shard_bytes"]),
            entries=tuple(Entry(*line) for line in lines),
            bowsaw_version=meta["bowsaw_version"],
        )
        content.recipe.parameters()
        damage = _find_damage(content, meta["fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        damage = f"unreadable ({error})"
    if damage:
        raise _damaged(path, damage)
    return content


@contextmanager
def _bounded(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Stop SQLite (13 steps per row) from reading for ever: damaged pages may form a loop."""
    left = _MAX_STEPS + path.stat().st_size

    def stop() -> bool:
        nonlocal left
        left -= _STEPS_PER_CHECK
        return left < 0

    connection.set_progress_handler(stop, _STEPS_PER_CHECK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _damaged(path: Path, damage: object) -> DamagedError:
    return DamagedError(
        f"the store's catalogue {path} is damaged: {' '.join(str(damage).split())}. Copy the store "
        "again, or extract again with --overwrite."
    )


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        # Extended codes keep the plain code in their lowest byte.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise SpaceError(
                f"the disk is full while writing {path}. Free some space and run the same command "
                "again; finished work is kept."
            ) from error
        if code in _NOT_DAMAGE:
            raise StoreError(
                f"{path} cannot be read or written: {error}. Run the same `bowsaw extract` again "
                "when the disk and the folder allow it."
            ) from error
        raise _damaged(path, error) from error
    except UnicodeDecodeError as error:
        # Python cannot decode an error of SQLite that quotes a damaged schema.
        raise _damaged(path, "its schema is not text") from error
