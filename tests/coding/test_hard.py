import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.coding import hard_histogram

from bowsaw.bags import Bags
from bowsaw.coding.hard import hard_histograms
from bowsaw.nearest import search


def integers(random, *shape):
    """Small whole numbers: distances are exact, and ties, which the first word wins, are plenty."""
    return random.integers(0, 4, shape).astype(np.float32)


def twin(bags, words):
    return np.array([hard_histogram(rows, words) for rows in bags]).reshape(len(bags), len(words))


@given(st.lists(st.integers(0, 6), max_size=6), st.integers(1, 9), st.integers(0, 10**6))
def test_histograms_are_shares_of_the_nearest_words(counts, n_words, seed):
    random = np.random.default_rng(seed)
    bags = Bags.from_list([integers(random, n, 3) for n in counts])
    words = integers(random, n_words, 3)
    found = hard_histograms(bags, words, n_jobs=1)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, twin(bags, words).astype(np.float32))


@pytest.mark.parametrize(("dtype", "n_words"), [(np.uint8, 300), (np.float32, 5)])
def test_blocks_that_cut_bags_change_nothing(monkeypatch, dtype, n_words):
    monkeypatch.setattr(search, "BLOCK_ROWS", 7)
    monkeypatch.setattr(search, "FEW_WORDS_BLOCK_ROWS", 7)
    random = np.random.default_rng(0)
    counts = [0, 3, 0, 20, 7, 1, 0, 0, 16, 0]
    bags = Bags.from_list([integers(random, n, 8).astype(dtype) for n in counts])
    words = integers(random, n_words, 8)
    expected = twin(bags, words).astype(np.float32)
    for n_jobs in (1, 2, 3):
        found = hard_histograms(bags, words, n_jobs=n_jobs)
        np.testing.assert_array_equal(found, expected)


def test_a_bag_of_more_descriptors_than_float32_can_count():
    n = 2**24 + 2**20
    bags = Bags(np.zeros((n, 1), np.uint8), np.array([0, n]))
    found = hard_histograms(bags, np.array([[0.0], [9.0]], np.float32))
    assert found.tolist() == [[1.0, 0.0]]


def test_old_content_of_out_is_overwritten_even_for_empty_bags(tmp_path):
    bags = Bags.from_list([np.zeros((2, 1)), []])
    out = np.lib.format.open_memmap(tmp_path / "h.npy", "w+", np.float32, shape=(2, 2))
    out[:] = 7
    returned = hard_histograms(bags, np.array([[0.0], [1.0]], np.float32), out=out)
    assert returned is out
    assert hard_histograms(Bags.from_list([]), np.ones((4, 2), np.float32)).shape == (0, 4)
    out.flush()
    assert np.load(tmp_path / "h.npy").tolist() == [[1, 0], [0, 0]]
