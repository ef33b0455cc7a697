"""Names inside archives, stores and runs that point elsewhere lead nowhere."""

from __future__ import annotations

import io
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.cli.main import main
from bowsaw.errors import FormatError, StoreError


def member(name: str, array: object) -> bytes:
    buffer, archive_bytes = io.BytesIO(), io.BytesIO()
    np.save(buffer, array)
    with zipfile.ZipFile(archive_bytes, "w") as archive:
        archive.writestr(name, buffer.getvalue())
        archive.writestr("schema.json" if name.endswith(".json") else "b.npy", buffer.getvalue())
    return archive_bytes.getvalue()


@pytest.mark.parametrize("name", ["../x.npy", "/x.npy", "a/../../x.npy", "..\\x.npy", "C:\\x.npy"])
def test_members_with_paths_are_refused_and_nothing_is_written(tmp_path, name):
    folder = tmp_path / "inner"
    folder.mkdir()
    for end in (".npz", ".skops"):
        (folder / f"b{end}").write_bytes(member(name, np.eye(3)))
        with pytest.raises(FormatError):
            bs.load(folder / f"b{end}")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["b.npz", "b.skops", "inner"]


@pytest.fixture
def store(scenes, tmp_path):
    """Return a store of a few pictures, and the folder of these."""
    images = tmp_path / "images"
    for name in ("brick", "grass"):
        (images / name).mkdir(parents=True)
        for i in range(4):
            shutil.copy(scenes / name / f"{i:03}.png", images / name)
    path = tmp_path / "a.store"
    bs.extract(bs.ImageFolder(images), bs.DenseSift(), path, n_jobs=1, shard_bytes=3000)
    return images, path


def change(path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection, connection:
        connection.execute(sql, values)


if sys.platform != "win32":  # where links are for everybody

    def test_links_in_a_store_are_replaced_and_what_they_point_to_stays(store, tmp_path):
        images, path = store
        whole = [file.read_bytes() for file in sorted(path.rglob("*.npy"))]
        treasure = tmp_path / "treasure.npy"
        treasure.write_bytes(b"something dear")
        for name in ("shards/00000.npy", "positions/00001.npy"):
            (path / name).unlink()
            (path / name).symlink_to(treasure)
        (path / "shards" / "00000.npy.partial").symlink_to(treasure)
        with pytest.raises(StoreError, match="damaged"):
            bs.Store(path)
        bs.extract(bs.ImageFolder(images), bs.DenseSift(), path, n_jobs=1)
        assert treasure.read_bytes() == b"something dear"
        assert [file.read_bytes() for file in sorted(path.rglob("*.npy"))] == whole
        assert not any(file.is_symlink() for file in path.rglob("*"))

    def test_a_run_whose_records_are_links_or_folders_is_told(tmp_path, capfd):
        run = tmp_path / "run"
        (run / "cells.jsonl").mkdir(parents=True)
        (run / "run.json").symlink_to(tmp_path / "nowhere")
        assert main(["report", str(run)]) == FormatError.exit_code
        assert "has no run.json" in capfd.readouterr().err
