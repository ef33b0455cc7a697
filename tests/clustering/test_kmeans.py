import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from tests.nearest.conftest import PATHS
from tests.oracles import kmeans as oracle

from bowsaw.bags import Bags
from bowsaw.checkpoint import Checkpoint, remove_checkpoint
from bowsaw.clustering import kmeans, rounds
from bowsaw.clustering._lloyd_kernel import add_rows
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.clustering.rounds import LocalRows
from bowsaw.errors import DataError, MismatchError, ParameterError

seeded = partial(KMeansCodebook, random_state=0)


@pytest.fixture
def random():
    return np.random.default_rng(0)


def start_at(monkeypatch, words):
    """Let k-means begin at these words instead of drawing them."""
    start = np.array(words, dtype=np.float32)
    monkeypatch.setattr(KMeansCodebook, "_start", lambda *_: start.copy())


def cut(rows, n_bags=5):
    return Bags(rows, np.linspace(0, len(rows), n_bags + 1).astype(int))


def result(fitted):
    """Every fitted attribute, for exact comparison."""
    return (
        fitted.codebook_,
        fitted.objectives_,
        fitted.n_iter_,
        fitted.counts_.tolist(),
        fitted.objective_,
    )


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_fit_is_lloyds_algorithm(seed, n_words, n_rounds):
    random = np.random.default_rng(seed)
    rows = random.integers(0, 9, (60, 3)).astype(np.float32)
    start = np.unique(rows, axis=0)[random.permutation(20)[:n_words]]
    with pytest.MonkeyPatch.context() as patch:
        start_at(patch, start)
        fitted = seeded(n_words, max_iter=n_rounds, tol=0, n_jobs=1).fit(cut(rows))
    words, objectives = oracle.lloyd(rows, start, fitted.n_iter_)
    np.testing.assert_array_equal(fitted.codebook_.words, words)
    np.testing.assert_allclose(fitted.objectives_, objectives, rtol=1e-5)
    assert fitted.n_iter_ <= n_rounds


def test_rounds_continue_until_nothing_moves_and_the_objective_never_rises(monkeypatch, random):
    rows = random.integers(0, 50, (200, 4)).astype(np.float32)
    start_at(monkeypatch, rows[:7])
    fitted = seeded(7, max_iter=100, tol=0).fit(cut(rows))
    words, objectives = oracle.lloyd(rows, rows[:7], 100)
    np.testing.assert_array_equal(fitted.codebook_.words, words)
    assert 3 < fitted.n_iter_ <= len(objectives) + 1
    assert fitted.objective_ == fitted.objectives_[-1]
    assert len(fitted.objectives_) == fitted.n_iter_
    # Sums of float32 distances are exact to about 1e-7 of themselves.
    assert (np.diff(fitted.objectives_) <= 1e-7 * fitted.objectives_[0]).all()


def test_rounds_stop_at_tol_or_max_iter(random):
    bags = cut(random.random((2000, 6)).astype(np.float32))
    patient = seeded(20, max_iter=60, tol=0).fit(bags)
    for tol in (1e-3, 1e-2):
        fitted = seeded(20, max_iter=60, tol=tol).fit(bags)
        gains = 1 - np.array(fitted.objectives_[1:]) / np.array(fitted.objectives_[:-1])
        assert gains[-1] <= tol
        assert (gains[:-1] > tol).all()
        assert fitted.objectives_ == patient.objectives_[: fitted.n_iter_]
    assert [seeded(20, max_iter=n, tol=0).fit(bags).n_iter_ for n in (1, 2, 5)] == [1, 2, 5]


def test_sums_are_taken_in_order_in_float64(random):
    rows = random.normal(size=(50, 3)).astype(np.float32)
    code = random.integers(0, 4, 50).astype(np.int32)
    sums, counts = np.ones((4, 3)), np.ones(4, np.int64)
    words, distances = random.normal(size=(4, 3)).astype(np.float32), np.empty(50)
    add_rows(rows, words, code, sums, counts, distances)
    gaps = rows.astype(np.float64) - words[code]
    np.testing.assert_allclose(distances, (gaps**2).sum(axis=1), rtol=1e-14)
    expected = np.ones((4, 3))
    for row, k in zip(rows, code, strict=True):
        expected[k] += row
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(counts, 1 + np.bincount(code, minlength=4))


