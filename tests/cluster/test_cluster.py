"""What can go wrong with a cluster is reported in one line, and soon."""

import operator
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from pathlib import Path

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
def nowhere():
    """Return an address where nothing listens."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


class Unknown:
    """Pickled as something of a module that no worker has."""

    def __reduce__(self):
        return (__import__, ("a_module_that_is_not_there",))


@contextmanager
def lonely_worker(before: str = ""):
    """A scheduler with one worker that is not restarted, in a Python that does something before."""
    with (
        LocalCluster(n_workers=0, protocol="tcp", dashboard_address=":0") as lonely,
        Client(lonely, set_as_default=False) as client,
    ):
        options = [client.scheduler.address, "--no-nanny", "--nthreads=1", "--no-dashboard"]
        program = f"{before}\nfrom distributed.cli.dask_worker import main\nmain({options})"
        path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        silent = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
        env = {**os.environ, "PYTHONPATH": path}
        worker = subprocess.Popen([sys.executable, "-c", program], env=env, **silent)
        try:
            client.wait_for_workers(1, timeout=60)
            yield client, worker
        finally:
            worker.kill()
            worker.wait()


@pytest.mark.parametrize(("n_items", "homes"), [(0, False), (1, True), (40, False), (40, True)])
def test_results_come_in_the_order_of_the_items(client, n_items, homes):
    read = []
    items = (read.append(i) or i for i in range(n_items))
    results = Cluster(client).ordered_map(operator.mul, items, 3, homes=homes)
    for i, found in enumerate(results):
        assert found == 3 * i
        # Two threads, and no more than eight blocks of each may wait for their turn.
        assert len(read) <= i + 1 + 16
    assert len(read) == n_items


def test_a_map_that_fails_or_is_closed_takes_its_blocks_back(client, leaves_nothing):
    # leaves_nothing asserts at the end that the scheduler knows of no block any more.
    results = Cluster(client).ordered_map(operator.truediv, [4, 2, "one", *range(50)], 2)
    assert [next(results), next(results)] == [2.0, 1.0]
    with pytest.raises(TypeError, match="unsupported operand"):
        next(results)
    with closing(Cluster(client).ordered_map(time.sleep, iter([0.01] * 500))) as results:
        assert next(results) is None


def test_a_scheduler_that_is_not_there_is_reported_soon(nowhere, monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    begin = time.monotonic()
    for address in (nowhere, "tcp://", "nonsense://1.2.3.4:5", "tcp://127.0.0.1:1:2"):
        message = f"no scheduler answers at {address} .*dask scheduler"
        with pytest.raises(ClusterError, match=message), connected(address):
            pass
    assert time.monotonic() - begin < 30
    for parallel in (4, object(), [nowhere]):
        message = r"a synchronous distributed\.Client, the"
        with pytest.raises(ParameterError, match=message), connected(parallel):
            pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParameterError, match=r"pip install 'bowsaw\[dask\]'"), connected("a:1"):
        pass


def test_an_address_is_connected_to_and_left_again(client):
    with connected(client.scheduler.address) as cluster:
        assert cluster.address == client.scheduler.address
        assert list(cluster.ordered_map(operator.neg, [1, 2])) == [-1, -2]
    assert list(Cluster(client).ordered_map(operator.neg, [3])) == [-3]


def test_errors_of_dask_are_reported_in_one_line(client):
    for error, message in (
        (CancelledError("lost"), r"the scheduler tcp://.* is gone \(lost\)\."),
        (CommClosedError("lost"), r"the scheduler tcp://.* is gone \(lost\)\."),
        (KilledWorker("block", None, 3), r"4 workers died over it.*most often it is memory"),
    ):
        with pytest.raises(ClusterError, match=message), Cluster(client)._translate_errors():
            raise error
    with pytest.raises(ClusterError, match=r"cannot import what it needs.*a_module_that"):
        list(Cluster(client).ordered_map(operator.neg, [Unknown()]))


def test_when_all_workers_are_gone_what_was_done_is_kept(tmp_path, monkeypatch):
    images = write_images(tmp_path / "images", [6] * 70, deadly=60)
    bs.extract(images, RowPixels(), tmp_path / "expected", n_jobs=1, shard_bytes=200)
    # Many small blocks: the first are in the store long before the deadly one comes.
    monkeypatch.setattr("bowsaw.parallel.dask.LEAST_BLOCK", 2)
    with lonely_worker() as (client, worker):
        monkeypatch.setattr(cluster_module, "PATIENCE", 1.0)
        deadly = RowPixels(deaths=make_deaths(tmp_path / "deaths", 9))
        with pytest.raises(ClusterError, match=r"has had no worker for 1 s.*finished work"):
            bs.extract(images, deadly, tmp_path / "made", parallel=client, shard_bytes=200)
        assert worker.wait(10) == -signal.SIGKILL
        with pytest.raises(ClusterError, match='Start some with "dask worker tcp://'):
            Cluster(client).check({})
    assert 0 < read_catalog(tmp_path / "made").n_done < 60
    bs.extract(images, RowPixels(), tmp_path / "made", n_jobs=1, shard_bytes=200)
    assert snapshot(tmp_path / "made") == snapshot(tmp_path / "expected")


def test_a_worker_without_bowsaw_is_refused_and_lives_on():
    with lonely_worker("import sys; sys.modules['bowsaw'] = None") as (client, _):
        with pytest.raises(ClusterError, match=r"cannot run bowsaw \(.*No module named"):
            Cluster(client).check({})
        assert client.submit(operator.neg, 1).result(timeout=60) == -1


@pytest.mark.parametrize("name", ["bowsaw", "NumPy"])
def test_workers_with_other_versions_are_refused(client, name, monkeypatch):
    cluster = Cluster(client)
    monkeypatch.setattr(cluster, "_versions", {**versions(), name: "0.0.1"})
    message = rf"has {name} {versions()[name]}, this process has 0\.0\.1: results could differ"
    with pytest.raises(ClusterError, match=message):
        cluster.check({})
    # A worker that joins later has not been asked, and finds out by itself.
    with pytest.raises(ClusterError, match=message):
        list(cluster.ordered_map(operator.neg, [1]))


def test_a_worker_that_does_not_see_a_folder_is_refused(client, tmp_path):
    with pytest.raises(ClusterError, match=r"does not see .*nowhere as this process does"):
        Cluster(client).check({tmp_path: None, tmp_path / "nowhere": None})
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    Cluster(client).check({file: 3})
    with pytest.raises(ClusterError, match="does not see"):
        Cluster(client).check({file: 4})


def test_the_commands_write_the_same_files(client, scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bowsaw.parallel.dask.LEAST_BLOCK", 5)
    for name in ("brick", "grass"):
        Path("images", name).mkdir(parents=True)
        for i in range(6):
            shutil.copy(scenes / name / f"{i:03}.png", Path("images", name))
    for name, more in (("here", []), ("there", ["--scheduler", client.scheduler.address])):
        for line in (
            f"extract images -o {name}.store",
            f"train {name}.store --words 7 --max-iter 3 -o {name}.safetensors",
            f"encode {name}.safetensors {name}.store -o {name}.npz",
        ):
            assert main([*line.split(), "-q", *more]) == 0, capsys.readouterr().err
    assert snapshot(tmp_path / "here.store") == snapshot(tmp_path / "there.store")
    for end in ("safetensors", "npz"):
        assert Path(f"here.{end}").read_bytes() == Path(f"there.{end}").read_bytes()


def test_the_command_reports_that_there_is_no_scheduler(nowhere, scenes, monkeypatch, capsys):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    monkeypatch.chdir(scenes.parent)
    typed = ["extract", scenes.name, "-o", "no.store", "--scheduler"]
    assert main([*typed, nowhere]) == 10
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"bowsaw: no scheduler answers at {nowhere}")
    assert not Path("no.store").exists()
    for address in ("here", "http://a:1", "tcp://a:b"):
        with pytest.raises(SystemExit):
            main([*typed, address])
        assert "must be the address of a scheduler" in capsys.readouterr().err
