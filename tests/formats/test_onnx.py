"""The graph in onnxruntime gives Python's answer: hard codes identical, soft ones within 1e-5."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

import bowsaw as bs
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.classifier import LinearModel
from bowsaw.formats.onnx import write_onnx
from bowsaw.nearest.search import nearest_words


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(session, rows):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"descriptors": rows}), strict=True))


@pytest.mark.parametrize(
    ("coding", "descriptors", "n_words"),
    [("hard", "float32", 30), ("hard", "uint8", 1), ("soft", "uint8", 30), ("soft", "float32", 9)],
)
def test_images_get_the_histograms_of_python(tmp_path, images, book, coding, descriptors, n_words):
    bags, _ = images
    coder = bs.BagOfWords(book.only(book.ids[:n_words][::-1]), coding=coding)
    write_onnx(coder, tmp_path / "g.onnx", descriptors=descriptors)
    onnx.checker.check_model(tmp_path / "g.onnx", full_check=True)
    session = session_of(tmp_path / "g.onnx")
    expected = coder.transform(bags)
    for i in range(len(bags)):
        found = run(session, bags[i].astype(descriptors))
        assert found["histogram"].shape == (1, n_words)
        assert found["histogram"].dtype == np.float32
        if coding == "hard":
            codes = nearest_words(bags[[i]], coder.words_in_use().words)
            assert np.array_equal(found["codes"], codes)
            assert np.array_equal(found["histogram"][0], expected[i])
        else:
            assert np.abs(found["histogram"][0] - expected[i]).max() <= 1e-5


@settings(max_examples=40)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.1, 1e3, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e4]),
    st.integers(0, 2**32),
)
def test_ties_are_settled_as_in_python(
    tmp_path_factory, n_rows, n_words, n_dims, origin, size, seed
):
    # Integers on a small grid, moved and stretched: most descriptors have several nearest words,
    # whose sums differ by their last bit at most. Far from the origin, all are equal in float32.
    rng = np.random.default_rng(seed)
    words = (size * (rng.integers(-2, 3, (n_words, n_dims)) + origin)).astype(np.float32)
    rows = (size * (rng.integers(-2, 3, (n_rows, n_dims)) / 2 + origin)).astype(np.float32)
    path = tmp_path_factory.mktemp("ties") / "g.onnx"
    write_onnx(bs.Codebook(words), path)
    found = run(session_of(path), rows)
    assert found["codes"].tolist() == nearest_words(bs.Bags(rows), words).tolist()


def test_sums_are_taken_in_the_order_of_the_dimensions(tmp_path):
    # Word 1 is word 0 with its entries in another order, so the two distances to 0 are equal but
    # for the order of summation. 1 + 2⁻⁵³ + 2⁻⁵³ is 1 in this order and more in the other.
    tiny = 2.0**-26.5
    entries = np.array([1.0, tiny, tiny], dtype=np.float32)
    words = np.stack([entries[::-1], entries])
    rows = np.zeros((1, 3), dtype=np.float32)
    sums = [sum(float(value) ** 2 for value in word) for word in words]
    assert sums[1] < sums[0]
    write_onnx(bs.Codebook(words), tmp_path / "g.onnx")
    assert run(session_of(tmp_path / "g.onnx"), rows)["codes"].tolist() == [1]
    assert nearest_words(bs.Bags(rows), words).tolist() == [1]


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_an_empty_bag_has_an_empty_histogram(tmp_path, book, coding):
    fitted = LinearSVC().fit(np.eye(30)[:9], np.arange(9) % 3)
    coder = bs.BagOfWords(book, coding=coding)
    write_onnx(coder, tmp_path / "g.onnx", fitted)
    found = run(session_of(tmp_path / "g.onnx"), np.empty((0, 128), np.float32))
    with pytest.warns(UserWarning, match="no descriptors"):
        expected = coder.transform(bs.Bags(np.empty((0, 128), np.float32), [0, 0], scale=512))
    assert np.array_equal(found["histogram"], expected)
    np.testing.assert_allclose(found["scores"][0], fitted.intercept_, rtol=1e-6)
    assert found["label"].tolist() == [int(np.argmax(fitted.intercept_))]


@pytest.mark.parametrize(
    ("coding", "estimator", "n_classes"),
    [
        ("hard", bs.HistogramClassifier(C=4.0), 3),
        ("soft", LogisticRegression(), 2),
        ("hard", make_pipeline(FunctionTransformer(np.sqrt), LinearSVC()), 2),
    ],
    ids=["ours", "logistic", "root and svm"],
)
def test_scores_and_labels_are_those_of_python(
    tmp_path, images, book, coding, estimator, n_classes
):
    bags, y = images
    chosen = np.flatnonzero(np.isin(y, np.unique(y)[:n_classes]))
    coder = bs.BagOfWords(book, coding=coding)
    X = coder.transform(bags[chosen])
    fitted = estimator.fit(X, y[chosen])
    model = LinearModel.of(fitted, coder)
    write_onnx(coder, tmp_path / "g.onnx", fitted, descriptors="uint8")
    onnx.checker.check_model(tmp_path / "g.onnx", full_check=True)
    session = session_of(tmp_path / "g.onnx")
    expected = model.scores(X)
    for i, row in enumerate(chosen):
        found = run(session, bags[int(row)])
        assert found["scores"].shape == (1, n_classes)
        np.testing.assert_allclose(
            found["scores"][0], expected[i], rtol=1e-6 if coding == "hard" else 1e-3, atol=1e-5
        )
        assert model.classes[int(found["label"][0])] == model.predict(X[[i]])[0]


def test_the_metadata_say_what_it_was_made_of(tmp_path, book):
    coder = bs.BagOfWords(book, coding="soft", sharpness=20.0)
    names = ["☃", "brick", "grass"]
    fitted = bs.HistogramClassifier(C=1.0).fit(np.eye(30)[:9], np.array(names * 3))
    write_onnx(coder, tmp_path / "g.onnx", fitted)
    model = onnx.load(tmp_path / "g.onnx")
    texts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(texts["classes"]) == sorted(names)
    assert json.loads(texts["description"]) == book.description
    assert json.loads(texts["word_ids"]) == book.ids.tolist()
    assert (texts["coding"], texts["sharpness"], texts["scale"]) == ("soft", "20.0", "512.0")
    assert (texts["mapping"], texts["codebook"]) == ("sqrt", book.digest)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 18)]
    assert (model.producer_name, model.producer_version) == ("bowsaw", bs.__version__)
    assert model.doc_string == "descriptors of which a norm of 1 is 512"
    [rows] = model.graph.input
    assert rows.doc_string == "one descriptor per row, of which a norm of 1 is 512"
    assert all(output.doc_string for output in model.graph.output)
    # A unit that is unknown is not made up.
    bs.save(book, tmp_path / "words.npy")
    write_onnx(bs.load(tmp_path / "words.npy"), tmp_path / "g.onnx")
    model = onnx.load(tmp_path / "g.onnx")
    assert {entry.key: entry.value for entry in model.metadata_props}["scale"] == "null"
    assert model.doc_string == "descriptors in the words' own unit, which is unknown"


def test_the_same_model_gives_the_same_bytes_and_nan_is_an_error(tmp_path, book):
    for name in ("a", "g"):
        write_onnx(book, tmp_path / f"{name}.onnx")
    first = (tmp_path / "a.onnx").read_bytes()
    assert (tmp_path / "g.onnx").read_bytes() == first
    # The words are stored once.
    assert len(first) < book.words.nbytes + 8000
    rows = np.full((2, 128), np.nan, np.float32)
    with pytest.raises(Exception, match="out of data bounds"):
        run(session_of(tmp_path / "g.onnx"), rows)


def test_what_does_not_fit_is_refused(tmp_path, book, monkeypatch):
    path = tmp_path / "g.onnx"
    fitted = LinearSVC().fit(np.eye(30)[:9], np.arange(9) % 3)
    with pytest.raises(ParameterError, match="descriptors must be one of 'float32', 'uint8'"):
        write_onnx(book, path, descriptors="int8")
    with pytest.raises(MismatchError, match="histograms of 30 words"):
        write_onnx(book.only(book.ids[:29]), path, fitted)
    with pytest.raises(MismatchError, match="other words"):
        write_onnx(book.only(book.ids[::-1]), path, LinearModel.of(fitted, book))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ParameterError, match=r"pip install bowsaw\[onnx\]"):
        write_onnx(book, path)
    assert not path.exists()
