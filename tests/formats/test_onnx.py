"""The graph in onnxruntime gives Python's answer: hard codes identical, soft ones within 1e-5."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC
from tests.contracts import dense_sift as contract
from tests.nearest.test_search import NAMED, float32

import bowsaw as bs
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.classifier import LinearModel
from bowsaw.formats.onnx import write_onnx
from bowsaw.nearest.search import nearest_words


def runner(path):
    """Return a function that runs the graph on the descriptors of an image."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda rows: dict(zip(names, session.run(names, {"descriptors": rows}), strict=True))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "g.onnx"


@pytest.mark.parametrize(
    ("coding", "descriptors", "n_words", "estimator", "n_classes"),
    [
        ("hard", "float32", 1, None, 3),
        ("soft", "float32", 9, None, 3),
        ("hard", "uint8", 30, bs.HistogramClassifier(C=4.0), 3),
        ("soft", "uint8", 30, LogisticRegression(), 2),
        ("hard", "uint8", 30, make_pipeline(FunctionTransformer(np.sqrt), LinearSVC()), 2),
    ],
)
def test_images_get_the_answers_of_python(
    path, images, book, coding, descriptors, n_words, estimator, n_classes
):
    chosen = np.flatnonzero(np.isin(images[1], np.unique(images[1])[:n_classes]))
    bags, y = images[0][chosen], images[1][chosen]
    coder = bs.BagOfWords(book.only(book.ids[:n_words][::-1]), coding=coding)
    X = coder.transform(bags)
    fitted = estimator and estimator.fit(X, y)
    model = fitted and LinearModel.of(fitted, coder)
    write_onnx(coder, path, fitted, descriptors=descriptors)
    onnx.checker.check_model(path, full_check=True)
    run = runner(path)
    for i in range(len(bags)):
        found = run(bags[i].astype(descriptors))
        if coding == "hard":
            codes = nearest_words(bags[[i]], coder.words_in_use().words)
            assert np.array_equal(found["codes"], codes)
            np.testing.assert_array_equal(found["histogram"], X[[i]], strict=True)
        else:
            assert np.abs(found["histogram"] - X[[i]]).max() <= 1e-5
        if model:
            tolerance = 1e-6 if coding == "hard" else 1e-3
            expected = model.scores(X[[i]])
            np.testing.assert_allclose(found["scores"], expected, rtol=tolerance, atol=1e-5)
            assert model.classes[int(found["label"][0])] == model.predict(X[[i]])[0]


@settings(max_examples=40)
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12)),
    st.sampled_from([0.0, 0.1, 1e3, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e4]),
    st.integers(0, 2**32),
)
def test_ties_are_settled_as_in_python(tmp_path_factory, shape, origin, size, seed):
    # Integers on a small grid, moved and stretched: most descriptors have several nearest words,
    # whose sums differ by their last bit at most. Far from the origin, all are equal in float32.
    n_rows, n_words, n_dims = shape
    rng = np.random.default_rng(seed)
    words = (size * (rng.integers(-2, 3, (n_words, n_dims)) + origin)).astype(np.float32)
    rows = (size * (rng.integers(-2, 3, (n_rows, n_dims)) / 2 + origin)).astype(np.float32)
    path = tmp_path_factory.mktemp("ties") / "g.onnx"
    write_onnx(bs.Codebook(words), path)
    assert runner(path)(rows)["codes"].tolist() == nearest_words(bs.Bags(rows), words).tolist()


@pytest.mark.parametrize("family", ["one giant", "some giants", "words of all sizes"])
def test_words_far_from_all_others_change_no_code(path, family):
    rows, words = (float32(array) for array in NAMED[family](np.random.default_rng(0)))
    write_onnx(bs.Codebook(words), path)
    assert runner(path)(rows)["codes"].tolist() == nearest_words(bs.Bags(rows), words).tolist()


def test_sums_are_taken_in_the_order_of_the_dimensions(path):
    # Word 1 is word 0 with its entries in another order, so the two distances to 0 are equal but
    # for the order of summation. 1 + 2⁻⁵³ + 2⁻⁵³ is 1 in this order and more in the other.
    entries = np.array([1.0, 2.0**-26.5, 2.0**-26.5], dtype=np.float32)
    words, rows = np.stack([entries[::-1], entries]), np.zeros((1, 3), dtype=np.float32)
    first, second = (sum(float(value) ** 2 for value in word) for word in words)
    assert second < first
    write_onnx(bs.Codebook(words), path)
    assert runner(path)(rows)["codes"].tolist() == [1]
    assert nearest_words(bs.Bags(rows), words).tolist() == [1]


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_an_empty_bag_has_an_empty_histogram(path, book, coding):
    fitted = LinearSVC().fit(np.eye(30)[:9], np.arange(9) % 3)
    write_onnx(bs.BagOfWords(book, coding=coding), path, fitted, descriptors="float32")
    found = runner(path)(np.empty((0, 128), np.float32))
    assert np.array_equal(found["histogram"], np.zeros((1, 30)))
    np.testing.assert_allclose(found["scores"][0], fitted.intercept_, rtol=1e-6)
    assert found["label"].tolist() == [int(np.argmax(fitted.intercept_))]


