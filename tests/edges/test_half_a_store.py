"""A store of which a part is missing: told, mended by extracting again, and never read wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import DataError, StoreError

FILES = ("catalog.sqlite", "shards/00000.npy", "positions/00000.npy")


def content(path):
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        dump = list(connection.iterdump())
    return dump, [file.read_bytes() for file in sorted(path.rglob("*.npy"))]


def is_refused_or_whole(path, truth) -> bool:
    """Open a store; say whether it was refused, and see that else it hands out the truth."""
    try:
        store = bs.Store(path)
        bags, positions = store.bags, [store.positions(i) for i in range(len(store))]
    except StoreError:
        return True
    assert store.y.tolist() == truth.y.tolist()
    for i in range(len(truth)):
        assert np.array_equal(bags[i], truth.bags[i])
        assert np.array_equal(positions[i], truth.positions(i))
    return False


@pytest.mark.parametrize("name", FILES)
def test_each_file_missing_or_cut_is_told_and_extracting_again_mends_it(place, made_once, name):
    truth, whole = bs.Store(made_once.store), content(made_once.store)
    data = (place.store / name).read_bytes()
    lengths = sorted({0, 1, 16, 100, 127, 128, 4096, len(data) // 2, len(data) - 1} - {len(data)})
    for length in (None, *(n for n in lengths if n < len(data))):
        (place.store / name).unlink(missing_ok=True)
        if length is not None:
            (place.store / name).write_bytes(data[:length])
        assert is_refused_or_whole(place.store, truth), length
        typed = ["extract", str(place.images), "-o", str(place.store), "-q", "-j", "1"]
        if main(typed) != 0:
            # A catalogue that cannot be read is replaced only with --overwrite, and only if it can
            # be recognised as one.
            assert name == "catalog.sqlite"
            recognised = (length or 0) >= 4096
            assert (main([*typed, "--overwrite"]) == 0) == recognised
            if not recognised:
                assert [p.exists() for p in place.store.rglob("*.npy")] == [True, True]
                continue
        assert content(place.store) == whole, length


def test_a_copy_that_stopped_after_any_number_of_files_is_refused(place, made_once):
    truth = bs.Store(made_once.store)
    files = {p: p.read_bytes() for p in sorted(place.store.rglob("*")) if p.is_file()}
    for n_copied in range(len(files)):
        for path in files:
            path.unlink(missing_ok=True)
        for path, data in list(files.items())[:n_copied]:
            path.write_bytes(data)
        needed = [place.store / name for name in FILES]
        missing = [path for path in needed if not path.exists()]
        assert is_refused_or_whole(place.store, truth) == bool(missing)


def test_a_file_that_was_copied_longer_is_refused(place, made_once):
    for name in FILES[1:]:
        path = place.store / name
        data = path.read_bytes()
        path.write_bytes(data + bytes(128))
        with pytest.raises(StoreError, match="bytes of"):
            bs.Store(place.store)
        path.write_bytes(data)


def test_two_stores_copied_over_each_other_are_told_by_their_sizes(place):
    (place.images / "grass" / "000.png").unlink()
    other = place.folder / "b.store"
    assert main(["extract", str(place.images), "-o", str(other), "-q"]) == 0
    (place.store / "catalog.sqlite").write_bytes((other / "catalog.sqlite").read_bytes())
    with pytest.raises(StoreError, match="damaged"):
        bs.Store(place.store)


def test_a_folder_of_pictures_that_is_half_there_is_told(place):
    for path in (place.images / "grass").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="class 'grass' has no files"):
        bs.ImageFolder(place.images)
