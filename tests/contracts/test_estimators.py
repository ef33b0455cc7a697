"""What scikit-learn's users may expect of every estimator that takes bags or images.

Modelled on ``sklearn.utils.estimator_checks``, whose checks make arrays and cannot make bags.
``test_public.py`` checks that the table of estimators is complete.
"""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from tests.contracts.estimators import BAGS, BOOK, CODERS, IMAGES, SELECTORS

import bowsaw as bs
from bowsaw.errors import BowsawError, DataError, MismatchError

TABLES = {**CODERS, **SELECTORS}
LABELLED = [n for n, e in BAGS.items() if e.__sklearn_tags__().target_tags.required]
NEEDS_NO_FIT = ("hard", "hard, bare array", "soft")
ANY = pytest.mark.parametrize("name", BAGS)
TABLE = pytest.mark.parametrize("name", TABLES)


def made_bags():
    """Bytes, as dense SIFT stores them: an error of scale is a factor of 512."""
    random = np.random.default_rng(1)
    values = random.integers(0, 120, (600, 6)).astype(np.uint8)
    values[:300, :3] += 80
    values.setflags(write=False)
    about = {"description": {"name": "test"}, "digests": np.arange(20)}
    return bs.Bags(values, np.arange(0, 601, 30), scale=512, **about)


DATA, Y = made_bags(), np.repeat(["cat", "dog"], 10)


def made(name, n_jobs=1, **parameters):
    """A fresh estimator of the table with these parameters."""
    estimator = clone(BAGS[name]).set_params(n_jobs=n_jobs, **parameters)
    if "codebook__n_jobs" in estimator.get_params():
        estimator.set_params(codebook__n_jobs=n_jobs)
    return estimator


def outcome(estimator, bags=DATA):
    """What a fitted estimator has learned and returns, for exact comparison."""
    if isinstance(estimator, bs.KMeansCodebook):
        return estimator.codebook_, estimator.objectives_, estimator.counts_.tolist()
    return estimator.codebook_, estimator.transform(bags).tolist()


@pytest.fixture(scope="module")
def fits():
    return {name: made(name).fit(DATA, Y) for name in BAGS}


@pytest.fixture
def fitted(name, fits):
    """A fitted estimator that no test changes."""
    return fits[name]


@ANY
def test_parameters_can_be_set_and_cloned(name, fitted):
    estimator = made(name)
    assert estimator.set_params(n_jobs=3) is estimator
    assert estimator.n_jobs == 3
    with pytest.raises(ValueError, match="Invalid parameter 'n_wordz'"):
        estimator.set_params(n_wordz=3)
    again = clone(fitted)
    assert set(vars(again)) == set(vars(made(name)))
    assert repr(again) == repr(made(name))
    assert type(fitted).__name__ in fitted._repr_html_()


def test_parameters_of_the_learner_of_words():
    for kind in (bs.BagOfWords, bs.Annealing, bs.PruningPath):
        estimator = kind(bs.KMeansCodebook(7)).set_params(codebook__n_words=3)
        assert estimator.codebook.n_words == estimator.get_params()["codebook__n_words"] == 3
    assert clone(bs.BagOfWords(BOOK)).codebook is BOOK  # a codebook cannot change


@ANY
def test_fit_changes_neither_parameters_nor_bags_and_can_be_repeated(name, fitted):
    estimator, digest = made(name), DATA.digest()
    before = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    assert estimator.fit(DATA[::-1], Y[::-1]) is estimator
    after = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    assert after == before
    assert DATA.digest() == digest
    learned = set(vars(estimator)) - set(after)
    assert [key for key in learned if "_" not in (key[0], key[-1])] == []
    # Fitting again forgets the first fit, and threads change nothing.
    assert outcome(estimator.set_params(n_jobs=3).fit(DATA, Y)) == outcome(fitted)
    assert set(vars(estimator)) == set(vars(fitted))


@ANY
def test_fitted_estimators_have_their_attributes(name, fitted):
    assert fitted.n_features_in_ == DATA.n_dims
    before = {key: id(value) for key, value in vars(fitted).items()}
    codes = fitted.transform(DATA)
    assert {key: id(value) for key, value in vars(fitted).items()} == before
    assert name not in TABLES or fitted.n_features_out_ == codes.shape[1]
    assert name not in LABELLED or fitted.classes_.tolist() == ["cat", "dog"]
    assert check_is_fitted(fitted) is None
    if name in NEEDS_NO_FIT:
        assert check_is_fitted(made(name)) is None
        return
    with pytest.raises(NotFittedError):
        check_is_fitted(made(name))
    if name in TABLES:
        with pytest.raises(NotFittedError):
            made(name).transform(DATA)


@pytest.mark.parametrize("name", [n for n, e in BAGS.items() if hasattr(e, "random_state")])
def test_seeds_are_what_scikit_learn_takes(name):
    for pair in ((3, np.int64(3)), (np.random.RandomState(4), np.random.RandomState(4))):
        one, other = (made(name, random_state=seed).fit(DATA, Y) for seed in pair)
        assert outcome(one) == outcome(other)
    assert made(name, random_state=None).fit(DATA, Y) is not None


@ANY
def test_lists_of_arrays_and_bags_are_one(name):
    plain = bs.Bags(DATA.values.astype(np.float32) / 512, DATA.offsets)
    parameters = {}
    if getattr(BAGS[name], "codebook", None) is BOOK:
        parameters = {"codebook": bs.Codebook(BOOK.words / np.float32(512), BOOK.ids)}
    one = made(name, **parameters).fit(plain, Y)
    other = made(name, **parameters).fit(list(plain), Y.tolist())
    assert outcome(one, plain) == outcome(other, tuple(plain))


