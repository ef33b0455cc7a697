from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from bowsaw.errors import BusyError, StoreError
from bowsaw.store import lock
from bowsaw.store.lock import LOCK_NAME, only_writer

HOLD = """
import sys
from pathlib import Path
from bowsaw.store.lock import only_writer

with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_another_process_holds_until_that_process_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline().strip() == b"held"
        with (
            pytest.raises(BusyError, match="Wait for it to end") as caught,
            only_writer(tmp_path),
        ):
            pass
        assert caught.value.exit_code == 6
        holder.kill()
    with only_writer(tmp_path):
        assert (tmp_path / LOCK_NAME).stat().st_size == 0


def test_the_lock_is_free_after_an_exception(tmp_path):
    with pytest.raises(KeyboardInterrupt), only_writer(tmp_path):
        raise KeyboardInterrupt
    with only_writer(tmp_path), pytest.raises(BusyError), only_writer(tmp_path):
        pass


def test_a_file_system_without_locks_is_told_as_such(tmp_path, monkeypatch):
    def refuse(handle):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock", refuse)
    with (
        pytest.raises(StoreError, match="cannot be locked: No locks available"),
        only_writer(tmp_path),
    ):
        pass


def test_a_folder_that_may_not_be_written_is_told_as_such(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with (
        pytest.raises(StoreError, match="cannot be written: Permission denied"),
        only_writer(tmp_path),
    ):
        pass
