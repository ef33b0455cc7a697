"""Stores, histograms, and the checkpoints of interrupted work."""

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, suppress
from dataclasses import replace
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
from tests.fuzz.subjects.codebooks import in_file, written

from bowsaw.checkpoint import Checkpoint
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import FormatError, MismatchError, StoreError
from bowsaw.images.folder import ImageFolder
from bowsaw.store import Store, extract
from bowsaw.store.catalog import Recipe
from bowsaw.store.histograms import Histograms, HistogramWriter, read_histograms

_filled: dict[Path, dict[str, bytes]] = {}


def fill(files: dict[str, bytes], folder: Path) -> Path:
    """Make a folder hold these files, and nothing else that was ever put there."""
    folder.mkdir(exist_ok=True)
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
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_images(folder: Path, n_each: int = 3, side: int = 24) -> Path:
    random = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (folder / name).mkdir(parents=True)
        for i in range(n_each):
            pixels = random.integers(0, 256, (side, side + 8), dtype=np.uint8)
            assert cv2.imwrite(str(folder / name / f"{i}.png"), pixels)
    (folder / "cats" / "none.png").write_bytes(b"no image")
    return folder


@cache
def _store_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        images = ImageFolder(write_images(Path(folder) / "pets"))
        found = []
        for shard_bytes in (1 << 20, 4000):
            path = Path(folder) / f"{shard_bytes}.store"
            extract(images, DenseSift(), path, shard_bytes=shard_bytes, n_jobs=1)
            found.append(pack(files_in(path)))
        return found


def _sign_catalog(connection: sqlite3.Connection) -> None:
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    with suppress(KeyError, ValueError, TypeError, OverflowError):
        texts = (meta["description"], meta["reading"])
        recipe = Recipe(*texts, float(meta["scale"]), meta["dtype"], int(meta["n_dims"]))
        update = "UPDATE meta SET value = ? WHERE name = 'fingerprint'"
        connection.execute(update, (recipe.fingerprint,))


def _read_store(data: bytes, folder: Path) -> tuple[Store, Any]:
    store = Store(fill(unpack(data), folder / "a.store"))
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
        query = "SELECT shard, start, count FROM images WHERE status = 'ok' ORDER BY row"
        rows = connection.execute(query).fetchall()
    assert len(rows) == store.n_usable
    for i, (shard, start, count) in enumerate(rows):
        values = np.load(folder / "a.store" / "shards" / f"{shard:05d}.npy")[start : start + count]
        assert np.array_equal(bags[i], values), f"image {i} has other descriptors"
        assert len(store.positions(i)) == count


def _leave_traces(data: bytes, rng: Random) -> bytes:
    files = unpack(data)
    files[rng.choice(("writer.lock", "catalog.sqlite-journal", "shards/00000.npy.partial"))] = b"x"
    return pack(files)


def _write_histograms(path: str, n_done: int = 3) -> None:
    writer = HistogramWriter(path, (3, 2), {"name": "f"})
    writer.rows[:n_done] = [[0.25, 0.75], [1, 0], [0, 1]][:n_done]
    writer.mark_done(n_done)
    if n_done == 3:
        paths = ["sky/1.png", "sea/1.png", "sea/2.png"]
        names = {"classes": ["sky", "sea"], "paths": paths, "words": [4, 7]}
        writer.finish(y=[0, 1, 1], metadata={"coding": "hard", "version": "1"}, **names)


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
        _write_histograms(f"{folder}/h.npz", n_done=2)
        return [pack(files_in(Path(folder)))]


def _read_partial(data: bytes, folder: Path) -> HistogramWriter:
    place = folder / "partial"
    shutil.rmtree(place, ignore_errors=True)
    _filled.pop(place, None)
    with HistogramWriter(fill(unpack(data), place) / "h.npz", (3, 2), {"name": "f"}) as writer:
        return writer


def _check_partial(data: bytes, writer: HistogramWriter, folder: Path) -> None:
    assert writer.rows.shape == (3, 2)
    assert writer.rows.dtype == np.float32
    assert 0 <= writer.n_done <= 3
    if writer.n_done:
        _, _, values = npy_parts(unpack(data)["h.npz.partial.npy"])
        assert writer.rows.tobytes() == values[:24], "the rows that were done are others"
    writer.rows[:] = 1


@cache
def _checkpoint_seeds() -> list[bytes]:
    record = {"step": 25, "scores": [0.1, 0.25], "state": {"a": "b"}}
    arrays = {"kept": np.array([1, 2, 5]), "words": np.ones((3, 2), np.float32)}
    ways = ((record, arrays), ({"done": 2}, {}))
    return [written("", lambda path, way=way: _checkpoint(path).save(*way)) for way in ways]


def _checkpoint(path: str | Path) -> Checkpoint:
    return Checkpoint(path, {"seed": 0, "codebook": "6f"})


def _read_checkpoint(data: bytes, folder: Path) -> Any:
    return _checkpoint(in_file(data, folder, "work.partial")).load()


def _check_checkpoint(data: bytes, found: Any, folder: Path) -> None:
    record, arrays = found
    assert sum(array.nbytes for array in arrays.values()) <= len(data), "more values than bytes"
    _checkpoint(folder / "again.partial").save(record, arrays)
    again = _checkpoint(folder / "again.partial").load()
    assert again[0] == record
    before, after = ({n: a.tobytes() for n, a in of.items()} for of in (arrays, again[1]))
    assert after == before


_ARRAYS, _TENSORS = mixed(change_npy), mixed(change_safetensors)
_ZIPPED, _SAVED = mixed(change_zip(_ARRAYS), share=0.8), mixed(change_safetensors, share=0.8)
_IN_STORE = {"catalog.sqlite": mixed(change_sqlite(_sign_catalog)), ".npy": _ARRAYS}
_IN_PARTIAL = {".npy": _ARRAYS, ".partial": _TENSORS}
_REFUSED = (FormatError, MismatchError)
_whole_seeds = cache(lambda: [written(".npz", _write_histograms)])
_store = Reader("store", _store_seeds, _read_store, in_files(_IN_STORE, _leave_traces))
_partial = Reader("histograms-partial", _partial_seeds, _read_partial, in_files(_IN_PARTIAL))
READERS = [
    replace(_store, refusals=(StoreError,), check=_check_store, spliced=False),
    Reader(
        "histograms", _whole_seeds, _read_histograms, _ZIPPED, (FormatError,), _check_histograms
    ),
    replace(_partial, refusals=_REFUSED, check=_check_partial, spliced=False),
    Reader("checkpoint", _checkpoint_seeds, _read_checkpoint, _SAVED, _REFUSED, _check_checkpoint),
]
