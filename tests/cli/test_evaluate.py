"""``bowsaw evaluate`` is the function, with tables, and keeps test images apart."""

import json
import shutil
from pathlib import Path

import pytest

from bowsaw import Codebook, Store, evaluate, load, read_run, save


@pytest.fixture
def short(made):
    """The words of an evaluation that takes a moment."""
    return ("evaluate", made.store, "--words", 12, "--splits", 2)


def test_evaluate_is_the_function_and_continues(bowsaw, made, short):
    found = json.loads(bowsaw(*short, "--json", "-o", "run").out)
    twin = evaluate(Store(made.store), n_words=12, n_splits=2)
    assert found["summary"] == twin.table()
    assert [cell["results"] for cell in found["cells"]] == [cell["results"] for cell in twin.cells]
    assert found["cells"] == read_run("run").cells
    assert Path("run/index.html").is_file()
    before = Path("run/cells.jsonl").read_bytes()
    assert bowsaw(*short, "-o", "run").lines()[0].startswith("histograms")
    assert Path("run/cells.jsonl").read_bytes() == before
    shutil.copytree(made.store, "scenes.store")
    bowsaw("split", "scenes.store", "10/10/rest", "--seed", 1).lines()
    other = ("evaluate", "scenes.store", *short[2:], "-o", "run")
    assert bowsaw(*other).code == 4
    assert bowsaw(*other, "--overwrite").code == 0
    assert {cell["split"] for cell in read_run("run").cells} == {0, 1}


def test_the_tables(bowsaw, short):
    found = bowsaw(*short, "--confusion")
    shown = found.lines()
    assert shown[0].split()[2:] == ["accuracy", "±", "95", "%", "spread", "lowest", "highest", "C"]
    assert [line.split()[:2] for line in shown[1:3]] == [["square-rooted", "12"], ["raw", "12"]]
    assert shown[3].startswith(
        "accuracy: mean per-class accuracy on the 372 test images of each of"
    )
    assert [line[0] for line in shown if line.startswith(("0", "1", "2"))] == list("012")
    assert all(line == line.rstrip() for line in shown)
    first, *splits = found.err.splitlines()
    assert first.endswith("; per class 10 for the codebook, 10 to train, the rest to test")
    assert [line.split(":")[0] for line in splits] == ["split 0", "split 1"]
    assert "(1 of 2 cells, about " in splits[0]
    soft = bowsaw(*short, "--coding", "soft", "--perplexity", 4, "-q")
    assert soft.lines()[0].endswith("sharpness")
    assert soft.err == ""


def test_a_codebook_is_evaluated_on_its_own_split(bowsaw, made):
    found = bowsaw("evaluate", made.store, "--codebook", made.book)
    shown = found.lines()
    assert shown[0].split() == ["histograms", "words", "accuracy", "±", "95", "%", "C"]
    assert "± 95 %: half of its 95 % interval, over the test images" in shown
    assert "split 0: " in found.complaint
    refused = bowsaw("evaluate", made.store, "--codebook", made.book, "--splits", 2)
    assert refused.code == 2
    assert "--splits does not apply: a codebook is tested on the store's own" in refused.complaint


@pytest.mark.parametrize(
    ("name", "sizes", "seed", "message"),
    [
        ("book_of_all", "10/10/rest", 0, "was trained on 372 test images of the split, and no"),
        ("book", "10/10/rest", 1, "(10/10/rest, seed 0) than the store's (10/10/rest, seed 1), of"),
        (
            "book",
            "10/9/rest",
            0,
            "(10/10/rest, seed 0) than the store's (10/9/rest, seed 0). Train",
        ),
        ("book", "4/4/rest", 0, "(4/4/rest, seed 0), of which it has seen 6 test images"),
    ],
)
def test_a_codebook_of_another_split_is_refused(bowsaw, made, name, sizes, seed, message):
    shutil.copytree(made.store, "scenes.store")
    bowsaw("split", "scenes.store", sizes, "--seed", seed).lines()
    found = bowsaw("evaluate", "scenes.store", "--codebook", getattr(made, name))
    assert (found.code, found.out) == (8, "")
    assert message in found.complaint


def test_a_codebook_of_unknown_images_is_warned_about(bowsaw, made):
    save(Codebook(load(made.book).words, scale=512.0), "bare.safetensors")
    found = bowsaw("evaluate", made.store, "--codebook", "bare.safetensors")
    assert found.lines()
    assert "warning: the codebook does not say which images it was trained on" in found.err


def test_a_store_without_a_split_is_refused_with_the_command_that_gives_it_one(bowsaw, made):
    shutil.copytree(made.store, "scenes.store")
    Path("scenes.store/split.json").unlink()
    found = bowsaw("evaluate", "scenes.store", "--words", 4)
    assert found.code == 3
    assert found.complaint.endswith("Run: bowsaw split scenes.store auto")
    bowsaw("split", "scenes.store", "auto").lines()
    assert bowsaw("evaluate", "scenes.store", "--words", 4, "--splits", 1).lines()
