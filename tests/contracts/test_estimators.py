"""What scikit-learn's users may expect of every estimator that takes bags or pictures.

Modelled on ``sklearn.utils.estimator_checks``, whose checks make arrays and cannot make bags. The
table of estimators is held to be whole by ``test_public.py``.
"""

from __future__ import annotations

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
from tests.contracts.estimators import BAGS, BOOK, CODERS, PICTURES, SELECTORS

import bowsaw as bs
from bowsaw.errors import BowsawError, DataError, MismatchError

TABLES = {**CODERS, **SELECTORS}
LABELLED = [n for n, e in BAGS.items() if e.__sklearn_tags__().target_tags.required]
NEEDS_NO_FIT = ("hard", "hard, bare array", "soft")
ANY = pytest.mark.parametrize("name", BAGS)
TABLE = pytest.mark.parametrize("name", TABLES)
PICTURED = pytest.mark.parametrize("name", PICTURES)


def made_bags():
    """Bytes, as dense SIFT stores them: who forgets the scale is off by a factor of 512."""
    random = np.random.default_rng(1)
    values = random.integers(0, 120, (600, 6)).astype(np.uint8)
    values[:300, :3] += 80
    values.setflags(write=False)
    about = {"description": {"name": "test"}, "digests": np.arange(20)}
    return bs.Bags(values, np.arange(0, 601, 30), scale=512, **about)


DATA, Y = made_bags(), np.repeat(["cat", "dog"], 10)


def made(name, **parameters):
    """A fresh estimator of the table, told otherwise where asked; on one thread."""
    estimator = clone(BAGS[name]).set_params(n_jobs=1, **parameters)
    if "codebook__n_jobs" in estimator.get_params():
        estimator.set_params(codebook__n_jobs=1)
    return estimator


def outcome(estimator, bags=DATA):
    """What a fitted estimator knows and does, for exact comparison."""
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


# -- parameters ------------------------------------------------------------------------------------


@ANY
def test_parameters_can_be_set(name):
    estimator = made(name)
    assert estimator.set_params(n_jobs=3) is estimator
    assert estimator.n_jobs == 3
    with pytest.raises(ValueError, match="Invalid parameter 'n_wordz'"):
        estimator.set_params(n_wordz=3)


@pytest.mark.parametrize("kind", [bs.BagOfWords, bs.Annealing, bs.PruningPath])
def test_parameters_of_the_words_learner_can_be_set(kind):
    estimator = kind(bs.KMeansCodebook(7))
    estimator.set_params(codebook__n_words=3)
    assert estimator.codebook.n_words == 3
    assert estimator.get_params()["codebook__n_words"] == 3


@ANY
def test_a_clone_has_the_parameters_and_nothing_learned(name, fitted):
    again = clone(fitted)
    assert set(vars(again)) == set(vars(made(name)))
    assert repr(again) == repr(made(name))


def test_a_clone_shares_the_codebook_that_cannot_change():
    assert clone(bs.BagOfWords(BOOK)).codebook is BOOK


@ANY
def test_estimators_draw_themselves(name, fitted):
    for one in (BAGS[name], fitted):
        assert type(one).__name__ in repr(one)
        assert type(one).__name__ in one._repr_html_()


# -- fit -------------------------------------------------------------------------------------------


@ANY
def test_fit_changes_neither_parameters_nor_bags(name):
    estimator, digest = made(name), DATA.digest()
    before = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    assert estimator.fit(DATA, Y) is estimator
    after = {key: (id(value), repr(value)) for key, value in estimator.get_params(False).items()}
    assert after == before
    assert DATA.digest() == digest
    # What was learned ends in an underscore, what is for its own use begins with one.
    learned = set(vars(estimator)) - set(after)
    assert [key for key in learned if "_" not in (key[0], key[-1])] == []


@ANY
def test_fitted_estimators_know_their_input(name, fitted):
    assert fitted.n_features_in_ == DATA.n_dims
    if name in TABLES:
        assert fitted.n_features_out_ == fitted.transform(DATA).shape[1]
    if name in LABELLED:
        assert fitted.classes_.tolist() == ["cat", "dog"]


