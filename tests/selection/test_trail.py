"""What an elimination remembers, and finds again in its file."""

from __future__ import annotations

import numpy as np
import pytest

from bowsaw.errors import ParameterError
from bowsaw.selection.trail import Stop, Trail, TrailFile

NONE = np.empty(0, dtype=np.int64)
STOPS = [
    Stop(np.arange(7), NONE, -0.7, 0, 0, {"holds": True}),
    Stop(np.array([0, 2, 3, 6]), np.array([5, 3, 1]), -0.1 - 0.2, 9, 2, {"holds": True}),
    Stop(np.array([1, 6]), np.array([2, 0]), -0.9, 4, 1, {"holds": None}),
]


def test_between_two_stops_the_words_that_fell_first_are_missing():
    trail = Trail(STOPS)
    assert trail.sizes == [7, 4, 2]
    assert [trail.at(n).tolist() for n in (7, 6, 5)] == [
        [0, 1, 2, 3, 4, 5, 6],
        [0, 1, 2, 3, 4, 6],
        [0, 1, 2, 4, 6],
    ]
    # At the stop itself its own words count, a swapped one among them.
    assert [trail.at(n).tolist() for n in (4, 3, 2)] == [[0, 2, 3, 6], [0, 3, 6], [1, 6]]


@pytest.mark.parametrize("n", [1, 8, -3, 2.5, "all", None, True])
def test_other_sizes_are_refused(n):
    with pytest.raises(ParameterError, match=r"n_words must be a whole number from 2 to 7 .* got"):
        Trail(STOPS).at(n)


def test_what_is_saved_is_loaded_to_the_bit(tmp_path):
    file = TrailFile(tmp_path / "trail", {"seed": 3})
    file.save(STOPS)
    again = TrailFile(tmp_path / "trail", {"seed": 3}).load()
    assert len(again) == 3
    for one, other in zip(again, STOPS, strict=True):
        assert one.kept.tolist() == other.kept.tolist()
        assert one.fell.tolist() == other.fell.tolist()
        assert (one.score, one.n_tried, one.n_swapped) == (
            other.score,
            other.n_tried,
            other.n_swapped,
        )
        assert one.certificate == other.certificate
    file.remove()
    assert not list(tmp_path.iterdir())
    file.remove()


def test_the_file_of_another_problem_is_not_used(tmp_path):
    TrailFile(tmp_path / "trail", {"seed": 3}).save(STOPS)
    assert TrailFile(tmp_path / "trail", {"seed": 4}).load() == []


@pytest.mark.parametrize("content", [b"", b"something else", b"PK\x03\x04 half a file"])
def test_a_damaged_file_is_not_used(tmp_path, content):
    (tmp_path / "trail").write_bytes(content)
    assert TrailFile(tmp_path / "trail", {"seed": 3}).load() == []


def test_half_a_file_is_not_used(tmp_path):
    path = tmp_path / "trail"
    TrailFile(path, {"seed": 3}).save(STOPS)
    path.write_bytes(path.read_bytes()[:-40])
    assert TrailFile(path, {"seed": 3}).load() == []


def test_without_a_name_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = TrailFile(None)
    file.save(STOPS)
    assert file.load() == []
    file.remove()
    assert not list(tmp_path.iterdir())
