from __future__ import annotations

import errno
import os
import stat
import sys

import filelock
import numpy as np
import pytest

from bowsaw import checkpoint
from bowsaw.checkpoint import (
    Checkpoint,
    JsonLines,
    NpzReader,
    atomic_write,
    estimator_settings,
    exclusive,
    fingerprint,
    is_checkpoint,
    read_tensors,
    remove_checkpoint,
    short_digest,
    sync_folder,
    translate_enospc,
    write_tensors,
)
from bowsaw.errors import BusyError, FormatError, MismatchError, SpaceError, StoreError
from bowsaw.evaluation.classifier import HistogramClassifier


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- atomic files ----------------------------------------------------------------------------------


@pytest.fixture(params=["new", "replaced"])
def target(tmp_path, request):
    path = tmp_path / "book.bin"
    if request.param == "replaced":
        path.write_bytes(b"old")
    return path


def content(path):
    return path.read_bytes() if path.exists() else None


def test_a_file_appears_only_when_it_is_complete(target):
    before = content(target)
    with atomic_write(target) as file:
        file.write(b"new, ")
        file.flush()
        assert content(target) == before
        file.write(b"complete")
    assert target.read_bytes() == b"new, complete"
    assert names(target.parent) == ["book.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_file(target, error):
    def write_half():
        with atomic_write(target) as file:
            file.write(b"half")
            raise error

    before = content(target)
    with pytest.raises(error):
        write_half()
    assert content(target) == before
    assert names(target.parent) == ([] if before is None else ["book.bin"])


@pytest.mark.parametrize(("call", "number"), [("fsync", "ENOSPC"), ("replace", "EDQUOT")])
def test_a_full_disk_is_a_space_error(target, monkeypatch, call, number):
    def full(*_):
        raise OSError(getattr(errno, number), "no space")

    before = content(target)
    monkeypatch.setattr(checkpoint.os, call, full)
    if call == "replace":
        monkeypatch.setattr(checkpoint.Path, "replace", full)
    full_disk = pytest.raises(SpaceError, match=r"disk is full while writing .*book\.bin")
    with full_disk, atomic_write(target) as file:
        file.write(b"half")
    assert content(target) == before
    assert names(target.parent) == ([] if before is None else ["book.bin"])


def test_a_failed_sync_of_the_folder_does_not_undo_the_write(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(checkpoint, "sync_folder", fail)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


if sys.platform != "win32":

    @pytest.mark.parametrize("dangling", [False, True])
    def test_a_symbolic_link_is_followed(tmp_path, dangling):
        real, link = tmp_path / "elsewhere" / "real.bin", tmp_path / "link.bin"
        real.parent.mkdir()
        link.symlink_to(real)
        if not dangling:
            real.write_bytes(b"old")
        with atomic_write(link) as file:
            file.write(b"new")
        assert link.is_symlink()
        assert real.read_bytes() == b"new"
        assert names(real.parent) == ["real.bin"]

    def test_permissions_are_kept_and_new_files_follow_the_umask(tmp_path):
        private = tmp_path / "private"
        private.write_bytes(b"old")
        private.chmod(0o600)
        old = os.umask(0o027)
        try:
            for name in ("private", "new"):
                with atomic_write(tmp_path / name) as file:
                    file.write(b"x")
        finally:
            os.umask(old)
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "new")]
        assert modes == [0o600, 0o640]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    path = tmp_path / ("é" * 125 + ".bin")
    with atomic_write(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_other_errors_of_the_system_are_not_translated(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "a") as file:
        file.write(b"never")
    with pytest.raises(PermissionError), translate_enospc(tmp_path):
        raise PermissionError(errno.EACCES, "denied")
    assert sync_folder(tmp_path) is None


def test_the_innermost_file_is_named_when_the_disk_is_full(tmp_path):
    with (
        pytest.raises(SpaceError, match="inner") as caught,
        translate_enospc(tmp_path / "outer"),
        translate_enospc(tmp_path / "inner"),
    ):
        raise OSError(errno.ENOSPC, "no space")
    assert caught.value.errno == errno.ENOSPC
    assert "outer" not in str(caught.value)


# -- locks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["folder", "file.npz"])
def test_an_output_has_one_writer_at_a_time(tmp_path, name):
    output = tmp_path / name
    if name == "folder":
        output.mkdir()
    with exclusive(output, "store"):
        with (
            pytest.raises(BusyError, match="another process is writing the store"),
            exclusive(output, "store"),
        ):
            pass
        with exclusive(tmp_path / "other.npz"):
            pass
    with exclusive(output):
        pass


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            PermissionError(errno.EACCES, "permission denied"),
            "cannot be written: permission denied",
        ),
        (OSError(errno.ENOLCK, "no locks available"), r"cannot be locked: .*no locks available"),
        (OSError(errno.ENOSPC, "no space"), "disk is full"),
    ],
)
def test_a_lock_that_cannot_be_had_is_reported(tmp_path, monkeypatch, error, message):
    def refuse(self, *_, **__):
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with pytest.raises((StoreError, SpaceError), match=message):
        exclusive(tmp_path).__enter__()


