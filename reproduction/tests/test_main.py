from __future__ import annotations

import pytest

import reproduction.__main__ as study
from bowsaw.comparison.records import read_run


def test_a_benchmark_is_asked_for(tmp_path, capsys):
    with pytest.raises(SystemExit):
        study.main(["-o", str(tmp_path / "run")])
    assert "--scene15 DIR, --caltech101 DIR, or both" in capsys.readouterr().err


def test_panels_probes_and_verdicts(small_scenes, tmp_path, capsys, monkeypatch):
    # The benchmark in small: everything that the study does, on sixty images and few words.
    monkeypatch.setattr(study, "WORDS", (40, 24))
    monkeypatch.setattr(study, "SIZES", (4, 10))
    monkeypatch.setattr(study, "SETS", (("15-Scenes", "scene15", 6, None),))
    folder = tmp_path / "paper"
    assert study.main(["--scene15", str(small_scenes), "--splits", "2", "-o", str(folder)]) == 0
    run = read_run(folder)
    assert len({(c["set"], c["coding"], c["full_words"]) for c in run.cells}) == 4
    assert len(run.cells) == 4 * 2 * (1 + 6 * 2)
    assert {line["probe"] for line in run.probes} == {
        "iterations",
        "transfer-error",
        "cost-shares",
        "brute-force",
    }
    raw = {cell["method"] for cell in run.cells if "raw" in cell["results"]}
    assert raw == {"full", "paper"}
    answers = {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()}
    assert answers & {"yes", "no", "partly"}
