"""``bowsaw evaluate`` is the function, with tables, and keeps test images apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bowsaw import Collection, Store, evaluate, load, read_run, save
from bowsaw.codebook import Codebook


@pytest.fixture
def short(made, parts):
    """The words of an evaluation that takes a moment."""
    return ("evaluate", made.store, "--words", 12, *parts, "--splits", 2)


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
    header = "histograms words accuracy spread lowest highest C"
    assert " ".join(shown[0].split()) == header
    assert [line.split()[:2] for line in shown[1:3]] == [["square-rooted", "12"], ["raw", "12"]]
    assert shown[3] == (
        "accuracy: mean per-class accuracy on the 372 test images of each of 2 splits"
    )
    assert [line.split()[0] for line in shown if line.startswith(("0", "1", "2"))] == list("012")
    assert all(line == line.rstrip() for line in shown)
    first, *splits = found.err.splitlines()
    assert first == (
        "432 images in 3 classes; per class 10 for the codebook, 10 to train, the rest to test"
    )
    assert [line.split(":")[0] for line in splits] == ["split 0", "split 1"]
    assert "(1 of 2 cells, about " in splits[0]
    soft = bowsaw(*short, "--coding", "soft", "--perplexity", 4, "-q")
    assert soft.lines()[0].endswith("sharpness")
    assert soft.err == ""


def test_a_codebook_is_evaluated_on_its_own_split(bowsaw, made, parts):
    words = ("train", made.store, "--words", 8, "--part", "codebook", "--split", 1, *parts)
    bowsaw(*words, "-o", "later.safetensors").lines()
    words = ("evaluate", made.store, "--codebook", "later.safetensors", *parts)
    assert bowsaw(*words).code == 8
    found = bowsaw(*words, "--first-split", 1)
    assert found.lines()[0].split() == ["histograms", "words", "accuracy", "C"]
    assert "split 1: " in found.complaint


@pytest.mark.parametrize(
    ("book", "more", "message"),
    [
        ("book_of_all", (), "372 of the 372 test images of split 0"),
        ("book", ("--seed", 1), "test images of split 0"),
        ("book", ("--splits", 2), "test images of split 1"),
        ("book", ("--train-codebook", 4, "--train", 4), "test images of split 0"),
    ],
)
def test_a_codebook_that_saw_test_images_is_refused(bowsaw, made, parts, book, more, message):
    found = bowsaw("evaluate", made.store, "--codebook", getattr(made, book), *parts, *more)
    assert (found.code, found.out) == (8, "")
    assert message in found.complaint


def test_a_codebook_of_unknown_images_is_used_with_a_warning(bowsaw, made, parts):
    save(Codebook(load(made.book).words, scale=512.0), "bare.safetensors")
    found = bowsaw("evaluate", made.store, "--codebook", "bare.safetensors", *parts)
    assert found.lines()
    assert "warning: the codebook does not say which images it was trained on" in found.err
