"""One worker against two, and against threads without Dask: extraction, k-means, coding.

Two clusters of Dask on this machine, of one and of two worker processes with a thread each, and the
same work without Dask on one and on two threads, all in turn. Every side must give the same store,
the same words and the same histograms, to the bit.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import distributed
import numpy as np

import bowsaw as bs
from benchmarks import data
from benchmarks.timing import gain, in_turn
from bowsaw.clustering.rounds import PART_ROWS, parts_in_group

Result = dict[str, Any]
SIDES = ("1 worker", "2 workers", "1 thread", "2 threads")
ASKED = 1.7
"""Two workers must do so much more than one."""


def cluster(
    n_pictures: int = 1000,
    n_words: int = 1000,
    n_rounds: int = 3,
    repeats: int = 7,
    processes: bool = True,
) -> Result:
    """Seconds of each stage on each side, and bytes that travel in a round of k-means."""
    with tempfile.TemporaryDirectory() as room, ExitStack() as stack:
        folder, numbers = Path(room), count()
        data.write_folder(folder / "images", n_pictures)
        images = bs.ImageFolder(folder / "images")
        clients = {
            f"{n} worker{'s' * (n > 1)}": stack.enter_context(_client(n, processes)) for n in (1, 2)
        }
        options = {side: {"parallel": clients.get(side), "n_jobs": int(side[0])} for side in SIDES}
        stores: dict[str, bs.Store] = {}
        books: dict[str, bs.Codebook] = {}
        histograms: dict[str, Any] = {}

        def extract(side: str) -> None:
            path = folder / f"{next(numbers)}.store"
            stores[side] = bs.extract(images, bs.DenseSift(), path, **options[side])

        def train(side: str) -> None:
            learner = bs.KMeansCodebook(n_words, max_iter=n_rounds, tol=0, **options[side])
            books[side] = learner.fit(store.bags).codebook_

        def encode(side: str) -> None:
            coder = bs.BagOfWords(books[side], **options[side])
            histograms[side] = coder.transform(store.bags)

        times = {"extract": _in_turn(repeats, extract)}
        store = stores[SIDES[0]]
        times["train"] = _in_turn(repeats, train)
        times["encode"] = _in_turn(repeats, encode)
        first = SIDES[0]
        same = all(
            _content(stores[side]) == _content(stores[first])
            and books[side] == books[first]
            and np.array_equal(histograms[side], histograms[first])
            for side in SIDES
        )
        n, n_dims = store.bags.n_descriptors, store.bags.n_dims
        n_groups = -(-n // (PART_ROWS * parts_in_group(n)))
        return {
            "seconds": {
                work: {side: median(found[side]) for side in SIDES} for work, found in times.items()
            },
            "gains": {
                work: {
                    "workers": gain(found["1 worker"], found["2 workers"]),
                    "threads": gain(found["1 thread"], found["2 threads"]),
                }
                for work, found in times.items()
            },
            "repeats": repeats,
            "n_images": n_pictures,
            "n_descriptors": n,
            "n_words": n_words,
            "n_rounds": n_rounds,
            "round_bytes": n_groups * 8 * n_words * (n_dims + 1),
            "words_bytes": 4 * n_words * n_dims,
            "dask": distributed.__version__,
            "same": same,
        }


@contextmanager
def _client(n_workers: int, processes: bool) -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=processes,
            dashboard_address=":0",
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def _in_turn(repeats: int, work: Callable[[str], None]) -> dict[str, list[float]]:
    return in_turn(repeats, **{side: partial(work, side) for side in SIDES})


def _content(store: bs.Store) -> tuple[Any, ...]:
    """Return the bytes of a store's shards and the dump of its catalogue."""
    with closing(sqlite3.connect(store.path / "catalog.sqlite")) as connection:
        dump = tuple(connection.iterdump())
    shards = tuple(path.read_bytes() for path in sorted(store.path.rglob("*.npy")))
    return dump, shards


