"""What scikit-learn's users may expect of every estimator that takes bags."""

from __future__ import annotations

import inspect
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

import bowsaw as bs

BOOK = bs.Codebook(np.random.default_rng(5).integers(0, 200, (9, 6)), range(30, 39), scale=512)
ESTIMATORS = {
    "k-means": bs.KMeansCodebook(7, max_iter=5),
    "k-means on a sample": bs.KMeansCodebook(7, max_iter=5, sample=100),
    "hard": bs.BagOfWords(BOOK),
    "hard, bare array": bs.BagOfWords(BOOK.words / 512),
    "hard, learned words": bs.BagOfWords(bs.KMeansCodebook(7, max_iter=5)),
    "soft": bs.BagOfWords(BOOK, coding="soft"),
    "soft, auto": bs.BagOfWords(BOOK, coding="soft", sharpness="auto"),
    "soft, perplexity": bs.BagOfWords(BOOK, coding="soft", perplexity=3.0),
}
CODERS = {name: e for name, e in ESTIMATORS.items() if isinstance(e, bs.BagOfWords)}
ANY = pytest.mark.parametrize("name", ESTIMATORS)
CODER = pytest.mark.parametrize("name", CODERS)


@pytest.fixture(scope="module")
def bags():
    """Bytes, as dense SIFT stores them: who forgets the scale is off by a factor of 512."""
    random = np.random.default_rng(1)
    values = random.integers(0, 120, (900, 6)).astype(np.uint8)
    values[:450, :3] += 80
    about = {"description": {"name": "test"}, "digests": np.arange(30)}
    return bs.Bags(values, np.arange(0, 901, 30), scale=512, **about)


@pytest.fixture(scope="module")
def y():
    return np.repeat(["cat", "dog"], 15)


def outcome(estimator, bags):
    """What a fitted estimator does, for exact comparison."""
    if isinstance(estimator, bs.BagOfWords):
        return estimator.codebook_, estimator.transform(bags).tolist()
    return estimator.codebook_, estimator.objectives_, estimator.counts_.tolist()


# -- parameters ------------------------------------------------------------------------------------


@ANY
def test_parameters_are_those_of_the_signature(name):
    estimator = ESTIMATORS[name]
    signature = inspect.signature(type(estimator).__init__).parameters
    assert set(estimator.get_params(deep=False)) == set(signature) - {"self"}
    for parameter, value in estimator.get_params(deep=False).items():
        assert getattr(estimator, parameter) is value


@ANY
def test_parameters_can_be_set(name):
    estimator = clone(ESTIMATORS[name])
    assert estimator.set_params(n_jobs=3, verbose=True) is estimator
    assert (estimator.n_jobs, estimator.verbose) == (3, True)
    with pytest.raises(ValueError, match="Invalid parameter 'n_wordz'"):
        estimator.set_params(n_wordz=3)


def test_parameters_of_the_words_learner_can_be_set():
    coder = bs.BagOfWords(bs.KMeansCodebook(7))
    coder.set_params(codebook__n_words=3)
    assert coder.codebook.n_words == 3
    assert coder.get_params()["codebook__n_words"] == 3


@ANY
def test_a_clone_has_the_parameters_and_nothing_learned(name, bags, y):
    fitted = clone(ESTIMATORS[name]).fit(bags, y)
    again = clone(fitted)
    assert not [attribute for attribute in vars(again) if attribute.endswith("_")]
    assert repr(again) == repr(clone(ESTIMATORS[name]))
    assert outcome(again.fit(bags, y), bags) == outcome(fitted, bags)


def test_a_clone_shares_the_codebook_that_cannot_change():
    assert clone(bs.BagOfWords(BOOK)).codebook is BOOK


@ANY
def test_nothing_is_checked_before_fit(name):
    estimator = type(ESTIMATORS[name])(**{"codebook": None} if name in CODERS else {"n_words": -1})
    assert estimator.set_params(n_jobs="many").n_jobs == "many"


