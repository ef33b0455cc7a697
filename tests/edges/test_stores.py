"""Stores that are incomplete, linked, of another time or written twice at once."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import BusyError, FormatError, MismatchError, StoreError
from bowsaw.store.histograms import HistogramWriter, read_histograms

FUTURE = 4_000_000_000
"""A moment in 2096."""


def extract(place, *more: str) -> int:
    return main(["extract", str(place.images), "-o", str(place.store), "-q", "-j", "1", *more])


def content(path):
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        dump = list(connection.iterdump())
    return dump, [file.read_bytes() for file in sorted(path.rglob("*.npy"))]


@pytest.mark.parametrize("name", ["catalog.sqlite", "shards/00000.npy", "positions/00000.npy"])
def test_each_file_missing_or_cut_is_refused_and_extracting_again_mends_it(place, made_once, name):
    whole = content(made_once.store)
    path = place.store / name
    data = path.read_bytes()
    for length in (None, 0, 127, min(4096, len(data) - 2), len(data) - 1):
        path.unlink(missing_ok=True)
        if length is not None:
            path.write_bytes(data[:length])
        with pytest.raises(StoreError):
            bs.Store(place.store)
        if extract(place) != 0:
            # A catalogue that cannot be read is replaced only with --overwrite, and only if it can
            # be recognised as one.
            assert name == "catalog.sqlite"
            recognised = (length or 0) >= 4096
            assert (extract(place, "--overwrite") == 0) == recognised
            if not recognised:
                assert [p.exists() for p in place.store.rglob("*.npy")] == [True, True]
                continue
        assert content(place.store) == whole, length


def test_a_store_copied_over_another_is_refused(place):
    (place.images / "grass" / "000.png").unlink()
    other = place._replace(store=place.folder / "b.store")
    assert extract(other) == 0
    shutil.copy(other.store / "catalog.sqlite", place.store)
    with pytest.raises(StoreError, match="damaged"):
        bs.Store(place.store)


if sys.platform != "win32":  # where links need no privilege

    def test_links_in_a_store_are_replaced_and_what_they_point_to_stays(place):
        whole = content(place.store)
        treasure = place.folder / "treasure.npy"
        treasure.write_bytes(b"something dear")
        for name in ("shards/00000.npy", "positions/00000.npy"):
            (place.store / name).unlink()
            (place.store / name).symlink_to(treasure)
        (place.store / "shards" / "00000.npy.partial").symlink_to(treasure)
        with pytest.raises(StoreError, match="damaged"):
            bs.Store(place.store)
        assert extract(place) == 0
        assert treasure.read_bytes() == b"something dear"
        assert content(place.store) == whole
        assert not any(file.is_symlink() for file in place.store.rglob("*"))

    def test_a_run_whose_records_are_links_or_folders_is_refused(tmp_path, capfd):
        (tmp_path / "cells.jsonl").mkdir()
        (tmp_path / "run.json").symlink_to(tmp_path / "nowhere")
        assert main(["report", str(tmp_path)]) == FormatError.exit_code
        assert "has no run.json" in capfd.readouterr().err


def test_times_of_files_and_a_clock_that_is_set_back_change_nothing(place, monkeypatch):
    book, before = place.book.read_bytes(), content(place.store)
    inodes = {path: path.stat().st_ino for path in place.store.rglob("*.npy")}
    (place.folder / "new.safetensors.lock").touch()  # of a process that has ended
    clock = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    for when in (1, FUTURE):
        for path in place.folder.rglob("*"):
            os.utime(path, (when, when))
        assert extract(place) == 0
    assert content(place.store) == before
    assert {path: path.stat().st_ino for path in inodes} == inodes, "shards were written again"
    assert main(["train", "a.store", "--words", "8", "-q", "-j", "1", "-o", "new.safetensors"]) == 0
    assert (place.folder / "new.safetensors").read_bytes() == book


@pytest.mark.parametrize("when", [FUTURE, None])
def test_a_changed_image_is_noticed_whatever_its_time_and_size(place, when):
    first, second = (place.images / "brick" / f"00{i}.png" for i in range(2))
    length = max(first.stat().st_size, second.stat().st_size)
    for path in (first, second):
        # Of one length; what follows the end of a PNG does not matter.
        path.write_bytes(path.read_bytes().ljust(length, b"\0"))
    assert extract(place) == 0
    kept = first.stat()
    first.write_bytes(second.read_bytes())
    os.utime(first, (kept.st_atime, kept.st_mtime) if when is None else (when, when))
    assert extract(place) == 0
    store = bs.Store(place.store)
    assert (store.bags[0] == store.bags[1]).all()


START = """
import sys
from bowsaw.cli.main import main
import bowsaw.cli.extract, bowsaw.cli.train
print("ready", flush=True)
sys.stdin.readline()
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_two_extractions_and_a_training_in_processes_of_their_own(place, made_once):
    new = place.folder / "new.store"
    extraction = ("extract", place.images, "-o", new, "-q")
    training = ("train", new, "--words", 8, "-o", place.folder / "new.safetensors", "-q")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    commands = [
        subprocess.Popen([sys.executable, "-c", START, *map(str, words)], text=True, **pipes)
        for words in (extraction, extraction, training)
    ]
    assert [command.stdout.readline() for command in commands] == ["ready\n"] * 3
    for command in commands:
        command.stdin.write("go\n")
        command.stdin.flush()
    texts = [command.communicate(timeout=120)[1] for command in commands]
    codes = [command.returncode for command in commands]
    assert set(codes[:2]) <= {0, BusyError.exit_code}, texts
    assert 0 in codes[:2], texts
    assert codes[2] in (0, StoreError.exit_code), texts
    for code, text in zip(codes, texts, strict=True):
        assert text.count("\n") == (code != 0)
    assert content(new) == content(made_once.store)


def test_two_that_encode_into_one_file(place, capfd):
    # The second cut the rows off that the first had mapped: the first was killed by the system.
    shape = read_histograms(place.histograms).histograms.shape
    typed = ["encode", "book.safetensors", "a.store", "-o", "new.npz", "-q"]
    with HistogramWriter(place.folder / "new.npz", shape, {"name": "a"}) as first:
        assert main(typed) == BusyError.exit_code
        first.rows[:] = 1
        first.mark_done(len(first.rows))
    assert main(typed) == MismatchError.exit_code
    assert "start again with --overwrite" in capfd.readouterr().err
    assert main([*typed, "--overwrite"]) == 0
    found, truth = read_histograms("new.npz"), read_histograms(place.histograms)
    assert np.array_equal(found.histograms, truth.histograms)
    assert sorted(p.name for p in place.folder.glob("new.npz*")) == ["new.npz"]


def test_training_and_pruning_into_one_file_leave_one_or_the_other_whole(place):
    pruning = "prune book.safetensors a.store --keep 3 --method coverage"
    codes = []

    def work(line: str) -> None:
        for _ in range(3):
            codes.append(main([*line.split(), "-o", "small.safetensors", "-q", "-j", "1"]))

    threads = [
        threading.Thread(target=work, args=(line,)) for line in ("train a.store --words 5", pruning)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (place.folder / "small.safetensors").exists():
            assert bs.load("small.safetensors").n_words in (3, 5)
    assert {0} <= set(codes) <= {0, BusyError.exit_code}
    assert [p.name for p in place.folder.glob("*small*")] == ["small.safetensors"]
