"""Who has which block next."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bowsaw.parallel.dealing import AHEAD, deal

WORKERS = ("ann", "bob", "cyd")


@given(
    numbers=st.sets(st.integers(0, 40)).map(sorted),
    slots=st.lists(st.sampled_from(WORKERS), max_size=6).map(sorted),
    busy=st.lists(st.sampled_from((*WORKERS, "gone")), max_size=8),
    homes=st.booleans(),
)
@settings(deadline=None)
def test_no_block_is_given_twice_and_nobody_has_too_many(numbers, slots, busy, homes):
    dealt = deal(numbers, slots, busy, homes=homes)
    blocks = [number for number, _ in dealt]
    assert len(set(blocks)) == len(blocks)
    assert set(blocks) <= set(numbers)
    assert {worker for _, worker in dealt} <= set(slots)
    # As many as there are places for.
    assert len(dealt) == max(0, min(len(numbers), AHEAD * len(slots) - len(busy)))
    if not homes:
        assert blocks == list(numbers)[: len(blocks)]
    loads, threads = Counter(busy), Counter(slots)
    for _, worker in dealt:
        assert all(
            loads[worker] / threads[worker] <= loads[other] / threads[other] for other in threads
        )
        loads[worker] += 1


@pytest.mark.parametrize("n_threads", [1, 2])
def test_workers_of_one_speed_have_the_same_blocks_in_every_round(n_threads):
    slots = sorted(WORKERS * n_threads)
    dealt = dict(deal(range(AHEAD * len(slots)), slots, [], homes=True))
    assert dealt == {n: slots[n % len(slots)] for n in dealt}
    # Each has done one block and has one at hand.
    more = deal(range(100, 200), slots, slots, homes=True)
    assert len(more) == len(slots)
    assert all(slots[number % len(slots)] == worker for number, worker in more)


def test_a_fast_worker_takes_a_block_of_a_slow_one():
    slots = ["ann", "bob"]
    # Even numbers are at home with ann, who has not done anything yet.
    assert deal([4, 6, 7], slots, ["ann", "ann"], homes=True) == [(7, "bob"), (4, "bob")]
    assert deal([4, 6], slots, ["ann", "ann", "bob"], homes=True) == [(4, "bob")]