@pytest.mark.parametrize(("n_words", "dtype"), [(10, np.float32), (300, np.uint8)])
def test_words_do_not_depend_on_threads_or_guesses(monkeypatch, random, n_words, dtype):
    monkeypatch.setattr(rounds, "PART_ROWS", 256)
    # A few directions hold most of the variance, so that many words are ruled out by bounds.
    bags = cut((random.random((1500, 8)) @ random.random((8, 32)) * 40).astype(dtype))
    first = result(seeded(n_words, max_iter=6, tol=0, n_jobs=1).fit(bags))
    for n_jobs in (2, 3):
        assert result(seeded(n_words, max_iter=6, tol=0, n_jobs=n_jobs).fit(bags)) == first
    # Nothing is known of the round before, only the word, and bounds for some of the rows.
    for n_bytes in (0, 4 * 1500, 4 * 1500 + 9000):
        monkeypatch.setattr(rounds, "KNOWN_BYTES", n_bytes)
        assert result(seeded(n_words, max_iter=6, tol=0).fit(bags)) == first
    for path in PATHS:
        monkeypatch.setenv("BOWSAW_SEARCH", path)
        assert result(seeded(n_words, max_iter=6, tol=0).fit(bags)) == first


def test_words_do_not_depend_on_where_the_rows_are(random, tmp_path):
    rows = random.integers(0, 200, (900, 8)).astype(np.uint8)
    counts = np.array([100, 0, 350, 50, 400])
    np.save(tmp_path / "a.npy", rows[:450])
    np.save(tmp_path / "b.npy", np.concatenate([rows[:7], rows[450:]]))
    mapped = [np.load(tmp_path / name, mmap_mode="r") for name in ("a.npy", "b.npy")]
    store = Bags.from_pieces(mapped, [0, 0, 0, 1, 1], [0, 100, 100, 7, 57], counts)
    whole = Bags(rows, np.concatenate(([0], np.cumsum(counts))))
    listed = [rows[a:b] for a, b in zip(whole.offsets[:-1], whole.offsets[1:], strict=True)]
    floats = Bags(rows.astype(np.float32), whole.offsets)
    first, *others = (seeded(30, max_iter=5).fit(bags) for bags in (whole, store, listed, floats))
    assert all(result(other) == result(first) for other in others)


def test_seeds_and_random_states(random):
    bags = cut(random.random((400, 4)))

    def words(state):
        return KMeansCodebook(9, random_state=state).fit(bags).codebook_

    assert words(0) == words(0) != words(1)
    assert words(np.random.RandomState(3)) == words(np.random.RandomState(3))
    assert KMeansCodebook(9).random_state is None
    assert words(None) != words(None)


@pytest.mark.parametrize("part_rows", [1, 30, 1000])
def test_more_words_than_distinct_descriptors_are_refused(monkeypatch, part_rows):
    monkeypatch.setattr(rounds, "PART_ROWS", part_rows)
    rows = np.repeat(np.arange(4.0)[:, None], 25, axis=0)
    rows[[0, 99]] = -0.0
    with pytest.raises(DataError, match=r"distinct descriptors \(4\); got 5\. Use more images"):
        KMeansCodebook(5).fit([rows])
    with pytest.raises(DataError, match=r"distinct descriptors \(0\); got 5"):
        KMeansCodebook(5).fit([[]])


@pytest.mark.parametrize(("dtype", "seed"), [(np.uint8, 0), (np.float32, 1)])
def test_as_many_words_as_distinct_descriptors_are_those_descriptors(random, dtype, seed):
    distinct = random.permutation(90)[:60].reshape(20, 3).astype(dtype)
    rows = np.repeat(distinct, 7, axis=0)[random.permutation(140)]
    with pytest.warns(
        UserWarning, match=r"found \d+ distinct descriptors in a sample of 20, for 20"
    ):
        fitted = KMeansCodebook(20, random_state=seed, init_sample=1).fit(cut(rows))
    found = fitted.codebook_.words
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(distinct, axis=0))
    assert fitted.counts_.tolist() == [7] * 20
    assert fitted.objective_ == pytest.approx(0, abs=1e-3)


