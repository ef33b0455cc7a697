"""What every selector promises, however it chooses: one line in the table runs everything below.

What every estimator of bags promises, selector or not, is in ``test_estimators.py``.
"""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.path import PruningPath
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import SharedCodes
from bowsaw.selection.baselines import FarthestPoint, KMeansAtSize, RandomSubset
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.merging import Bottleneck
from bowsaw.selection.ranking import PresenceRanking
from bowsaw.selection.refinement import Refinement

N_INFORMATIVE = 4
N_WORDS = 24
N_EACH = 12


def planted():
    """Four classes, a word for each of them, and twenty uninformative words.

    All words are equally far from each other, so the descriptors of a pruned word fall to any of
    the kept ones, whatever the class. So the four are the one right answer, whatever is coded with.
    """
    random = np.random.default_rng(6)
    words = 40 + 160 * np.eye(N_WORDS, dtype=int)
    order = random.permutation(N_WORDS)
    labels = np.repeat(np.arange(N_INFORMATIVE), N_EACH)
    counts = random.integers(0, 4, (len(labels), N_WORDS))
    # Its own word 12 to 19 times, the word of another class in a few images by chance.
    counts[:, :N_INFORMATIVE] = random.random((len(labels), N_INFORMATIVE)) < 0.08
    counts[np.arange(len(labels)), labels] = random.integers(12, 20, len(labels))
    bags = [
        np.repeat(words, row, axis=0) + random.integers(-20, 21, (row.sum(), N_WORDS))
        for row in counts
    ]
    values, offsets = np.concatenate(bags), np.cumsum([0, *map(len, bags)])
    ids = random.permutation(90)[:N_WORDS] + 7
    book = bs.Codebook(words[order] / 8, ids, scale=4, description={"name": "planted"})
    data = bs.Bags(values.astype(np.uint8), offsets, scale=32, description={"name": "planted"})
    informative = ids[np.flatnonzero(order < N_INFORMATIVE)]
    return book, data, np.array(["pine", "oak", "ash", "elm"])[labels], set(informative.tolist())


BOOK, BAGS, Y, INFORMATIVE = planted()

SELECTORS = {
    "random": RandomSubset(BOOK, 5),
    "farthest": FarthestPoint(BOOK, 5),
    "coverage": Coverage(BOOK, 5),
    "coverage, sample, soft": Coverage(BOOK, 5, n_sample=200, coding="soft"),
    "kmeans": KMeansAtSize(BOOK, 5, max_iter=5),
    "presence, df": PresenceRanking(BOOK, 5, measure="df"),
    "presence": PresenceRanking(BOOK, 5),
    "presence, pmi": PresenceRanking(BOOK, 5, measure="pmi"),
    "presence, chi2, re-coded, soft": PresenceRanking(
        BOOK, 5, measure="chi2", recode=True, coding="soft"
    ),
    "bottleneck": Bottleneck(BOOK, 5),
    "bottleneck, soft": Bottleneck(BOOK, 5, coding="soft"),
    "annealing": Annealing(BOOK, 5, n_steps=30),
    "annealing, soft": Annealing(BOOK, 5, n_steps=30, coding="soft"),
    "refinement, soft": Refinement(
        BOOK, 5, start=RandomSubset(BOOK, random_state=0), n_steps=8, n_folds=0, coding="soft"
    ),
    "refinement": Refinement(
        BOOK, 5, start=Annealing(BOOK, n_steps=20, random_state=0), n_steps=6, n_folds=1
    ),
    "elimination": PruningPath(BOOK, 5, sizes=[8, 5], repair=3),
}
LONG = {
    "annealing": {"n_steps": 250},
    "annealing, soft": {"n_steps": 300},
    "refinement, soft": {"n_steps": 100},
    "refinement": {"start__n_steps": 250, "n_steps": 60},
    "elimination": {"sizes": [8, 4], "repair": 20},
}
"""What a search needs to find the right answer; other promises hold after a few steps, too."""
LABELLED = [n for n, s in SELECTORS.items() if s.__sklearn_tags__().target_tags.required]
ANY = pytest.mark.parametrize("name", SELECTORS)
SUPERVISED = pytest.mark.parametrize("name", LABELLED)


