"""An extraction on a cluster ends in the bytes of an extraction on one machine."""

import numpy as np
import pytest
from tests.store.row_pixels import RowPixels, make_deaths, snapshot, write_images

import bowsaw as bs
from bowsaw.errors import ClusterError, DataError, ImageError
from bowsaw.parallel import dask
from bowsaw.store import describing
from bowsaw.store.catalog import Catalog, Recipe

COUNTS = [*range(3, 30), None, 0, 0, *[9] * 20, None, *range(40, 12, -1)]
"""79 images: three blocks, two broken files, some without descriptors."""

pytestmark = pytest.mark.usefixtures("leaves_nothing")


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "images", COUNTS, deadly=40)


@pytest.fixture
def expected(images, tmp_path):
    bs.extract(images, RowPixels(), tmp_path / "expected", n_jobs=1, shard_bytes=400)
    return snapshot(tmp_path / "expected")


def by_cluster(images, path, client, descriptor=None, **options):
    options = {"shard_bytes": 400, "parallel": client, **options}
    return bs.extract(images, descriptor or RowPixels(), path, **options)


@pytest.mark.parametrize("least_images", [1, 32])
def test_the_store_is_the_same_to_the_byte(client, expected, tmp_path, least_images, monkeypatch):
    # Relative paths mean the same on workers, which have another working folder.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask, "LEAST_BLOCK", least_images)
    store = by_cluster(bs.ImageFolder("images"), "made", client)
    assert snapshot(tmp_path / "made") == expected
    assert [path for path, _ in store.set_aside] == ["b/027.png", "b/050.png"]
    with pytest.raises(ImageError, match=r"b/027\.png"):
        by_cluster(bs.ImageFolder("images"), "strict", client, strict=True)


def test_a_killed_worker_loses_nothing(client, images, expected, tmp_path):
    deadly = RowPixels(deaths=make_deaths(tmp_path / "deaths", 1))
    by_cluster(images, tmp_path / "made", client, deadly)
    assert list((tmp_path / "deaths").iterdir()) == []
    assert snapshot(tmp_path / "made") == expected


@pytest.mark.parametrize("later", ["cluster", "threads"])
def test_an_interrupted_extraction_goes_on(client, images, expected, tmp_path, later, monkeypatch):
    commit, n_commits = Catalog.commit, []

    def interrupted(catalog, entries):
        commit(catalog, entries)
        n_commits.append(len(entries))
        if len(n_commits) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            by_cluster(images, tmp_path / "made", client)
    # A worker that was writing may leave segments; the next run removes them.
    done = sum(n_commits)
    by_cluster(images, tmp_path / "made", client if later == "cluster" else None)
    assert 0 < done < len(COUNTS)
    assert not (tmp_path / "made" / "segments").exists()
    assert snapshot(tmp_path / "made") == expected


def test_what_one_machine_began_a_cluster_brings_up_to_date(client, images, tmp_path):
    by_cluster(images, tmp_path / "made", None)
    (images.root / "b/031.png").replace(images.root / "b/030.png")
    (images.root / "b/027.png").unlink()
    now = bs.ImageFolder(images.root)
    by_cluster(now, tmp_path / "made", client)
    by_cluster(now, tmp_path / "fresh", None)
    assert snapshot(tmp_path / "made") == snapshot(tmp_path / "fresh")


def test_a_worker_that_does_not_see_an_image_is_not_believed(images):
    target = describing.Target("a/000.png", str(images.root / "a" / "000.png"))
    blind = describing.Finding(error=ImageError("a/000.png", "no such file"), is_missing=True)
    with pytest.raises(ClusterError, match=r"a worker does not see .*a/000\.png"):
        describing._check_visible(target, blind)


class Slippery(RowPixels):
    """Gives rows of a shape that it did not promise."""

    def describe(self, grey):
        return super().describe(grey)[0][:, :2], super().describe(grey)[1]


def test_what_a_descriptor_does_wrong_is_reported_as_on_one_machine(client, images, tmp_path):
    with pytest.raises(DataError, match=r"Correct its describe\(\)"):
        by_cluster(images, tmp_path / "made", client, Slippery())


def test_a_machine_that_was_thought_dead_cannot_write_into_the_store(images, tmp_path):
    descriptor = RowPixels()
    describer = describing.Describer(descriptor, Recipe.of(descriptor))
    block = (0, [describing.Target("a/000.png", images.paths[0])])
    store = tmp_path / "store"
    store.mkdir()
    with describing.make_staging_dir(store) as staging_dir:
        describing.describe_block(block, describer, staging_dir)
        work = (0, (describing.Span(0, COUNTS[0], 0, COUNTS[0]),))
        describing.join_shard(work, describer.recipe, store, staging_dir)
    shard = store / "shards" / "00000.npy"
    assert len(np.load(shard)) == COUNTS[0]
    before = shard.read_bytes()
    with pytest.raises(FileNotFoundError):
        describing.join_shard(work, describer.recipe, store, staging_dir)
    with pytest.raises(FileNotFoundError):
        describing.describe_block(block, describer, staging_dir)
    assert shard.read_bytes() == before
    assert not (store / "segments").exists()
