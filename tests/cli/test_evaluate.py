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


def test_evaluate_is_the_function(bowsaw, made, short):
    found = json.loads(bowsaw(*short, "--json").out)
    store = Store(made.store)
    twin = evaluate(
        Collection.from_store(store, codebook_images=10, train=10), n_words=12, n_splits=2
    )
    assert found["summary"] == twin.table()
    assert [cell["results"] for cell in found["cells"]] == [cell["results"] for cell in twin.cells]


def test_evaluate_shows_tables_for_people(bowsaw, short):
    found = bowsaw(*short, "--confusion")
    shown = found.lines()
    assert shown[0].split() == [
        "histograms",
        "words",
        "accuracy",
        "spread",
        "lowest",
        "highest",
        "C",
    ]
    assert [line.split()[:2] for line in shown[1:3]] == [["square-rooted", "12"], ["raw", "12"]]
    assert shown[3] == (
        "accuracy: mean per-class accuracy on the 372 test images of each of 2 splits"
    )
    assert [line.split()[0] for line in shown if line.startswith(("0", "1", "2"))] == list("012")
    assert all(line == line.rstrip() for line in shown)
    first, *splits = found.err.splitlines()
    assert first == (
        "432 images in 3 classes; of each class 10 for the codebook, 10 to train, the rest to test"
    )
    assert [line.split(":")[0] for line in splits] == ["split 0", "split 1"]
    assert "(1 of 2 done, about " in splits[0]
    assert splits[1].endswith("(2 of 2 done)")


def test_evaluate_tells_the_sharpness_of_soft_coding(bowsaw, short):
    shown = bowsaw(*short, "--coding", "soft", "--perplexity", 4).lines()
    assert shown[0].endswith("sharpness")


def test_evaluate_quietly_still_answers(bowsaw, short):
    found = bowsaw(*short, "-q")
    assert found.lines()[0].startswith("histograms")
    assert found.err == ""


def test_evaluate_writes_what_it_prints_as_json(bowsaw, short):
    printed = json.loads(bowsaw(*short, "--json", "-o", "run").out)
    written = read_run("run")
    assert printed["cells"] == written.cells
    assert printed["parameters"] == written.about["parameters"]
    assert Path("run/index.html").is_file()


def test_a_codebook_is_evaluated_on_its_own_split(bowsaw, made, parts):
    found = bowsaw("evaluate", made.store, "--codebook", made.book, *parts)
    assert found.lines()[0].split() == ["histograms", "words", "accuracy", "C"]
    assert "(1 of 1 done)" in found.complaint


def test_a_codebook_of_a_later_split_is_evaluated_there(bowsaw, made, parts):
    book = "later.safetensors"
    bowsaw(
        "train", made.store, "--words", 8, "--part", "codebook", "--split", 1, *parts, "-o", book
    )
    assert bowsaw("evaluate", made.store, "--codebook", book, *parts).code == 8
    found = bowsaw("evaluate", made.store, "--codebook", book, "--first-split", 1, *parts)
    assert "split 1: " in found.complaint
    assert found.code == 0


@pytest.mark.parametrize(
    ("book", "more", "told"),
    [
        ("book_of_all", (), "372 of the 372 test images of split 0"),
        ("book", ("--seed", 1), "test images of split 0"),
        ("book", ("--splits", 2), "test images of split 1"),
        ("book", ("--train-codebook", 4, "--train", 4), "test images of split 0"),
    ],
)
def test_a_codebook_that_saw_test_images_is_refused(bowsaw, made, parts, book, more, told):
    found = bowsaw("evaluate", made.store, "--codebook", getattr(made, book), *parts, *more)
    assert (found.code, found.out) == (8, "")
    assert told in found.complaint


def test_a_codebook_of_unknown_images_is_used_with_a_warning(bowsaw, made, parts):
    save(Codebook(load(made.book).words, scale=512.0), "bare.safetensors")
    found = bowsaw("evaluate", made.store, "--codebook", "bare.safetensors", *parts)
    assert found.lines()
    assert "warning: the codebook does not say which images it was trained on" in found.err
