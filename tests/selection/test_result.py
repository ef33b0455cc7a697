"""Selections: what is kept, what it codes with, and how full histograms are reduced to it."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import BowsawError, ParameterError
from bowsaw.selection.result import Selection

BOOK = bs.Codebook(np.arange(10.0).reshape(5, 2), [40, 7, 23, 99, 11])
HISTOGRAMS = np.array([[0.1, 0.2, 0.3, 0.4, 0.0], [0.5, 0.0, 0.25, 0.0, 0.25]], dtype=np.float32)
KEPT = np.array([99, 40, 23])
GROUPS = np.array([1, 0, 1, -1, 0])


def test_pruned_histograms_are_taken_as_they_are():
    selection = Selection("some", "pruned", BOOK.only(KEPT), kept=KEPT)
    np.testing.assert_array_equal(selection.reduce(HISTOGRAMS[:, :3]), HISTOGRAMS[:, :3])
    assert (selection.n_columns, selection.n_coding_words) == (3, 3)


def test_ranked_columns_are_taken_by_id_and_in_order():
    selection = Selection("some", "full", BOOK, kept=KEPT)
    # 99, 40 and 23 lie at the places 3, 0 and 2.
    np.testing.assert_array_equal(selection.reduce(HISTOGRAMS), HISTOGRAMS[:, [3, 0, 2]])
    assert (selection.n_columns, selection.n_coding_words) == (3, 5)


def test_merged_columns_are_added_up_and_set_aside_words_dropped():
    selection = Selection("some", "full", BOOK, groups=GROUPS)
    expected = np.array([[0.2, 0.4], [0.25, 0.75]])
    np.testing.assert_allclose(selection.reduce(HISTOGRAMS), expected, rtol=1e-6)
    assert selection.reduce(HISTOGRAMS).dtype == np.float32
    assert (selection.n_columns, selection.n_coding_words) == (2, 5)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"codes_with": "some", "kept": KEPT}, "codes_with must be 'pruned' or 'full'; got 'some'"),
        ({"codes_with": "full"}, "either kept words or groups"),
        ({"codes_with": "full", "kept": KEPT, "groups": GROUPS}, "either kept words or groups"),
        ({"codes_with": "pruned", "groups": GROUPS}, "groups need the full codebook"),
        ({"codes_with": "full", "groups": GROUPS[:-1]}, "one entry for each of its words"),
        ({"codes_with": "pruned", "kept": KEPT}, "has the kept words, in their order"),
        ({"codes_with": "pruned", "kept": BOOK.ids[::-1]}, "has the kept words, in their order"),
    ],
)
def test_selections_that_contradict_themselves_are_refused(parts, message):
    with pytest.raises(ParameterError, match=message) as caught:
        Selection("some", codebook=BOOK, **parts)
    assert isinstance(caught.value, BowsawError)


def test_a_selection_cannot_be_changed():
    selection = Selection("some", "full", BOOK, kept=KEPT)
    with pytest.raises(FrozenInstanceError):
        selection.codes_with = "pruned"


def test_records_are_json_and_tell_the_last_score():
    selection = Selection(
        "some",
        "full",
        BOOK,
        kept=KEPT,
        scores=(0.5, 0.75),
        seed=3,
        certificate={"mean_l1": 0.0},
        parameters={"n_kept": 3, "coding": "hard"},
    )
    assert selection.record() == {
        "method": "some",
        "codes_with": "full",
        "n_columns": 3,
        "n_coding_words": 5,
        "n_steps": 2,
        "score": 0.75,
        "seed": 3,
        "certificate": {"mean_l1": 0.0},
        "parameters": {"n_kept": 3, "coding": "hard"},
    }
    assert json.loads(json.dumps(selection.record())) == selection.record()


def test_a_method_without_scores_or_seed_records_none():
    record = Selection("some", "full", BOOK, groups=GROUPS).record()
    assert (record["n_steps"], record["score"], record["seed"], record["certificate"]) == (
        0,
        None,
        None,
        None,
    )
    assert record["parameters"] == {}
