from __future__ import annotations

import gc
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowsaw.checkpoint import exclusive
from bowsaw.errors import (
    BusyError,
    DataError,
    ImageError,
    ParameterError,
    SpaceError,
    StoreError,
)
from bowsaw.images.folder import ImageFolder
from bowsaw.store import Store, extract, extraction

COUNTS = (3, 0, 5, None, 4, 4, 1, 0, None, 6, 2, 7)
SHARD = 32
"""Bytes; eight descriptors of four bytes, so COUNTS fill five shards."""


@pytest.fixture
def images(tools, tmp_path) -> ImageFolder:
    return tools.write_images(tmp_path / "images", COUNTS)


@pytest.fixture
def run(tools, tmp_path):
    """Extract the folder as it is now; returns what the store is then."""

    def run(name="test.store", descriptor=None, **options):
        target = tmp_path / name
        options = {"shard_bytes": SHARD, "n_jobs": 1} | options
        extract(
            ImageFolder(tmp_path / "images"), descriptor or tools.RowPixels(), target, **options
        )
        return tools.snapshot(target)

    return run


def sizes_by_shard(store: Path) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(store / "catalog.sqlite")) as connection:
        lines = connection.execute("SELECT shard, count FROM images ORDER BY row").fetchall()
    return [tuple(c for s, c in lines if s == shard) for shard in sorted({s for s, _ in lines})]


# -- what is written -----------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    counts=st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=12),
    shard_bytes=st.integers(1, 120),
    dtype=st.sampled_from(["uint8", "float32"]),
)
def test_a_store_hands_out_each_images_descriptors(tools, counts, shard_bytes, dtype):
    descriptor = tools.RowPixels(dtype)
    with tempfile.TemporaryDirectory() as folder:
        images = tools.write_images(Path(folder) / "images", counts)
        kept = [i for i, count in enumerate(counts) if count is not None]
        snapshots = []
        for n_jobs in (1, 2):
            path = Path(folder) / f"{n_jobs}.store"
            store = extract(images, descriptor, path, n_jobs=n_jobs, shard_bytes=shard_bytes)
            snapshots.append(tools.snapshot(path))
            assert len(store.bags) == len(store) == len(kept)
            assert store.bags.dtype == np.dtype(dtype)
            assert store.y.tolist() == images.y[kept].tolist()
            for row, i in enumerate(kept):
                picture = descriptor.load(images.paths[i])
                values, positions = descriptor.describe(picture.grey)
                np.testing.assert_array_equal(store.bags[row], values)
                np.testing.assert_array_equal(store.positions(row), positions)
                assert store.paths[row] == images.relative_paths[i]
                assert store.sizes[row].tolist() == [4, counts[i] + 1]
                assert store.bags.digests[row] == picture.digest
            del store
            gc.collect()
        assert snapshots[0] == snapshots[1]


def test_a_shard_ends_with_the_image_that_fills_it(images, run, tmp_path):
    run()
    expected = [(3, 0, 5), (0, 4, 4), (1, 0, 0, 6, 2), (7,)]
    assert sizes_by_shard(tmp_path / "test.store") == expected


def test_a_shard_ends_after_some_images_even_if_they_are_empty(images, run, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "SHARD_IMAGES", 5)
    run(shard_bytes=10**9)
    assert [len(shard) for shard in sizes_by_shard(tmp_path / "test.store")] == [5, 5, 2]


def test_the_store_names_no_machine_and_no_moment(images, run, tools, tmp_path):
    here = run()
    shutil.copytree(tmp_path / "images", tmp_path / "elsewhere")
    folder = ImageFolder(tmp_path / "elsewhere")
    extract(folder, tools.RowPixels(), tmp_path / "other.store", shard_bytes=SHARD)
    assert tools.snapshot(tmp_path / "other.store") == here
    assert tmp_path.name not in "".join(here["dump"])


