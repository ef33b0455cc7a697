"""The survey measures what it says: each way on the same words, the same moves, the same truth."""

import json

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.errors import DataError, MismatchError, ParameterError
from bowsaw.inference import survey as module
from bowsaw.inference.exact import ExactState
from bowsaw.inference.state import HistogramState
from bowsaw.inference.survey import Survey, Way, draw_words, ways_of

# Names that are no positions.
IDS = np.arange(20) * 3 + 5
KEPT = IDS[[1, 2, 5, 9, 11, 12, 16, 19]]


@pytest.fixture(scope="module")
def book():
    return bs.Codebook(np.random.default_rng(1).normal(size=(20, 2)), IDS)


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(2)
    return bs.Bags.from_list([rng.normal(size=(n, 2)) for n in (40, 0, 7, 90, 25, 1)])


def test_all_names_every_transfer_and_every_variant():
    names = "exact; uniform, nearest-surviving; uniform, sequential; uniform, chain; voronoi; "
    names += "gaussian, isotropic; gaussian, shared; empirical"
    assert [way.name for way in ways_of("hard", ["all"])] == names.split("; ")
    assert ways_of("soft", ["all"]) == [Way("exact", "exact")]
    twice = ways_of("hard", ["empirical", "exact", "empirical"])
    assert [way.name for way in twice] == ["empirical", "exact"]


@pytest.mark.parametrize(
    ("coding", "transfers", "problem"),
    [
        ("hard", ["best"], "got 'best'"),
        ("hard", ["exact", "all"], "got 'exact,all'"),
        ("hard", [], "exact, uniform, voronoi"),
        ("hard", ["truncated"], "for hard coding"),
        ("soft", ["uniform"], "one of exact for soft coding"),
    ],
)
def test_unknown_transfers_are_named(coding, transfers, problem):
    with pytest.raises(ParameterError, match=problem):
        ways_of(coding, transfers)


def test_a_number_of_words_that_prunes_nothing_or_all_is_refused(book):
    for n in (0, 20, 21):
        with pytest.raises(ParameterError, match=rf"from 1 to 19 \(the codebook has 20.*got {n}\."):
            draw_words(book, n)
    drawn = draw_words(book, 8, seed=3).tolist()
    assert drawn == sorted(set(drawn) & set(IDS.tolist()))
    assert drawn == draw_words(book, 8, seed=3).tolist()
    assert drawn != draw_words(book, 8, seed=4).tolist()


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_every_way_gets_the_certificate_of_a_fresh_state(book, bags, coding):
    kept, ways = KEPT, ways_of(coding, ["all"])
    found = Survey(book, bags, kept, coding=coding, move_size=3, seed=3).run(ways)
    assert [row.way for row in found.rows] == ways
    assert found.recode_seconds > 0
    for row in found.rows:
        random = {"random_state": 3} if row.way.transfer in ("gaussian", "empirical") else {}
        how = {"coding": coding, "transfer": row.way.transfer, **row.way.options, **random}
        fresh = bs.whatif(book, bags, **how).reset(kept)
        # Moves there and back leave a state where it was; soft totals may differ by rounding.
        twin = fresh.fidelity(random_state=3)
        assert row.fidelity.worst == pytest.approx(twin.worst, abs=1e-6)
        assert row.fidelity.n_bags == 5
        assert row.fidelity.holds is (True if fresh.is_exact else None)
        assert row.refusal is None
        assert min(row.build_seconds, row.move_seconds) > 0
        assert row.n_bytes == pytest.approx(fresh.n_bytes, rel=0.5)
    if coding == "hard":
        assert found.rows[0].fidelity.worst == 0


def test_every_way_makes_the_same_moves_from_the_same_words(book, bags, monkeypatch):
    made: list[tuple[list[int], list[int]]] = []
    swap = HistogramState.swap

    def spy(self, remove=(), add=()):
        if self.codebook is book and self.n_bags == len(bags):
            made.append((np.asarray(remove).tolist(), np.asarray(add).tolist()))
        return swap(self, remove, add)

    kept = KEPT.tolist()
    ways = ways_of("hard", ["exact", "uniform"])
    monkeypatch.setattr(HistogramState, "swap", spy)
    Survey(book, bags, kept, move_size=3, n_moves=2).run(ways)
    # A move to warm up and two timed ones, each with its way back.
    assert len(made) == 6 * len(ways)
    assert made == made[:6] * len(ways)
    for there, back in zip(made[::2], made[1::2], strict=True):
        assert back == there[::-1]
        assert set(there[0]) <= set(kept)
        assert set(there[1]).isdisjoint(kept)
        assert len(set(there[0])) == len(set(there[1])) == 3


