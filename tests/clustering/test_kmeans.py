from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import kmeans as oracle

from bowsaw.bags import Bags
from bowsaw.clustering import kmeans, rounds, training_rows
from bowsaw.clustering._lloyd_kernel import add_rows
from bowsaw.clustering.checkpoint import Checkpoint
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.clustering.training_rows import LocalRows
from bowsaw.errors import DataError, ParameterError


@pytest.fixture
def random():
    return np.random.default_rng(0)


def blobs(random, n_blobs=8, each=40, n_dims=5, far=100.0):
    centres = far * random.permutation(n_blobs)[:, None] + random.normal(size=(n_blobs, n_dims))
    rows = np.repeat(centres, each, axis=0) + random.normal(size=(n_blobs * each, n_dims))
    return rows.astype(np.float32), centres


def start_at(monkeypatch, words):
    """Let k-means begin at these words instead of drawing them."""
    start = np.array(words, dtype=np.float32)
    monkeypatch.setattr(KMeansCodebook, "_start", lambda *_: start.copy())


def cut(rows, n_bags=5):
    limits = np.linspace(0, len(rows), n_bags + 1).astype(int)
    return Bags(rows, limits)


def result(fitted):
    """Everything that a fit gives, for exact comparison."""
    return (
        fitted.codebook_,
        fitted.objectives_,
        fitted.n_iter_,
        fitted.counts_.tolist(),
        fitted.objective_,
    )


# -- the algorithm ---------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_it_is_lloyds_algorithm(seed, n_words, n_rounds):
    random = np.random.default_rng(seed)
    rows = random.integers(0, 9, (60, 3)).astype(np.float32)
    start = np.unique(rows, axis=0)[random.permutation(20)[:n_words]]
    with pytest.MonkeyPatch.context() as patch:
        start_at(patch, start)
        fitted = KMeansCodebook(n_words, max_iter=n_rounds, tol=0, n_jobs=1).fit(cut(rows))
    words, objectives = oracle.lloyd(rows, start, fitted.n_iter_)
    np.testing.assert_array_equal(fitted.codebook_.words, words)
    np.testing.assert_allclose(fitted.objectives_, objectives, rtol=1e-5)
    assert fitted.n_iter_ <= n_rounds


def test_it_goes_on_until_nothing_moves(monkeypatch, random):
    rows = random.integers(0, 50, (200, 4)).astype(np.float32)
    start = rows[:7]
    start_at(monkeypatch, start)
    fitted = KMeansCodebook(7, max_iter=100, tol=0).fit(cut(rows))
    words, objectives = oracle.lloyd(rows, start, 100)
    np.testing.assert_array_equal(fitted.codebook_.words, words)
    assert 3 < fitted.n_iter_ < 100
    assert fitted.n_iter_ <= len(objectives) + 1


def test_the_objective_never_rises(random):
    rows = random.random((3000, 12)).astype(np.float32)
    fitted = KMeansCodebook(40, max_iter=50, tol=0).fit(cut(rows))
    assert len(fitted.objectives_) == fitted.n_iter_ > 10
    assert fitted.objective_ == fitted.objectives_[-1]
    # Sums of float32 distances are exact to about 1e-7 of themselves.
    assert (np.diff(fitted.objectives_) <= 1e-7).all()


def test_it_stops_when_little_is_gained(random):
    rows = random.random((2000, 6)).astype(np.float32)
    bags = cut(rows)
    patient = KMeansCodebook(20, max_iter=60, tol=0).fit(bags)
    for tol in (1e-3, 1e-2):
        fitted = KMeansCodebook(20, max_iter=60, tol=tol).fit(bags)
        gains = 1 - np.array(fitted.objectives_[1:]) / np.array(fitted.objectives_[:-1])
        assert gains[-1] <= tol
        assert (gains[:-1] > tol).all()
        assert fitted.objectives_ == patient.objectives_[: fitted.n_iter_]
        assert fitted.n_iter_ < patient.n_iter_


def test_max_iter_is_the_number_of_rounds(random):
    bags = cut(random.random((500, 6)))
    rounds = [KMeansCodebook(20, max_iter=n, tol=0).fit(bags).n_iter_ for n in (1, 2, 5)]
    assert rounds == [1, 2, 5]


