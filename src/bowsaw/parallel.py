"""Maps that give the same results on any number of threads.

The kernels release Python's lock (numba with ``nogil``, OpenCV, BLAS), so threads share one address
space and nothing is copied to workers. The rule that makes results the same on any number of
threads: work is cut into blocks whose limits do not depend on ``n_jobs``, each block is computed
with single-threaded BLAS, and results are handed back in block order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import threadpool_limits

from bowsaw.errors import ParameterError

T = TypeVar("T")
R = TypeVar("R")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that scikit-learn's ``n_jobs`` asks for.

    Examples
    --------
    >>> effective_jobs(None), effective_jobs(3)
    (1, 3)
    >>> effective_jobs(-1) == available_cores()
    True
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or int(n_jobs) != n_jobs or n_jobs == 0:
        raise ParameterError(
            f"n_jobs must be a whole number other than 0 (-1 for every core); got {n_jobs!r}."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread inside the block: for speed under our threads, and for equality."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], n_jobs: int | None = None, ahead: int = 2
) -> Iterator[R]:
    """Yield ``function(item)`` for each item, in order, computed by ``n_jobs`` threads.

    At most ``ahead`` items a thread are under way or waiting, so memory stays bounded however many
    items there are. An exception stops the map where it happened in the order of the items.

    Parameters
    ----------
    function : callable
        Called in worker threads.
    items : iterable
        Read in the calling thread, no further than needed.
    n_jobs : int or None
        As in scikit-learn.
    ahead : int
        How many results a thread may be ahead of the reader.

    Yields
    ------
    object
        The results in the order of the items.

    Examples
    --------
    >>> list(ordered_map(lambda x: x * x, range(5), n_jobs=2))
    [0, 1, 4, 9, 16]
    """
    jobs = effective_jobs(n_jobs)
    if jobs == 1:
        for item in items:
            yield function(item)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(jobs, thread_name_prefix="bowsaw") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= jobs * ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
