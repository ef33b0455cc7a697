"""Random subsets, farthest points and k-means at the small size."""

import inspect
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import bowsaw as bs
from bowsaw.errors import DataError, MismatchError
from bowsaw.selection.baselines import FarthestPoint, KMeansAtSize, RandomSubset

RANDOM = np.random.default_rng(4)
BOOK = bs.Codebook(RANDOM.random((12, 3)) * 4, RANDOM.permutation(90)[:12] + 7, scale=4)
BAGS = bs.Bags(RANDOM.integers(0, 256, (80, 3)).astype(np.uint8), [0, 30, 55, 80], scale=256)


def test_every_word_is_kept_equally_often_and_a_drawn_seed_is_recorded():
    # 400 subsets of 3 of 12 words: a word is in Binomial(400, 1/4) of them, so four standard
    # errors are 4 · sqrt(400 · 1/4 · 3/4) = 35.
    seen = np.zeros(12)
    for seed in range(400):
        fitted = RandomSubset(BOOK, 3, random_state=seed).fit(BAGS)
        seen[BOOK.positions(fitted.selection_.kept)] += 1
    assert np.abs(seen - 100).max() <= 35
    fitted = RandomSubset(BOOK, 6, random_state=None).fit(BAGS)
    again = RandomSubset(BOOK, 6, random_state=fitted.selection_.seed).fit(BAGS)
    np.testing.assert_array_equal(fitted.selection_.kept, again.selection_.kept)


def radius(words, kept):
    """The distance of the farthest word to its nearest kept one, by the definition."""
    apart = np.linalg.norm(words[:, None] - words[None, list(kept)], axis=2)
    return apart.min(axis=1).max()


def test_each_farthest_point_is_the_farthest_from_those_before():
    fitted = FarthestPoint(BOOK, 12).fit(BAGS)
    words = BOOK.words.astype(float)
    taken = BOOK.positions(fitted.order_).tolist()
    assert taken[0] == np.linalg.norm(words - words.mean(axis=0), axis=1).argmin()
    for step in range(1, 12):
        gaps = np.linalg.norm(words[:, None] - words[None, taken[:step]], axis=2).min(axis=1)
        assert gaps[taken[step]] == pytest.approx(gaps.max())
        assert -4 * fitted.selection_.scores[step] == pytest.approx(
            radius(words, taken[: step + 1])
        )


@given(npst.arrays(np.int64, (7, 2), elements=st.integers(0, 6)), st.integers(1, 7))
def test_farthest_points_are_within_twice_the_best_radius(words, n_kept):
    # Gonzalez (1985): the greedy radius is at most twice that of the best subset.
    fitted = FarthestPoint(words, n_kept).fit([[[0.0, 0.0]]])
    best = min(radius(words, kept) for kept in combinations(range(7), n_kept))
    found = radius(words, fitted.selection_.kept)
    assert found <= 2 * best + 1e-9
    assert -fitted.selection_.scores[-1] == pytest.approx(found)
    assert len(set(fitted.selection_.kept.tolist())) == n_kept


def test_it_is_k_means_at_the_small_size():
    other = bs.Bags(RANDOM.integers(0, 200, (60, 3)).astype(np.uint8), [0, 20, 60], scale=256)
    how = {"max_iter": 6, "random_state": 2, "n_jobs": 1}
    for bags in (None, other):
        fitted = KMeansAtSize(BOOK, 4, bags=bags, **how).fit(BAGS)
        trainer = bs.KMeansCodebook(4, **how).fit(BAGS if bags is None else bags)
        assert fitted.codebook_ == trainer.codebook_
        assert fitted.selection_.kept.tolist() == [0, 1, 2, 3]
        assert fitted.selection_.scores == tuple(-value for value in trainer.objectives_)


def test_k_means_refuses_other_descriptors_and_too_few():
    with pytest.raises(MismatchError, match="3 dimensions"):
        KMeansAtSize(BOOK, 4, bags=[np.zeros((9, 5))]).fit(BAGS)
    with pytest.raises(DataError, match="distinct descriptors"):
        KMeansAtSize(BOOK, 4).fit([np.zeros((9, 3))])


def test_k_means_has_the_defaults_of_k_means():
    ours = inspect.signature(KMeansAtSize).parameters
    theirs = inspect.signature(bs.KMeansCodebook).parameters
    shared = set(theirs) - {"n_words", "n_components", "checkpoint", "parallel", "random_state"}
    assert {name: ours[name].default for name in shared} == {
        name: theirs[name].default for name in shared
    }