def cluster_table(result: Result) -> str:
    """Return the table: seconds on one worker and two, and without Dask."""
    rows = [
        f"{result['n_images']} pictures with {result['n_descriptors']:,} descriptors; "
        f"{result['n_words']} words, {result['n_rounds']} rounds. Workers are processes of one "
        f"thread on one machine, Dask {result['dask']}. Seconds are medians of "
        f"{result['repeats']}; a gain is the median of the ratios of runs next to each other, with "
        "the lowest and the highest.",
        "",
        "| work | 1 worker | 2 workers | **gain** | 1 thread, no Dask | 2 threads | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, times in result["seconds"].items():
        one, two, alone, both = (f"{times[side]:.2f}" for side in SIDES)
        workers, threads = (_told(result["gains"][name][kind]) for kind in ("workers", "threads"))
        rows.append(
            f"| {name} | {one} | {two} | **{workers[0]}** {workers[1]} | {alone} | {both} "
            f"| {threads[0]} {threads[1]} |"
        )
    rows += [
        "",
        f"Asked: two workers do at least {ASKED:g} times the work of one. In a round of k-means "
        f"{result['words_bytes'] / 1e6:.1f} MB of words go to each worker and "
        f"{result['round_bytes'] / 1e6:.1f} MB of sums come back, of "
        f"{128 * result['n_descriptors'] / 1e6:.0f} MB of descriptors.",
        "",
        "All sides gave the same store, words and histograms, to the bit."
        if result["same"]
        else "THE SIDES DISAGREE.",
        "",
    ]
    return "\n".join(rows)


def _told(found: tuple[float, float, float]) -> tuple[str, str]:
    middle, lowest, highest = found
    return f"{middle:.2f}", f"({lowest:.2f} to {highest:.2f})"


def cluster_section(result: Result) -> str:
    """Return the part of RESULTS.md."""
    return "\n".join(["## On a cluster", "", cluster_table(result)])


def cluster_block(results: dict[str, Any]) -> str:
    """Return what docs/cluster.md shows between its marks."""
    measured = results.get("measured", {})
    if "cluster" not in measured:
        return "Not measured yet: `make bench` fills this in.\n"
    facts = results["hardware"]
    machine = f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}."
    found = measured["cluster"]
    return f"{cluster_table(found)}\nMeasured on {machine}\n\n{_at_scale(found)}"


N_MANY, N_SAMPLE = 10**8, 10**7


def _at_scale(result: Result) -> str:
    """Return the arithmetic for many images, from the seconds of one worker."""
    seconds = {name: times[SIDES[0]] for name, times in result["seconds"].items()}
    n_images, n_words = result["n_images"], result["n_words"]
    each = result["n_descriptors"] / n_images
    rate = n_images / seconds["extract"]
    a_round = seconds["train"] / result["n_rounds"] / result["n_descriptors"]
    group = 8 * n_words * 129
    rows = [
        "### For 10⁸ images",
        "",
        f"The same pictures, {each:.0f} descriptors of 128 bytes each, on workers like this one; "
        "the arithmetic is straight, and nobody has run it here.",
        "",
        "| work | one core | 1000 cores | bytes |",
        "|---|---|---|---|",
        _line(
            f"extract, {rate:.0f} images a second and core",
            N_MANY / rate,
            f"{N_MANY * each * 140 / 1e12:.0f} TB of descriptors and positions, written twice",
        ),
        _line(
            f"a round of k-means, {n_words} words, every descriptor",
            a_round * N_MANY * each,
            f"{4096 * group / 1e9:.1f} GB of sums to the client",
        ),
        _line(
            f"a round on a sample of {N_SAMPLE:,} descriptors",
            a_round * N_SAMPLE,
            f"{-(-N_SAMPLE // 65536) * group / 1e9:.2f} GB of sums; {N_SAMPLE * 8 / 1e6:.0f} MB of "
            "row numbers, once",
        ),
        _line(
            f"encode, {n_words} words",
            N_MANY * seconds["encode"] / n_images,
            f"{N_MANY * n_words * 4 / 1e12:.1f} TB of histograms to the client",
        ),
        "",
        f"So sample: {N_SAMPLE // n_words:,} descriptors a word are plenty, and 25 rounds on them "
        f"take {_time(25 * a_round * N_SAMPLE)} on one core. Encode after pruning: 50 words are "
        f"{N_MANY * 200 / 1e9:.0f} GB.",
        "",
    ]
    return "\n".join(rows)


def _line(work: str, seconds: float, travels: str) -> str:
    return f"| {work} | {_time(seconds)} | {_time(seconds / 1000)} | {travels} |"


def _time(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s"
