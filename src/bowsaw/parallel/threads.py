"""Maps on the threads of this process: the same results on any number of them.

The kernels release Python's lock (numba with ``nogil``, OpenCV, BLAS), so threads share one address
space and nothing is copied to workers. The rule that makes results the same on any number of
threads: work is cut into blocks whose limits do not depend on ``n_jobs``, each block is computed
with single-threaded BLAS, and results are handed back in block order.
"""

from __future__ import annotations

import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from bowsaw.errors import ParameterError

T = TypeVar("T")
R = TypeVar("R")

_WORKER = "bowsaw"
"""How the names of our threads begin."""


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
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ParameterError(
            f"n_jobs must be a whole number other than 0 (-1 for every core); got {n_jobs!r}."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


@cache
def _blas() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds; NumPy's BLAS is there from the start.
    return ThreadpoolController().select(user_api="blas")


_blas_lock = threading.Lock()
_blas_users = 0
_blas_limit: AbstractContextManager[Any] | None = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread inside the block: for speed under our threads, and for equality.

    The setting belongs to the whole process, so users are counted: the first sets it and the last
    restores what was there, in whatever order the blocks of several threads end.
    """
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = _blas().limit(limits=1)
            _blas_limit.__enter__()
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0 and _blas_limit is not None:
                _blas_limit.__exit__(None, None, None)
                _blas_limit = None


class Scratch(threading.local):
    """Memory that each thread uses over and over.

    A fresh megabyte for every block costs its page faults: a fifth of the time of soft coding.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.take(2, 3).shape, scratch.take(1, 2).shape
    ((2, 3), (1, 2))
    """

    def __init__(self) -> None:
        self._room = np.empty(0, dtype=np.float32)

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Start empty in a copy or another process."""
        return Scratch, ()

    def take(self, n_rows: int, n_columns: int) -> NDArray[np.float32]:
        """Return an array of float32 with any content, good until the thread's next call."""
        size = n_rows * n_columns
        if self._room.size < size:
            self._room = np.empty(size, dtype=np.float32)
        return self._room[:size].reshape(n_rows, n_columns)


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
    queue = iter(items)
    first = list(islice(queue, 2)) if jobs > 1 else []
    # Threads cost more than they save on a single block, such as one picture on a robot. And a map
    # inside a map is done in the thread it is in: waiting for others of the same pool could last.
    if len(first) < 2 or threading.current_thread().name.startswith(_WORKER):
        for item in chain(first, queue):
            yield function(item)
        return
    waiting: deque[Future[R]] = deque()
    pool = _pool(jobs)
    try:
        for item in chain(first, queue):
            waiting.append(pool.submit(function, item))
            if len(waiting) >= jobs * ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Whoever goes on after an error must not find threads still writing to its arrays.
        wait([future for future in waiting if not future.cancel()])


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool(jobs: int) -> ThreadPoolExecutor:
    """Return threads that wait for work: starting some for each map takes half a millisecond."""
    if jobs not in _pools:
        _pools[jobs] = ThreadPoolExecutor(jobs, thread_name_prefix=_WORKER)
    return _pools[jobs]


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork, and a pool without them would wait for ever.
    os.register_at_fork(after_in_child=_pools.clear)