def made(name, **parameters):
    """A fresh selector of the table, with a seed where it has one."""
    found = clone(SELECTORS[name])
    seeded = {"random_state": 0} if "random_state" in found.get_params(deep=False) else {}
    return found.set_params(**{"n_jobs": 1, **seeded, **parameters})


def outcome(saw):
    """What a fitted selector chose and does, for exact comparison."""
    selection = saw.selection_
    words = selection.groups if selection.kept is None else selection.kept
    return words.tolist(), selection.scores, saw.codebook_, saw.transform(BAGS[::5]).tolist()


def heirs_of_the_informative(saw):
    """The words of a codebook that are the nearest to one of the four."""
    four = BOOK.only(sorted(INFORMATIVE)).words
    squares = ((four[:, None] - saw.codebook_.words) ** 2).sum(axis=2)
    return set(squares.argmin(axis=1).tolist())


@pytest.fixture(scope="module")
def fits():
    return {name: made(name).fit(BAGS, Y) for name in SELECTORS}


@pytest.fixture
def saw(name, fits):
    """A fitted selector that no test changes."""
    return fits[name]


@ANY
@pytest.mark.parametrize("n_kept", [1, N_WORDS])
def test_one_word_or_all_words_can_be_kept(name, n_kept):
    saw = made(name, n_kept=n_kept).fit(BAGS, Y)
    assert saw.transform(BAGS).shape == (len(BAGS), n_kept)
    if n_kept == N_WORDS and saw.selection_.kept is not None and not isinstance(saw, KMeansAtSize):
        assert set(saw.selection_.kept.tolist()) == set(BOOK.ids.tolist())


@ANY
def test_as_many_words_are_kept_as_asked_and_a_selection_says_what_it_codes_with(saw, name):
    selection = saw.selection_
    if selection.kept is None:
        assert set(selection.groups.tolist()) - {-1} == set(range(selection.n_columns))
        assert selection.n_columns == 5
    else:
        assert selection.kept.dtype == np.int64
        assert len(set(selection.kept.tolist())) == len(selection.kept) == 5
    if selection.codes_with == "full":
        assert saw.codebook_.digest == BOOK.digest
        assert selection.n_coding_words == N_WORDS
    elif isinstance(saw, KMeansAtSize):
        assert selection.n_coding_words == 5
    else:
        if isinstance(saw, Refinement):
            assert np.array_equal(saw.codebook_.ids, selection.kept)
            assert saw.moved_ > 0 or saw.holdout_.n_steps == 0
        else:
            assert saw.codebook_.digest == BOOK.only(selection.kept).digest
        # In the order of the codebook, so that ties fall as they do there.
        assert (np.diff(BOOK.positions(selection.kept)) > 0).all()
    record = selection.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["method"]
    assert record["n_columns"] == 5


@SUPERVISED
def test_planted_words_are_found(name):
    saw = made(name, n_kept=N_INFORMATIVE, **LONG.get(name, {})).fit(BAGS, Y)
    if isinstance(saw, Refinement):
        # Wherever the words began: each of the four has a moved word of its own.
        assert len(heirs_of_the_informative(saw)) == N_INFORMATIVE
        return
    if saw.selection_.kept is not None:
        assert set(saw.selection_.kept.tolist()) == INFORMATIVE
        return
    # Merged words: the four must stay apart, when there is room for others.
    saw = made(name, n_kept=N_INFORMATIVE + 2).fit(BAGS, Y)
    groups = saw.selection_.groups[BOOK.positions(sorted(INFORMATIVE))]
    assert len(set(groups.tolist())) == N_INFORMATIVE


@SUPERVISED
def test_names_of_classes_do_not_matter(saw, name):
    # The order of the names is the order of the classes, so this renames and reorders both.
    renamed = {"pine": 3, "oak": 41, "ash": 7, "elm": 0}
    again = made(name, **LONG.get(name, {})).fit(BAGS, [renamed[label] for label in Y])
    if isinstance(saw, Refinement):
        assert len(heirs_of_the_informative(again)) == N_INFORMATIVE
    elif saw.selection_.kept is not None:
        assert set(again.selection_.kept.tolist()) >= INFORMATIVE
    assert again.classes_.tolist() == [0, 3, 7, 41]
    assert saw.classes_.tolist() == ["ash", "elm", "oak", "pine"]


