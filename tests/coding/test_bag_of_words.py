from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifierCV
from tests.oracles import coding as oracle

from bowsaw.bags import Bags
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.coding import bag_of_words
from bowsaw.coding.bag_of_words import SHARPNESS_GRID, BagOfWords
from bowsaw.errors import DataError, MismatchError, ParameterError

CODINGS = pytest.mark.parametrize("coding", ["hard", "soft"])
WORDS = np.array([[0, 0], [0, 3], [4, 0], [4, 3]], np.float32)


@pytest.fixture
def random():
    return np.random.default_rng(0)


@pytest.fixture
def bags(random):
    return Bags.from_list([random.integers(0, 5, (n, 2)) for n in (3, 1, 8, 20)])


@pytest.fixture
def book():
    return Codebook(WORDS, [7, 3, 12, 0])


# -- identities ------------------------------------------------------------------------------------


@CODINGS
def test_rows_are_shares_that_sum_to_one(bags, book, coding):
    found = BagOfWords(book, coding=coding, sharpness=0.1).transform(bags)
    assert found.shape == (4, 4)
    assert found.dtype == np.float32
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_hard_histograms_are_the_twins(bags, book):
    expected = [oracle.hard_histogram(rows, WORDS) for rows in bags]
    found = BagOfWords(book).transform(bags)
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


@CODINGS
def test_permuting_words_permutes_columns(bags, random, coding):
    # No ties: among equally near words the first wins, and that is another after a permutation.
    book = Codebook(random.normal(size=(6, 2)) + 2)
    ids = random.permutation(6)
    coder = BagOfWords(book, coding=coding, sharpness=0.5)
    permuted = BagOfWords(book.only(ids), coding=coding, sharpness=0.5)
    np.testing.assert_allclose(permuted.transform(bags), coder.transform(bags)[:, ids], rtol=1e-5)
    names = coder.get_feature_names_out()
    assert permuted.get_feature_names_out().tolist() == names[ids].tolist()


@CODINGS
def test_keeping_every_word_changes_nothing(bags, book, coding):
    whole = BagOfWords(book, coding=coding).transform(bags)
    again = BagOfWords(book.only(book.ids), coding=coding).transform(bags)
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_array_equal(
        BagOfWords(book.without([]), coding=coding).transform(bags), whole
    )


def test_soft_codes_of_kept_words_are_renormalised_columns(random):
    book = Codebook(random.normal(size=(20, 4)), random.permutation(20))
    one_each = Bags(random.normal(size=(15, 4)), np.arange(16))
    kept = [4, 17, 0, 9]
    full = BagOfWords(book, coding="soft", sharpness=0.3).transform(one_each).astype(np.float64)
    columns = full[:, book.positions(kept)]
    expected = columns / columns.sum(axis=1, keepdims=True)
    coder = BagOfWords(book.only(kept), coding="soft", sharpness=0.3)
    np.testing.assert_allclose(coder.transform(one_each), expected, rtol=2e-5)
    # The histogram of a bag is the mean of its descriptors' codes.
    together = Bags(one_each.values)
    np.testing.assert_allclose(coder.transform(together)[0], expected.mean(axis=0), rtol=2e-5)


def test_hard_codes_of_kept_words_send_each_descriptor_to_its_first_survivor(random):
    book = Codebook(random.integers(0, 6, (20, 3)))
    rows = random.integers(0, 6, (200, 3)).astype(np.float32)
    kept = [1, 4, 16]
    expected = oracle.hard_histogram(rows, book.only(kept).words)
    found = BagOfWords(book.only(kept)).transform([rows])[0]
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@CODINGS
def test_units_do_not_matter(random, coding):
    values = random.integers(0, 200, (50, 8)).astype(np.uint8)
    words = random.integers(0, 200, (9, 8)).astype(np.float32)
    in_bytes, in_units = Bags(values, scale=512), Bags(values / np.float32(512))
    found = [
        BagOfWords(Codebook(words / 512 * scale, scale=scale), coding=coding).transform(bags)
        for scale in (1, 512)
        for bags in (in_bytes, in_units)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-4, atol=1e-9)


@CODINGS
def test_a_row_depends_on_its_bag_alone(random, coding):
    bags = Bags.from_list([random.normal(size=(n, 8)) for n in (600, 0, 1, 40)])
    coder = BagOfWords(random.normal(size=(30, 8)), coding=coding)
    with pytest.warns(UserWarning, match="1 of 4 bags have no descriptors"):
        together = coder.transform(bags)
    for i in (0, 2, 3):
        np.testing.assert_array_equal(coder.transform(bags[i : i + 1]), together[i : i + 1])
        np.testing.assert_array_equal(coder.transform([bags[i]]), together[i : i + 1])


