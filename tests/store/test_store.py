import json
import shutil

import numpy as np
import pytest
from tests.store.row_pixels import RowPixels, write_images

from bowsaw.bags import Bags
from bowsaw.checkpoint import exclusive
from bowsaw.errors import BusyError, DataError, ParameterError, StoreError
from bowsaw.images.split import split_by_class
from bowsaw.store import Store, extract

pytestmark = pytest.mark.filterwarnings("ignore:left out, because none of their images")

COUNTS = (2, None, 3, 1, None, 4, None, None, None)


@pytest.fixture
def store(tmp_path) -> Store:
    images = write_images(tmp_path / "images", COUNTS)
    return extract(images, RowPixels(), tmp_path / "test.store", shard_bytes=16)


def test_rows_labels_and_paths_of_usable_images_go_together(store):
    assert store.paths == ("a/000.png", "a/002.png", "b/003.png", "b/005.png")
    assert store.y.tolist() == [0, 0, 1, 1]
    assert store.y.dtype == np.int64
    assert (store.classes, store.empty_classes) == (("a", "b"), ("c",))
    assert store.bags.counts.tolist() == [2, 3, 1, 4]
    assert store.sizes.tolist() == [[4, 3], [4, 4], [4, 2], [4, 5]]
    assert (len(store), store.n_usable, store.n_images) == (4, 4, 9)
    broken = ["a/001.png", "b/004.png", "c/006.png", "c/007.png", "c/008.png"]
    assert [path for path, _ in store.set_aside] == broken
    assert store.positions(1).tolist() == [[1.5, 1, 1], [1.5, 2, 1], [1.5, 3, 1]]
    assert store.positions(np.int64(-1)).shape == (4, 3)
    assert store.positions(0).dtype == np.float32
    for i in (4, -5):
        with pytest.raises(IndexError, match=f"image {i} of 4"):
            store.positions(i)


def test_bags_lie_on_disk_and_the_summary_is_json(store):
    assert isinstance(store.bags, Bags)
    assert store.bags is store.bags
    assert store.bags.scale == store.scale == 255.0
    assert store.bags.description == store.description == RowPixels().description()
    bag = store.bags[1]
    assert isinstance(bag.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        bag[0] = 0
    chosen = store.bags[[3, 0]]
    np.testing.assert_array_equal(chosen.values, np.concatenate([store.bags[3], store.bags[0]]))
    summary = json.loads(json.dumps(store.summary()))
    assert [line["path"] for line in summary["set_aside"]] == [path for path, _ in store.set_aside]
    assert summary["classes"] == {"a": 2, "b": 2, "c": 0}
    expected = {"n_images": 9, "n_usable": 4, "n_descriptors": 10, "n_dims": 4, "dtype": "uint8"}
    expected |= {"scale": 255.0, "digest": store.digest, "description": RowPixels().description()}
    assert summary | expected == summary


def test_split_is_that_of_the_usable_images_if_there_are_any(tmp_path):
    images = write_images(tmp_path / "images", [1, None, 1, 1, 1] * 6)
    store = extract(images, RowPixels(), tmp_path / "test.store")
    ours = store.draw_split(codebook=2, train=3, seed=5, index=1)
    theirs = split_by_class(store.y, store.classes, codebook=2, train=3, seed=5, index=1)
    for part in ("codebook", "train", "test"):
        rows = getattr(ours, part)
        np.testing.assert_array_equal(rows, getattr(theirs, part))
        assert len(store.bags[rows]) == len(rows) > 0
    images = write_images(tmp_path / "broken", (None, None, None))
    store = extract(images, RowPixels(), tmp_path / "broken.store")
    assert (len(store), len(store.bags), store.bags.n_dims) == (0, 0, 4)
    assert (store.y.shape, store.sizes.shape) == ((0,), (0, 2))
    assert store.summary()["n_descriptors"] == 0


def test_the_split_is_kept_in_a_file(store, tmp_path):
    # A class with fewer than three images has no split.
    assert store.split is None
    with pytest.raises(DataError, match=r"fewer than 3 images, and a split needs .* Add images"):
        store.set_split()
    kept = store.set_split(codebook=0, train=1, seed=3)
    assert store.split is kept
    assert Store(store.path).split == kept == store.draw_split(codebook=0, train=1, seed=3)
    assert store.summary()["split"] == kept.record()
    with pytest.raises(ParameterError, match="both be numbers, or both None"):
        store.set_split(codebook=1)
    images = write_images(tmp_path / "many", [1] * 30)
    whole = tmp_path / "many.store"
    for split, sizes in ((None, "3/3/rest"), ((1, 2), "1/2/rest"), (None, "1/2/rest")):
        assert extract(images, RowPixels(), whole, split=split).split.sizes == sizes
    assert extract(images, RowPixels(), whole, split="auto", seed=4).split.seed == 4


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"codebook": 1, "train": 0, "seed": 0}', '{"codebook": 1}', "\x00"]
)
def test_an_unreadable_split_is_reported_and_can_be_written_again(store, text):
    path = store.path / "split.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"split\.json cannot be read: .* `bowsaw split"):
        _ = Store(store.path).split
    assert path.read_text() == text
    with exclusive(store.path), pytest.raises(BusyError):
        store.set_split(codebook=0, train=1)
    assert path.read_text() == text
    assert Store(store.path).set_split(codebook=0, train=1) == Store(store.path).split


def test_the_digest_is_of_what_is_handed_out(store, tmp_path):
    assert len(bytes.fromhex(store.digest)) == 32

    def digest(name, seed=0, **options):
        images = write_images(tmp_path / name, COUNTS, seed)
        path = tmp_path / f"{name}.store"
        return extract(images, RowPixels(**options), path, shard_bytes=100).digest

    assert digest("same") == store.digest
    others = [digest("a", seed=1), digest("b", level=1), digest("c", dtype="float32")]
    assert len({store.digest, *others}) == 4


def test_reading_changes_nothing_and_needs_no_permission_to_write(store):
    def tree():
        return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in store.path.rglob("*")}

    before, everything = tree(), [store.path, *store.path.rglob("*")]
    modes = {path: path.stat().st_mode for path in everything}
    try:
        for path in everything:
            path.chmod(modes[path] & ~0o222)
        again = Store(str(store.path))
        assert again.paths == store.paths
        assert again.bags.values.shape == (10, 4)
        assert again.positions(0).shape == (2, 3)
    finally:
        for path in everything:
            path.chmod(modes[path])
    assert tree() == before


def test_what_is_not_a_store_is_refused(store, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for name, reason in (
        ("nowhere", r"nowhere is not there\. Make a store with"),
        ("", r"is not a store \(no catalog.sqlite\)"),
        ("file", "is not a store"),
    ):
        with pytest.raises(StoreError, match=reason):
            Store(tmp_path / name)
    shutil.rmtree(store.path / "positions")
    with pytest.raises(StoreError, match=r"00000\.npy is damaged: it cannot be read.*Copy the"):
        Store(store.path)
