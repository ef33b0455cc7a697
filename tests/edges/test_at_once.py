"""Two commands at once on the same files: one waits its turn by being told so, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np

import bowsaw as bs
from bowsaw.checkpoint import exclusive
from bowsaw.cli.main import main
from bowsaw.errors import BusyError, MismatchError, StoreError
from bowsaw.store.histograms import HistogramWriter, read_histograms

START = """
import sys, time
from bowsaw.cli.main import main
import bowsaw.cli.extract, bowsaw.cli.train
print("ready", flush=True)
sys.stdin.readline()
raise SystemExit(main(sys.argv[1:]))
"""


def started(*words: object) -> subprocess.Popen[str]:
    """Start a command that waits, with everything imported, for a line."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_extractions_and_a_training_in_processes_of_their_own(place, made_once):
    new = place.folder / "new.store"
    commands = [
        started("extract", place.images, "-o", new, "-q"),
        started("extract", place.images, "-o", new, "-q"),
        started("train", new, "--words", 8, "-o", place.folder / "new.safetensors", "-q"),
    ]
    for command in commands:
        assert command.stdout.readline() == "ready\n"
    for command in commands:
        command.stdin.write("go\n")
        command.stdin.flush()
    said = [command.communicate(timeout=120)[1] for command in commands]
    codes = [command.returncode for command in commands]
    assert set(codes[:2]) <= {0, BusyError.exit_code}, said
    assert 0 in codes[:2], said
    assert codes[2] in (0, StoreError.exit_code), said
    for code, text in zip(codes, said, strict=True):
        assert (text == "") == (code == 0)
        assert text.count("\n") == (code != 0)
    store, truth = bs.Store(new), bs.Store(made_once.store)
    assert store.digest == truth.digest
    assert all(np.array_equal(store.bags[i], truth.bags[i]) for i in range(len(truth)))


def test_while_one_extracts_a_second_is_told_and_readers_go_on(place, capfd):
    with exclusive(place.store):
        typed = ["extract", str(place.images), "-o", str(place.store), "-q"]
        assert main(typed) == BusyError.exit_code
        assert "another process is writing" in capfd.readouterr().err
        assert main(["train", str(place.store), "--words", "4", "-o", "t.safetensors", "-q"]) == 0


def test_two_that_encode_into_one_file(place, capfd):
    # The second cut the rows off that the first had mapped: the first was killed by the system.
    shape = read_histograms(place.histograms).histograms.shape
    typed = ["encode", str(place.book), str(place.store), "-o", "new.npz", "-q"]
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
    typed = {
        "train": f"train {place.store} --words 5 -o small.safetensors -q -j 1",
        "prune": f"prune {place.book} {place.store} --keep 3 --method coverage "
        "-o small.safetensors -q -j 1",
    }
    codes: dict[str, list[int]] = {name: [] for name in typed}

    def work(name: str) -> None:
        codes[name] += [main(typed[name].split()) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(name,)) for name in typed]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (place.folder / "small.safetensors").exists():
            assert bs.load("small.safetensors").n_words in (3, 5)
    for thread in threads:
        thread.join()
    assert {code for found in codes.values() for code in found} <= {0, BusyError.exit_code}
    assert any(0 in found for found in codes.values())
    assert [p.name for p in place.folder.glob("*small*")] == ["small.safetensors"]
