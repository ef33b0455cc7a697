from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import chi
from tests.oracles import transfer as oracle

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference import _voronoi_kernel as kernel
from bowsaw.inference.voronoi import (
    VoronoiState,
    cell_of,
    cell_shares,
    gaussian_mass,
    in_space,
)


def shares_of(words, word, kept, sigma):
    """What each kept word takes, from words in float64."""
    words = np.asarray(words, dtype=np.float64)
    points = in_space(words / sigma)
    cell = cell_of(points, word, words.shape[1])
    return cell_shares(points, word, np.asarray(kept), *cell)[0]


def around(words, word):
    """All other words, and which of them are nearest to this one, at one distance."""
    words = np.asarray(words, dtype=np.float64)
    others = np.delete(np.arange(len(words)), word)
    distances = np.linalg.norm(words[others] - words[word], axis=1)
    return others, distances < distances.min() * (1 + 1e-9)


def random_state(random, n_words, n_dims, sigma=0.5, n_bags=4):
    words = random.normal(size=(n_words, n_dims)).astype(np.float32)
    full = random.dirichlet(np.ones(n_words), size=n_bags).astype(np.float32)
    return VoronoiState(Codebook(words), full, sigma=sigma, n_jobs=1), words, full


# -- known answers ---------------------------------------------------------------------------------


def test_the_middle_of_three_words_on_a_line():
    state = VoronoiState(Codebook([[-1.3], [0.0], [0.8]]), [[0.0, 1.0, 0.0]], sigma=0.7)
    found = state.without([1]).transfer_matrix().toarray()[1]
    # Mass left of 0 over the mass between the midpoints −.65 and .4; who comes before −.25 is left.
    left = (ndtr(-0.25 / 0.7) - ndtr(-0.65 / 0.7)) / (ndtr(0.4 / 0.7) - ndtr(-0.65 / 0.7))
    np.testing.assert_allclose(found, [left, 1 - left], atol=1e-7)
    np.testing.assert_allclose(found[0], 0.34088, atol=1e-5)
    exact = shares_of([[-1.3], [0.0], [0.8]], 1, [0, 2], 0.7)
    np.testing.assert_allclose(exact, [left, 1 - left], atol=1e-12)


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


@pytest.mark.parametrize("sigma", [0.02, 0.3, 1, 20, 700])
@pytest.mark.parametrize("name", LATTICES)
def test_a_lattice_shares_equally_for_any_sigma(name, sigma):
    words, n_neighbours = LATTICES[name]
    centre = len(words) // 2
    others, nearest = around(words, centre)
    assert nearest.sum() == n_neighbours
    expected = nearest / n_neighbours
    np.testing.assert_allclose(shares_of(words, centre, others, sigma), expected, atol=1e-10)


def test_a_lattice_in_float32_through_the_state():
    words, _ = LATTICES["cubic"]
    full = np.zeros((1, 125))
    full[0, 62] = 1
    state = VoronoiState(Codebook(words), full, sigma=0.4).without([62])
    others, nearest = around(words, 62)
    np.testing.assert_array_equal(state.kept, others)
    np.testing.assert_allclose(state.histograms[0], nearest / 6, atol=1e-7)


# -- masses ----------------------------------------------------------------------------------------