def test_rows_go_to_disk_picture_by_picture(tools, tmp_path):
    class Many(tools.RowPixels):
        def describe(self, grey):
            return np.zeros((250_000, 4), np.uint8), np.zeros((250_000, 3), np.float32)

    images = tools.write_images(tmp_path / "images", [1] * 30)
    gc.collect()
    tracemalloc.start()
    try:
        extract(images, Many(), tmp_path / "test.store", n_jobs=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "test.store/shards/00000.npy").stat().st_size == 30_000_128
    # One picture has 4 MB; the shard has 120 MB.
    assert peak < 16_000_000


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda v, p: (v[:, :3], p), "n, 4"),
        (lambda v, p: (v.astype(np.float64), p), "float64"),
        (lambda v, p: (v, p[:-1]), "position"),
        (lambda v, p: (v * np.float32(np.nan), p), "finite"),
    ],
)
def test_a_descriptor_that_does_not_keep_its_word_is_refused(tools, run, tmp_path, gives, message):
    class Wrong(tools.RowPixels):
        def describe(self, grey):
            return gives(*super().describe(grey))

    tools.write_images(tmp_path / "images", [3, 3, 3])
    with pytest.raises(DataError, match=message):
        run(descriptor=Wrong("float32"))


def test_parameters_are_checked_before_anything_is_made(images, tools, tmp_path):
    path = tmp_path / "test.store"
    for options in ({"shard_bytes": 0}, {"n_jobs": 0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            extract(images, tools.RowPixels(), path, **options)
    with pytest.raises(ParameterError, match="float64"):
        extract(images, tools.RowPixels("float64"), path)
    assert not path.exists()


# -- images that cannot be used ------------------------------------------------------------------


def test_bad_images_are_set_aside_with_their_reason(images, tools, tmp_path):
    store = extract(images, tools.RowPixels(), tmp_path / "test.store")
    bad = [i for i, count in enumerate(COUNTS) if count is None]
    assert [path for path, _ in store.set_aside] == [images.relative_paths[i] for i in bad]
    for i, (_, reason) in zip(bad, store.set_aside, strict=True):
        with pytest.raises(ImageError) as caught:
            tools.RowPixels().load(images.paths[i])
        assert reason == caught.value.reason


def test_strict_stops_at_the_first_bad_image_and_keeps_what_was_committed(images, run, tmp_path):
    with pytest.raises(ImageError) as caught:
        run(strict=True)
    assert caught.value.path == images.paths[3]
    with pytest.raises(StoreError, match="unfinished: 3 of 12 images"):
        Store(tmp_path / "test.store")
    assert run() == run("fresh.store")


# -- running again -------------------------------------------------------------------------------


def count_described(tools, calls: list[int]):
    class Counting(tools.RowPixels):
        def describe(self, grey):
            calls.append(len(grey) - 1)
            return super().describe(grey)

    return Counting()


def modified(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_finished_store_is_not_touched(images, run, tools, tmp_path):
    first = run()
    times = modified(tmp_path / "test.store")
    calls: list[int] = []
    assert run(descriptor=count_described(tools, calls)) == first
    assert calls == []
    assert modified(tmp_path / "test.store") == times


def replace_image(i: int, count: int | None):
    def change(images: ImageFolder, tools) -> None:
        tools.write_image(Path(images.paths[i]), count, seed=99)

    return change


def remove_images(*rows: int):
    def change(images: ImageFolder, tools) -> None:
        for row in rows:
            path = Path(images.paths[row])
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()

    return change


def add_image(name: str, count: int | None):
    def change(images: ImageFolder, tools) -> None:
        target = Path(images.root) / name
        target.parent.mkdir(exist_ok=True)
        tools.write_image(target, count, seed=99)

    return change


def rename_image(i: int, name: str):
    def change(images: ImageFolder, tools) -> None:
        path = Path(images.paths[i])
        path.rename(Path(images.root) / name)

    return change


# Images 0 to 2 are in shard 0, 3 to 5 in shard 1, 6 to 10 in shard 2, and 11 alone in shard 3.
CHANGES = {
    "same size, other content": (replace_image(5, 4), 1),
    "other size": (replace_image(4, 9), 1),
    "last changed": (replace_image(11, 7), 3),
    "repaired": (replace_image(8, 2), 2),
    "still broken": (replace_image(8, None), 4),
    "first removed": (remove_images(0), 0),
    "last two shards removed": (remove_images(6, 7, 8, 9, 10, 11), 2),
    "added in the middle": (add_image("b/004x.png", 1), 1),
    "added behind the last": (add_image("c/z.png", 1), 3),
    "new first class": (add_image("0/1.png", 1), 0),
    "renamed": (rename_image(10, "c/010x.png"), 2),
    "moved to another class": (rename_image(3, "b/003.png"), 1),
}


@pytest.mark.parametrize(("change", "n_kept"), CHANGES.values(), ids=CHANGES)
def test_changed_images_are_noticed(images, run, tools, tmp_path, change, n_kept):
    run()
    before = modified(tmp_path / "test.store" / "shards")
    change(images, tools)
    changed = run(n_jobs=2)
    after = modified(tmp_path / "test.store" / "shards")
    assert changed == run("fresh.store")
    kept = [name for name, time in before.items() if after.get(name) == time]
    assert kept == [f"{number:05}.npy" for number in range(n_kept)]


def test_missing_and_damaged_shards_are_redone(images, run, tmp_path):
    first = run()
    for damage in (
        lambda: (tmp_path / "test.store/shards/00002.npy").unlink(),
        lambda: (tmp_path / "test.store/positions/00001.npy").write_bytes(b"short"),
        lambda: shutil.rmtree(tmp_path / "test.store/positions"),
    ):
        damage()
        assert run() == first


# -- other parameters ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"level": 3}, "level was 0 and is 3"),
        ({"dtype": "float32"}, "dtype was 'uint8' and is 'float32'"),
        ({"max_pixels": 5_000}, "max_pixels was 10000 and is 5000"),
    ],
)
def test_another_parameter_is_refused_by_name(images, run, tools, options, difference):
    first = run()
    other = tools.RowPixels(**options)
    with pytest.raises(StoreError, match=rf"parameters: {difference}\. .*--overwrite"):
        run(descriptor=other)
    assert run() == first
    assert run(descriptor=other, overwrite=True) == run("fresh.store", descriptor=other)


def test_an_existing_folder_is_not_mistaken_for_a_store(images, tools, tmp_path):
    photos = tmp_path / "photos" / "shards"
    photos.mkdir(parents=True)
    (photos / "00000.npy").write_bytes(b"precious")
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="is not a store, and the folder is not empty"):
            extract(images, tools.RowPixels(), tmp_path / "photos", overwrite=overwrite)
    assert (photos / "00000.npy").read_bytes() == b"precious"
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(StoreError, match="cannot become a store"):
        extract(images, tools.RowPixels(), tmp_path / "file")
    with pytest.raises(StoreError, match="cannot become a store"):
        extract(images, tools.RowPixels(), tmp_path / "file" / "inside")