@pytest.mark.parametrize("seed", range(4))
def test_planted_blobs_are_found(random, seed):
    rows, centres = blobs(random)
    fitted = KMeansCodebook(8, random_state=seed).fit(cut(rows))
    order = np.argsort(centres[:, 0])
    found = fitted.codebook_.words[np.argsort(fitted.codebook_.words[:, 0])]
    means = rows.reshape(8, 40, 5).mean(axis=1)[order]
    np.testing.assert_allclose(found, means, rtol=1e-5, atol=1e-3)
    assert fitted.counts_.tolist() == [40] * 8
    spread = ((rows.reshape(8, 40, 5) - rows.reshape(8, 40, 5).mean(axis=1)[:, None]) ** 2).sum()
    # Float32 knows a squared distance only to a share of that to the mean word, near 300² here.
    assert fitted.objective_ == pytest.approx(spread / len(rows), rel=0.05)


def test_sums_are_taken_in_order_in_float64(random):
    rows = random.normal(size=(50, 3)).astype(np.float32)
    code = random.integers(0, 4, 50).astype(np.int32)
    sums, counts = np.ones((4, 3)), np.ones(4, np.int64)
    add_rows(rows, code, sums, counts)
    expected = np.ones((4, 3))
    for row, k in zip(rows, code, strict=True):
        expected[k] += row
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(counts, 1 + np.bincount(code, minlength=4))


# -- the same words --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("n_words", [10, 300])
def test_the_same_words_on_any_number_of_threads(monkeypatch, random, dtype, n_words):
    monkeypatch.setattr(rounds, "PART_ROWS", 256)
    # A few directions hold most of the variance, so that many words are ruled out by bounds.
    rows = (random.random((1500, 8)) @ random.random((8, 32)) * 40).astype(dtype)
    results = [
        result(KMeansCodebook(n_words, max_iter=6, n_jobs=n).fit(cut(rows))) for n in (1, 2, 3, -1)
    ]
    assert results[0] == results[1] == results[2] == results[3]


@pytest.mark.parametrize("n_words", [10, 300])
def test_the_same_words_without_room_for_guesses(monkeypatch, random, n_words):
    rows = (random.random((1500, 8)) @ random.random((8, 32)) * 40).astype(np.uint8)
    with_guesses = KMeansCodebook(n_words, max_iter=8, tol=0).fit(cut(rows))
    monkeypatch.setattr(training_rows, "GUESS_BYTES", 0)
    assert result(KMeansCodebook(n_words, max_iter=8, tol=0).fit(cut(rows))) == result(with_guesses)


def test_the_same_words_wherever_the_rows_lie(random, tmp_path):
    rows = random.integers(0, 200, (900, 8)).astype(np.uint8)
    counts = np.array([100, 0, 350, 50, 400])
    np.save(tmp_path / "a.npy", rows[:450])
    np.save(tmp_path / "b.npy", np.concatenate([rows[:7], rows[450:]]))
    mapped = [np.load(tmp_path / name, mmap_mode="r") for name in ("a.npy", "b.npy")]
    store = Bags.from_pieces(mapped, [0, 0, 0, 1, 1], [0, 100, 100, 7, 57], counts)
    whole = Bags(rows, np.concatenate(([0], np.cumsum(counts))))
    listed = [rows[a:b] for a, b in zip(whole.offsets[:-1], whole.offsets[1:], strict=True)]
    fits = [KMeansCodebook(30, max_iter=5).fit(bags) for bags in (whole, store, listed)]
    assert result(fits[0]) == result(fits[1]) == result(fits[2])
    as_floats = KMeansCodebook(30, max_iter=5).fit(Bags(rows.astype(np.float32), whole.offsets))
    assert result(as_floats) == result(fits[0])


def test_other_seeds_give_other_words(random):
    bags = cut(random.random((400, 4)))
    words = [KMeansCodebook(9, random_state=s).fit(bags).codebook_.words for s in (0, 0, 1)]
    np.testing.assert_array_equal(words[0], words[1])
    assert not np.array_equal(words[0], words[2])


def test_random_states_of_scikit_learn_are_taken(random):
    bags = cut(random.random((200, 4)))
    first, second = (
        KMeansCodebook(5, random_state=np.random.RandomState(3)).fit(bags).codebook_
        for _ in range(2)
    )
    assert first == second
    assert KMeansCodebook(5, random_state=None).fit(bags).codebook_.n_words == 5


