"""``bowsaw evaluate`` is the function, with tables, and keeps test images apart."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import PARTS

from bowsaw import Codebook, Collection, Store, evaluate, load, read_run, save


@pytest.fixture
def short(made):
    """The words of an evaluation that takes a moment."""
    return ("evaluate", made.store, "--words", 12, *PARTS, "--splits", 2)


def test_evaluate_is_the_function_and_continues(bowsaw, made, short):
    found = json.loads(bowsaw(*short, "--json", "-o", "run").out)
    collection = Collection.from_store(Store(made.store), codebook_images=10, train=10)
    twin = evaluate(collection, n_words=12, n_splits=2)
    assert found["summary"] == twin.table()
    assert [cell["results"] for cell in found["cells"]] == [cell["results"] for cell in twin.cells]
    assert found["cells"] == read_run("run").cells
    assert Path("run/index.html").is_file()
    before = Path("run/cells.jsonl").read_bytes()
    assert bowsaw(*short, "-o", "run").lines()[0].startswith("histograms")
    assert Path("run/cells.jsonl").read_bytes() == before
    assert bowsaw(*short, "-o", "run", "--seed", 1).code == 4
    assert bowsaw(*short, "-o", "run", "--seed", 1, "--overwrite").code == 0
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
    words = ("train", made.store, "--words", 8, "--part", "codebook", "--split", 1, *PARTS)
    bowsaw(*words, "-o", "later.safetensors").lines()
    words = ("evaluate", made.store, "--codebook", "later.safetensors", *PARTS)
    assert bowsaw(*words).code == 8
    found = bowsaw(*words, "--first-split", 1)
    shown = found.lines()
    assert shown[0].split() == ["histograms", "words", "accuracy", "±", "95", "%", "C"]
    assert "± 95 %: half of its 95 % interval, over the test images" in shown
    assert "split 1: " in found.complaint


def test_a_codebook_that_saw_test_images_is_refused_and_an_unknown_one_warned_about(bowsaw, made):
    words = ("evaluate", made.store, *PARTS, "--codebook")
    for book, more, message in (
        (made.book_of_all, (), "trained on 372 test images of the split"),
        (made.book, ("--seed", 1), "(codebook 10, train 10, seed 1, index 0), of which it has"),
        (made.book, ("--splits", 2), "(codebook 10, train 10, seed 0, index 0 and others)."),
        (made.book, ("--train-codebook", 4, "--train", 4), "of which it has seen 6 test images"),
    ):
        found = bowsaw(*words, book, *more)
        assert (found.code, found.out) == (8, "")
        assert message in found.complaint
    save(Codebook(load(made.book).words, scale=512.0), "bare.safetensors")
    found = bowsaw(*words, "bare.safetensors")
    assert found.lines()
    assert "warning: the codebook does not say which images it was trained on" in found.err