def test_rare_descriptors_are_found_though_the_sample_misses_them(random):
    rows = np.concatenate([np.zeros((1000, 2)), np.arange(1, 11).reshape(5, 2)])
    with pytest.warns(UserWarning, match="found 1 distinct descriptors in a sample of 6, for 6"):
        fitted = seeded(6, init_sample=1).fit([rows])
    assert sorted(fitted.counts_.tolist()) == [1] * 5 + [1000]
    mean = seeded(1).fit([rows]).codebook_.words[0]
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("tol", [0, 0.999])
def test_any_number_of_empty_words_is_repaired_before_it_stops(monkeypatch, random, tol):
    rows = np.array([[0.0]] * 10 + [[100.0]] * 10 + [[60.0]] * 10)
    start_at(monkeypatch, [[0.0], [0.0], [0.0]])
    # The mean of all, and the two different rows that were farthest.
    words = sorted(seeded(3, max_iter=1).fit([rows]).codebook_.words.ravel().tolist())
    assert words == pytest.approx([160 / 3, 60, 100])
    # A few dozen move per round, and a round that gains little is not the last meanwhile.
    distinct = random.permutation(3000)[:300].reshape(100, 3).astype(np.float32)
    rows = np.repeat(distinct, 3, axis=0)
    start_at(monkeypatch, np.repeat(rows[:1], 100, axis=0))
    fitted = seeded(100, max_iter=100, tol=tol).fit(cut(rows))
    assert fitted.counts_.min() > 0
    assert len(np.unique(fitted.codebook_.words, axis=0)) == 100


def test_every_descriptor_is_used_unless_a_sample_is_asked_for(random):
    bags = Bags(random.random((500, 3)), [0, 200, 500], digests=[4, 9])
    every = seeded(5).fit(bags)
    assert every.counts_.sum() == 500
    sampled = seeded(5, sample=60).fit(bags)
    assert sampled.counts_.sum() == 60
    assert sampled.codebook_.provenance["n_descriptors"] == 60
    assert sampled.codebook_.provenance["n_images"] == 2
    assert sampled.codebook_.trained_on.tolist() == [4, 9]
    assert seeded(5, sample=60).fit(bags).codebook_ == sampled.codebook_
    same = seeded(5, sample=500).fit(bags)
    np.testing.assert_array_equal(same.codebook_.words, every.codebook_.words)


def test_a_sample_is_drawn_evenly_and_without_replacement():
    bags = cut(np.arange(100, dtype=np.float32)[:, None])
    rng = np.random.default_rng(0)
    counts = np.zeros(100)
    for _ in range(400):
        drawn = LocalRows(bags, 1).draw(25, rng)[:, 0]
        assert (np.diff(drawn) > 0).all()
        counts[drawn.astype(int)] += 1
    assert (abs(counts - 100) <= 4 * np.sqrt(400 * 0.25 * 0.75)).all()


@pytest.fixture
def eager(monkeypatch):
    """Save after every round."""
    monkeypatch.setattr(kmeans, "Checkpoint", partial(Checkpoint, interval=-1.0))


def n_rounds(monkeypatch, learner, bags, interrupt_at=None):
    """Fit, and return the number of rounds; or interrupt before one of them."""
    assign, n = LocalRows.assign, 0

    def counted(rows, words):
        nonlocal n
        n += 1
        if n == interrupt_at:
            raise KeyboardInterrupt
        return assign(rows, words)

    with monkeypatch.context() as patch:
        patch.setattr(LocalRows, "assign", counted)
        if interrupt_at is None:
            learner.fit(bags)
        else:
            with pytest.raises(KeyboardInterrupt):
                learner.fit(bags)
    return n


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def learner(state):
    return seeded(12, max_iter=8, tol=0, checkpoint=state)


@pytest.fixture
def bags(random):
    return cut(random.random((600, 4)))


