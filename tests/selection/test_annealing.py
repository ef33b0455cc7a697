"""Simulated annealing over what-if states: identity 9, the paper's mode, planted answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.make import make_score
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.proposals import NearestSwaps, RandomSwaps

INFORMATIVE = 4
N_WORDS = 40


def planted(seed=0, n_bags=40, n_descriptors=60):
    """Bags of two classes: words 0 and 1 are rich in class 0, words 2 and 3 in class 1.

    The other words are noise. Words lie at the corners of a simplex, all equally far from each
    other, so what is pruned goes to the survivors without regard to class.
    """
    random = np.random.default_rng(seed)
    words = 10.0 * np.eye(N_WORDS)
    labels = np.arange(n_bags) % 2
    bags = []
    for label in labels:
        shares = np.full(N_WORDS, 1.0)
        shares[:INFORMATIVE] = [9, 9, 1, 1] if label == 0 else [1, 1, 9, 9]
        drawn = random.choice(N_WORDS, n_descriptors, p=shares / shares.sum())
        bags.append(words[drawn] + random.normal(size=(n_descriptors, N_WORDS)))
    ids = np.arange(100, 100 + N_WORDS)
    return bs.Bags.from_list(bags), labels, bs.Codebook(words, ids)


@pytest.fixture(scope="module")
def problem():
    return planted()


@pytest.mark.parametrize("score", ["leave-one-out", "counts", "mrmr"])
@pytest.mark.parametrize("proposals", ["random", "nearest"])
def test_it_finds_words_as_good_as_the_planted_ones(problem, score, proposals):
    bags, y, book = problem
    saw = Annealing(book, INFORMATIVE, score=score, n_steps=800, proposals=proposals).fit(bags, y)
    # The planted words need not be the best: one of each class may do, and a word that inherits
    # the mass of noise words beside it. But nothing that is found may be worse.
    answer = whatif(book, bags).reset(book.ids[:INFORMATIVE])
    planted_value = make_score(score).begin(y, 2, bags.counts).update(answer.histograms)
    assert saw.score_ >= planted_value - 1e-12
    found = set((saw.selection_.kept - 100).tolist())
    assert found & {0, 1}
    assert found & {2, 3}


def test_the_score_of_the_result_is_that_of_a_fresh_state(problem):
    bags, y, book = problem
    saw = Annealing(book, 6, n_steps=80, random_state=3).fit(bags, y)
    state = whatif(book, bags).reset(saw.selection_.kept)
    fresh = make_score("leave-one-out").begin(y, 2, bags.counts).update(state.histograms)
    assert saw.score_ == pytest.approx(fresh, rel=1e-9)
    assert saw.score_ == pytest.approx(max(saw.selection_.scores), rel=1e-9)


def test_a_result_codes_alone_and_carries_its_certificate(problem):
    bags, y, book = problem
    saw = Annealing(book, 6, n_steps=30).fit(bags, y)
    chosen = saw.selection_
    assert chosen.codes_with == "pruned"
    assert chosen.certificate["holds"]
    assert chosen.certificate["worst"] == 0
    assert chosen.seed == 0
    assert len(chosen.scores) == 31
    again = bs.BagOfWords(codebook=saw.codebook_).transform(bags)
    np.testing.assert_array_equal(saw.transform(bags), again)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_the_same_seed_gives_the_same_words_on_any_number_of_threads(problem, coding, n_jobs):
    bags, y, book = problem
    options = {"n_steps": 40, "random_state": 5, "coding": coding, "sharpness": 0.05}
    first = Annealing(book, 8, n_jobs=1, **options).fit(bags, y)
    other = Annealing(book, 8, n_jobs=n_jobs, **options).fit(bags, y)
    assert first.selection_.kept.tolist() == other.selection_.kept.tolist()
    assert first.selection_.scores == other.selection_.scores


def test_the_size_is_constant_and_the_best_is_the_best_seen(problem):
    bags, y, book = problem
    for warmth in (0.0, 0.3, 30.0):
        saw = Annealing(book, 7, n_steps=60, move_size=3, warmth=warmth).fit(bags, y)
        for kept in (saw.best_, saw.last_, saw.selection_.kept):
            assert len(set(kept.tolist())) == 7
        assert saw.score_ >= max(saw.selection_.scores) - 1e-12
        steps = np.diff(saw.selection_.scores)
        # Nothing changes where a move is rejected, and without warmth nothing gets worse.
        assert (steps[~saw.accepted_] == 0).all()
        assert (steps >= 0).all() or warmth > 0


def test_as_published(problem):
    bags, y, book = problem
    hard, soft = Annealing.paper(book, 12), Annealing.paper(book, 12, coding="soft")
    assert (hard.n_steps, soft.n_steps) == (100, 500)
    assert (hard.move_size, hard.cooling, hard.returns) == (10, 0.9, "last")
    assert (hard.transfer, soft.transfer, hard.score) == ("uniform", "exact", "relevance")
    hard.fit(bags, y)
    assert len(hard.selection_.scores) == 101
    assert hard.selection_.kept.tolist() == hard.last_.tolist()
    # Temperatures are .9^t: at 1 a change of the relevance, at most ln 2, is nearly always taken.
    assert hard.accepted_[:5].mean() > 0.5
    assert hard.selection_.certificate["holds"] is None


def test_a_neighbour_is_the_nearest_free_word():
    words = np.array([[0.0], [1.0], [1.5], [10.0], [11.0]], dtype=np.float32)
    swaps = NearestSwaps(words, n_moved=2)
    is_kept = np.array([True, True, False, False, False])
    for seed in range(20):
        out, in_ = swaps.draw(np.array([0, 1]), is_kept, np.random.default_rng(seed))
        # Word 2 is the nearest free one of both; who comes second gets the next, word 3.
        assert sorted(out.tolist()) == [0, 1]
        assert in_.tolist() == [2, 3]


def test_a_word_whose_listed_neighbours_are_all_kept_finds_another(monkeypatch):
    monkeypatch.setattr("bowsaw.selection.proposals.N_NEIGHBOURS", 2)
    words = np.array([[0.0], [1.0], [2.0], [9.0], [20.0]], dtype=np.float32)
    swaps = NearestSwaps(words, n_moved=3)
    is_kept = np.array([True, True, True, False, False])
    out, in_ = swaps.draw(np.array([0, 1, 2]), is_kept, np.random.default_rng(0))
    # There are two free words for three, so two go.
    assert len(out) == 2
    assert sorted(in_.tolist()) == [3, 4]


def test_random_swaps_name_kept_and_pruned_words_once():
    is_kept = np.arange(10) < 6
    for seed in range(20):
        out, in_ = RandomSwaps(9).draw(np.arange(6), is_kept, np.random.default_rng(seed))
        assert len(out) == len(in_) == 4
        assert len(set(out.tolist())) == len(set(in_.tolist())) == 4
        assert is_kept[out].all()
        assert not is_kept[in_].any()


def test_keeping_all_words_has_nowhere_to_go(problem):
    bags, y, book = problem
    saw = Annealing(book, N_WORDS, n_steps=10).fit(bags, y)
    assert saw.selection_.kept.tolist() == book.ids.tolist()
    assert len(saw.selection_.scores) == 1


def test_ctrl_c_keeps_the_best_so_far(problem, monkeypatch):
    bags, y, book = problem
    whole = Annealing(book, 6, n_steps=60).fit(bags, y)
    calls = 0

    def interrupted(self, step, first):
        nonlocal calls
        calls += 1
        if calls > 30:
            raise KeyboardInterrupt
        return 1e-9

    monkeypatch.setattr(Annealing, "_temperature", interrupted)
    saw = Annealing(book, 6, n_steps=60).fit(bags, y)
    assert len(saw.accepted_) == 30
    assert len(saw.selection_.kept) == 6
    assert saw.score_ == max(saw.selection_.scores)
    assert len(whole.accepted_) == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": -1}, "n_steps must be a whole number from 0 up; got -1"),
        ({"move_size": 0}, "move_size must be a whole number from 1 up; got 0"),
        ({"schedule": "slow"}, "schedule must be 'calibrated' or 'published'; got 'slow'"),
        ({"proposals": "all"}, "proposals must be 'random' or 'nearest'; got 'all'"),
        ({"returns": "first"}, "returns must be 'best' or 'last'; got 'first'"),
        ({"cooling": 0}, "cooling must be above 0 and at most 1; got 0"),
        ({"warmth": -1}, "warmth must be a number from 0 up; got -1"),
        ({"score": "luck"}, "score must be one of"),
        ({"n_kept": 41}, "n_kept must be a whole number from 1 to 40"),
        ({"coding": "medium"}, "coding must be 'hard' or 'soft'"),
    ],
)
def test_wrong_parameters_say_what_is_right(problem, options, message):
    bags, y, book = problem
    with pytest.raises(ParameterError, match=message):
        Annealing(book, **({"n_kept": 4} | options)).fit(bags, y)


def test_labels_are_needed(problem):
    bags, y, book = problem
    with pytest.raises(DataError, match="chooses words by labels"):
        Annealing(book, 4).fit(bags)
    with pytest.raises(DataError, match="at least two classes; got 1"):
        Annealing(book, 4).fit(bags, np.zeros(len(bags)))
    with pytest.raises(DataError, match="one label a bag"):
        Annealing(book, 4).fit(bags, y[:-1])


def test_it_is_an_estimator(problem):
    _, _, book = problem
    saw = Annealing(book, 4, n_steps=7, score="counts")
    assert clone(saw).get_params()["n_steps"] == 7
    assert clone(saw).get_params()["codebook"] is book
