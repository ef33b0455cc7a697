"""Simulated annealing over what-if states: identity 9, the paper's mode, planted answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import FormatError, MismatchError, ParameterError, StoreError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.base import make_score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.annealing import Annealing, Search, nearest_swaps

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


@pytest.mark.parametrize(
    ("score", "proposals"), [("leave-one-out", "random"), ("relevance", "nearest")]
)
def test_it_finds_words_as_good_as_the_planted_ones(problem, score, proposals):
    bags, y, book = problem
    how = {"score": score, "n_steps": 500, "proposals": proposals, "random_state": 0}
    search = Annealing(book, INFORMATIVE, **how).fit(bags, y)
    # The planted words need not be the best: one of each class may do, and a word that inherits
    # the mass of noise words beside it. But nothing that is found may be worse.
    answer = whatif(book, bags).reset(book.ids[:INFORMATIVE])
    planted_value = make_score(score).begin(y, 2, bags.counts).update(answer.histograms)
    assert search.score_ >= planted_value - 1e-12
    found = set((search.selection_.kept - 100).tolist())
    assert found & {0, 1}
    assert found & {2, 3}


def test_a_result_codes_alone_and_carries_its_certificate(problem):
    bags, y, book = problem
    search = Annealing(book, 6, n_steps=30, random_state=0).fit(bags, y)
    chosen = search.selection_
    assert (chosen.codes_with, chosen.seed, len(chosen.scores)) == ("pruned", 0, 31)
    assert chosen.certificate["holds"]
    assert chosen.certificate["worst"] == 0
    again = bs.BagOfWords(codebook=search.codebook_).transform(bags)
    np.testing.assert_array_equal(search.transform(bags), again)


def test_the_size_is_constant_and_the_best_is_the_best_seen(problem):
    bags, y, book = problem
    for first in (0.0, 30.0):
        search = Annealing(
            book, 7, n_steps=60, move_size=3, start_temperature=first, random_state=0
        ).fit(bags, y)
        for kept in (search.best_, search.last_, search.selection_.kept):
            assert len(set(kept.tolist())) == 7
        assert search.score_ >= max(search.selection_.scores) - 1e-12
        steps = np.diff(search.selection_.scores)
        # Nothing changes where a move is rejected, and at temperature 0 nothing gets worse.
        assert (steps[~search.accepted_] == 0).all()
        assert (steps >= 0).all() or first > 0


def test_as_published(problem):
    bags, y, book = problem
    hard = Annealing.paper(book, 12, random_state=0).fit(bags, y)
    told = hard.selection_.parameters
    assert (told["move_size"], told["cooling"], told["returns"]) == (10, 0.9, "last")
    assert (told["n_steps"], told["transfer"], told["score"]) == (100, "uniform", "relevance")
    assert len(hard.selection_.scores) == 101
    assert hard.selection_.kept.tolist() == hard.last_.tolist()
    # Temperatures are 0.9^t: at 1 a change of the relevance, at most ln 2, is nearly always taken.
    assert hard.accepted_[:5].mean() > 0.5
    assert hard.selection_.certificate["holds"] is None
    soft = clone(hard).set_params(coding="soft", sharpness=0.05).fit(bags, y)
    assert (soft.n_steps_, soft.selection_.parameters["transfer"]) == (500, "exact")


def test_temperatures_are_those_that_moves_were_judged_at(problem, monkeypatch):
    bags, y, book = problem
    judged = []
    step = Search.step
    monkeypatch.setattr(Search, "step", lambda self, t: (judged.append(t), step(self, t)))
    published = Annealing.paper(book, 12, random_state=0).fit(bags, y)
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
    draw = nearest_swaps(words, 2)
    is_kept = np.array([True, True, False, False, False])
    for seed in range(20):
        out, in_ = draw(np.array([0, 1]), is_kept, np.random.default_rng(seed))
        # Word 2 is the nearest free one of both; the second gets the next, word 3.
        assert sorted(out.tolist()) == [0, 1]
        assert in_.tolist() == [2, 3]


def test_a_word_whose_listed_neighbours_are_all_kept_finds_another(monkeypatch):
    monkeypatch.setattr("bowsaw.selection.annealing.N_NEIGHBOURS", 2)
    words = np.array([[0.0], [1.0], [2.0], [9.0], [20.0]], dtype=np.float32)
    draw = nearest_swaps(words, 3)
    is_kept = np.array([True, True, True, False, False])
    out, in_ = draw(np.array([0, 1, 2]), is_kept, np.random.default_rng(0))
    # There are two free words for three, so two go.
    assert len(out) == 2
    assert sorted(in_.tolist()) == [3, 4]


class KilledError(Exception):
    """As if the process had ended: nothing is caught on the way out."""


def dies_at(monkeypatch, step, error=KilledError):
    """Let a search end in the middle of a step, and checkpoints be written whenever they can."""
    monkeypatch.setattr("bowsaw.checkpoint.Checkpoint.due", property(lambda self: True))
    update = Search.step

    def one(self, temperature):
        if self.n_steps == step:
            self._try(self._moves)
            raise error
        update(self, temperature)

    monkeypatch.setattr(Search, "step", one)


def all_of(search):
    """What a search found and how, for comparison to the bit."""
    return (
        search.selection_.kept.tolist(),
        search.selection_.scores,
        search.selection_.record(),
        search.accepted_.tolist(),
        search.temperatures_.tolist(),
        search.best_.tolist(),
        search.last_.tolist(),
        search.score_,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"n_jobs": 2, "move_size": 2, "start_temperature": 3.0},
        {"coding": "soft", "sharpness": 0.05, "start_temperature": 3.0},
        {
            "transfer": "uniform",
            "transfer_options": {"policy": "sequential"},
            "proposals": "nearest",
            "schedule": "published",
            "returns": "last",
            "score": "relevance",
        },
    ],
)
def test_a_search_that_was_killed_goes_on_as_if_nothing_had_been(
    problem, tmp_path, monkeypatch, options
):
    bags, y, book = problem
    path = tmp_path / "search.json"
    search = Annealing(book, 6, n_steps=90, n_jobs=1, random_state=0).set_params(**options)
    whole = clone(search).fit(bags, y)
    search.set_params(checkpoint=path)
    for step in (60, 80):
        with monkeypatch.context() as patch:
            dies_at(patch, step)
            with pytest.raises(KilledError):
                clone(search).fit(bags, y)
        assert path.exists()
    again = clone(search)
    done = []
    with monkeypatch.context() as patch:
        step = Search.step
        patch.setattr(Search, "step", lambda self, t: (done.append(t), step(self, t)))
        again.fit(bags, y)
    # It continued from step 75, the last that a checkpoint was made at.
    assert len(done) == 15
    assert all_of(again) == all_of(whole)
    # The caller removes the file when the result is saved; until then nothing is searched again.
    with monkeypatch.context() as patch:
        patch.setattr(Search, "step", None)
        assert all_of(clone(search).fit(bags, y)) == all_of(whole)


def test_ctrl_c_keeps_the_best_so_far_and_the_same_call_goes_on(problem, tmp_path, monkeypatch):
    bags, y, book = problem
    path = tmp_path / "search.json"
    whole = Annealing(book, 6, n_steps=90, start_temperature=3.0, random_state=0).fit(bags, y)
    search = Annealing(book, 6, n_steps=90, start_temperature=3.0, random_state=0, checkpoint=path)
    with monkeypatch.context() as patch:
        dies_at(patch, 65, KeyboardInterrupt)
        patch.setattr("bowsaw.checkpoint.Checkpoint.due", property(lambda self: False))
        search.fit(bags, y)
    assert search.accepted_.tolist() == whole.accepted_[:65].tolist()
    assert search.temperatures_.tolist() == whole.temperatures_[:65].tolist()
    assert search.selection_.scores == whole.selection_.scores[:66]
    assert search.score_ == max(search.selection_.scores)
    # The move in hand was not accepted, so it is no part of the last state.
    state = whatif(book, bags).reset(search.last_)
    value = make_score("leave-one-out").begin(y, 2, bags.counts).update(state.histograms)
    assert value == pytest.approx(search.selection_.scores[-1], rel=1e-9)
    assert all_of(search.fit(bags, y)) == all_of(whole)


def test_a_checkpoint_of_another_search_is_refused_and_kept(problem, tmp_path):
    bags, y, book = problem
    path = tmp_path / "search.partial"
    search = Annealing(book, 6, n_steps=30, random_state=0, checkpoint=path).fit(bags, y)
    left = path.read_bytes()
    others = [
        (bags, y, {"n_steps": 41}, "n_steps was 30 and is 41"),
        (bags, y, {"random_state": 1}, "seed was 0 and is 1"),
        (bags, y, {"score": LeaveOneOut(ridges=(1.0,))}, "score"),
        (bags, y, {"transfer": "uniform"}, "transfer was None and is uniform"),
        (bags, 1 - y, {}, "labels"),
        (bags[::-1], y, {}, "bags"),
        (bags, y, {"codebook": book.only(book.ids[::-1])}, "codebook"),
    ]
    for data, labels, options, message in others:
        with pytest.raises(MismatchError, match=message):
            clone(search).set_params(**options).fit(data, labels)
        assert path.read_bytes() == left
    # Threads are no part of the work.
    assert all_of(clone(search).set_params(n_jobs=1).fit(bags, y)) == all_of(search)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff"])
def test_an_unreadable_checkpoint_is_refused_and_kept(problem, tmp_path, content):
    bags, y, book = problem
    path = tmp_path / "search.partial"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="cannot be continued"):
        Annealing(book, 4, n_steps=10, random_state=0, checkpoint=path).fit(bags, y)
    assert path.read_bytes() == content
    with pytest.raises(StoreError, match=r"needs an existing folder.*Make the folder"):
        Annealing(book, 4, checkpoint=tmp_path / "nowhere" / "a").fit(bags, y)


def test_progress_shows_score_and_acceptance(problem, monkeypatch):
    bags, y, book = problem
    notes = []
    monkeypatch.setattr(
        "bowsaw.selection.annealing.Progress.step", lambda self, n=1, note=None: notes.append(note)
    )
    search = Annealing(book, 6, n_steps=12, random_state=0).fit(bags, y)
    share = search.accepted_.mean()
    assert [note for note in notes if note][
        -1
    ] == f"score {search.score_:.5g}, {share:.0%} accepted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": -1}, "n_steps must be an integer of at least 0; got -1"),
        ({"move_size": 0}, "move_size must be an integer of at least 1; got 0"),
        ({"schedule": "slow"}, "schedule must be one of 'calibrated', 'published'; got 'slow'"),
        ({"proposals": "all"}, "proposals must be one of"),
        ({"returns": "first"}, "returns must be one of"),
        ({"cooling": 0}, "cooling must be a finite number above 0 and at most 1; got 0"),
        ({"start_temperature": -1}, "start_temperature must be a finite number of at least 0"),
        ({"score": "luck"}, "score must be one of"),
        ({"transfer": "magic"}, "transfer must be one of"),
        ({"transfer_options": 3}, "transfer_options must be a mapping or None; got 3"),
        ({"transfer_options": {"policy": "chain"}}, "policy is not an option of hard coding"),
        ({"transfer_options": {"sharpness": 2.0}}, "sharpness is a parameter of the selector"),
        ({"codebook": None}, "codebook must be words, or an estimator"),
    ],
)
def test_wrong_parameters_are_refused_with_what_is_right(problem, options, message):
    bags, y, book = problem
    with pytest.raises(ParameterError, match=message):
        Annealing(**({"codebook": book, "n_kept": 4} | options)).fit(bags, y)
