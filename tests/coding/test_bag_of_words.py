import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifierCV
from tests.oracles import coding as oracle

from bowsaw.bags import Bags
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import SHARPNESS_GRID, BagOfWords, coded
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


@CODINGS
def test_permuting_words_permutes_columns(bags, random, coding):
    # No ties: among equally near words the first wins, and that is another after a permutation.
    book = Codebook(random.normal(size=(6, 2)) + 2)
    ids = random.permutation(6)
    coder = BagOfWords(book, coding=coding, sharpness=0.5)
    permuted = BagOfWords(book.only(ids), coding=coding, sharpness=0.5)
    found = coder.transform(bags)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(permuted.transform(bags), found[:, ids], rtol=1e-5)
    names = coder.get_feature_names_out()
    assert permuted.get_feature_names_out().tolist() == names[ids].tolist()
    coder.set_params(codebook=book.without([]))
    np.testing.assert_array_equal(coder.transform(bags), found)


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
    together = coder.transform(Bags(one_each.values))[0]
    np.testing.assert_allclose(together, expected.mean(axis=0), rtol=2e-5)


@CODINGS
def test_units_do_not_matter(random, coding):
    values = random.integers(0, 200, (50, 8)).astype(np.uint8)
    words = random.integers(0, 200, (9, 8)).astype(np.float32)
    in_bytes, in_units = Bags(values, scale=512), Bags(values / np.float32(512))
    first, *others = (
        BagOfWords(Codebook(words / 512 * scale, scale=scale), coding=coding).transform(bags)
        for scale in (1, 512)
        for bags in (in_bytes, in_units)
    )
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-9)


@CODINGS
def test_other_descriptors_are_refused(book, coding):
    coder = BagOfWords(book, coding=coding)
    for method in (coder.transform, coder.fit):
        with pytest.raises(MismatchError, match="words of 2 dimensions"):
            method([np.zeros((1, 3))])
    described = BagOfWords(Codebook(WORDS, description={"name": "a"}), coding=coding)
    with pytest.raises(MismatchError, match="trained on descriptors"):
        described.transform(Bags(np.zeros((1, 2)), description={"name": "b"}))


@CODINGS
def test_rows_go_into_a_memory_map_of_their_shape(bags, book, coding, tmp_path):
    coder = BagOfWords(book, coding=coding)
    out = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", np.float32, shape=(10, 4))
    assert coder.transform_into(bags, out[3:7]).shape == (4, 4)
    out.flush()
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy")[3:7], coder.transform(bags))
    assert not np.load(tmp_path / "h.npy")[[0, 1, 2, 7, 8, 9]].any()
    # The kernels do not check: a smaller array was written past its end.
    for shape in ((4, 3), (3, 4), (4,), (5, 4)):
        with pytest.raises(ParameterError, match=r"out must be float32 of shape \(4, 4\)"):
            coder.transform_into(bags, np.zeros(shape, np.float32))
    with pytest.raises(ParameterError, match="got float64"):
        coder.transform_into(bags, np.zeros((4, 4)))


def test_chunks_arrays_and_single_bags_equal_transform(bags, book, monkeypatch):
    monkeypatch.setattr("bowsaw.coding.bag_of_words.CHUNK_BAGS", 3)
    expected = BagOfWords(book).transform(bags)
    chunks = list(BagOfWords(book).transform_chunks(bags))
    assert [start for start, _ in chunks] == [0, 3]
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in chunks]), expected)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(coded(bags, book, "hard", 40.0), expected)
    for i in range(4):
        np.testing.assert_array_equal(BagOfWords(book).transform([bags[i]])[0], expected[i])
    with pytest.warns(UserWarning, match="1 of 2 bags have no descriptors; their rows are zero"):
        assert not BagOfWords(book).transform([[], bags[0]])[0].any()
    assert BagOfWords(book).transform([]).shape == (0, 4)


