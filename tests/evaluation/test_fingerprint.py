from __future__ import annotations

import numpy as np
import pytest

from bowsaw.bags import Bags
from bowsaw.evaluation.fingerprint import data_digest

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
