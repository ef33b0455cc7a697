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
    choose_size,
    deal,
    milliseconds_per_image,
    summarise,
)
from bowsaw.evaluation.significance import accuracy_margin

TABLE = (
    SizeEstimate(100, 0.70, 0.02, 0.05, 0.00, 0.000, 400),
    SizeEstimate(50, 0.71, 0.02, 0.05, -0.01, 0.004, 200),
    SizeEstimate(20, 0.66, 0.02, 0.05, 0.04, 0.010, 80),
    SizeEstimate(10, 0.67, 0.02, 0.05, 0.03, 0.010, 40),
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
    counts = np.array([20, 20])
    full, small = summarise([64, 8], accuracies, 1 / 3, n_dims=4, class_counts=counts)
    # Folds' losses are .1, 0, .2, 0: mean .075, variance .0275 / 3; (1/4 + 1/3) of it.
    assert small.loss == pytest.approx(0.075)
    assert small.loss_se == pytest.approx(np.sqrt((1 / 4 + 1 / 3) * 0.0275 / 3))
    assert small.accuracy == pytest.approx(0.675)
    # Squared distances of .7, .6, .5, .9 from .675: .000625, .005625, .030625, .050625.
    assert small.accuracy_se == pytest.approx(np.sqrt((1 / 4 + 1 / 3) * 0.0875 / 3))
    assert small.accuracy_margin == accuracy_margin([0.7, 0.6, 0.5, 0.9], 1 / 3, counts)
    assert (full.loss, full.loss_se) == (0, 0)
    assert (full.n_bytes, small.n_bytes) == (1024, 128)


def test_the_size_for_a_limit():
    def words(name, limit, times=()):
        return TABLE[choose_size(TABLE, name, limit, times)].n_words

    times = [4.0, 1.5, 1.0, 0.5]
    assert [words("max_loss", loss) for loss in (0.04, 0.035, 0, -0.006)] == [10, 50, 50, 50]
    # The most accurate that fits, not the largest; of equally accurate ones the smaller.
    assert [words("max_bytes", n) for n in (1000, 200, 80)] == [50, 50, 10]
    assert [words("max_ms", ms, times) for ms in (9, 1.2)] == [50, 10]
    alike = [row._replace(accuracy=0.7) for row in TABLE]
    assert choose_size(alike, "max_bytes", 200) == 3
    # Nothing is lost by the full codebook, so it meets any limit from 0 up.
    assert choose_size(TABLE[:1] + TABLE[2:], "max_loss", 0) == 0
    with pytest.raises(ParameterError, match=r"the best, 50 words, needs -0.006\. Allow that"):
        words("max_loss", -0.05)
    with pytest.raises(ParameterError, match=r"the best, 10 words, needs 0.5\."):
        words("max_ms", 0.1, times)


def test_the_true_loss_of_a_recommended_size_is_rarely_above_the_limit():
    # 22 sizes whose true loss rises to 0.1, five folds with a spread of 0.02, and a limit of 0.01.
    # By the estimated loss alone, the size was too small in two of three paths.
    # The rate depends on the curve: one half, where every size loses just more than the limit.
    random, n_paths = np.random.default_rng(0), 1000
    sizes = np.geomspace(1000, 10, 22).astype(int).tolist()
    truth = 0.1 * np.linspace(0, 1, 22) ** 2
    counts = np.full(10, 50)
    too_small, plain = 0, 0
    for _ in range(n_paths):
        found = 0.8 - truth + random.normal(0, 0.02, (5, 22))
        table = summarise(sizes, found, 1 / 4, 128, counts)
        too_small += truth[choose_size(table, "max_loss", 0.01)] > 0.01
        table = [row._replace(loss_se=0.0) for row in table]
        plain += truth[choose_size(table, "max_loss", 0.01)] > 0.01
    assert plain / n_paths > 0.6
    assert too_small / n_paths <= 0.2


@pytest.mark.parametrize("wrong", [np.nan, np.inf, "much", True, -2])
def test_limits_are_numbers(wrong):
    for name, least in (("max_loss", "-1"), ("max_bytes", "0")):
        message = f"{name} must be a finite number of at least {least}"
        with pytest.raises(ParameterError, match=message):
            choose_size(TABLE, name, wrong)


def test_a_recommendation_is_a_sentence_with_its_error_bars():
    book = bs.Codebook(np.eye(3))
    text = str(Recommendation(**TABLE[1]._asdict(), ms_per_image=1.234, codebook=book))
    assert text == (
        "50 words (200 bytes, 1.23 ms per image): accuracy 0.710 ± 0.050 (95 % interval, nested "
        "cross-validation; the same folds chose the size), 0.010 above the full codebook (standard "
        "error 0.004)."
    )
    text = str(Recommendation(**TABLE[2]._asdict(), ms_per_image=1.234, codebook=book))
    assert "0.040 below the full codebook (standard error 0.010)" in text
    text = str(Recommendation(**TABLE[0]._asdict(), ms_per_image=1.234, codebook=book))
    assert text.endswith("chose the size), that of the full codebook.")


def test_a_coding_time_is_never_nothing(monkeypatch):
    bags, book = bs.Bags.from_list([np.eye(3)] * 30), bs.Codebook(np.eye(3))
    assert milliseconds_per_image(book, bags) > 0
    assert milliseconds_per_image(book, bags[:1], "soft", 9.0) > 0
    # Preparing is taken off; many take no longer than one; noise.
    for times in ((0.010, 0.124, 6.0), (0.010, 0.010, 0.5), (0.012, 0.010, 0.5)):
        monkeypatch.setattr(module, "_seconds", lambda _, group, t=times: t[len(group) > 1])
        assert milliseconds_per_image(book, bags) == pytest.approx(times[2])
        assert milliseconds_per_image(book, bags[:1]) == pytest.approx(1000 * times[0])
