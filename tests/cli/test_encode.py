"""``bowsaw encode`` is the estimator, whatever the coding and the part."""

from __future__ import annotations

import numpy as np
import pytest

from bowsaw import BagOfWords, Store, load
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
def test_encode_is_the_estimator(bowsaw, made, parts, part, flags, parameters):
    chosen = (*flags, *parts, "--part", part)
    [line] = bowsaw("encode", made.book, made.store, "-o", "a.npz", *chosen).lines()
    store = Store(made.store)
    split = store.split(codebook=10, train=10)
    coder = BagOfWords(load(made.book), **parameters).fit(
        store.bags[split.train], store.y[split.train]
    )
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
