import gc
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.row_pixels import RowPixels, snapshot, write_image, write_images

from bowsaw.checkpoint import exclusive
from bowsaw.errors import BusyError, DataError, ImageError, ParameterError, SpaceError, StoreError
from bowsaw.images.folder import ImageFolder
from bowsaw.store import Store, extract, extraction
from bowsaw.store.catalog import read_catalog

pytestmark = [
    pytest.mark.filterwarnings("ignore:left out, because none of their images"),
    pytest.mark.filterwarnings("ignore:the store gets another split"),
]

COUNTS = (3, 0, 5, None, 4, 4, 1, 0, None, 6, 2, 7)
SHARD = 32
"""Bytes; eight descriptors of four bytes, so COUNTS fill five shards."""


@pytest.fixture
def images(tmp_path) -> ImageFolder:
    return write_images(tmp_path / "images", COUNTS)


@pytest.fixture
def run(tmp_path):
    """Extract the folder as it is now; returns what the store is then."""

    def run(name="test.store", descriptor=None, **options):
        options = {"shard_bytes": SHARD, "n_jobs": 1} | options
        folder = ImageFolder(tmp_path / "images")
        extract(folder, descriptor or RowPixels(), tmp_path / name, **options)
        return snapshot(tmp_path / name)

    return run


@settings(max_examples=20)
@given(
    counts=st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=12),
    shard_bytes=st.integers(1, 120),
    dtype=st.sampled_from(["uint8", "float32"]),
)
def test_a_store_holds_the_descriptors_of_each_usable_image(counts, shard_bytes, dtype):
    descriptor = RowPixels(dtype)
    with tempfile.TemporaryDirectory() as folder:
        images = write_images(Path(folder) / "images", counts)
        kept = [i for i, count in enumerate(counts) if count is not None]
        snapshots = []
        broken = [images.relative_paths[i] for i, n in enumerate(counts) if n is None]
        for n_jobs in (1, 2):
            path = Path(folder) / f"{n_jobs}.store"
            store = extract(images, descriptor, path, n_jobs=n_jobs, shard_bytes=shard_bytes)
            snapshots.append(snapshot(path))
            assert len(store.bags) == len(store) == len(kept)
            assert store.bags.dtype == np.dtype(dtype)
            assert [store.classes[label] for label in store.y] == [
                images.classes[images.y[i]] for i in kept
            ]
            assert len(store.classes) + len(store.empty_classes) == len(images.classes)
            reason = "not an image, or of an unknown format"
            assert store.set_aside == [(path, reason) for path in broken]
            for row, i in enumerate(kept):
                image = descriptor.load(images.paths[i])
                values, positions = descriptor.describe(image.grey)
                np.testing.assert_array_equal(store.bags[row], values)
                np.testing.assert_array_equal(store.positions(row), positions)
                assert store.paths[row] == images.relative_paths[i]
                assert store.sizes[row].tolist() == [4, counts[i] + 1]
                assert store.bags.digests[row] == image.digest
            del store
            gc.collect()
        assert snapshots[0] == snapshots[1]


def test_a_shard_ends_with_the_image_that_fills_it_or_after_many_images(
    images, run, tmp_path, monkeypatch
):
    def counts_by_shard(name, **options):
        run(name, **options)
        shards = read_catalog(tmp_path / name).shards()
        return [tuple(entry.count for entry in entries) for entries in shards]

    assert counts_by_shard("a") == [(3, 0, 5), (0, 4, 4), (1, 0, 0, 6, 2), (7,)]
    monkeypatch.setattr(extraction, "SHARD_IMAGES", 5)
    assert list(map(len, counts_by_shard("b", shard_bytes=10**9))) == [5, 5, 2]


def describing_as(change, dtype="uint8"):
    """Return a descriptor that gives what ``change`` makes of its values and positions."""

    class Changed(RowPixels):
        def describe(self, grey):
            return change(*super().describe(grey))

    return Changed(dtype)


