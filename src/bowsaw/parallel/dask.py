"""Maps on a Dask cluster: the same results on any number of workers.

The rules of ``threads`` hold here too. Only functions of bowsaw are sent, by name; their arguments
are small: file names, limits, words.

Each thread of a worker has one block running and one waiting (``AHEAD``). Blocks that come again in
every round have a *home*: the worker that had them before and may still hold their data. A worker
gets its home blocks first and then those of slower workers.

A worker that dies loses nothing: Dask gives its blocks to others, up to its ``allowed-failures``
per block. A ``ClusterError`` is raised when there is no worker for ``PATIENCE`` seconds, when the
scheduler does not answer within ``CONNECT`` seconds or goes away, and when a worker has other
versions of what decides the bytes of a result (also when it joins later) or does not see a folder.
A map that is closed, by Ctrl-C or an exception, cancels its waiting blocks.

This is the only module that imports Dask, and only when a cluster is asked for.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import platform
import re
import socket
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator

from bowsaw._version import __version__
from bowsaw.errors import ClusterError, ParameterError
from bowsaw.parallel.threads import single_threaded_blas

CONNECT = 10.0
"""Seconds within which a scheduler has to answer."""
PATIENCE = 60.0
"""Seconds that a map waits for a worker when there is none."""
AHEAD = 2
"""Blocks per thread of a worker that run or wait there."""
LEAST_BLOCK, MOST_BLOCK, N_BLOCKS = 32, 1024, 4096
_HELD = 8
"""Blocks per thread whose results may wait for their turn."""
_TICK = 0.25
_AGAIN = "Start it and run the same command again; finished work is kept."


def block_size(n_items: int) -> int:
    """Return the number of images or bags per block: few, but not too many blocks to schedule."""
    return min(max(n_items // N_BLOCKS, LEAST_BLOCK), MOST_BLOCK)


def assign_blocks(
    numbers: Iterable[int], slots: Sequence[str], busy: Iterable[str], *, homes: bool = False
) -> list[tuple[int, str]]:
    """Return which blocks go to which workers now.

    ``slots`` names each worker once per thread, ``busy`` the worker of each block that runs or
    waits. With ``homes`` the home of block i is the worker of slot ``i % len(slots)``.
    """
    left, assigned = list(numbers), []
    loads, threads = Counter(busy), Counter(slots)
    for _ in range(min(len(left), AHEAD * len(slots) - loads.total())):
        worker = min(threads, key=lambda worker: loads[worker] / threads[worker])
        at_home = (n for n in left if homes and slots[n % len(slots)] == worker)
        number = next(at_home, left[0])
        left.remove(number)
        loads[worker] += 1
        assigned.append((number, worker))
    return assigned


def dask_distributed() -> Any:
    """Return the package ``distributed``, or raise a ParameterError that says how to install it."""
    try:
        import distributed
    except ImportError as error:
        raise ParameterError(
            f'a cluster needs Dask, which is not installed ({error}). Install it with "pip install '
            "'bowsaw[dask]'\"."
        ) from error
    return distributed


@cache
def versions() -> dict[str, str]:
    """Return the versions of everything that decides the bytes of a result."""
    import cv2
    import numba
    import numpy

    return {
        "bowsaw": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": numpy.__version__,
        "numba": numba.__version__,
        "OpenCV": cv2.__version__,
        "Dask": dask_distributed().__version__,
    }


def inspect_worker(paths: Mapping[str, int | None]) -> tuple[str, dict[str, str], list[str]]:
    """Return this worker's host, its versions, and the paths that it does not see."""
    missing = []
    for path, size in paths.items():
        found = -1
        with suppress(OSError):
            found = Path(path).stat().st_size
        if found < 0 or size not in (None, found):
            missing.append(path)
    return socket.gethostname(), versions(), missing


