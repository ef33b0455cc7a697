"""``bowsaw train`` is the estimator, and says which images it used."""

from __future__ import annotations

import numpy as np

from bowsaw import KMeansCodebook, Store, load


def test_train_is_the_estimator(bowsaw, made, parts):
    options = ("--part", "codebook", *parts, "--seed", 3, "--max-iter", 4, "--sample", 400)
    found = bowsaw("train", made.store, "--words", 9, *options, "-o", "a.safetensors")
    [line] = found.lines()
    assert line.startswith("a.safetensors: 9 words of 128 dimensions, mean squared distance 0.")
    assert found.err == "9 words from 480 descriptors of 30 images (part codebook)\n"
    store = Store(made.store)
    rows = store.split(codebook=10, train=10, seed=3).codebook
    twin = KMeansCodebook(9, max_iter=4, sample=400, random_state=3).fit(store.bags[rows])
    book = load("a.safetensors")
    assert np.array_equal(book.words, twin.codebook_.words)
    assert np.array_equal(book.trained_on, np.unique(store.bags.digests[rows]))


def test_train_records_which_images_it_used(made):
    store = Store(made.store)
    assert load(made.book).provenance["store"] == store.digest
    assert load(made.book).provenance["part"] == "codebook"
    assert load(made.book).provenance["split"] == {
        "codebook": 10,
        "train": 10,
        "seed": 0,
        "index": 0,
    }
    assert load(made.book_of_all).provenance["part"] == "all"
    assert "split" not in load(made.book_of_all).provenance
