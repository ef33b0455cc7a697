"""A cluster of two worker processes, and a store that they see."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster
from tests.store.row_pixels import RowPixels, write_images

import bowsaw as bs


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread, in processes of their own that are started again if killed."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        LocalCluster(dashboard_address=":0", **options) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bs.Store]:
    """About 280,000 descriptors in stores of some shards, one store for each dtype."""
    folder = tmp_path_factory.mktemp("stores")
    counts = [20000, 14000, 0, 17000, None, 18000, 18500, 1, *[16384] * 12]
    images = write_images(folder / "images", counts)
    return {
        dtype: bs.extract(images, RowPixels(dtype), folder / dtype, n_jobs=1, shard_bytes=size)
        for dtype, size in (("uint8", 300_000), ("float32", 1_200_000))
    }


@pytest.fixture
def leaves_nothing(client: Any) -> Iterator[None]:
    """Hold a test to leaving no task behind on the scheduler."""
    yield
    end = time.monotonic() + 10
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < end, "tasks are left"
        time.sleep(0.02)
