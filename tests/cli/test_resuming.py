"""The same command writes the same file: on any number of threads, in one go or in two."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from bowsaw.checkpoint import Checkpoint
from bowsaw.cli import evaluate as evaluate_verb
from bowsaw.store.catalog import Catalog
from bowsaw.store.histograms import HistogramWriter


def commands(made, parts, output: str) -> dict[str, tuple[object, ...]]:
    auto = ("--coding", "soft", "--sharpness", "auto", *parts)
    return {
        "extract": ("extract", made.images, "-o", f"{output}.store"),
        "train": ("train", made.store, "--words", 20, "-o", f"{output}.safetensors"),
        "encode": ("encode", made.book, made.store, *auto, "-o", f"{output}.npz"),
        "evaluate": (
            *("evaluate", made.store, "--words", 12, "--splits", 2, *parts),
            *("-o", f"{output}.json"),
        ),
    }


VERBS = ("extract", "train", "encode", "evaluate")


@pytest.mark.parametrize("verb", VERBS)
def test_one_thread_or_two_give_the_same_file(bowsaw, made, parts, content, tmp_path, verb):
    for name, jobs in (("one", 1), ("two", 2)):
        bowsaw(*commands(made, parts, name)[verb], "-j", jobs).lines()
    one, two = (next(tmp_path.glob(f"{name}.*")) for name in ("one", "two"))
    assert content(one) == content(two)


class Interrupter:
    """Calls a function, and sends a signal when it was called often enough."""

    def __init__(self, function, number, calls):
        self.function, self.number, self.calls_left = function, number, calls
        self.n_calls = 0

    def __get__(self, thing, kind=None):
        return partial(self, thing)

    def __call__(self, *args, **options):
        result = self.function(*args, **options)
        self.n_calls += 1
        if self.n_calls == self.calls_left:
            signal.raise_signal(self.number)
        return result


MOMENTS = {
    "extract": (Catalog, "commit", 4),
    "train": (Checkpoint, "save", 3),
    "encode": (HistogramWriter, "mark_done", 2),
    "evaluate": (evaluate_verb._Teller, "__call__", 1),
}
"""For each verb a step, of which an interrupted run has done some and another need not redo."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupted_command_goes_on(
    bowsaw, made, parts, content, tmp_path, monkeypatch, verb, number
):
    # Small steps, so that a small collection has some.
    monkeypatch.setattr("bowsaw.store.extraction.SHARD_IMAGES", 60)
    monkeypatch.setattr("bowsaw.clustering.kmeans.Checkpoint", partial(Checkpoint, interval=-1))
    monkeypatch.setattr("bowsaw.coding.bag_of_words.CHUNK_BAGS", 60)
    home, step, calls = MOMENTS[verb]
    done = Interrupter(getattr(home, step), number, 0)
    monkeypatch.setattr(home, step, done)
    bowsaw(*commands(made, parts, "whole")[verb]).lines()
    total = done.n_calls
    assert total > calls

    words = commands(made, parts, "torn")[verb]
    done.n_calls, done.calls_left = 0, calls
    torn = bowsaw(*words)
    assert torn.code == 128 + number
    assert "go" in torn.complaint
    assert (torn.out, done.n_calls) == ("", calls)

    done.n_calls, done.calls_left = 0, 0
    bowsaw(*words).lines()
    redone = calls if verb == "evaluate" else 0
    assert done.n_calls == total - calls + redone
    assert content(next(tmp_path.glob("torn.*"))) == content(next(tmp_path.glob("whole.*")))
    assert len(list(tmp_path.iterdir())) == 2
