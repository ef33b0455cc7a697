"""What every cited method promises: the contract of selectors, in short."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.test_selectors import BAGS, BOOK, INFORMATIVE, Y, outcome

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from reproduction import methods

SELECTORS = {
    "svm": methods.SvmRanking(BOOK, 5),
    "svm, re-coded": methods.SvmRanking(BOOK, 5, recode=True),
    "svm, soft": methods.SvmRanking(BOOK, 5, coding="soft"),
    "boosting": methods.BoostedStumps(BOOK, 5),
    "ridge": methods.RidgeReconstruction(BOOK, 5),
    "ridge, soft": methods.RidgeReconstruction(BOOK, 5, coding="soft"),
    "separability": methods.SeparabilityMerging(BOOK, 5),
    "winn": methods.WinnMerging(BOOK, 5),
}
ANY = pytest.mark.parametrize("name", SELECTORS)


def made(name, **parameters):
    return clone(SELECTORS[name]).set_params(**{"n_jobs": 1, **parameters})


@ANY
def test_the_choice_codes_new_bags(name):
    fitted = made(name).fit(BAGS, Y)
    selection = fitted.selection_
    assert fitted.name == selection.method == name.split(",")[0]
    assert selection.n_columns == 5
    coder = bs.BagOfWords(fitted.codebook_, coding=fitted.coding, n_jobs=1)
    expected = selection.reduce(coder.transform(BAGS))
    np.testing.assert_array_equal(fitted.transform(BAGS), expected)
    record = selection.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert outcome(made(name, n_jobs=2).fit(BAGS, Y)) == outcome(fitted)


@ANY
def test_planted_words_are_found(name):
    if name.startswith("ridge"):
        assert outcome(made(name).fit(BAGS)) == outcome(made(name).fit(BAGS, Y))
        return
    fitted = made(name, n_kept=4).fit(BAGS, Y)
    if fitted.selection_.kept is not None:
        assert set(fitted.selection_.kept.tolist()) == INFORMATIVE
        return
    groups = fitted.selection_at(6).groups[BOOK.positions(sorted(INFORMATIVE))]
    assert len(set(groups.tolist())) == 4


@ANY
def test_bad_input_is_refused(name):
    with pytest.raises(ParameterError, match="n_kept must be"):
        made(name, n_kept=25).fit(BAGS, Y)
    with pytest.raises(ParameterError, match="coding must be"):
        made(name, coding="fisher").fit(BAGS, Y)
    if not name.startswith("ridge"):
        with pytest.raises(DataError, match="2 classes"):
            made(name).fit(BAGS, np.zeros(len(BAGS)))


@ANY
def test_bags_that_are_all_alike_give_words_or_a_reason(name):
    same = bs.Bags(np.tile(BAGS[0], (6, 1)), np.arange(7) * len(BAGS[0]), scale=32)
    if name == "separability":
        with pytest.raises(DataError, match="alike"):
            made(name).fit(same, [0, 0, 0, 1, 1, 1])
        return
    fitted = made(name).fit(same, [0, 0, 0, 1, 1, 1])
    assert np.isfinite(fitted.transform(same)).all()
