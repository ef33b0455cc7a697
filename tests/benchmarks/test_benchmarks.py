"""The measurements do not rot: each runs once on a little data, and both sides agree."""

import json
from typing import Any

import pytest
from benchmarks.peers import ASKED, MEASUREMENTS, QUICK, TARGETS
from benchmarks.report import write_report
from benchmarks.timing import alternate, gain, hardware


@pytest.fixture(autouse=True)
def packaged_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOWSAW_SCENE15", raising=False)
    monkeypatch.delenv("BOWSAW_CALTECH101", raising=False)


@pytest.mark.parametrize("name", sorted(MEASUREMENTS))
def test_every_measurement_runs_and_both_sides_agree(name: str) -> None:
    result = MEASUREMENTS[name](**QUICK[name])
    assert result["same"]
    json.dumps(result)


def test_the_report_shows_every_measurement(tmp_path: Any) -> None:
    side = {
        "ours": 1.0,
        "peer": 4.5,
        "per": 1.0,
        "unit": "s",
        "threads": 2,
        "size": "small",
        "answer": "fine",
        "same": True,
    }
    row = {"mapping": "raw", "n_words": 9, "n_splits": 2, "mean": 0.5, "std": 0.1}
    measured = dict.fromkeys(TARGETS, side) | {
        "memory": {"peaks": {"extract": [100, 110]}, "cap": 2**29, "size": "small"},
        "curves": {"curves": {"a line": [(1, 1.0), (2, 2.0)]}, "threads": 2},
        "accuracy": {"accuracy": {"15-Scenes": [row]}},
    }
    write_report({"hardware": hardware(), "measured": measured}, tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert text.count("**4.50**") == len(TARGETS)
    assert "+10 %" in text
    assert "| 1 | 2 | 1.00 |" in text
    assert f"**0.5000** | 0.1000 | ≥ {ASKED['15-Scenes', 'raw']:g} |" in text


def test_sides_are_timed_in_turn_after_one_untimed_call_each() -> None:
    calls: list[str] = []
    times = alternate(2, a=lambda: calls.append("a"), b=lambda: calls.append("b"))
    assert calls == ["a", "b", "a", "b", "b", "a"]
    assert set(times) == {"a", "b"}


def test_a_gain_is_that_of_neighbours() -> None:
    # The machine halves its speed in the second repeat, which the ratios do not see.
    assert gain([2.0, 4.0, 3.0], [1.0, 2.0, 2.0]) == (2.0, 1.5, 2.0)