@pytest.mark.parametrize(("at", "sample"), [((1,), None), ((8,), 300), ((2, 2, 2, 2, 2), None)])
def test_a_fit_interrupted_once_or_repeatedly_continues_to_the_same_words(
    eager, monkeypatch, learner, bags, state, at, sample
):
    learner.set_params(sample=sample)
    expected = seeded(12, max_iter=8, tol=0, sample=sample).fit(bags)
    for moment in at:
        n_rounds(monkeypatch, learner, bags, interrupt_at=moment)
    assert state.exists() == (at != (1,))
    assert not hasattr(learner, "codebook_")
    assert n_rounds(monkeypatch, learner, bags) == 8 - sum(at) + len(at)
    assert result(learner) == result(expected)
    # The caller removes it, after the words are saved.
    remove_checkpoint(state)
    assert list(state.parent.iterdir()) == []


def test_the_state_of_another_fit_is_refused_and_kept(eager, monkeypatch, learner, bags, state):
    n_rounds(monkeypatch, learner, bags, interrupt_at=4)
    before = state.read_bytes()
    values = bags.values.copy()
    values[599, 3] += 1
    others = {"n_words": 11, "random_state": 1, "tol": 1e-9, "init_sample": 20}
    others |= {"sample": 500, "max_iter": 3, "bags": Bags(values, bags.offsets)}
    for name, value in others.items():
        other = clone(learner) if name == "bags" else clone(learner).set_params(**{name: value})
        with pytest.raises(MismatchError, match=f"its {name.replace('random_state', 'seed')} was"):
            other.fit(value if name == "bags" else bags)
        assert state.read_bytes() == before


def test_the_codebook_records_its_origin_and_objectives_are_in_unit_norm_units(random):
    about = {"name": "test", "step": 8}
    values = random.integers(0, 200, (300, 4)).astype(np.uint8)
    bags = Bags(values, [0, 100, 300], scale=512, description=about, digests=[2**64 - 1, 5])
    options = {"max_iter": np.int32(4), "tol": np.float32(0), "init_sample": np.int16(9)}
    fitted = KMeansCodebook(np.int64(6), random_state=np.int64(3), sample=200, **options).fit(bags)
    book = fitted.codebook_
    assert (book.scale, book.description) == (512, about)
    assert book.trained_on.tolist() == [5, 2**64 - 1]
    assert book.ids.tolist() == list(range(6))
    found = json.loads(json.dumps(book.provenance, allow_nan=False))
    assert found == book.provenance
    assert found["method"] == "k-means"
    assert (found["n_words"], found["max_iter"], found["seed"], found["n_images"]) == (6, 4, 3, 2)
    assert (found["n_iter"], found["objective"]) == (fitted.n_iter_, fitted.objective_)
    assert fitted.transform(bags) is bags
    every = seeded(6).fit(bags)
    in_units = seeded(6).fit(Bags(values / 512, bags.offsets))
    assert every.objective_ == pytest.approx(in_units.objective_, rel=1e-5)
    words = every.codebook_.words / 512
    distances = oracle.squared_distances(values / 512, words).min(axis=1)
    assert distances.mean() <= every.objective_ * (1 + 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_words": 0}, "n_words must be an integer of at least 1; got 0"),
        ({"n_words": 2.0}, "n_words must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init_sample": 0}, "init_sample must be"),
        ({"sample": 4}, "sample must be an integer of at least 5; got 4.* or None"),
        ({"tol": -1e-9}, "tol must be a finite number of at least 0"),
        ({"random_state": -1}, "random_state must be"),
        ({"n_jobs": 0}, "n_jobs must"),
    ],
)
def test_parameters_out_of_range_are_refused(bags, options, message):
    with pytest.raises(ParameterError, match=message):
        KMeansCodebook(**{"n_words": 5} | options).fit(bags)


def test_what_float32_cannot_square_is_refused(monkeypatch):
    for size in (1e20, 3e38):
        with pytest.raises(DataError, match="must lie within"):
            KMeansCodebook(2, n_jobs=1).fit([[[size], [0.0], [2.0]]])
    start_at(monkeypatch, [[0.0], [2.0]])
    with pytest.raises(DataError, match="must lie within"):
        KMeansCodebook(2, n_jobs=1).fit([[[1e20], [0.0], [2.0]]])
