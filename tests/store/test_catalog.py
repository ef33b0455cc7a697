import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.row_pixels import RowPixels, snapshot, write_images

from bowsaw.errors import SpaceError, StoreError
from bowsaw.store import Store, catalog, extract
from bowsaw.store.catalog import Catalog, Content, Entry, Recipe, read_catalog

COUNTS = (2, None, 3, 1, 4, 2)


@pytest.fixture
def store(tmp_path) -> Path:
    images = write_images(tmp_path / "images", COUNTS)
    extract(images, RowPixels(), tmp_path / "test.store", shard_bytes=24)
    return tmp_path / "test.store"


def change(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store / "catalog.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_what_is_written_is_read_and_a_failed_transaction_is_undone(tmp_path):
    # 30,000 rows take more steps than reading an empty file may.
    entries = tuple(Entry(row, f"a/'ü{row}'.png", row % 2) for row in range(30_000))
    content = Content(Recipe.of(RowPixels()), classes=("a", "ü"), entries=entries, shard_bytes=7)
    done = Entry(0, entries[0].path, 0, "ok", "", 0, 0, 3, 4, 4, "0123456789abcdef")

    def interrupted():
        yield done
        raise KeyboardInterrupt

    with closing(Catalog(tmp_path)) as writer:
        assert writer.read() is None
        writer.begin(content)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(interrupted())
        assert writer.read() == read_catalog(tmp_path) == content
        assert content.n_done == 0
        writer.commit([done])
        assert writer.read().entries == (done, *entries[1:])
        assert writer.read().n_done == 1
    (tmp_path / "full").mkdir()
    with closing(Catalog(tmp_path / "full")) as writer:
        # SQLite fails for a catalogue at its largest as it does for a full disk.
        writer._connection.execute("PRAGMA max_page_count = 4")
        with pytest.raises(SpaceError, match="disk is full"):
            writer.begin(content)
        assert writer.read() is None


def test_every_table_column_and_entry_is_documented(store):
    with closing(sqlite3.connect(store / "catalog.sqlite")) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM meta")]
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            names += [table, *(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))]
    assert len(names) == 10 + 2 + 2 + 11
    assert set(names) <= set(re.findall(r"``([\w-]+)``", catalog.__doc__)) | {"name", "value"}


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
    "an entry is gone": "DELETE FROM meta WHERE name = 'shard_bytes'",
    "a column is gone": "ALTER TABLE images DROP COLUMN width",
}


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_changed_catalogue_is_refused_and_can_be_overwritten(store, statement):
    before = snapshot(store)
    change(store, statement)
    with pytest.raises(StoreError, match=r"catalog.sqlite is damaged: .*--overwrite") as caught:
        Store(store)
    assert "\n" not in str(caught.value)
    images = write_images(store.parent / "images", COUNTS)
    with pytest.raises(StoreError, match="is damaged"):
        extract(images, RowPixels(), store, shard_bytes=24)
    extract(images, RowPixels(), store, shard_bytes=24, overwrite=True)
    assert snapshot(store) == before


def test_a_damaged_catalogue_may_be_overwritten_and_no_other_file(store):
    path, before = store / "catalog.sqlite", snapshot(store)
    images = write_images(store.parent / "images", COUNTS)
    path.write_bytes(path.read_bytes()[:4096])
    with pytest.raises(StoreError, match="is damaged"):
        Store(store)
    extract(images, RowPixels(), store, shard_bytes=24, overwrite=True)
    assert snapshot(store) == before
    change(store.parent, "CREATE TABLE albums (name TEXT)")
    other = (store.parent / "catalog.sqlite").read_bytes()
    for content, reason in ((b"x" * 5000, "is damaged"), (other, "not a bowsaw catalogue")):
        path.write_bytes(content)
        with pytest.raises(StoreError, match=reason):
            Store(store)
        with pytest.raises(StoreError, match="not a bowsaw catalogue"):
            extract(images, RowPixels(), store, overwrite=True)
        assert path.read_bytes() == content
    assert (store / "shards/00000.npy").exists()


def test_a_catalogue_in_use_is_not_taken_for_damaged(store, monkeypatch):
    connect = sqlite3.connect
    images = write_images(store.parent / "images", COUNTS)
    with closing(connect(store / "catalog.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **o | {"timeout": 0}))
        locked = "cannot be read or written: database is locked"
        with pytest.raises(StoreError, match=locked):
            Store(store)
        with pytest.raises(StoreError, match=locked):
            extract(images, RowPixels(), store, overwrite=True)
