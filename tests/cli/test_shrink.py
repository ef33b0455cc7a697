"""``bowsaw shrink`` and ``bowsaw predict``: two commands from a folder to classes."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.test_recogniser import CLASSES, write

import bowsaw as bs
from bowsaw.evaluation.measures import mean_class_accuracy

HOW = ("--keep", 5, "--words", 20, "--method", "random", "--folds", 2, "-j", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos, other photos of the same classes, and a recogniser."""
    root = tmp_path_factory.mktemp("shrink")
    write(root / "photos", 8)
    write(root / "unseen", 12, seed=1)
    (root / "photos" / "dots" / "broken.png").write_bytes(b"no image")
    bs.shrink(root / "photos", 5, n_words=20, method="random", n_folds=2, folder=root / "r")
    return root


def test_two_commands_from_a_folder_to_classes(bowsaw, folder):
    found = bowsaw("shrink", folder / "photos", *HOW, "-o", "r")
    made = bs.Recogniser.load("r")
    shown = dict(line.split("  ", 1) for line in found.lines() if "  " in line[1:])
    shown = {name.strip(): value.strip() for name, value in shown.items()}
    assert shown["recogniser"] == "5 of 20 words, 3 classes, learned from all 24 images"
    assert shown["accuracy"] == f"{made.score_:.3f} ± {made.score_margin_:.3f} with 5 words"
    before = f"{made.full_score_:.3f} ± {made.full_score_margin_:.3f}"
    assert shown["before"] == f"{before} with all 20 words"
    assert "dots/broken.png: not an image" in found.out
    assert (shown["page"], shown["in a browser"]) == ("r/index.html", "r/try.html")
    assert "2-fold cross-validation" in found.out
    assert [line for line in found.err.splitlines() if line.endswith("…")] == [
        "describing the images …",
        "measuring the procedure on 2 folds …",
        "learning the recogniser from all 24 images …",
    ]
    image = folder / "unseen" / "dots" / "0.png"
    header, answer = bowsaw("predict", "r", image).lines()
    assert header.split() == ["image", "class", "margin"]
    assert answer.split()[1] == made.predict([image])[0]
    assert bowsaw("shrink", "-q", folder / "photos", *HOW, "-o", "r").err == ""


def test_the_accuracy_on_class_folders_is_that_of_unseen_images(bowsaw, folder):
    shutil.copytree(folder / "unseen", "mixed")
    # Images that it has learned from, one that was renamed, do not count.
    shutil.copy(folder / "photos" / "dots" / "0.png", "mixed/dots/known.png")
    shutil.copy(folder / "photos" / "lines" / "1.png", "mixed/lines/known.png")
    found = bowsaw("predict", folder / "r", "mixed")
    images = bs.ImageFolder(folder / "unseen")
    made = bs.Recogniser.load(folder / "r")
    guess = np.searchsorted(CLASSES, made.predict(images))
    expected = mean_class_accuracy(images.y, guess, 3)
    line = next(line for line in found.lines() if line.startswith("accuracy:"))
    assert line.startswith(f"accuracy: {expected:.3f} ± ")
    assert line.endswith(f"{int((guess == images.y).sum())} of 36 images are right")
    assert "2 images of 38 do not count: the recogniser has learned from them" in found.out
    wrong = sum(
        int(row.split()[2])
        for row in found.out.partition("taken for")[2].splitlines()[1:]
        if row.split()
    )
    assert wrong == int((guess != images.y).sum())
    seen = bowsaw("predict", folder / "r", folder / "photos")
    assert "accuracy: " not in seen.out
    assert f"its estimated accuracy is {made.score_:.3f}" in seen.out


def test_json_and_csv_have_the_same_answers(bowsaw, folder):
    (folder / "unseen" / "noise" / "a,b.png").write_bytes(b"no image")
    lines = bowsaw("predict", folder / "r", folder / "unseen", "--json").lines()
    rows = [json.loads(line) for line in lines]
    table = list(
        csv.DictReader(
            io.StringIO(
                "\n".join(bowsaw("predict", folder / "r", folder / "unseen", "--csv").lines())
            )
        )
    )
    assert [row["path"] for row in table] == [row["path"] for row in rows]
    assert [row["class"] for row in table] == [row.get("class", "") for row in rows]
    assert [row["error"] != "" for row in table] == ["error" in row for row in rows]
    good = [row for row in rows if "class" in row]
    assert {row["truth"] for row in good} == set(CLASSES)
    assert not any(row["learned_from"] for row in good)
    (folder / "unseen" / "noise" / "a,b.png").unlink()


def test_a_recogniser_is_exported_from_its_folder(bowsaw, folder):
    for name in ("a.onnx", "a.h", "a.html"):
        # Again, and in the place of the first.
        bowsaw("export", folder / "r", "-o", name)
        (line,) = bowsaw("export", folder / "r", "-o", name).lines()
        assert line.startswith(f"{name}: 5 words of 128 dimensions, hard coding, 3 classes")
    assert Path("a.onnx").read_bytes() == (folder / "r" / "recogniser.onnx").read_bytes()
    assert Path("a.html").read_bytes() == (folder / "r" / "try.html").read_bytes()
    assert '<a href="try.html">' in (folder / "r" / "index.html").read_text()


def test_inspect_shows_a_recogniser(bowsaw, folder):
    made = bs.Recogniser.load(folder / "r")
    lines = bowsaw("inspect", folder / "r").lines()
    assert lines[0].split(maxsplit=1)[1] == "5 of 20 words, 3 classes, learned from all 24 images"
    assert f"{made.score_:.3f} ±" in lines[1]
    shown = "\n".join(bowsaw("inspect", folder / "r", "--json").lines())
    assert json.loads(shown) == json.loads((folder / "r" / "summary.json").read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "photos", "x.png"), "photos is not a recogniser: it has no summary.json"),
        (("predict", "x.safetensors", "x.png"), "together with --classifier FILE"),
        (("predict", "r", "x.png", "--classifier", "m"), "the folder r has its own. Leave it out"),
        (("export", "r", "--classifier", "m", "-o", "a.h"), "the folder r has its own"),
        (("export", "photos", "-o", "a.h"), "photos is not a recogniser"),
        (("shrink", "photos", "-o", "photos/r"), "taken for a class. Choose a folder beside them"),
        (("shrink", "photos/dots", "-o", "q"), "has no class folders"),
        (("shrink", "photos", "--keep", 999, "--words", 99, "-o", "q"), "below the 99 words"),
        (("shrink", "photos", "--sharpness", 9, "-o", "q"), "--sharpness does not apply"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(bowsaw, folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    found = bowsaw(*words)
    assert found.code not in (0, 1)
    assert message in found.complaint
