import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowsaw.errors import DataError
from bowsaw.evaluation.measures import class_accuracies, confusion, mean_class_accuracy

# Worked by hand. Class 0: 4 items, 3 right (1 taken for class 2). Class 1: 1 item, wrong (taken
# for 0). Class 2: 3 items, 2 right (1 taken for 1). Class 3: no items.
TRUE = [0, 0, 0, 0, 1, 2, 2, 2]
PRED = [0, 0, 0, 2, 0, 2, 2, 1]


def test_hand_worked_confusion_and_accuracy():
    matrix = confusion(TRUE, PRED, 4)
    assert matrix.dtype == np.int64
    assert matrix.tolist() == [[3, 0, 1, 0], [1, 0, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(class_accuracies(matrix), [0.75, 0.0, 2 / 3, np.nan])
    assert mean_class_accuracy(TRUE, PRED, 4) == pytest.approx((0.75 + 0 + 2 / 3) / 3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_equal_to_counting_one_by_one(pairs):
    matrix = [[sum(p == (i, j) for p in pairs) for j in range(4)] for i in range(4)]
    shares = [matrix[i][i] / sum(matrix[i]) for i in range(4) if sum(matrix[i])]
    truth, guess = np.array(pairs).T
    assert confusion(truth, guess, 4).tolist() == matrix
    assert mean_class_accuracy(truth, guess, 4) == pytest.approx(sum(shares) / len(shares))


@pytest.mark.parametrize(
    ("truth", "guess", "says"),
    [
        ([0, 3], [0, 0], "from 0 to 2"),
        ([0, -1], [0, 0], "from 0 to 2"),
        ([0, 1], [0, 7], "from 0 to 2"),
        ([0, 1], [0], "same items"),
        ([0.5], [0], "same items"),
        ([], [], "y_true is empty"),
    ],
)
def test_what_cannot_be_measured_is_refused(truth, guess, says):
    with pytest.raises(DataError, match=says):
        mean_class_accuracy(truth, guess, 3)
