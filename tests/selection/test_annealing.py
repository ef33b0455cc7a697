"""Simulated annealing over what-if states: identity 9, the paper's mode, planted answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import DataError, ParameterError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.base import make_score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.proposals import NearestSwaps, RandomSwaps
from bowsaw.selection.search import Search

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


@pytest.mark.parametrize("score", ["leave-one-out", "relevance"])
@pytest.mark.parametrize("proposals", ["random", "nearest"])
def test_it_finds_words_as_good_as_the_planted_ones(problem, score, proposals):
    bags, y, book = problem
    saw = Annealing(book, INFORMATIVE, score=score, n_steps=500, proposals=proposals).fit(bags, y)
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


def test_temperatures_are_those_that_moves_were_judged_at(problem, monkeypatch):
    bags, y, book = problem
    judged = []
    step = Search.step
    monkeypatch.setattr(Search, "step", lambda self, t: (judged.append(t), step(self, t)))
    published = Annealing.paper(book, 12).fit(bags, y)
    # Algorithm 1: .9^t at step t.
    np.testing.assert_allclose(published.temperatures_, 0.9 ** np.arange(100), rtol=1e-12)
    assert published.temperatures_.tolist() == judged
    judged.clear()
    calibrated = Annealing(book, 6, n_steps=41).fit(bags, y)
    assert calibrated.temperatures_.tolist() == judged
    assert calibrated.temperatures_.dtype == np.float64
    # Geometric, to a thousandth of the first at the last: the middle is the geometric mean.
    first, middle, last = calibrated.temperatures_[[0, 20, 40]]
    assert first > 0
    np.testing.assert_allclose([middle / first, last / first], [10**-1.5, 1e-3], rtol=1e-9)


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
    assert saw.temperatures_.shape == (0,)


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
    assert saw.temperatures_.tolist() == [1e-9] * 30
    assert len(saw.selection_.kept) == 6
    assert saw.score_ == max(saw.selection_.scores)
    assert len(whole.accepted_) == 60


# -- going on later --------------------------------------------------------------------------------


class KilledError(Exception):
    """As if the process had ended: nothing is caught on the way out."""


def dies_at(monkeypatch, step, error=KilledError):
    """Let a search end in the middle of a step, and checkpoints be written whenever they can."""
    monkeypatch.setattr("bowsaw.selection.checkpoint.SECONDS", -1.0)
    update = Search.step

    def one(self, temperature):
        if self.n_steps == step:
            self._try(self._moves)
            raise error
        update(self, temperature)

    monkeypatch.setattr(Search, "step", one)


def all_of(saw):
    """What a search found and how, for comparison to the bit."""
    return (
        saw.selection_.kept.tolist(),
        saw.selection_.scores,
        saw.selection_.record(),
        saw.accepted_.tolist(),
        saw.temperatures_.tolist(),
        saw.best_.tolist(),
        saw.last_.tolist(),
        saw.score_,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_jobs": 2, "move_size": 2, "warmth": 3.0},
        {"score": "presence", "proposals": "nearest"},
        {"coding": "soft", "sharpness": 0.05, "warmth": 3.0},
        {"transfer": "uniform", "schedule": "published", "returns": "last", "score": "relevance"},
    ],
)
def test_a_search_that_was_killed_goes_on_as_if_nothing_had_been(
    problem, tmp_path, monkeypatch, options
):
    bags, y, book = problem
    path = tmp_path / "search.json"
    saw = Annealing(book, 6, n_steps=90, n_jobs=1).set_params(**options)
    whole = clone(saw).fit(bags, y)
    saw.set_params(checkpoint=path)
    for step in (60, 80):
        with monkeypatch.context() as patch:
            dies_at(patch, step)
            with pytest.raises(KilledError):
                clone(saw).fit(bags, y)
        assert path.exists()
    again = clone(saw)
    done = []
    with monkeypatch.context() as patch:
        step = Search.step
        patch.setattr(Search, "step", lambda self, t: (done.append(t), step(self, t)))
        again.fit(bags, y)
    # It did not begin anew: from step 75 on, the last that a checkpoint was made at.
    assert len(done) == 15
    assert all_of(again) == all_of(whole)
    assert not path.exists()


def test_ctrl_c_keeps_the_best_so_far_and_the_same_call_goes_on(problem, tmp_path, monkeypatch):
    bags, y, book = problem
    path = tmp_path / "search.json"
    whole = Annealing(book, 6, n_steps=90, warmth=3.0).fit(bags, y)
    saw = Annealing(book, 6, n_steps=90, warmth=3.0, checkpoint=path)
    with monkeypatch.context() as patch:
        dies_at(patch, 65, KeyboardInterrupt)
        patch.setattr("bowsaw.selection.checkpoint.SECONDS", 1e9)
        saw.fit(bags, y)
    assert saw.accepted_.tolist() == whole.accepted_[:65].tolist()
    assert saw.temperatures_.tolist() == whole.temperatures_[:65].tolist()
    assert saw.selection_.scores == whole.selection_.scores[:66]
    assert saw.score_ == max(saw.selection_.scores)
    # The move in hand was not accepted, so it is no part of the last state.
    state = whatif(book, bags).reset(saw.last_)
    value = make_score("leave-one-out").begin(y, 2, bags.counts).update(state.histograms)
    assert value == pytest.approx(saw.selection_.scores[-1], rel=1e-9)
    assert path.exists()
    assert all_of(saw.fit(bags, y)) == all_of(whole)
    assert not path.exists()


def test_a_checkpoint_of_another_search_is_not_used(problem, tmp_path, monkeypatch):
    bags, y, book = problem
    path = tmp_path / "search.json"
    saw = Annealing(book, 6, n_steps=40, checkpoint=path)
    with monkeypatch.context() as patch:
        dies_at(patch, 30)
        with pytest.raises(KilledError):
            saw.fit(bags, y)
    left = path.read_bytes()
    others = [
        (bags, y, {"n_steps": 41}),
        (bags, y, {"random_state": 1}),
        (bags, y, {"n_kept": 7}),
        (bags, y, {"warmth": 1.0}),
        (bags, y, {"score": LeaveOneOut(ridges=(1.0,))}),
        (bags, 1 - y, {}),
        (bags[::-1], y, {}),
        (bags, y, {"codebook": book.only(book.ids[::-1])}),
    ]
    for data, labels, options in others:
        path.write_bytes(left)
        other = clone(saw).set_params(**options)
        expected = clone(other).set_params(checkpoint=None).fit(data, labels)
        assert all_of(other.fit(data, labels)) == all_of(expected)
    # What is done with the words afterwards is no part of the search: it goes on.
    path.write_bytes(left)
    steps = []
    with monkeypatch.context() as patch:
        step = Search.step
        patch.setattr(Search, "step", lambda self, t: (steps.append(t), step(self, t)))
        clone(saw).set_params(returns="last", n_jobs=1).fit(bags, y)
    assert len(steps) == 15


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\x00\xff", b'{"fingerprint": 1}'])
def test_a_file_of_something_else_is_not_used(problem, tmp_path, content):
    bags, y, book = problem
    path = tmp_path / "search.json"
    path.write_bytes(content)
    saw = Annealing(book, 4, n_steps=10)
    assert all_of(clone(saw).set_params(checkpoint=path).fit(bags, y)) == all_of(saw.fit(bags, y))


def test_a_checkpoint_in_no_folder_is_refused_before_the_search(problem, tmp_path):
    bags, y, book = problem
    with pytest.raises(ParameterError, match=r"folder that exists; got .*nowhere.*Make the folder"):
        Annealing(book, 4, checkpoint=tmp_path / "nowhere" / "a.json").fit(bags, y)


def test_progress_tells_score_and_acceptance(problem, monkeypatch):
    bags, y, book = problem
    notes = []
    monkeypatch.setattr(
        "bowsaw.selection.annealing.Progress.step", lambda self, n=1, note=None: notes.append(note)
    )
    saw = Annealing(book, 6, n_steps=12).fit(bags, y)
    share = saw.accepted_.mean()
    assert [note for note in notes if note][-1] == f"score {saw.score_:.5g}, {share:.0%} accepted"


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
    saw = Annealing(book, 4, n_steps=7, score="presence")
    assert clone(saw).get_params()["n_steps"] == 7
    assert clone(saw).get_params()["codebook"] is book