# -- few distinct descriptors ----------------------------------------------------------------------


@pytest.mark.parametrize("part_rows", [1, 30, 1000])
def test_more_words_than_distinct_descriptors_is_an_error_that_names_both(monkeypatch, part_rows):
    monkeypatch.setattr(rounds, "PART_ROWS", part_rows)
    rows = np.repeat(np.arange(4.0)[:, None], 25, axis=0)
    rows[[0, 99]] = -0.0
    with pytest.raises(DataError, match=r"distinct descriptors \(4\); got 5\. Use more images"):
        KMeansCodebook(5).fit([rows])
    with pytest.raises(DataError, match=r"distinct descriptors \(0\); got 5"):
        KMeansCodebook(5).fit([[]])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_words_as_distinct_descriptors_are_those_descriptors(random, dtype, seed):
    distinct = random.permutation(90)[:60].reshape(20, 3).astype(dtype)
    rows = np.repeat(distinct, 7, axis=0)[random.permutation(140)]
    fitted = KMeansCodebook(20, random_state=seed, init_sample=1).fit(cut(rows))
    found = fitted.codebook_.words
    np.testing.assert_array_equal(np.unique(found, axis=0), np.unique(distinct, axis=0))
    assert fitted.counts_.tolist() == [7] * 20
    assert fitted.objective_ == pytest.approx(0, abs=1e-3)


def test_rare_descriptors_are_found_though_the_sample_misses_them():
    rows = np.concatenate([np.zeros((1000, 2)), np.arange(1, 11).reshape(5, 2)])
    fitted = KMeansCodebook(6, init_sample=1).fit([rows])
    assert sorted(fitted.counts_.tolist()) == [1] * 5 + [1000]


def test_one_word_is_the_mean(random):
    rows = random.integers(0, 9, (50, 3))
    fitted = KMeansCodebook(1).fit([rows])
    np.testing.assert_allclose(fitted.codebook_.words[0], rows.mean(axis=0), rtol=1e-6)


# -- empty words -----------------------------------------------------------------------------------


def test_a_word_without_descriptors_moves_to_the_farthest(monkeypatch, random):
    rows, _ = blobs(random, n_blobs=4)
    start_at(monkeypatch, rows[[0, 0, 40, 80]])
    fitted = KMeansCodebook(4, max_iter=30, tol=0).fit(cut(rows))
    assert fitted.counts_.tolist() == [40] * 4
    assert (np.diff(fitted.objectives_) <= 1e-3).all()


@pytest.mark.parametrize("tol", [0, 0.999])
def test_any_number_of_empty_words_is_repaired_before_it_stops(monkeypatch, random, tol):
    # A few dozen are moved in a round, and a round that gains little is not the last meanwhile.
    distinct = random.permutation(3000)[:300].reshape(100, 3).astype(np.float32)
    rows = np.repeat(distinct, 3, axis=0)
    start_at(monkeypatch, np.repeat(rows[:1], 100, axis=0))
    fitted = KMeansCodebook(100, max_iter=100, tol=tol).fit(cut(rows))
    assert fitted.counts_.min() > 0
    assert len(np.unique(fitted.codebook_.words, axis=0)) == 100


def test_two_empty_words_do_not_move_to_one_place(monkeypatch):
    rows = np.array([[0.0]] * 10 + [[100.0]] * 10 + [[60.0]] * 10)
    start_at(monkeypatch, [[0.0], [0.0], [0.0]])
    fitted = KMeansCodebook(3, max_iter=1).fit([rows])
    # The mean of all, and the two different rows that were farthest.
    words = sorted(fitted.codebook_.words.ravel().tolist())
    assert words == pytest.approx([160 / 3, 60, 100])


# -- sampling --------------------------------------------------------------------------------------


def test_every_descriptor_is_used_unless_a_sample_is_asked_for(random):
    bags = Bags(random.random((500, 3)), [0, 200, 500], digests=[4, 9])
    every = KMeansCodebook(5).fit(bags)
    assert every.counts_.sum() == 500
    sampled = KMeansCodebook(5, sample=60).fit(bags)
    assert sampled.counts_.sum() == 60
    assert sampled.codebook_.provenance["n_descriptors"] == 60
    assert sampled.codebook_.provenance["n_images"] == 2
    assert sampled.codebook_.trained_on.tolist() == [4, 9]
    assert KMeansCodebook(5, sample=60).fit(bags).codebook_ == sampled.codebook_
    same = KMeansCodebook(5, sample=500).fit(bags)
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


