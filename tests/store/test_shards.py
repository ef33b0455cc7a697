import errno
import os
from pathlib import Path

import numpy as np
import pytest

from bowsaw.errors import SpaceError, StoreError
from bowsaw.store import shards
from bowsaw.store.shards import ShardWriter, discard, open_positions, open_values

UINT8, FLOAT32 = np.dtype(np.uint8), np.dtype(np.float32)


def write(folder: Path, number: int, n_rows: int, dtype: np.dtype = UINT8) -> np.ndarray:
    values = np.arange(n_rows * 5).reshape(n_rows, 5).astype(dtype)
    with ShardWriter(folder, number, 5, dtype) as writer:
        for row in values:
            writer.append(row[None], np.full((1, 3), row[0], np.float32))
        assert writer.n_rows == n_rows
    return values


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def failing(number: int):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(("n_rows", "dtype"), [(0, UINT8), (1, FLOAT32), (1000, UINT8)])
def test_numpy_reads_what_was_written(tmp_path, n_rows, dtype):
    values = write(tmp_path, 3, n_rows, dtype)
    assert names(tmp_path) == ["positions/00003.npy", "shards/00003.npy"]
    for mode in (None, "r"):
        read = np.load(tmp_path / "shards/00003.npy", mmap_mode=mode, allow_pickle=False)
        assert (read.dtype, read.shape) == (dtype, (n_rows, 5))
        np.testing.assert_array_equal(read, values)
    np.testing.assert_array_equal(open_values(tmp_path, 3, n_rows, 5, dtype), values)
    places = np.load(tmp_path / "positions/00003.npy", mmap_mode="r", allow_pickle=False)
    assert places.dtype == np.float32
    np.testing.assert_array_equal(open_positions(tmp_path, 3, n_rows), places)
    np.testing.assert_array_equal(places, np.repeat(values[:, :1], 3, axis=1))


def test_an_exception_or_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    writer = ShardWriter(tmp_path, 0, 5, UINT8)
    writer.append(np.zeros((2, 5), np.uint8), np.zeros((2, 3), np.float32))
    assert names(tmp_path) == ["positions/00000.npy.partial", "shards/00000.npy.partial"]
    with pytest.raises(KeyboardInterrupt), writer:
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    monkeypatch.setattr(shards.os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(SpaceError, match=r"disk is full while writing .*00000\.npy"):
        write(tmp_path, 0, 2)
    assert names(tmp_path) == []


def test_discard_removes_partial_and_later_shards_and_nothing_else(tmp_path):
    for number in range(3):
        write(tmp_path, number, 1)
    (tmp_path / "shards/00000.npy.partial").write_bytes(b"half")
    others = ["00002.npy.bak", "2.npy", "notes.npy", "x00002.npy"]
    for name in others:
        (tmp_path / "shards" / name).write_bytes(b"mine")
    discard(tmp_path, 2)
    assert names(tmp_path / "positions") == ["00000.npy", "00001.npy"]
    assert names(tmp_path / "shards") == ["00000.npy", "00001.npy", *others]


def forge(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "142 bytes of 143"),
        (lambda path: path.write_bytes(path.read_bytes() + b"."), "144 bytes of 143"),
        (lambda path: path.write_bytes(b"PK\3\4".ljust(143)), "header"),
        (lambda path: path.write_bytes(b"".ljust(143)), "header"),
        (lambda path: forge(path, b"(3, 5), }", b"(5, 3), }"), "header"),
        (lambda path: forge(path, b"|u1", b"|i1"), "header"),
        (lambda path: forge(path, b"|u1", b"|O1"), "header"),
        (lambda path: forge(path, b"False", b"True "), "header"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage, reason):
    write(tmp_path, 0, 3)
    damage(tmp_path / "shards/00000.npy")
    with pytest.raises(StoreError, match=f"00000.npy is damaged: .*{reason}.*again"):
        open_values(tmp_path, 0, 3, 5, UINT8)


def test_too_many_open_files_and_shards_in_use_elsewhere_have_a_remedy(tmp_path, monkeypatch):
    write(tmp_path, 0, 3)
    monkeypatch.setattr(np, "memmap", failing(errno.EMFILE))
    with pytest.raises(StoreError, match="ulimit"):
        open_values(tmp_path, 0, 3, 5, UINT8)
    monkeypatch.setattr(Path, "unlink", failing(errno.EACCES))
    with pytest.raises(StoreError, match="Close the programs that read the store"):
        discard(tmp_path, 0)
