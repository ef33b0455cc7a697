"""A model decides like the estimator that it was taken from, or the estimator is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

import bowsaw as bs
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.formats.classifier import LinearModel, as_recogniser

N_WORDS = 7


@pytest.fixture(scope="module")
def book():
    return bs.Codebook(np.random.default_rng(0).normal(size=(N_WORDS, 3)), scale=2.0)


def histograms(n, seed=0):
    drawn = np.random.default_rng(seed).random((n, N_WORDS)) ** 2
    return drawn / drawn.sum(axis=1, keepdims=True)


def labelled(n_classes, names=None):
    X = histograms(60)
    y = np.digitize(
        X[:, 0] - X[:, 1], np.quantile(X[:, 0] - X[:, 1], np.arange(1, n_classes) / n_classes)
    )
    return X, y if names is None else np.array(names)[y]


ESTIMATORS = {
    "ours": lambda: bs.HistogramClassifier(C=2.0),
    "ours, raw": lambda: bs.HistogramClassifier("raw", C=2.0),
    "svm": lambda: LinearSVC(C=3.0),
    "svm without intercept": lambda: LinearSVC(fit_intercept=False),
    "logistic": lambda: LogisticRegression(),
    "ridge": lambda: RidgeClassifier(),
    "discriminant": lambda: LinearDiscriminantAnalysis(),
    "root and svm": lambda: make_pipeline(FunctionTransformer(np.sqrt), LinearSVC()),
    "root and ours": lambda: make_pipeline(
        FunctionTransformer(np.sqrt), "passthrough", bs.HistogramClassifier("raw", C=1.0)
    ),
}


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_decisions_are_those_of_the_estimator_to_the_bit(book, name, n_classes):
    X, y = labelled(n_classes)
    fitted = ESTIMATORS[name]().fit(X, y)
    model = LinearModel.of(fitted, book)
    for n in (1, 2, 50):
        rows = histograms(n, seed=1)
        assert np.array_equal(model.decision_function(rows), fitted.decision_function(rows))
        assert model.predict(rows).tolist() == fitted.predict(rows).tolist()


def test_the_kind_of_labels_stays(book):
    for names in (["sky", "sea", "«☃»"], [3, 5, -2], [0.0, 1.0, -2.0]):
        X, y = labelled(3, names)
        model = LinearModel.of(bs.HistogramClassifier(C=1.0).fit(X, y), book)
        assert model.classes == tuple(np.unique(y).tolist())
        assert set(model.predict(X).tolist()) <= set(names)
        assert model.predict(X).dtype.kind == y.dtype.kind
    X, y = labelled(2, [False, True])
    assert LinearModel.of(LinearSVC().fit(X, y), book).classes == (False, True)


def test_two_classes_have_two_scores_that_are_opposite(book):
    X, y = labelled(2)
    model = LinearModel.of(LinearSVC().fit(X, y), book)
    scores = model.scores(X)
    assert scores.shape == (60, 2)
    assert np.array_equal(scores[:, 0], -scores[:, 1])
    assert np.array_equal(scores[:, 1], model.decision_function(X))


def test_a_pipeline_may_begin_with_its_coder(book):
    bags = bs.Bags.from_list(
        [np.random.default_rng(i).normal(i % 2, 1, (20, 3)) for i in range(12)], scale=2.0
    )
    coder = bs.BagOfWords(book, coding="soft", sharpness=3.0)
    y = np.arange(12) % 2
    whole = make_pipeline(coder, FunctionTransformer(np.sqrt), LinearSVC()).fit(bags, y)
    model = LinearModel.of(whole)
    assert (model.coding, model.sharpness, model.codebook) == ("soft", 3.0, book.digest)
    again = model.coder(book).transform(bags)
    # The pipeline takes the root of float32 histograms in float32, the model in float64.
    np.testing.assert_allclose(
        model.decision_function(again), whole.decision_function(bags), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ParameterError, match="Leave coder out"):
        LinearModel.of(whole, coder)
    # Whoever has to name a coder may name the pipeline's own, or its codebook.
    for given in (coder, whole[0], book):
        bow, found = as_recogniser(given, whole)
        assert (bow.coding, bow.sharpness_in_use(), found.codebook) == ("soft", 3.0, model.codebook)
    with pytest.raises(MismatchError, match="the coder gives hard codes"):
        as_recogniser(bs.BagOfWords(book), whole)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: GaussianNB(), "GaussianNB has no coef_"),
        # One machine a pair of classes: three of them, as many as classes, and not what they seem.
        (lambda: SVC(kernel="linear"), "SVC does not decide by its coef_"),
        (lambda: make_pipeline(StandardScaler(), LinearSVC()), "step 'standardscaler'"),
        (
            lambda: make_pipeline(FunctionTransformer(np.sqrt), bs.HistogramClassifier(C=1.0)),
            "square root twice",
        ),
        (
            lambda: make_pipeline(*[FunctionTransformer(np.sqrt)] * 2, LinearSVC()),
            "cannot be exported",
        ),
    ],
)
def test_what_is_not_the_formula_is_refused(book, make, told):
    fitted = make().fit(*labelled(3))
    with pytest.raises(ParameterError, match=told):
        LinearModel.of(fitted, book)


def test_an_estimator_that_is_not_fitted_is_refused(book):
    with pytest.raises(ParameterError, match="it is not fitted"):
        LinearModel.of(LinearSVC(), book)


def test_a_classifier_needs_its_codebook(book):
    fitted = LinearSVC().fit(*labelled(3))
    with pytest.raises(ParameterError, match="coder is missing"):
        LinearModel.of(fitted)
    with pytest.raises(MismatchError, match="histograms of 7 words, and the codebook has 6"):
        LinearModel.of(fitted, book.without([3]))


def test_another_codebook_is_refused(book):
    model = LinearModel.of(LinearSVC().fit(*labelled(3)), book)
    assert model.coder(book).words_in_use() == book
    assert model.coder(book.with_provenance(seed=1)).coding == "hard"
    for other in (
        book.only(book.ids[::-1]),
        bs.Codebook(book.words * np.float32(1.001), scale=2.0),
        bs.Codebook(book.words),
    ):
        with pytest.raises(MismatchError, match="other words"):
            model.coder(other)


def test_a_coder_and_a_model_must_code_alike(book):
    fitted = LinearSVC().fit(*labelled(3))
    soft = bs.BagOfWords(book, coding="soft", sharpness=5.0)
    model = LinearModel.of(fitted, soft)
    for coder in (soft, book):
        found, same = as_recogniser(coder, model)
        assert (found.coding, found.sharpness, same) == ("soft", 5.0, model)
    assert as_recogniser(soft, fitted)[1].sharpness == 5.0
    for other in (bs.BagOfWords(book), bs.BagOfWords(book, coding="soft", sharpness=4.0)):
        with pytest.raises(MismatchError, match="codes of sharpness"):
            as_recogniser(other, model)


GOOD = {
    "weights": np.zeros((3, 2)),
    "intercepts": np.zeros(3),
    "classes": ["a", "b", "c"],
    "codebook": "digest",
}


@pytest.mark.parametrize(
    ("change", "kind", "told"),
    [
        ({"classes": ["a", "b"]}, DataError, r"weights must be \(1, n_words\) for 2 classes"),
        ({"classes": ["a", "b", "b"]}, DataError, "distinct strings"),
        ({"classes": ["a", "b", 1]}, DataError, "distinct strings"),
        ({"classes": ["a", "b", None]}, DataError, "distinct strings"),
        ({"classes": ["a"]}, DataError, "at least 2"),
        ({"classes": []}, DataError, "distinct strings"),
        ({"classes": [0, 1, 2**70]}, DataError, "within 64 bits"),
        ({"classes": [0.0, 1.0, float("inf")]}, DataError, "finite"),
        ({"weights": np.zeros(3)}, DataError, "weights must be"),
        ({"weights": np.zeros((3, 0))}, DataError, "weights must be"),
        ({"weights": np.full((3, 2), np.nan)}, DataError, "finite"),
        ({"intercepts": np.zeros(2)}, DataError, "intercepts must have shape"),
        ({"intercepts": [0, 0, np.inf]}, DataError, "finite"),
        ({"mapping": "log"}, ParameterError, "mapping must be"),
        ({"scale": 0.0}, ParameterError, "scale must be"),
        ({"coding": "firm"}, ParameterError, "coding must be"),
        ({"coding": "soft"}, ParameterError, "sharpness must be"),
        ({"codebook": ""}, ParameterError, "codebook must be a digest"),
        ({"description": 3}, ParameterError, "description must be"),
    ],
)
def test_numbers_that_make_no_model_are_refused(change, kind, told):
    LinearModel(**GOOD)
    with pytest.raises(kind, match=told):
        LinearModel(**(GOOD | change))


@pytest.mark.parametrize("X", [np.zeros((3, 6)), np.zeros(7), [["a"] * 7]])
def test_what_is_no_histogram_is_refused(book, X):
    model = LinearModel.of(LinearSVC().fit(*labelled(3)), book)
    with pytest.raises(DataError, match="X must be"):
        model.predict(X)
