"""``bowsaw train`` and ``bowsaw encode`` are the estimators, for any coding and part."""

import numpy as np
import pytest

from bowsaw import BagOfWords, KMeansCodebook, Store, load
from bowsaw.store.histograms import read_histograms

SOFT = ("--coding", "soft")


@pytest.mark.parametrize(
    ("part", "flags", "parameters"),
    [
        ("all", (), {}),
        ("codebook", SOFT, {"coding": "soft"}),
        ("train", (*SOFT, "--sharpness", 7), {"coding": "soft", "sharpness": 7.0}),
        ("test", (*SOFT, "--sharpness", "auto"), {"coding": "soft", "sharpness": "auto"}),
        ("all", (*SOFT, "--perplexity", 3), {"coding": "soft", "perplexity": 3.0}),
    ],
)
def test_encode_is_the_estimator(bowsaw, made, part, flags, parameters):
    chosen = (*flags, *(("--part", part) if part != "all" else ()))
    [line] = bowsaw("encode", made.book, made.store, "-o", "a.npz", *chosen).lines()
    store = Store(made.store)
    split = store.split
    coder = BagOfWords(load(made.book), **parameters)
    coder.fit(store.bags[split.train], store.y[split.train])
    rows = split.part(part)
    assert line.startswith(f"a.npz: {len(rows)} histograms of 12 words (")
    found = read_histograms("a.npz")
    assert np.array_equal(found.histograms, coder.transform(store.bags[rows]))
    assert found.y.tolist() == store.y[rows].tolist()
    assert found.paths == tuple(store.paths[row] for row in rows)
    assert found.words.tolist() == list(range(12))
    assert found.metadata["part"] == part
    learned = "auto" in flags or "--perplexity" in flags
    assert ("sharpness_learned_on" in found.metadata) == learned
    if "soft" in flags:
        assert found.metadata["sharpness"] == coder.sharpness_
        assert f"soft coding of sharpness {coder.sharpness_:.4g}" in line


def test_train_is_the_estimator_and_records_its_images(bowsaw, made):
    options = ("--seed", 3, "--max-iter", 4, "--sample", 400)
    found = bowsaw("train", made.store, "--words", 9, *options, "-o", "a.safetensors")
    [line] = found.lines()
    assert line.startswith("a.safetensors: 9 words of 128 dimensions, mean squared distance 0.")
    assert found.err == "9 words from 480 descriptors of 30 images (part codebook)\n"
    store = Store(made.store)
    rows = store.split.codebook
    twin = KMeansCodebook(9, max_iter=4, sample=400, random_state=3).fit(store.bags[rows])
    book = load("a.safetensors")
    assert np.array_equal(book.words, twin.codebook_.words)
    assert np.array_equal(book.trained_on, np.unique(store.bags.digests[rows]))
    assert (book.provenance["store"], book.provenance["part"]) == (store.digest, "codebook")
    assert book.provenance["split"] == store.split.record()
    assert store.split.record()["digest"] == store.draw_split(codebook=10, train=10).digest
    assert load(made.book_of_all).provenance["part"] == "all"
    assert "split" not in load(made.book_of_all).provenance
