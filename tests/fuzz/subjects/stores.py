"""A store, histograms, and what an interrupted command leaves to go on with."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import cv2
import numpy as np
from tests.fuzz.engine import Reader
from tests.fuzz.mutations import mixed
from tests.fuzz.structures import (
    change_npy,
    change_safetensors,
    change_sqlite,
    change_zip,
    in_files,
    npy_parts,
    pack,
    unpack,
)
from tests.fuzz.subjects.vocabularies import in_file

from bowsaw.checkpoint import Checkpoint
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import FormatError, MismatchError, StoreError
from bowsaw.images.folder import ImageFolder
from bowsaw.store import Store, extract
from bowsaw.store.catalog import Recipe
from bowsaw.store.histograms import Histograms, HistogramWriter, read_histograms

# -- stores ----------------------------------------------------------------------------------------


def write_pictures(folder: Path, n_each: int = 3, side: int = 24) -> Path:
    """Write two classes of small pictures of noise, and one file that is none."""
    random = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (folder / name).mkdir(parents=True)
        for i in range(n_each):
            pixels = random.integers(0, 256, (side, side + 8), dtype=np.uint8)
            assert cv2.imwrite(str(folder / name / f"{i}.png"), pixels)
    (folder / "cats" / "none.png").write_bytes(b"no picture")
    return folder


@cache
def _store_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        images = ImageFolder(write_pictures(Path(folder) / "pets"))
        found = []
        for shard_bytes in (1 << 20, 4000):
            path = Path(folder) / f"{shard_bytes}.store"
            extract(images, DenseSift(), path, shard_bytes=shard_bytes, n_jobs=1)
            names = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix != ".lock")
            found.append(pack({p.relative_to(path).as_posix(): p.read_bytes() for p in names}))
        return found


_filled: dict[Path, dict[str, bytes]] = {}


def fill(files: dict[str, bytes], folder: Path) -> None:
    """Make a folder hold these files, and nothing else that was ever put there."""
    there = _filled.setdefault(folder, {})
    for name in there.keys() - files.keys():
        os.unlink(f"{folder}/{name}")  # noqa: PTH108 - half the time of Path
    for name, content in files.items():
        if there.get(name) != content:
            if name not in there:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with open(f"{folder}/{name}", "wb") as file:  # noqa: PTH123
                file.write(content)
    _filled[folder] = files


def sign_catalog(connection: sqlite3.Connection) -> None:
    """Give a catalogue the fingerprint that its parameters have."""
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        recipe = Recipe(
            meta["description"],
            meta["reading"],
            float(meta["scale"]),
            meta["dtype"],
            int(meta["n_dims"]),
        )
        update = "UPDATE meta SET value = ? WHERE name = 'fingerprint'"
        connection.execute(update, (recipe.fingerprint,))


def _read_store(data: bytes, folder: Path) -> tuple[Store, Any]:
    place = folder / "a.store"
    place.mkdir(exist_ok=True)
    fill(unpack(data), place)
    store = Store(place)
    store.summary()
    _ = store.digest, store.y, store.sizes, store.paths, store.set_aside
    bags = store.bags
    for i in range(store.n_usable):
        store.positions(i)
    return store, bags


def _check_store(data: bytes, found: tuple[Store, Any], folder: Path) -> None:
    store, bags = found
    assert len(bags) == store.n_usable == len(store.y) == len(store.paths)
    # NumPy's own reader of the same files, and SQL's own order.
    with closing(sqlite3.connect(folder / "a.store" / "catalog.sqlite")) as connection:
        rows = connection.execute(
            "SELECT shard, start, count FROM images WHERE status = 'ok' ORDER BY row"
        ).fetchall()
    assert len(rows) == store.n_usable
    for i, (shard, start, count) in enumerate(rows):
        values = np.load(folder / "a.store" / "shards" / f"{shard:05d}.npy")[start : start + count]
        assert np.array_equal(bags[i], values), f"image {i} has other descriptors"
        assert len(store.positions(i)) == count


# -- histograms ------------------------------------------------------------------------------------


@cache
def _histogram_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.npz"
        writer = HistogramWriter(path, (3, 2), {"name": "f"})
        writer.rows[:] = [[0.25, 0.75], [1, 0], [0, 1]]
        writer.mark_done(3)
        writer.finish(
            y=[0, 1, 1],
            classes=["sky", "sea"],
            paths=["sky/1.png", "sea/1.png", "sea/2.png"],
            words=[4, 7],
            metadata={"coding": "hard", "version": "1"},
        )
        return [path.read_bytes()]


def _read_histograms(data: bytes, folder: Path) -> Histograms:
    return read_histograms(in_file(data, folder, "h.npz"))


def _check_histograms(data: bytes, found: Histograms, folder: Path) -> None:
    with np.load(folder / "h.npz", allow_pickle=False) as arrays:
        for name in ("histograms", "y", "words"):
            assert np.array_equal(arrays[name], getattr(found, name), equal_nan=True), name
        assert tuple(arrays["paths"].tolist()) == found.paths
    assert max("".join((*found.paths, *found.classes)), default="") <= chr(sys.maxunicode)
    assert found.histograms.nbytes <= len(data)


def _partial_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.npz"
        writer = HistogramWriter(path, (3, 2), {"name": "f"})
        writer.rows[:2] = [[0.25, 0.75], [1, 0]]
        writer.mark_done(2)
        names = ("h.npz.partial.npy", "h.npz.partial")
        return [pack({name: (Path(folder) / name).read_bytes() for name in names})]


def _read_partial(data: bytes, folder: Path) -> HistogramWriter:
    place = folder / "partial"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    _filled.pop(place, None)
    fill(unpack(data), place)
    return HistogramWriter(place / "h.npz", (3, 2), {"name": "f"})


def _check_partial(data: bytes, writer: HistogramWriter, folder: Path) -> None:
    assert writer.rows.shape == (3, 2)
    assert writer.rows.dtype == np.float32
    assert 0 <= writer.n_done <= 3
    if writer.n_done:
        _, _, values = npy_parts(unpack(data)["h.npz.partial.npy"])
        assert writer.rows.tobytes() == values[:24], "the rows that were done are others"
    writer.rows[:] = 1


# -- checkpoints -----------------------------------------------------------------------------------


@cache
def _kmeans_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.partial"
        words = np.ones((3, 2), np.float32)
        Checkpoint(path, {"seed": 0}).save({"objectives": [2.0, 1.5]}, {"words": words})
        return [path.read_bytes()]


def _read_kmeans(data: bytes, folder: Path) -> Any:
    found = Checkpoint(in_file(data, folder, "k.partial"), {"seed": 0}).load()
    if found is not None:
        n_bytes = sum(array.nbytes for array in found[1].values())
        assert n_bytes <= 2 * len(data) + 64, "more values than bytes"
    return found


def _lose_a_lock(data: bytes, rng: Random) -> bytes:
    files = unpack(data)
    files[rng.choice(("writer.lock", "catalog.sqlite-journal", "shards/00000.npy.partial"))] = b"x"
    return pack(files)


READERS = [
    Reader(
        "store",
        _store_seeds,
        _read_store,
        in_files(
            {"catalog.sqlite": mixed(change_sqlite(sign_catalog)), ".npy": mixed(change_npy)},
            _lose_a_lock,
        ),
        (StoreError,),
        _check_store,
        spliced=False,
    ),
    Reader(
        "histograms",
        _histogram_seeds,
        _read_histograms,
        mixed(change_zip(mixed(change_npy)), share=0.8),
        (FormatError,),
        _check_histograms,
    ),
    Reader(
        "histograms-partial",
        _partial_seeds,
        _read_partial,
        in_files({".npy": mixed(change_npy), ".partial": mixed(change_safetensors)}),
        (FormatError, MismatchError),
        _check_partial,
        spliced=False,
    ),
    Reader(
        "checkpoint-kmeans",
        _kmeans_seeds,
        _read_kmeans,
        mixed(change_safetensors, share=0.8),
        (FormatError, MismatchError),
    ),
]