# -- digests ---------------------------------------------------------------------------------------


def test_digests_and_fingerprints():
    assert f"{short_digest(b'abc'):016x}" == "ba7816bf8f01cfea"
    assert short_digest(memoryview(b"abc")) == short_digest(b"abc")
    assert fingerprint(a=1, b=[2]) == fingerprint(b=[2], a=1) != fingerprint(a=1, b=[3])


def test_settings_leave_out_what_does_not_change_the_result():
    settings = estimator_settings(HistogramClassifier(n_jobs=7))
    assert settings == estimator_settings(HistogramClassifier(n_jobs=1))
    assert settings != estimator_settings(HistogramClassifier(cv=7))


def test_tensors_are_checked_against_their_digest(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": np.arange(3), "b": np.ones((2, 2))}, {"note": "é"})
    before = path.read_bytes()
    tensors, metadata = read_tensors(path)
    assert (tensors["a"].tolist(), tensors["b"].shape, metadata) == (
        [0, 1, 2],
        (2, 2),
        {"note": "é"},
    )
    write_tensors(path, {"b": np.ones((2, 2)), "a": np.arange(3)}, {"note": "é"})
    assert path.read_bytes() == before
    path.write_bytes(before[:-1] + b"\x01")
    with pytest.raises(ValueError, match="does not match its checksum"):
        read_tensors(path)
    path.write_bytes(before[:-1])
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        read_tensors(path)


# -- checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "words.partial"
    Checkpoint(path, {"seed": 0, "data": "x" * 64}).save({"step": 3}, {"kept": np.arange(4)})
    return path


def test_the_same_fingerprint_continues(saved):
    record, arrays = Checkpoint(saved, {"data": "x" * 64, "seed": 0}).load()
    assert (record, arrays["kept"].tolist()) == ({"step": 3}, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1, "data": "x" * 64}, "its seed was 0 and is 1"),
        ({"seed": 0, "data": "y" * 64}, "its data was different"),
        ({"seed": 0, "data": "x" * 64, "more": 1}, "more was not among its settings"),
        ({"seed": 0}, "it has a data"),
    ],
)
def test_another_fingerprint_is_refused_and_the_file_kept(saved, other, message):
    before = saved.read_bytes()
    with pytest.raises(MismatchError, match=message):
        Checkpoint(saved, other).load()
    assert saved.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "turned", "empty", "text", "other", "folder"])
def test_an_unreadable_file_is_refused_and_kept(saved, damage):
    whole = saved.read_bytes()
    saved.unlink()
    if damage == "other":
        write_tensors(saved, {}, {"format": "bowsaw-codebook"})
    elif damage == "folder":
        saved.mkdir()
    else:
        turned = whole[:-1] + bytes([whole[-1] ^ 1])
        saved.write_bytes({"cut": whole[:-9], "turned": turned, "text": b"hello"}.get(damage, b""))
    before = content(saved) if damage != "folder" else None
    with pytest.raises(FormatError, match=r"cannot be continued: .* left as it is"):
        Checkpoint(saved, {"seed": 0, "data": "x" * 64}).load()
    assert saved.exists()
    assert damage == "folder" or content(saved) == before


def test_without_a_file_or_a_path_there_is_nothing_to_continue(tmp_path):
    assert Checkpoint(tmp_path / "none", {}).load() is None
    silent = Checkpoint(None, {})
    silent.save({"step": 1})
    assert silent.load() is None
    assert not silent.due
    with pytest.raises(StoreError, match="needs an existing folder"):
        Checkpoint(tmp_path / "missing" / "a", {})