@ANY
def test_fit_changes_neither_parameters_nor_bags(name, bags, y):
    estimator = clone(ESTIMATORS[name])
    before = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    digest = bags.content_digest()
    assert estimator.fit(bags, y) is estimator
    after = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    assert after == before
    assert bags.content_digest() == digest


@ANY
def test_estimators_draw_themselves(name):
    assert type(ESTIMATORS[name]).__name__ in repr(ESTIMATORS[name])
    assert type(ESTIMATORS[name]).__name__ in ESTIMATORS[name]._repr_html_()


# -- results ---------------------------------------------------------------------------------------


@ANY
def test_results_are_the_same_on_any_number_of_threads(name, bags, y):
    outcomes = []
    for n_jobs in (1, 2, 3):
        estimator = clone(ESTIMATORS[name]).set_params(n_jobs=n_jobs)
        if "codebook__n_jobs" in estimator.get_params():
            estimator.set_params(codebook__n_jobs=n_jobs)
        outcomes.append(outcome(estimator.fit(bags, y), bags))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@ANY
def test_fitting_twice_is_fitting_once(name, bags, y):
    estimator = clone(ESTIMATORS[name]).fit(bags, y)
    first = outcome(estimator, bags)
    estimator.fit(bags[::-1], y[::-1])
    assert outcome(estimator.fit(bags, y), bags) == first


@ANY
def test_the_seed_decides(name, bags, y):
    fits = [clone(ESTIMATORS[name]).set_params(random_state=3).fit(bags, y) for _ in range(2)]
    assert outcome(fits[0], bags) == outcome(fits[1], bags)


@ANY
def test_lists_of_arrays_and_bags_are_one(name, bags, y):
    plain = bs.Bags(bags.values, bags.offsets)
    listed = list(plain)
    estimator, other = clone(ESTIMATORS[name]).fit(plain, y), clone(ESTIMATORS[name]).fit(listed, y)
    assert outcome(estimator, plain) == outcome(other, listed)


@ANY
def test_a_pipe_hears_nothing_even_when_verbose(name, bags, y, capfd):
    estimator = clone(ESTIMATORS[name]).set_params(verbose=True).fit(bags, y)
    outcome(estimator, bags)
    assert capfd.readouterr() == ("", "")


@ANY
@pytest.mark.parametrize("fitted", [False, True])
def test_estimators_travel(name, fitted, bags, y, tmp_path):
    estimator = clone(ESTIMATORS[name])
    if fitted:
        estimator.fit(bags, y)
    joblib.dump(estimator, tmp_path / "estimator")
    for again in (pickle.loads(pickle.dumps(estimator)), joblib.load(tmp_path / "estimator")):
        assert repr(again) == repr(estimator)
        if not fitted:
            again.fit(bags, y)
        assert outcome(again, bags) == outcome(clone(estimator).fit(bags, y), bags)


@ANY
def test_scikit_learn_knows_what_is_fitted(name, bags, y):
    estimator = clone(ESTIMATORS[name])
    if name in ("hard", "hard, bare array", "soft"):
        assert check_is_fitted(estimator) is None
    else:
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)
    assert check_is_fitted(estimator.fit(bags, y)) is None


# -- tables ----------------------------------------------------------------------------------------


@CODER
def test_columns_are_named_after_words(name, bags, y):
    coder = clone(CODERS[name]).fit(bags, y)
    names = coder.get_feature_names_out()
    assert names.dtype == object
    assert names.tolist() == [f"word{i:04d}" for i in coder.codebook_.ids]


@CODER
def test_histograms_can_be_tables(name, bags, y):
    plain = clone(CODERS[name]).fit(bags, y).transform(bags)
    coder = clone(CODERS[name]).set_output(transform="pandas")
    for table in (coder.fit(bags, y).transform(bags), coder.fit_transform(bags, y)):
        assert isinstance(table, pd.DataFrame)
        assert table.columns.tolist() == coder.get_feature_names_out().tolist()
        assert (table.dtypes == np.float32).all()
        np.testing.assert_array_equal(table.to_numpy(), plain)
    with config_context(transform_output="pandas"):
        assert isinstance(clone(CODERS[name]).fit(bags, y).transform(bags), pd.DataFrame)


