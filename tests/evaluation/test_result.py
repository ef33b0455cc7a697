from __future__ import annotations

import json
import math

import pytest

from bowsaw.errors import FormatError, ParameterError
from bowsaw.evaluation.result import Evaluation


def record(split, mapping, accuracy, right=(3, 1)):
    return {
        "split": split,
        "mapping": mapping,
        "accuracy": accuracy,
        "class_accuracy": [right[0] / 4, right[1] / 2],
        "confusion": [[right[0], 4 - right[0]], [2 - right[1], right[1]]],
        "C": 4.0,
        "C_grid": [1.0, 4.0],
        "C_scores": [0.5, 0.75],
        "n_words": 30,
        "sharpness": None,
        "n_codebook": 4,
        "n_train": 4,
        "n_test": 6,
        "seconds": {"codebook": 0.5, "coding": 0.25, "classifier": 0.1},
    }


RESULT = Evaluation(
    [
        record(0, "sqrt", 0.5),
        record(0, "raw", 0.25),
        record(1, "sqrt", 0.7, right=(4, 2)),
        record(2, "sqrt", 0.9, right=(2, 0)),
    ],
    ("été", "hiver"),
    {"seed": 0},
    {"digest": "ab"},
    {"bowsaw": "0"},
    "cd",
)


def test_hand_worked_summaries():
    assert RESULT.mappings == ["sqrt", "raw"]
    assert RESULT.n_splits == 3
    assert RESULT.accuracies("sqrt").tolist() == [0.5, 0.7, 0.9]
    assert RESULT.mean("sqrt") == pytest.approx(0.7)
    # Deviations -.2, 0, .2 over n - 1 = 2: sqrt(.08 / 2).
    assert RESULT.std("sqrt") == pytest.approx(0.2)
    assert RESULT.confusion("sqrt").tolist() == [[9, 3], [3, 3]]
    assert RESULT.class_accuracy("sqrt").tolist() == [0.75, 0.5]


def test_a_single_split_has_no_spread():
    assert math.isnan(RESULT.std("raw"))
    assert RESULT.table()[1]["std"] is None


def test_rows_of_the_table():
    first = RESULT.table()[0]
    assert first == {
        "mapping": "sqrt",
        "n_words": 30,
        "n_splits": 3,
        "mean": pytest.approx(0.7),
        "std": pytest.approx(0.2),
        "lowest": 0.5,
        "highest": 0.9,
        "C": [4.0, 4.0, 4.0],
    }


def test_an_unknown_mapping_is_named():
    with pytest.raises(ParameterError, match=r"one of \['sqrt', 'raw'\] .* got 'log'"):
        RESULT.mean("log")


def test_json_there_and_back():
    assert Evaluation.from_json(RESULT.to_json()) == RESULT
    assert Evaluation.from_json(RESULT.to_json().encode()) == RESULT


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "soup"}, "x.json is not an evaluation"),
        ({"schema": 2}, "x.json has schema 2, and this bowsaw reads 1"),
        ({"records": [{"split": 0}]}, "x.json is a damaged evaluation"),
        ({"records": 3}, "damaged"),
        ({"records": ["text"]}, "damaged"),
        ({"data": None}, "damaged"),
    ],
)
def test_files_of_another_kind_are_refused(change, says):
    text = json.dumps(json.loads(RESULT.to_json()) | change)
    with pytest.raises(FormatError, match=says):
        Evaluation.from_json(text, source="x.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", b"\xff\xfe\x00"])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(FormatError, match="Give a file that bowsaw evaluate has written"):
        Evaluation.from_json(text)