def test_rows_go_to_disk_image_by_image(tmp_path):
    def many(values, positions):
        return np.zeros((250_000, 4), np.uint8), np.zeros((250_000, 3), np.float32)

    images = write_images(tmp_path / "images", [1] * 30)
    gc.collect()
    tracemalloc.start()
    try:
        extract(images, describing_as(many), tmp_path / "test.store", n_jobs=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "test.store/shards/00000.npy").stat().st_size == 30_000_128
    # One image has 4 MB; the shard has 120 MB.
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
def test_a_descriptor_that_does_not_keep_its_word_is_refused(run, tmp_path, gives, message):
    write_images(tmp_path / "images", [3, 3, 3])
    with pytest.raises(DataError, match=message):
        run(descriptor=describing_as(gives, "float32"))


def test_parameters_are_checked_before_anything_is_made(images, tmp_path):
    path = tmp_path / "test.store"
    for options in ({"shard_bytes": 0}, {"n_jobs": 0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            extract(images, RowPixels(), path, **options)
    with pytest.raises(ParameterError, match="float64"):
        extract(images, RowPixels("float64"), path)
    assert not path.exists()


def test_strict_stops_at_the_first_bad_image_and_keeps_what_was_committed(images, run, tmp_path):
    with pytest.raises(ImageError) as caught:
        run(strict=True)
    assert caught.value.path == images.paths[3]
    with pytest.raises(StoreError, match="unfinished: 3 of 12 images"):
        Store(tmp_path / "test.store")
    first = run()
    assert first == run("fresh.store")
    # A finished store is not touched, and names no machine.
    times, calls = modified(tmp_path / "test.store"), []
    assert run(descriptor=count_described(calls)) == first
    assert calls == []
    assert modified(tmp_path / "test.store") == times
    assert tmp_path.name not in "".join(first["dump"])


def count_described(calls: list[int]):
    return describing_as(lambda values, places: calls.append(len(values)) or (values, places))


def modified(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


def change(root: Path, changes: dict[str, int | str | None]) -> None:
    """Write other images (a count, None for a broken one), rename (a name) or remove them ("")."""
    for name, to in changes.items():
        path = root / name
        if isinstance(to, str) and to:
            path.rename(root / to)
        elif isinstance(to, str):
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
        else:
            path.parent.mkdir(exist_ok=True)
            write_image(path, to, seed=99)


# Images 0 to 2 are in shard 0, 3 to 5 in shard 1, 6 to 10 in shard 2, and 11 alone in shard 3.
CHANGES = {
    "same size, other content": ({"b/005.png": 4}, 1),
    "other size": ({"b/004.png": 9}, 1),
    "last changed": ({"c/011.png": 7}, 3),
    "repaired": ({"c/008.png": 2}, 2),
    "still broken": ({"c/008.png": None}, 4),
    "first removed": ({"a/000.png": ""}, 0),
    "last two shards removed": ({f"{'bc'[i > 7]}/{i:03}.png": "" for i in range(6, 12)}, 2),
    "added in the middle": ({"b/004x.png": 1}, 1),
    "added behind the last": ({"c/z.png": 1}, 3),
    "new first class": ({"0/1.png": 1}, 0),
    "renamed": ({"c/010.png": "c/010x.png"}, 2),
    "moved to another class": ({"a/003.png": "b/003.png"}, 1),
}


@pytest.mark.parametrize(("changes", "n_kept"), CHANGES.values(), ids=CHANGES)
def test_changed_images_are_noticed(images, run, tmp_path, changes, n_kept):
    run()
    before = modified(tmp_path / "test.store" / "shards")
    change(images.root, changes)
    changed = run(n_jobs=2)
    after = modified(tmp_path / "test.store" / "shards")
    assert changed == run("fresh.store")
    kept = [name for name, time in before.items() if after.get(name) == time]
    assert kept == [f"{number:05}.npy" for number in range(n_kept)]


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"level": 3}, "level was 0 and is 3"),
        ({"dtype": "float32"}, "dtype was 'uint8' and is 'float32'"),
        ({"max_pixels": 5_000}, "max_pixels was 1000000 and is 5000"),
    ],
)
def test_another_parameter_is_refused_by_name(images, run, options, difference):
    first = run()
    other = RowPixels(**options)
    with pytest.raises(StoreError, match=rf"parameters: {difference}\. .*--overwrite"):
        run(descriptor=other)
    assert run() == first
    assert run(descriptor=other, overwrite=True) == run("fresh.store", descriptor=other)


