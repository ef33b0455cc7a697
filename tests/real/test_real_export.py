"""On 200 real pictures the exported graph codes like Python; run where a variable names the folder.

The codebooks are learned from the same pictures in a round or two: how good the words are does not
matter here, how many there are and how close descriptors come to their borders does.
"""

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import bowsaw as bs
from bowsaw.formats.c_header import quantize_words
from bowsaw.formats.classifier import LinearModel
from bowsaw.formats.onnx import write_onnx
from bowsaw.nearest.search import nearest_words


@pytest.mark.skipif("BOWSAW_SCENE15" not in os.environ, reason="BOWSAW_SCENE15 names no folder")
def test_the_graph_codes_two_hundred_scenes_like_python(tmp_path: Path) -> None:
    images = bs.ImageFolder(os.environ["BOWSAW_SCENE15"])
    rows = np.linspace(0, len(images) - 1, 200).astype(np.int64)
    bags, y = bs.DenseSift().transform(images[rows]), images.y[rows]
    large = bs.KMeansCodebook(5000, max_iter=1, sample=50_000, random_state=0).fit(bags).codebook_
    small = bs.KMeansCodebook(1000, max_iter=2, random_state=0).fit(bags).codebook_
    pruned = bs.PresenceRanking(small, n_kept=50, recode=True).fit(bags, y).codebook_
    # Threads that wait must not spin: other tests want the cores.
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    nearest = {book.n_words: nearest_words(bags, book.words) for book in (large, small, pruned)}
    for kind, most in (("uint8", 0.02), ("int8", 0.04)):
        for book in (small, pruned):
            moved = quantize_words(book.words, kind, "uint8").restored()
            changed = nearest_words(bags, moved) != nearest[book.n_words]
            assert changed.mean() <= most
    for book, coding in (
        (large, "hard"),
        *((book, coding) for book in (small, pruned) for coding in ("hard", "soft")),
    ):
        coder = bs.BagOfWords(book, coding=coding, n_jobs=-1)
        expected = coder.transform(bags)
        model = LinearModel.of(bs.HistogramClassifier(C=4.0).fit(expected, y), coder)
        scores = model.scores(expected)
        write_onnx(coder, tmp_path / "g.onnx", model, descriptors="uint8")
        session = onnxruntime.InferenceSession(tmp_path / "g.onnx", options)
        names = ["histogram", "label", *(["codes"] if coding == "hard" else [])]
        codes_of = np.split(nearest[book.n_words], bags.offsets[1:-1])
        for i in range(len(bags)):
            histogram, label, *codes = session.run(names, {"descriptors": bags[i]})
            assert int(label[0]) == int(np.argmax(scores[i]))
            if coding == "hard":
                assert np.array_equal(codes[0], codes_of[i])
                assert np.array_equal(histogram[0], expected[i])
            else:
                assert np.abs(histogram[0] - expected[i]).max() <= 1e-5
