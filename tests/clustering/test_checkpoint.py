from __future__ import annotations

import pickle

import numpy as np
import pytest

from bowsaw.clustering.checkpoint import Checkpoint

WORDS = np.arange(6, dtype=np.float32).reshape(3, 2)
OBJECTIVES = [3.5, 0.1 + 0.2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.partial"


@pytest.fixture
def saved(path):
    checkpoint = Checkpoint(path, {"seed": 0})
    checkpoint.save(WORDS, OBJECTIVES)
    return checkpoint


def test_the_state_comes_back_exactly(saved, path):
    words, objectives = Checkpoint(path, {"seed": 0}).load(10)
    np.testing.assert_array_equal(words, WORDS)
    assert words.dtype == np.float32
    assert objectives == OBJECTIVES


def test_a_state_of_something_else_is_not_used(saved, path):
    assert Checkpoint(path, {"seed": 1}).load(10) is None


def test_a_state_that_leaves_no_round_to_do_is_not_used(saved, path):
    assert [saved.load(n) is None for n in (1, 2, 3)] == [True, True, False]


def test_no_file_is_no_state(path):
    assert Checkpoint(path, {}).load(10) is None


def test_without_a_path_nothing_is_written(tmp_path):
    checkpoint = Checkpoint(None, {})
    checkpoint.save(WORDS, OBJECTIVES)
    checkpoint.remove()
    assert checkpoint.load(10) is None
    assert checkpoint.seconds == float("inf")
    assert list(tmp_path.iterdir()) == []


def test_the_file_can_be_removed_twice(saved, path):
    saved.remove()
    assert not path.exists()
    saved.remove()


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a checkpoint was unpickled",))


@pytest.mark.parametrize("content", ["empty", "text", "array", "pickle", "half", "missing name"])
def test_other_files_are_not_used(saved, path, content):
    if content == "array":
        with path.open("wb") as file:
            np.save(file, WORDS)
    elif content == "missing name":
        with path.open("wb") as file:
            np.savez(file, words=WORDS)
    else:
        whole = path.read_bytes()
        path.write_bytes(
            {
                "empty": b"",
                "text": b"words",
                "pickle": pickle.dumps(Trap()),
                "half": whole[: len(whole) // 2],
            }[content]
        )
    assert saved.load(10) is None


def test_a_damaged_file_is_not_used_or_is_whole(saved, path):
    random = np.random.default_rng(0)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    n_refused = 0
    for _ in range(200):
        damaged = whole.copy()
        damaged[random.integers(len(whole), size=random.integers(1, 4))] ^= np.uint8(
            1 << random.integers(8)
        )
        path.write_bytes(damaged.tobytes())
        state = saved.load(10)
        if state is None:
            n_refused += 1
        else:
            np.testing.assert_array_equal(state[0], WORDS)
            assert state[1] == OBJECTIVES
    assert n_refused > 50