@pytest.mark.parametrize("name", ["writer.lock", "catalog.sqlite", "other"])
def test_a_folder_with_other_files_is_not_taken_for_a_store(images, run, tmp_path, name):
    # Any folder with a file writer.lock was taken for a store, and what looked like ours deleted.
    mine = [tmp_path / "test.store" / part for part in ("segments/diary.txt", "shards/00000.npy")]
    for path in mine:
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    (tmp_path / "test.store" / name).touch()
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="the folder is not empty"):
            run(overwrite=overwrite)
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    for path in (mine[0], mine[0] / "inside"):
        with pytest.raises(StoreError, match="cannot be"):
            run(path)


@pytest.mark.parametrize(("error", "n_jobs"), [(KeyboardInterrupt, 1), (MemoryError, 2)])
def test_an_exception_leaves_a_store_that_resumes(images, run, tmp_path, error, n_jobs):
    def fail(values, positions):
        if len(values) == 6:
            raise error
        return values, positions

    with pytest.raises(error):
        run(descriptor=describing_as(fail), n_jobs=n_jobs)
    assert not list((tmp_path / "test.store").rglob("*.partial"))
    with pytest.raises(StoreError, match=r"unfinished: 6 of 12 images are done\. Run the same"):
        Store(tmp_path / "test.store")
    calls: list[int] = []
    resumed = run(descriptor=count_described(calls))
    assert calls == [1, 0, 6, 2, 7]
    assert resumed == run("fresh.store")


if sys.platform != "win32":
    from tests.cli.terminal import no_file_larger_than

    def test_a_disk_that_fills_up_in_the_middle_leaves_a_store_that_resumes(run, tmp_path):
        write_images(tmp_path / "images", (3, 5, 12_000, 1))
        with no_file_larger_than(40_000), pytest.raises(SpaceError, match=r"00001\.npy"):
            run()
        assert read_catalog(tmp_path / "test.store").n_done == 2
        files = sorted(p.name for p in (tmp_path / "test.store").rglob("*.npy*"))
        assert files == ["00000.npy", "00000.npy"]
        assert run() == run("fresh.store")


def test_a_second_writer_is_refused_at_once(images, run, tmp_path):
    first = run()
    with exclusive(tmp_path / "test.store"):
        with pytest.raises(BusyError, match="another process is writing"):
            run(overwrite=True)
        assert len(Store(tmp_path / "test.store")) == 10
    assert run() == first


def test_a_reader_of_an_unfinished_store_sees_how_far_it_is(images, run, tmp_path):
    messages = []

    def read(*found):
        with pytest.raises(StoreError, match="or wait for the one that is running") as caught:
            Store(tmp_path / "test.store")
        messages.append(str(caught.value))
        return found

    run(descriptor=describing_as(read))
    assert "unfinished: 0 of 12 images are done" in messages[0]
    assert "unfinished: 11 of 12 images are done" in messages[-1]


def test_a_reader_keeps_what_it_mapped_and_learns_of_changes(images, run, tmp_path):
    run()
    early, late = Store(tmp_path / "test.store"), Store(tmp_path / "test.store")
    before = [bag.tolist() for bag in early.bags]
    change(images.root, {"a/000.png": 3})
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


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (("a/1.png", "a/2.png", "a/caf\udce9.png"), ("a/1.png", "a/2.png", r"a/caf\udce9.png")),
        # Names that are escaped alike broke the unique paths of the catalogue.
        (("\\udcff", "\\udcff?", "\udcff"), (r"\udcff", r"\udcff?", r"\udcff??")),
    ],
)
def test_a_name_that_is_not_unicode_is_set_aside(tmp_path, names, listed):
    images = write_images(tmp_path / "images", (1, 2, 3))
    # Such a name cannot be made on every system, but on those where it can it is listed like this.
    images.relative_paths = names
    for _ in range(2):
        store = extract(images, RowPixels(), tmp_path / "test.store")
        assert store.paths == listed[:2]
        assert store.set_aside == [(listed[2], "a file name that is not Unicode")]


def test_shards_are_removed_after_the_catalogue_no_longer_lists_them(
    images, run, tmp_path, monkeypatch
):
    run()
    change(images.root, {"b/005.png": 1})
    found = []

    def watched(folder, first, discard=extraction.discard):
        found.append((first, read_catalog(folder).n_done))
        discard(folder, first)

    monkeypatch.setattr(extraction, "discard", watched)
    run()
    assert found == [(1, 3)]
