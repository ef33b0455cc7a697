"""The entry point: which state it makes, what it passes on and what it refuses."""

import numpy as np
import pytest

import bowsaw as bs
import bowsaw.inference
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference import (
    TRANSFERS,
    EmpiricalState,
    ExactState,
    GaussianState,
    SoftState,
    TransferState,
    UniformState,
    VoronoiState,
    check_transfer,
    whatif,
)

STATES = {
    ("hard", "exact"): ExactState,
    ("hard", "uniform"): UniformState,
    ("hard", "voronoi"): VoronoiState,
    ("hard", "gaussian"): GaussianState,
    ("hard", "empirical"): EmpiricalState,
    ("soft", "exact"): SoftState,
}
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


def test_every_way_has_a_state_and_every_name_is_public():
    assert [(coding, name) for coding in TRANSFERS for name in TRANSFERS[coding]] == list(STATES)
    assert bs.whatif is whatif
    assert all(hasattr(bowsaw.inference, name) for name in bowsaw.inference.__all__)


@WAYS
def test_a_way_makes_its_state_from_bags_or_lists(coding, transfer, capsys):
    options = {"coding": coding, "transfer": transfer, "n_jobs": 1}
    make, kept = STATES[coding, transfer], IDS[[5, 1, 7, 8, 0, 9, 3]]
    given = (FULL,) if issubclass(make, TransferState) else ()
    expected = make(BOOK, *(given or (BAGS,)), **({"bags": BAGS} if given else {}), n_jobs=1)
    state = whatif(BOOK, BAGS, verbose=True, **options)
    assert_same(state, expected)
    assert_same(state.reset(kept), expected.reset(kept))
    assert state.fidelity() == expected.fidelity()
    words, arrays = BOOK.words.tolist(), [bag.tolist() for bag in BAGS]
    listed = whatif(words, arrays, **options).reset(BOOK.positions(kept))
    expected = whatif(bs.Codebook(words), BAGS, **options).reset(BOOK.positions(kept))
    assert_same(listed, expected)
    # Nothing is printed where there is no terminal.
    assert capsys.readouterr() == ("", "")


def test_options_come_to_the_state():
    assert whatif(BOOK, BAGS, n_ranked=3).n_ranked == 3
    assert whatif(BOOK, BAGS, max_bytes=5 * 60 * 4).n_ranked == 4
    assert whatif(BOOK, BAGS, transfer="voronoi", sigma=0.25).sigma == 0.25
    drawn = whatif(BOOK, BAGS, transfer="gaussian", sigma=0.01, n_samples=7)
    assert drawn.n_samples.tolist() == [7] * 12
    assert whatif(BOOK, BAGS, transfer="empirical", n_samples=2).n_samples.max() == 2
    soft = whatif(BOOK, BAGS, coding="soft", sharpness=7, storage="float64", max_bytes=0)
    assert (soft.sharpness, soft.storage, soft.on_disk) == (7.0, "float64", True)
    assert check_transfer("hard", "exact", n_ranked=None) == {"n_ranked": None}
    found = check_transfer("hard", "empirical", n_samples=np.int64(3), smoothing=2)
    assert found == {"n_samples": 3, "smoothing": 2.0}
    assert type(found["n_samples"]) is int


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
    options = (one, other, one, other)
    made = [whatif(BOOK, BAGS, transfer=transfer, **o).reset(IDS[[5, 1, 7]]) for o in options]
    assert_same(made[0], made[2])
    assert_same(made[1], made[3])
    assert not np.array_equal(made[0].histograms, made[1].histograms)


OWN = [
    *("n_ranked, max_bytes", "neighbours, policy", "sigma"),
    "n_samples, sigma, covariance, learn_from, smoothing",
    *("n_samples, learn_from, smoothing", "sharpness, storage, max_bytes, folder"),
]


@pytest.mark.parametrize(("way", "own"), list(zip(STATES, OWN, strict=True)))
def test_an_option_of_another_way_is_refused_and_its_own_are_named(way, own):
    coding, transfer = way
    for name in ("polixy", "full", "self", *(["sharpness"] if coding == "hard" else [])):
        problem = f"{name} is not an option of {coding} coding with transfer='{transfer}'; it has "
        with pytest.raises(ParameterError, match=problem + own):
            whatif(BOOK, BAGS, coding=coding, transfer=transfer, **{name: 3})
    for n_jobs in (0, 1.5, "two", True):
        with pytest.raises(ParameterError, match="n_jobs must be"):
            whatif(BOOK, BAGS, coding=coding, transfer=transfer, n_jobs=n_jobs)


