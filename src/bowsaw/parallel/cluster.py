"""Maps on other machines, through Dask: the same results on any number of workers.

The rules of ``threads`` hold here too. Work is cut into blocks whose limits do not depend on who
does them, each block is computed with single-threaded BLAS, and results are handed back in the
order of the blocks. A function that is sent is one of bowsaw's, found under its name on the other
side; what is sent with it should be small: names of files, limits, words.

**What can go wrong, and what becomes of it.**

- A worker dies: Dask gives its blocks to others. A block whose workers died time after time is
  given up, after Dask's ``allowed-failures``.
- All workers are gone: the map waits ``PATIENCE`` seconds for one to come back, then stops.
- The scheduler is not there, or goes: the map stops, at the start within ``CONNECT`` seconds.
- A worker has another bowsaw, or other versions of what decides the bytes of a result: refused,
  also when it joins later.
- A worker does not see a folder: refused at the start.
- The map is closed, by Ctrl-C or an exception: blocks that wait are taken back.

All but the last are a ``ClusterError``. This is the one place that imports Dask, and only where a
cluster is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bowsaw._version import __version__
from bowsaw.errors import ClusterError, ParameterError
from bowsaw.parallel.dealing import AHEAD, deal
from bowsaw.parallel.worker import call, compare, dask_distributed, look, versions

CONNECT = 10.0
"""Seconds in which a scheduler has to answer."""

PATIENCE = 60.0
"""Seconds that a map waits for a worker when there is none."""

_HELD = 8
"""Blocks whose results may wait for their turn, for each thread."""

_TICK = 0.25
_GONE = "Start it again and run the same command; what was done is kept."


@contextmanager
def connected(parallel: Any) -> Iterator[Cluster | None]:
    """Give the cluster that ``parallel`` names, or None where it is None.

    Parameters
    ----------
    parallel : distributed.Client, str or None
        A client stays open; an address such as ``"tcp://10.0.0.1:8786"`` is connected to and left
        again.

    Examples
    --------
    >>> with connected(None) as cluster:
    ...     print(cluster)
    None
    >>> with connected("tcp://127.0.0.1:1:2"):
    ...     pass
    Traceback (most recent call last):
    ...
    bowsaw.errors.ClusterError: no scheduler answers at tcp://127.0.0.1:1:2 ...
    """
    if parallel is None:
        yield None
        return
    client_class = dask_distributed().Client
    if isinstance(parallel, client_class):
        if parallel.asynchronous:
            raise ParameterError(
                "parallel must be a client that waits for its results; got an asynchronous one. "
                "Make it with Client(address), without asynchronous=True."
            )
        yield Cluster(parallel)
        return
    if not isinstance(parallel, str):
        raise ParameterError(
            "parallel must be a distributed.Client, the address of a scheduler or None; got "
            f"{type(parallel).__name__}."
        )
    with _quiet_client():
        try:
            with warnings.catch_warnings():
                # Dask compares more versions than matter here; check() has those that do.
                warnings.filterwarnings("ignore", "Mismatched versions")
                client = client_class(parallel, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise ClusterError(
                f"no scheduler answers at {parallel} ({_first_line(error)}). Start one with «dask "
                "scheduler», or correct the address."
            ) from error
        try:
            yield Cluster(client)
        finally:
            with suppress(OSError, TimeoutError):
                client.close(timeout=CONNECT)


@contextmanager
def _quiet_client() -> Iterator[None]:
    """Keep the client from printing tracebacks of what is told in one line here."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


