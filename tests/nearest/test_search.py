"""The search must equal the brute-force answer, exactly, on data made to mislead it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.oracles import nearest as oracle

from bowsaw.bags import Bags
from bowsaw.errors import DataError
from bowsaw.nearest import search as search_module
from bowsaw.nearest._search_kernel import settle
from bowsaw.nearest.search import LARGEST, WordSearch, find_blocks, nearest_words


def float32(array):
    return np.ascontiguousarray(array, dtype=np.float32)


def assert_every_way_is_exact(rows, words, seed=0):
    """With and without bounds, with guesses that are right, wrong, random: one answer."""
    rows, words = float32(rows), float32(words)
    expected = oracle.nearest(rows, words)
    random = np.random.default_rng(seed)
    distances = oracle.squared_distances(rows, words)
    guesses = {
        "none": None,
        "right": expected.astype(np.int32),
        "worst": distances.argmax(axis=1).astype(np.int32),
        "random": random.integers(0, len(words), len(rows)).astype(np.int32),
        "last": np.full(len(rows), len(words) - 1, dtype=np.int32),
    }
    plain = WordSearch(words, skip=False).find(rows)
    bounded = WordSearch(words, skip=True)
    assert bounded.bounds is not None
    founds = [plain, *(bounded.find(rows, guess) for guess in guesses.values())]
    for name, found in zip(("without bounds", *guesses), founds, strict=True):
        np.testing.assert_array_equal(found, expected, name)
        assert found.dtype == np.int32


@st.composite
def rows_and_words(draw):
    """Bytes of few levels, or floats of one size; words that are rows and words that repeat."""
    n_dims = draw(st.integers(1, 5))
    if draw(st.booleans()):
        dtype, number = np.uint8, st.integers(0, draw(st.sampled_from([1, 3, 255])))
    else:
        # Up to 2^58 in five dimensions, all norms and their squares are within float32.
        top = draw(st.sampled_from([2.0**-130, 2.0**-70, 1.0, 1000.0, 2.0**58]))
        dtype, number = np.float32, st.floats(-top, top, width=32)
    rows = draw(arrays(dtype, (draw(st.integers(1, 10)), n_dims), elements=number))
    words = draw(arrays(dtype, (draw(st.integers(1, 12)), n_dims), elements=number))
    pool = np.concatenate([rows, words])
    chosen = draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=30))
    return rows, pool[chosen]


@settings(max_examples=150)
@given(rows_and_words())
def test_any_rows_and_words(data):
    assert_every_way_is_exact(*data)


@pytest.mark.parametrize(
    ("n_words", "n_dims"),
    [(1, 1), (2, 128), (63, 3), (64, 33), (65, 1), (256, 128), (513, 3), (1025, 33)],
)
def test_at_the_limits_of_tiles_and_groups(n_words, n_dims):
    random = np.random.default_rng(n_words + n_dims)
    # Levels of 0 to 9, so that in few dimensions most words appear many times.
    words = random.integers(0, 10, (n_words, n_dims))
    rows = np.concatenate([random.integers(0, 10, (60, n_dims)), words[-20:]])
    assert_every_way_is_exact(rows, words)


def ulps_apart(random):
    """Words a unit in the last place apart, rows on them, near them and far from them."""
    base = float32(random.normal(size=(6, 20)))
    steps = random.integers(-2, 3, (60, 20), dtype=np.int32)
    words = (np.repeat(base, 10, axis=0).view(np.int32) + steps).view(np.float32)
    around = [base + s * random.normal(size=base.shape) for s in (0, 1e-7, 1e-3, 1, 100, 1e6)]
    return np.concatenate(around), words


def collinear(random):
    along = random.normal(size=30)
    words = np.linspace(-1, 1, 201)[:, None] * along
    rows = random.uniform(-1.1, 1.1, (100, 1)) * along
    return np.concatenate([rows, rows + random.normal(size=rows.shape)]), words


def halfway(random):
    words = float32(random.normal(size=(100, 16)))
    return words[random.integers(0, 100, (200, 2))].mean(axis=1), words


def on_a_sphere(random):
    """Words at one distance from every row near the centre: all are near-ties."""
    words = random.normal(size=(300, 24))
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    return random.normal(size=(100, 24)) * 10.0 ** random.uniform(-9, 0, (100, 1)), words


def permuted(random):
    """Words of the same numbers in another order, at equal distances up to rounding."""
    numbers = random.normal(size=12)
    words = np.array([random.permutation(numbers) for _ in range(200)])
    return np.repeat(random.normal(size=(50, 1)), 12, axis=1), words


def uneven_axes(random):
    """Few directions hold nearly everything, so bounds rule out nearly all words."""
    decay = 10.0 ** -np.arange(0, 8, 0.25)
    return random.normal(size=(200, 32)) * decay, random.normal(size=(600, 32)) * decay


def in_a_plane(random):
    """Words that lie in the bound's directions, rows that nearly do: remainders are rounding."""
    plane = np.linalg.qr(random.normal(size=(64, 3)))[0].T
    near = random.normal(size=(100, 3)) @ plane
    rows = np.concatenate([near, near + 1e-4 * random.normal(size=near.shape)])
    return rows, random.normal(size=(400, 3)) @ plane


