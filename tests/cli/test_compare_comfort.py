"""What a person meets who compares: a wrong folder, a stop, a full disk, a terminal."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys

import pytest
from tests.cli.terminal import COLOUR, bowsaw_at_a_terminal, no_file_larger_than

from bowsaw.cli.comparing import Watcher
from bowsaw.cli.main import main
from bowsaw.errors import DataError, FormatError, ParameterError, SpaceError

SMALL = "--words 12 --sizes 4,6 --methods random --splits 2 --train-codebook 10 --train 10"
"""Six cells that take no time."""
ALONE = ("--workers", "1")
"""For runs that are not the point: starting processes takes longer than these cells."""


@pytest.fixture
def place(made, tmp_path):
    """A folder of things that are not what they should be, beside good ones."""
    for name in ("empty", "occupied", "broken"):
        (tmp_path / name).mkdir()
    for name in ("a-file", "occupied/notes.txt"):
        (tmp_path / name).write_text("something")
    (tmp_path / "broken" / "run.json").write_text("{}")
    shutil.copytree(made.images / "gravel", tmp_path / "one" / "gravel")
    shutil.copytree(made.images, tmp_path / "scenes")
    shutil.copytree(made.store, tmp_path / "scenes.store")
    return tmp_path


CASES = [
    ("compare a-file -o run", DataError, "a-file is a file"),
    ("compare empty -o run", DataError, "no class folders"),
    ("compare one -o run", DataError, "one has 1 class, and a comparison needs at least 2"),
    ("compare scenes -o a-file", ParameterError, "the output a-file is a file"),
    ("compare scenes -o scenes/run", ParameterError, "would lie among the images of scenes"),
    ("compare scenes -o occupied", ParameterError, "holds notes.txt and no run"),
    ("compare scenes.store -o run --words 9 --sizes 9", ParameterError, "below that of every full"),
    ("compare scenes.store -o run --coding firm", ParameterError, "codings are hard and soft"),
    ("compare scenes.store -o run --methods magic", ParameterError, "magic"),
    ("compare scenes.store -o run --train 140", DataError, "class 'brick' has 144 images"),
    ("report missing", FormatError, "missing is not a run"),
    ("report empty", FormatError, "empty is not a run"),
    ("report broken", FormatError, "not the record of a run"),
    ("report broken -o x.txt", ParameterError, "ends in .html"),
]


@pytest.mark.parametrize(("words", "kind", "told"), CASES, ids=[case[0] for case in CASES])
def test_bad_input_is_told_in_one_line(bowsaw, place, words, kind, told):
    found = bowsaw(*words.split(), "-q")
    assert (found.code, found.out) == (kind.exit_code, "")
    assert len(found.err.splitlines()) == 1
    assert told in found.err
    assert not (place / "run" / "cells.jsonl").exists()


@pytest.mark.parametrize("name", ["missing", "sc\udcffnes"])
def test_a_folder_that_is_not_there_is_named(bowsaw, name):
    found = bowsaw("compare", name, "-o", "run")
    assert found.code in (ParameterError.exit_code, DataError.exit_code)
    assert len(found.err.splitlines()) == 1
    assert not found.out


# -- stopped, and out of room ----------------------------------------------------------------------


def measured(run) -> list[object]:
    """Return the cells of a run without what may differ: how long they took."""
    cells = [json.loads(line) for line in (run / "cells.jsonl").read_text("utf-8").splitlines()]
    return [{name: value for name, value in cell.items() if name != "costs"} for cell in cells]


@pytest.fixture
def compare(bowsaw, made):
    def run(output: str, *more: str):
        return bowsaw("compare", made.store, *SMALL.split(), "-o", output, "-q", *more)

    return run


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """A run that nobody disturbed."""
    run = tmp_path_factory.mktemp("defer_signals") / "whole"
    words = ["compare", str(made.store), *SMALL.split(), "-o", str(run), "-q", *ALONE]
    assert main(words) == 0
    assert len(measured(run)) == 6
    return run


@pytest.mark.parametrize(
    ("number", "code", "again"), [(signal.SIGINT, 130, ()), (signal.SIGTERM, 143, ALONE)]
)
def test_a_stopped_comparison_goes_on(compare, whole, tmp_path, monkeypatch, number, code, again):
    n_calls = 0
    show = Watcher.__call__

    def stop_at_the_third(self, step):
        nonlocal n_calls
        n_calls += 1
        show(self, step)
        if n_calls == 3:
            signal.raise_signal(number)

    monkeypatch.setattr(Watcher, "__call__", stop_at_the_third)
    torn = compare("torn")
    assert (torn.code, torn.out) == (code, "")
    assert "Finished cells are kept; run the same command again to go on." in torn.err
    assert len(measured(tmp_path / "torn")) == 3
    assert not (tmp_path / "torn" / "index.html").exists()
    assert compare("torn", *again).code == 0
    # Cells that were there were not measured again.
    assert n_calls == 6
    assert measured(tmp_path / "torn") == measured(whole)
    assert (tmp_path / "torn" / "index.html").exists()


if sys.platform != "win32":

    @pytest.mark.parametrize(("name", "again"), [("cells.jsonl", ()), ("index.html", ALONE)])
    def test_a_full_disk_is_told_and_the_same_command_goes_on(
        compare, whole, tmp_path, name, again
    ):
        # Nothing but the codebooks is kept, which are small enough for the room there is.
        shutil.copytree(whole / "work", tmp_path / "torn" / "work")
        with no_file_larger_than(int(0.9 * (whole / name).stat().st_size)):
            torn = compare("torn")
        assert (torn.code, torn.out) == (SpaceError.exit_code, "")
        assert re.fullmatch(
            r"bowsaw: the disk is full while writing torn/\S+\. Free .*\n", torn.err
        )
        assert compare("torn", *again).code == 0
        assert measured(tmp_path / "torn") == measured(whole)

    @pytest.mark.parametrize(
        ("variables", "coloured", "more"),
        [({}, True, ()), ({"NO_COLOR": "1"}, False, ALONE), ({"TERM": "dumb"}, False, ALONE)],
    )
    def test_the_live_table_has_colours_only_where_they_are_wanted(
        made, tmp_path, variables, coloured, more
    ):
        words = ("compare", made.store, *SMALL.split(), "-o", tmp_path / "run", *more)
        with bowsaw_at_a_terminal(*words, **variables) as terminal:
            assert terminal.finish() == 0
        assert ("accuracy so far" in terminal.shown) == (variables.get("TERM") != "dumb")
        assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h")
        assert bool(COLOUR.search(terminal.shown)) == coloured