# -- checkpoints -----------------------------------------------------------------------------------


@pytest.fixture
def eager(monkeypatch):
    """Save after every round."""
    monkeypatch.setattr(kmeans, "Checkpoint", partial(Checkpoint, seconds=-1.0))


class Interrupted:
    """Counts rounds, and interrupts before one of them."""

    def __init__(self, monkeypatch, at=None):
        self.n_rounds = 0
        self.at = at
        assign = LocalRows.assign

        def counted(rows, words):
            self.n_rounds += 1
            if self.n_rounds == self.at:
                raise KeyboardInterrupt
            return assign(rows, words)

        monkeypatch.setattr(LocalRows, "assign", counted)


def interrupt(monkeypatch, learner, bags, at):
    with monkeypatch.context() as patch:
        Interrupted(patch, at)
        with pytest.raises(KeyboardInterrupt):
            learner.fit(bags)


def rounds_of(monkeypatch, learner, bags):
    with monkeypatch.context() as patch:
        counter = Interrupted(patch)
        learner.fit(bags)
    return counter.n_rounds


@pytest.fixture
def learner(tmp_path):
    return KMeansCodebook(12, max_iter=8, tol=0, checkpoint=tmp_path / "state")


@pytest.fixture
def bags(random):
    return cut(random.random((600, 4)))


@pytest.mark.parametrize("at", [1, 2, 5, 8])
@pytest.mark.parametrize("sample", [None, 300])
def test_an_interrupted_fit_goes_on_to_the_same_words(
    eager, monkeypatch, learner, bags, tmp_path, at, sample
):
    learner.set_params(sample=sample)
    expected = KMeansCodebook(12, max_iter=8, tol=0, sample=sample).fit(bags)
    assert expected.n_iter_ == 8
    interrupt(monkeypatch, learner, bags, at)
    assert (tmp_path / "state").exists() == (at > 1)
    assert not hasattr(learner, "codebook_")
    assert rounds_of(monkeypatch, learner, bags) == 8 - at + 1
    assert result(learner) == result(expected)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_interrupted_again_and_again_ends_with_the_same_words(
    eager, monkeypatch, learner, bags
):
    for _ in range(5):
        interrupt(monkeypatch, learner, bags, at=2)
    assert rounds_of(monkeypatch, learner, bags) == 3
    assert result(learner) == result(KMeansCodebook(12, max_iter=8, tol=0).fit(bags))


@pytest.mark.parametrize(
    "change",
    [
        {"n_words": 11},
        {"random_state": 1},
        {"tol": 1e-9},
        {"init_sample": 20},
        {"sample": 500},
        {"max_iter": 3},
        {"max_iter": 2},
    ],
)
def test_a_state_of_another_fit_is_not_used(eager, monkeypatch, learner, bags, change):
    interrupt(monkeypatch, learner, bags, at=4)
    options = {"n_words": 12, "max_iter": 8, "tol": 0} | change
    expected = KMeansCodebook(**options).fit(bags)
    learner.set_params(**change)
    assert rounds_of(monkeypatch, learner, bags) == expected.n_iter_
    assert result(learner) == result(expected)


def test_more_rounds_may_be_asked_of_an_interrupted_fit(eager, monkeypatch, learner, bags):
    interrupt(monkeypatch, learner, bags, at=4)
    learner.set_params(max_iter=10)
    expected = KMeansCodebook(12, max_iter=10, tol=0).fit(bags)
    assert rounds_of(monkeypatch, learner, bags) == expected.n_iter_ - 3
    assert result(learner) == result(expected)


def test_a_state_of_other_data_is_not_used(eager, monkeypatch, learner, bags):
    interrupt(monkeypatch, learner, bags, at=4)
    values = bags.values.copy()
    values[599, 3] += 1
    other = Bags(values, bags.offsets)
    learner.fit(other)
    assert result(learner) == result(KMeansCodebook(12, max_iter=8, tol=0).fit(other))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"x" * 99])
