"""What selectors have in common: what goes in is checked once, what comes out is coded alike."""

from __future__ import annotations

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.selection.base import Selector, check_labels, check_n_kept
from bowsaw.selection.result import Selection

BOOK = bs.Codebook(np.array([[0.0], [4.0], [8.0]]), [30, 10, 20])
BAGS = [np.array([[0.0], [4.0], [4.0], [8.0]]), np.array([[8.0], [8.0]])]


class Fixed(Selector):
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self, codebook, n_kept=2, answer=None, coding="hard", sharpness=40.0, n_jobs=1):
        self.codebook = codebook
        self.n_kept = n_kept
        self.answer = answer
        self.coding = coding
        self.sharpness = sharpness
        self.n_jobs = n_jobs

    def _select(self, bags, labels, book, n_kept):
        self.asked_ = bags, labels, book, n_kept
        return self.answer


class Unlabelled(Fixed):
    _needs_labels = False


def test_methods_are_asked_in_plain_values():
    answer = Selection("fixed", "full", BOOK, kept=np.array([20, 30]))
    saw = Fixed(BOOK, np.int32(2), answer).fit(BAGS, ["sea", "ash"])
    bags, labels, book, n_kept = saw.asked_
    assert isinstance(bags, bs.Bags)
    assert book is BOOK
    assert type(n_kept) is int
    # Classes are sorted, and labels are their numbers.
    assert saw.classes_.tolist() == ["ash", "sea"]
    assert labels.tolist() == [1, 0]
    assert labels.dtype == np.int64


def test_bare_words_become_a_codebook():
    answer = Selection("fixed", "full", BOOK, kept=np.array([20]))
    saw = Fixed(BOOK.words, 1, answer).fit(BAGS, [0, 1])
    assert saw.asked_[2].ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("answer", "codes", "names"),
    [
        (
            Selection("fixed", "full", BOOK, kept=np.array([20, 30])),
            [[0.25, 0.25], [1, 0]],
            ["word0020", "word0030"],
        ),
        (
            # Without word 10 its two descriptors lie halfway: the first in the codebook has them.
            Selection("fixed", "pruned", BOOK.only([30, 20]), kept=np.array([30, 20])),
            [[0.75, 0.25], [0, 1]],
            ["word0030", "word0020"],
        ),
        (
            Selection("fixed", "full", BOOK, groups=np.array([1, 0, 1])),
            [[0.5, 0.5], [0, 1]],
            ["group0000", "group0001"],
        ),
    ],
)
def test_new_bags_are_coded_as_the_selection_says(answer, codes, names):
    saw = Fixed(BOOK, 2, answer).fit(BAGS, [0, 1])
    assert saw.selection_.record() == answer.record()
    assert np.array_equal(saw.codebook_.words, answer.codebook.words)
    assert saw.codebook_ is saw.selection_.codebook
    assert saw.transform(BAGS).tolist() == codes
    assert saw.get_feature_names_out().tolist() == names
    assert saw.n_features_out_ == 2


def test_selectors_without_need_of_labels_say_so_and_get_none():
    answer = Selection("fixed", "full", BOOK, kept=np.array([20]))
    saw = Unlabelled(BOOK, 1, answer).fit(BAGS)
    assert saw.asked_[1] is None
    assert not hasattr(saw, "classes_")
    assert not saw.__sklearn_tags__().target_tags.required
    assert Fixed(BOOK).__sklearn_tags__().target_tags.required


@pytest.mark.parametrize("value", [1, 5, np.int64(3), np.uint8(2)])
def test_numbers_of_words_within_the_codebook_are_taken(value):
    assert check_n_kept(value, 5) == int(value)
    assert type(check_n_kept(value, 5)) is int


@pytest.mark.parametrize("value", [0, -2, 6, 2.0, "3", None, True, np.array([2])])
def test_other_numbers_of_words_are_refused_with_the_limit(value):
    with pytest.raises(ParameterError, match=r"from 1 to 5 \(the codebook has 5 words\); got"):
        check_n_kept(value, 5)


def test_labels_become_numbers_from_zero():
    classes, labels = check_labels(["b", "a", "c", "a"], 4)
    assert classes.tolist() == ["a", "b", "c"]
    assert labels.tolist() == [1, 0, 2, 0]
    classes, labels = check_labels(np.array([7, -1, 7]), 3)
    assert classes.tolist() == [-1, 7]
    assert labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"chooses words by labels: call fit\(bags, y\)"),
        ([0, 1], r"one label a bag \(3\); got shape \(2,\)"),
        ([[0], [1], [0]], r"one label a bag \(3\); got shape \(3, 1\)"),
        (0, r"one label a bag \(3\); got shape \(\)"),
        ([4, 4, 4], "at least two classes; got 1"),
    ],
)
def test_labels_that_say_nothing_are_refused(y, message):
    with pytest.raises(DataError, match=message):
        check_labels(y, 3)