def scaled(n_rows, n_words, low, high, word_size):
    """Rows of sizes from 10^low to 10^high."""

    def make(random):
        size = 10.0 ** random.uniform(low, high, (n_rows, 1))
        rows = random.normal(size=(n_rows, 5)) * size
        return rows, random.normal(size=(n_words, 5)) * word_size

    return make


def giants(n_giants, factor):
    """Some words far from all others, and descriptors as far: on, around and between them."""

    def make(random):
        words = float32(random.normal(size=(200, 8)))
        words[:n_giants] *= factor
        near = words[random.integers(0, n_giants, 60)]
        sizes = 10.0 ** random.uniform(-4, 0, (60, 1)) * factor
        pairs = words[random.integers(0, 200, (60, 2))].mean(axis=1)
        around = near + sizes * random.normal(size=near.shape)
        return np.concatenate([random.normal(size=(99, 8)), near, around, pairs]), words

    return make


def all_sizes(random):
    """Words and rows of lengths over eight decades: any word's error is large for another."""
    words = random.normal(size=(300, 6)) * 10.0 ** random.uniform(-4, 4, (300, 1))
    rows = random.normal(size=(150, 6)) * 10.0 ** random.uniform(-4, 4, (150, 1))
    return np.concatenate([rows, float32(words[:50]), words[50:100] * (1 + 1e-6)]), words


NAMED = {
    "ulps apart": ulps_apart,
    "duplicates": lambda r: (r.normal(size=(99, 8)), np.repeat(r.normal(size=(20, 8)), 9, axis=0)),
    "all words equal": lambda r: (r.normal(size=(50, 8)), np.tile(r.normal(size=8), (100, 1))),
    "all zero": lambda r: (np.zeros((10, 5)), np.zeros((10, 5))),
    "zero rows": lambda r: (np.zeros((10, 5)), r.normal(size=(100, 5))),
    "collinear": collinear,
    "halfway": halfway,
    "on a sphere": on_a_sphere,
    "permuted": permuted,
    "far from 0": lambda r: (r.normal(size=(100, 16)) + 1e4, r.normal(size=(200, 16)) + 1e4),
    "words far away": lambda r: (r.normal(size=(100, 16)), r.normal(size=(200, 16)) + 1e4),
    # So far that float64 itself sees ties.
    "rows far away": scaled(200, 100, 12, 17, 1.0),
    # Squares fall below the smallest float32.
    "tiny": scaled(300, 50, -25, -19, 1e-22),
    "subnormal": scaled(100, 50, -42, -42, 1e-42),
    "one giant": giants(1, 1e6),
    "some giants": giants(20, 1e3),
    # Half are far words: which are usual?
    "many giants": giants(100, 100.0),
    "words of all sizes": all_sizes,
    "uneven axes": uneven_axes,
    "in a plane": in_a_plane,
}
for name, make in NAMED.items():
    make.__name__ = name
FAMILIES = list(NAMED.values())
every_family = pytest.mark.parametrize("family", FAMILIES, ids=list(NAMED))


@every_family
def test_misleading_data(family):
    assert_every_way_is_exact(*family(np.random.default_rng(0)))


@every_family
def test_bounds_are_bounds(family):
    """Products along the directions and of the remainders are never below the whole product."""
    rows, words = map(float32, family(np.random.default_rng(5)))
    search = WordSearch(words, skip=True)
    centred, exact_words = rows - search.centre, search.words.astype(np.float64)
    limits = search.bounds
    exact_rows, bound_words = centred.astype(np.float64), limits.words.astype(np.float64)
    norms = (exact_rows**2).sum(axis=1)
    along = search._along(centred, float32(norms), limits).astype(np.float64)
    bounds, whole = along @ bound_words.T, exact_rows @ exact_words.T
    # What the search allows for the rounding of rows along the directions.
    allowed = limits.error * np.sqrt(norms) * search.largest + 2.0**-120
    assert (bounds >= whole - allowed[:, None]).all()
    # What is left over after the directions is never underestimated.
    axes = np.linalg.qr(limits.directions.astype(np.float64))[0]
    for exact, left in ((exact_rows, along[:, -1]), (exact_words, bound_words[:, -1])):
        remainder = np.linalg.norm(exact - exact @ axes @ axes.T, axis=1)
        # A float64 remainder has an error too, of the size of the whole.
        slack = 1e-13 * np.linalg.norm(exact, axis=1) + 2.0**-70
        assert (left >= remainder - slack).all()


