import errno
import os
import stat
import sys

import filelock
import numpy as np
import pytest

from bowsaw import checkpoint
from bowsaw.checkpoint import Checkpoint, JsonLines, NpzReader, atomic_write, exclusive
from bowsaw.errors import BusyError, FormatError, MismatchError, SpaceError, StoreError
from bowsaw.evaluation.classifier import HistogramClassifier


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def raising(error):
    def call(*_, **__):
        raise error

    return call


def content(path):
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (None, KeyboardInterrupt()),
        ("os.fsync", OSError(errno.ENOSPC, "no space")),
        ("Path.replace", OSError(errno.EDQUOT, "no space")),
    ],
)
def test_a_file_appears_complete_or_not_at_all(tmp_path, monkeypatch, before, call, error):
    target = tmp_path / "book.bin"
    if before:
        target.write_bytes(before)

    def write(call, error=None):
        with atomic_write(target) as file:
            file.write(b"new, ")
            file.flush()
            assert content(target) == before
            if call:
                monkeypatch.setattr(f"bowsaw.checkpoint.{call}", raising(error))
            elif error:
                raise error
            file.write(b"complete")

    message = r"disk is full while writing .*book\.bin" if call else None
    with pytest.raises(SpaceError if call else KeyboardInterrupt, match=message):
        write(call, error)
    assert content(target) == before
    assert names(tmp_path) == (["book.bin"] if before else [])
    monkeypatch.undo()
    write(None)
    assert target.read_bytes() == b"new, complete"
    assert names(tmp_path) == ["book.bin"]


def test_long_names_and_a_failed_sync_of_the_folder_do_not_undo_the_write(tmp_path, monkeypatch):
    assert checkpoint.sync_folder(tmp_path) is None
    monkeypatch.setattr(checkpoint, "sync_folder", raising(OSError(errno.EIO, "no")))
    path = tmp_path / ("é" * 125 + ".bin")
    with atomic_write(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


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
        (tmp_path / "private").touch(0o600)
        old = os.umask(0o027)
        try:
            for name in ("private", "new"):
                with atomic_write(tmp_path / name) as file:
                    file.write(b"x")
        finally:
            os.umask(old)
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "new")]
        assert modes == [0o600, 0o640]


def test_refused_writes_are_translated_and_the_innermost_file_named(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "missing" / "a") as file:
        file.write(b"never")
    for number in (errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.EIO):
        refused = pytest.raises(StoreError, match="Choose another place")
        with refused, checkpoint.translate_write_errors(tmp_path):
            raise OSError(number, "denied")
    with pytest.raises(BrokenPipeError), checkpoint.translate_write_errors(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "closed")
    full, translated = pytest.raises(SpaceError, match="inner"), checkpoint.translate_write_errors
    with full as caught, translated(tmp_path / "outer"), translated(tmp_path / "inner"):
        raise OSError(errno.ENOSPC, "no space")
    assert caught.value.errno == errno.ENOSPC
    assert "outer" not in str(caught.value)


def test_an_output_has_one_writer_at_a_time(tmp_path):
    (tmp_path / "folder").mkdir()
    for output in (tmp_path / "folder", tmp_path / "file.npz"):
        busy = pytest.raises(BusyError, match="another process is writing the store")
        with exclusive(output, "store"), exclusive(tmp_path / "other.npz"), busy:
            exclusive(output, "store").__enter__()
        with exclusive(output):
            pass


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "denied"), "cannot be written: denied"),
        (OSError(errno.ENOLCK, "no locks available"), r"cannot be locked: .*no locks available"),
        (OSError(errno.ENOSPC, "no space"), "disk is full"),
    ],
)
def test_a_lock_that_cannot_be_had_is_reported(tmp_path, monkeypatch, error, message):
    monkeypatch.setattr(filelock.FileLock, "acquire", raising(error))
    with pytest.raises((StoreError, SpaceError), match=message):
        exclusive(tmp_path).__enter__()


def test_digests_fingerprints_and_settings():
    assert f"{checkpoint.short_digest(b'abc'):016x}" == "ba7816bf8f01cfea"
    assert checkpoint.short_digest(memoryview(b"abc")) == checkpoint.short_digest(b"abc")
    digest = checkpoint.fingerprint
    assert digest(a=1, b=[2]) == digest(b=[2], a=1) != digest(a=1, b=[3])
    # What does not change the result is left out.
    settings = checkpoint.estimator_settings(HistogramClassifier(n_jobs=7))
    assert settings == checkpoint.estimator_settings(HistogramClassifier(n_jobs=1))
    assert settings != checkpoint.estimator_settings(HistogramClassifier(cv=7))


def test_tensors_are_checked_against_their_digest(tmp_path):
    path = tmp_path / "a.safetensors"
    checkpoint.write_tensors(path, {"a": np.arange(3), "b": np.ones((2, 2))}, {"note": "é"})
    before = path.read_bytes()
    tensors, metadata = checkpoint.read_tensors(path)
    assert (tensors["a"].tolist(), tensors["b"].shape) == ([0, 1, 2], (2, 2))
    assert metadata == {"note": "é"}
    checkpoint.write_tensors(path, {"b": np.ones((2, 2)), "a": np.arange(3)}, {"note": "é"})
    assert path.read_bytes() == before
    for end, message in ((b"\x01", "does not match its checksum"), (b"", "not a complete")):
        path.write_bytes(before[:-1] + end)
        with pytest.raises(ValueError, match=message):
            checkpoint.read_tensors(path)


