import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.classifier import DEFAULT_GRID, HistogramClassifier, nested_accuracy
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.evaluation.significance import accuracy_margin
from bowsaw.random_streams import stream
from bowsaw.selection.holdout import assign_folds


def histograms(n_a_class=20, n_words=40, n_classes=3, n_descriptors=200, seed=0):
    """Histograms of classes that differ by how often each word occurs."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(n_words, 0.5), size=n_classes)
    y = np.repeat(np.arange(n_classes), n_a_class)
    return rng.multinomial(n_descriptors, words[y]) / n_descriptors, y


def test_learns_and_says_what_it_used():
    X, y = histograms()
    X_new, y_new = histograms(n_a_class=30)
    model = HistogramClassifier(random_state=0).fit(X, y, X_new[::3], y_new[::3])
    assert mean_class_accuracy(y_new, model.predict(X_new), 3) > 0.99
    assert model.grid_.tolist() == list(DEFAULT_GRID)
    assert model.scores_.shape == model.grid_.shape
    assert model.C_ in DEFAULT_GRID
    assert model.coef_.shape == (3, 40)
    assert model.n_features_in_ == 40


@pytest.mark.parametrize("mapping", ["sqrt", "raw"])
def test_rows_have_unit_mean_norm_and_the_unit_of_histograms_changes_nothing(mapping):
    X, y = histograms()
    shares = HistogramClassifier(mapping, random_state=0).fit(X, y)
    counts = HistogramClassifier(mapping, random_state=0).fit(200 * X, y)
    mapped = np.sqrt(X) if mapping == "sqrt" else X
    assert np.linalg.norm(mapped * shares.scale_, axis=1).mean() == pytest.approx(1)
    assert shares.C_ == counts.C_
    found = counts.decision_function(200 * X)
    np.testing.assert_allclose(shares.decision_function(X), found, atol=1e-8)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_the_square_root_is_signed_and_odd(values):
    X = np.array([values])
    mapped = HistogramClassifier("sqrt")._map(X)
    np.testing.assert_allclose(mapped * np.abs(mapped), X, rtol=1e-12)
    assert np.array_equal(HistogramClassifier("sqrt")._map(-X), -mapped)
    assert np.array_equal(HistogramClassifier("raw")._map(X), X)


@pytest.mark.parametrize("n_words", [10, 500], ids=["fewer words than rows", "more words"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_equal_to_the_plain_machine_on_mapped_rows(n_words, n_classes):
    # Dense rows that are longer than many go through the rotation; it must not show.
    rng = np.random.default_rng(3)
    X = rng.dirichlet(np.full(n_words, 2.0), size=40)
    y = np.arange(40) % n_classes
    X[np.arange(40), y] += 0.02
    model = HistogramClassifier(C=3.0, tol=1e-8).fit(X, y)
    rows = np.sqrt(X) * model.scale_
    plain = LinearSVC(C=3.0, dual=False, tol=1e-8, max_iter=5000).fit(rows, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)
    assert np.array_equal(model.predict(X), plain.predict(rows))


def test_a_large_c_is_chosen_where_a_small_one_underfits():
    # Rows of two classes that only a large C separates: one word, 0.010 or 0.011 of the mass.
    random, y = np.random.default_rng(0), np.arange(80) % 2
    rare = np.where(y == 1, 0.011, 0.010)
    rest = random.dirichlet(np.full(3, 1e6), size=80) * (1 - rare)[:, None]
    X = np.column_stack([rare, rest])
    model = HistogramClassifier("raw", grid=[1e-3, 1e6], random_state=0)
    model.fit(X[:40], y[:40], X[40:], y[40:])
    assert (model.C_, model.scores_.tolist()) == (1e6, [0.5, 1.0])
    assert model.fit(X[:40], y[:40]).C_ == 1e6


def test_a_small_c_is_chosen_where_a_large_one_learns_the_noise():
    # Training labels are wrong now and then, and words are more than the rows.
    random, y = np.random.default_rng(0), np.arange(880) % 2
    X = random.dirichlet(np.full(200, 0.5), size=880)
    X[:, 0] += 0.02 * y
    wrong = y[:80].copy()
    wrong[::5] = 1 - wrong[::5]
    model = HistogramClassifier("raw", grid=[0.1, 1e5]).fit(X[:80], wrong, X[80:], y[80:])
    assert model.C_ == 0.1
    assert model.scores_[0] > model.scores_[1] + 0.03


def test_validation_rows_choose_the_smallest_best_c_and_train_nothing():
    X, y = histograms()
    model = HistogramClassifier(grid=[100.0, 1.0, 10.0, 1.0]).fit(X, y, X, y)
    assert (model.grid_.tolist(), model.scores_.tolist()) == ([1.0, 10.0, 100.0], [1.0] * 3)
    assert model.C_ == 1.0
    chosen = HistogramClassifier().fit(X, y, *histograms(n_a_class=5, seed=9))
    given_c = HistogramClassifier(C=chosen.C_).fit(X, y)
    assert np.array_equal(chosen.coef_, given_c.coef_)
    assert chosen.scale_ == given_c.scale_
    assert given_c.grid_.size == given_c.scores_.size == 0


def test_validation_may_lack_a_class_and_a_class_may_have_two_rows():
    X, y = histograms()
    model = HistogramClassifier().fit(X, y, X[y != 2], y[y != 2])
    assert model.scores_.max() == 1.0
    assert model.classes_.tolist() == [0, 1, 2]
    small = np.concatenate([np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:2]])
    assert HistogramClassifier(random_state=0).fit(X[small], y[small]).scores_.max() == 1.0


def test_the_same_on_any_number_of_threads():
    X, y = histograms(n_a_class=10, n_words=300, n_classes=4, n_descriptors=60)
    models = []
    for blas, jobs in ((1, None), (2, 2), (2, 3)):
        with threadpool_limits(blas):
            models.append(HistogramClassifier(random_state=4, n_jobs=jobs).fit(X, y))
    for other in models[1:]:
        assert np.array_equal(models[0].coef_, other.coef_)
        assert np.array_equal(models[0].scores_, other.scores_)


def test_labels_of_any_kind_named_columns_and_zero_rows():
    X, y = histograms()
    names = np.array(["tree", "bow", "saw"])[y]
    frame = pd.DataFrame(X, columns=[f"word{i:04d}" for i in range(X.shape[1])])
    model = HistogramClassifier(C=1.0).fit(frame, names)
    assert model.classes_.tolist() == ["bow", "saw", "tree"]
    assert model.feature_names_in_[2] == "word0002"
    assert (model.predict(frame) == names).mean() > 0.99
    X[::7] = 0
    assert HistogramClassifier(C=1.0).fit(X, y).predict(np.zeros((2, 40))).shape == (2,)
    assert HistogramClassifier(C=1.0).fit(np.zeros((4, 3)), [0, 1, 0, 1]).scale_ == 1.0


def test_the_whole_grid_converges_and_an_unfinished_machine_is_reported():
    X, y = histograms(n_a_class=15, n_words=8, n_classes=5, n_descriptors=50)
    for cost in DEFAULT_GRID:
        assert HistogramClassifier("raw", C=cost).fit(X, y).n_iter_ < 2000
    with pytest.warns(ConvergenceWarning, match=r"C = 1000 .* max_iter = 1 steps.* Raise max_iter"):
        HistogramClassifier(C=1000.0, max_iter=1).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mapping": "log"}, r"mapping must be .*; got 'log'"),
        ({"C": 0}, "C must be a finite number above 0; got 0"),
        ({"C": "best"}, "got 'best'"),
        ({"C": float("inf")}, "got inf"),
        ({"grid": []}, "grid must be a list"),
        ({"grid": [1, -1]}, "grid must be a finite number above 0; got -1"),
        ({"grid": 3.0}, "grid must be a list"),
        ({"cv": 1}, "cv must be an integer of at least 2; got 1"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"tol": 0.0}, "tol must be a finite number above 0"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = histograms()
    with pytest.raises(ParameterError, match=message):
        HistogramClassifier(**parameters).fit(X, y)


def test_bad_data_are_named():
    X, y = histograms()
    for data, message in (
        ((X[:5], y[:5]), r"at least 2 classes; got 1 class, 0\. Add"),
        ((X[:21], y[:21]), "has 1 row, and cross-validation needs 2"),
        ((X, y, X), "y_validation is missing"),
        ((X, y, None, y), "X_validation is missing"),
        ((X, y, X, y[:4]), r"one entry per row of X_validation \(60\)"),
        ((X[:40], y[:40], X, y), "which y does not"),
        ((X, y, X[:, :39], y), "39 features"),
    ):
        with pytest.raises(ValueError, match=message):
            HistogramClassifier().fit(*data)


def test_a_nested_accuracy_is_what_a_plain_loop_gives():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["fir", "oak", "yew"], [9, 12, 10]))
    X = rng.dirichlet(np.ones(20), len(y))
    model = HistogramClassifier(n_jobs=1, random_state=3)
    labels = np.unique(y, return_inverse=True)[1]
    folds = assign_folds(labels, 5, stream(7, "outer folds"))
    found = []
    for fold in range(5):
        train, test = folds != fold, folds == fold
        right = clone(model).fit(X[train], y[train]).predict(X[test]) == y[test]
        found.append(np.mean([right[y[test] == name].mean() for name in set(y)]))
    mean, margin = nested_accuracy(model, X, y, seed=7)
    assert mean == pytest.approx(np.mean(found))
    assert margin == pytest.approx(accuracy_margin(found, 1 / 4, [9, 12, 10]))
    with pytest.raises(DataError, match="class 'elm' has 1 row"):
        nested_accuracy(model, X[:3], ["elm", "oak", "oak"])