def test_the_error_of_a_score_is_within_its_bound():
    random = np.random.default_rng(0)
    rows = float32(random.uniform(0, 255, (300, 128)).round())
    words = float32(random.uniform(0, 255, (300, 128)))
    search = WordSearch(words, skip=False)
    centred = rows - search.centre
    scores = centred @ search.words.T - search.half_norms
    exact_rows = rows.astype(np.float64) - search.centre
    exact_words = words.astype(np.float64) - search.centre
    exact = exact_rows @ exact_words.T - (exact_words**2).sum(axis=1) / 2
    size = np.linalg.norm(exact_rows, axis=1) * search.largest + search.largest**2
    assert (np.abs(scores - exact) <= search.error.relative * size[:, None]).all()


@pytest.fixture
def gravel():
    """Descriptors that bounds are good for: most of their variance lies in few directions."""
    random = np.random.default_rng(3)
    mixing = random.normal(size=(6, 40))
    values = random.normal(size=(1500, 6)) @ mixing + 0.05 * random.normal(size=(1500, 40))
    return np.clip(values * 12 + 128, 0, 255).round().astype(np.uint8)


@pytest.mark.parametrize("tile_words", [1, 7, 300])
def test_tile_size(monkeypatch, gravel, tile_words):
    monkeypatch.setattr(search_module, "TILE_WORDS", tile_words)
    assert_every_way_is_exact(gravel[300:600], gravel[:300])


@pytest.mark.parametrize(("block_rows", "n_jobs"), [(1, 2), (17, 3), (512, 1), (5000, 2)])
def test_block_size_and_threads(monkeypatch, gravel, block_rows, n_jobs):
    monkeypatch.setattr(search_module, "BLOCK_ROWS", block_rows)
    words, bags = float32(gravel[:300]), Bags(gravel[300:900])
    starts = [start for start, _ in find_blocks(bags, WordSearch(words), n_jobs=n_jobs)]
    assert starts == list(range(0, 600, block_rows))
    codes = nearest_words(bags, words, n_jobs=n_jobs)
    assert codes.dtype == np.int32
    assert nearest_words(bags[:0], words).shape == (0,)
    np.testing.assert_array_equal(codes, oracle.nearest(bags.values, words))


def test_a_far_word_leaves_the_others_certain(monkeypatch, gravel):
    words, doubts = float32(gravel[:200]), []

    def counted(*arrays):
        doubts.append(settle(*arrays))

    monkeypatch.setattr(search_module, "settle", counted)
    far = words.copy()
    far[7] *= 1000
    for book in (words, far):
        WordSearch(book, skip=False).find(float32(gravel[300:1500]))
    assert doubts[1] <= doubts[0] + 5
    # Nor does it take the place of the directions in which the others differ.
    usual, with_far = WordSearch(words, skip=True), WordSearch(far, skip=True)
    assert with_far.bounds.directions.shape == usual.bounds.directions.shape


def test_bounds_are_used_where_they_pay(gravel):
    assert WordSearch(float32(gravel[:300])).bounds is not None
    assert WordSearch(float32(gravel[:300]), skip=False).bounds is None
    # Few words: larger blocks and no bounds. Without main directions a bound costs a score.
    few = WordSearch(float32(gravel[:200]))
    assert few.bounds is None
    assert few.block_rows > WordSearch(float32(gravel[:300])).block_rows
    noise = np.random.default_rng(0).normal(size=(300, 40))
    assert WordSearch(float32(noise)).bounds is None


@pytest.mark.parametrize("skip", [True, False])
def test_up_to_the_largest_norm(skip):
    top = np.float32(LARGEST)
    words = np.array([[-top], [top], [0]], dtype=np.float32)
    found = WordSearch(words, skip=skip).find(np.array([[-top], [top], [top / 4]], np.float32))
    assert found.tolist() == [0, 1, 2]
    assert WordSearch(words, skip=skip).find(np.empty((0, 1), np.float32)).shape == (0,)


@pytest.mark.parametrize("value", [1e19, 3e38])
def test_squares_that_leave_float32_are_refused(value):
    large = np.array([[value], [-value]], dtype=np.float32)
    with pytest.raises(DataError, match=r"^words must lie within 4.6e\+18 .* Divide"):
        WordSearch(large)
    search = WordSearch(np.array([[-1.0], [1.0]], dtype=np.float32))
    with pytest.raises(DataError, match=r"^descriptors must lie within 4.6e\+18 .* Divide"):
        search.find(large)
