"""The searches that are measured: the side that re-codes is the truth, and costs what it says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.inference import SHARPNESS
from benchmarks.peers import MEASUREMENTS
from benchmarks.recoding import RecodedState, fastest_coder
from benchmarks.report import CHOOSING, write_report
from benchmarks.timing import hardware

import bowsaw as bs
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import soft_histograms


@pytest.fixture(scope="module")
def corpus() -> bs.Bags:
    return bs.Bags(np.random.default_rng(0).normal(size=(49, 3)), [0, 7, 37, 49])


@pytest.fixture
def book() -> bs.Codebook:
    return bs.Codebook(np.random.default_rng(1).normal(size=(9, 3)), ids=np.arange(10, 19))


def coder(corpus: bs.Bags, coding: str) -> Any:
    if coding == "hard":
        return lambda words: hard_histograms(corpus, words)
    return lambda words: soft_histograms(corpus, words, SHARPNESS)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_the_recoding_state_holds_the_truth_after_every_move(
    corpus: bs.Bags, book: bs.Codebook, coding: Any
) -> None:
    state = RecodedState(book, corpus, coder(corpus, coding), coding).reset([10, 14, 12, 17])
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 1):
        before = state.histograms.copy()
        out = rng.choice(state.kept, n, replace=False)
        state.swap(remove=out, add=rng.choice(np.setdiff1d(book.ids, state.kept), n, replace=False))
        np.testing.assert_array_equal(state.histograms, state.recode(corpus))
        differ = np.flatnonzero((before != state.histograms).any(axis=0))
        assert np.isin(differ, state.changed).all()
    assert state.fidelity().worst == 0


def test_a_move_that_is_undone_is_not_coded_again(corpus: bs.Bags, book: bs.Codebook) -> None:
    state = RecodedState(book, corpus, coder(corpus, "hard")).reset([10, 11, 12])
    before = state.histograms.copy()
    assert state.n_codings == 1
    for number, word in enumerate((13, 14, 15)):
        state.swap(remove=[11], add=[word])
        assert state.n_codings == 2 + number
        if number:
            state.swap(remove=[word], add=[11])
        else:
            state.undo()
        assert state.n_codings == 2 + number
        np.testing.assert_array_equal(state.histograms, before)


@pytest.mark.parametrize("coding", ["hard", "soft"])
def test_the_fastest_coder_codes_with_whatever_words_it_is_given(
    corpus: bs.Bags, book: bs.Codebook, coding: Any
) -> None:
    name, code = fastest_coder(corpus, book.words[:4], coding, repeats=1)
    assert name in {"hard": ("bowsaw", "faiss"), "soft": ("bowsaw",)}[coding]
    np.testing.assert_allclose(code(book.words), coder(corpus, coding)(book.words), atol=1e-6)


def test_the_report_shows_what_was_asked_and_what_was_measured(tmp_path: Path) -> None:
    row = {
        "work": "a search",
        "against": "the slow one",
        "ours": 0.002,
        "peer": 0.5,
        "value": 250.0,
        "asked": 200.0,
        "unit": "×",
        "answer": "equal",
        "same": True,
    }
    told = row | {
        "building": 1.5,
        "step": 2e-5,
        "peer_step": 0.5,
        "processor": 3e-5,
        "peer_processor": 1.0,
        "score_share": 0.25,
        "peer_score_share": 0.001,
        "accepted": 0.5,
        "whole": 2.0,
        "peer_whole": 60.0,
        "ceiling": 40.0,
        "fastest": "faiss",
        "peak": 2**20,
    }
    alone = row | {"peer": None, "against": None, "unit": "s", "value": 9.0, "at_most": True}
    result = {"rows": [row, alone, told | {"same": False}], "size": "small", "threads": 2}
    measured = dict.fromkeys(CHOOSING, result)
    write_report({"hardware": hardware(), "measured": measured}, tmp_path / "RESULTS.md")
    assert set(CHOOSING) <= set(MEASUREMENTS)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    line = "| a search | 2 | the slow one | 2 ms | 500 ms | **250** × | ≥ 200 | equal |"
    assert text.count(line) == len(CHOOSING)
    assert "| a search | 2 |  | 2 ms |  | **9** s | ≤ 200 | equal |" in text
    assert "NO: equal" in text
    assert "1.5 s until the first score, then 20 µs per step (median; 30 µs of processor" in text
    assert "2 s against 60 s, 30 times faster; a search that codes once" in text
    assert "memory grew by 1 MiB" in text
