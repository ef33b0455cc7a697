"""The front door: which state it makes, what it passes on and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference.exact import ExactState
from bowsaw.inference.sampled import EmpiricalState, GaussianState
from bowsaw.inference.soft import SoftState
from bowsaw.inference.truncated import TruncatedSoftState
from bowsaw.inference.uniform import UniformState
from bowsaw.inference.voronoi import VoronoiState
from bowsaw.inference.whatif import TRANSFERS, whatif

STATES = {
    ("hard", "exact"): ExactState,
    ("hard", "uniform"): UniformState,
    ("hard", "voronoi"): VoronoiState,
    ("hard", "gaussian"): GaussianState,
    ("hard", "empirical"): EmpiricalState,
    ("soft", "exact"): SoftState,
    ("soft", "truncated"): TruncatedSoftState,
}
FROM_HISTOGRAMS = ("uniform", "voronoi", "gaussian", "empirical")
WAYS = pytest.mark.parametrize(("coding", "transfer"), STATES)

RANDOM = np.random.default_rng(1)
BOOK = bs.Codebook(RANDOM.random((12, 2)), RANDOM.permutation(12) + 30)
IDS = BOOK.ids
BAGS = bs.Bags(RANDOM.random((60, 2)), [0, 20, 20, 25, 60])
FULL = hard_histograms(BAGS, BOOK.words, n_jobs=1)


def assert_same(one, other):
    np.testing.assert_array_equal(one.kept, other.kept)
    np.testing.assert_array_equal(one.histograms, other.histograms)
    assert type(one) is type(other)


# -- which state -----------------------------------------------------------------------------------


def test_every_way_has_a_state_and_the_front_door_is_public():
    ways = [(coding, transfer) for coding in TRANSFERS for transfer in TRANSFERS[coding]]
    assert ways == list(STATES)
    assert bs.whatif is whatif


@WAYS
def test_a_way_makes_its_state_as_making_it_by_hand_does(coding, transfer):
    state = whatif(BOOK, BAGS, coding=coding, transfer=transfer, n_jobs=1)
    make = STATES[coding, transfer]
    if transfer in FROM_HISTOGRAMS:
        expected = make(BOOK, FULL, bags=BAGS, n_jobs=1)
    else:
        expected = make(BOOK, BAGS, n_jobs=1)
    kept = IDS[[5, 1, 7, 8, 0, 9, 3]]
    assert_same(state, expected)
    assert_same(state.reset(kept), expected.reset(kept))
    assert state.fidelity() == expected.fidelity()


def test_exact_inference_of_hard_coding_is_the_default():
    state = whatif(BOOK, BAGS)
    assert type(state) is ExactState
    np.testing.assert_array_equal(state.histograms, FULL)


def test_the_session_of_the_readme():
    state = whatif(BOOK, BAGS, coding="hard", transfer="exact")
    words = BOOK.without(IDS[[3, 7]]).words
    found = state.without(IDS[[3, 7]]).histograms
    np.testing.assert_array_equal(found, hard_histograms(BAGS, words))
    state.reset(IDS[:6])
    state.swap(remove=IDS[[5, 0]], add=IDS[[9, 10]])
    assert state.kept.tolist() == IDS[[10, 1, 2, 3, 4, 9]].tolist()
    assert {0, 5} <= set(state.changed.tolist())
    assert not state.variance().any()
    guess = whatif(BOOK, histograms=FULL, n_descriptors=BAGS.counts, transfer="uniform")
    assert guess.without(IDS[[3, 7]]).variance().any()


@WAYS
def test_bags_may_be_a_list_and_a_codebook_an_array(coding, transfer):
    options = {"coding": coding, "transfer": transfer, "n_jobs": 1}
    expected = whatif(bs.Codebook(BOOK.words), BAGS, **options).reset([4, 2, 9, 8, 1, 0, 3])
    arrays = [bag.tolist() for bag in BAGS]
    for bags in (arrays, tuple(arrays), [np.array(array) for array in arrays]):
        found = whatif(BOOK.words.tolist(), bags, **options).reset([4, 2, 9, 8, 1, 0, 3])
        assert_same(found, expected)


@WAYS
def test_it_is_quiet_where_nobody_watches(coding, transfer, capsys):
    quiet = whatif(BOOK, BAGS, coding=coding, transfer=transfer)
    assert_same(whatif(BOOK, BAGS, coding=coding, transfer=transfer, verbose=True), quiet)
    assert capsys.readouterr() == ("", "")


# -- options ---------------------------------------------------------------------------------------


def test_options_come_to_the_state():
    assert whatif(BOOK, BAGS, n_ranked=3).n_ranked == 3
    assert whatif(BOOK, BAGS, max_bytes=5 * 60 * 4).n_ranked == 4
    assert whatif(BOOK, BAGS, transfer="voronoi", sigma=0.25).sigma == 0.25
    drawn = whatif(BOOK, BAGS, transfer="gaussian", sigma=0.01, n_samples=7)
    assert drawn.n_samples.tolist() == [7] * 12
    some = whatif(BOOK, BAGS, transfer="empirical", n_samples=2)
    assert some.n_samples.max() == 2
    soft = whatif(BOOK, BAGS, coding="soft", sharpness=7, storage="uint16")
    assert (soft.sharpness, soft.storage) == (7.0, "uint16")
    cut = whatif(BOOK, BAGS, coding="soft", transfer="truncated", n_ranked=11, tolerance=0.1)
    assert (cut.n_ranked, cut.tolerance) == (11, 0.1)


@pytest.mark.parametrize(
    ("transfer", "one", "other"),
    [
        ("uniform", {}, {"policy": "sequential"}),
        ("uniform", {"policy": "sequential"}, {"policy": "chain"}),
        ("uniform", {}, {"neighbours": 1}),
        ("voronoi", {}, {"sigma": 0.9}),
        ("gaussian", {}, {"sigma": 0.9}),
        ("gaussian", {}, {"covariance": "shared"}),
        ("gaussian", {}, {"random_state": 1}),
        ("gaussian", {}, {"learn_from": [[[0.1, 0.2], [0.9, 0.8]]]}),
        ("empirical", {}, {"smoothing": 30}),
        ("empirical", {"n_samples": 1}, {"n_samples": 1, "random_state": 1}),
        ("empirical", {}, {"learn_from": BAGS[[2]]}),
    ],
)
def test_options_make_a_difference_and_are_repeatable(transfer, one, other):
    kept = IDS[[5, 1, 7]]
    states = [
        whatif(BOOK, BAGS, transfer=transfer, **options).reset(kept)
        for options in (one, other, one, other)
    ]
    assert_same(states[0], states[2])
    assert_same(states[1], states[3])
    assert not np.array_equal(states[0].histograms, states[1].histograms)


@WAYS
def test_an_option_of_another_way_is_refused_and_the_own_ones_are_named(coding, transfer):
    own = {
        ("hard", "exact"): "n_ranked, max_bytes",
        ("hard", "uniform"): "neighbours, policy",
        ("hard", "voronoi"): "sigma",
        ("hard", "gaussian"): "n_samples, sigma, covariance, learn_from, smoothing",
        ("hard", "empirical"): "n_samples, learn_from, smoothing",
        ("soft", "exact"): "sharpness, storage, max_bytes, folder",
        ("soft", "truncated"): "sharpness, n_ranked, tolerance",
    }
    others = {"polixy": "chain", "full": FULL, "self": None}
    if coding == "hard":
        others["sharpness"] = 40
    for name, value in others.items():
        problem = f"{name} is not an option of transfer='{transfer}'; it has "
        with pytest.raises(ParameterError, match=problem + own[coding, transfer]):
            whatif(BOOK, BAGS, coding=coding, transfer=transfer, **{name: value})


def test_values_that_an_option_cannot_have_are_refused():
    for options, problem in [
        ({"n_ranked": 255}, "n_ranked must be a whole number from 1 to 254"),
        ({"transfer": "uniform", "policy": "random"}, "policy must be one of nearest-surviving"),
        ({"transfer": "uniform", "neighbours": 0}, "neighbours must be a whole number above 0"),
        ({"transfer": "voronoi", "sigma": 0}, "sigma must be a finite number above 0"),
        ({"transfer": "gaussian", "covariance": "full"}, "covariance must be one of isotropic"),
        ({"transfer": "gaussian", "n_samples": 0}, "n_samples must be a whole number from 1"),
        ({"transfer": "empirical", "smoothing": -1}, "smoothing must be a finite number from 0 up"),
        ({"coding": "soft", "sharpness": 0}, "sharpness must be a finite number above 0"),
        ({"coding": "soft", "storage": "float16"}, "storage must be one of"),
        ({"coding": "soft", "transfer": "truncated", "tolerance": 2}, "tolerance must be an L1"),
    ]:
        with pytest.raises(ParameterError, match=problem):
            whatif(BOOK, BAGS, **options)


@WAYS
@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_a_number_of_threads_that_is_none_is_refused(coding, transfer, n_jobs):
    with pytest.raises(ParameterError, match="n_jobs must be a whole number other than 0"):
        whatif(BOOK, BAGS, coding=coding, transfer=transfer, n_jobs=n_jobs)


# -- from histograms alone -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"transfer": "uniform"},
        {"transfer": "uniform", "policy": "chain"},
        {"transfer": "voronoi", "sigma": 0.2},
        {"transfer": "gaussian", "sigma": 0.2},
        {"transfer": "gaussian", "learn_from": BAGS},
        {"transfer": "empirical", "learn_from": BAGS},
    ],
    ids=str,
)
def test_histograms_are_enough(options):
    kept = IDS[[5, 1, 7]]
    expected = whatif(BOOK, BAGS, **options).reset(kept)
    found = whatif(BOOK, histograms=FULL, n_descriptors=BAGS.counts, **options).reset(kept)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.variance(), expected.variance())
    both = whatif(BOOK, BAGS, histograms=FULL.tolist(), **options).reset(kept)
    assert_same(both, expected)
    assert both.fidelity() == expected.fidelity()
    alone = whatif(BOOK, histograms=FULL, **options).reset(kept)
    assert_same(alone, expected)
    with pytest.raises(DataError, match="Give n_descriptors as well"):
        alone.variance()
    with pytest.raises(DataError, match="made from histograms alone"):
        alone.fidelity()


def test_what_histograms_cannot_tell_is_asked_for():
    for transfer in ("voronoi", "gaussian"):
        with pytest.raises(DataError, match="Give sigma or bags"):
            whatif(BOOK, histograms=FULL, transfer=transfer)
    with pytest.raises(DataError, match="Give bags or learn_from"):
        whatif(BOOK, histograms=FULL, transfer="gaussian", covariance="shared")
    with pytest.raises(DataError, match="Give bags or learn_from"):
        whatif(BOOK, histograms=FULL, transfer="empirical")


@pytest.mark.parametrize("transfer", FROM_HISTOGRAMS)
@pytest.mark.parametrize(
    ("histograms", "problem"),
    [
        (FULL[:, :-1], r"\(n_bags, n_words\) with 12 columns.*got shape \(4, 11\)"),
        (FULL[0], r"with 12 columns.*got shape \(12,\)"),
        (FULL.T, r"with 12 columns.*got shape \(12, 4\)"),
        (FULL * 20, r"must sum to 1 .*row 0 sums to 20\. Divide"),
        (-FULL, "must be finite and not negative"),
        (np.where(FULL > 0.2, np.nan, FULL), "must be finite and not negative"),
        (np.where(FULL > 0.2, np.inf, FULL), "must be finite and not negative"),
        (FULL.astype(str), "histograms must be numbers"),
        ([[1.0], [0.5, 0.5]], "histograms must have rows of one length"),
    ],
)
def test_histograms_that_are_none_are_refused(transfer, histograms, problem):
    with pytest.raises(DataError, match=problem):
        whatif(BOOK, BAGS, histograms=histograms, transfer=transfer)


def test_histograms_of_other_bags_are_refused():
    with pytest.raises(MismatchError, match="there are 3 histograms but 4 bags"):
        whatif(BOOK, BAGS, histograms=FULL[:3], transfer="uniform")


@pytest.mark.parametrize(
    ("n_descriptors", "error", "problem"),
    [
        ([1, 2, 3], DataError, "n_descriptors must be 4 whole numbers"),
        ([1, 2, 3, -4], DataError, "n_descriptors must be 4 whole numbers"),
        ([1.5, 2, 3, 4], DataError, "n_descriptors must be whole numbers"),
        ([[20, 0, 5, 35]], DataError, "n_descriptors must be 4 whole numbers"),
        ([20, 0, 5, 36], MismatchError, "n_descriptors differs from the sizes of the bags"),
    ],
)
def test_sizes_that_are_none_are_refused(n_descriptors, error, problem):
    with pytest.raises(error, match=problem):
        whatif(BOOK, BAGS, transfer="uniform", n_descriptors=n_descriptors)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_state_does_not_notice_when_histograms_are_changed_later(order):
    mine = np.array(FULL, order=order)
    state = whatif(BOOK, histograms=mine, transfer="uniform")
    expected = state.only(IDS[[2, 6]]).histograms.copy()
    mine[:] = 0
    np.testing.assert_array_equal(state.only(IDS[[2, 6]]).histograms, expected)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["Hard", "both", "", None, 3])
def test_a_coding_is_hard_or_soft(coding):
    with pytest.raises(ParameterError, match="coding must be 'hard' or 'soft'; got"):
        whatif(BOOK, BAGS, coding=coding)


@pytest.mark.parametrize(
    ("coding", "transfer"),
    [("hard", "truncated"), ("soft", "uniform"), ("hard", "Exact"), ("soft", None), ("hard", "")],
)
def test_a_transfer_is_one_of_its_coding(coding, transfer):
    names = ", ".join(TRANSFERS[coding])
    with pytest.raises(
        ParameterError, match=f"one of {names} for {coding} coding; got {transfer!r}"
    ):
        whatif(BOOK, BAGS, coding=coding, transfer=transfer)


@WAYS
def test_a_corpus_is_needed(coding, transfer):
    with pytest.raises(DataError, match="give bags"):
        whatif(BOOK, coding=coding, transfer=transfer)


@pytest.mark.parametrize(("coding", "transfer"), [w for w in STATES if w[1] not in FROM_HISTOGRAMS])
def test_what_infers_from_descriptors_takes_no_histograms(coding, transfer):
    for bags in (None, BAGS):
        with pytest.raises(DataError, match="infers from descriptors: give bags and no histograms"):
            whatif(BOOK, bags, histograms=FULL, coding=coding, transfer=transfer)


@pytest.mark.parametrize(
    ("bags", "error", "problem"),
    [
        (np.zeros((5, 2)), DataError, "expected one array per bag, got a single array"),
        ("scenes.store", DataError, "expected Bags or a list of arrays; got str"),
        (7, DataError, "expected Bags or a list of arrays; got int"),
        ([np.zeros(2)], DataError, "bag 0 must be two-dimensional"),
        ([[[0.0, np.nan]]], DataError, "bag 0 must be finite; row 0 holds NaN"),
        ([[["a", "b"]]], DataError, "bag 0 must be numbers"),
        ([np.zeros((5, 3))], MismatchError, "words of 2 dimensions, the bags descriptors of 3"),
    ],
)
def test_bags_that_are_none_are_refused(bags, error, problem):
    for transfer in ("exact", "uniform"):
        with pytest.raises(error, match=problem):
            whatif(BOOK, bags, transfer=transfer)


@pytest.mark.parametrize(
    ("book", "problem"),
    [
        ([0.0, 1.0], "words must be two-dimensional"),
        (np.empty((0, 2)), "words must be two-dimensional"),
        ([[0.0, np.nan]], "words must be finite"),
        ([["a", "b"]], "words must be numbers"),
    ],
)
def test_a_codebook_that_is_none_is_refused(book, problem):
    with pytest.raises(DataError, match=problem):
        whatif(book, BAGS)


def test_a_codebook_of_other_descriptors_is_refused_with_histograms_too():
    book = bs.Codebook(BOOK.words, description={"name": "a"})
    bags = bs.Bags(BAGS.values, BAGS.offsets, description={"name": "b"})
    for options in ({}, {"transfer": "uniform"}, {"transfer": "uniform", "histograms": FULL}):
        with pytest.raises(MismatchError, match=r"trained on descriptors .*, the bags hold"):
            whatif(book, bags, **options)
    for transfer in ("gaussian", "empirical"):
        with pytest.raises(MismatchError, match=r"trained on descriptors .*, the bags hold"):
            whatif(book, histograms=FULL, transfer=transfer, learn_from=bags)


def test_voronoi_is_for_three_dimensions_at_most():
    with pytest.raises(ParameterError, match=r"at most 3 dimensions; the words have 4\. Use 'gau"):
        whatif(np.eye(4), [np.eye(4)], transfer="voronoi")
