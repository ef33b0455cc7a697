from __future__ import annotations

import base64
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bowsaw as bs
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.report.lines import codebook_line, named_words, trace_line, words_line
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selection
from bowsaw.selection.baselines import RandomSubset

KEY = {"set": "toys", "split": 0, "full_words": 5}
SIFT = bs.DenseSift().description()


def values(line):
    """The words of a line, as bytes."""
    flat = np.frombuffer(base64.b64decode(line["values"]), dtype=np.uint8)
    return flat.reshape(len(line["ids"]), line["n_dims"])


# -- words and heirs -------------------------------------------------------------------------------


def test_who_inherits_by_hand():
    full = bs.Codebook(np.arange(10.0).reshape(5, 2), [10, 11, 12, 13, 14])
    small = full.only([13, 10])
    # Ten descriptors. Word 10 keeps its three. Of the four of word 11, three go to word 13 (column
    # 0) and one to word 10 (column 1). Word 12 had none. Word 13 keeps its one. Of word 14's two,
    # one goes to each: the tie goes to the lower column.
    before = [0, 0, 0, 1, 1, 1, 1, 3, 4, 4]
    after = [1, 1, 1, 0, 0, 0, 1, 0, 1, 0]
    line = words_line({**KEY, "method": "random"}, full, small, before, after, False)
    assert line["kind"] == "words"
    assert (line["set"], line["full_words"], line["method"]) == ("toys", 5, "random")
    assert line["ids"] == [13, 10]
    assert line["mass"] == [0.5, 0.5]
    assert line["kept_mass"] == [0.1, 0.3]
    assert line["from"] == [
        [[11, 0.6], [13, 0.2], [14, 0.2]],
        [[10, 0.6], [11, 0.2], [14, 0.2]],
    ]
    assert line["pruned"] == [[11, 0.4, 0, 0.75], [14, 0.2, 0, 0.5]]
    assert line["n_pruned"] == 3
    assert line["moved"] is False
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    assert named_words([line, {"kind": "trace"}]) == [10, 11, 13, 14]


def test_words_that_moved_may_lose_descriptors_of_their_own_id():
    full = bs.Codebook([[0.0], [1.0], [4.0]])
    small = bs.Codebook([[1.1], [4.0]], ids=[0, 2])
    line = words_line({}, full, small, [0, 1, 1, 2], [0, 0, 0, 1], True)
    assert line["moved"] is True
    assert line["from"] == [[[1, 0.6667], [0, 0.3333]], [[2, 1.0]]]
    assert line["pruned"] == [[1, 0.5, 0, 1.0]]


@given(st.data())
def test_the_cross_table_is_that_of_counting_one_by_one(data):
    n_words = data.draw(st.integers(1, 9))
    full = bs.Codebook(np.arange(n_words)[:, None], np.arange(n_words) * 3 + 5)
    kept = data.draw(st.lists(st.sampled_from(full.ids.tolist()), min_size=1, unique=True))
    small = full.only(kept)
    pair = st.tuples(st.integers(0, n_words - 1), st.integers(0, len(kept) - 1))
    pairs = data.draw(st.lists(pair, max_size=60))
    before, after = [b for b, _ in pairs], [a for _, a in pairs]
    line = words_line({}, full, small, before, after, False)
    n, table = len(pairs), Counter(pairs)
    had, has = Counter(before), Counter(after)
    assert line["mass"] == pytest.approx([has[c] / max(n, 1) for c in range(len(kept))], rel=1e-3)
    assert line["n_pruned"] == n_words - len(kept)
    for column, sources in enumerate(line["from"]):
        counts = {int(full.ids[k]): table[k, column] for k in range(n_words)}
        ranked = sorted((-count, word) for word, count in counts.items() if count)[:4]
        assert [word for word, _ in sources] == [word for _, word in ranked]
        shares = [-count / has[column] for count, _ in ranked]
        assert [share for _, share in sources] == pytest.approx(shares, rel=1e-3)
    gone = [k for k in range(n_words) if full.ids[k] not in kept and had[k]]
    gone.sort(key=lambda k: (-had[k], k))
    assert [entry[0] for entry in line["pruned"]] == [int(full.ids[k]) for k in gone]
    for k, (_, mass, heir, share) in zip(gone, line["pruned"], strict=True):
        most = max(range(len(kept)), key=lambda c: (table[k, c], -c))
        assert heir == most
        assert [mass, share] == pytest.approx([had[k] / n, table[k, most] / had[k]], rel=1e-3)


