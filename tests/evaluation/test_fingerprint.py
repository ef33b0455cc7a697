from __future__ import annotations

import numpy as np
import pytest

from bowsaw.bags import Bags
from bowsaw.checkpoint import estimator_settings as settings
from bowsaw.checkpoint import fingerprint
from bowsaw.codebook import Codebook
from bowsaw.evaluation.classify import HistogramClassifier
from bowsaw.evaluation.fingerprint import data_digest
from bowsaw.validation import json_value as plain

Y = np.array([0, 1, 1])
CLASSES = ["a", "b"]


def bags_of(values, **more):
    return Bags(np.asarray(values, dtype=np.float32), [0, 1, 2, 4], **more)


ROWS = np.arange(8).reshape(4, 2)
KNOWN = {"description": {"name": "sift"}, "digests": [1, 2, 3]}


@pytest.mark.parametrize(
    "other",
    [
        (bags_of(ROWS + 1), Y, CLASSES),
        (bags_of(ROWS, scale=2.0), Y, CLASSES),
        (bags_of(ROWS, description={"name": "sift"}), Y, CLASSES),
        (bags_of(ROWS)[[0, 2, 1]], Y, CLASSES),
        (bags_of(ROWS), Y[::-1], CLASSES),
        (bags_of(ROWS), Y, ["a", "c"]),
    ],
    ids=["values", "scale", "description", "order", "labels", "classes"],
)
def test_a_changed_collection_has_another_digest(other):
    assert data_digest(*other) != data_digest(bags_of(ROWS), Y, CLASSES)


def test_known_images_are_recognised_by_their_digests_without_being_read(monkeypatch):
    before = data_digest(bags_of(ROWS, **KNOWN), Y, CLASSES)
    changed = data_digest(bags_of(ROWS, **KNOWN | {"digests": [1, 2, 4]}), Y, CLASSES)
    assert before != changed
    monkeypatch.delattr(Bags, "read")
    assert data_digest(bags_of(ROWS, **KNOWN), Y, CLASSES) == before


def test_digests_without_a_description_do_not_stand_for_the_descriptors():
    one = bags_of(ROWS, digests=[1, 2, 3])
    other = bags_of(ROWS + 1, digests=[1, 2, 3])
    assert data_digest(one, Y, CLASSES) != data_digest(other, Y, CLASSES)


def test_a_collection_in_pieces_has_the_same_digest():
    whole = bags_of(ROWS)
    pieces = Bags.from_pieces(
        [ROWS[2:].astype(np.float32), ROWS[:2].astype(np.float32)], [1, 1, 0], [0, 1, 0], [1, 1, 2]
    )
    assert data_digest(pieces, Y, CLASSES) == data_digest(whole, Y, CLASSES)


@pytest.mark.parametrize(
    "other",
    [
        Codebook(2 * np.eye(3)),
        Codebook(np.eye(3), scale=2.0),
        Codebook(np.eye(3), [0, 1, 3]),
        Codebook(np.eye(3)).only([1, 0, 2]),
    ],
    ids=["words", "scale", "ids", "order"],
)
def test_a_changed_codebook_has_another_digest(other):
    assert other.digest != Codebook(np.eye(3)).digest


def test_how_a_codebook_came_about_does_not_change_what_it_codes():
    storied = Codebook(np.eye(3), provenance={"seed": 1}, trained_on=[4, 5])
    assert storied.digest == Codebook(np.eye(3)).digest


def test_settings_leave_out_how_the_work_is_done():
    assert settings(HistogramClassifier(n_jobs=7)) == settings(HistogramClassifier(n_jobs=1))
    assert settings(HistogramClassifier(cv=7)) != settings(HistogramClassifier())


def test_plain_values_of_every_kind():
    value = {"a": np.int64(3), 4: np.arange(2), "b": (True, None, {"c": 1.5}), "d": range(2)}
    assert plain(value) == {"a": 3, "4": [0, 1], "b": [True, None, {"c": 1.5}], "d": "range(0, 2)"}
    assert len(fingerprint(value=plain(value))) == 64
