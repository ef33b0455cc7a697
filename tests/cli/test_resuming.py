"""The same command writes the same file: on any number of threads, stopped, or on a full disk."""

import re
import shutil
import signal
import sys
from functools import partial

import pytest
from tests.cli.conftest import Interrupter, content
from tests.cli.terminal import no_file_larger_than

from bowsaw.checkpoint import Checkpoint, exclusive
from bowsaw.errors import BusyError, SpaceError, StoreError
from bowsaw.store.catalog import Catalog
from bowsaw.store.histograms import HistogramWriter

COMMANDS = {
    "extract": "IMAGES -o OUT.store",
    "train": "STORE --words 20 -o OUT.safetensors",
    "encode": "BOOK STORE --coding soft --sharpness auto -o OUT.npz",
    "fit": "BOOK STORE -o OUT.safetensors",
    "prune": "BOOK STORE --keep 6 --steps 8 -o OUT.safetensors",
}


@pytest.fixture
def run(bowsaw, made):
    """Run one of the commands; its output has a given name."""
    values = {"IMAGES": made.images, "STORE": made.store, "BOOK": made.book}

    def run(name, output, *more):
        text = COMMANDS[name].replace("OUT", output)
        return bowsaw(name, *(values.get(word, word) for word in text.split()), *more)

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_one_thread_or_two_give_the_same_file(run, tmp_path, name):
    run(name, "one", "-j", 1).lines()
    run(name, "two", "-j", 2).lines()
    assert content(next(tmp_path.glob("one.*"))) == content(next(tmp_path.glob("two.*")))


@pytest.mark.parametrize(
    ("name", "owner", "step", "calls", "number"),
    [
        ("extract", Catalog, "commit", 4, signal.SIGINT),
        ("train", Checkpoint, "save", 3, signal.SIGTERM),
        ("encode", HistogramWriter, "mark_done", 2, signal.SIGINT),
    ],
)
def test_an_interrupted_command_continues(
    run, tmp_path, monkeypatch, name, owner, step, calls, number
):
    # Small steps, so that a small collection has some.
    monkeypatch.setattr("bowsaw.store.extraction.SHARD_IMAGES", 60)
    monkeypatch.setattr("bowsaw.clustering.kmeans.Checkpoint", partial(Checkpoint, interval=-1))
    monkeypatch.setattr("bowsaw.coding.bag_of_words.CHUNK_BAGS", 60)
    done = Interrupter(monkeypatch, owner, step)
    run(name, "whole").lines()
    total = done.n_calls
    assert total > calls
    done.stop_after(calls, number)
    torn = run(name, "torn")
    assert torn.code == 128 + number
    assert "Run the same command again to continue." in torn.complaint
    assert (torn.out, done.n_calls) == ("", calls)
    done.stop_after(0)
    run(name, "torn").lines()
    assert done.n_calls == total - calls
    assert content(next(tmp_path.glob("torn.*"))) == content(next(tmp_path.glob("whole.*")))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["train", "prune", "fit"])
def test_an_output_has_one_writer(run, tmp_path, name):
    with exclusive(tmp_path / "a.safetensors"):
        found = run(name, "a")
    assert found.code == BusyError.exit_code
    assert "another process is writing a.safetensors" in found.complaint
    assert list(tmp_path.iterdir()) == []


def test_a_store_has_one_writer_and_can_be_overwritten(run, made, tmp_path):
    shutil.copytree(made.store, tmp_path / "a.store")
    with exclusive(tmp_path / "a.store"):
        assert run("extract", "a").code == BusyError.exit_code
    assert run("extract", "a", "--patch-step", 16).code == StoreError.exit_code
    assert "1,728 descriptors" in run("extract", "a", "--patch-step", 16, "--overwrite").out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files")
@pytest.mark.parametrize("name", ["extract", "train", "encode", "prune"])
def test_a_full_disk_is_reported_and_the_same_command_continues(run, tmp_path, name):
    run(name, "whole", "-q").lines()
    [whole] = tmp_path.iterdir()
    files = [whole] if whole.is_file() else list(whole.rglob("*.npy"))
    with no_file_larger_than(int(0.9 * max(file.stat().st_size for file in files))):
        torn = run(name, "torn", "-q")
    assert (torn.code, torn.out) == (SpaceError.exit_code, "")
    assert re.fullmatch(
        r"bowsaw: the disk is full while writing \S*torn\.\S+\. Free some space and run the same "
        r"command again; finished work is kept\.\n",
        torn.err,
    )
    run(name, "torn", "-q").lines()
    assert content(next(tmp_path.glob("torn.*"))) == content(whole)
    assert len(list(tmp_path.iterdir())) == 2
