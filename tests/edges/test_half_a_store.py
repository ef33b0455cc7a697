"""A store of which a part is missing: told, mended by extracting again, and never read wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import StoreError

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