@ANY
def test_new_bags_are_coded_by_the_choice(saw, name):
    codes = saw.transform(BAGS)
    coder = bs.BagOfWords(saw.codebook_, coding=saw.coding, sharpness=saw.sharpness, n_jobs=1)
    np.testing.assert_array_equal(codes, saw.selection_.reduce(coder.transform(BAGS)))
    assert codes.shape == (len(BAGS), saw.selection_.n_columns)
    assert codes.dtype == np.float32
    if saw.selection_.codes_with == "pruned":
        np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=1e-5)
    else:
        assert (codes.sum(axis=1) <= 1 + 1e-5).all()


@ANY
def test_the_same_seed_keeps_the_same_words_on_any_number_of_threads(saw, name):
    labels = (Y,) if name in LABELLED else ()  # nor do labels matter that are not needed
    assert outcome(made(name, n_jobs=2).fit(BAGS, *labels)) == outcome(saw)


@ANY
@pytest.mark.parametrize("wrong", [0, N_WORDS + 1, None])
def test_numbers_of_words_that_cannot_be_are_refused(name, wrong):
    if name == "elimination" and wrong is None:
        assert made(name, n_kept=None).fit(BAGS, Y).selection_.n_columns == 5  # its smallest stop
        return
    with pytest.raises(ParameterError, match="n_kept must be an integer from 1 to 24; got"):
        made(name, n_kept=wrong).fit(BAGS, Y)


@ANY
def test_unknown_codings_and_labels_that_are_not_one_per_bag_are_refused(name):
    with pytest.raises(ParameterError, match="coding must be one of 'hard', 'soft'; got 'fisher'"):
        made(name, coding="fisher").fit(BAGS, Y)
    for wrong in (Y[:-1], Y[:, None]):
        with pytest.raises(DataError, match=f"one label per bag \\({len(BAGS)}\\)"):
            made(name).fit(BAGS, wrong)
    if name in LABELLED:
        with pytest.raises(DataError, match="at least 2 classes; got 1"):
            made(name).fit(BAGS, np.full(len(BAGS), "pine"))


@ANY
def test_bags_that_are_all_alike_give_words_without_a_warning(name):
    same = bs.Bags(np.tile(BAGS[0], (6, 1)), np.arange(7) * len(BAGS[0]), scale=32)
    saw = made(name).fit(same, [0, 0, 0, 1, 1, 1])
    assert np.isfinite(saw.selection_.scores).all()
    codes = saw.transform(same)
    assert np.isfinite(codes).all()
    assert codes.shape[1] == saw.selection_.n_columns <= 5
    if saw.selection_.kept is not None:
        assert len(set(saw.selection_.kept.tolist())) == 5


@ANY
def test_a_class_of_one_image_and_an_empty_bag_are_no_obstacle(name):
    rows = np.concatenate([[0], np.arange(N_EACH, len(BAGS))])
    assert made(name).fit(BAGS[rows], Y[rows]).transform(BAGS).shape == (len(BAGS), 5)
    bags = bs.Bags(BAGS.values, np.concatenate([[0], BAGS.offsets]), scale=32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="1 of .* bags have no descriptors")
        codes = made(name).fit(bags, np.concatenate([["elm"], Y])).transform(bags)
    assert np.isfinite(codes).all()
    assert not codes[0].any()


@ANY
def test_shared_codes_change_nothing_but_the_time(saw, name):
    shared = SharedCodes(BOOK, BAGS)
    # The second fit finds histograms and states that the first has made and moved.
    for _ in range(2):
        assert outcome(made(name)._fit_shared(BAGS, Y, shared)) == outcome(saw)


def test_codes_of_other_bags_are_not_used():
    shared = SharedCodes(BOOK, BAGS[::2])
    for name in ("presence", "bottleneck", "annealing"):
        other = made(name)._fit_shared(BAGS, Y, shared)
        assert outcome(other) == outcome(made(name).fit(BAGS, Y))
        assert not hasattr(other, "_shared")
