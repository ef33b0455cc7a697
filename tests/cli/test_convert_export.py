"""``bowsaw convert`` reports what it read and what is lost; ``bowsaw export`` is the functions."""

import cv2
import faiss
import numpy as np
import pytest
import scipy.io

import bowsaw as bs
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.c_header import write_c_header
from bowsaw.formats.classifier import load_classifier
from bowsaw.formats.onnx import write_onnx
from bowsaw.report import write_recogniser_page


def test_to_opencv_and_back(bowsaw, made):
    book = bs.load(made.book)
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
    # And it is of use: the histograms are those of the first codebook.
    bowsaw("encode", "back.safetensors", made.store, "-o", "h.npz").lines()
    with np.load("h.npz") as found, np.load(made.histograms) as expected:
        np.testing.assert_array_equal(found["histograms"], expected["histograms"])


def test_words_of_an_unknown_unit_are_refused_by_every_command(bowsaw, made):
    bowsaw("convert", made.book, "v.xml")
    for words in (
        ("encode", "v.xml", made.store, "-o", "h.npz"),
        ("evaluate", made.store, "--codebook", "v.xml"),
        ("prune", "v.xml", made.store, "--keep", 3, "-o", "p.safetensors"),
        ("whatif", "v.xml", made.store, "--keep", 3),
    ):
        found = bowsaw(*words, "-q")
        assert (found.code, found.out) == (MismatchError.exit_code, "")
        assert "its file does not have one" in found.complaint
        assert "convert --scale" in found.complaint


def test_inspect_shows_what_is_unknown(bowsaw, made):
    bowsaw("convert", made.book, "v.faiss")
    assert faiss.read_index("v.faiss").ntotal == 12
    for more in ((), ("--details",)):
        text = " ".join(bowsaw("inspect", "v.faiss", *more).out.split())
        assert "words 12 of 128 dimensions (6 kB, scale unknown)" in text
    assert "provenance read_from=(format=faiss IxF2, variable=index, layout=rows" in text


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


BYTES = ("--dtype uint8", {"descriptors": "uint8"})


@pytest.mark.parametrize(
    ("end", "sharpness", "flags", "options"),
    [
        (".onnx", None, *BYTES),
        (".onnx", 7.0, "", {}),
        (".onnx", "model", "", {}),
        (".html", "model", "", {}),
        (".h", 40.0, *BYTES),
        (".h", "model", *BYTES),
        (".h", None, "--word-dtype float32", {"words": "float32"}),
        (".h", None, "--word-dtype int8 --name rooms", {"words": "int8", "name": "rooms"}),
    ],
)
def test_export_is_the_function(bowsaw, made, model, tmp_path, end, sharpness, flags, options):
    chosen, fitted = ("--coding", "soft", "--sharpness", sharpness), None
    coder = book = bs.load(made.book)
    if sharpness == "model":
        chosen, fitted = ("--classifier", model), load_classifier(model)
    elif sharpness is None:
        chosen = ()
    else:
        coder = bs.BagOfWords(book, coding="soft", sharpness=sharpness)
    [line] = bowsaw("export", made.book, "-o", f"a{end}", *chosen, *flags.split()).lines()
    write = {".onnx": write_onnx, ".h": write_c_header, ".html": write_recogniser_page}[end]
    write(coder, tmp_path / f"b{end}", fitted, **options)
    assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes()
    assert line.startswith(f"a{end}: 12 words of 128 dimensions, ")
    taken = f"{options.get('descriptors', 'float32')} descriptors of which a norm of 1 is 512"
    if "descriptors" not in options:
        taken = "images" if end == ".html" else "grey images"
    assert line.endswith(f"; takes {taken}")
    assert ("3 classes" in line) == (sharpness == "model")
    assert ("soft coding of sharpness" in line) == (sharpness is not None)


def test_export_chooses_a_sharpness_by_the_images_of_a_store(bowsaw, made, tmp_path):
    how = ("--coding", "soft", "--perplexity", 3, "--store", made.store)
    [line] = bowsaw("export", made.book, "-o", "a.onnx", *how).lines()
    store = bs.Store(made.store)
    coder = bs.BagOfWords(bs.load(made.book), coding="soft", perplexity=3, random_state=0)
    coder.fit(store.bags[store.split.train])
    assert f"soft coding of sharpness {coder.sharpness_:.4g} " in line
    write_onnx(coder, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_unit_that_is_unknown_is_reported(bowsaw, made):
    bowsaw("convert", made.book, "words.npy")
    bowsaw("convert", "words.npy", "words.npz")
    for name in ("words.npy", "words.npz"):
        [line] = bowsaw("export", name, "-o", "a.h").lines()
        assert line.endswith("takes float32 descriptors in the words' own unit, which is unknown")
        found = bowsaw("export", name, "-o", "a.onnx", "--coding", "soft")
        assert found.code == ParameterError.exit_code
        assert f"the scale of {name} is unknown. Set it with" in found.complaint
        # The remedy works for the foreign file, and for ours that was made of it without a scale.
        bowsaw("convert", name, "scaled.npz", "--scale", 512)
        [line] = bowsaw("export", "scaled.npz", "-o", "a.onnx", "--coding", "soft").lines()
        assert line.endswith("of which a norm of 1 is 512")
