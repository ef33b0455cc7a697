"""From all words to a few: sizes, planted answers, interruptions, thin problems."""

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.checkpoint import Checkpoint
from bowsaw.errors import ParameterError
from bowsaw.inference.whatif import whatif
from bowsaw.scores.base import SCORES, make_score
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection import elimination
from bowsaw.selection.elimination import (
    EliminationPath,
    Stop,
    check_sizes,
    default_sizes,
    eliminate,
)

N_WORDS = 24
SIZES = [24, 15, 9, 4]


def planted(n_each=10, seed=6):
    """Four classes, each with a word of its own (0 to 3), and twenty uninformative words.

    All lie on a line, the four in pairs at its ends: without one of them two classes look alike.
    """
    random = np.random.default_rng(seed)
    along = np.concatenate([[6, 18, 238, 250], np.linspace(60, 196, N_WORDS - 4)]) / 250
    labels = np.repeat(np.arange(4), n_each)
    counts = random.integers(0, 4, (len(labels), N_WORDS))
    counts[:, :4] = random.random((len(labels), 4)) < 0.08
    counts[np.arange(len(labels)), labels] = random.integers(12, 20, len(labels))
    bags = [(np.repeat(along, row) + random.normal(0, 0.004, row.sum()))[:, None] for row in counts]
    book = bs.Codebook(along[:, None], np.arange(N_WORDS) + 50)
    return bs.Bags.from_list(bags), labels, book


PROBLEM = BAGS, LABELS, BOOK = planted()


def walked(problem, sizes=SIZES, score="leave-one-out", n_jobs=1, coding="hard", **options):
    bags, labels, book = problem
    told = {"sharpness": 3000.0} if coding == "soft" else {}
    state = whatif(book, bags, coding=coding, n_jobs=n_jobs, **told)
    begun = make_score(score).begin(labels, int(labels.max()) + 1, bags.counts)
    return eliminate(state, begun, sizes, **options)


def outcome(path):
    return [
        (s.kept.tolist(), s.removed.tolist(), s.score, s.n_tried, s.n_swapped) for s in path.stops
    ]


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_planted_words_survive(coding):
    assert walked(PROBLEM, coding=coding).stops[-1].kept.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("score", sorted(SCORES))
def test_every_score_can_lead_the_way(score):
    path = walked(PROBLEM, score=score)
    assert path.sizes == SIZES
    for stop in path.stops:
        state = whatif(BOOK, BAGS).reset(BOOK.ids[stop.kept])
        fresh = make_score(score).begin(LABELS, 4, BAGS.counts).update(state.histograms)
        assert stop.score == pytest.approx(fresh, rel=1e-9)


def test_sizes_are_right_and_every_size_is_a_part_of_the_stop_above():
    path = walked(PROBLEM)
    assert path.sizes == SIZES
    for above, below in zip(path.stops[:-1], path.stops[1:], strict=True):
        assert len(below.removed) == above.n_kept - below.n_kept
        for n in range(below.n_kept + 1, above.n_kept + 1):
            words = path.at(n)
            assert len(set(words.tolist())) == n
            assert set(words.tolist()) <= set(above.kept.tolist())
        # Without a swap, a stop is what is left of the one above.
        left = np.setdiff1d(above.kept, below.removed)
        assert below.n_swapped > 0 or below.kept.tolist() == left.tolist()


def test_a_large_step_drops_what_the_regression_misses_least(monkeypatch):
    monkeypatch.setattr(elimination, "EXACT_BELOW", 0)
    monkeypatch.setattr(elimination, "MOST", 1.0)
    monkeypatch.setattr(elimination, "PACE", 1)
    path = walked(PROBLEM, [24, 10], repair=0)
    score = LeaveOneOut().begin(LABELS, 4)
    histograms = whatif(BOOK, BAGS).histograms
    score.update(histograms)
    assert path.stops[1].removed.tolist() == score.least_missed(histograms, 14).tolist()


def test_a_single_step_drops_the_word_without_which_the_score_is_highest(monkeypatch):
    monkeypatch.setattr(elimination, "N_TRIED", N_WORDS)
    path = walked(PROBLEM, [24, 23], repair=0)
    values = [
        LeaveOneOut().begin(LABELS, 4).update(whatif(BOOK, BAGS).without([BOOK.ids[k]]).histograms)
        for k in range(N_WORDS)
    ]
    assert path.stops[1].removed.tolist() == [int(np.argmax(values))]
    assert path.stops[1].score == pytest.approx(max(values), rel=1e-12)


