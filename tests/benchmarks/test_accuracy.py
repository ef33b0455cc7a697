import json
import re

import numpy as np
import pytest
from benchmarks.accuracy_page import BEGIN, END, differences, panels, write_into, write_page

from benchmarks import accuracy
from bowsaw.evaluation.comparison import compare, holm


def cell(method, size, split, value, **more):
    return {
        "set": "15-Scenes",
        "coding": "hard",
        "method": method,
        "size": size,
        "split": split,
        "accuracy": value,
        "n_train": 750,
        "n_test": 2985,
        "n_words": 5000,
        **more,
    }


CELLS = [
    cell(method, size, split, base + 0.01 * split + (0.003 * split**2 if method == "random" else 0))
    for method, base in (("refined", 0.7), ("random", 0.6))
    for size in (20, 50)
    for split in range(3)
]


def test_the_page_tells_means_and_corrected_comparisons(tmp_path):
    write_page([*CELLS, cell("full", 5000, 0, 0.72)], tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "## 15-Scenes, hard coding, from 5000 words" in page
    assert "| refined | 0.710 ± 0.010 | 0.710 ± 0.010 |" in page
    assert "| asked of refined | ≥ 0.63 | ≥ 0.69 |" in page
    assert "All 5000 words: 0.720 (1 split)." in page
    ours, theirs = [0.7, 0.71, 0.72], [0.6, 0.613, 0.632]
    expected = compare(ours, theirs, 750, 2985)
    p = holm([expected.p] * 2)[0]
    assert f"20: {expected.mean:+.3f} (p {p:.3f}), 50: {expected.mean:+.3f} (p {p:.3f})." in page


def test_only_splits_that_both_have_are_compared():
    cells = [c for c in CELLS if not (c["method"] == "random" and c["split"] == 1)]
    [panel] = panels(cells).values()
    found = dict(differences(panel, "random"))
    assert found[20].mean == pytest.approx(np.mean([0.1, 0.72 - 0.632]))
    assert differences(panel, "retrained") == []


def test_tables_go_between_the_marks_of_a_document(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write_into(CELLS, path)
    text = path.read_text()
    assert text.startswith(f"before\n{BEGIN}\n### 15-Scenes, hard coding")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("### ") == 1


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_text(json.dumps(CELLS[0]) + "\n" + json.dumps(CELLS[1])[:40])
    assert accuracy.read_cells(path) == [CELLS[0]]
    assert path.read_text() == json.dumps(CELLS[0]) + "\n"
    assert accuracy.read_cells(tmp_path / "none") == []


def test_a_run_measures_what_is_missing_and_writes_the_page(scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(accuracy, "SETS", {"tiny": ("BOWSAW_TINY", 6)})
    monkeypatch.setattr(accuracy, "steps_of", lambda size: 2)
    monkeypatch.setenv("BOWSAW_TINY", str(scenes))
    out = tmp_path / "out"
    arguments = ["accuracy", "-o", str(out), "--words", "12", "--splits", "2", "--sizes", "4"]
    arguments += ["--codings", "hard", "--sets", "tiny"]
    arguments += ["--methods", "refined,random,retrained,annealed,bottleneck,full"]
    monkeypatch.setattr("sys.argv", arguments)
    assert accuracy.main() == 0
    told = capsys.readouterr().out
    cells = accuracy.read_cells(out / "cells.jsonl")
    assert len(cells) == 12
    assert {c["n_coding_words"] for c in cells if c["method"] == "bottleneck"} == {12}
    assert {c["n_coding_words"] for c in cells if c["method"] == "refined"} == {4}
    assert all(0 <= c["accuracy"] <= 1 for c in cells)
    assert "## tiny, hard coding, from 12 words" in (out / "ACCURACY.md").read_text()
    assert len(re.findall("tiny . hard", told)) == 12

    (out / "cells.jsonl").write_text("".join(json.dumps(c) + "\n" for c in cells[:-1]))
    accuracy.main()
    assert len(re.findall("tiny . hard", capsys.readouterr().out)) == 1
    again = accuracy.read_cells(out / "cells.jsonl")
    timeless = [{k: v for k, v in c.items() if "seconds" not in k} for c in (cells[-1], again[-1])]
    assert timeless[0] == timeless[1]