@pytest.mark.parametrize("name", ["writer.lock", "catalog.sqlite"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_name_alone_does_not_make_a_folder_a_store(images, run, tmp_path, name, overwrite):
    # Any folder with a file writer.lock was taken for a store, and what looked like ours deleted.
    mine = tmp_path / "test.store" / "segments" / "diary.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (tmp_path / "test.store" / name).touch()
    with pytest.raises(StoreError, match="the folder is not empty"):
        run(overwrite=overwrite)
    assert mine.read_text() == "mine"


# -- interruptions (see also test_killing.py) ----------------------------------------------------


class InterruptedRunError(Exception):
    pass


@pytest.mark.parametrize(("error", "n_jobs"), [(KeyboardInterrupt, 1), (MemoryError, 2)])
def test_an_exception_leaves_a_store_that_resumes(images, run, tools, tmp_path, error, n_jobs):
    class Failing(tools.RowPixels):
        def describe(self, grey):
            if len(grey) == 7:
                raise error
            return super().describe(grey)

    with pytest.raises(error):
        run(descriptor=Failing(), n_jobs=n_jobs)
    assert not list((tmp_path / "test.store").rglob("*.partial"))
    with pytest.raises(StoreError, match=r"unfinished: 6 of 12 images are done\. Run the same"):
        Store(tmp_path / "test.store")
    calls: list[int] = []
    resumed = run(descriptor=count_described(tools, calls))
    assert calls == [1, 0, 6, 2, 7]
    assert resumed == run("fresh.store")


def test_a_full_disk_under_the_catalogue_is_told_as_such(images, run, tmp_path, monkeypatch):
    connect = sqlite3.connect

    def small(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA max_page_count = 4")
        return connection

    # SQLite says SQLITE_FULL for a catalogue at its largest as it does for a full disk.
    for i in range(200):
        shutil.copy(images.paths[0], tmp_path / "images" / "a" / f"{'x' * 60}{i:03}.png")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", small)
        with pytest.raises(SpaceError, match="disk is full"):
            run()
    assert run() == run("fresh.store")


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pictures import RowPixels
from bowsaw.images.folder import ImageFolder
from bowsaw.store import extract

resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
try:
    extract(ImageFolder(sys.argv[2]), RowPixels(), sys.argv[3], shard_bytes=60_000, n_jobs=1)
except OSError as error:
    print(type(error).__name__)
"""

if sys.platform != "win32":

    def test_a_write_that_the_system_cuts_short_leaves_a_store_that_resumes(tools, run, tmp_path):
        tools.write_images(tmp_path / "images", [2_000] * 9)
        folders = [Path(__file__).parent, tmp_path / "images", tmp_path / "test.store"]
        done = subprocess.run(
            [sys.executable, "-B", "-c", LIMITED, *map(str, folders)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() in ("OSError", "SpaceError")
        assert not list((tmp_path / "test.store").rglob("*.npy*"))
        assert run(shard_bytes=60_000) == run("fresh.store", shard_bytes=60_000)


# -- two at once ---------------------------------------------------------------------------------


def test_a_second_writer_is_refused_at_once(images, run, tmp_path):
    first = run()
    with exclusive(tmp_path / "test.store"):
        with pytest.raises(BusyError, match="another process is writing"):
            run(overwrite=True)
        assert len(Store(tmp_path / "test.store")) == 10
    assert run() == first


def test_a_reader_of_an_unfinished_store_is_told_how_far_it_is(images, run, tools, tmp_path):
    told = []

    class Reading(tools.RowPixels):
        def describe(self, grey):
            with pytest.raises(StoreError) as caught:
                Store(tmp_path / "test.store")
            told.append(str(caught.value))
            return super().describe(grey)

    run(descriptor=Reading())
    assert "unfinished: 0 of 12 images are done" in told[0]
    assert "unfinished: 11 of 12 images are done" in told[-1]
    assert "or wait for the one that is running" in told[-1]


def test_a_reader_keeps_what_it_mapped_and_learns_of_changes(images, run, tools, tmp_path):
    run()
    early, late = Store(tmp_path / "test.store"), Store(tmp_path / "test.store")
    before = [bag.tolist() for bag in early.bags]
    replace_image(0, 3)(images, tools)
    if sys.platform == "win32":
        # There a file cannot be removed while it is mapped; the next run finishes the work.
        with pytest.raises(StoreError, match="Close the programs that read the store"):
            run()
    else:
        run()
        assert Store(tmp_path / "test.store").bags[0].tolist() != before[0]
    assert [bag.tolist() for bag in early.bags] == before
    for read in (lambda: late.bags, lambda: late.positions(0)):
        with pytest.raises(StoreError, match="changed since it was opened"):
            read()


def test_a_name_that_is_not_unicode_is_set_aside(tools, tmp_path):
    images = tools.write_images(tmp_path / "images", (1, 2, 3))
    # Such a name cannot be made on every system, but on those where it can it is listed like this.
    images.relative_paths = (*images.relative_paths[:2], "c/caf\udce9.png")
    for _ in range(2):
        store = extract(images, tools.RowPixels(), tmp_path / "test.store")
        assert store.set_aside == [("c/caf\\udce9.png", "a file name that is not Unicode")]
        assert store.y.tolist() == [0, 1]


def test_two_names_that_are_escaped_alike_make_a_store(tools, tmp_path):
    # The second insertion broke the catalogue's unique paths, with --overwrite as well.
    images = tools.write_images(tmp_path / "images", (1, 2, 3))
    images.relative_paths = ("a/\udcff.png", "a/\\udcff.png", "a/\\udcff.png?")
    for _ in range(2):
        store = extract(images, tools.RowPixels(), tmp_path / "test.store")
        assert [path for path, _ in store.set_aside] == ["a/\\udcff.png??"]
        assert store.paths == ("a/\\udcff.png", "a/\\udcff.png?")


def test_shards_go_only_when_the_catalogue_no_longer_tells_of_them(
    images, run, tools, tmp_path, monkeypatch
):
    run()
    replace_image(5, 1)(images, tools)
    told = []

    def watched(folder, first, discard=extraction.discard):
        with pytest.raises(StoreError) as caught:
            Store(folder)
        told.append((first, str(caught.value)))
        discard(folder, first)

    monkeypatch.setattr(extraction, "discard", watched)
    run()
    [(first, message)] = told
    assert first == 1
    assert "unfinished: 3 of 12" in message
