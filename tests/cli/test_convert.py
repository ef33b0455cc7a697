"""``bowsaw convert`` reports what it read and what the new file does not keep."""

from __future__ import annotations

import cv2
import faiss
import numpy as np
import scipy.io

from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.registry import load


def test_to_opencv_and_back(bowsaw, made, tmp_path):
    book = load(made.book)
    [line] = bowsaw("convert", made.book, "v.yml").lines()
    assert line.startswith("v.yml: 12 words of 128 dimensions (")
    assert f"from {made.book} (bowsaw's own, scale 512)" in line
    assert line.endswith("; not kept: scale, description, provenance, trained_on")
    storage = cv2.FileStorage("v.yml", cv2.FILE_STORAGE_READ)
    np.testing.assert_array_equal(storage.getNode("vocabulary").mat(), book.words)
    storage.release()
    [line] = bowsaw("convert", "v.yml", "back.safetensors", "--scale", 512).lines()
    assert "from v.yml (OpenCV YAML, vocabulary, one word per row, scale 512)" in line
    assert line.endswith("nothing is lost")
    again = load(tmp_path / "back.safetensors")
    assert (again.words == book.words).all()
    assert again.scale == 512
    # And it is of use: the histograms are those of the first codebook.
    for name in (made.book, "back.safetensors"):
        assert bowsaw("encode", name, made.store, "-o", "h.npz").code == 0
        with np.load("h.npz") as found, np.load(made.histograms) as expected:
            np.testing.assert_array_equal(found["histograms"], expected["histograms"])


def test_words_of_an_unknown_unit_are_refused_by_every_command(bowsaw, made, parts):
    bowsaw("convert", made.book, "v.xml")
    for words in (
        ("encode", "v.xml", made.store, "-o", "h.npz"),
        ("evaluate", made.store, "--codebook", "v.xml", "--splits", 1, *parts),
        ("prune", "v.xml", made.store, "--keep", 3, "-o", "p.safetensors", *parts),
        ("whatif", "v.xml", made.store, "--keep", 3, *parts),
    ):
        found = bowsaw(*words, "-q")
        assert (found.code, found.out) == (MismatchError.exit_code, "")
        assert "its file does not have one" in found.complaint
        assert "convert --scale" in found.complaint


def test_inspect_shows_what_is_unknown(bowsaw, made):
    bowsaw("convert", made.book, "v.faiss")
    assert faiss.read_index("v.faiss").ntotal == 12
    text = " ".join(bowsaw("inspect", "v.faiss").out.split())
    assert "words 12 of 128 dimensions (6 kB, scale unknown)" in text
    assert "trained on unknown images" in text
    assert "descriptors unknown" in text
    assert "provenance read_from=(format=faiss IxF2, variable=index, layout=rows" in text
    bowsaw("convert", made.book, "v.npz")
    assert "trained on 30 images" in " ".join(bowsaw("inspect", "v.npz").out.split())


def test_matlab_is_asked_about_where_it_is_in_doubt(bowsaw, tmp_path):
    square = np.arange(16.0).reshape(4, 4)
    scipy.io.savemat(tmp_path / "v.mat", {"centers": square, "other": square})
    for words, message in (
        ((), "variable='centers', or bowsaw convert --variable"),
        (("--variable", "centers"), "bowsaw convert --layout"),
        (("--variable", "no"), "no matrix 'no'"),
    ):
        found = bowsaw("convert", "v.mat", "v.npy", *words)
        assert found.code == ParameterError.exit_code
        assert message in found.complaint
    named = ("convert", "v.mat", "v.npy", "--variable", "centers", "--layout")
    for layout, expected in (("rows", square), ("columns", square.T)):
        [line] = bowsaw(*named, layout).lines()
        assert f"(MATLAB 5, centers, one word per {layout[:-1]}, scale unknown)" in line
        np.testing.assert_array_equal(np.load("v.npy"), expected)
    # A layout that is recognised is shown beside the result.
    scipy.io.savemat(tmp_path / "v.mat", {"centers": np.ones((128, 200))})
    found = bowsaw("convert", "v.mat", "v.npy")
    assert "warning: v.mat: centers is 128 × 200 and is read as 200 words of 128" in found.err
    assert "one word per column" in found.lines()[0]
    assert bowsaw("convert", "v.mat", "v.npy", "-q", "--layout", "columns").err == ""
