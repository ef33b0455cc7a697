"""Ridge reconstruction: the greedy steps in closed form, against regressions that are solved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from reproduction.methods.ridge import RidgeReconstruction, reconstruct_greedily

RANDOM = np.random.default_rng(12)
BOOK = bs.Codebook(np.arange(9.0)[:, None] * 3, RANDOM.permutation(60)[:9] + 5)
COUNTS = RANDOM.poisson(1.5, (14, 9)) + (np.arange(9) == 0)
BAGS = bs.Bags.from_list([np.repeat(np.arange(9.0) * 3, row)[:, None] for row in COUNTS])


def explained_by(rows, kept, ridge):
    """One minus the penalised loss of the regression from the kept columns, by scikit-learn."""
    centred = rows - rows.mean(axis=0)
    strength = ridge * (centred**2).sum() / rows.shape[1]
    model = Ridge(alpha=strength, fit_intercept=False).fit(centred[:, kept], centred)
    weights = model.coef_.reshape(rows.shape[1], len(kept))
    loss = ((centred - centred[:, kept] @ weights.T) ** 2).sum() + strength * (weights**2).sum()
    return 1 - loss / (centred**2).sum()


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**31),
    st.sampled_from([(5, 12), (12, 5), (8, 8)]),
    st.sampled_from([1e-3, 0.1, 10.0]),
)
def test_each_step_takes_the_word_that_explains_most(seed, shape, ridge):
    rows = np.random.default_rng(seed).random(shape)
    taken, explained = reconstruct_greedily(rows, shape[1], ridge)
    assert sorted(taken.tolist()) == list(range(shape[1]))
    for step in range(shape[1]):
        before = taken[:step].tolist()
        rest = [word for word in range(shape[1]) if word not in before]
        best = max(explained_by(rows, [*before, word], ridge) for word in rest)
        now = explained_by(rows, [*before, taken[step]], ridge)
        assert now == pytest.approx(best, abs=1e-8)
        assert explained[step] == pytest.approx(now, abs=1e-8)


def test_constant_words_come_last():
    rows = np.random.default_rng(2).random((10, 4))
    rows[:, 1] = 0.1
    taken, explained = reconstruct_greedily(rows, 4, 0.1)
    assert taken[-1] == 1
    assert explained[3] == explained[2]


def test_the_explained_share_never_falls_and_fewer_words_are_the_first_of_more():
    found = RidgeReconstruction(BOOK, 9).fit(BAGS)
    scores = np.array(found.selection_.scores)
    assert (np.diff(scores) >= 0).all()
    assert 0 < scores[0] < scores[-1] < 1
    fewer = RidgeReconstruction(BOOK, 4).fit(BAGS).selection_
    np.testing.assert_array_equal(fewer.kept, found.selection_.kept[:4])


@pytest.mark.parametrize("mapping", ["sqrt", "raw"])
def test_histograms_are_mapped_and_columns_kept(mapping):
    found = RidgeReconstruction(BOOK, 3, mapping=mapping).fit(BAGS)
    full = bs.BagOfWords(BOOK).transform(BAGS)
    rows = np.sqrt(full.astype(float)) if mapping == "sqrt" else full.astype(float)
    columns = BOOK.positions(found.selection_.kept)
    assert found.selection_.scores[-1] == pytest.approx(explained_by(rows, columns, 0.1))
    assert found.selection_.codes_with == "full"
    np.testing.assert_array_equal(found.transform(BAGS), full[:, columns])


def test_bad_input_is_refused():
    with pytest.raises(ParameterError, match="ridge must be a finite number of at least 1e-08"):
        RidgeReconstruction(BOOK, 3, ridge=0).fit(BAGS)
    with pytest.raises(ParameterError, match="mapping must be one of 'sqrt', 'raw'; got 'log'"):
        RidgeReconstruction(BOOK, 3, mapping="log").fit(BAGS)
    with pytest.raises(DataError, match="no bags to reconstruct"):
        RidgeReconstruction(BOOK, 3).fit([])