# -- bags at the edge ------------------------------------------------------------------------------


@CODINGS
def test_an_empty_bag_gives_a_zero_row_and_a_warning(book, coding):
    with pytest.warns(UserWarning, match="2 of 3 bags have no descriptors; their rows are zero"):
        found = BagOfWords(book, coding=coding).transform([[], np.zeros((1, 2)), []])
    assert found[[0, 2]].tolist() == [[0] * 4] * 2
    np.testing.assert_allclose(found[1].sum(), 1, rtol=1e-6)


@CODINGS
def test_no_bags_give_no_rows(book, coding):
    assert BagOfWords(book, coding=coding).transform([]).shape == (0, 4)


@CODINGS
def test_other_descriptors_are_refused(book, coding):
    coder = BagOfWords(book, coding=coding)
    with pytest.raises(MismatchError, match="words of 2 dimensions"):
        coder.transform([np.zeros((1, 3))])
    with pytest.raises(MismatchError, match="words of 2 dimensions"):
        coder.fit([np.zeros((1, 3))])
    described = BagOfWords(Codebook(WORDS, description={"name": "a"}), coding=coding)
    with pytest.raises(MismatchError, match="trained on descriptors"):
        described.transform(Bags(np.zeros((1, 2)), description={"name": "b"}))


# -- into memory of the caller's -------------------------------------------------------------------


@CODINGS
def test_rows_go_into_a_memory_map(bags, book, coding, tmp_path):
    coder = BagOfWords(book, coding=coding)
    out = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", np.float32, shape=(10, 4))
    assert coder.transform_into(bags, out[3:7]).shape == (4, 4)
    out.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy")[3:7], coder.transform(bags))
    assert not np.load(tmp_path / "h.npy")[[0, 1, 2, 7, 8, 9]].any()


@CODINGS
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (4,), (5, 4)])
def test_rows_do_not_go_where_they_do_not_fit(bags, book, coding, shape):
    # The kernels do not check: a smaller array was written past its end.
    with pytest.raises(ParameterError, match=r"out must be float32 of shape \(4, 4\)"):
        BagOfWords(book, coding=coding).transform_into(bags, np.zeros(shape, np.float32))


def test_rows_go_into_float32_only(bags, book):
    with pytest.raises(ParameterError, match="got float64"):
        BagOfWords(book).transform_into(bags, np.zeros((4, 4)))


# -- what fit learns -------------------------------------------------------------------------------


def test_a_given_codebook_needs_no_fit(bags, book):
    coder = BagOfWords(book, coding="soft", sharpness=7)
    unfitted = coder.transform(bags)
    assert coder.sharpness_in_use() == 7
    assert coder.words_in_use() is book
    np.testing.assert_array_equal(coder.fit(bags).transform(bags), unfitted)
    assert coder.codebook_ is book
    assert coder.sharpness_ == 7


def test_a_learned_codebook_is_that_of_its_estimator(bags):
    learner = KMeansCodebook(n_words=3, random_state=4)
    coder = BagOfWords(learner).fit(bags)
    assert coder.codebook_ == KMeansCodebook(n_words=3, random_state=4).fit(bags).codebook_
    assert not hasattr(learner, "codebook_")
    assert coder.transform(bags).shape == (4, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codebook": KMeansCodebook(2)}, "learns its codebook: call fit"),
        ({"coding": "soft", "sharpness": "auto"}, "chooses its sharpness: call fit"),
        ({"coding": "soft", "perplexity": 2.0}, "chooses its sharpness: call fit"),
    ],
)
def test_what_is_learned_must_be_fitted_first(bags, options, message):
    coder = BagOfWords(**{"codebook": WORDS} | options)
    with pytest.raises(NotFittedError, match=message):
        coder.transform(bags)


def test_names_of_words_that_are_not_learned_yet():
    with pytest.raises(NotFittedError):
        BagOfWords(KMeansCodebook(2)).get_feature_names_out()


def test_the_target_perplexity_is_reached(bags, book):
    coder = BagOfWords(book, coding="soft", perplexity=2.5, sharpness=1e9).fit(bags)
    assert oracle.perplexity(bags.values, WORDS, coder.sharpness_) == pytest.approx(2.5, rel=1e-6)
    np.testing.assert_array_equal(
        coder.transform(bags),
        BagOfWords(book, coding="soft", sharpness=coder.sharpness_).transform(bags),
    )


