"""Which worker gets which block next."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from bowsaw.parallel.dask import AHEAD, assign_blocks

WORKERS = ("a", "b", "c")


@given(
    numbers=st.sets(st.integers(0, 40)).map(sorted),
    slots=st.lists(st.sampled_from(WORKERS), max_size=6).map(sorted),
    busy=st.lists(st.sampled_from((*WORKERS, "gone")), max_size=8),
    homes=st.booleans(),
)
@settings(deadline=None)
def test_each_block_is_assigned_once_to_the_least_loaded_worker(numbers, slots, busy, homes):
    assigned = assign_blocks(numbers, slots, busy, homes=homes)
    blocks = [number for number, _ in assigned]
    assert len(set(blocks)) == len(blocks)
    assert set(blocks) <= set(numbers)
    assert len(assigned) == max(0, min(len(numbers), AHEAD * len(slots) - len(busy)))
    if not homes:
        assert blocks == list(numbers)[: len(blocks)]
    loads, threads = Counter(busy), Counter(slots)
    for _, worker in assigned:
        assert all(
            loads[worker] / threads[worker] <= loads[other] / threads[other] for other in threads
        )
        loads[worker] += 1


def test_workers_of_equal_speed_keep_their_blocks_in_every_round():
    slots = sorted(WORKERS * 2)
    assigned = dict(assign_blocks(range(AHEAD * len(slots)), slots, [], homes=True))
    assert assigned == {n: slots[n % len(slots)] for n in assigned}
    more = assign_blocks(range(100, 200), slots, slots, homes=True)
    assert len(more) == len(slots)
    assert all(slots[number % len(slots)] == worker for number, worker in more)


def test_a_fast_worker_takes_a_block_of_a_slow_one():
    # Even numbers are at home with a, which has done nothing yet.
    assert assign_blocks([4, 6, 7], ["a", "b"], ["a", "a"], homes=True) == [(7, "b"), (4, "b")]
