"""How cells are dealt to processes, and the time left, with the times of a recorded run."""

import heapq
import json
from collections import deque
from itertools import groupby
from pathlib import Path

import pytest

from bowsaw.comparison.methods import METHODS
from bowsaw.comparison.records import Key, key_of
from bowsaw.comparison.schedule import deal, seconds_left

RECORDS = Path(__file__).parents[2] / "results" / "cells.jsonl"
NAMES = ("refinement", "annealing", "presence", "bottleneck", "random", "kmeans")


def plan(n_splits, sizes=(10, 50)):
    return [
        Key("photos", split, "hard", 500, name, size)
        for split in range(n_splits)
        for name in ("full", *NAMES)
        for size in ([500] if name == "full" else sizes)
    ]


@pytest.mark.parametrize(("n_splits", "n_workers"), [(3, 1), (3, 2), (5, 4), (1, 2), (2, 8)])
def test_every_cell_is_dealt_once_and_only_the_last_splits_are_divided(n_splits, n_workers):
    keys = plan(n_splits)
    tasks = deal(keys, METHODS, n_workers)
    assert sorted(key for task in tasks for key in task) == sorted(keys)
    n_whole = max(n_splits - n_workers + 1, 0)
    by_split = [list(group) for _, group in groupby(keys, lambda key: key.split)]
    assert tasks[:n_whole] == by_split[:n_whole]
    for task in tasks[n_whole:]:
        assert len({key.split for key in task}) == 1
        # Histograms under all words are made once.
        codes_with = {METHODS[key.method].codes_with for key in task}
        assert len(task) == 1 or codes_with == {"full"}


def durations(wanted):
    """Return seconds by key: what the records say, less what earlier cells had computed."""
    found, seen = {}, set()
    for cell in wanted:
        key, costs = key_of(cell), cell["costs"]
        n_images = cell["n_codebook"] + cell["n_train"] + cell["n_test"]
        seconds = costs["classify_seconds"]
        if key.method == "full" or cell["codes_with"] == "pruned":
            seconds += costs["code_ms"] * n_images / 1000
        book = (key.set, key.split, key.size if key.method == "kmeans" else key.full_words)
        tree = (*key[:4], key.method if key.method == "bottleneck" else key)
        seconds += 0 if book in seen else costs["codebook_seconds"]
        seconds += 0 if tree in seen else costs["select_seconds"]
        seen |= {book, tree}
        found[key] = seconds
    return found


def replay(seconds, tasks, n_workers):
    """Return when a run ends, and at the end of each cell the time and the estimate."""
    waiting, left, took, began, ends, seen = deque(tasks), dict(seconds), {}, {}, [], []

    def begin(now, keys):
        if not keys and waiting:
            keys = waiting.popleft()
        if keys:
            began[keys[0]] = now
            heapq.heappush(ends, (now + seconds[keys[0]], keys))

    for _ in range(n_workers):
        begin(0.0, [])
    while ends:
        now, (key, *keys) = heapq.heappop(ends)
        took[key] = left.pop(key)
        begin(now, keys)
        running = {key: now - begin for key, begin in began.items() if key in left}
        seen.append((now, seconds_left(left, took, running, n_workers)))
    return now, seen


def steady_panels():
    """Return panels of the recorded run in which no split took twice as long as another."""
    cells = [json.loads(line) for line in RECORDS.read_text("utf-8").splitlines()]
    panels = {}
    for cell in cells:
        panels.setdefault((cell["set"], cell["coding"], cell["full_words"]), []).append(cell)
    for name, wanted in panels.items():
        seconds = durations(wanted)
        sums = [sum(t for key, t in seconds.items() if key.split == split) for split in range(5)]
        if max(sums) < 2 * min(sums):
            yield pytest.param(seconds, id="-".join(map(str, name)))


PANELS = list(steady_panels())


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("seconds", PANELS)
def test_the_estimate_of_a_recorded_run_is_never_far_off(seconds, n_workers):
    for n_splits in (3, 5):
        some = {key: t for key, t in seconds.items() if key.split < n_splits}
        end, seen = replay(some, deal(some, METHODS, n_workers), n_workers)
        before = None
        for now, estimate in seen:
            if estimate is None:
                continue
            if now > end / 10 and abs(end - now - estimate) > end / 20:
                assert 0.5 < estimate / (end - now) < 2.0, (now, end, estimate)
            # The run as a whole never seems to become twice as long, or half as long.
            assert before is None or 0.5 < (now + estimate) / before < 2.0
            before = now + estimate
        assert seen[-1] == (end, 0.0)
        assert sum(estimate is None for _, estimate in seen) < len(seen) / 2


@pytest.mark.parametrize("seconds", PANELS)
def test_no_core_idles_at_the_end(seconds):
    some = {key: t for key, t in seconds.items() if key.split < 3}
    end, _ = replay(some, deal(some, METHODS, 2), 2)
    assert end < 1.03 * sum(some.values()) / 2
    by_split = [list(group) for _, group in groupby(some, lambda key: key.split)]
    assert replay(some, by_split, 2)[0] > 1.15 * end
