"""``bowsaw fit`` is the estimator, and has the accuracy that ``bowsaw evaluate`` reports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bowsaw import BagOfWords, HistogramClassifier, Store, load
from bowsaw.evaluation.measures import confusion
from bowsaw.formats.classifier import load_classifier


@pytest.mark.parametrize(
    "flags", [(), ("--coding", "soft", "--perplexity", 3)], ids=["hard", "soft"]
)
def test_it_recognises_as_evaluate_reports(bowsaw, made, parts, flags):
    words = ("fit", made.book, made.store, "--part", "train", *parts, *flags, "-o", "a.safetensors")
    [line] = bowsaw(*words).lines()
    found = bowsaw("evaluate", made.store, "--codebook", made.book, *parts, *flags, "--json")
    (cell,) = json.loads(found.out)["cells"]
    record = {**cell["results"]["sqrt"], "sharpness": cell["sharpness"]}
    store, model = Store(made.store), load_classifier("a.safetensors")
    test = store.split(codebook=10, train=10).test
    found = model.predict(model.coder(load(made.book)).transform(store.bags[test]))
    assert model.classes == store.classes
    places = np.searchsorted(store.classes, found)
    assert confusion(store.y[test], places, 3).tolist() == record["confusion"]
    assert model.sharpness == record["sharpness"]
    assert line.startswith("a.safetensors: 3 classes from 30 images, 12 words, ")
    best = max(record["C_scores"])
    assert f"C {record['C']:g} (mean per-class accuracy {best:.4f} on the 30 images" in line


def test_fit_is_the_estimator(bowsaw, made):
    options = ("--mapping", "raw", "--C", 3, "-o", "a.safetensors")
    [line] = bowsaw("fit", made.book, made.store, *options).lines()
    assert "3 classes from 432 images, 12 words, hard coding, C 3, " in line
    store, book = Store(made.store), load(made.book)
    X = BagOfWords(book).transform(store.bags)
    twin = HistogramClassifier("raw", C=3.0).fit(X, np.array(store.classes)[store.y])
    model = load_classifier("a.safetensors")
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))
    assert model.description == store.description
    assert model.provenance["store"] == store.digest
    assert (model.provenance["part"], model.provenance["C_chosen_on"]) == ("all", None)


def test_without_a_part_for_it_c_is_chosen_by_cross_validation(bowsaw, made):
    options = ("--part", "train", "--train-codebook", 0, "--train", 8, "-o", "a.safetensors")
    [line] = bowsaw("fit", made.book, made.store, *options).lines()
    assert " of folds), " in line
    provenance = load_classifier("a.safetensors").provenance
    assert provenance["C_chosen_on"] == "cross-validation"
    assert provenance["split"] == {"codebook": 0, "train": 8, "seed": 0, "index": 0}
    first = Path("a.safetensors").read_bytes()
    bowsaw("fit", made.book, made.store, *options, "-j", 1)
    assert Path("a.safetensors").read_bytes() == first
