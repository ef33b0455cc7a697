"""Selectors and selections: input is checked once, output is coded alike."""

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import ParameterError
from bowsaw.selection.base import Selection, Selector, SharedCodes

BOOK = bs.Codebook(np.array([[0.0], [4.0], [8.0]]), [30, 10, 20])
BAGS = [np.array([[0.0], [4.0], [4.0], [8.0]]), np.array([[8.0], [8.0]])]
KEPT = np.array([20, 30])
GROUPS = np.array([1, 0, 1])


class Fixed(Selector):
    """Returns a given selection, and stores what it was called with."""

    name = "fixed"

    def __init__(self, codebook, n_kept=2, answer=None, coding="hard", sharpness=40.0, n_jobs=1):
        super().__init__(codebook, n_kept, coding=coding, sharpness=sharpness, n_jobs=n_jobs)
        self.answer = answer

    def _select(self, bags, labels, codebook, n_kept):
        self.asked_ = bags, labels, codebook, n_kept
        return self.answer


class Unlabelled(Fixed):
    _needs_labels = False


def test_methods_receive_plain_values():
    answer = Selection("fixed", "full", BOOK, kept=KEPT)
    fitted = Fixed(BOOK, np.int32(2), answer).fit(BAGS, ["sea", "ash"])
    bags, labels, book, n_kept = fitted.asked_
    assert isinstance(bags, bs.Bags)
    assert book is BOOK
    assert type(n_kept) is int
    # Classes are sorted, and labels are their numbers.
    assert fitted.classes_.tolist() == ["ash", "sea"]
    assert labels.tolist() == [1, 0]
    assert Fixed(BOOK.words, 1, answer).fit(BAGS, [0, 1]).asked_[2].ids.tolist() == [0, 1, 2]


# Without word 10 its two descriptors lie halfway: the first in the codebook has them.
HALFWAY = Selection("fixed", "pruned", BOOK.only([30, 20]), kept=np.array([30, 20]))
SUBSET = Selection("fixed", "full", BOOK, kept=KEPT)
MERGED = Selection("fixed", "full", BOOK, groups=GROUPS)


@pytest.mark.parametrize(
    ("answer", "codes", "names"),
    [
        (SUBSET, [[0.25, 0.25], [1, 0]], ["word0020", "word0030"]),
        (HALFWAY, [[0.75, 0.25], [0, 1]], ["word0030", "word0020"]),
        (MERGED, [[0.5, 0.5], [0, 1]], ["group0000", "group0001"]),
    ],
)
def test_new_bags_are_coded_as_the_selection_says(answer, codes, names):
    fitted = Fixed(BOOK, 2, answer).fit(BAGS, [0, 1])
    assert fitted.selection_.record() == answer.record()
    assert np.array_equal(fitted.codebook_.words, answer.codebook.words)
    assert fitted.codebook_ is fitted.selection_.codebook
    assert fitted.transform(BAGS).tolist() == codes
    assert fitted.get_feature_names_out().tolist() == names
    assert (answer.n_columns, answer.n_coding_words) == (2, answer.codebook.n_words)


def test_a_method_without_labels_says_so_and_receives_none():
    fitted = Unlabelled(BOOK, 1, Selection("fixed", "full", BOOK, kept=KEPT[:1])).fit(BAGS)
    assert fitted.asked_[1] is None
    assert not hasattr(fitted, "classes_")
    assert not fitted.__sklearn_tags__().target_tags.required
    assert Fixed(BOOK).__sklearn_tags__().target_tags.required


def test_shared_codes_are_made_once_per_question():
    shared = SharedCodes(BOOK, bs.Bags.from_list(BAGS))
    assert shared.histograms("hard", 40.0) is shared.histograms("hard", 40.0)
    assert shared.histograms("soft", 1.0) is not shared.histograms("soft", 2.0)
    assert not shared.histograms("hard", 40.0).flags.writeable
    state = shared.state("hard", "uniform", 40.0)
    assert state is shared.state("hard", "uniform", 40.0)
    assert state is not shared.state("hard", "uniform", 40.0, options={"neighbours": 1})
    assert not shared.describes(BOOK, bs.Bags.from_list(BAGS))


def test_groups_of_minus_one_are_left_out_of_the_sum():
    histograms = np.array([[0.1, 0.2, 0.7]], dtype=np.float32)
    reduced = Selection("some", "full", BOOK, groups=np.array([0, -1, 0])).reduce(histograms)
    np.testing.assert_allclose(reduced, [[0.8]], rtol=1e-6)
    assert reduced.dtype == np.float32


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"codes_with": "some", "kept": KEPT}, "codes_with must be one of 'pruned', 'full'"),
        ({"codes_with": "full"}, "either kept words or groups"),
        ({"codes_with": "full", "kept": KEPT, "groups": GROUPS}, "either kept words or groups"),
        ({"codes_with": "pruned", "groups": GROUPS}, "groups need the full codebook"),
        ({"codes_with": "full", "groups": GROUPS[:-1]}, "one entry per word"),
        ({"codes_with": "pruned", "kept": KEPT}, "has the kept words, in their order"),
        ({"codes_with": "pruned", "kept": BOOK.ids[::-1]}, "has the kept words, in their order"),
    ],
)
def test_contradictory_selections_are_refused(parts, message):
    with pytest.raises(ParameterError, match=message):
        Selection("some", codebook=BOOK, **parts)


def test_records_have_the_last_score():
    parts = {"certificate": {"mean_l1": 0.0}, "parameters": {"n_kept": 2}, "seed": 3}
    selection = Selection("some", "full", BOOK, kept=KEPT, scores=(0.5, 0.75), **parts)
    counts = {"n_columns": 2, "n_coding_words": 3, "n_steps": 2, "score": 0.75}
    assert selection.record() == {"method": "some", "codes_with": "full", **counts, **parts}
    assert Selection("some", "full", BOOK, groups=GROUPS).record()["score"] is None
