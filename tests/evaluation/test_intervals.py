"""The interval of an accuracy."""

import numpy as np
import pytest
from scipy import stats

from bowsaw.evaluation.significance import accuracy_margin, corrected_error


@pytest.mark.parametrize("n_right", [0, 7, 60, 120])
def test_a_single_split_has_the_interval_of_wilson(n_right):
    found = accuracy_margin([n_right / 120], 0.0, [40, 40, 40])
    plain = stats.binomtest(n_right, 120).proportion_ci(method="wilson")
    assert found == pytest.approx(max(plain.high - n_right / 120, n_right / 120 - plain.low))


def test_classes_with_few_images_count_as_much_as_others():
    # The variance of a mean of class accuracies: Σ p (1 − p) / n_k, over K².
    few, even = (accuracy_margin([0.5], 0.0, counts) for counts in ([10, 190], [19, 19]))
    assert few == pytest.approx(even)
    assert accuracy_margin([0.5], 0.0, [10, 190, 0]) == few


def test_splits_give_the_wider_of_t_and_wilson():
    spread = [0.5, 0.6, 0.9, 0.7]
    t = stats.t.isf(0.025, 3) * np.sqrt((1 / 4 + 2) * np.var(spread, ddof=1))
    assert accuracy_margin(spread, 2.0, [500, 500]) == pytest.approx(t)
    assert float(corrected_error(spread, 2.0)) == pytest.approx(t / stats.t.isf(0.025, 3))
    alike = accuracy_margin([1.0, 1.0, 1.0], 2.0, [50, 50])
    assert alike == accuracy_margin([1.0], 2.0, [50, 50]) > 0.03
