"""The catalogue: what a store knows about each of its images.

``catalog.sqlite`` holds two tables. Nothing in it depends on when, where, on how many threads or
after how many interruptions the store was made: the same images with the same parameters give the
same dump.

``meta`` (name, value), both text, describes the whole store:

- ``schema``: the version of this layout; another version is refused.
- ``bowsaw_version``: the release that began the store.
- ``description``: the descriptor's name, version and parameters, as sorted JSON.
- ``reading``: the limits of reading that decide which images are set aside, as sorted JSON.
- ``scale``, ``dtype``, ``n_dims``: how a descriptor is stored.
- ``fingerprint``: SHA-256 over schema, description, reading, scale, dtype and n_dims. A store
  whose fingerprint is another is never continued or reused.
- ``shard_bytes``: a shard is closed once its descriptors reach this size.
- ``classes``: the names of the classes, a JSON list; a label is a place in it.

``images`` has one line an image, in the order of the folder:

- ``row``: 0, 1, 2 …
- ``path``: relative to the images' folder, with ``/``.
- ``label``: a place in ``classes``.
- ``status``: ``ok``, ``set-aside`` (with a ``reason``, else empty) or ``pending`` (not yet done;
  everything that follows in this list is then empty). Pending images are the last rows, and a
  store without them is finished.
- ``shard``, ``start``, ``count``: the image's descriptors are the rows ``start`` to ``start +
  count`` of shard number ``shard``. An image that was set aside is listed where its rows would
  be, with count 0. Shards are numbered from 0 in the order of the images, and the images fill
  each without a gap.
- ``width``, ``height``, ``digest``: of usable images only: pixels after resizing, and the first
  64 bits of the SHA-256 of the file's bytes as 16 hexadecimal digits (SQLite's integers have a
  sign).

A shard's images are committed in one transaction, after its files are on disk under their names.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

from bowsaw.errors import SpaceError, StoreError
from bowsaw.store.content import COLUMNS, SCHEMA, Content, Entry, Recipe, trouble_with
from bowsaw.validation import parse_json

CATALOG_NAME = "catalog.sqlite"
_OUTER_TROUBLE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)

_STEPS_BESIDE, _STEPS_A_LOOK = 200_000, 1000
"""Steps of SQLite that reading may take beside one a byte, and between two looks at them."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """\
CREATE TABLE IF NOT EXISTS images (
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
)""",
)


class DamagedError(StoreError):
    """A catalogue that nothing but extracting again can help."""


class Catalog:
    """The catalogue in the hands of the one writer.

    Parameters
    ----------
    folder : Path
        The store; the catalogue is made when it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CATALOG_NAME
        with _clear_errors(self._path):
            # Transactions are begun and ended by hand: Python would not put CREATE inside one.
            self._connection = sqlite3.connect(self._path, isolation_level=None)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def read(self) -> Content | None:
        """Return what the catalogue says, checked, or None when nothing was begun yet."""
        return _read(self._connection, self._path)

    def begin(self, content: Content) -> None:
        """Make the catalogue say ``content``, in one transaction."""
        meta = {
            "schema": SCHEMA,
            "bowsaw_version": content.bowsaw_version,
            "description": content.recipe.description,
            "reading": content.recipe.reading,
            "scale": repr(content.recipe.scale),
            "dtype": content.recipe.dtype,
            "n_dims": content.recipe.n_dims,
            "fingerprint": content.recipe.fingerprint,
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
        with _clear_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def open_catalog(folder: Path, overwrite: bool) -> Catalog:
    """Open a catalogue to write; a damaged one is begun anew if it may be overwritten."""
    catalog = Catalog(folder)
    try:
        catalog.read()
    except StoreError as error:
        catalog.close()
        if not (overwrite and isinstance(error, DamagedError)):
            raise
        path = folder / CATALOG_NAME
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        return Catalog(folder)
    return catalog


def read_catalog(folder: Path) -> Content:
    """Return what the catalogue of a store says, checked, without writing anything.

    Raises
    ------
    StoreError
        When there is no store, or its catalogue is damaged or of another version.
    """
    path = folder / CATALOG_NAME
    try:
        there = path.is_file()
    except PermissionError as error:
        raise StoreError(
            f"the store {folder} may not be read: {error.strerror}. Ask for the right to read it, "
            "or copy it to a folder of your own."
        ) from error
    if not there:
        what = "not a store (no catalog.sqlite)" if folder.exists() else "not there"
        raise StoreError(f"{folder} is {what}. Make a store with `bowsaw extract IMAGES -o STORE`.")
    with _clear_errors(path):
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
    with _clear_errors(path), _bounded(connection, path):
        schema = connection.execute("SELECT type, name FROM sqlite_master LIMIT 20").fetchall()
        if not schema:
            return None
        if path.stat().st_size % connection.execute("PRAGMA page_size").fetchone()[0]:
            # SQLite would take the rest of the last page for zeros.
            raise _damaged(path, "its end is missing")
        tables = {str(name) for kind, name in schema if kind == "table"}
        # A view may name itself like a table and have rows without end.
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
                description=meta["description"],
                reading=meta["reading"],
                scale=float(meta["scale"]),
                dtype=meta["dtype"],
                n_dims=int(meta["n_dims"]),
            ),
            classes=tuple(parse_json(meta["classes"])),
            shard_bytes=int(meta["shard_bytes"]),
            entries=tuple(Entry(*line) for line in lines),
            bowsaw_version=meta["bowsaw_version"],
        )
        content.recipe.parameters()
        trouble = trouble_with(content, meta["fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        trouble = f"unreadable ({error})"
    if trouble:
        raise _damaged(path, trouble)
    return content


@contextmanager
def _bounded(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Stop SQLite from reading more than a file of this size can hold.

    Pages of a damaged file may lead back to others, and a column may be an expression that never
    comes to an end. A row of a catalogue takes about 100 bytes and 13 steps.
    """
    left = _STEPS_BESIDE + path.stat().st_size

    def stop() -> bool:
        nonlocal left
        left -= _STEPS_A_LOOK
        return left < 0

    connection.set_progress_handler(stop, _STEPS_A_LOOK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _damaged(path: Path, trouble: object) -> DamagedError:
    told = " ".join(str(trouble).split())
    return DamagedError(
        f"the store's catalogue {path} is damaged: {told}. Copy the store again, or extract "
        "again with --overwrite."
    )


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says into errors that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        # Extended codes keep the plain code in their lowest byte.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise SpaceError(
                f"the disk is full while writing {path}. Free some space and run the same command "
                "again; what was done is kept."
            ) from error
        if code in _OUTER_TROUBLE:
            raise StoreError(
                f"{path} cannot be read or written: {error}. Run the same `bowsaw extract` again "
                "when the disk and the folder allow it."
            ) from error
        raise _damaged(path, error) from error
    except UnicodeDecodeError as error:
        # Python gives up on SQLite's complaint where that quotes a damaged schema.
        raise _damaged(path, "its schema is not text") from error