def test_two_hundred_pruned_words_are_named_the_heaviest_first():
    full = bs.Codebook(np.arange(301.0)[:, None])
    small = full.only([0])
    # Word k has k % 7 + 1 descriptors.
    before = np.repeat(np.arange(301), np.arange(301) % 7 + 1)
    line = words_line({}, full, small, before, np.zeros_like(before), False)
    assert len(line["pruned"]) == 200
    assert line["n_pruned"] == 300
    masses = [entry[1] for entry in line["pruned"]]
    assert masses == sorted(masses, reverse=True)
    assert [entry[0] for entry in line["pruned"][:3]] == [6, 13, 20]


def test_a_codebook_tells_how_much_each_word_is_used():
    book = bs.Codebook(np.eye(4), [3, 1, 4, 2])
    line = codebook_line(KEY, book, np.array([0, 0, 3, 1], dtype=np.int32))
    assert line["ids"] == [3, 1, 4, 2]
    assert line["mass"] == [0.5, 0.25, 0.0, 0.25]
    np.testing.assert_array_equal(values(line), np.eye(4) * 255)
    some = codebook_line(KEY, book, [0, 0, 3, 1], only=[2, 3])
    assert some["ids"] == [2, 3]
    assert some["mass"] == [0.25, 0.5]
    np.testing.assert_array_equal(values(some), values(line)[[3, 0]])
    assert named_words([some]) == []


def test_codes_of_another_codebook_are_refused():
    full = bs.Codebook(np.eye(3))
    small = full.only([0, 1])
    with pytest.raises(DataError, match=r"codes must be one position from 0 to 2 .* 0 to 3"):
        codebook_line({}, full, [0, 3])
    with pytest.raises(DataError, match=r"before must be .* -1 to 0"):
        words_line({}, full, small, [0, -1], [0, 0], False)
    with pytest.raises(DataError, match="same descriptors; got 2 and 1"):
        words_line({}, full, small, [0, 1], [0], False)
    with pytest.raises(ParameterError, match="word 7 is not in the codebook"):
        words_line({}, full, bs.Codebook(np.eye(3)[:1], [7]), [0], [0], False)
    with pytest.raises(MismatchError, match="words of 3 dimensions, the small one of 2"):
        words_line({}, full, bs.Codebook([[1.0, 2.0]], [0]), [0], [0], False)


# -- values ----------------------------------------------------------------------------------------