def test_a_given_codebook_needs_no_fit_and_a_learned_one_is_its_estimators(bags, book):
    coder = BagOfWords(book, coding="soft", sharpness=7)
    unfitted = coder.transform(bags)
    assert coder.sharpness_in_use() == 7
    assert coder.words_in_use() is book
    np.testing.assert_array_equal(coder.fit(bags).transform(bags), unfitted)
    assert coder.codebook_ is book
    assert coder.sharpness_ == 7
    learner = KMeansCodebook(n_words=3, random_state=4)
    coder = BagOfWords(learner).fit(bags)
    assert coder.codebook_ == KMeansCodebook(n_words=3, random_state=4).fit(bags).codebook_
    assert not hasattr(learner, "codebook_")
    assert coder.transform(bags).shape == (4, 3)


def test_learned_parameters_need_a_fit(bags):
    for coder, learned in (
        (BagOfWords(KMeansCodebook(2)), "learns its codebook"),
        (BagOfWords(WORDS, coding="soft", sharpness="auto"), "chooses its sharpness"),
        (BagOfWords(WORDS, coding="soft", perplexity=2.0), "chooses its sharpness"),
    ):
        with pytest.raises(NotFittedError, match=f"{learned}: call fit"):
            coder.transform(bags)


def test_the_target_perplexity_is_reached(bags, book):
    coder = BagOfWords(book, coding="soft", perplexity=2.5, sharpness=1e9).fit(bags)
    assert oracle.perplexity(bags.values, WORDS, coder.sharpness_) == pytest.approx(2.5, rel=1e-6)
    same = BagOfWords(book, coding="soft", sharpness=coder.sharpness_)
    np.testing.assert_array_equal(coder.transform(bags), same.transform(bags))


def planted(gaps, n_bags=60):
    """Two classes whose descriptors differ in squared distance to two words by a gap, or noise."""
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
    coder = BagOfWords(words, coding="soft", sharpness="auto").fit(bags, np.array(["a", "b"])[y])
    scores = []
    for sharpness in SHARPNESS_GRID:
        codes = [oracle.soft_histogram(rows, words, sharpness) for rows in bags]
        ridges = [10.0**e for e in range(-5, 2)]
        scores.append(RidgeClassifierCV(alphas=ridges).fit(np.sqrt(codes), y).best_score_)
    assert np.argmax(scores) == SHARPNESS_GRID.index(best)
    assert coder.sharpness_ == best
    assert ", ".join(f"{value:g}" for value in SHARPNESS_GRID) in BagOfWords.__doc__


def test_auto_needs_matching_labels_and_hard_coding_needs_none(bags, book):
    coder = BagOfWords(book, coding="soft", sharpness="auto")
    with pytest.raises(ParameterError, match="needs labels"):
        coder.fit(bags)
    with pytest.raises(DataError, match="one label per bag"):
        coder.fit(bags, [0, 1])
    for few, labels in ((bags, [1, 1, 1, 1]), ([], [])):
        with pytest.raises(DataError, match="at least 2 classes"):
            coder.fit(few, labels)
    expected = BagOfWords(book).transform(bags)
    for options in ({"sharpness": "auto"}, {"perplexity": 2.0}):
        np.testing.assert_array_equal(BagOfWords(book, **options).transform(bags), expected)
        np.testing.assert_array_equal(BagOfWords(book, **options).fit_transform(bags), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coding": "fisher"}, "coding must be one of 'hard', 'soft'; got 'fisher'"),
        ({"sharpness": 0}, "sharpness must be a finite number above 0; got 0. Or pass 'auto'"),
        ({"sharpness": "best"}, "sharpness must be"),
        ({"sharpness": [40.0]}, "sharpness must be"),
        ({"perplexity": "2"}, "perplexity must be a finite number"),
        ({"coding": "soft", "perplexity": 4}, "above 1 and below 4"),
        ({"n_jobs": 0}, "n_jobs must"),
    ],
)
def test_parameters_out_of_range_are_refused(bags, book, options, message):
    with pytest.raises(ParameterError, match=message):
        BagOfWords(book, **options).fit(bags).transform(bags)
    with pytest.raises(DataError, match="words must be"):
        BagOfWords(None).fit(bags)