def test_a_state_that_loses_its_way_is_found_out(book, bags, monkeypatch):
    follow = ExactState._follow

    def careless(self, swap):
        touched = follow(self, swap)
        self._table[swap.added_columns] = 0
        return touched

    monkeypatch.setattr(ExactState, "_follow", careless)
    [row] = Survey(book, bags, KEPT).run(ways_of("hard", ["exact"])).rows
    assert row.fidelity.holds is False
    assert row.fidelity.worst > 0.1


def test_full_histograms_are_made_once_and_counted_in_every_build(book, bags, monkeypatch):
    coded = []
    clock = iter(np.arange(0.0, 10_000.0))
    hard = module.hard_histograms

    def spy(bags, words, **more):
        coded.append(len(words))
        return hard(bags, words, **more)

    monkeypatch.setattr(module, "hard_histograms", spy)
    # A clock that ticks when it is read: whatever is timed takes one second.
    monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    found = Survey(book, bags, KEPT).run(ways_of("hard", ["exact", "uniform"]))
    assert coded == [20]
    assert [row.build_seconds for row in found.rows] == [1, 2, 2, 2]
    assert [row.move_seconds for row in found.rows] == [1, 1, 1, 1]
    assert found.recode_seconds == 1


def test_the_record_is_plain(book, bags):
    found = Survey(book, bags, IDS[:8], coding="soft", sharpness=7.0, n_jobs=1)
    record = found.run(ways_of("soft", ["exact"])).record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["kept"] == IDS[:8].tolist()
    assert (record["sharpness"], record["n_bags"], record["n_words"]) == (7.0, 6, 20)
    assert record["ways"][0]["fidelity"]["holds"] is True


def test_a_refusal_is_a_row_or_an_error_where_the_way_was_named():
    # Four dimensions, too many for voronoi.
    rng = np.random.default_rng(4)
    wide = bs.Codebook(rng.normal(size=(9, 4))), bs.Bags(rng.normal(size=(50, 4)))
    found = Survey(*wide, [0, 1, 2]).run(ways_of("hard", ["all"]), refusals=True)
    refused = [row for row in found.rows if row.refusal]
    assert [row.way.name for row in refused] == ["voronoi"]
    assert "at most 3 dimensions; the words have 4" in refused[0].refusal
    assert found.speed_up(refused[0]) is None
    assert all(row.fidelity for row in found.rows if row not in refused)
    found = Survey(*wide, [0, 1, 2])
    with pytest.raises(ParameterError, match="at most 3 dimensions"):
        found.run(ways_of("hard", ["exact", "voronoi", "uniform"]))
    assert [row.way.name for row in found.rows] == ["exact"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DataError("too flat."), "too flat."),
        (MemoryError(), "out of memory."),
        (MemoryError("Unable to allocate 9 GiB"), "out of memory. Unable to allocate 9 GiB"),
    ],
)
def test_what_was_measured_before_a_refusal_is_kept(book, bags, monkeypatch, error, reason):
    def refuse(*_):
        raise error

    monkeypatch.setattr(Survey, "_time_moves", refuse)
    found = Survey(book, bags, IDS[:8]).run(ways_of("hard", ["exact"]), refusals=True)
    [row] = found.rows
    assert row.refusal == reason
    assert row.build_seconds > 0
    assert row.n_bytes > 0
    assert (row.move_seconds, row.fidelity) == (None, None)


def test_words_and_bags_that_make_no_survey_are_refused(book, bags):
    for kept, problem in (([], "names 0 of the 20"), (IDS, "names 20 of the 20"), ([1], "word 1")):
        with pytest.raises(ParameterError, match=problem):
            Survey(book, bags, kept)
    with pytest.raises(DataError, match="all are empty"):
        Survey(book, bags[[1]], IDS[:8])
    with pytest.raises(MismatchError, match="2 dimensions"):
        Survey(book, bs.Bags([[0.0, 1.0, 2.0]]), IDS[:8])
