"""Folds, error bars, limits."""

from itertools import product

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation import path as module
from bowsaw.evaluation.path import (
    Recommendation,
    SizeEstimate,
    deal,
    milliseconds_per_image,
    sizes_within,
    summarise,
)

TABLE = (
    SizeEstimate(100, 0.70, 0.02, 0.00, 0.000, 400),
    SizeEstimate(50, 0.71, 0.02, -0.01, 0.004, 200),
    SizeEstimate(20, 0.66, 0.02, 0.04, 0.010, 80),
    SizeEstimate(10, 0.67, 0.02, 0.03, 0.010, 40),
)


def test_every_class_is_spread_over_all_folds():
    labels = np.repeat([0, 1, 2], [17, 5, 9])
    folds = deal(labels, 5, seed=4)
    assert set(folds.tolist()) == set(range(5))
    for label in range(3):
        counts = np.bincount(folds[labels == label], minlength=5)
        assert counts.min() >= 1
        assert np.ptp(counts) <= 1
    assert np.ptp(np.bincount(folds)) <= 1
    assert folds.tolist() == deal(labels, 5, seed=4).tolist()
    assert folds.tolist() != deal(labels, 5, seed=5).tolist()


def test_the_smallest_class_limits_the_folds():
    assert deal(np.array([0, 0, 0, 1, 1, 1, 1]), 5, seed=0).max() == 2
    with pytest.raises(DataError, match="2 bags of each class; class 1 has 1"):
        deal(np.array([0, 0, 1]), 5, seed=0)
    with pytest.raises(DataError, match="2 groups of each class; class elm has 1"):
        deal(np.array([0, 0, 1, 1]), 5, 0, np.array([0, 1, 2, 2]), np.array(["oak", "elm"]))


def test_groups_of_several_classes_are_dealt_so_that_each_class_is_tested_in_each_fold():
    # Three films of all classes and single bags: dealt by the films' most frequent class alone,
    # two films came into one fold.
    labels = np.array([0, 0, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2, 0, 1])
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4])
    for seed in range(20):
        folds = deal(labels, 5, seed, groups)
        pairs = set(zip(folds.tolist(), labels.tolist(), strict=True))
        assert pairs == set(product(range(3), repeat=2))


def test_a_class_that_a_training_part_would_lack_is_refused_by_its_name():
    # Three groups of two classes each, and two folds: two of the groups share a class and a fold.
    labels, groups = np.array([0, 1, 1, 2, 2, 0]), np.array([0, 0, 1, 1, 2, 2])
    with pytest.raises(DataError, match=r"all bags of class \w+ fall into one fold \([01]\)"):
        deal(labels, 5, 0, groups, np.array(["oak", "elm", "ash"]))


def test_error_bars_are_those_of_nadeau_and_bengio():
    accuracies = np.array([[0.8, 0.7], [0.6, 0.6], [0.7, 0.5], [0.9, 0.9]])
    full, small = summarise([64, 8], accuracies, test_share=1 / 3, n_dims=4)
    # Folds' losses are .1, 0, .2, 0: mean .075, variance .0275 / 3; (1/4 + 1/3) of it.
    assert small.loss == pytest.approx(0.075)
    assert small.loss_se == pytest.approx(np.sqrt((1 / 4 + 1 / 3) * 0.0275 / 3))
    assert small.accuracy == pytest.approx(0.675)
    # Squared distances of .7, .6, .5, .9 from .675: .000625, .005625, .030625, .050625.
    assert small.accuracy_se == pytest.approx(np.sqrt((1 / 4 + 1 / 3) * 0.0875 / 3))
    assert (full.loss, full.loss_se) == (0, 0)
    assert (full.n_bytes, small.n_bytes) == (1024, 128)


def test_sizes_within_a_limit():
    losses, times = [row.loss for row in TABLE], [4.0, 1.5, 1.0, 0.5]
    assert sizes_within(TABLE, losses, "max_loss", 0.035) == [0, 1, 3]
    assert sizes_within(TABLE, losses, "max_loss", -0.01) == [1]
    assert sizes_within(TABLE, times, "max_ms", 1.5) == [1, 2, 3]
    with pytest.raises(ParameterError, match=r"the best, 50 words, needs -0.01\. Allow that"):
        sizes_within(TABLE, losses, "max_loss", -0.05)
    with pytest.raises(ParameterError, match=r"the best, 10 words, needs 0.5\."):
        sizes_within(TABLE, times, "max_ms", 0.1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, "much", True, -2])
def test_limits_are_numbers(wrong):
    for name, least in (("max_loss", "-1"), ("max_bytes", "0")):
        message = f"{name} must be a finite number of at least {least}"
        with pytest.raises(ParameterError, match=message):
            sizes_within(TABLE, [0.0] * 4, name, wrong)


def test_a_recommendation_is_a_sentence_with_its_error_bars():
    book = bs.Codebook(np.eye(3))
    text = str(Recommendation(**TABLE[1]._asdict(), ms_per_image=1.234, codebook=book))
    assert text == (
        "50 words (200 bytes, 1.23 ms per image): accuracy 0.710 ± 0.020 by cross-validation, "
        "0.010 ± 0.004 above the full codebook (± one standard error)."
    )
    text = str(Recommendation(**TABLE[2]._asdict(), ms_per_image=1.234, codebook=book))
    assert "0.040 ± 0.010 below the full codebook" in text


def test_a_coding_time_is_never_nothing(monkeypatch):
    bags, book = bs.Bags.from_list([np.eye(3)] * 30), bs.Codebook(np.eye(3))
    assert milliseconds_per_image(book, bags) > 0
    assert milliseconds_per_image(book, bags[:1], "soft", 9.0) > 0
    # Preparing is taken off; many take no longer than one; noise.
    for times in ((0.010, 0.124, 6.0), (0.010, 0.010, 0.5), (0.012, 0.010, 0.5)):
        monkeypatch.setattr(module, "_seconds", lambda _, group, t=times: t[len(group) > 1])
        assert milliseconds_per_image(book, bags) == pytest.approx(times[2])
        assert milliseconds_per_image(book, bags[:1]) == pytest.approx(1000 * times[0])