def box(low, high):
    """The half-spaces of a box."""
    planes = np.zeros((6, 4))
    planes[:3, :3], planes[3:, :3] = np.eye(3), -np.eye(3)
    planes[:3, 3], planes[3:, 3] = high, -np.asarray(low)
    return planes


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([-0.3, -0.4, -0.5], [0.2, 0.1, 0.6]),
        ([0.5, -1, 0.2], [2.5, 3, 0.7]),
        ([-9, -9, -9], [9, 0, 9]),
        ([1e-3, 1e-3, 0], [3e-3, 2e-3, 1e-3]),
        ([0, 0, 0], [1, 1, 1]),
        ([-8, 2, -8], [8, 2.001, 8]),
    ],
)
def test_the_mass_of_a_box_is_a_product(low, high):
    expected = np.prod(ndtr(high) - ndtr(low))
    radius = 20.0
    body, largest = kernel.trim(box(low, high), radius)
    assert len(body) == 6
    assert largest == pytest.approx(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
    found = gaussian_mass(kernel.edges_of(body, largest))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_the_mass_of_many_cuts_is_that_of_a_ball():
    # A body with 800 tangent planes at distance 1.5 holds the ball, and not much more.
    random = np.random.default_rng(0)
    normals = random.normal(size=(800, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    body = np.concatenate([normals, np.full((800, 1), 1.5)], axis=1)
    found = gaussian_mass(kernel.edges_of(body, 3.0))
    assert chi(3).cdf(1.5) < found < chi(3).cdf(1.53)


def test_a_redundant_plane_is_dropped_and_an_empty_body_has_none():
    far = np.concatenate([box([-1] * 3, [1] * 3), [[1, 0, 0, 1.5]], [[0.6, 0.8, 0, 1.5]]])
    assert len(kernel.trim(far, 2.0)[0]) == 6
    assert not len(kernel.trim(np.concatenate([far, [[-1, 0, 0, -1.2]]]), 2.0)[0])
    twice = np.concatenate([box([-1] * 3, [1] * 3), box([-1] * 3, [1] * 3)])
    assert len(kernel.trim(twice, 2.0)[0]) == 6


# -- random words ----------------------------------------------------------------------------------


@settings(max_examples=60)
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
    np.testing.assert_allclose(found, twin(words, word, kept, sigma), atol=1e-9)


@pytest.mark.parametrize("n_dims", [2, 3])
def test_shares_are_those_of_simulated_descriptors(n_dims):
    random = np.random.default_rng(n_dims)
    words = random.normal(size=(60, n_dims))
    kept = np.sort(random.choice(60, 15, replace=False))
    for word in np.setdiff1d(np.arange(60), kept)[:8]:
        drawn = words[word] + 0.4 * random.normal(size=(40_000, n_dims))
        norms = (words**2).sum(axis=1)
        drawn = drawn[np.argmin(norms - 2 * drawn @ words.T, axis=1) == word]
        assert len(drawn) > 200
        first = np.argmin(norms[kept] - 2 * drawn @ words[kept].T, axis=1)
        found = np.bincount(first, minlength=15) / len(drawn)
        expected = shares_of(words, word, kept, 0.4)
        error = np.sqrt(expected * (1 - expected) / len(drawn))
        # Shares below 1e-4 are seen too seldom for a normal approximation.
        assert (np.abs(found - expected) <= 4 * error + 5e-4 * (expected < 1e-4)).all()


def test_a_plane_in_space_and_a_line_in_a_plane_are_themselves():
    random = np.random.default_rng(3)
    flat = random.normal(size=(20, 2))
    kept = np.array([1, 4, 8, 9, 15])
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0][:2]
    here = shares_of(flat, 0, kept, 0.5)
    there = shares_of(flat @ turn + [5, -3, 2], 0, kept, 0.5)
    np.testing.assert_allclose(there, here, atol=1e-10)


def test_words_at_one_place_and_the_first_takes_all():
    words = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    # Word 4 lies where word 0 does, which takes all of it.
    np.testing.assert_allclose(shares_of(words, 4, [0, 1, 2, 3], 0.5), [1, 0, 0, 0], atol=1e-12)
    # Words 1 and 2 are one place, and the cell of word 0 is symmetric between it and word 3.
    np.testing.assert_allclose(shares_of(words, 0, [1, 2, 3], 0.5), [0.5, 0, 0.5], atol=1e-12)


# -- the state -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_mass_is_neither_lost_nor_made_and_nothing_pruned_is_nothing_changed(n_dims):
    random = np.random.default_rng(n_dims)
    state, _, full = random_state(random, 30, n_dims)
    np.testing.assert_array_equal(state.histograms, full)
    for n_kept in (29, 10, 2, 1):
        state.reset(random.choice(30, n_kept, replace=False))
        matrix = state.transfer_matrix()
        assert matrix.shape == (30, n_kept)
        assert matrix.data.min() >= 0
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(state.histograms, full @ matrix.toarray(), atol=1e-6)
        np.testing.assert_allclose(state.histograms.sum(axis=1), 1, atol=2e-6)


@pytest.mark.parametrize(
    ("n_dims", "n_words", "n_moves"), [(1, 12, 1000), (2, 30, 60), (3, 20, 20)]
)
def test_moves_give_the_bits_of_a_fresh_start(n_dims, n_words, n_moves):
    random = np.random.default_rng(10 + n_dims)
    # A small sigma, so that cells are closed by the box and moves leave most rows as they are.
    state, _, _ = random_state(random, n_words, n_dims, sigma=0.02)
    fresh = state.copy()
    for step in range(n_moves):
        before, kept = state.histograms.copy(), state.kept
        pruned = np.setdiff1d(np.arange(n_words), kept)
        n_in = int(random.integers(0, min(3, len(pruned)) + 1))
        n_out = int(random.integers(0, min(3, len(kept) - (n_in == 0)) + 1))
        out, in_ = (random.choice(c, n, replace=False) for c, n in ((kept, n_out), (pruned, n_in)))
        state.swap(out, in_)
        same = np.setdiff1d(np.arange(min(len(kept), state.n_kept)), state.changed)
        np.testing.assert_array_equal(state.kept[same], kept[same])
        np.testing.assert_array_equal(state.histograms[:, same], before[:, same])
        if step % 40 == 0 or step >= n_moves - 5:
            fresh.reset(state.kept)
            np.testing.assert_array_equal(state.histograms, fresh.histograms)


def test_taking_a_move_back_restores_the_state_and_threads_change_nothing():
    random = np.random.default_rng(20)
    state, words, full = random_state(random, 30, 2)
    other = VoronoiState(Codebook(words), full, sigma=0.5, n_jobs=3)
    for one in (state, other):
        one.reset(np.arange(10))
    before = state.histograms.copy()
    np.testing.assert_array_equal(other.histograms, before)
    np.testing.assert_array_equal(
        state.swap([2, 3], [20, 21]).histograms, other.swap([2, 3], [20, 21]).histograms
    )
    np.testing.assert_array_equal(state.swap([20, 21], [2, 3]).histograms, before)


def test_permuting_words_permutes_the_result():
    random = np.random.default_rng(21)
    state, words, full = random_state(random, 25, 2)
    order = random.permutation(25)
    other = VoronoiState(Codebook(words[order], order), full[:, order], sigma=0.5)
    kept = [3, 9, 20, 1]
    np.testing.assert_allclose(
        other.reset(kept).histograms, state.reset(kept).histograms, atol=1e-7
    )


def test_sigma_is_in_unit_norm_units():
    random = np.random.default_rng(22)
    state, words, full = random_state(random, 12, 2)
    scaled = VoronoiState(Codebook(words * 512, scale=512), full, sigma=0.5)
    np.testing.assert_array_equal(scaled.reset([2, 5]).histograms, state.reset([2, 5]).histograms)


def test_sigma_is_estimated_from_the_bags():
    random = np.random.default_rng(23)
    words = np.array([[0, 0], [40, 0], [0, 40]], np.float32)
    codes = random.integers(0, 3, 3000)
    rows = words[codes] + 2 * random.normal(size=(3000, 2))
    bags = Bags(rows.astype(np.float32), [0, 1000, 3000], scale=4)
    full = np.full((2, 3), 1 / 3)
    state = VoronoiState(Codebook(words, scale=4), full, bags=bags)
    # 6000 squared normals of standard deviation 2 / 4; their mean has the variance 2σ⁴ / 6000.
    assert abs(state.sigma**2 - 0.25) < 4 * 0.25 * np.sqrt(2 / 6000)


def test_four_dimensions_are_refused_with_a_way_out():
    with pytest.raises(ParameterError, match=r"at most 3 dimensions; the words have 4\. Use 'gaus"):
        VoronoiState(Codebook(np.eye(4)), np.eye(4), sigma=1)


@pytest.mark.parametrize("sigma", [0, -1, np.nan, np.inf, "1"])
def test_a_sigma_is_finite_and_above_zero(sigma):
    with pytest.raises(ParameterError, match="sigma must be a finite number above 0"):
        VoronoiState(Codebook(np.eye(2)), np.eye(2), sigma=sigma)


def test_a_sigma_that_cannot_be_known_or_used_is_refused():
    with pytest.raises(DataError, match="Give sigma or bags"):
        VoronoiState(Codebook(np.eye(2)), np.eye(2))
    with pytest.raises(DataError, match="no descriptor differs from its nearest word"):
        VoronoiState(Codebook(np.eye(2)), np.eye(2), bags=Bags(np.eye(2), [0, 1, 2]))
    words = np.array([[0.0], [1.0], [2.0]])
    with pytest.raises(ParameterError, match="below 10000 times the size of every cell"):
        VoronoiState(Codebook(words), np.eye(3), sigma=1e5)
