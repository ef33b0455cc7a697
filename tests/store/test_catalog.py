from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bowsaw.errors import StoreError
from bowsaw.store import Store, catalog, extract
from bowsaw.store.catalog import Catalog, Content, Entry, Recipe, read_catalog

COUNTS = (2, None, 3, 1, 4, 2)


@pytest.fixture
def store(tools, tmp_path) -> Path:
    images = tools.write_images(tmp_path / "images", COUNTS)
    extract(images, tools.RowPixels(), tmp_path / "test.store", shard_bytes=24)
    return tmp_path / "test.store"


def change(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store / "catalog.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_what_is_written_is_read(tools, tmp_path):
    content = Content(
        Recipe.of(tools.RowPixels()),
        classes=("a", "ü"),
        entries=(Entry(0, "a/1.png", 0), Entry(1, "ü/'2'.png", 1)),
        shard_bytes=7,
    )
    with closing(Catalog(tmp_path)) as writer:
        assert writer.read() is None
        writer.begin(content)
        assert writer.read() == read_catalog(tmp_path) == content
        assert content.n_done == 0
        done = Entry(0, "a/1.png", 0, "ok", "", 0, 0, 3, 4, 4, "0123456789abcdef")
        writer.commit([done])
        assert writer.read().entries == (done, content.entries[1])
        assert writer.read().n_done == 1


def test_the_limit_on_reading_is_none_on_writing(tools, tmp_path):
    # 30,000 lines take more steps than reading an empty file may.
    entries = tuple(Entry(row, f"a/{row}.png", 0) for row in range(30_000))
    content = Content(Recipe.of(tools.RowPixels()), classes=("a",), entries=entries, shard_bytes=7)
    with closing(Catalog(tmp_path)) as writer:
        assert writer.read() is None
        writer.begin(content)
        assert writer.read() == content


def test_an_exception_undoes_the_transaction(tools, tmp_path):
    content = Content(Recipe.of(tools.RowPixels()), ("a",), (Entry(0, "a/1.png", 0),))

    def entries():
        yield Entry(0, "a/1.png", 0, "ok", "", 0, 0, 3, 4, 4, "0123456789abcdef")
        raise KeyboardInterrupt

    with closing(Catalog(tmp_path)) as writer:
        writer.begin(content)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(entries())
        assert writer.read() == content


def test_every_table_column_and_entry_is_told_in_prose(store):
    with closing(sqlite3.connect(store / "catalog.sqlite")) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM meta")]
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            names += [table, *(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))]
    told = set(re.findall(r"``([\w-]+)``", catalog.__doc__)) | {"name", "value"}
    assert len(names) == 10 + 2 + 2 + 11
    assert set(names) <= told


DAMAGES = {
    "a row is gone": "DELETE FROM images WHERE row = 2",
    "a label beyond the classes": "UPDATE images SET label = 3 WHERE row = 1",
    "half a label": "UPDATE images SET label = 0.5 WHERE row = 1",
    "bytes for a path": "UPDATE images SET path = x'00ff' WHERE row = 2",
    "a path upwards": "UPDATE images SET path = 'a/../../secret.png' WHERE row = 2",
    "an absolute path": "UPDATE images SET path = '/etc/secret.png' WHERE row = 2",
    "an unknown status": "UPDATE images SET status = 'fine' WHERE row = 2",
    "pending before done": "UPDATE images SET status = 'pending' WHERE row = 0",
    "a gap in a shard": "UPDATE images SET start = start + 1 WHERE row = 2",
    "an overlap": "UPDATE images SET start = 0 WHERE row = 2",
    "a shard's name": "UPDATE images SET shard = '../../x' WHERE row = 5",
    "no shard": "UPDATE images SET shard = NULL WHERE row = 5",
    "descriptors of nothing": "UPDATE images SET status = 'set-aside' WHERE row = 5",
    "no digest": "UPDATE images SET digest = NULL WHERE row = 5",
    "a digest that is none": "UPDATE images SET digest = 'xxxxxxxxxxxxxxxx' WHERE row = 5",
    "no width": "UPDATE images SET width = NULL WHERE row = 5",
    "another dtype": "UPDATE meta SET value = 'object' WHERE name = 'dtype'",
    "no dimensions": "UPDATE meta SET value = '0' WHERE name = 'n_dims'",
    "an endless scale": "UPDATE meta SET value = 'inf' WHERE name = 'scale'",
    "another description": "UPDATE meta SET value = '{}' WHERE name = 'description'",
    "numbers for classes": "UPDATE meta SET value = '[1, 2, 3]' WHERE name = 'classes'",
    "something is not told": "DELETE FROM meta WHERE name = 'shard_bytes'",
    "a column is gone": "ALTER TABLE images DROP COLUMN width",
}


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_changed_catalogue_is_refused_and_can_be_overwritten(tools, store, statement):
    before = tools.snapshot(store)
    change(store, statement)
    with pytest.raises(StoreError, match=r"catalog.sqlite is damaged: .*--overwrite") as caught:
        Store(store)
    assert "\n" not in str(caught.value)
    images = tools.write_images(store.parent / "images", COUNTS)
    with pytest.raises(StoreError, match="is damaged"):
        extract(images, tools.RowPixels(), store, shard_bytes=24)
    extract(images, tools.RowPixels(), store, shard_bytes=24, overwrite=True)
    assert tools.snapshot(store) == before


def test_a_damaged_file_that_is_still_ours_may_be_overwritten_and_no_other(tools, store):
    path, before = store / "catalog.sqlite", tools.snapshot(store)
    images = tools.write_images(store.parent / "images", COUNTS)
    path.write_bytes(path.read_bytes()[:4096])
    with pytest.raises(StoreError, match="is damaged"):
        Store(store)
    extract(images, tools.RowPixels(), store, shard_bytes=24, overwrite=True)
    assert tools.snapshot(store) == before
    path.write_bytes(b"x" * 5000)
    with pytest.raises(StoreError, match="is damaged"):
        Store(store)
    with pytest.raises(StoreError, match="not a bowsaw catalogue"):
        extract(images, tools.RowPixels(), store, overwrite=True)
    assert path.read_bytes() == b"x" * 5000
    assert (store / "shards/00000.npy").exists()


def test_a_stranger_s_database_is_refused_and_never_overwritten(tools, tmp_path):
    images = tools.write_images(tmp_path / "images", COUNTS)
    (tmp_path / "photos").mkdir()
    change(tmp_path / "photos", "CREATE TABLE albums (name TEXT)")
    before = (tmp_path / "photos/catalog.sqlite").read_bytes()
    with pytest.raises(StoreError, match="not a bowsaw catalogue"):
        Store(tmp_path / "photos")
    with pytest.raises(StoreError, match="not a bowsaw catalogue"):
        extract(images, tools.RowPixels(), tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos/catalog.sqlite").read_bytes() == before


def test_a_catalogue_in_use_is_not_taken_for_damaged(tools, store, monkeypatch):
    connect = sqlite3.connect
    images = tools.write_images(store.parent / "images", COUNTS)
    with closing(connect(store / "catalog.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **o | {"timeout": 0}))
        for attempt in (
            lambda: Store(store),
            lambda: extract(images, tools.RowPixels(), store, overwrite=True),
        ):
            with pytest.raises(StoreError, match="cannot be read or written: database is locked"):
                attempt()
