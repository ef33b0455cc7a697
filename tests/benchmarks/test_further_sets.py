"""Further sets: the selection is fixed and has no copies, bytes become what is described."""

import hashlib

import cv2
import numpy as np
import pytest
from benchmarks.further_sets import SETS, enlarged, grey, select, windows


def test_the_selection_has_no_copies_and_does_not_depend_on_the_order():
    data = [bytes([number]) for number in range(12)]
    examples = [("b" if one[0] % 2 else "a", one) for one in data]
    in_two_classes = min(data, key=lambda one: hashlib.sha256(one).digest())
    examples += [*examples[:3], ("a", in_two_classes), ("b", in_two_classes)]
    found = select(examples, 2, 4)
    assert list(found) == ["a", "b"]
    assert found == select(examples[::-1], 2, 4)
    chosen = [one for of in found.values() for _, one in of]
    assert len(set(chosen)) == 8
    assert in_two_classes not in chosen
    assert all(hashlib.sha256(one).hexdigest() == name for of in found.values() for name, one in of)
    with pytest.raises(SystemExit, match="class 'a' has"):
        select(examples, 7, 7)


def test_what_is_transparent_is_white_and_grey_values_stay():
    pixels = np.zeros((20, 30, 4), dtype=np.uint8)
    pixels[:, 10:, 3] = 255
    found = grey(cv2.imencode(".png", pixels)[1].tobytes())
    assert (found[:, :10] == 255).all()
    assert (found[:, 10:] == 0).all()
    picture = np.arange(600, dtype=np.uint16).reshape(20, 30).astype(np.uint8)
    np.testing.assert_array_equal(grey(cv2.imencode(".png", picture)[1].tobytes()), picture)
    assert enlarged(bytes(784)).shape == (56, 56)


def test_windows_are_every_second_one_on_a_signed_logarithmic_scale():
    series = np.linspace(-2, 3, 70)
    found = windows(",".join(map(repr, series.tolist())).encode())
    assert found.shape == (4, 64)
    np.testing.assert_allclose(found[3, 5], np.log1p(10 * abs(series[11])) * np.sign(series[11]))


def test_every_set_has_test_examples_and_words_that_a_codebook_can_have():
    for source in SETS.values():
        assert source.n_per_class > 2 * source.n_learned
        assert len(source.sha256) == 64
