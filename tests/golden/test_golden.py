"""Numbers and files that a rearrangement of the code must not change."""

import json

import pytest
from tests.golden.frozen import ACCURACY_RTOL, EXPECTED, FROZEN, WORDS_RTOL, Workspace, plain, same


@pytest.fixture(scope="module")
def expected():
    return json.loads(EXPECTED.read_text("utf-8"))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("golden"))


def test_every_frozen_value_has_an_expectation(expected):
    assert sorted(expected) == sorted(FROZEN)


@pytest.mark.parametrize("key", FROZEN)
def test_value_is_unchanged(key, expected, workspace):
    rtol = ACCURACY_RTOL if "accuracy" in key else WORDS_RTOL
    if "refinement" in key:
        # Descent amplifies rounding, which differs between kernels of BLAS.
        rtol = 2e-3
    same(expected[key], json.loads(json.dumps(plain(FROZEN[key](workspace)))), rtol, key)