@ANY
def test_one_bag_or_missing_labels(name):
    if name not in LABELLED and name != "soft, auto":
        assert len(made(name).fit(DATA[:1]).transform(DATA[:1])) == 1
        return
    with pytest.raises(BowsawError, match="class"):
        made(name).fit(DATA[:1], Y[:1])
    with pytest.raises(BowsawError, match=r"fit\(bags, y\)"):
        made(name).fit(DATA)
    for wrong in (Y[:-1], Y[:, None], "cat"):
        with pytest.raises(DataError, match="one label per bag"):
            made(name).fit(DATA, wrong)


WRONG = (
    (np.zeros((5, 6)), "one array per bag"),
    (sparse.csr_array(np.eye(6)), "bag 0 must be a dense array; got csr_array"),
    (pd.DataFrame(np.zeros((5, 6))), "bag 0"),
    ("bags", "Bags or a list of arrays"),
    ([np.zeros((5, 6), dtype=complex)], "bag 0 must be numeric"),
    ([np.full((5, 6), np.nan)], "finite"),
    ([[[1.0], [1.0, 2.0]]], "rows of equal length"),
    ([np.zeros((5, 6, 1))], "two-dimensional"),
    ([np.zeros((5, 6)), np.zeros((5, 7))], "same number of dimensions"),
)


@ANY
def test_other_data_is_refused(name, fitted):
    for data, reason in WRONG:
        with pytest.raises(DataError, match=reason):
            made(name).fit(data, Y)
        with pytest.raises(DataError, match=reason):
            fitted.transform(data)
    if name in TABLES:
        with pytest.raises(MismatchError, match="dimensions"):
            fitted.transform(bs.Bags(np.zeros((60, 7)), [0, 30, 60], scale=512))


@ANY
def test_estimators_can_be_pickled_and_dumped(name, fitted, tmp_path):
    joblib.dump(made(name), tmp_path / "estimator")
    unfitted = joblib.load(tmp_path / "estimator")
    assert repr(unfitted) == repr(made(name))
    assert set(vars(unfitted)) == set(vars(made(name)))
    assert outcome(pickle.loads(pickle.dumps(fitted))) == outcome(fitted)


@pytest.mark.parametrize("name", [n for n, e in BAGS.items() if hasattr(e, "verbose")])
def test_nothing_is_drawn_where_there_is_no_terminal(name, capfd):
    outcome(made(name, verbose=True).fit(DATA, Y))
    assert capfd.readouterr() == ("", "")


@TABLE
def test_each_bag_is_coded_alone(name, fitted):
    codes = fitted.transform(DATA)
    order = np.random.default_rng(0).permutation(len(DATA))
    np.testing.assert_array_equal(fitted.transform(DATA[order]), codes[order])
    alone = np.concatenate([fitted.transform(DATA[i : i + 1]) for i in range(len(DATA))])
    np.testing.assert_allclose(alone, codes, rtol=1e-5, atol=1e-7)
    assert fitted.transform(DATA[:0]).shape == (0, codes.shape[1])


@TABLE
def test_histograms_can_be_tables(name, fitted):
    names = fitted.get_feature_names_out()
    assert names.dtype == object
    assert len(set(names)) == len(names) == fitted.n_features_out_
    if name in CODERS:
        assert names.tolist() == [f"word{i:04d}" for i in fitted.codebook_.ids]
    table = made(name).set_output(transform="pandas").fit_transform(DATA, Y)
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == names.tolist()
    assert (table.dtypes == np.float32).all()
    np.testing.assert_array_equal(table.to_numpy(), fitted.transform(DATA))
    with config_context(transform_output="pandas"):
        assert isinstance(made(name).fit(DATA, Y).transform(DATA), pd.DataFrame)


def test_columns_keep_their_names_through_pruning():
    coder = bs.BagOfWords(BOOK.only([36, 31, 34])).set_output(transform="pandas")
    assert coder.transform(DATA).columns.tolist() == ["word0036", "word0031", "word0034"]


@pytest.mark.parametrize("name", IMAGES)
def test_images_become_bags_and_stay_unchanged(name):
    values = np.random.default_rng(2).integers(0, 256, (3, 40, 44)).astype(np.uint8)
    values.setflags(write=False)
    given = list(values)
    estimator = clone(IMAGES[name])
    before = estimator.get_params()
    assert check_is_fitted(estimator) is None
    assert estimator.fit(given, [0, 1, 0]) is estimator
    assert estimator.get_params() == before
    assert estimator.set_output(transform="pandas") is estimator
    assert set(vars(clone(estimator))) == set(before)
    assert type(estimator).__name__ in estimator._repr_html_()
    bags = estimator.fit_transform(given)
    assert isinstance(bags, bs.Bags)
    assert (len(bags), bags.n_dims) == (3, 128)
    again = clone(estimator).set_params(n_jobs=2).transform(given[::-1])
    for i in range(3):
        np.testing.assert_array_equal(again[2 - i], bags[i])
    for wrong in ("folder", [np.zeros(4)], [np.zeros((40, 40, 7), dtype=np.uint8)], [None]):
        with pytest.raises(DataError):
            estimator.transform(wrong)