@pytest.mark.parametrize(
    ("transfer", "option", "values"),
    [
        ("exact", "n_ranked", [0, 255, 2.5, True, "many"]),
        ("exact", "max_bytes", [-1, "1GB", None, np.nan, True]),
        ("uniform", "policy", ["random", None]),
        ("uniform", "neighbours", [0, 2.5, True, "5"]),
        ("voronoi", "sigma", [0, -1, np.nan, np.inf, "1"]),
        ("gaussian", "covariance", ["full"]),
        ("gaussian", "n_samples", [0, 2.5, True, None]),
        ("gaussian", "random_state", [-1]),
        ("empirical", "smoothing", [-1, np.nan]),
        ("soft", "sharpness", [0, -1.0, np.nan, np.inf, "auto", None]),
        ("soft", "storage", ["float16", "disk", "auto"]),
        ("soft", "max_bytes", [-1, "2GB", True, np.nan]),
    ],
)
def test_values_out_of_range_are_refused_without_building(transfer, option, values):
    way = ("soft", "exact") if transfer == "soft" else ("hard", transfer)
    for value in values:
        with pytest.raises(ParameterError, match=f"^{option} must be"):
            check_transfer(*way, **{option: value})
        with pytest.raises(ParameterError, match=f"^{option} must be"):
            whatif(BOOK, BAGS, coding=way[0], transfer=way[1], **{option: value})
    with pytest.raises(ParameterError, match="has no use with covariance='shared'"):
        whatif(BOOK, BAGS, sigma=1, transfer="gaussian", covariance="shared")


@pytest.mark.parametrize(
    "options",
    [
        {"transfer": "uniform"},
        {"transfer": "uniform", "policy": "chain"},
        {"transfer": "voronoi", "sigma": 0.2},
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
    assert both.fidelity() == expected.fidelity()
    alone = whatif(BOOK, histograms=FULL, **options).reset(kept)
    with pytest.raises(DataError, match="Give n_descriptors as well"):
        alone.variance()
    with pytest.raises(DataError, match="made from histograms alone"):
        alone.fidelity()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"transfer": "voronoi"}, "Give sigma, bags or learn_from"),
        ({"transfer": "gaussian"}, "Give sigma, bags or learn_from"),
        ({"transfer": "gaussian", "covariance": "shared"}, "bags or learn_from"),
        ({"transfer": "empirical"}, "Give bags or learn_from, or use transfer='uniform'"),
    ],
)
def test_what_histograms_do_not_show_is_asked_for(options, problem):
    with pytest.raises(DataError, match=problem):
        whatif(BOOK, histograms=FULL, **options)


MISFIT = "n_descriptors must be 4 integers"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"histograms": FULL[:, :-1]}, r"\(n_bags, n_words\) with 12.*got shape \(4, 11\)"),
        ({"histograms": FULL[0]}, r"with 12 columns.*got shape \(12,\)"),
        ({"histograms": FULL * 20}, r"must sum to 1 .*row 0 sums to 20\. Divide"),
        ({"histograms": -FULL}, "must be finite and not negative"),
        ({"histograms": np.where(FULL > 0.2, np.nan, FULL)}, "must be finite and not negative"),
        ({"histograms": FULL.astype(str)}, "histograms must be numeric"),
        ({"histograms": [[1.0], [0.5, 0.5]]}, "histograms must have rows of equal length"),
        ({"histograms": FULL[:3]}, "there are 3 histograms but 4 bags"),
        ({"n_descriptors": [1, 2, 3]}, MISFIT),
        ({"n_descriptors": [1, 2, 3, -4]}, MISFIT),
        ({"n_descriptors": [[20, 0, 5, 35]]}, MISFIT),
        ({"n_descriptors": [20, 0, 5, 36]}, "n_descriptors differs from the sizes of the bags"),
    ],
)
def test_wrong_histograms_are_refused(options, problem):
    with pytest.raises((DataError, MismatchError), match=problem):
        whatif(BOOK, BAGS, transfer="uniform", **options)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_state_does_not_change_with_the_histograms_given(order):
    mine = np.array(FULL, order=order)
    state = whatif(BOOK, histograms=mine, transfer="uniform")
    expected = state.only(IDS[[2, 6]]).histograms.copy()
    mine[:] = 0
    np.testing.assert_array_equal(state.only(IDS[[2, 6]]).histograms, expected)


def test_an_unknown_coding_or_transfer_is_refused():
    for coding in ("Hard", "", None, 3):
        with pytest.raises(ParameterError, match="coding must be one of 'hard', 'soft'; got"):
            whatif(BOOK, BAGS, coding=coding)
    for coding, transfer in (("hard", "truncated"), ("soft", "uniform"), ("hard", None)):
        names = ", ".join(map(repr, TRANSFERS[coding]))
        with pytest.raises(ParameterError, match=f"one of {names}; got {transfer!r}.*{coding}"):
            whatif(BOOK, BAGS, coding=coding, transfer=transfer)


@WAYS
def test_a_corpus_is_needed(coding, transfer):
    with pytest.raises(DataError, match="give bags"):
        whatif(BOOK, coding=coding, transfer=transfer)
    if transfer == "exact":
        with pytest.raises(DataError, match="infers from descriptors: give bags and no histograms"):
            whatif(BOOK, BAGS, histograms=FULL, coding=coding, transfer=transfer)


def test_a_codebook_of_other_descriptors_is_refused_with_histograms_too():
    book = bs.Codebook(BOOK.words, description={"name": "a"})
    bags = bs.Bags(BAGS.values, BAGS.offsets, description={"name": "b"})
    for options in ({}, {"transfer": "uniform"}, {"transfer": "uniform", "histograms": FULL}):
        with pytest.raises(MismatchError, match="trained on descriptors"):
            whatif(book, bags, **options)
    with pytest.raises(DataError, match="words must be"):
        whatif([[0.0, np.nan]], BAGS)