def planted(gaps, n_bags=60):
    """Two classes of bags whose descriptors are a little or a lot nearer to one of two words.

    ``gaps`` is, for each class, by how much the squared distances of half of its descriptors to the
    two words differ. The other half lies on one word or the other by chance: noise that is the same
    at any sharpness.
    """
    random = np.random.default_rng(1)
    y = np.arange(n_bags) % 2
    gap = np.where(random.random((n_bags, 80)) < 0.5, 1.0, -1.0)
    gap[:, ::2] = np.array(gaps)[y][:, None]
    # Between words at 0 and 1 the gap of a descriptor at x is 1 − 2x.
    return Bags.from_list([(1 - row[:, None]) / 2 for row in gap]), np.array([[0.0], [1.0]]), y


@pytest.mark.parametrize(
    ("gaps", "best"),
    # Blunt codes lose a small gap; sharp codes are full for both of two large ones.
    [((-0.01, 0.01), 160.0), ((0.2, 0.4), 10.0)],
)
def test_auto_finds_a_planted_sharpness(gaps, best):
    bags, words, y = planted(gaps)
    coder = BagOfWords(words, coding="soft", sharpness="auto").fit(bags, y)
    scores = []
    for sharpness in SHARPNESS_GRID:
        codes = [oracle.soft_histogram(rows, words, sharpness) for rows in bags]
        ridges = [10.0**e for e in range(-5, 2)]
        scores.append(RidgeClassifierCV(alphas=ridges).fit(np.sqrt(codes), y).best_score_)
    assert np.argmax(scores) == SHARPNESS_GRID.index(best)
    assert coder.sharpness_ == best


def test_auto_takes_labels_of_any_kind():
    bags, words, y = planted((-0.01, 0.01))
    coder = BagOfWords(words, coding="soft", sharpness="auto")
    assert coder.fit(bags, np.array(["cat", "dog"])[y]).sharpness_ == 160
    assert coder.fit(bags, (y + 5).tolist()).sharpness_ == 160


def test_auto_needs_labels_that_fit(bags, book):
    coder = BagOfWords(book, coding="soft", sharpness="auto")
    with pytest.raises(ParameterError, match="needs labels"):
        coder.fit(bags)
    with pytest.raises(DataError, match="one label per bag"):
        coder.fit(bags, [0, 1])
    with pytest.raises(DataError, match="at least 2 classes"):
        coder.fit(bags, [1, 1, 1, 1])
    with pytest.raises(DataError, match="at least 2 classes"):
        coder.fit([], [])


def test_hard_coding_needs_neither_labels_nor_a_sharpness(bags, book):
    for options in ({"sharpness": "auto"}, {"perplexity": 2.0}):
        coder = BagOfWords(book, **options)
        expected = BagOfWords(book).transform(bags)
        np.testing.assert_array_equal(coder.transform(bags), expected)
        np.testing.assert_array_equal(coder.fit_transform(bags), expected)


def test_the_grid_is_the_one_that_the_documentation_names():
    listed = ", ".join(f"{value:g}" for value in SHARPNESS_GRID)
    assert listed in BagOfWords.__doc__
    assert bag_of_words.BagOfWords([[0.0]]).sharpness in SHARPNESS_GRID


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coding": "fisher"}, "coding must be one of 'hard', 'soft'; got 'fisher'"),
        ({"coding": None}, "coding must be"),
        ({"sharpness": 0}, "sharpness must be a finite number above 0; got 0. Or pass 'auto'"),
        ({"sharpness": -1.0}, "sharpness must be"),
        ({"sharpness": np.nan}, "sharpness must be"),
        ({"sharpness": np.inf}, "sharpness must be"),
        ({"sharpness": "best"}, "sharpness must be"),
        ({"sharpness": None}, "sharpness must be"),
        ({"sharpness": [40.0]}, "sharpness must be"),
        ({"perplexity": "2"}, "perplexity must be a finite number"),
        ({"coding": "soft", "perplexity": 4}, "above 1 and below 4"),
        ({"n_jobs": 0}, "n_jobs must be a whole number"),
    ],
)
def test_parameters_out_of_range_are_refused(bags, book, options, message):
    with pytest.raises(ParameterError, match=message):
        BagOfWords(book, **options).fit(bags).transform(bags)


def test_words_that_are_none_are_refused(bags):
    with pytest.raises(DataError, match="words must be"):
        BagOfWords(None).fit(bags)