def compare_versions(where: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise a ClusterError unless a worker has the wanted versions."""
    for name, version in wanted.items():
        if found.get(name) != version:
            raise ClusterError(
                f"the worker {where} has {name} {found.get(name)}, this process has {version}: "
                "results could differ. Install the same version on all machines."
            )


def call(function: Callable[..., Any], wanted: Mapping[str, str], *arguments: Any) -> Any:
    """Call a function as threads would; a worker that joined late checks its own versions."""
    compare_versions(socket.gethostname(), versions(), wanted)
    with single_threaded_blas():
        return function(*arguments)


class OnCluster(BaseEstimator):
    """Base of estimators with a parameter ``parallel``: a clone keeps the same client.

    scikit-learn copies parameters when it clones, and a client is a connection, which cannot be
    copied nor sent to another process; the address of its scheduler can.
    """

    parallel: Any

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters."""
        alone = copy.copy(self)
        alone.parallel = None
        twin: Self = super(OnCluster, alone).__sklearn_clone__()
        twin.parallel = self.parallel
        return twin


@contextmanager
def connected(parallel: Any) -> Iterator[Cluster | None]:
    """Yield the cluster that ``parallel`` names; an address is connected to during the block."""
    if parallel is None:
        yield None
        return
    if isinstance(parallel, dask_distributed().Client) and not parallel.asynchronous:
        yield Cluster(parallel)
        return
    if not isinstance(parallel, str):
        raise ParameterError(
            "parallel must be a synchronous distributed.Client, the address of a scheduler or "
            f"None; got {type(parallel).__name__}."
        )
    # The client logs tracebacks of errors that are reported in one line here.
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        client = _client(parallel)
        try:
            yield Cluster(client)
        finally:
            with suppress(OSError, TimeoutError):
                client.close(timeout=CONNECT)
    finally:
        logger.setLevel(level)


def _client(address: str) -> Any:
    distributed = dask_distributed()
    try:
        # A client with an unknown scheme fails an assertion later, in its own clean-up.
        distributed.comm.resolve_address(address)
        with warnings.catch_warnings():
            # Dask compares more versions than matter here; check() has those that do.
            warnings.filterwarnings("ignore", "Mismatched versions")
            return distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(
            f'no scheduler answers at {address} ({_first_line(error)}). Start one with "dask '
            'scheduler", or correct the address.'
        ) from error


class Cluster:
    """The workers behind a connected ``distributed.Client``, which is not closed here."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._versions = versions()
        self._slots: list[str] = []
        self._asked = self._seen = float("-inf")

    @property
    def address(self) -> str:
        """The address of the scheduler."""
        scheduler = self._client.scheduler
        return str(scheduler.address) if scheduler is not None else "the cluster"

    def check(self, paths: Mapping[Path, int | None]) -> None:
        """Raise a ClusterError unless there are workers with our versions that see ``paths``."""
        while not self._workers():
            time.sleep(_TICK)
        wanted = {str(path): size for path, size in paths.items()}
        with self._translate_errors():
            # The scheduler unpacks what passes through it, so it needs bowsaw too.
            self._client.run_on_scheduler(versions)
            answers = self._client.run(inspect_worker, wanted, on_error="return")
        for worker, answer in answers.items():
            # A worker that left meanwhile cannot answer, and need not.
            if isinstance(answer, OSError):
                continue
            if isinstance(answer, BaseException):
                # Also a bare Exception: Dask wraps what it cannot unpack.
                raise ClusterError(
                    f"the worker {worker} cannot run bowsaw ({_first_line(answer)}). Install "
                    f"bowsaw {__version__} there, or stop it."
                )
            host, found, missing = answer
            compare_versions(f"{worker} on {host}", found, self._versions)
            if missing:
                raise ClusterError(
                    f"the worker {worker} on {host} does not see {missing[0]} as this process "
                    "does. Put it on a file system that all machines share under one path."
                )

    def ordered_map(
        self, function: Callable[..., Any], items: Iterable[Any], *shared: Any, homes: bool = False
    ) -> Generator[Any, None, None]:
        """Yield ``function(item, *shared)`` for each item, in order, computed by the workers.

        Close it if it may stop early, to cancel the waiting blocks. Items are small, or what
        ``keep`` returned. With ``homes`` item i prefers the worker that has it in every such map.
        """
        source = enumerate(items)
        later: dict[int, Any] = {}
        given: dict[int, tuple[Any, str]] = {}
        turn = 0
        try:
            while True:
                slots = self._workers()
                busy = [worker for future, worker in given.values() if not future.done()]
                # Home blocks are looked for further ahead.
                wanted = (1 + homes) * AHEAD * len(slots) - len(busy)
                free = min(wanted, _HELD * len(slots) - len(given)) - len(later)
                later.update(islice(source, max(free, 0)))
                for number, worker in assign_blocks(later, slots, busy, homes=homes):
                    future = self.submit(function, later.pop(number), *shared, worker=worker)
                    given[number] = future, worker
                if turn in given and given[turn][0].done():
                    value = self.take(given[turn][0])
                    del given[turn]
                    turn += 1
                    yield value
                elif given:
                    self._wait([future for future, _ in given.values() if not future.done()])
                elif slots and not later:
                    return
                else:
                    time.sleep(_TICK)
        finally:
            self.cancel([future for future, _ in given.values()])

    def submit(
        self, function: Callable[..., Any], *arguments: Any, worker: str = "", priority: int = 0
    ) -> Any:
        """Let a worker call ``function(*arguments)``; return a future of Dask."""
        with self._translate_errors():
            return self._client.submit(
                call,
                function,
                self._versions,
                *arguments,
                key=f"bowsaw-{getattr(function, '__name__', 'call')}-{uuid.uuid4().hex}",
                workers=[worker] if worker else None,
                allow_other_workers=bool(worker),
                priority=priority,
                pure=False,
            )

    def keep(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        """Let workers hold ``function(item)`` for later maps, where ``homes`` looks for it."""
        slots = self._workers() or [""]
        return [
            self.submit(function, item, worker=slots[number % len(slots)])
            for number, item in enumerate(items)
        ]

    @contextmanager
    def shared(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Let a worker call a function whose result all workers share; recomputed if lost."""
        with warnings.catch_warnings():
            # Words pass through the scheduler on purpose, so that it can compute this again.
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self.submit(function, *arguments)
        try:
            yield future
        finally:
            future.release()

    def take(self, future: Any) -> Any:
        """Return the result of a future, waiting while there are workers, and release it."""
        # Not with a timeout of Dask's: that would cancel what fetches for all futures at once.
        fetched = asyncio.run_coroutine_threadsafe(
            self._client.gather(future, asynchronous=True), self._client.loop.asyncio_loop
        )
        while not wait([fetched], timeout=8 * _TICK).done:
            self._workers()
        with self._translate_errors():
            value = fetched.result()
        # Otherwise it is released only when Python collects the future.
        future.release()
        return value

    def cancel(self, futures: list[Any]) -> None:
        """Cancel what is not done yet; a scheduler that is gone has nothing to cancel."""
        if futures:
            with suppress(OSError, TimeoutError, RuntimeError, CancelledError):
                self._client.cancel(futures)

    def _wait(self, futures: list[Any]) -> None:
        if not futures:
            return
        distributed = dask_distributed()
        ignored = suppress(distributed.TimeoutError)
        with self._translate_errors(), ignored, self._client.as_current():
            distributed.wait(futures, timeout=_TICK, return_when="FIRST_COMPLETED")

    def _workers(self) -> list[str]:
        """Return the address of each worker, once per thread, asked for once per second."""
        now = time.monotonic()
        if self._client.status in ("closing", "closed"):
            raise ClusterError(f"the client of {self.address} is closed. {_AGAIN}")
        if now - self._asked > 1:
            with self._translate_errors():
                threads = self._client.nthreads()
            self._slots = [a for a in sorted(threads) for _ in range(max(1, threads[a]))]
            self._asked = now
            if self._slots or self._seen == float("-inf"):
                self._seen = now
            elif now - self._seen > PATIENCE:
                raise ClusterError(
                    f"the scheduler {self.address} has had no worker for {PATIENCE:g} s. Start "
                    f'some with "dask worker {self.address}" and run the same command again; '
                    "finished work is kept."
                )
        return self._slots

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of Dask into a ClusterError with a remedy."""
        distributed = dask_distributed()
        lost = (CancelledError, distributed.comm.CommClosedError)
        try:
            yield
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"a block of work was given up after {error.allowed_failures + 1} workers died "
                "over it. Read their logs (most often it is memory) and run the same command "
                "again; finished work is kept."
            ) from error
        except (*lost, ImportError, RuntimeError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
            if isinstance(cause, ImportError):
                raise ClusterError(
                    f"the scheduler or a worker cannot import what it needs ({_first_line(cause)})."
                    f" Install bowsaw {__version__}, and your own descriptor if you have one, on "
                    "all machines."
                ) from error
            # Dask's client raises a RuntimeError when the connection was lost before the call.
            if not isinstance(error, lost) and not re.search("closed|not running", str(error)):
                raise
            raise ClusterError(
                f"the scheduler {self.address} is gone ({_first_line(error)}). {_AGAIN}"
            ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
