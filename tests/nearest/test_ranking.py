"""Lists must be beginnings of the brute-force order, exactly, and end early only where they may."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nearest.test_search import every_family, float32, rows_and_words
from tests.oracles import ranking as oracle

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.nearest import ranking
from bowsaw.nearest.ranking import list_dtype, ranked_words

# With one word or one row and five dimensions, OpenBLAS looks at memory that nobody has written to,
# which can raise a flag; the numbers are right, and every test compares them.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in (dot|matmul)")


def assert_lists_are_right(rows, words, n_ranked, n_jobs=1):
    bags, words = Bags(rows), float32(words)
    found = ranked_words(bags, words, n_ranked, n_jobs=n_jobs)
    assert found.shape == (len(rows), n_ranked)
    assert found.dtype == list_dtype(len(words))
    is_word = found < len(words)
    assert (found[~is_word] == len(words)).all()
    lengths = is_word.sum(axis=1)
    np.testing.assert_array_equal(is_word, np.arange(n_ranked) < lengths[:, None])
    expected = oracle.ranked(bags.values, words)[:, :n_ranked]
    np.testing.assert_array_equal(found[is_word], expected[is_word])
    if len(words) <= 2 * n_ranked:
        # Every word is looked at, so that nothing can be uncertain.
        assert is_word.all()
    return lengths


@settings(max_examples=150)
@given(rows_and_words(), st.data())
def test_any_rows_and_words(data, length):
    rows, words = data
    assert_lists_are_right(rows, words, length.draw(st.integers(1, len(words))))


@every_family
def test_misleading_data(family):
    rows, words = map(float32, family(np.random.default_rng(0)))
    for n_ranked in (1, 2, 7, len(words) // 3, len(words)):
        assert_lists_are_right(rows, words, n_ranked)


def test_a_line_of_words():
    # From 3.25 the order of 0, 1, 2 … is 3, 4, 2, 5, 1, 6, 0, 7, 8 …; the middle of 3 and 4 is tied
    # all the way, and the lower position comes first.
    words = float32(np.arange(40)[:, None])
    found = ranked_words(Bags([[3.25], [3.5], [-9.0], [99.0]]), words, 8)
    assert found[:2].tolist() == [[3, 4, 2, 5, 1, 6, 0, 7]] * 2
    assert found[2:].tolist() == [[*range(8)], [*range(39, 31, -1)]]


@pytest.mark.parametrize("n_ranked", [1, 5, 50])
def test_lists_of_words_that_are_well_apart_lack_the_last_entry_at_most(n_ranked):
    # Scores differ by at least a half, and their error is below
    # (1 + 6) · 2⁻²⁴ · (200 · 200 + 200²) = 0.04: only the last of a list can be uncertain.
    words = float32(np.random.default_rng(1).permutation(400)[:, None])
    rows = np.arange(0, 400)[:, None] + 0.25
    lengths = assert_lists_are_right(rows, words, n_ranked)
    assert (lengths >= n_ranked - 1).all()
    assert (lengths == n_ranked).mean() > 0.8


def test_what_float32_cannot_tell_apart_is_left_out_rather_than_guessed():
    # The row is off the centre of a circle of words by less than float32 can see from so far.
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = 1000 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    words = np.concatenate([circle, [[3.0, 0.0]]])
    assert assert_lists_are_right(np.array([[1e-3, 2e-3]]), words, 5).tolist() == [1]


@pytest.mark.parametrize(("task_rows", "scores_bytes"), [(1024, 2**22), (7, 2**22), (64, 1)])
def test_blocks_threads_and_storage_do_not_matter(monkeypatch, task_rows, scores_bytes):
    monkeypatch.setattr(ranking, "TASK_ROWS", task_rows)
    monkeypatch.setattr(ranking, "SCORES_BYTES", scores_bytes)
    random = np.random.default_rng(3)
    words = float32(random.integers(0, 9, (80, 6)))
    values = random.integers(0, 9, (150, 6)).astype(np.uint8)
    for n_jobs in (1, 3):
        assert_lists_are_right(values, words, 12, n_jobs=n_jobs)
    whole = ranked_words(Bags(values), words, 9)
    for bags in (
        Bags(values, [0, 0, 13, 150, 150]),
        Bags(values.astype(np.float32)),
        Bags.from_pieces([values[30:], values[:30]], [1, 0], [0, 0], [30, 120]),
    ):
        np.testing.assert_array_equal(ranked_words(bags, words, 9), whole)
    assert ranked_words(Bags.from_list([[], []]), words, 2).shape == (0, 2)


@pytest.mark.parametrize("n_words", [2**16 - 1, 2**16])
def test_more_words_than_two_bytes_can_count(n_words):
    # 65 535 words have the positions 0 to 65 534, and 65 535 means none.
    assert list_dtype(n_words) == (np.uint16 if n_words < 2**16 else np.int32)
    words = float32(np.random.default_rng(6).normal(size=(n_words, 8)))
    own = [0, 40_000, n_words - 1]
    assert assert_lists_are_right(words[own], words, 3).min() > 0
    # In one dimension there are too many to tell apart from afar, so that lists are empty.
    line = float32(np.arange(n_words)[:, None])
    assert ranked_words(Bags([[0.25]]), line, 3).tolist() == [[n_words] * 3]


@pytest.mark.parametrize("value", [1e19, 3e38, np.nan])
def test_what_float32_cannot_square_is_refused(value):
    # Bags on disk are trusted to be finite: NaN must not become a list.
    bags = Bags.from_pieces([float32([[value]])], [0], [0], [1])
    with pytest.raises(DataError, match=r"^descriptors must lie within 4.6e\+18 .* Divide"):
        ranked_words(bags, float32([[-1.0], [1.0]]), 1)