class Cluster:
    """The workers behind a client of Dask.

    Parameters
    ----------
    client : distributed.Client
        Connected; it is not closed here.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._versions = versions()
        self._slots: list[str] = []
        self._asked = self._seen = float("-inf")

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        scheduler = self._client.scheduler
        return str(scheduler.address) if scheduler is not None else "the cluster"

    def check(self, paths: Mapping[Path, int | None]) -> None:
        """Raise a ClusterError unless there are workers, like this process, that see ``paths``.

        ``paths`` are absolute, each with the size of the file or None where any will do.
        """
        self._wait_for_a_worker()
        wanted = {str(path): size for path, size in paths.items()}
        with self._clear_errors():
            # The scheduler unpacks what goes through it, so it needs bowsaw too.
            self._client.run_on_scheduler(versions)
            answers = self._client.run(look, wanted, on_error="return")
        for worker, told in answers.items():
            # A worker that went meanwhile cannot answer, and needs not.
            if isinstance(told, OSError):
                continue
            if isinstance(told, BaseException):
                # Also a bare Exception: Dask wraps what it cannot unpack.
                raise ClusterError(
                    f"the worker {worker} cannot do bowsaw's work ({_first_line(told)}). Install "
                    f"bowsaw {__version__} there, or stop it."
                )
            host, found, missing = told
            compare(f"{worker} on {host}", found, self._versions)
            if missing:
                raise ClusterError(
                    f"the worker {worker} on {host} does not see {missing[0]} as this process "
                    "does. Put it on a file system that all machines share under one path."
                )

    def ordered_map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        *shared: Any,
        homes: bool = False,
    ) -> Generator[Any, None, None]:
        """Yield ``function(item, *shared)`` for each item, in order, computed by the workers.

        Whoever may stop before the end has to close it (``contextlib.closing``), which takes back
        the blocks that wait.

        Parameters
        ----------
        function : callable
            Of a module that the workers have too.
        items : iterable
            Small, or what ``keep`` has returned. Read no further than needed.
        *shared
            The same for all; what ``shared`` has given for anything that is not small.
        homes : bool, default=False
            Give item i to the same worker as in every such map, unless another has nothing to do;
            otherwise to whoever has least to do.

        Yields
        ------
        object
            The results in the order of the items.
        """
        source = enumerate(items)
        later: dict[int, Any] = {}
        given: dict[int, tuple[Any, str]] = {}
        turn = 0
        try:
            while True:
                slots = self._workers()
                busy = [worker for future, worker in given.values() if not future.done()]
                # Who looks for blocks that are at home somewhere has to look further ahead.
                wanted = (1 + homes) * AHEAD * len(slots) - len(busy)
                room = min(wanted, _HELD * len(slots) - len(given)) - len(later)
                later.update(islice(source, max(room, 0)))
                for number, worker in deal(later, slots, busy, homes=homes):
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
        with self._clear_errors():
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
        """Let workers compute ``function(item)`` and hold the results as items of later maps.

        They are held where ``homes`` will look for them, and computed again where they get lost.
        """
        slots = self._workers() or [""]
        return [
            self.submit(function, item, worker=slots[number % len(slots)])
            for number, item in enumerate(items)
        ]

    @contextmanager
    def shared(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Let a worker call a function, whose result workers hand on among themselves meanwhile.

        It is computed again where it gets lost.
        """
        with warnings.catch_warnings():
            # Words go through the scheduler on purpose, so that it can compute this again.
            warnings.filterwarnings("ignore", "Sending large graph")
            future = self.submit(function, *arguments)
        try:
            yield future
        finally:
            future.release()

    def take(self, future: Any) -> Any:
        """Return what a future holds, waiting for it while there are workers, and let go of it."""
        # Not with a timeout of Dask's: that would break off what fetches for all futures at once.
        fetched = asyncio.run_coroutine_threadsafe(
            self._client.gather(future, asynchronous=True), self._client.loop.asyncio_loop
        )
        while not wait([fetched], timeout=8 * _TICK).done:
            self._workers()
        with self._clear_errors():
            value = fetched.result()
        # By itself a future lets go of its result when Python collects it.
        future.release()
        return value

    def cancel(self, futures: list[Any]) -> None:
        """Take back what is not done yet; a scheduler that has gone has nothing to take back."""
        if futures:
            with suppress(OSError, TimeoutError, RuntimeError, CancelledError):
                self._client.cancel(futures)

    def _wait(self, futures: list[Any]) -> None:
        """Wait a moment, or until one of some futures is done, of which there may be none left."""
        if not futures:
            return
        distributed = dask_distributed()
        with self._clear_errors(), suppress(distributed.TimeoutError), self._client.as_current():
            distributed.wait(futures, timeout=_TICK, return_when="FIRST_COMPLETED")

    def _workers(self) -> list[str]:
        """Return the address of each worker, once for each of its threads, asked now and then."""
        now = time.monotonic()
        if self._client.status in ("closing", "closed"):
            raise ClusterError(f"the client of {self.address} is closed. {_GONE}")
        if now - self._asked > 1:
            with self._clear_errors():
                threads = self._client.nthreads()
            self._slots = [a for a in sorted(threads) for _ in range(max(1, threads[a]))]
            self._asked = now
            if self._slots or self._seen == float("-inf"):
                self._seen = now
            elif now - self._seen > PATIENCE:
                raise ClusterError(
                    f"the scheduler {self.address} has had no worker for {PATIENCE:g} s. Start "
                    f"some with «dask worker {self.address}» and run the same command again; what "
                    "was done is kept."
                )
        return self._slots

    def _wait_for_a_worker(self) -> None:
        while not self._workers():
            time.sleep(_TICK)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn what Dask says into errors that say what to do."""
        distributed = dask_distributed()
        try:
            yield
        except distributed.scheduler.KilledWorker as error:
            raise ClusterError(
                f"a block of work was given up, because {error.allowed_failures + 1} workers died "
                "over it one after the other. Look into their logs (most often it is memory) and "
                "run the same command again; what was done is kept."
            ) from error
        except (CancelledError, distributed.comm.CommClosedError) as error:
            raise ClusterError(
                f"the scheduler {self.address} has gone ({_first_line(error)}). {_GONE}"
            ) from error
        except ImportError as error:
            raise ClusterError(_cannot_import(error)) from error
        except RuntimeError as error:
            if isinstance(error.__cause__, ImportError):
                raise ClusterError(_cannot_import(error.__cause__)) from error
            # Dask's client says so when the connection went before the call.
            if "closed" not in str(error) and "not running" not in str(error):
                raise
            raise ClusterError(
                f"the scheduler {self.address} has gone ({_first_line(error)}). {_GONE}"
            ) from error


def _cannot_import(error: ImportError) -> str:
    return (
        f"the scheduler or a worker cannot import what it needs ({_first_line(error)}). Install "
        f"bowsaw {__version__}, and your own descriptor if you have one, on all machines."
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