def test_a_damaged_state_is_not_used(eager, monkeypatch, learner, bags, tmp_path, damage):
    interrupt(monkeypatch, learner, bags, at=4)
    state = tmp_path / "state"
    state.write_bytes(damage(state.read_bytes()))
    learner.fit(bags)
    assert result(learner) == result(KMeansCodebook(12, max_iter=8, tol=0).fit(bags))
    assert not state.exists()


def test_nothing_is_saved_before_its_time(monkeypatch, learner, bags, tmp_path):
    interrupt(monkeypatch, learner, bags, at=4)
    assert list(tmp_path.iterdir()) == []


# -- what it leaves --------------------------------------------------------------------------------


def test_the_codebook_knows_where_it_came_from(random):
    about = {"name": "test", "step": 8}
    values = random.integers(0, 200, (300, 4)).astype(np.uint8)
    bags = Bags(values, [0, 100, 300], scale=512, description=about, digests=[2**64 - 1, 5])
    fitted = KMeansCodebook(6, max_iter=4, random_state=3).fit(bags)
    book = fitted.codebook_
    assert (book.scale, book.description) == (512, about)
    assert book.trained_on.tolist() == [5, 2**64 - 1]
    assert book.ids.tolist() == list(range(6))
    told = json.loads(json.dumps(book.provenance, allow_nan=False))
    assert told == book.provenance
    assert told["method"] == "k-means"
    assert (told["n_words"], told["max_iter"], told["seed"], told["n_images"]) == (6, 4, 3, 2)
    assert (told["n_iter"], told["objective"]) == (fitted.n_iter_, fitted.objective_)


def test_numpys_numbers_are_told_as_json(random):
    options = {"n_words": np.int64(4), "max_iter": np.int32(3), "tol": np.float32(0)}
    more = {"sample": np.int64(50), "init_sample": np.int16(9), "random_state": np.int64(1)}
    book = KMeansCodebook(**options, **more).fit([random.random((80, 2))]).codebook_
    assert json.loads(json.dumps(book.provenance))["sample"] == 50


def test_objectives_are_in_unit_norm_units(random):
    values = random.integers(0, 200, (300, 4)).astype(np.uint8)
    in_bytes = KMeansCodebook(6).fit(Bags(values, scale=512))
    in_units = KMeansCodebook(6).fit(Bags(values / 512))
    assert in_bytes.objective_ == pytest.approx(in_units.objective_, rel=1e-5)
    words = in_bytes.codebook_.words
    distances = oracle.squared_distances(values / 512, words / 512).min(axis=1)
    assert distances.mean() <= in_bytes.objective_ * (1 + 1e-6)


def test_transform_hands_bags_on(bags):
    assert KMeansCodebook(3).fit(bags).transform(bags) is bags


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_words": 0}, "n_words must be a whole number from 1 up; got 0"),
        ({"n_words": -3}, "n_words must be"),
        ({"n_words": 2.0}, "n_words must be"),
        ({"n_words": "many"}, "n_words must be"),
        ({"n_words": None}, "n_words must be"),
        ({"n_words": True}, "n_words must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"init_sample": 0}, "init_sample must be"),
        ({"sample": 4}, "sample must be a whole number from n_words = 5 up, or None"),
        ({"sample": 7.5}, "sample must be"),
        ({"sample": "all"}, "sample must be"),
        ({"tol": -1e-9}, "tol must be a finite number from 0 up"),
        ({"tol": np.nan}, "tol must be"),
        ({"tol": np.inf}, "tol must be"),
        ({"tol": None}, "tol must be"),
        ({"random_state": -1}, "seed must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_parameters_out_of_range_are_refused(bags, options, message):
    with pytest.raises(ParameterError, match=message):
        KMeansCodebook(**{"n_words": 5} | options).fit(bags)


@pytest.mark.parametrize("size", [1e20, 1e30, 3e38])
def test_what_float32_cannot_square_is_refused(monkeypatch, size):
    rows = [[[size], [0.0], [2.0]]]
    with pytest.raises(DataError, match="must lie within"):
        KMeansCodebook(2, n_jobs=1).fit(rows)
    start_at(monkeypatch, [[0.0], [2.0]])
    with pytest.raises(DataError, match="must lie within"):
        KMeansCodebook(2, n_jobs=1).fit(rows)
