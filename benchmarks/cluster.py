"""One worker against two, and against processes without Dask: extraction, k-means, coding.

Two clusters of Dask on this machine, of one and of two worker processes with a thread each. Beside
them what two cores allow at best: a process alone with all of the work, and two with half of it
each that know nothing of each other. All in turn; the workers of the cluster that is not asked
sleep meanwhile. The clusters and the threads of this process must give the same store, the same
words and the same histograms, to the bit.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context
from multiprocessing.pool import ThreadPool
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
SIDES = ("1 worker", "2 workers", "1 process", "2 processes")
THREADS = "2 threads"
"""The work of this process without Dask, which the clusters are held to; not timed."""

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
        pool = stack.enter_context(get_context("spawn").Pool(2) if processes else ThreadPool(2))
        clients = {
            side: stack.enter_context(_client(int(side[0]), processes)) for side in SIDES[:2]
        }
        pids = {side: set(client.run(os.getpid).values()) for side, client in clients.items()}
        stores: dict[str, bs.Store] = {}
        books: dict[str, bs.Codebook] = {}
        histograms: dict[str, Any] = {}

        def options(side: str) -> dict[str, Any]:
            return {"parallel": clients.get(side), "n_jobs": int(side[0])}

        def extract(side: str) -> None:
            path = folder / f"{next(numbers)}.store"
            stores[side] = bs.extract(images, bs.DenseSift(), path, **options(side))

        def train(side: str) -> None:
            how = {"max_iter": n_rounds, "tol": 0, "random_state": 0, **options(side)}
            learner = bs.KMeansCodebook(n_words, **how)
            books[side] = learner.fit(stores[side].bags).codebook_

        def encode(side: str) -> None:
            histograms[side] = bs.BagOfWords(books[side], **options(side)).transform(
                stores[side].bags
            )

        def race(work: Callable[[str], None], alone: Callable[..., None]) -> dict[str, list[float]]:
            def on(side: str) -> Callable[[], None]:
                shares = _shares(n_pictures, int(side[0]))
                job = partial(work, side) if side in clients else partial(pool.map, alone, shares)
                others = set[int]().union(*(pids[name] for name in clients if name != side))
                return partial(_while_asleep, others - {os.getpid()}, job)

            return in_turn(repeats, **{side: on(side) for side in SIDES})

        extract(THREADS)
        path = stores[THREADS].path
        _write_parts(images, folder / "parts")
        times = {"extract": race(extract, partial(_extract_alone, folder / "parts"))}
        train(THREADS)
        times["train"] = race(train, partial(_train_alone, path, n_words, n_rounds))
        encode(THREADS)
        times["encode"] = race(encode, partial(_encode_alone, path, books[THREADS]))
        store = stores[THREADS]
        same = all(
            _content(stores[side]) == _content(store)
            and books[side] == books[THREADS]
            and np.array_equal(histograms[side], histograms[THREADS])
            for side in SIDES[:2]
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
                    "processes": gain(found["1 process"], found["2 processes"]),
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


def _shares(n_images: int, n_processes: int) -> list[tuple[int, int]]:
    limits = [n_images * i // n_processes for i in range(n_processes + 1)]
    return list(pairwise(limits))


def _while_asleep(pids: set[int], job: Callable[[], Any]) -> None:
    """Do something while other processes do nothing at all: an idle worker takes 5 % of a core."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        job()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _write_parts(images: bs.ImageFolder, folder: Path) -> None:
    """Make a folder of links for each share that a process may have."""
    for n_processes in (1, 2):
        for start, stop in _shares(len(images), n_processes):
            for path in images.relative_paths[start:stop]:
                link = folder / f"{start}-{stop}" / path
                link.parent.mkdir(parents=True, exist_ok=True)
                link.hardlink_to(images.root / path)


def _extract_alone(folder: Path, share: tuple[int, int]) -> None:
    images = bs.ImageFolder(folder / f"{share[0]}-{share[1]}")
    with tempfile.TemporaryDirectory(dir=folder) as room:
        bs.extract(images, bs.DenseSift(), Path(room) / "s", n_jobs=1)


def _train_alone(path: Path, n_words: int, n_rounds: int, share: tuple[int, int]) -> None:
    bags = bs.Store(path).bags[share[0] : share[1]]
    bs.KMeansCodebook(n_words, max_iter=n_rounds, tol=0, n_jobs=1, random_state=0).fit(bags)


def _encode_alone(path: Path, book: bs.Codebook, share: tuple[int, int]) -> None:
    bs.BagOfWords(book, n_jobs=1).transform(bs.Store(path).bags[share[0] : share[1]])


def _content(store: bs.Store) -> tuple[Any, ...]:
    """Return the bytes of a store's shards and the dump of its catalogue."""
    with closing(sqlite3.connect(store.path / "catalog.sqlite")) as connection:
        dump = tuple(connection.iterdump())
    shards = tuple(path.read_bytes() for path in sorted(store.path.rglob("*.npy")))
    return dump, shards


def cluster_table(result: Result) -> str:
    """Return the table: seconds on one worker and two, and without Dask."""
    rows = [
        f"{result['n_images']} images with {result['n_descriptors']:,} descriptors; "
        f"{result['n_words']} words, {result['n_rounds']} rounds. Workers are processes of one "
        f"thread on one machine, Dask {result['dask']}. Seconds are medians of "
        f"{result['repeats']}; a gain is the median of the ratios of runs next to each other, with "
        "the lowest and the highest.",
        "",
        "| work | 1 worker | 2 workers | **gain** | 1 process, no Dask | 2, half each | gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, times in result["seconds"].items():
        one, two, alone, both = (f"{times[side]:.2f}" for side in SIDES)
        gains = result["gains"][name]
        (gained, spread), allowed = (
            _written(gains["workers"]),
            " ".join(_written(gains["processes"])),
        )
        rows.append(
            f"| {name} | {one} | {two} | **{gained}** {spread} | {alone} | {both} | {allowed} |"
        )
    rows += [
        "",
        f"Asked: two workers do at least {ASKED:g} times the work of one. What two processes gain "
        "that share nothing, each with half of the images, is what the two cores allow. In a "
        "round of k-means "
        f"{result['words_bytes'] / 1e6:.1f} MB of words go to each worker and "
        f"{result['round_bytes'] / 1e6:.1f} MB of sums come back, of "
        f"{128 * result['n_descriptors'] / 1e6:.0f} MB of descriptors.",
        "",
        "Both clusters gave the store, words and histograms of this process, to the bit."
        if result["same"]
        else "THE SIDES DISAGREE.",
        "",
    ]
    return "\n".join(rows)


def _written(found: tuple[float, float, float]) -> tuple[str, str]:
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
        f"The same images, {each:.0f} descriptors of 128 bytes each, on workers like this one; "
        "extrapolated linearly, not measured.",
        "",
        "| work | one core | 1000 cores | bytes |",
        "|---|---|---|---|",
        _line(
            f"extract, {rate:.0f} images per second and core",
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
        f"So sample: {N_SAMPLE // n_words:,} descriptors per word are enough, and 25 rounds on "
        f"them take {_time(25 * a_round * N_SAMPLE)} on one core. Encode after pruning: 50 words "
        f"are {N_MANY * 200 / 1e9:.0f} GB.",
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
