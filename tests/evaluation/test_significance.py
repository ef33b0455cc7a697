import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bowsaw.errors import DataError
from bowsaw.evaluation.significance import holm, paired_test

shares = st.lists(st.floats(0, 1), min_size=3, max_size=8)


@settings(deadline=None, max_examples=30)
@given(first=shares, seed=st.integers(0, 99))
def test_without_test_images_it_is_the_paired_t(first, seed):
    # The correction adds n_test / n_train to 1/J; with none of it, the plain paired test is left.
    second = np.random.default_rng(seed).uniform(size=len(first))
    found = paired_test(first, second, n_train=100, n_test=0)
    plain = stats.ttest_rel(first, second)
    assert found.t == pytest.approx(plain.statistic)
    assert found.p == pytest.approx(plain.pvalue)


def test_the_correction_widens_the_error_by_its_formula():
    first, second = [0.7, 0.8, 0.75, 0.77], [0.6, 0.75, 0.7, 0.7]
    plain, wide = (paired_test(first, second, 50, n_test) for n_test in (0, 200))
    # √(1/4 + 4) over √(1/4).
    assert wide.error / plain.error == pytest.approx(np.sqrt(17))
    assert wide.mean == plain.mean
    assert wide.p > plain.p


def test_random_splits_of_no_difference_are_rarely_called_one():
    # Two guessers of equal skill on overlapping halves of the same 200 images: at 5 % the corrected
    # test rejects in no more than 5 % plus four standard errors of 400 trials (4.4 %).
    random = np.random.default_rng(0)
    found = []
    for _ in range(400):
        right = random.random((2, 200)) < 0.7
        tests = [random.permutation(200)[:100] for _ in range(5)]
        a, b = ([r[t].mean() for t in tests] for r in right)
        found.append(paired_test(a, b, 100, 100).p)
    assert np.mean(np.array(found) < 0.05) < 0.05 + 0.044


def test_equal_accuracies_are_no_difference_and_constant_ones_a_certain_one():
    assert paired_test([0.5, 0.5], [0.5, 0.5], 10, 10).p == 1.0
    assert paired_test([0.75, 0.5], [0.5, 0.25], 10, 10).p == 0.0
    assert paired_test([0.5, 0.25], [0.75, 0.5], 10, 10).p == 0.0
    with pytest.raises(DataError, match="at least 2 splits"):
        paired_test([0.5], [0.4], 10, 10)


@settings(deadline=None)
@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_lies_between_the_single_value_and_bonferroni_and_keeps_the_order(p):
    corrected = holm(p)
    assert (corrected >= np.array(p)).all()
    assert (corrected <= np.minimum(len(p) * np.array(p), 1) + 1e-15).all()
    assert (np.diff(corrected[np.argsort(p, kind="stable")]) >= 0).all()


def test_holm_rejects_step_by_step():
    # Holm's own rule: reject in rising order while p_(i) ≤ 5 % / (m − i), and stop at the first
    # that is not. .01 ≤ .05/4, .015 ≤ .05/3, .026 > .05/2.
    assert (holm([0.026, 0.01, 0.03, 0.015]) <= 0.05).tolist() == [False, True, False, True]
