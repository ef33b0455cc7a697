"""No public estimator without a contract; those of arrays pass scikit-learn's own checks."""

from __future__ import annotations

import inspect

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contracts.estimators import ARRAYS, BAGS, PICTURES, public_estimators

ALL = {**ARRAYS, **BAGS, **PICTURES}


def test_every_public_estimator_has_a_contract():
    assert {type(one) for one in ALL.values()} == public_estimators()


def test_scikit_learn_is_told_what_each_takes():
    for name, estimator in ALL.items():
        assert estimator.__sklearn_tags__().input_tags.two_d_array == (name in ARRAYS), name


@parametrize_with_checks(list(ARRAYS.values()))
def test_scikit_learn_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise one check skips itself
    check(estimator)


@pytest.mark.parametrize("kind", sorted({type(one) for one in ALL.values()}, key=str))
def test_making_an_estimator_does_nothing_but_remember(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    told = {name: object() for name in names}
    made = kind(**told)
    assert {name: value for name, value in vars(made).items() if value is not told[name]} == {}
    assert set(made.get_params(deep=False)) == set(names)
    required = [p for p in inspect.signature(kind.__init__).parameters.values() if p.name != "self"]
    # Parameters can be set one by one from their defaults, which no fit may change.
    mutable = [p.name for p in required if isinstance(p.default, list | dict | set)]
    assert mutable == []
