"""Integer search must equal the brute-force answer, exactly; and its bound must be a bound."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.nearest.conftest import PATHS
from tests.oracles import nearest as oracle

from bowsaw.bags import Bags
from bowsaw.errors import ParameterError
from bowsaw.nearest import _integer_kernel as kernel
from bowsaw.nearest import integer
from bowsaw.nearest.integer import Groups, integer_words, uses_integers
from bowsaw.nearest.search import WordSearch, nearest_words


def assert_exact(monkeypatch, rows, words):
    rows, words = np.ascontiguousarray(rows, np.uint8), np.ascontiguousarray(words, np.float32)
    expected = oracle.nearest(rows, words)
    for path in PATHS:
        monkeypatch.setenv("BOWSAW_SEARCH", path)
        np.testing.assert_array_equal(nearest_words(Bags(rows), words), expected, path)


def levels(random, n, n_dims=16, top=4):
    return random.integers(0, top, (n, n_dims))


def halfway(random):
    """Words halfway between rows: ties that only the order of the words decides."""
    rows = levels(random, 80, top=255)
    pairs = random.integers(0, 80, (150, 2))
    return rows, rows[pairs].mean(axis=1)


def ulps_apart(random):
    base = np.float32(random.uniform(1, 255, (8, 20)))
    steps = random.integers(-2, 3, (100, 20), dtype=np.int32)
    words = (base[random.integers(0, 8, 100)].view(np.int32) + steps).view(np.float32)
    return np.rint(np.concatenate([base, words])), words


def near_misses(random):
    """Words that differ by less than one unit of their rounding."""
    base = random.uniform(0, 255, (1, 128))
    words = base + random.uniform(-0.4, 0.4, (300, 128))
    return np.clip(np.rint(base + random.normal(size=(60, 128)) * 30), 0, 255), words


FAMILIES = {
    "few levels": lambda r: (levels(r, 100), levels(r, 90)),
    "duplicates": lambda r: (levels(r, 60, top=255), np.repeat(levels(r, 15, top=255), 9, axis=0)),
    "all words equal": lambda r: (levels(r, 30), np.tile(levels(r, 1), (100, 1))),
    "one word": lambda r: (levels(r, 9), levels(r, 1)),
    "extremes": lambda r: (levels(r, 99, 40, 2) * 255, levels(r, 99, 40, 2) * 255),
    "512 dimensions": lambda r: (levels(r, 40, 512, 256), levels(r, 60, 512, 256)),
    "widest range": lambda r: (levels(r, 60, 30, 256), r.uniform(-256, 511, (150, 30))),
    "too wide": lambda r: (levels(r, 60, 30, 256), r.uniform(-999, 999, (150, 30))),
    "one outlier": lambda r: (
        levels(r, 60, 30, 256),
        np.concatenate([levels(r, 99, 30, 20), np.full((1, 30), -200)]),
    ),
    "halfway": halfway,
    "ulps apart": ulps_apart,
    "near misses": near_misses,
    "permuted": lambda r: (
        np.repeat(levels(r, 40, 1, 255), 12, axis=1),
        np.array([r.permutation(np.arange(12) * 20.3) for _ in range(200)]),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_misleading_data(monkeypatch, family):
    assert_exact(monkeypatch, *FAMILIES[family](np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("n_rows", "n_words", "n_dims"),
    [(1, 1, 1), (7, 47, 3), (8, 48, 4), (9, 49, 5), (600, 97, 128), (20, 6143, 2), (20, 6200, 7)],
)
def test_at_the_limits_of_tiles(monkeypatch, n_rows, n_words, n_dims):
    random = np.random.default_rng(n_words)
    assert_exact(
        monkeypatch, levels(random, n_rows, n_dims, 10), levels(random, n_words, n_dims, 10)
    )


@given(st.data())
def test_any_bytes_and_words(data):
    n_dims = data.draw(st.integers(1, 6))
    rows = data.draw(arrays(np.uint8, (data.draw(st.integers(1, 12)), n_dims)))
    number = st.floats(-256, 511, width=32)
    words = data.draw(arrays(np.float32, (data.draw(st.integers(1, 60)), n_dims), elements=number))
    with pytest.MonkeyPatch.context() as patch:
        assert_exact(patch, rows, words)


def test_the_error_of_a_score_is_within_its_bound():
    """Also for rows made to have the largest error: as far along a residual as bytes go."""
    random = np.random.default_rng(0)
    words = np.float32(random.uniform(0, 255, (200, 64)))
    found = integer_words(words)
    exact = words.astype(np.float64)
    middle = (exact.max(axis=0) + exact.min(axis=0)) / 2
    unit = 127 / (np.ptp(exact, axis=0).max() / 2)
    tiles = found.packed.reshape(-1, 16, kernel.TILE, 4).transpose(0, 2, 1, 3)
    rounded = tiles.reshape(-1, 64)[:200].astype(np.int64)
    assert np.abs(rounded).max() <= 127
    residuals = unit * (exact - middle) - rounded
    assert np.linalg.norm(residuals, axis=1).max() <= found.residual * (1 + 1e-12)
    worst = np.where(residuals > 0, 255, 0)
    rows = np.concatenate([random.integers(0, 256, (200, 64)), worst, 255 - worst])
    scores = rows @ rounded.T + found.start[:200]
    true = unit * (rows @ (exact - middle).T - (exact**2).sum(axis=1) / 2)
    bound = np.linalg.norm(rows - found.origin.astype(np.int64), axis=1) * found.residual + 1
    # Differences of scores matter: a constant is the same for all words.
    gaps = (scores - scores[:, :1]) - (true - true[:, :1])
    assert (np.abs(gaps) <= 2 * bound[:, None]).all()
    assert np.abs(gaps).max() > bound.min() / 4


@pytest.mark.parametrize("path", PATHS)
def test_words_that_move(monkeypatch, path):
    """Rounds of k-means: bounds rule groups out, stay bounds, and change no answer."""
    monkeypatch.setenv("BOWSAW_SEARCH", path)
    random = np.random.default_rng(3)
    centres = random.integers(0, 200, (12, 9))
    rows = np.uint8(centres[random.integers(0, 12, 400)] + random.integers(0, 40, (400, 9)))
    words = np.float32(centres[np.arange(230) % 12] + random.integers(0, 40, (230, 9)))
    groups, guess, bags = Groups.of(words), None, Bags(rows)
    assert sorted(groups.order.tolist()) == list(range(230))
    bounds = np.zeros(WordSearch(words, groups).n_bounds(bags) * len(rows), dtype=np.uint16)
    assert bool(len(bounds)) == (path == "vnni")
    for size in (0, 3, 1, 0.3, 0.01, 0, 0.1):
        moved = np.clip(words + size * np.float32(random.normal(size=words.shape)), 0, 255)
        if size == 0.3:
            moved[5] = rows[17]  # a word without descriptors jumps
        groups, words = groups.moved(words, moved), moved
        search = WordSearch(words, groups)
        before = bounds.copy()
        guess = search.find(search.read(bags, 0, 400), guess, bounds if len(bounds) else None)
        np.testing.assert_array_equal(guess, oracle.nearest(rows, words))
        if path == "vnni":
            distances = np.sqrt(oracle.squared_distances(rows, words)[:, groups.order])
            n_tiles = len(bounds) // len(rows)
            starts = np.arange(n_tiles) * kernel.TILE
            least = np.minimum.reduceat(distances, starts, axis=1).T
            drift = groups.drift[starts // integer.GROUP]
            stored = bounds.reshape(n_tiles, -1) * kernel.STEP - drift[:, None]
            assert (stored <= least).all()
            if size == 0.01:  # most groups are not compared
                assert (bounds == before).mean() > 0.5


def test_words_outside_the_proof_are_left_to_floats():
    for words in (np.full((3, 4), 512.0), np.full((3, 4), -257.0), np.zeros((3, 513))):
        assert integer_words(np.float32(words)) is None
    assert integer_words(np.float32([[np.nan, 0.0]])) is None
    assert integer_words(np.float32([[-256.0, 511.0]])) is not None


def test_float_descriptors_are_left_to_floats(monkeypatch):
    random = np.random.default_rng(1)
    words, rows = np.float32(levels(random, 60)), np.float32(random.uniform(0, 4, (90, 16)))
    for path in PATHS:
        monkeypatch.setenv("BOWSAW_SEARCH", path)
        search = WordSearch(words)
        assert (search.integer is not None) == (path == "vnni")
        assert search.read(Bags(rows), 3, 50).dtype == np.float32
        np.testing.assert_array_equal(
            nearest_words(Bags(rows), words), oracle.nearest(rows, words), path
        )


def test_the_environment_chooses(monkeypatch):
    monkeypatch.delenv("BOWSAW_SEARCH", raising=False)
    assert uses_integers() == kernel.AVAILABLE
    monkeypatch.setenv("BOWSAW_SEARCH", "float")
    assert not uses_integers()
    monkeypatch.setenv("BOWSAW_SEARCH", "int4")
    with pytest.raises(ParameterError, match="must be float or vnni; got int4"):
        uses_integers()
    monkeypatch.setenv("BOWSAW_SEARCH", "vnni")
    monkeypatch.setattr(integer, "AVAILABLE", False)
    with pytest.raises(ParameterError, match=r"needs a processor with .* Unset it"):
        uses_integers()


CODES = """
import sys
import numpy as np
import bowsaw as bs
from bowsaw.nearest import nearest_words
from bowsaw.nearest.integer import uses_integers
random = np.random.default_rng(0)
rows = random.integers(0, 256, (100, 32), dtype=np.uint8)
codes = nearest_words(bs.Bags(rows), random.uniform(0, 255, (60, 32)).astype(np.float32))
print(uses_integers(), codes.tolist())
"""


@pytest.mark.slow
def test_compiled_code_of_another_processor_is_not_used(tmp_path):
    """The cache of numba is shared; a processor without the instruction would stop with SIGILL."""
    found = []
    for name in ("", "x86-64", ""):
        done = subprocess.run(
            [sys.executable, "-c", CODES],
            env={
                **os.environ,
                "NUMBA_CACHE_DIR": str(tmp_path),
                **({"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": "+sse2"} if name else {}),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.split(" ", 1))
    assert [use for use, _ in found] == [str(kernel.AVAILABLE), "False", str(kernel.AVAILABLE)]
    assert found[0][1] == found[1][1] == found[2][1]