@ANY
def test_fitting_twice_is_fitting_once(name, fitted):
    again = made(name).fit(DATA[::-1], Y[::-1]).fit(DATA, Y)
    assert outcome(again) == outcome(fitted)
    assert set(vars(again)) == set(vars(fitted))


@ANY
def test_results_are_the_same_on_any_number_of_threads(name, fitted):
    for n_jobs in (2, 3):
        estimator = clone(BAGS[name]).set_params(n_jobs=n_jobs)
        if "codebook__n_jobs" in estimator.get_params():
            estimator.set_params(codebook__n_jobs=n_jobs)
        assert outcome(estimator.fit(DATA, Y)) == outcome(fitted)


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
    for listed in (list(plain), tuple(plain)):
        other = made(name, **parameters).fit(listed, Y.tolist())
        assert outcome(one, plain) == outcome(other, listed)


@ANY
def test_a_single_bag_is_enough_or_the_reason_is_said(name):
    estimator = made(name)
    if name in LABELLED or name == "soft, auto":
        with pytest.raises(BowsawError, match="class"):
            estimator.fit(DATA[:1], Y[:1])
        return
    estimator.fit(DATA[:1])
    assert len(estimator.transform(DATA[:1])) == 1


@pytest.mark.parametrize("name", [*LABELLED, "soft, auto"])
def test_labels_are_required_one_per_bag(name):
    with pytest.raises(BowsawError, match=r"fit\(bags, y\)"):
        made(name).fit(DATA)
    for wrong in (Y[:-1], Y[:, None], "cat"):
        with pytest.raises(DataError, match="one label per bag"):
            made(name).fit(DATA, wrong)


WRONG = {
    "one array": (np.zeros((5, 6)), "one array per bag"),
    "a sparse matrix": (sparse.csr_array(np.eye(6)), "bag 0 must be a dense array; got csr_array"),
    "a table": (pd.DataFrame(np.zeros((5, 6))), "bag 0"),
    "a text": ("bags", "Bags or a list of arrays"),
    "a number": (3, "Bags or a list of arrays"),
    "texts": ([["a", "b"]], "bag 0 must be numeric"),
    "complex numbers": ([np.zeros((5, 6), dtype=complex)], "bag 0 must be numeric"),
    "not a number": ([np.full((5, 6), np.nan)], "finite"),
    "infinite numbers": ([np.full((5, 6), np.inf)], "finite"),
    "ragged rows": ([[[1.0], [1.0, 2.0]]], "rows of equal length"),
    "three axes": ([np.zeros((5, 6, 1))], "two-dimensional"),
    "other dimensions": ([np.zeros((5, 6)), np.zeros((5, 7))], "same number of dimensions"),
}


@ANY
@pytest.mark.parametrize("wrong", WRONG)
def test_what_no_bags_are_is_refused(name, wrong, fitted):
    data, reason = WRONG[wrong]
    with pytest.raises(DataError, match=reason):
        made(name).fit(data, Y)
    with pytest.raises(DataError, match=reason):
        fitted.transform(data)


@TABLE
def test_bags_of_other_descriptors_are_refused(name, fitted):
    with pytest.raises(MismatchError, match="dimensions"):
        fitted.transform(bs.Bags(np.zeros((60, 7)), [0, 30, 60], scale=512))


# -- before and after ------------------------------------------------------------------------------


@ANY
def test_scikit_learn_knows_what_is_fitted(name, fitted):
    if name in NEEDS_NO_FIT:
        assert check_is_fitted(made(name)) is None
    else:
        with pytest.raises(NotFittedError):
            check_is_fitted(made(name))
    assert check_is_fitted(fitted) is None


@pytest.mark.parametrize("name", [n for n in TABLES if n not in NEEDS_NO_FIT])
def test_nothing_is_coded_before_fit(name):
    learned = [lambda: made(name).transform(DATA)]
    if name not in ("soft, auto", "soft, perplexity"):
        learned.append(made(name).get_feature_names_out)
    for ask in learned:
        with pytest.raises(NotFittedError):
            ask()


@ANY
@pytest.mark.parametrize("is_fitted", [False, True])
def test_estimators_travel(name, is_fitted, fitted, tmp_path):
    estimator = fitted if is_fitted else made(name)
    joblib.dump(estimator, tmp_path / "estimator")
    for again in (pickle.loads(pickle.dumps(estimator)), joblib.load(tmp_path / "estimator")):
        assert repr(again) == repr(estimator)
        if is_fitted:
            assert outcome(again) == outcome(fitted)
        else:
            assert set(vars(again)) == set(vars(estimator))


