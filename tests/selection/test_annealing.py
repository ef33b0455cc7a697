"""Simulated annealing over what-if states: identity 9, the paper's mode, planted answers."""

import numpy as np
import pytest
from sklearn.base import clone

import bowsaw as bs
from bowsaw.errors import FormatError, Interrupted, MismatchError, ParameterError, StoreError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.base import make_score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.annealing import Annealing, Search, nearest_swaps

INFORMATIVE = 4
N_WORDS = 40


def planted(seed=0, n_bags=40, n_descriptors=60):
    """Words 0 and 1 are rich in class 0, words 2 and 3 in class 1, others noise; on a simplex."""
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


BAGS, Y, BOOK = planted()


@pytest.mark.parametrize(
    ("score", "proposals"), [("leave-one-out", "random"), ("relevance", "nearest")]
)
def test_it_finds_words_as_good_as_the_planted_ones(score, proposals):
    how = {"score": score, "n_steps": 500, "proposals": proposals, "random_state": 0}
    search = Annealing(BOOK, INFORMATIVE, **how).fit(BAGS, Y)
    # The planted words need not be the best: one of each class may do, and a word that inherits
    # the mass of noise words beside it. But nothing that is found may be worse.
    answer = whatif(BOOK, BAGS).reset(BOOK.ids[:INFORMATIVE])
    planted_value = make_score(score).begin(Y, 2, BAGS.counts).update(answer.histograms)
    assert search.score_ >= planted_value - 1e-12
    found = set((search.selection_.kept - 100).tolist())
    assert found & {0, 1}
    assert found & {2, 3}


@pytest.mark.parametrize("first", [0.0, 30.0])
def test_the_size_is_constant_and_the_best_is_the_best_seen(first):
    options = {"n_steps": 60, "move_size": 3, "start_temperature": first, "random_state": 0}
    search = Annealing(BOOK, 7, **options).fit(BAGS, Y)
    chosen = search.selection_
    for kept in (search.best_, search.last_, chosen.kept):
        assert len(set(kept.tolist())) == 7
    assert (chosen.codes_with, chosen.seed, len(chosen.scores)) == ("pruned", 0, 61)
    assert (chosen.certificate["holds"], chosen.certificate["worst"]) == (True, 0)
    assert search.score_ >= max(chosen.scores) - 1e-12
    steps = np.diff(chosen.scores)
    # Nothing changes where a move is rejected, and at temperature 0 nothing gets worse.
    assert (steps[~search.accepted_] == 0).all()
    assert (steps >= 0).all() or first > 0


def test_as_published(monkeypatch):
    judged = []
    step = Search.step
    monkeypatch.setattr(Search, "step", lambda self, t: (judged.append(t), step(self, t)))
    hard = Annealing.paper(BOOK, 12, random_state=0).fit(BAGS, Y)
    settings = {"move_size": 10, "cooling": 0.9, "returns": "last", "n_steps": 99}
    settings |= {"transfer": "uniform", "score": "relevance"}
    assert hard.selection_.parameters.items() >= settings.items()
    assert len(hard.selection_.scores) == 100
    assert hard.selection_.kept.tolist() == hard.last_.tolist()
    # The start is judged at t = 0. Near 1 a change of the relevance, at most ln 2, is nearly always
    # taken.
    np.testing.assert_allclose(hard.temperatures_, 0.9 ** np.arange(1, 100), rtol=1e-12)
    assert hard.temperatures_.tolist() == judged
    assert hard.accepted_[:5].mean() > 0.5
    assert hard.selection_.certificate["holds"] is None
    soft = clone(hard).set_params(coding="soft", sharpness=0.05).fit(BAGS, Y)
    assert (soft.n_steps_, soft.selection_.parameters["transfer"]) == (499, "exact")
    judged.clear()
    calibrated = Annealing(BOOK, 6, n_steps=41).fit(BAGS, Y)
    assert calibrated.temperatures_.tolist() == judged
    # Geometric, to a thousandth of the first at the last: the middle is the geometric mean.
    first, middle, last = calibrated.temperatures_[[0, 20, 40]]
    assert first > 0
    np.testing.assert_allclose([middle / first, last / first], [10**-1.5, 1e-3], rtol=1e-9)


def test_a_neighbour_is_the_nearest_free_word(monkeypatch):
    words = np.array([[0.0], [1.0], [1.5], [10.0], [11.0]], dtype=np.float32)
    draw = nearest_swaps(words, 2)
    for seed in range(20):
        out, in_ = draw(np.array([0, 1]), np.arange(5) < 2, np.random.default_rng(seed))
        # Word 2 is the nearest free one of both; the second gets the next, word 3.
        assert sorted(out.tolist()) == [0, 1]
        assert in_.tolist() == [2, 3]
    # Where all listed neighbours are kept, others are found: two free words for three, so two go.
    monkeypatch.setattr("bowsaw.selection.annealing.N_NEIGHBOURS", 2)
    draw = nearest_swaps(words, 3)
    out, in_ = draw(np.arange(3), np.arange(5) < 3, np.random.default_rng(0))
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
    chosen = search.selection_
    arrays = (chosen.kept, search.accepted_, search.temperatures_, search.best_, search.last_)
    return [a.tolist() for a in arrays], chosen.scores, chosen.record(), search.score_


