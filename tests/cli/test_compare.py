"""``bowsaw compare`` and ``bowsaw report``: records, tables, pages, and runs that were stopped."""

import re
import shutil
import signal
import sys

import pytest
from tests.cli.conftest import Interrupter
from tests.cli.terminal import no_file_larger_than
from tests.comparison.made import timeless

from bowsaw.cli.compare import Watcher
from bowsaw.cli.main import main
from bowsaw.comparison.records import read_run
from bowsaw.errors import SpaceError

LARGE = """--words 30 --sizes 5,12 --methods paper,bottleneck,random,kmeans --splits 2"""
SPLIT = ("--split", "6/6/rest", "--seed", "3")
SMALL = """--words 12 --sizes 4,6 --methods random --splits 2 -q"""
"""Six cells that take no time."""


def compare(images, folder, *more):
    return main(["compare", str(images), *LARGE.split(), *more, "-o", str(folder)])


@pytest.fixture(scope="module")
def small_scenes(scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("few") / "scenes"
    for source in sorted(scenes.iterdir()):
        (folder / source.name).mkdir(parents=True)
        for image in sorted(source.iterdir())[:20]:
            shutil.copy(image, folder / source.name / image.name)
    return folder


@pytest.fixture(scope="module")
def compared(small_scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "run"
    assert compare(small_scenes, folder, *SPLIT, "--quiet") == 0
    return folder


def test_it_writes_records_and_a_page_and_a_second_call_prints_the_means(
    small_scenes, compared, capsys
):
    run = read_run(compared)
    assert len(run.cells) == 2 * (1 + 4 * 2)
    assert run.about["command"].startswith("bowsaw compare ")
    assert "--sizes 5,12" in run.about["command"]
    assert run.about["parameters"]["seed"] == 3
    assert run.about["sets"]["scenes"]["classes"] == ["brick", "grass", "gravel"]
    assert run.about["finished"]
    assert "<title>" in (compared / "index.html").read_text("utf-8")
    before = (compared / "cells.jsonl").read_bytes()
    assert compare(small_scenes, compared, *SPLIT) == 0
    assert (compared / "cells.jsonl").read_bytes() == before
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("bottleneck")]
    where = {"method": "bottleneck", "size": 12, "mapping": "sqrt"}
    (found,) = [row for row in run.table() if where.items() <= row.items()]
    assert row.endswith(f"  {found['mean']:.3f} ± {found['margin']:.3f}")
    assert "± half of its 95 % interval" in out
    assert "index.html" in out


def test_a_store_gives_the_same_cells_as_its_folder(small_scenes, compared, tmp_path):
    store = tmp_path / "scenes.store"
    assert main(["extract", str(small_scenes), "-o", str(store), *SPLIT, "--quiet"]) == 0
    assert compare(store, tmp_path / "run", "--quiet", "-j", "1") == 0
    assert timeless(read_run(tmp_path / "run").cells) == timeless(read_run(compared).cells)


def test_pixels_are_kept_only_where_they_may_be(bowsaw, small_scenes, tmp_path):
    words = "--words 20 --sizes 4 --methods annealing --splits 1 -q"
    bowsaw("extract", small_scenes, "-o", "a.store", "--split", "6/6/rest", "-q").lines()
    split = ("--split", "6/6/rest")
    for source, name, more in (
        (small_scenes, "shown", split),
        (small_scenes, "hidden", (*split, "--no-pixels")),
        ("a.store", "shown too", ("--images", small_scenes)),
        ("a.store", "hidden too", ()),
    ):
        bowsaw("compare", source, *words.split(), "-o", name, "-j", 1, *more).lines()
        page = (tmp_path / name / "index.html").read_text("utf-8")
        # What every JPEG (the image) and every PNG (the words' patches) begins with, in base64.
        is_shown = name.startswith("shown")
        assert [start in page for start in ("/9j/4AAQ", "iVBORw0KGgo")] == [is_shown] * 2
    found = bowsaw("compare", "a.store", *words.split(), "-o", "x", "--images", tmp_path)
    assert found.code == 4
    assert "the first image of a.store. Give the folder" in found.err


def test_report_builds_the_same_page_again(bowsaw, compared, tmp_path):
    shutil.copytree(compared, tmp_path / "run", ignore=shutil.ignore_patterns("work", "index.html"))
    assert "index.html" in bowsaw("report", "run").lines()[-1]
    bowsaw("report", compared, "-o", "page.html", "--quiet").lines()
    pages = [tmp_path / "run" / "index.html", compared / "index.html", tmp_path / "page.html"]
    assert len({page.read_bytes() for page in pages}) == 1


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """A run that was not stopped."""
    run = tmp_path_factory.mktemp("whole") / "whole"
    assert main(["compare", str(made.store), *SMALL.split(), "-o", str(run), "-j", "1"]) == 0
    assert len(read_run(run).cells) == 6
    return run


@pytest.mark.parametrize(("number", "again"), [(signal.SIGINT, ()), (signal.SIGTERM, ("-j", "1"))])
def test_a_stopped_comparison_continues(bowsaw, made, whole, tmp_path, monkeypatch, number, again):
    cells = Interrupter(monkeypatch, Watcher, "__call__")
    cells.stop_after(3, number)
    words = ("compare", made.store, *SMALL.split(), "-o", "torn")
    torn = bowsaw(*words)
    assert (torn.code, torn.out) == (128 + number, "")
    assert "Finished cells are kept; run the same command again to continue." in torn.err
    assert (tmp_path / "torn" / "cells.jsonl").read_bytes().count(b"\n") == 3
    assert not (tmp_path / "torn" / "index.html").exists()
    bowsaw(*words, *again).lines()
    # Cells that were there were not measured again.
    assert cells.n_calls == 6
    assert timeless(read_run(tmp_path / "torn").cells) == timeless(read_run(whole).cells)
    assert (tmp_path / "torn" / "index.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files")
@pytest.mark.parametrize("name", ["cells.jsonl", "index.html"])
def test_a_full_disk_is_reported_and_the_same_command_continues(
    bowsaw, made, whole, tmp_path, name
):
    # Only the full codebooks are there, which are smaller than the limit.
    shutil.copytree(whole / "work", tmp_path / "torn" / "work")
    words = ("compare", made.store, *SMALL.split(), "-o", "torn", "-j", "1")
    with no_file_larger_than(int(0.9 * (whole / name).stat().st_size)):
        torn = bowsaw(*words)
    assert (torn.code, torn.out) == (SpaceError.exit_code, "")
    assert re.fullmatch(r"bowsaw: the disk is full while writing \S+\. Free .*\n", torn.err)
    bowsaw(*words).lines()
    assert timeless(read_run(tmp_path / "torn").cells) == timeless(read_run(whole).cells)
