"""Eq. 3 by quadrature: known answers, closed forms and simulated descriptors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from tests.oracles import transfer as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.voronoi import VoronoiState, cell_shares

ACCURACY = {1: 1e-12, 2: 2e-4, 3: 2e-3}


def shares_of(words, word, kept, sigma):
    """The share of each kept word, from words in float64."""
    return cell_shares(np.asarray(words, dtype=np.float64) / sigma, word, np.asarray(kept))


def test_the_middle_of_three_words_on_a_line():
    state = VoronoiState(Codebook([[-1.3], [0.0], [0.8]]), [[0.0, 1.0, 0.0]], sigma=0.7)
    found = state.without([1]).transfer_matrix().toarray()[1]
    # Mass left of -0.25 over the mass between the midpoints -0.65 and 0.4.
    left = (ndtr(-0.25 / 0.7) - ndtr(-0.65 / 0.7)) / (ndtr(0.4 / 0.7) - ndtr(-0.65 / 0.7))
    np.testing.assert_allclose(found, [left, 1 - left], atol=1e-7)
    np.testing.assert_allclose(found[0], 0.34088, atol=1e-5)


@pytest.mark.parametrize("sigma", [0.01, 0.7, 30])
def test_an_end_word_gives_all_to_its_neighbour(sigma):
    words = [[-1.3], [0.0], [0.8], [5.0]]
    np.testing.assert_array_equal(shares_of(words, 0, [1, 2, 3], sigma), [1, 0, 0])
    np.testing.assert_array_equal(shares_of(words, 3, [0, 1, 2], sigma), [0, 0, 1])


LATTICES = {
    "line": ([(i,) for i in range(-3, 4)], 2),
    "square": ([(i, j) for i in range(-3, 4) for j in range(-3, 4)], 4),
    "hexagonal": (
        [(i + (j % 2) / 2, j * np.sqrt(3) / 2) for i in range(-3, 4) for j in range(-3, 4)],
        6,
    ),
    "cubic": ([(i, j, k) for i in range(-2, 3) for j in range(-2, 3) for k in range(-2, 3)], 6),
}


@pytest.mark.parametrize("sigma", [0.02, 0.3, 20])
@pytest.mark.parametrize("name", LATTICES)
def test_a_lattice_shares_equally_for_any_sigma(name, sigma):
    words, n_neighbours = LATTICES[name]
    words = np.asarray(words, dtype=np.float64)
    centre = len(words) // 2
    others = np.delete(np.arange(len(words)), centre)
    distances = np.linalg.norm(words[others] - words[centre], axis=1)
    nearest = distances < distances.min() * (1 + 1e-9)
    assert nearest.sum() == n_neighbours
    found = shares_of(words, centre, others, sigma)
    np.testing.assert_allclose(found, nearest / n_neighbours, atol=ACCURACY[words.shape[1]])


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]), st.floats(-1.5, 1.2))
def test_lines_and_planes_are_those_of_closed_forms(seed, n_dims, log_sigma):
    random = np.random.default_rng(seed)
    n_words = int(random.integers(2, 30))
    words = random.normal(size=(n_words, n_dims))
    word = int(random.integers(n_words))
    others = np.delete(np.arange(n_words), word)
    kept = np.sort(random.permutation(others)[: random.integers(1, n_words)])
    sigma = 10**log_sigma
    twin = oracle.line_shares if n_dims == 1 else oracle.plane_shares
    found = shares_of(words, word, kept, sigma)
    np.testing.assert_allclose(found, twin(words, word, kept, sigma), atol=ACCURACY[n_dims])


def test_a_plane_in_space_is_itself():
    # Words of a plane, turned into space: the third direction changes nothing.
    random = np.random.default_rng(3)
    flat, kept = random.normal(size=(20, 2)), np.array([1, 4, 8, 9, 15])
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0][:2]
    here = shares_of(flat, 0, kept, 0.5)
    np.testing.assert_allclose(
        shares_of(flat @ turn + [5, -3, 2], 0, kept, 0.5), here, atol=ACCURACY[3]
    )


def test_of_words_at_one_place_the_first_takes_all():
    words = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    # Word 4 lies where word 0 does.
    np.testing.assert_allclose(shares_of(words, 4, [0, 1, 2, 3], 0.5), [1, 0, 0, 0], atol=1e-12)
    # Words 1 and 2 are one place, and the cell of word 0 is symmetric between it and word 3.
    np.testing.assert_allclose(shares_of(words, 0, [1, 2, 3], 0.5), [0.5, 0, 0.5], atol=ACCURACY[2])


def test_sigma_is_in_unit_norm_units_and_estimated_from_bags():
    random = np.random.default_rng(23)
    words = np.array([[0, 0], [40, 0], [0, 40]], np.float32)
    rows = words[random.integers(0, 3, 3000)] + 2 * random.normal(size=(3000, 2))
    bags = Bags(rows.astype(np.float32), [0, 1000, 3000], scale=4)
    state = VoronoiState(Codebook(words, scale=4), np.full((2, 3), 1 / 3), bags=bags)
    # 6000 squared normals of standard deviation 2 / 4; their mean has the variance 2σ⁴ / 6000.
    assert abs(state.sigma**2 - 0.25) < 4 * 0.25 * np.sqrt(2 / 6000)
    full = np.full((1, 3), 1 / 3)
    one = VoronoiState(Codebook(words / 4), full, sigma=3.0).without([0])
    other = VoronoiState(Codebook(words, scale=4), full, sigma=3.0).without([0])
    np.testing.assert_array_equal(one.histograms, other.histograms)


def test_what_cannot_be_integrated_is_refused():
    with pytest.raises(ParameterError, match=r"at most 3 dimensions; the words have 4\. Use 'gaus"):
        VoronoiState(Codebook(np.eye(4)), np.eye(4), sigma=1)
    with pytest.raises(DataError, match="no descriptor differs from its nearest word"):
        VoronoiState(Codebook(np.eye(2)), np.eye(2), bags=Bags(np.eye(2), [0, 1, 2]))
    with pytest.raises(ParameterError, match="sigma is too large"):
        VoronoiState(Codebook([[0.0], [1.0], [2.0]]), np.eye(3), sigma=1e300).without([1])
