"""A model decides like its estimator, is read back equal, and nothing else is taken for one."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

import bowsaw as bs
from bowsaw.errors import DataError, FormatError, MismatchError, ParameterError
from bowsaw.formats.classifier import LinearModel, as_recogniser, load_classifier, save_classifier

BOOK = bs.Codebook(
    np.random.default_rng(0).normal(size=(7, 3)), scale=2.0, description={"name": "made up"}
)
SOFT = bs.BagOfWords(BOOK, coding="soft", sharpness=3.0)
ROOT = FunctionTransformer(np.sqrt)


def histograms(n, seed=0):
    drawn = np.random.default_rng(seed).random((n, 7)) ** 2
    return drawn / drawn.sum(axis=1, keepdims=True)


def labelled(names):
    X = histograms(60)
    lead = X[:, 0] - X[:, 1]
    places = np.digitize(lead, np.quantile(lead, np.arange(1, len(names)) / len(names)))
    return X, np.array(names)[places]


def fitted():
    return LinearSVC(C=5.0).fit(*labelled(range(3)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    "estimator",
    [
        bs.HistogramClassifier(C=2.0),
        bs.HistogramClassifier("raw", C=2.0),
        LinearSVC(fit_intercept=False),
        LogisticRegression(),
        RidgeClassifier(),
        LinearDiscriminantAnalysis(),
        make_pipeline(ROOT, LinearSVC()),
        make_pipeline(ROOT, "passthrough", bs.HistogramClassifier("raw", C=1.0)),
    ],
)
def test_decisions_are_those_of_the_estimator_to_the_bit(estimator):
    for names in ([3, 5, -2, 8, 0], [0.0, 1.0, -2.0], [False, True], ["sky", "☃"]):
        X, y = labelled(names)
        model = LinearModel.of(estimator.fit(X, y), BOOK)
        assert model.classes == tuple(np.unique(y).tolist())
        assert model.predict(X).dtype.kind == y.dtype.kind
        for n in (1, 2, 50):
            rows = histograms(n, seed=1)
            decisions = estimator.decision_function(rows)
            assert np.array_equal(model.decision_function(rows), decisions)
            assert model.predict(rows).tolist() == estimator.predict(rows).tolist()
        both = np.stack([-decisions, decisions], axis=1) if len(names) == 2 else decisions
        assert np.array_equal(model.scores(rows), both)


def test_a_coder_and_a_model_must_code_alike(path):
    bags = bs.Bags.from_list(
        [np.random.default_rng(i).normal(i % 2, 1, (20, 3)) for i in range(12)], scale=2.0
    )
    whole = make_pipeline(SOFT, ROOT, LinearSVC()).fit(bags, np.arange(12) % 2)
    model = LinearModel.of(whole)
    assert (model.coding, model.sharpness, model.codebook) == ("soft", 3.0, BOOK.digest)
    # The pipeline takes the root of float32 histograms in float32, the model in float64.
    found = model.decision_function(model.coder(BOOK).transform(bags))
    np.testing.assert_allclose(found, whole.decision_function(bags), rtol=1e-5, atol=1e-6)
    with pytest.raises(ParameterError, match="Leave coder out"):
        LinearModel.of(whole, SOFT)
    # A coder that must be named may be the pipeline's own, or its codebook.
    for named, estimator in ((SOFT, whole), (whole[0], whole), (BOOK, whole), (BOOK, model)):
        bow, found = as_recogniser(named, estimator)
        assert (bow.coding, bow.sharpness_in_use(), found.codebook) == ("soft", 3.0, model.codebook)
    assert as_recogniser(SOFT, fitted())[1].sharpness == 3.0
    with pytest.raises(MismatchError, match="the coder gives hard codes"):
        as_recogniser(bs.BagOfWords(BOOK), whole)
    with pytest.raises(MismatchError, match="codes of sharpness"):
        as_recogniser(bs.BagOfWords(BOOK, coding="soft", sharpness=4.0), model)
    model = LinearModel.of(fitted(), BOOK)
    assert model.coder(BOOK.with_provenance(seed=1)).coding == "hard"
    moved = bs.Codebook(BOOK.words * np.float32(1.001), scale=2.0)
    for other in (BOOK.only(BOOK.ids[::-1]), moved, bs.Codebook(BOOK.words)):
        with pytest.raises(MismatchError, match="other words"):
            model.coder(other)
        with pytest.raises(MismatchError, match="other words"):
            save_classifier(model, path, other)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (GaussianNB(), "GaussianNB has no coef_"),
        # One machine per pair of classes: three of them, as many as classes.
        (SVC(kernel="linear"), "SVC does not decide by its coef_"),
        (make_pipeline(StandardScaler(), LinearSVC()), "step 'standardscaler'"),
        (make_pipeline(ROOT, bs.HistogramClassifier(C=1.0)), "square root twice"),
        (make_pipeline(ROOT, ROOT, LinearSVC()), "cannot be exported"),
    ],
)
def test_estimators_that_do_not_decide_by_the_formula_are_refused(estimator, message):
    with pytest.raises(ParameterError, match=message):
        LinearModel.of(estimator.fit(*labelled(range(3))), BOOK)


def test_an_estimator_is_fitted_and_has_its_codebook():
    with pytest.raises(ParameterError, match="it is not fitted"):
        LinearModel.of(LinearSVC(), BOOK)
    with pytest.raises(ParameterError, match="coder is missing"):
        LinearModel.of(fitted())
    with pytest.raises(MismatchError, match="histograms of 7 words, and the codebook has 6"):
        LinearModel.of(fitted(), BOOK.without([3]))
    for X in (np.zeros((3, 6)), np.zeros(7), [["a"] * 7]):
        with pytest.raises(DataError, match="X must be"):
            LinearModel.of(fitted(), BOOK).predict(X)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"classes": ["a", "b"]}, DataError, r"weights must be \(1, n_words\) for 2 classes"),
        ({"classes": ["a", "b", "b"]}, DataError, "distinct strings"),
        ({"classes": ["a", "b", 1]}, DataError, "distinct strings"),
        ({"classes": ["a"]}, DataError, "at least 2"),
        ({"classes": [0, 1, 2**70]}, DataError, "within 64 bits"),
        ({"classes": [0.0, 1.0, float("inf")]}, DataError, "finite"),
        ({"weights": np.zeros((3, 0))}, DataError, "weights must be"),
        ({"weights": np.full((3, 2), np.nan)}, DataError, "finite"),
        ({"intercepts": np.zeros(2)}, DataError, "intercepts must have shape"),
        ({"mapping": "log"}, ParameterError, "mapping must be"),
        ({"scale": 0.0}, ParameterError, "scale must be"),
        ({"coding": "soft"}, ParameterError, "sharpness must be"),
        ({"codebook": ""}, ParameterError, "codebook must be a digest"),
        ({"description": 3}, ParameterError, "description must be"),
    ],
)
def test_numbers_that_make_no_model_are_refused(change, error, message):
    good = {"weights": np.zeros((3, 2)), "intercepts": np.zeros(3), "classes": ["a", "b", "c"]}
    LinearModel(**good, codebook="digest")
    with pytest.raises(error, match=message):
        LinearModel(**(good | {"codebook": "digest"} | change))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.floats(-1e6, 1e6)


@settings(max_examples=30)
@given(
    st.one_of(
        st.lists(kind, min_size=2, max_size=5, unique=True)
        for kind in (TEXT, st.integers(-(2**63), 2**63 - 1), NUMBERS)
    ),
    st.integers(1, 4),
    st.none() | st.floats(1e-3, 1e3),
    st.builds(
        dict,
        mapping=st.sampled_from(["sqrt", "raw"]),
        scale=st.floats(1e-6, 1e6),
        description=st.none() | st.dictionaries(TEXT, NUMBERS, max_size=2),
        provenance=st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    st.booleans(),
    st.lists(NUMBERS, min_size=25, max_size=25),
)
def test_what_was_saved_is_loaded(
    tmp_path_factory, classes, n_words, soft, fields, fortran, values
):
    drawn = np.resize(values, (1 if len(classes) == 2 else len(classes), n_words + 1))
    weights = np.asfortranarray(drawn[:, 1:]) if fortran else drawn[:, 1:]
    fields |= {"coding": "soft" if soft else "hard", "sharpness": soft, "codebook": "x"}
    model = LinearModel(weights, drawn[:, 0], classes, **fields)
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    save_classifier(model, path)
    again = load_classifier(path)
    assert all(getattr(again, name) == getattr(model, name) for name in (*fields, "classes"))
    assert again.weights.tobytes() == model.weights.tobytes()
    assert again.weights.strides == model.weights.strides
    assert again.intercepts.tobytes() == model.intercepts.tobytes()
    first = path.read_bytes()
    save_classifier(again, path)
    assert path.read_bytes() == first


def test_a_saved_estimator_is_read_by_us_and_by_safetensors(path):
    estimator, X = fitted(), histograms(30, seed=2)
    save_classifier(estimator, path, BOOK, provenance={"seed": 3})
    model = load_classifier(path)
    assert np.array_equal(model.decision_function(X), estimator.decision_function(X))
    assert (model.provenance, model.description) == ({"seed": 3}, {"name": "made up"})
    assert model.codebook == BOOK.digest
    with safe_open(path, framework="numpy") as file:
        assert file.get_tensor("weights").shape == (3, 7)
        assert file.get_tensor("intercepts").dtype == np.float64
        metadata = file.metadata()
    assert (metadata["format"], metadata["format_version"]) == ("bowsaw-classifier", "1")
    assert json.loads(metadata["classes"]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "bowsaw-codebook"}, "it is a bowsaw-codebook"),
        ({"format": None}, "safetensors file of another tool"),
        ({"signed": False}, "does not match its checksum"),
        ({"format": "two\nlines"}, r"it is a two\\nlines"),
        ({"format_version": "2"}, "it has format 2, and this version of bowsaw reads 1"),
        ({"classes": "[" * 100_000}, "recursion"),
        ({"classes": '"abc'}, "Unterminated"),
        ({"classes": "3"}, "not iterable"),
        ({"scale": "much"}, "could not convert"),
        ({"coding": "soft"}, "sharpness must be"),
        ({"coding": None}, "coding"),
        ({"tensors": {"weights": np.zeros((3, 0))}}, "weights is refused"),
        ({"tensors": {"weights": np.full((3, 7), np.inf)}}, "finite"),
        ({"tensors": {"more": np.zeros(1)}}, "it holds the tensors"),
    ],
)
def test_a_forged_file_is_refused_with_the_reason(path, forge, changes, message):
    save_classifier(fitted(), path, BOOK)
    forge(path)
    load_classifier(path)
    forge(path, **changes)
    with pytest.raises(FormatError, match=message) as caught:
        load_classifier(path)
    assert str(caught.value).startswith(f"{path} cannot be read as a classifier: ")
    assert str(caught.value).endswith("Make one with 'bowsaw fit'.")
    assert "\n" not in str(caught.value)


def test_pickles_folders_and_missing_files_are_refused(path, tmp_path):
    path.write_bytes(pickle.dumps(fitted()))
    with pytest.raises(FormatError, match="cannot be read"):
        load_classifier(path)
    for missing in (tmp_path, tmp_path / "no.safetensors", "no\0pe"):
        with pytest.raises(FormatError, match="is not a file"):
            load_classifier(missing)
