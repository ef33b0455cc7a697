import numpy as np
import pytest
from tests.oracles import coding as oracle

from bowsaw.bags import Bags
from bowsaw.coding import soft
from bowsaw.coding.soft import sharpness_for, soft_histograms
from bowsaw.errors import DataError, ParameterError


def unit(random, n_rows, n_dims=16):
    rows = np.abs(random.normal(size=(n_rows, n_dims)))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def rounding(bags, words, sharpness):
    centre = words.mean(axis=0)
    word = np.linalg.norm(words - centre, axis=1).max() / bags.scale
    row = np.linalg.norm(bags.values - centre, axis=1).max()
    unit_error = (words.shape[1] + 6) * 2.0**-24
    return 4 * sharpness * unit_error * (row / bags.scale + word) * word + 2e-6


def assert_is_the_twin(bags, words, sharpness):
    found = soft_histograms(bags, words, sharpness, n_jobs=1)
    unit_words = words.astype(np.float64) / bags.scale
    unit_bags = [rows.astype(np.float64) / bags.scale for rows in bags]
    expected = [oracle.soft_histogram(rows, unit_words, sharpness) for rows in unit_bags]
    assert found.dtype == np.float32
    tolerance = np.expm1(rounding(bags, words, sharpness))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-12)
    filled = bags.counts > 0
    np.testing.assert_allclose(found[filled].sum(axis=1), 1, atol=2e-6)


@pytest.mark.parametrize(("sharpness", "n_words"), [(1e-6, 7), (1, 1), (40, 2), (1e6, 300)])
def test_histograms_are_means_of_softmaxes(sharpness, n_words):
    random = np.random.default_rng(n_words)
    bags = Bags.from_list([unit(random, n) for n in (1, 0, 5, 40)])
    assert_is_the_twin(bags, unit(random, n_words), sharpness)


def test_very_sharp_is_hard_very_blunt_is_flat_and_far_descriptors_count_once():
    random = np.random.default_rng(1)
    bags, words = Bags(unit(random, 200)), unit(random, 9)
    for sharpness in (1e9, 1e38, 1e300):
        sharp = soft_histograms(bags, words, sharpness)[0]
        np.testing.assert_allclose(sharp, oracle.hard_histogram(bags[0], words), atol=1e-6)
    for sharpness in (1e-12, 1e-300):
        np.testing.assert_allclose(soft_histograms(bags, words, sharpness), 1 / 9, rtol=1e-6)
    # Every exp(−sharpness · distance²) is 0 in float64 as well; only their ratios are not.
    for distance in (1e2, 1e6, 1e12):
        histogram = soft_histograms(Bags(bags.values + np.float32(distance)), words, 40.0)
        assert np.isfinite(histogram).all()
        np.testing.assert_allclose(histogram.sum(), 1, atol=2e-6)
    for sharpness in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ParameterError, match="sharpness must be a finite number above 0"):
            soft_histograms(bags, words, sharpness)


def test_a_row_depends_on_its_bag_alone(monkeypatch):
    random = np.random.default_rng(4)
    arrays = [unit(random, n) for n in (3, 0, 700, 1, 17, 64)]
    bags, words = Bags.from_list(arrays), unit(random, 50)
    together = soft_histograms(bags, words, 40.0, n_jobs=1)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(soft_histograms(bags, words, 40.0, n_jobs=n_jobs), together)
    for i in range(len(bags)):
        np.testing.assert_array_equal(soft_histograms(bags[i : i + 1], words, 40.0)[0], together[i])
    order = [4, 2, 2, 0]
    np.testing.assert_array_equal(soft_histograms(bags[order], words, 40.0), together[order])
    # A long bag is cut into blocks.
    monkeypatch.setattr(soft, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(soft_histograms(bags, words, 40.0), together, rtol=2e-6)


def test_old_content_of_out_is_overwritten(tmp_path):
    out = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", np.float32, shape=(2, 2))
    out[:] = 7
    bags, words = Bags.from_list([[[0.5]], []]), np.array([[0.0], [1.0]], np.float32)
    assert soft_histograms(bags, words, 1.0, out=out) is out
    assert out.tolist() == [[0.5, 0.5], [0, 0]]


@pytest.mark.parametrize(
    ("rows", "words", "what"),
    [([[1e20]], [[0.0]], "descriptors"), ([[0.0]], [[3e38], [-3e38]], "words")],
)
def test_what_float32_cannot_square_is_refused(rows, words, what):
    with pytest.raises(DataError, match=f"{what} must lie within"):
        soft_histograms(Bags(rows), np.array(words, np.float32), 40.0, n_jobs=1)


@pytest.mark.parametrize(("target", "scale"), [(1.001, 1), (5.5, 512), (11.999999, 1e-4), (2, 1e6)])
def test_the_target_perplexity_is_reached(target, scale):
    random = np.random.default_rng(10)
    rows, words = unit(random, 40), unit(random, 12)
    bags = Bags(rows * np.float32(scale), scale=scale)
    sharpness = sharpness_for(bags, words * np.float32(scale), target, seed=0)
    assert oracle.perplexity(rows, words, sharpness) == pytest.approx(target, rel=1e-6)


def test_the_sample_depends_on_the_seed_alone(monkeypatch):
    monkeypatch.setattr(soft, "_PERPLEXITY_SAMPLE", 5)
    random = np.random.default_rng(12)
    bags, words = Bags(unit(random, 300), [0, 1, 1, 200, 300]), unit(random, 12)
    found = [sharpness_for(bags, words, 3.0, seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_a_target_that_cannot_be_reached_is_refused():
    words = np.array([[0.0], [0.0], [1.0]], np.float32)
    for target in (1, 3, np.nan):
        with pytest.raises(ParameterError, match="above 1 and below 3"):
            sharpness_for(Bags([[0.1]]), words, target, seed=0)
    for bag, given, target, message in (
        ([[0.1]], words, 1.5, r"as low as 1\.5: at any sharpness 2 words"),
        ([[0.1]], words * 0, 2.5, "3 words are equally near"),
        ([], words, 2.0, "all bags are empty"),
    ):
        with pytest.raises(DataError, match=message):
            sharpness_for(Bags.from_list([bag]), given, target, seed=0)