def test_columns_keep_their_names_through_pruning(bags):
    coder = bs.BagOfWords(BOOK.only([36, 31, 34])).set_output(transform="pandas")
    assert coder.transform(bags).columns.tolist() == ["word0036", "word0031", "word0034"]


def test_a_pipeline_can_end_in_a_table(bags):
    pipeline = make_pipeline(bs.KMeansCodebook(4), bs.BagOfWords(BOOK))
    table = pipeline.set_output(transform="pandas").fit_transform(bags)
    assert table.columns.tolist() == BOOK.names().tolist()


# -- in company ------------------------------------------------------------------------------------


class Watcher(TransformerMixin, BaseEstimator):
    """Hands bags on, and looks whether they are still themselves."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        assert isinstance(X, bs.Bags)
        assert X.scale == 512
        assert X.description == {"name": "test"}
        assert len(X.digests) == len(X)
        return X


@CODER
def test_pipelines_take_bags(name, bags, y):
    pipeline = make_pipeline(Watcher(), clone(CODERS[name]), LinearSVC(C=100))
    assert pipeline.fit(bags, y).score(bags, y) > 0.9
    assert clone(pipeline).fit(bags, y).predict(bags).tolist() == pipeline.predict(bags).tolist()


def test_a_grid_search_chooses_the_number_of_words(bags, y):
    pipeline = Pipeline(
        [
            ("watch", Watcher()),
            ("code", bs.BagOfWords(codebook=bs.KMeansCodebook(max_iter=3))),
            ("classify", LinearSVC(C=100)),
        ]
    )
    folds = StratifiedKFold(3)
    sizes = [2, 5, 20]
    search = GridSearchCV(
        pipeline, {"code__codebook__n_words": sizes}, cv=folds, error_score="raise"
    )
    search.fit(bags, y)
    expected = []
    for n_words in sizes:
        scores = []
        for train, test in folds.split(np.zeros(len(y)), y):
            book = bs.KMeansCodebook(n_words, max_iter=3).fit(bags[train]).codebook_
            coder = bs.BagOfWords(book)
            machine = LinearSVC(C=100).fit(coder.transform(bags[train]), y[train])
            scores.append(machine.score(coder.transform(bags[test]), y[test]))
        expected.append(np.mean(scores))
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(expected)
    best = search.best_estimator_["code"].codebook_
    assert best.n_words == search.best_params_["code__codebook__n_words"]
    assert best.trained_on.tolist() == list(range(30))


def test_a_grid_search_chooses_the_coding(bags, y):
    grid = {"bagofwords__coding": ["hard", "soft"], "bagofwords__sharpness": [10.0, "auto"]}
    pipeline = make_pipeline(Watcher(), bs.BagOfWords(BOOK), LinearSVC(C=100))
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(bags, y)
    assert search.best_score_ > 0.9


def test_cross_validation_keeps_the_scale(bags, y):
    pipeline = make_pipeline(Watcher(), bs.BagOfWords(BOOK, coding="soft"), LinearSVC(C=100))
    scores = cross_val_score(pipeline, bags, y, cv=3, error_score="raise")
    assert scores.mean() > 0.9


def test_pictures_go_through_a_pipeline_to_a_class():
    random = np.random.default_rng(2)
    stripes = 255 * (np.arange(40) // 4 % 2).astype(np.uint8)
    pictures = [
        np.clip((stripes if i % 2 else stripes[:, None]) + random.normal(0, 20, (40, 40)), 0, 255)
        for i in range(24)
    ]
    pictures = [picture.astype(np.uint8) for picture in pictures]
    y = np.arange(24) % 2
    bags = bs.DenseSift().transform(pictures)
    book = bs.KMeansCodebook(n_words=10, random_state=0).fit(bags).codebook_
    pipeline = make_pipeline(bs.DenseSift(), bs.BagOfWords(codebook=book), LinearSVC())
    assert pipeline.fit(pictures[:12], y[:12]).score(pictures[12:], y[12:]) == 1
