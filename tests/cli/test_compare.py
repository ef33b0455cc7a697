from __future__ import annotations

import shutil

import pytest
from tests.comparison.toys import timeless

from bowsaw.cli.main import main
from bowsaw.comparison.records import read_run

METHODS = ("--methods", "published,bottleneck,random,retrained")
PARTS = ("--train-codebook", "6", "--train", "6", "--seed", "3")


def compare(images, folder, *more):
    return main(
        [
            "compare",
            str(images),
            "--words",
            "30",
            "--sizes",
            "5,12",
            *METHODS,
            *PARTS,
            "--splits",
            "2",
            "-o",
            str(folder),
            *more,
        ]
    )


@pytest.fixture(scope="module")
def small_scenes(scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("few") / "scenes"
    for source in sorted(scenes.iterdir()):
        (folder / source.name).mkdir(parents=True)
        for image in sorted(source.iterdir())[:20]:
            shutil.copy(image, folder / source.name / image.name)
    return folder


@pytest.fixture(scope="module")
def made(small_scenes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    assert compare(small_scenes, folder, "--quiet") == 0
    return folder


def test_it_leaves_records_and_a_page(made):
    run = read_run(made)
    assert len(run.cells) == 2 * (1 + 4 * 2)
    assert run.about["command"].startswith("bowsaw compare ")
    assert "--sizes 5,12" in run.about["command"]
    assert run.about["parameters"]["seed"] == 3
    assert run.about["sets"]["scenes"]["classes"] == ["brick", "grass", "gravel"]
    assert run.about["finished"]
    page = (made / "index.html").read_text("utf-8")
    assert "<title>" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_it_prints_a_table_of_means(small_scenes, made, capsys):
    assert compare(small_scenes, made) == 0
    out = capsys.readouterr().out
    cells = read_run(made).cells
    found = [
        cell["results"]["sqrt"]["accuracy"]
        for cell in cells
        if (cell["method"], cell["size"]) == ("bottleneck", 12)
    ]
    (row,) = [line for line in out.splitlines() if line.startswith("information bottleneck")]
    assert row.split()[-1] == f"{sum(found) / 2:.3f}"
    assert "index.html" in out


def test_a_second_call_measures_nothing_again(small_scenes, made):
    before = (made / "cells.jsonl").read_bytes()
    assert compare(small_scenes, made, "--quiet") == 0
    assert (made / "cells.jsonl").read_bytes() == before


def test_a_store_does_as_well_as_a_folder(small_scenes, made, tmp_path):
    store = tmp_path / "scenes.store"
    assert main(["extract", str(small_scenes), "-o", str(store), "--quiet"]) == 0
    assert compare(store, tmp_path / "run", "--quiet", "--workers", "1") == 0
    assert timeless(read_run(tmp_path / "run").cells) == timeless(read_run(made).cells)


def test_pixels_are_kept_only_where_they_may_be(small_scenes, tmp_path):
    told = ["--words", "20", "--sizes", "4", "--methods", "annealed", "--splits", "1", *PARTS]
    told += ["--workers", "1"]
    for name, more in (("shown", []), ("hidden", ["--no-pixels"])):
        folder = tmp_path / name
        assert main(["compare", str(small_scenes), *told, "-o", str(folder), "-q", *more]) == 0
    shown, hidden = (read_run(tmp_path / name).details for name in ("shown", "hidden"))
    assert [line["png"] for line in shown if line["kind"] == "patches"]
    assert [line["jpeg"] for line in shown if line["kind"] == "image"] != [None]
    assert not [line for line in hidden if line["kind"] == "patches"]
    assert [line["jpeg"] for line in hidden if line["kind"] == "image"] == [None]
    # What every PNG begins with, in base64.
    with_pixels, without = (
        "iVBORw0KGgo" in (tmp_path / name / "index.html").read_text("utf-8")
        for name in ("shown", "hidden")
    )
    assert with_pixels
    assert not without


def test_report_builds_the_same_page_from_the_records_alone(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "run", ignore=shutil.ignore_patterns("work", "index.html"))
    assert main(["report", str(tmp_path / "run")]) == 0
    again = (tmp_path / "run" / "index.html").read_text("utf-8")
    assert again == (made / "index.html").read_text("utf-8")
    assert main(["report", str(made), "-o", str(tmp_path / "page.html"), "--quiet"]) == 0
    assert (tmp_path / "page.html").read_text("utf-8") == again
    assert "index.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--sizes", "30"], 2, "below that of every full codebook (30 words)"),
        (["--sizes", "ten"], 2, "must be a whole number from 1 up; got 'ten'"),
        (["--sizes", "5,"], 2, "must be values between commas"),
        (["--methods", "magic"], 2, "got magic"),
        (["--coding", "medium"], 2, "codings are hard and soft"),
        (["--train", "500"], 3, "Ask for fewer, or leave the class out"),
    ],
)
def test_what_cannot_be_compared_is_said_at_once(
    small_scenes, tmp_path, capsys, change, code, message
):
    try:
        found = compare(small_scenes, tmp_path / "run", *change)
    except SystemExit as stopped:
        found = stopped.code
    assert found == code
    error = capsys.readouterr().err
    assert message in error
    assert error.splitlines()[-1].startswith("bowsaw: ")


def test_an_output_among_the_images_or_over_other_files_is_refused(small_scenes, tmp_path, capsys):
    assert compare(small_scenes, small_scenes / "run") == 2
    assert "would lie among the images" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    assert compare(small_scenes, tmp_path / "full") == 2
    assert "holds letter.txt and no run" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert compare(small_scenes, tmp_path / "file") == 2
    assert "is a file. Name a folder." in capsys.readouterr().err


def test_a_folder_without_a_run_has_no_report(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 7
    assert "it has no run.json" in capsys.readouterr().err
