"""Boosted word stumps: the rounds, against a slow twin that follows the formula."""

from __future__ import annotations

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError
from reproduction.methods.boosting import BoostedStumps, boost, stump_sides

RANDOM = np.random.default_rng(11)
BOOK = bs.Codebook(np.arange(8.0)[:, None] * 3, RANDOM.permutation(60)[:8] + 5)
COUNTS = RANDOM.poisson(1.2, (24, 8)) + (np.arange(8) == 0)
BAGS = bs.Bags.from_list([np.repeat(np.arange(8.0) * 3, row)[:, None] for row in COUNTS])
LABELS = np.arange(24) % 3


def slow_rounds(sides, labels, n_rounds):
    """AdaBoost.MH with real-valued stumps, loop by loop."""
    n_words, n_thresholds = sides.shape[:2]
    signs = np.where(labels[:, None] == np.arange(labels.max() + 1), 1, -1)
    small = 1 / signs.size
    weights = np.full(signs.shape, small)
    taken, normalisers, margins = [], [], np.zeros(signs.shape)

    def held(word, cut):
        """Each side of a stump with the weights of a class and of the rest, class by class."""
        for side in (sides[word, cut] == 1, sides[word, cut] == 0):
            for c in range(signs.shape[1]):
                own, rest = (weights[side & (signs[:, c] == sign), c].sum() for sign in (1, -1))
                yield side, c, own, rest

    for _ in range(n_rounds):
        best = (np.inf, None, None)
        for word in range(n_words):
            for cut in range(n_thresholds):
                z = sum(2 * np.sqrt(own * rest) for _, _, own, rest in held(word, cut))
                if word not in taken and z < best[0] - 1e-9:
                    best = (z, word, cut)
        taken.append(best[1])
        vote = np.zeros(signs.shape)
        for side, c, own, rest in held(*best[1:]):
            vote[side, c] = 0.5 * np.log((own + small) / (rest + small))
        margins += signs * vote
        weights = weights * np.exp(-signs * vote)
        normalisers.append(weights.sum())
        weights /= weights.sum()
    return taken, normalisers, np.exp(-margins).mean()


def test_rounds_follow_the_formula():
    sides = stump_sides((COUNTS / COUNTS.sum(axis=1, keepdims=True)).astype(np.float32), 3)
    taken, losses = boost(sides, LABELS, 8)
    expected, normalisers, loss = slow_rounds(sides, LABELS, 8)
    assert taken.tolist() == expected
    np.testing.assert_allclose(losses, np.cumprod(normalisers), rtol=1e-9)
    # The product of the normalisers is the mean of exp(−margin).
    assert losses[-1] == pytest.approx(loss)


def test_the_loss_never_rises_and_fewer_rounds_are_the_first_of_more():
    boosted = BoostedStumps(BOOK, 8).fit(BAGS, LABELS)
    assert (np.diff(boosted.selection_.scores) >= 0).all()
    assert boosted.selection_.scores[0] > -1
    for n_kept in (1, 4):
        fewer = BoostedStumps(BOOK, n_kept).fit(BAGS, LABELS).selection_
        np.testing.assert_array_equal(fewer.kept, boosted.selection_.kept[:n_kept])
        assert fewer.scores == boosted.selection_.scores[:n_kept]


def test_the_first_threshold_is_presence_and_the_others_cut_what_is_present():
    histograms = np.array([[0, 0.5], [0, 0.5], [0.2, 0.5], [0.4, 0.5], [0.6, 0.5], [0.8, 0.5]])
    sides = stump_sides(histograms.astype(np.float32), 2)
    assert sides[0].tolist() == [[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]]
    # A word that all have alike splits nothing.
    assert not sides[1].any()


@pytest.mark.parametrize("wrong", [0, 65, 2.0])
def test_thresholds_are_integers(wrong):
    with pytest.raises(ParameterError, match="n_thresholds must be an integer from 1 to 64"):
        BoostedStumps(BOOK, 3, n_thresholds=wrong).fit(BAGS, LABELS)
