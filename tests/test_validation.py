import numpy as np
import pytest

from bowsaw.errors import DataError, ParameterError
from bowsaw.validation import (
    canonical_json,
    check_choice,
    check_int,
    check_labels,
    check_options,
    check_real,
    json_mapping,
    json_value,
    parse_json,
)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_integers_of_any_type_become_ints(value):
    assert type(check_int(value, "n", 0)) is int
    assert check_int(value, "n", 0) == 3


@pytest.mark.parametrize("value", [-1, 6, 2.0, True, "3", None])
def test_other_values_and_integers_outside_the_limits_are_refused(value):
    with pytest.raises(ParameterError, match=rf"n must be an integer from 0 to 5; got {value!r}\."):
        check_int(value, "n", 0, 5)


@pytest.mark.parametrize("value", [0, 1.5, np.nan, np.inf, "1", True, None])
def test_reals_are_finite_and_within_their_limits(value):
    message = "c must be a finite number above 0 and at most 1; got .*Take less"
    with pytest.raises(ParameterError, match=message):
        check_real(value, "c", 0, 1, open_low=True, remedy="Take less.")
    assert check_real(np.float32(0.5), "c", 0, 1) == 0.5


def test_choices_are_told_apart_by_type():
    assert check_choice(None, "coding", ("hard", None)) is None
    with pytest.raises(ParameterError, match="a must be one of 1, 'x'; got True"):
        check_choice(True, "a", (1, "x"))


def test_labels_become_integers_from_zero():
    classes, codes = check_labels(["b", "a", "b"], 3)
    assert (classes.tolist(), codes.tolist()) == (["a", "b"], [1, 0, 1])
    for y, message in (
        (None, "needs labels"),
        ([0, 1], r"one label per bag \(3\); got shape \(2,\)"),
        ([0, 0, 0], "at least 2 classes; got 1"),
    ):
        with pytest.raises(DataError, match=message):
            check_labels(y, 3)


def test_unknown_options_are_refused_with_the_known_ones():
    def make(codebook, policy="near", sharpness=40.0):
        return codebook, policy, sharpness

    check_options(make, {"policy": 1}, "whatif", given=["codebook"])
    with pytest.raises(ParameterError, match="codebook is not an option of whatif; it has policy,"):
        check_options(make, {"codebook": 1}, "whatif", given=["codebook"])


def test_values_of_every_type_become_json():
    value = {"a": np.int64(3), 4: np.arange(2), "b": (True, None, {"c": 1.5}), "d": range(2)}
    expected = {"a": 3, "4": [0, 1], "b": [True, None, {"c": 1.5}], "d": "range(0, 2)"}
    assert json_value(value) == expected
    assert canonical_json({"b": (1, 2), "a": None}) == canonical_json({"a": None, "b": [1, 2]})


def test_json_of_others_is_bounded_and_finite():
    nested: list = []
    for _ in range(200):
        nested = [nested]
    with pytest.raises(ParameterError, match="nested too deeply"):
        json_mapping({"a": nested}, "description")
    for bad in ({"a": object()}, "dense", 3):
        with pytest.raises(ParameterError, match="provenance must be a mapping of JSON values"):
            json_mapping(bad, "provenance")
    for text in ("1e999", "NaN", "[" * 200 + "]" * 200, "{", b"\xff"):
        with pytest.raises(ValueError):
            parse_json(text)