@pytest.mark.parametrize("score", ["leave-one-out", "relevance"])
def test_swaps_repair_what_a_bad_elimination_did(score, monkeypatch):
    # The worst possible guide: the words that are missed most go first.
    def worst(self, n_gone, rng):
        return self._ids[self.positions()[:n_gone]]

    monkeypatch.setattr(elimination._Elimination, "_least_missed", worst)
    none = walked(PROBLEM, [24, 6], score, repair=0).stops[-1]
    some = walked(PROBLEM, [24, 6], score, repair=18).stops[-1]
    assert (none.n_tried, none.n_swapped, some.n_tried) == (0, 0, 18)
    assert some.n_swapped > 0
    assert some.score > none.score
    assert len(set(some.kept.tolist())) == 6


def test_large_stops_try_fewer_swaps(monkeypatch):
    monkeypatch.setattr(elimination, "FULL_REPAIR", 6)
    path = walked(PROBLEM, [24, 18, 12, 6], repair=4)
    assert [stop.n_tried for stop in path.stops] == [0, 2, 2, 4]


class Bomb(LeaveOneOut):
    """Goes off at a number of words."""

    at = 0

    def update(self, histograms, changed=None):
        if histograms.shape[1] == Bomb.at:
            raise KeyboardInterrupt
        return super().update(histograms, changed)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_killed_and_resumed_is_uninterrupted(coding, tmp_path):
    def resumed(score="leave-one-out"):
        checkpoint = Checkpoint(tmp_path / "path", {"problem": 1})
        return walked(PROBLEM, coding=coding, score=score, checkpoint=checkpoint)

    whole = walked(PROBLEM, coding=coding)
    # Killed in the middle of a way, at a stop, and among the swaps of the last one; each time all
    # stops before are in the file.
    for at, n_stops in ((20, 1), (15, 1), (12, 2), (6, 3), (4, 3)):
        Bomb.at = at
        with pytest.raises(KeyboardInterrupt):
            resumed(Bomb())
        saved = Checkpoint(tmp_path / "path", {"problem": 1}).load()
        assert (1 if saved is None else len(saved[0]["stops"])) == n_stops
    assert outcome(resumed()) == outcome(whole)
    # And a finished path is only read.
    Bomb.at = 24
    assert outcome(resumed(Bomb())) == outcome(whole)


def test_more_words_than_bags_are_no_special_case():
    random = np.random.default_rng(0)
    words = random.normal(size=(150, 3))
    labels = np.arange(30) % 2
    bags = [random.normal([2.0 * label, 0, 0], 1.0, size=(40, 3)) for label in labels]
    problem = bs.Bags.from_list(bags), labels, bs.Codebook(words)
    path = walked(problem, [150, 90, 40, 10], repair=3)
    assert path.sizes == [150, 90, 40, 10]
    assert np.isfinite([stop.score for stop in path.stops]).all()
    random_values = []
    for seed in range(5):
        kept = np.random.default_rng(seed).choice(150, 10, replace=False)
        histograms = whatif(problem[2], problem[0]).reset(kept).histograms
        random_values.append(LeaveOneOut().begin(labels, 2).update(histograms))
    assert path.stops[-1].score > max(random_values)


def test_default_sizes_fall_in_equal_ratios_and_others_are_sorted():
    for n_words in (5000, 1000, 300):
        sizes = default_sizes(n_words)
        assert (sizes[0], sizes[-1], len(sizes)) == (n_words, 10, 24)
        large = np.array([size for size in sizes if size > 100])
        assert np.ptp(large[1:] / large[:-1]) < 0.01
    assert (default_sizes(1), default_sizes(11)) == ([1], [11, 10])
    assert check_sizes([5, 20, 5], 30) == [30, 20, 5]
    assert check_sizes((30,), 30) == [30]
    assert check_sizes(None, 30) == default_sizes(30)


@pytest.mark.parametrize("wrong", [[], [0], [31], [2.5], "ten", 5])
def test_sizes_that_cannot_be_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"sizes must be .* got"):
        check_sizes(wrong, 30)


NONE = np.empty(0, dtype=np.int64)
STOPS = [
    Stop(np.arange(7), NONE, -0.7, 0, 0, {"holds": True}),
    Stop(np.array([0, 2, 3, 6]), np.array([5, 3, 1]), -0.1 - 0.2, 9, 2, {"holds": True}),
    Stop(np.array([1, 6]), np.array([2, 0]), -0.9, 4, 1, {"holds": None}),
]


def test_between_two_stops_the_words_removed_first_are_missing():
    path = EliminationPath(STOPS)
    assert path.sizes == [7, 4, 2]
    found = ["".join(map(str, path.at(n))) for n in (7, 6, 5, 4, 3, 2)]
    # At the stop itself its own words count, a swapped one among them.
    assert found == ["0123456", "012346", "01246", "0236", "036", "16"]
    for n in (1, 8, 2.5, None):
        with pytest.raises(ParameterError, match=r"n_words must be an integer from 2 to 7; got"):
            path.at(n)
