"""Maps on the threads of this process: the same results on any number of them.

The kernels release the GIL (numba with ``nogil``, OpenCV, BLAS), so threads share one address space
and nothing is copied. Work is cut into blocks whose limits do not depend on ``n_jobs``, each block
is computed with single-threaded BLAS, and results are returned in the order of the blocks.

**n_jobs.** The default is -1, one thread per core that this process may use (joblib counts them,
after CPU affinity and the quota of a container); scikit-learn's is None, because its jobs are
mostly processes that copy data. None and 1 use the calling thread alone; -2 leaves one core free.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain, islice
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from bowsaw.errors import ParameterError

T = TypeVar("T")
R = TypeVar("R")

_PREFIX = "bowsaw"
"""How the names of our threads begin."""


def available_cores() -> int:
    """Return the number of cores that this process may use, after affinity and quotas."""
    from joblib import cpu_count

    return int(cpu_count())


def effective_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for; see the module."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ParameterError(
            f"n_jobs must be an integer other than 0 (-1 for every core); got {n_jobs!r}."
        )
    jobs = int(n_jobs)
    return jobs if jobs > 0 else max(1, available_cores() + 1 + jobs)


@cache
def _blas() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds; NumPy's BLAS is loaded from the start.
    return ThreadpoolController().select(user_api="blas")


class ProcessSetting:
    """A setting of the whole process, made by the context that ``make`` returns.

    Its users are counted: the first makes it and the last restores it, in whatever order the blocks
    of several threads end.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._lock, self._n_users = make, threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._n_users == 0:
                self._made = self._make()
                self._made.__enter__()
            self._n_users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                self._made.__exit__(None, None, None)


_blas_limit = ProcessSetting(lambda: _blas().limit(limits=1))


def single_threaded_blas() -> ProcessSetting:
    """Limit BLAS to one thread inside the block: faster under our threads, and reproducible."""
    return _blas_limit


class Scratch(threading.local):
    """Memory that each thread reuses: page faults of fresh blocks take a fifth of soft coding."""

    def __init__(self) -> None:
        self._memory = np.empty(0, dtype=np.float32)

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Start empty in a copy or another process."""
        return Scratch, ()

    def take(self, n_rows: int, n_columns: int) -> NDArray[np.float32]:
        """Return an uninitialised float32 array, valid until the thread's next call."""
        size = n_rows * n_columns
        if self._memory.size < size:
            self._memory = np.empty(size, dtype=np.float32)
        return self._memory[:size].reshape(n_rows, n_columns)


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], n_jobs: int | None = None, ahead: int = 2
) -> Iterator[R]:
    """Yield ``function(item)`` for each item, in order, computed by ``n_jobs`` threads.

    Items are read in the calling thread. At most ``ahead`` items per thread run or wait, so memory
    stays bounded. An exception ends the map at its place in the order of the items.
    """
    jobs = effective_jobs(n_jobs)
    queue = iter(items)
    first = list(islice(queue, 2)) if jobs > 1 else []
    # Threads cost more than they save on a single block. A map inside a map runs in its own thread:
    # waiting for others of the same pool could deadlock.
    if len(first) < 2 or threading.current_thread().name.startswith(_PREFIX):
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
        # After an error no thread may still write to the caller's arrays.
        wait([future for future in waiting if not future.cancel()])


@cache
def _pool(jobs: int) -> ThreadPoolExecutor:
    """Return waiting threads: starting them for each map takes half a millisecond."""
    return ThreadPoolExecutor(jobs, thread_name_prefix=_PREFIX)


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork, and a pool without threads would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)
