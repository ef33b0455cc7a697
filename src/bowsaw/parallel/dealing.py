"""How large the blocks for a cluster are, and which worker has which block next.

A worker has a block under way and another at hand, so that it need not wait for the next. Blocks
that come again, round after round, have a *home*: the worker that has had them before and may
still know something of them. A worker is given blocks that are at home with it as long as there
are any; a fast worker then takes blocks of a slow one, instead of waiting for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

AHEAD = 2
"""Blocks that each thread of a worker has under way or at hand."""

LEAST_BLOCK, MOST_BLOCK, N_BLOCKS = 32, 1024, 4096


def block_size(n_items: int) -> int:
    """Return how many images or bags a block has, whoever does it.

    So few that all workers end at about the same time, and no more blocks than a scheduler can
    keep in mind, as long as a block is not too long to be lost.

    Examples
    --------
    >>> block_size(1000), block_size(10**6), block_size(10**8)
    (32, 244, 1024)
    """
    return min(max(n_items // N_BLOCKS, LEAST_BLOCK), MOST_BLOCK)


def deal(
    numbers: Iterable[int], slots: Sequence[str], busy: Iterable[str], *, homes: bool = False
) -> list[tuple[int, str]]:
    """Return which blocks go to which workers now.

    Parameters
    ----------
    numbers : iterable of int
        Blocks that are not given to anybody yet, rising.
    slots : sequence of str
        The name of each worker, once for each of its threads.
    busy : iterable of str
        The worker of each block that is under way or at hand.
    homes : bool, default=False
        Whether block i is at home with the worker of slot i, counted around.

    Examples
    --------
    >>> deal([0, 1, 2, 3, 4], ["ann", "bob"], [])
    [(0, 'ann'), (1, 'bob'), (2, 'ann'), (3, 'bob')]
    >>> deal([4, 5, 6], ["ann", "bob"], ["ann", "ann"], homes=True)
    [(5, 'bob'), (4, 'bob')]
    """
    left, dealt = list(numbers), []
    loads, threads = Counter(busy), Counter(slots)
    for _ in range(min(len(left), AHEAD * len(slots) - loads.total())):
        worker = min(threads, key=lambda worker: loads[worker] / threads[worker])
        at_home = (n for n in left if homes and slots[n % len(slots)] == worker)
        number = next(at_home, left[0])
        left.remove(number)
        loads[worker] += 1
        dealt.append((number, worker))
    return dealt
