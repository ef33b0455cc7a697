"""No public estimator without a contract; those of arrays pass scikit-learn's own checks."""

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contracts.estimators import ARRAYS, BAGS, IMAGES, public_estimators

import bowsaw as bs

ALL = {**ARRAYS, **BAGS, **IMAGES}


def test_public_names_are_listed_once_and_exist():
    tree = ast.parse(Path(bs.__file__).read_text("utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname: node.module for node in checked.body for alias in node.names}
    assert typed == bs._MODULES
    assert list(bs._MODULES) == sorted(bs._MODULES)
    assert dir(bs) == sorted(["__version__", *bs._MODULES])
    for name in bs._MODULES:
        assert getattr(bs, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bs.nothing


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