def test_a_write_is_due_after_its_interval(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    point = Checkpoint(tmp_path / "a", {}, interval=5)
    assert not point.due
    now[0] += 5
    assert point.due
    point.save({})
    assert not point.due


def test_stages_have_files_and_fingerprints_of_their_own(saved):
    point = Checkpoint(saved, {"seed": 0})
    stage = point.stage("start", n_steps=4)
    stage.save({"step": 1})
    assert names(saved.parent) == ["words.partial", "words.partial.start"]
    assert point.stage("start", n_steps=4).load() == ({"step": 1}, {})
    with pytest.raises(MismatchError, match="n_steps was 4 and is 5"):
        point.stage("start", n_steps=5).load()


def test_removal_takes_the_checkpoint_and_its_stages_and_nothing_else(saved):
    Checkpoint(saved, {}).stage("start").save({})
    notes = saved.with_name("words.partial.notes")
    notes.write_text("mine")
    remove_checkpoint(saved)
    assert names(saved.parent) == ["words.partial.notes"]
    remove_checkpoint(saved)


@pytest.mark.parametrize("foreign", [b"mine", b"", b"\xff" * 100])
def test_removal_refuses_a_file_that_is_not_a_checkpoint(saved, foreign):
    saved.write_bytes(foreign)
    assert not is_checkpoint(saved)
    with pytest.raises(FormatError, match="not a checkpoint of bowsaw"):
        remove_checkpoint(saved)
    assert saved.read_bytes() == foreign


def test_a_checkpoint_that_was_cut_short_is_still_ours(saved):
    saved.write_bytes(saved.read_bytes()[:-5])
    assert is_checkpoint(saved)
    remove_checkpoint(saved)
    assert not saved.exists()


# -- JSON lines ------------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path):
    lines = JsonLines(tmp_path / "cells.jsonl")
    lines.append({"size": 20})
    lines.append({"size": 50, "name": "é\n"})
    return lines


def test_lines_are_read_in_order_with_their_numbers(lines):
    assert list(lines.read()) == [(1, {"size": 20}), (2, {"size": 50, "name": "é\n"})]
    assert list(JsonLines(lines.path.with_name("none")).read()) == []


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_last_line_that_was_cut_short_is_ignored_and_dropped(lines, cut):
    whole = lines.path.read_bytes()
    lines.path.write_bytes(whole + b'{"size": 5}'[:cut])
    assert [number for number, _ in lines.read()] == [1, 2]
    lines.repair()
    assert lines.path.read_bytes() == whole
    lines.append({"size": 1})
    assert [value["size"] for _, value in lines.read()] == [20, 50, 1]


def test_a_damaged_line_and_a_file_of_another_kind_are_reported(lines, tmp_path):
    lines.path.write_bytes(b'{"size": 20}\n{"size": NaN}\n')
    with pytest.raises(FormatError, match=r"line 2, is not JSON \(NaN is not a finite number\)"):
        list(lines.read())
    with pytest.raises(FormatError, match="is not a file"):
        list(JsonLines(tmp_path).read())
    with pytest.raises(ValueError, match="JSON compliant"):
        lines.append({"size": float("nan")})


def test_lines_are_rewritten_at_once(lines):
    lines.rewrite([{"size": 1}])
    assert lines.path.read_bytes() == b'{"size": 1}\n'
    assert names(lines.path.parent) == ["cells.jsonl"]


# -- npz -------------------------------------------------------------------------------------------


def test_an_archive_is_read_without_unpickling_or_unpacking(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3), b=np.array(["x"]))
    with NpzReader(path) as arrays:
        assert arrays.names == ["a", "b"]
        assert arrays["b"].tolist() == ["x"]
        with pytest.raises(KeyError):
            arrays["c"]
    np.savez_compressed(path, a=np.zeros(10**6))
    with pytest.raises(ValueError, match="compressed or larger"):
        NpzReader(path)
    np.savez(path, a=np.array([{}], dtype=object))
    with NpzReader(path) as arrays, pytest.raises(ValueError):
        arrays["a"]
    with pytest.raises(FileNotFoundError):
        NpzReader(tmp_path)
