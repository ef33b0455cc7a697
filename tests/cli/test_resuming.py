"""The same command writes the same file: on any number of threads, stopped, or on a full disk."""

from __future__ import annotations

import re
import signal
import sys
from functools import partial

import pytest
from tests.cli.conftest import Interrupter
from tests.cli.terminal import no_file_larger_than

from bowsaw.checkpoint import Checkpoint, exclusive
from bowsaw.errors import BusyError, SpaceError
from bowsaw.store.catalog import Catalog
from bowsaw.store.histograms import HistogramWriter


def command(name: str, made, parts, output: str) -> tuple[object, ...]:
    chosen = (*parts, "--part", "train")
    return {
        "extract": ("extract", made.images, "-o", f"{output}.store"),
        "train": ("train", made.store, "--words", 20, "-o", f"{output}.safetensors"),
        "encode": (
            *("encode", made.book, made.store, "--coding", "soft", "--sharpness", "auto"),
            *(*parts, "-o", f"{output}.npz"),
        ),
        "fit": ("fit", made.book, made.store, *chosen, "-o", f"{output}.safetensors"),
        "prune": (
            *("prune", made.book, made.store, "--keep", 6, "--steps", 8, *chosen),
            *("-o", f"{output}.safetensors"),
        ),
        "annealing": (
            *("prune", made.book, made.store, "--keep", 6, *chosen, "--method", "annealing"),
            *("--steps", 60, "-o", f"{output}.safetensors"),
        ),
    }[name]


@pytest.mark.parametrize("name", ["extract", "train", "encode", "fit", "prune"])
def test_one_thread_or_two_give_the_same_file(bowsaw, made, parts, content, tmp_path, name):
    for output, jobs in (("one", 1), ("two", 2)):
        bowsaw(*command(name, made, parts, output), "-j", jobs).lines()
    one, two = (next(tmp_path.glob(f"{output}.*")) for output in ("one", "two"))
    assert content(one) == content(two)


STEPS = {
    "extract": (Catalog, "commit", 4),
    "train": (Checkpoint, "save", 3),
    "encode": (HistogramWriter, "mark_done", 2),
}
"""For each command a step, of which an interrupted run has done some that are not done again."""


@pytest.mark.parametrize(
    ("name", "number"),
    [("extract", signal.SIGINT), ("train", signal.SIGTERM), ("encode", signal.SIGINT)],
)
def test_an_interrupted_command_continues(
    bowsaw, made, parts, content, tmp_path, monkeypatch, name, number
):
    # Small steps, so that a small collection has some.
    monkeypatch.setattr("bowsaw.store.extraction.SHARD_IMAGES", 60)
    monkeypatch.setattr("bowsaw.clustering.kmeans.Checkpoint", partial(Checkpoint, interval=-1))
    monkeypatch.setattr("bowsaw.coding.bag_of_words.CHUNK_BAGS", 60)
    owner, step, calls = STEPS[name]
    done = Interrupter.replace(monkeypatch, owner, step)
    bowsaw(*command(name, made, parts, "whole")).lines()
    total = done.n_calls
    assert total > calls
    done.stop_after(calls, number)
    torn = bowsaw(*command(name, made, parts, "torn"))
    assert torn.code == 128 + number
    assert "Run the same command again to continue." in torn.complaint
    assert (torn.out, done.n_calls) == ("", calls)
    done.stop_after(0)
    bowsaw(*command(name, made, parts, "torn")).lines()
    assert done.n_calls == total - calls
    assert content(next(tmp_path.glob("torn.*"))) == content(next(tmp_path.glob("whole.*")))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["train", "prune", "fit"])
def test_an_output_has_one_writer(bowsaw, made, parts, tmp_path, name):
    with exclusive(tmp_path / "a.safetensors"):
        found = bowsaw(*command(name, made, parts, "a"))
    assert found.code == BusyError.exit_code
    assert "another process is writing a.safetensors" in found.complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files")
@pytest.mark.parametrize("name", ["extract", "train", "encode", "prune", "annealing"])
def test_a_full_disk_is_reported_and_the_same_command_continues(
    bowsaw, made, parts, content, tmp_path, name
):
    bowsaw(*command(name, made, parts, "whole"), "-q").lines()
    [whole] = tmp_path.iterdir()
    files = [whole] if whole.is_file() else list(whole.rglob("*.npy"))
    with no_file_larger_than(int(0.9 * max(file.stat().st_size for file in files))):
        torn = bowsaw(*command(name, made, parts, "torn"), "-q")
    assert (torn.code, torn.out) == (SpaceError.exit_code, "")
    assert re.fullmatch(
        r"bowsaw: the disk is full while writing \S*torn\.\S+\. Free some space and run the same "
        r"command again; finished work is kept\.\n",
        torn.err,
    )
    bowsaw(*command(name, made, parts, "torn"), "-q").lines()
    assert content(next(tmp_path.glob("torn.*"))) == content(whole)
    assert len(list(tmp_path.iterdir())) == 2