@ANY
def test_transform_leaves_the_estimator_as_it_was(name, fitted):
    before = {key: id(value) for key, value in vars(fitted).items()}
    fitted.transform(DATA)
    assert {key: id(value) for key, value in vars(fitted).items()} == before


@TABLE
def test_each_bag_is_coded_by_itself(name, fitted):
    codes = fitted.transform(DATA)
    order = np.random.default_rng(0).permutation(len(DATA))
    np.testing.assert_array_equal(fitted.transform(DATA[order]), codes[order])
    alone = np.concatenate([fitted.transform(DATA[i : i + 1]) for i in range(len(DATA))])
    np.testing.assert_allclose(alone, codes, rtol=1e-5, atol=1e-7)
    assert fitted.transform(DATA[:0]).shape == (0, codes.shape[1])


@ANY
def test_a_pipe_hears_nothing_even_when_verbose(name, capfd):
    if "verbose" not in vars(BAGS[name]):
        return
    outcome(made(name, verbose=True).fit(DATA, Y))
    assert capfd.readouterr() == ("", "")


# -- tables ----------------------------------------------------------------------------------------


@TABLE
def test_columns_have_names(name, fitted):
    names = fitted.get_feature_names_out()
    assert names.dtype == object
    assert names.shape == (fitted.n_features_out_,)
    assert len(set(names)) == len(names)
    if name in CODERS:
        assert names.tolist() == [f"word{i:04d}" for i in fitted.codebook_.ids]


@TABLE
def test_histograms_can_be_tables(name, fitted):
    plain = fitted.transform(DATA)
    estimator = made(name).set_output(transform="pandas")
    for table in (estimator.fit(DATA, Y).transform(DATA), estimator.fit_transform(DATA, Y)):
        assert isinstance(table, pd.DataFrame)
        assert table.columns.tolist() == fitted.get_feature_names_out().tolist()
        assert (table.dtypes == np.float32).all()
        np.testing.assert_array_equal(table.to_numpy(), plain)
    with config_context(transform_output="pandas"):
        assert isinstance(made(name).fit(DATA, Y).transform(DATA), pd.DataFrame)


def test_columns_keep_their_names_through_pruning():
    coder = bs.BagOfWords(BOOK.only([36, 31, 34])).set_output(transform="pandas")
    assert coder.transform(DATA).columns.tolist() == ["word0036", "word0031", "word0034"]


# -- pictures --------------------------------------------------------------------------------------


def pictures():
    random = np.random.default_rng(2)
    return [random.integers(0, 256, (40, 44)).astype(np.uint8) for _ in range(3)]


@PICTURED
def test_descriptors_keep_the_habits_too(name):
    estimator = clone(PICTURES[name])
    assert type(estimator).__name__ in repr(estimator)
    assert type(estimator).__name__ in estimator._repr_html_()
    before = estimator.get_params()
    assert estimator.fit(pictures(), [0, 1, 0]) is estimator
    assert estimator.get_params() == before
    assert estimator.set_output(transform="pandas") is estimator
    assert set(vars(clone(estimator))) == set(before)


@PICTURED
def test_pictures_become_bags_and_are_left_alone(name):
    given = pictures()
    for one in given:
        one.setflags(write=False)
    estimator = clone(PICTURES[name])
    bags = estimator.fit_transform(given)
    assert isinstance(bags, bs.Bags)
    assert (len(bags), bags.n_dims) == (3, 128)
    again = clone(estimator).set_params(n_jobs=2).transform(given[::-1])
    for i in range(3):
        np.testing.assert_array_equal(again[2 - i], bags[i])
    # Unfitted or not: there is nothing to learn.
    assert check_is_fitted(clone(estimator)) is None


@PICTURED
def test_what_no_pictures_are_is_refused(name):
    for wrong in ("folder", [np.zeros(4)], [np.zeros((40, 40, 7), dtype=np.uint8)], [None]):
        with pytest.raises(DataError):
            clone(PICTURES[name]).transform(wrong)
