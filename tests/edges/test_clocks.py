"""What day it is, and where, changes nothing."""

from __future__ import annotations

import os

import pytest

import bowsaw as bs
from bowsaw.cli.main import main

PAST, FUTURE = 1, 4_000_000_000
"""1970 and 2096."""


def extract(place) -> int:
    return main(["extract", str(place.images), "-o", str(place.store), "-q", "-j", "1"])


def files_of(place):
    return {p: p.read_bytes() for p in sorted(place.store.rglob("*.npy"))}


@pytest.mark.parametrize("when", [PAST, FUTURE])
def test_times_of_files_are_not_asked(place, when):
    before = files_of(place)
    inodes = {path: path.stat().st_ino for path in before}
    for path in place.folder.rglob("*"):
        os.utime(path, (when, when))
    assert extract(place) == 0
    assert files_of(place) == before
    assert {path: path.stat().st_ino for path in before} == inodes, "shards were written again"


@pytest.mark.parametrize("when", [PAST, FUTURE, None])
def test_a_changed_picture_is_noticed_whatever_its_time_and_size(place, when):
    first, second = (place.images / "brick" / f"00{i}.png" for i in range(2))
    long = max(first.stat().st_size, second.stat().st_size)
    for path in (first, second):
        # Of one length; what follows the end of a PNG does not matter.
        path.write_bytes(path.read_bytes().ljust(long, b"\0"))
    assert extract(place) == 0
    kept = first.stat()
    first.write_bytes(second.read_bytes())
    os.utime(first, (kept.st_atime, kept.st_mtime) if when is None else (when, when))
    assert extract(place) == 0
    store = bs.Store(place.store)
    assert (store.bags[0] == store.bags[1]).all()


def test_a_lock_of_the_future_that_nobody_holds_is_no_lock(place):
    os.utime(place.store / "writer.lock", (FUTURE, FUTURE))
    (place.folder / "h.npz.lock").touch()
    os.utime(place.folder / "h.npz.lock", (FUTURE, FUTURE))
    assert extract(place) == 0
    assert main(["encode", str(place.book), str(place.store), "-o", "h.npz", "-q"]) == 0
    assert not (place.folder / "h.npz.lock").exists()