SETTINGS = {"seed": 0, "data": "x" * 64}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "words.partial"
    Checkpoint(path, SETTINGS).save({"step": 3}, {"kept": np.arange(4)})
    return path


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (SETTINGS | {"seed": 1}, "its seed was 0 and is 1"),
        (SETTINGS | {"data": "y" * 64}, "its data was different"),
        (SETTINGS | {"more": 1}, "more was not among its settings"),
        ({"seed": 0}, "it has a data"),
    ],
)
def test_the_same_fingerprint_continues_and_another_is_refused(saved, other, message):
    before = saved.read_bytes()
    record, arrays = Checkpoint(saved, dict(reversed(SETTINGS.items()))).load()
    assert (record, arrays["kept"].tolist()) == ({"step": 3}, [0, 1, 2, 3])
    with pytest.raises(MismatchError, match=message):
        Checkpoint(saved, other).load()
    assert saved.read_bytes() == before


def test_an_unreadable_file_is_refused_and_kept(saved):
    whole = saved.read_bytes()
    checkpoint.write_tensors(saved, {}, {"format": "bowsaw-codebook"})
    for damaged in (saved.read_bytes(), whole[:-9], whole[:-1] + b"\xff", b"hello", b""):
        saved.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"cannot be continued: .* left as it is"):
            Checkpoint(saved, SETTINGS).load()
        assert saved.read_bytes() == damaged
    with pytest.raises(FormatError, match=r"cannot be continued: .* left as it is"):
        Checkpoint(saved.parent, SETTINGS).load()


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


def test_stages_have_files_and_fingerprints_of_their_own_and_are_removed(saved):
    point = Checkpoint(saved, {"seed": 0})
    point.stage("start", n_steps=4).save({"step": 1})
    assert names(saved.parent) == ["words.partial", "words.partial.start"]
    assert point.stage("start", n_steps=4).load() == ({"step": 1}, {})
    with pytest.raises(MismatchError, match="n_steps was 4 and is 5"):
        point.stage("start", n_steps=5).load()
    saved.with_name("words.partial.notes").write_text("mine")
    for _ in range(2):
        checkpoint.remove_checkpoint(saved)
        assert names(saved.parent) == ["words.partial.notes"]


def test_removal_refuses_a_file_that_is_not_a_checkpoint(saved):
    cut = saved.read_bytes()[:-5]
    for foreign in (b"mine", b"", b"\xff" * 100):
        saved.write_bytes(foreign)
        assert not checkpoint.is_checkpoint(saved)
        with pytest.raises(FormatError, match="not a checkpoint of bowsaw"):
            checkpoint.remove_checkpoint(saved)
        assert saved.read_bytes() == foreign
    # One that was cut short is still ours.
    saved.write_bytes(cut)
    assert checkpoint.is_checkpoint(saved)
    checkpoint.remove_checkpoint(saved)
    assert not saved.exists()


def test_lines_are_read_in_order_and_a_last_line_that_was_cut_short_is_dropped(tmp_path):
    lines = JsonLines(tmp_path / "cells.jsonl")
    assert list(lines.read()) == []
    for value in ({"size": 20}, {"size": 50, "name": "é\n"}):
        lines.append(value)
    whole = lines.path.read_bytes()
    for cut in range(8):
        lines.path.write_bytes(whole + b'{"size": 5}'[:cut])
        assert list(lines.read()) == [(1, {"size": 20}), (2, {"size": 50, "name": "é\n"})]
        lines.repair()
        assert lines.path.read_bytes() == whole
    lines.append({"size": 1})
    assert [value["size"] for _, value in lines.read()] == [20, 50, 1]
    lines.rewrite([{"size": 1}])
    assert lines.path.read_bytes() == b'{"size": 1}\n'
    assert names(tmp_path) == ["cells.jsonl"]
    lines.path.write_bytes(b'{"size": 20}\n{"size": NaN}\n')
    with pytest.raises(FormatError, match=r"line 2, is not JSON \(NaN is not a finite number\)"):
        list(lines.read())
    with pytest.raises(FormatError, match="is not a file"):
        list(JsonLines(tmp_path).read())
    with pytest.raises(ValueError, match="JSON compliant"):
        lines.append({"size": float("nan")})


def test_an_archive_is_read_without_unpickling_or_unpacking(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([{}], dtype=object), b=np.array(["x"]))
    with NpzReader(path) as arrays:
        assert arrays.names == ["a", "b"]
        assert arrays["b"].tolist() == ["x"]
        with pytest.raises(KeyError):
            arrays["c"]
        with pytest.raises(ValueError):
            arrays["a"]
    np.savez_compressed(path, a=np.zeros(10**6))
    with pytest.raises(ValueError, match="compressed or larger"):
        NpzReader(path)
    with pytest.raises(FileNotFoundError):
        NpzReader(tmp_path)
