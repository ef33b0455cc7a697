from __future__ import annotations

import errno
import os
import stat
import sys

import pytest

from bowsaw import checkpoint
from bowsaw.checkpoint import atomic_write, short_digest, sync_folder, translate_enospc
from bowsaw.errors import SpaceError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["new", "replaced"])
def target(tmp_path, request):
    path = tmp_path / "book.bin"
    if request.param == "replaced":
        path.write_bytes(b"old")
    return path


def content(path):
    return path.read_bytes() if path.exists() else None


def test_the_file_appears_only_when_it_is_whole(target):
    before = content(target)
    with atomic_write(target) as file:
        file.write(b"new, ")
        file.flush()
        assert content(target) == before
        file.write(b"whole")
    assert target.read_bytes() == b"new, whole"
    assert names(target.parent) == ["book.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_what_was_there(target, error):
    def write_half():
        with atomic_write(target) as file:
            file.write(b"half")
            raise error

    before = content(target)
    with pytest.raises(error):
        write_half()
    assert content(target) == before
    assert names(target.parent) == ([] if before is None else ["book.bin"])


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_as_such(target, monkeypatch, call, number):
    def full(*_):
        raise OSError(number, "no room")

    before = content(target)
    monkeypatch.setattr(checkpoint.os, call, full)
    if call == "replace":
        monkeypatch.setattr(checkpoint.Path, "replace", full)
    full_disk = pytest.raises(SpaceError, match=r"disk is full while writing .*book\.bin")
    with full_disk, atomic_write(target) as file:
        file.write(b"half")
    assert content(target) == before
    assert names(target.parent) == ([] if before is None else ["book.bin"])


def test_other_errors_of_the_system_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "a") as file:
        file.write(b"never")
    with pytest.raises(PermissionError), translate_enospc(tmp_path):
        raise PermissionError(errno.EACCES, "not yours")


def test_the_file_that_met_the_full_disk_is_named_once(tmp_path):
    with (
        pytest.raises(SpaceError, match="inner") as caught,
        translate_enospc(tmp_path / "outer"),
        translate_enospc(tmp_path / "inner"),
    ):
        raise OSError(errno.ENOSPC, "no room")
    assert caught.value.errno == errno.ENOSPC
    assert "outer" not in str(caught.value)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_follow_the_umask(tmp_path, mask):
    old = os.umask(mask)
    try:
        with atomic_write(tmp_path / "a") as file:
            file.write(b"x")
    finally:
        os.umask(old)
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask
    assert (tmp_path / "a").read_bytes() == b"x"


def test_two_writers_of_two_files_do_not_meet(tmp_path):
    with atomic_write(tmp_path / "a") as a, atomic_write(tmp_path / "b") as b:
        a.write(b"1")
        b.write(b"2")
    assert [(tmp_path / n).read_bytes() for n in "ab"] == [b"1", b"2"]


def test_a_folder_can_be_made_durable(tmp_path):
    assert sync_folder(tmp_path) is None
    if os.name == "posix":
        with pytest.raises(FileNotFoundError):
            sync_folder(tmp_path / "missing")


def test_a_short_digest_is_the_head_of_sha_256():
    assert f"{short_digest(b'abc'):016x}" == "ba7816bf8f01cfea"
    assert short_digest(memoryview(b"abc")) == short_digest(b"abc")