def image_runner(path):
    """Return a function of images that adds their descriptors; None in place of an error."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    kind = onnx.helper.make_tensor_value_info("descriptors", onnx.TensorProto.FLOAT, ["rows", 128])
    model.graph.output.append(kind)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]

    def run(images):
        try:
            return dict(zip(names, session.run(names, {"image": images}), strict=True))
        except (InvalidArgument, Fail, RuntimeException):
            return None

    return run


@pytest.mark.parametrize("parameters", contract.PARAMETERS[::2], ids=str)
def test_descriptors_are_those_of_the_definition(path, parameters):
    about = bs.DenseSift(**parameters).description()
    write_onnx(bs.Codebook(np.eye(3, 128), scale=512, description=about), path)
    run = image_runner(path)
    contract.assert_agrees(lambda grey: (run(grey[None]) or {}).get("descriptors"), **parameters)


def test_images_are_reduced_as_defined(path):
    about = bs.DenseSift().description()
    write_onnx(bs.Codebook(np.eye(3, 128), scale=512, description=about), path)
    run = image_runner(path)
    for name, image in contract.LARGE.items():
        small, found = contract.reduced(name), run(image[None])
        if min(small.shape) < 16:
            assert found is None
        else:
            np.testing.assert_array_equal(found["descriptors"], run(small[None])["descriptors"])


@pytest.mark.parametrize(
    ("coding", "dtype", "projected"),
    [("hard", "uint8", False), ("soft", "uint8", True), ("soft", "float32", False)],
)
def test_a_batch_of_images_gets_the_classes_of_python(path, scenes, book, coding, dtype, projected):
    sift = bs.DenseSift(max_side=None, dtype=dtype)
    folder = bs.ImageFolder(scenes)
    images = [sift.load(folder.paths[i]).grey[:48, :60] for i in range(0, len(folder), 30)]
    scale = sift.scale / 512
    words = bs.Codebook(book.words * scale, scale=sift.scale, description=sift.description())
    if projected:
        projection = bs.Projection.pca([words.words], 9, scale=sift.scale)
        moved = projection.apply(words.words)
        words = bs.Codebook(
            moved, scale=sift.scale, description=words.description, projection=projection
        )
    coder = bs.BagOfWords(words, coding=coding)
    X = coder.transform(sift.transform(images))
    model = LinearModel.of(LinearSVC().fit(X, np.arange(len(X)) % 3), coder)
    write_onnx(coder, path, model)
    found = image_runner(path)(np.array(images))
    if coding == "hard":
        np.testing.assert_array_equal(found["histogram"], X, strict=True)
        counts = [np.bincount(codes, minlength=30) for codes in found["codes"]]
        np.testing.assert_allclose(counts, X * found["codes"].shape[1], rtol=1e-6)
    assert np.abs(found["histogram"] - X).max() <= 1e-5
    np.testing.assert_allclose(found["scores"], model.scores(X), rtol=1e-3, atol=1e-4)
    assert [model.classes[i] for i in found["label"]] == model.predict(X).tolist()


def test_the_metadata_say_what_it_was_made_of(path, book, tmp_path):
    coder = bs.BagOfWords(book, coding="soft", sharpness=20.0)
    names = ["☃", "brick", "grass"]
    fitted = bs.HistogramClassifier(C=1.0).fit(np.eye(30)[:9], np.array(names * 3))
    write_onnx(coder, path, fitted, descriptors="float32")
    model = onnx.load(path)
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
    write_onnx(coder, path, fitted)
    from_pixels = onnx.load(path)
    assert from_pixels.metadata_props == model.metadata_props
    [image] = from_pixels.graph.input
    assert image.doc_string.startswith("grey, black 0 to white 255; no side below 16 pixels")
    assert all(output.doc_string for output in from_pixels.graph.output)
    # A unit that is unknown is not made up.
    bs.save(book, tmp_path / "words.npy")
    write_onnx(bs.load(tmp_path / "words.npy"), path)
    model = onnx.load(path)
    assert {entry.key: entry.value for entry in model.metadata_props}["scale"] == "null"
    assert model.doc_string == "descriptors in the words' own unit, which is unknown"


def test_equal_models_give_equal_bytes_and_what_does_not_fit_is_refused(path, book):
    write_onnx(book, path, descriptors="float32")
    first = path.read_bytes()
    # The words are stored once.
    assert len(first) < book.words.nbytes + 8000
    with pytest.raises(Exception, match="out of data bounds"):
        runner(path)(np.full((2, 128), np.nan, np.float32))
    fitted = LinearSVC().fit(np.eye(30)[:9], np.arange(9) % 3)
    with pytest.raises(ParameterError, match="descriptors must be one of 'float32', 'uint8'"):
        write_onnx(book, path, descriptors="int8")
    with pytest.raises(MismatchError, match="histograms of 30 words"):
        write_onnx(book.only(book.ids[:29]), path, fitted)
    with pytest.raises(MismatchError, match="other words"):
        write_onnx(book.only(book.ids[::-1]), path, LinearModel.of(fitted, book))
    write_onnx(book, path, descriptors="float32")
    assert path.read_bytes() == first