@pytest.mark.parametrize(
    "options",
    [
        {"n_jobs": 2, "move_size": 2, "start_temperature": 3.0},
        {"coding": "soft", "sharpness": 0.05, "start_temperature": 3.0},
        {"transfer": "uniform", "transfer_options": {"policy": "sequential"}, "returns": "last"}
        | {"proposals": "nearest", "schedule": "published", "score": "relevance"},
    ],
)
def test_a_search_that_was_killed_is_resumed_to_the_same_end(tmp_path, monkeypatch, options):
    path = tmp_path / "search.json"
    search = Annealing(BOOK, 6, n_steps=90, n_jobs=1, random_state=0).set_params(**options)
    whole = clone(search).fit(BAGS, Y)
    search.set_params(checkpoint=path)
    for step in (60, 80):
        with monkeypatch.context() as patch:
            dies_at(patch, step)
            with pytest.raises(KilledError):
                clone(search).fit(BAGS, Y)
        assert path.exists()
    done = []
    with monkeypatch.context() as patch:
        step = Search.step
        patch.setattr(Search, "step", lambda self, t: (done.append(t), step(self, t)))
        assert all_of(clone(search).fit(BAGS, Y)) == all_of(whole)
    # It continued from step 75, the last that a checkpoint was made at.
    assert len(done) == whole.n_steps_ - 75
    # The caller removes the file when the result is saved; until then nothing is searched again.
    with monkeypatch.context() as patch:
        patch.setattr(Search, "step", None)
        assert all_of(clone(search).fit(BAGS, Y)) == all_of(whole)


def test_ctrl_c_raises_with_the_best_so_far_and_the_same_call_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "search.json"
    search = Annealing(BOOK, 6, n_steps=90, start_temperature=3.0, random_state=0)
    whole = clone(search).fit(BAGS, Y)
    search.set_params(checkpoint=path)
    with monkeypatch.context() as patch:
        dies_at(patch, 65, KeyboardInterrupt)
        patch.setattr("bowsaw.checkpoint.Checkpoint.due", property(lambda self: False))
        with pytest.raises(Interrupted) as caught:
            search.fit(BAGS, Y)
    found = caught.value.so_far
    assert search.accepted_.tolist() == whole.accepted_[:65].tolist()
    assert search.temperatures_.tolist() == whole.temperatures_[:65].tolist()
    assert found.scores == whole.selection_.scores[:66]
    assert search.score_ == found.final_score == max(found.scores)
    # The move in hand was not accepted, so it is no part of the last state.
    state = whatif(BOOK, BAGS).reset(search.last_)
    value = make_score("leave-one-out").begin(Y, 2, BAGS.counts).update(state.histograms)
    assert value == pytest.approx(found.scores[-1], rel=1e-9)
    assert all_of(search.fit(BAGS, Y)) == all_of(whole)


def test_a_checkpoint_of_another_search_is_refused_and_kept(tmp_path):
    path = tmp_path / "search.partial"
    search = Annealing(BOOK, 6, n_steps=30, random_state=0, checkpoint=path).fit(BAGS, Y)
    left = path.read_bytes()
    others = [
        (BAGS, Y, {"n_steps": 41}, "n_steps was 30 and is 41"),
        (BAGS, Y, {"random_state": 1}, "seed was 0 and is 1"),
        (BAGS, Y, {"score": LeaveOneOut(ridges=(1.0,))}, "score"),
        (BAGS, Y, {"transfer": "uniform"}, "transfer was None and is uniform"),
        (BAGS, 1 - Y, {}, "labels"),
        (BAGS[::-1], Y, {}, "bags"),
        (BAGS, Y, {"codebook": BOOK.only(BOOK.ids[::-1])}, "codebook"),
    ]
    for data, labels, options, message in others:
        with pytest.raises(MismatchError, match=message):
            clone(search).set_params(**options).fit(data, labels)
        assert path.read_bytes() == left
    # Threads are no part of the work.
    assert all_of(clone(search).set_params(n_jobs=1).fit(BAGS, Y)) == all_of(search)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff"])
def test_an_unreadable_checkpoint_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "search.partial"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="cannot be continued"):
        Annealing(BOOK, 4, n_steps=10, random_state=0, checkpoint=path).fit(BAGS, Y)
    assert path.read_bytes() == content
    with pytest.raises(StoreError, match=r"needs an existing folder.*Make the folder"):
        Annealing(BOOK, 4, checkpoint=tmp_path / "nowhere" / "a").fit(BAGS, Y)


def test_progress_shows_score_and_acceptance(monkeypatch):
    notes = []
    progress = "bowsaw.selection.annealing.Progress.step"
    monkeypatch.setattr(progress, lambda self, n=1, note=None: notes.append(note))
    search = Annealing(BOOK, 6, n_steps=12, random_state=0).fit(BAGS, Y)
    last = [note for note in notes if note][-1]
    assert last == f"score {search.score_:.5g}, {search.accepted_.mean():.0%} accepted"


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
def test_wrong_parameters_are_refused_with_what_is_right(options, message):
    with pytest.raises(ParameterError, match=message):
        Annealing(**({"codebook": BOOK, "n_kept": 4} | options)).fit(BAGS, Y)
