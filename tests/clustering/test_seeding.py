from collections import Counter

import numpy as np
import pytest
from tests.oracles import kmeans as oracle

from bowsaw.clustering import seeding
from bowsaw.clustering.seeding import kmeans_plus_plus

POINTS = np.array(
    [[0, 0], [1, 0], [3, 1], [7, 2], [7, 5], [12, 0], [13, 9], [20, 20]], dtype=np.float32
)


def draw_often(rows, n_words, n_runs):
    rng = np.random.default_rng(0)
    return [tuple(kmeans_plus_plus(rows, n_words, rng).tolist()) for _ in range(n_runs)]


def assert_within_four_standard_errors(counts, chances, n_runs):
    """Counts are nearly normal where many are expected; rare outcomes are counted together."""
    assert set(counts) <= set(chances)
    rare = [outcome for outcome, chance in chances.items() if n_runs * chance < 10]
    found = [counts[outcome] for outcome in chances if outcome not in rare]
    exact = [chance for outcome, chance in chances.items() if outcome not in rare]
    found = np.array([*found, sum(counts[outcome] for outcome in rare)])
    exact = np.array([*exact, sum(chances[outcome] for outcome in rare)])
    spread = np.sqrt(n_runs * exact * (1 - exact))
    assert (abs(found - n_runs * exact) <= 4 * spread + 1e-9).all()


def test_the_first_two_words_have_the_exact_joint_distribution():
    rows, n_runs = POINTS[[0, 1, 3, 4, 7]], 4000
    counts = Counter(draw_often(rows, 2, n_runs))
    chances = {
        (i, j): oracle.chance_of_drawing(rows, [i, j]) for i in range(5) for j in range(5) if i != j
    }
    assert sum(chances.values()) == pytest.approx(1)
    assert_within_four_standard_errors(counts, chances, n_runs)


@pytest.mark.parametrize("n_words", [3, 5, 6])
def test_batches_draw_sets_with_the_exact_distribution(n_words):
    # From the fifth word on, candidates come in batches of two and more and may be rejected.
    n_runs = 2000
    counts = Counter(map(frozenset, draw_often(POINTS, n_words, n_runs)))
    chances = oracle.chances_of_sets(POINTS, n_words)
    assert sum(chances.values()) == pytest.approx(1)
    assert_within_four_standard_errors(counts, chances, n_runs)


def test_no_row_is_drawn_twice_nor_its_equal():
    random = np.random.default_rng(1)
    rows = random.integers(0, 3, (300, 3)).astype(np.float32) + np.float32(4096)
    n_distinct = len(np.unique(rows, axis=0))
    for seed in range(5):
        drawn = kmeans_plus_plus(rows, n_distinct, np.random.default_rng(seed))
        assert len(np.unique(rows[drawn], axis=0)) == n_distinct == len(drawn)


def test_groups_far_from_the_mean_are_told_apart():
    # Two sites of ten groups, 10⁵ of their spread apart: in float32 each site is one point.
    random = np.random.default_rng(3)
    groups = np.repeat([[0.0] * 16, [4000.0] + [0.0] * 15], 10, axis=0)
    groups += random.normal(0, 0.05, groups.shape)
    rows = np.repeat(groups, 30, axis=0) + random.normal(0, 1e-4, (600, 16))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        drawn = kmeans_plus_plus(rows.astype(np.float32), 20, rng)
        assert len(set((drawn // 30).tolist())) >= 19


def test_fewer_are_returned_where_there_are_fewer():
    rows = np.repeat(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), 10, axis=0)
    drawn = kmeans_plus_plus(rows, 5, np.random.default_rng(0))
    assert len(drawn) == 2
    assert len(np.unique(rows[drawn], axis=0)) == 2
    assert len(kmeans_plus_plus(rows[:1], 5, np.random.default_rng(0))) == 1


def test_the_result_depends_on_the_source_of_chance_alone(monkeypatch):
    random = np.random.default_rng(2)
    rows = random.normal(size=(400, 8)).astype(np.float32)
    monkeypatch.setattr(seeding, "_SLICE", 64)
    drawn = [
        kmeans_plus_plus(rows, 100, np.random.default_rng(seed), n_jobs).tolist()
        for seed, n_jobs in [(5, 1), (5, 2), (5, 3), (6, 1)]
    ]
    assert drawn[0] == drawn[1] == drawn[2] != drawn[3]
    assert len(set(drawn[0])) == 100
