from __future__ import annotations

import pytest

import bowsaw as bs
from reproduction.__main__ import main
from reproduction.panels import CITED, SETS, ImageSet, Study
from reproduction.probes import PROBES


def test_a_benchmark_is_required(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["-o", str(tmp_path / "run")])
    assert "--scene15 DIR, --caltech101 DIR, or both" in capsys.readouterr().err


@pytest.mark.slow
def test_panels_probes_and_verdicts(small_scenes, tmp_path, capsys, monkeypatch):
    # The study in small: every step, on sixty images and few words.
    monkeypatch.setitem(SETS, "scene15", ImageSet("15-Scenes", 6))
    monkeypatch.setattr("reproduction.panels.CITED_WORDS", 24)
    folder = tmp_path / "paper"
    words = ["--scene15", str(small_scenes), "--splits", "2", "-o", str(folder)]
    small = Study(n_words=(40, 24), sizes=(4, 10))
    assert main(words, small) == 0
    run = bs.read_run(folder)
    assert len({(c["set"], c["coding"], c["full_words"]) for c in run.cells}) == 4
    assert len(run.cells) == 4 * 2 * (1 + 7 * 2) + 2 * 2 * len(CITED)
    assert [line["probe"] for line in run.probes] == list(PROBES)
    raw = {cell["method"] for cell in run.cells if "raw" in cell["results"]}
    assert raw == {"full", "paper"}
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} & {"supported", "contradicted", "not shown"}
    assert "claim-larger-gain" in (folder / "index.html").read_text("utf-8")
    # The same command finds everything done.
    assert main(words, small) == 0
    assert bs.read_run(folder).cells == run.cells
    assert bs.read_run(folder).probes == run.probes
