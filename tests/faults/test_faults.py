"""Every command that writes × every fault: nothing is lost, and the same command goes on.

``make faults`` runs all trials, ``make test-all`` a seeded tenth of them.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from tests.faults.commands import COMMANDS, ELSEWHERE, READERS, Command
from tests.faults.matrix import Matrix, differences, files_in, lasting

from bowsaw.cli import main
from bowsaw.errors import BusyError, FormatError, StoreError

ALL = os.environ.get("BOWSAW_FAULTS") == "all"
N_KILLS = 10
"""Moments by the clock, and calls that write, at which each command is killed."""
T = TypeVar("T")


def share(matrix: Matrix, trials: Sequence[T]) -> list[T]:
    """Return all trials, or a tenth."""
    if ALL:
        return list(trials)
    return matrix.random.sample(list(trials), math.ceil(len(trials) / 10))


def moments(matrix: Matrix, n: int) -> Iterator[float]:
    for _ in range(n if ALL else math.ceil(n / 10)):
        yield matrix.random.uniform(0, matrix.whole["seconds"])


def calls(matrix: Matrix, most: int | None = None) -> list[int]:
    """Return the numbers of the calls that write: all, or some of them."""
    found = range(1, matrix.whole["calls"] + 1)
    some = found if most is None else matrix.random.sample(found, min(most, len(found)))
    return share(matrix, some)


def killed_at_any_moment(matrix: Matrix) -> None:
    for seconds in moments(matrix, N_KILLS):
        folder, found = matrix.disturbed({"clock": [(seconds, signal.SIGKILL)]})
        matrix.figures["SIGKILL"] += found["code"] != 0
        matrix.continued(folder, found)


def killed_while_writing(matrix: Matrix) -> None:
    for call in calls(matrix, N_KILLS):
        folder, found = matrix.disturbed({"call": call, "signals": [signal.SIGKILL]})
        matrix.figures["SIGKILL"] += 1
        assert found["code"] == -signal.SIGKILL
        matrix.continued(folder, found)


def killed_again_and_again(matrix: Matrix) -> None:
    folder = matrix.folder()
    for _ in range(N_KILLS if ALL else 2):
        seconds = matrix.random.uniform(0, 0.6 * matrix.whole["seconds"])
        _, found = matrix.disturbed({"clock": [(seconds, signal.SIGKILL)]}, folder)
        matrix.figures["SIGKILL"] += found["code"] != 0
    matrix.finish(folder)


def interrupted_once(matrix: Matrix) -> None:
    for seconds in moments(matrix, N_KILLS):
        folder, found = matrix.disturbed({"clock": [(seconds, signal.SIGINT)]})
        matrix.figures["SIGINT"] += 1
        assert found["code"] in (0, 130)
        matrix.continued(folder, found)


def interrupted_twice(matrix: Matrix) -> None:
    for seconds in moments(matrix, N_KILLS):
        again = seconds + matrix.random.uniform(0, 0.1 * matrix.whole["seconds"])
        clock = [(seconds, signal.SIGINT), (again, signal.SIGINT)]
        folder, found = matrix.disturbed({"clock": clock})
        matrix.figures["SIGINT"] += 2
        assert found["code"] in (0, 130)
        matrix.finish(folder)


def interrupted_while_writing(matrix: Matrix) -> None:
    for call in calls(matrix, N_KILLS):
        folder, found = matrix.disturbed({"call": call, "signals": [signal.SIGINT]})
        matrix.figures["SIGINT"] += 1
        assert found["code"] in (0, 130)
        matrix.continued(folder, found)


def _failing_from(matrix: Matrix, error: int, numbers: list[int], codes: set[int]) -> None:
    for call in numbers:
        folder, found = matrix.disturbed({"call": call, "error": error})
        matrix.figures["failed writes"] += 1
        # A failure to remove a file that has done its work is none.
        assert found["code"] in codes | {0}, (found["code"], found["err"])
        matrix.continued(folder, found)


def disk_full_at_every_write(matrix: Matrix) -> None:
    _failing_from(matrix, errno.ENOSPC, calls(matrix), {2, 9})


def read_only_from_any_write(matrix: Matrix) -> None:
    _failing_from(matrix, errno.EROFS, calls(matrix, 2 * N_KILLS), {2, 5})


def without_permission(matrix: Matrix) -> None:
    folder = matrix.folder()
    matrix.refused(folder, fault={"call": 1, "error": errno.EACCES})
    matrix.figures["failed writes"] += 1
    matrix.finish(folder)


def finished_and_disturbed(matrix: Matrix) -> None:
    """A finished output stays as it is while the same command runs again."""
    folder = matrix.folder()
    assert matrix.run(folder)["code"] == 0
    for seconds in moments(matrix, N_KILLS):
        number = matrix.random.choice([signal.SIGKILL, signal.SIGINT])
        matrix.disturbed({"clock": [(seconds, number)]}, folder)
        matrix.figures[number.name] += 1
        output = matrix.command.output
        if matrix.command.is_folder:
            before = {n: f for n, f in matrix.whole["files"].items() if n.startswith(output)}
            lost = [one for one in differences(files_in(folder), before) if "more" not in one]
            assert lost == []
        else:
            assert files_in(folder)[output] == matrix.whole["files"][output]
    matrix.finish(folder)


def second_writer(matrix: Matrix) -> None:
    for call in share(matrix, [matrix.whole["calls"] * i // 6 for i in (2, 3, 4, 5)]):
        folder = matrix.folder()
        first = matrix.run(folder, {"call": call, "signals": [signal.SIGSTOP]})
        assert first["code"] is None
        before = files_in(folder)
        second = matrix.run(folder)
        matrix.figures["trials"] += 1
        matrix.check_end(second)
        # A command that writes one file at its end needs no lock: the last file counts.
        assert second["code"] == BusyError.exit_code or not matrix.command.resumes
        if second["code"]:
            matrix.figures["refusals"] += 1
            assert differences(lasting(files_in(folder)), lasting(before)) == []
        ended = matrix.go_on(first["stopped"])
        assert ended["code"] == 0, ended
        assert differences(files_in(folder), matrix.whole["files"]) == []
        matrix.finish(folder)


def _interrupted(matrix: Matrix) -> Path:
    """Return a folder with most of the work."""
    call = matrix.whole["calls"] * 3 // 4
    folder, found = matrix.disturbed({"call": call, "signals": [signal.SIGKILL]})
    matrix.figures["SIGKILL"] += 1
    assert found["units"]
    return folder


def unreadable_checkpoint(matrix: Matrix) -> None:
    for damage in ("cut", "replaced"):
        folder, output = _interrupted(matrix), matrix.command.output
        kept = [p for p in folder.glob(f"{output}.partial*") if p.suffix != ".npy"]
        owned = ("catalog.sqlite", "run.json", "work/progress.partial")
        kept += [folder / output / name for name in owned]
        kept = [path for path in kept if path.is_file()]
        assert kept
        for path in kept:
            content = path.read_bytes()
            path.write_bytes(content[:-9] if damage == "cut" else b"mine")
        found = matrix.refused(folder)
        assert found["code"] in (FormatError.exit_code, StoreError.exit_code)
        assert any(path.name in found["err"] for path in kept)
        if damage == "replaced" or any(path.name == "run.json" for path in kept):
            matrix.refused(folder, "--overwrite")
            shutil.rmtree(folder)
        elif matrix.command.output == "out":
            # The records name the command, with its --overwrite.
            assert matrix.run(folder, None, "--overwrite")["code"] == 0
        else:
            matrix.finish(folder, "--overwrite")


def other_parameters(matrix: Matrix) -> None:
    other = matrix.command.other.split()
    folder = _interrupted(matrix) if matrix.command.resumes else matrix.folder()
    if matrix.command.resumes:
        matrix.refused(folder, *other)
    matrix.finish(folder)
    folder = matrix.folder()
    assert matrix.run(folder)["code"] == 0
    if matrix.command.is_folder:
        matrix.refused(folder, *other)
        matrix.finish(folder)
        return
    # One file is replaced by another one of its kind, whole.
    before = set(files_in(folder))
    assert matrix.run(folder, None, *other)["code"] == 0
    assert set(files_in(folder)) == before
    matrix.finish(folder)


def output_is_a_link(matrix: Matrix) -> None:
    output, expected = matrix.command.output, dict(matrix.whole["files"])
    for exists in (False, True):
        folder = matrix.folder()
        real = folder / "elsewhere" / Path(output).name
        real.parent.mkdir()
        if matrix.command.is_folder:
            real.mkdir()
        elif exists:
            assert matrix.run(folder)["code"] == 0
            (folder / output).rename(real)
        (folder / output).unlink(missing_ok=True)
        (folder / output).symlink_to(real)
        linked = {"elsewhere": "folder", output: ("link", str(real))}
        for name, content in expected.items():
            inside = name == output or name.startswith(f"{output}/")
            linked[f"elsewhere/{Path(output).name}{name[len(output) :]}" if inside else name] = (
                content
            )
        linked[output] = ("link", str(real))
        matrix.figures["trials"] += 1
        matrix.finish(folder, expected=linked)


def output_is_a_link_to_nowhere(matrix: Matrix) -> None:
    folder = matrix.folder()
    (folder / matrix.command.output).unlink(missing_ok=True)
    (folder / matrix.command.output).symlink_to(folder / "missing" / "deeper")
    matrix.refused(folder)


def output_is_write_protected(matrix: Matrix) -> None:
    folder = matrix.folder()
    assert matrix.run(folder)["code"] == 0
    (folder / matrix.command.output).chmod(0o444)
    matrix.refused(folder)
    assert stat.S_IMODE((folder / matrix.command.output).stat().st_mode) == 0o444
    (folder / matrix.command.output).chmod(0o644)
    matrix.finish(folder)


def output_is_another_kind_of_file(matrix: Matrix) -> None:
    output = matrix.command.output
    image = next(iter(sorted(matrix.given.images.rglob("*.png"))))
    other = matrix.given.book
    if matrix.words[0] in ("train", "prune", "convert"):
        other = matrix.given.model
    for source in (image, other, None):
        folder = matrix.folder()
        (folder / output).unlink(missing_ok=True)
        if source is not None:
            shutil.copy(source, folder / output)
        elif matrix.command.is_folder:
            (folder / output).mkdir()
            (folder / output / "diary.txt").write_text("mine")
        else:
            (folder / output).mkdir()
        matrix.refused(folder)


def output_is_a_pipe(matrix: Matrix) -> None:
    folder = matrix.folder()
    (folder / matrix.command.output).unlink(missing_ok=True)
    os.mkfifo(folder / matrix.command.output)
    found = matrix.run(folder)
    matrix.figures["trials"] += 1
    matrix.check_end(found)
    assert found["code"]
    assert stat.S_ISFIFO((folder / matrix.command.output).stat().st_mode)


def names_beside_the_output_are_taken(matrix: Matrix) -> None:
    output = matrix.command.output
    taken = [f"{output}/writer.lock"] if matrix.command.is_folder else [f"{output}.lock"]
    if not matrix.command.is_folder:
        taken.append(f"{output}.partial")
    for name in taken:
        folder = matrix.folder()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        matrix.refused(folder)


def always(command: Command) -> bool:
    return True


def counts(command: Command) -> bool:
    # The order of the calls of two workers is random, and the one that it meets may be a worker.
    return "-j 2" not in command.words


def resumes(command: Command) -> bool:
    return command.resumes and counts(command)


def is_file(command: Command) -> bool:
    return not command.is_folder


def has_other(command: Command) -> bool:
    return bool(command.other) and counts(command)


def locks(command: Command) -> bool:
    # A comparison of a folder extracts before it takes the lock of the run.
    takes = command.resumes or "--max-bytes" in command.words
    return takes and not command.words.startswith("compare IMAGES")


FAULTS: dict[Callable[[Matrix], None], Callable[[Command], bool]] = {
    killed_at_any_moment: always,
    killed_while_writing: counts,
    killed_again_and_again: always,
    interrupted_once: always,
    interrupted_twice: always,
    interrupted_while_writing: counts,
    disk_full_at_every_write: counts,
    read_only_from_any_write: counts,
    without_permission: always,
    finished_and_disturbed: always,
    second_writer: counts,
    unreadable_checkpoint: resumes,
    other_parameters: has_other,
    output_is_a_link: always,
    output_is_a_link_to_nowhere: always,
    output_is_write_protected: is_file,
    output_is_another_kind_of_file: always,
    output_is_a_pipe: always,
    names_beside_the_output_are_taken: locks,
}
"""The faults, and which commands they can meet."""


def test_the_table_has_every_command():
    named = {name.partition(":")[0] for name in COMMANDS}
    assert named | READERS | ELSEWHERE == set(main.COMMANDS)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        pytest.param(name, fault, id=f"{name}-{fault.__name__}")
        for name, command in COMMANDS.items()
        for fault, applies in FAULTS.items()
        if applies(command)
    ],
)
def test_nothing_is_lost(matrix, fault):
    fault(matrix)
