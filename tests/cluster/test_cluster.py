"""What can go wrong with a cluster is told in one line, and soon."""

from __future__ import annotations

import operator
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from tests.store.row_pixels import RowPixels, make_deaths, snapshot, write_images

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import ClusterError, ParameterError
from bowsaw.parallel import dask as cluster_module
from bowsaw.parallel.dask import Cluster, connected, versions
from bowsaw.store.catalog import read_catalog


@pytest.fixture
def nobody():
    """Return an address where nobody listens."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def lonely_scheduler():
    with (
        LocalCluster(n_workers=0, protocol="tcp", dashboard_address=":0") as lonely,
        Client(lonely, set_as_default=False) as client,
    ):
        yield client


# -- maps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("homes", [False, True])
@pytest.mark.parametrize("n_items", [0, 1, 40])
def test_results_come_in_the_order_of_the_items(client, n_items, homes):
    read = []

    def items():
        for i in range(n_items):
            read.append(i)
            yield i

    results = Cluster(client).ordered_map(operator.mul, items(), 3, homes=homes)
    for i, found in enumerate(results):
        assert found == 3 * i
        # Two threads, and no more than eight blocks of each may wait for their turn.
        assert len(read) <= i + 1 + 16
    assert len(read) == n_items


def test_an_exception_comes_where_it_happened_and_the_rest_is_taken_back(client, leaves_nothing):
    results = Cluster(client).ordered_map(operator.truediv, [4, 2, "one", *range(50)], 2)
    assert [next(results), next(results)] == [2.0, 1.0]
    with pytest.raises(TypeError, match="unsupported operand"):
        next(results)


def test_a_map_that_is_closed_takes_its_blocks_back(client, leaves_nothing):
    # leaves_nothing asserts at the end that the scheduler knows of no block any more.
    with closing(Cluster(client).ordered_map(time.sleep, iter([0.01] * 500))) as results:
        assert next(results) is None


# -- schedulers ------------------------------------------------------------------------------------


def test_a_scheduler_that_is_not_there_is_told_soon(nobody, monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    begin = time.monotonic()
    with (
        pytest.raises(ClusterError, match=f"no scheduler answers at {nobody} .*dask scheduler"),
        connected(nobody),
    ):
        pass
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("address", ["tcp://", "nonsense://1.2.3.4:5", "tcp://127.0.0.1:1:2"])
def test_an_address_that_is_none_is_told(address, monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    with pytest.raises(ClusterError, match="no scheduler answers"), connected(address):
        pass


@pytest.mark.parametrize("parallel", [4, object(), ["tcp://127.0.0.1:8786"]])
def test_other_things_are_no_cluster(parallel):
    with (
        pytest.raises(ParameterError, match=r"a synchronous distributed\.Client, the"),
        connected(parallel),
    ):
        pass


def test_without_dask_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParameterError, match=r"pip install 'bowsaw\[dask\]'"), connected("a:1"):
        pass


def test_an_address_is_connected_to_and_left_again(client):
    address = client.scheduler.address
    with connected(address) as cluster:
        assert cluster.address == address
        assert list(cluster.ordered_map(operator.neg, [1, 2])) == [-1, -2]
    assert list(Cluster(client).ordered_map(operator.neg, [3])) == [-3]


@pytest.mark.parametrize("error", [CancelledError("lost"), CommClosedError("lost")])
def test_a_scheduler_that_goes_is_told(client, error):
    with (
        pytest.raises(ClusterError, match=r"the scheduler tcp://.* is gone \(lost\)\."),
        Cluster(client)._translate_errors(),
    ):
        raise error


# -- workers ---------------------------------------------------------------------------------------


def start_worker(address: str, before: str = "") -> subprocess.Popen[bytes]:
    """Start a worker that nobody starts again, in a Python that does something before."""
    options = [address, "--no-nanny", "--nthreads=1", "--no-dashboard"]
    program = f"{before}\nfrom distributed.cli.dask_worker import main\nmain({options})"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_when_all_workers_are_gone_what_was_done_is_kept(tmp_path, monkeypatch):
    images = write_images(tmp_path / "images", [6] * 70, deadly=60)
    bs.extract(images, RowPixels(), tmp_path / "expected", n_jobs=1, shard_bytes=200)
    # Many small blocks: the first are in the store long before the deadly one comes.
    monkeypatch.setattr("bowsaw.parallel.dask.LEAST_BLOCK", 2)
    with lonely_scheduler() as client:
        worker = start_worker(client.scheduler.address)
        try:
            client.wait_for_workers(1, timeout=60)
            monkeypatch.setattr(cluster_module, "PATIENCE", 1.0)
            deadly = RowPixels(deaths=make_deaths(tmp_path / "deaths", 9))
            with pytest.raises(ClusterError, match=r"has had no worker for 1 s.*finished work"):
                bs.extract(images, deadly, tmp_path / "made", parallel=client, shard_bytes=200)
            assert worker.wait(10) == -signal.SIGKILL
        finally:
            worker.kill()
            worker.wait()
        with pytest.raises(ClusterError, match='Start some with "dask worker tcp://'):
            Cluster(client).check({})
    assert 0 < read_catalog(tmp_path / "made").n_done < 60
    bs.extract(images, RowPixels(), tmp_path / "made", n_jobs=1, shard_bytes=200)
    assert snapshot(tmp_path / "made") == snapshot(tmp_path / "expected")


def test_a_worker_without_bowsaw_is_refused_and_lives_on():
    with lonely_scheduler() as client:
        worker = start_worker(client.scheduler.address, "import sys; sys.modules['bowsaw'] = None")
        try:
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(ClusterError, match=r"cannot run bowsaw \(.*No module named"):
                Cluster(client).check({})
            assert client.submit(operator.neg, 1).result(timeout=60) == -1
        finally:
            worker.kill()
            worker.wait()


def test_a_block_that_kills_every_worker_is_given_up(client):
    with (
        pytest.raises(ClusterError, match=r"4 workers died over it.*most often it is memory"),
        Cluster(client)._translate_errors(),
    ):
        raise KilledWorker("block", None, 3)


@pytest.mark.parametrize("name", ["bowsaw", "NumPy"])
def test_workers_with_other_versions_are_refused(client, name, monkeypatch):
    cluster = Cluster(client)
    monkeypatch.setattr(cluster, "_versions", {**versions(), name: "0.0.1"})
    told = rf"has {name} {versions()[name]}, this process has 0\.0\.1: results could differ"
    with pytest.raises(ClusterError, match=told):
        cluster.check({})
    # A worker that joins later has not been asked, and finds out by itself.
    with pytest.raises(ClusterError, match=told):
        list(cluster.ordered_map(operator.neg, [1]))


def test_a_worker_that_does_not_see_a_folder_is_refused(client, tmp_path):
    with pytest.raises(ClusterError, match=r"does not see .*nowhere as this process does"):
        Cluster(client).check({tmp_path: None, tmp_path / "nowhere": None})
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    Cluster(client).check({file: 3})
    with pytest.raises(ClusterError, match="does not see"):
        Cluster(client).check({file: 4})


class Unknown:
    """Pickled as something of a module that no worker has."""

    def __reduce__(self):
        return (__import__, ("a_module_that_is_not_there",))


def test_a_worker_without_a_module_is_told(client):
    with pytest.raises(ClusterError, match=r"cannot import what it needs.*a_module_that"):
        list(Cluster(client).ordered_map(operator.neg, [Unknown()]))


# -- the command line ------------------------------------------------------------------------------


def test_the_commands_write_the_same_files(client, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bowsaw.parallel.dask.LEAST_BLOCK", 5)
    few = ["--words", "7", "--max-iter", "3"]
    images = tmp_path / "images"
    pictures = np.random.default_rng(0).integers(0, 256, (12, 40, 60), dtype=np.uint8)
    for i, picture in enumerate(pictures):
        target = images / "ab"[i % 2] / f"{i}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(target), picture)
    for name, more in (("here", []), ("there", ["--scheduler", client.scheduler.address])):
        for verb in (
            ["extract", "images", "-o", f"{name}.store"],
            ["train", f"{name}.store", *few, "-o", f"{name}.safetensors"],
            ["encode", f"{name}.safetensors", f"{name}.store", "-o", f"{name}.npz"],
        ):
            assert main([*verb, "-q", *more]) == 0, capsys.readouterr().err
    assert snapshot(tmp_path / "here.store") == snapshot(tmp_path / "there.store")
    for kind in ("safetensors", "npz"):
        assert Path(f"here.{kind}").read_bytes() == Path(f"there.{kind}").read_bytes()


def test_the_command_says_that_there_is_no_scheduler(nobody, scenes, monkeypatch, capsys):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    monkeypatch.chdir(scenes.parent)
    assert main(["extract", scenes.name, "-o", "no.store", "--scheduler", nobody]) == 10
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"bowsaw: no scheduler answers at {nobody}")
    assert not Path("no.store").exists()


@pytest.mark.parametrize("address", ["here", "http://a:1", "tcp://a:b"])
def test_the_command_refuses_what_is_no_address(address, capsys):
    with pytest.raises(SystemExit):
        main(["extract", "images", "-o", "no.store", "--scheduler", address])
    assert "must be the address of a scheduler" in capsys.readouterr().err