def test_sift_keeps_its_bytes_in_any_unit():
    stored = np.random.default_rng(0).integers(0, 256, (3, 128))
    as_bytes = bs.Codebook(stored, scale=512.0, description=SIFT)
    as_floats = bs.Codebook(stored / 512, scale=1.0, description=SIFT)
    for book in (as_bytes, as_floats):
        line = codebook_line({}, book, [0])
        np.testing.assert_array_equal(values(line), stored)
        assert line["units"] == {"name": "sift", "low": 0.0, "high": 255 / 512}
    # Words of the mean of a few images never reach 255, and are not stretched to it.
    dim = bs.Codebook(stored // 4, scale=512.0, description=SIFT)
    np.testing.assert_array_equal(values(codebook_line({}, dim, [0])), stored // 4)


def test_sift_words_that_moved_out_of_range_are_clipped():
    full = bs.Codebook(np.full((1, 128), 100.0), scale=512.0, description=SIFT)
    moved = np.full((1, 128), 100.4)
    moved[0, :2] = -3.0, 300.0
    small = bs.Codebook(moved, scale=512.0, description=SIFT)
    line = words_line({}, full, small, [0], [0], True)
    assert values(line)[0, :3].tolist() == [0, 255, 100]


def test_other_values_are_spread_over_the_range_of_the_full_codebook():
    full = bs.Codebook([[-2.0, 0.0], [2.0, 8.0]], scale=2.0)
    line = codebook_line({}, full, [0])
    # From -2 to 8 in stored units: 10 steps of 25.5.
    assert values(line).tolist() == [[0, 51], [102, 255]]
    assert line["units"] == {"name": "range", "low": -1.0, "high": 4.0}
    # The small codebook is drawn with the same two ends, also in a unit of its own.
    small = bs.Codebook([[-3.0, 2.0]], [1], scale=1.0)
    line = words_line({}, full, small, [0], [0], True)
    assert values(line).tolist() == [[0, 153]]
    # 128 numbers that nobody calls SIFT are not taken for it; values from 0 up begin at 0.
    line = codebook_line({}, bs.Codebook(np.full((1, 128), 7.0)), [0])
    assert line["units"] == {"name": "range", "low": 0.0, "high": 7.0}
    assert (values(line) == 255).all()
    assert (values(codebook_line({}, bs.Codebook(np.zeros((1, 3))), [0])) == 0).all()


# -- traces ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    random = np.random.default_rng(0)
    y = np.arange(16) % 2
    bags = bs.Bags.from_list([random.normal([label, 0.0], 1.0, size=(30, 2)) for label in y])
    return bags, y, bs.KMeansCodebook(10, random_state=0).fit(bags).codebook_


def test_a_short_search_is_shown_whole(problem):
    bags, y, book = problem
    saw = Annealing(book, 3, n_steps=40, start_temperature=3.0).fit(bags, y)
    line = trace_line({"size": 3}, saw)
    assert (line["kind"], line["size"], line["score_name"]) == ("trace", 3, "leave-one-out")
    assert line["step"] == list(range(41))
    assert line["score"] == pytest.approx(saw.selection_.scores, rel=1e-6)
    assert line["accepted"] == saw.accepted_.tolist()
    assert line["temperature"] == pytest.approx(saw.temperatures_, rel=1e-4)
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    told = Annealing(book, 3, score=LeaveOneOut(balanced=True), n_steps=2).fit(bags, y)
    assert trace_line({}, told)["score_name"] == "leave-one-out"


def searched(book, n_steps, scores=None):
    """A search that has been, with a score that names its step."""
    saw = Annealing(book, 1)
    saw.selection_ = Selection(
        "annealing",
        "pruned",
        book.only([0]),
        kept=np.array([0]),
        scores=tuple(range(n_steps + 1)) if scores is None else scores,
    )
    saw.accepted_ = np.random.default_rng(n_steps).random(n_steps) < 0.4
    saw.temperatures_ = 0.5 ** np.arange(n_steps)
    return saw


@pytest.mark.parametrize("n_steps", [599, 600, 601, 1234, 2000])
def test_a_long_search_is_thinned_evenly(problem, n_steps):
    saw = searched(problem[2], n_steps)
    line = trace_line({}, saw)
    step = np.array(line["step"])
    assert len(step) == min(n_steps + 1, 600)
    assert (step[0], step[-1]) == (0, n_steps)
    assert np.ptp(np.diff(step)) <= 1
    assert line["score"] == step.tolist()
    # No move is lost: shares times moves are the moves accepted, from point to point.
    assert len(line["accepted"]) == len(line["temperature"]) == len(step) - 1
    taken = np.concatenate(([0], np.cumsum(saw.accepted_)))
    np.testing.assert_allclose(
        np.array(line["accepted"]) * np.diff(step), np.diff(taken[step]), atol=1e-3
    )
    np.testing.assert_allclose(line["temperature"], saw.temperatures_[step[1:] - 1], rtol=1e-4)


def test_a_search_that_never_moved_and_scores_that_are_none(problem):
    line = trace_line({}, searched(problem[2], 0))
    assert (line["step"], line["score"]) == ([0], [0.0])
    assert line["accepted"] is None
    assert line["temperature"] is None
    line = trace_line({}, searched(problem[2], 2, (-np.inf, np.nan, 1.0)))
    assert line["score"] == [None, None, 1.0]


def test_refinement_has_a_score_and_no_acceptance(problem):
    bags, y, book = problem
    saw = bs.Refinement(book, 3, n_steps=20, n_folds=0).fit(bags, y)
    line = trace_line({}, saw)
    assert line["step"] == list(range(20))
    assert line["score"] == pytest.approx(-saw.errors_, rel=1e-6)
    assert line["accepted"] is None
    assert line["temperature"] is None
    assert line["score_name"].startswith("leave-one-out")
    still = bs.Refinement(book, 3, n_steps=0).fit(bags, y)
    line = trace_line({}, still)
    assert line["score"] == pytest.approx(still.selection_.scores, rel=1e-6)
    assert line["score_name"] == "of annealing, which chose the words; no step moved them"
    unscored = bs.Refinement(book, 3, start=RandomSubset(book), n_steps=0).fit(bags, y)
    assert trace_line({}, unscored) is None


def test_other_methods_have_no_trace(problem):
    bags, y, book = problem
    assert trace_line({}, RandomSubset(book, 3).fit(bags, y)) is None
