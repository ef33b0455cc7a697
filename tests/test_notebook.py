"""What a notebook shows of a result: escaped, without scripts, and legible in any theme."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from tests.report.made_run import made_run

import bowsaw as bs
from bowsaw.evaluation.path import Recommendation

NASTY = '<script>alert("1")</script>&'
SIFT = bs.Codebook(np.full((30, 128), 45.0), scale=512, description={"name": "dense-sift"})


def parsed(thing) -> ElementTree.Element:
    """Return what is shown as a tree; it must be well-formed, and bring no script and no colour."""
    html = thing._repr_html_()
    assert type(json.loads(json.dumps(html))) is str
    assert "<script" not in html
    assert re.findall(r"https?:|url\(|#[0-9a-f]{3}|style=", html) == []
    return ElementTree.fromstring(f"<div>{html}</div>")


def rows(tree) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def test_a_run_is_a_table_per_panel(tmp_path):
    run = bs.read_run(made_run(tmp_path, sizes=[10, 20], methods=["full", "refinement"], raw=[]))
    tree = parsed(run)
    captions = [caption.text for caption in tree.iter("caption")]
    assert captions == [
        f"scenes, {coding} coding, sqrt histograms of 200 words: accuracy with 95 % interval, "
        "3 splits"
        for coding in ("hard", "soft")
    ]
    expected = {(r["coding"], r["method"], r["size"]): r for r in run.table()}
    text = {key: f"{row['mean']:.3f} ± {row['margin']:.3f}" for key, row in expected.items()}
    assert rows(tree)[:3] == [
        ["method", "10 words", "20 words", "200 words"],
        ["full", "", "", text["hard", "full", 200]],
        ["refinement", text["hard", "refinement", 10], text["hard", "refinement", 20], ""],
    ]
    assert repr(run) == "Run(18 cells: full, refinement)"
    assert bs.comparison.Run({})._repr_html_() == "a run without cells"


def test_a_recommendation_is_one_row():
    size = Recommendation(50, 0.71, 0.02, 0.06, -0.01, 0.004, 25600, 0.0312, SIFT)
    header, row = rows(parsed(size))
    assert len(header) == len(row)
    assert row == ["50", "0.710 ± 0.060", "+0.010 (standard error 0.004)", "26 kB", "0.0312"]


def test_a_codebook_is_a_row_and_words_of_sift_are_glyphs():
    tree = parsed(SIFT.with_provenance(selected_by="coverage"))
    assert rows(tree)[1] == ["30", "128", "15 kB", "dense-sift", "coverage"]
    svgs = list(tree.iter("svg"))
    assert len(svgs) == 24
    assert svgs[3].find("title").text == "word0003"
    paths = {path.get("d") for path in tree.iter("path")}
    assert len(paths) == 1
    assert paths.pop().count("M") == 128
    assert {path.get("stroke") for path in tree.iter("path")} == {"currentColor"}
    plain = parsed(bs.Codebook(np.eye(3)))
    assert rows(plain)[1] == ["3", "3", "36 B", "unknown", "no method"]
    assert not list(plain.iter("svg"))


@pytest.mark.parametrize("place", ["set", "method", "descriptor"])
def test_names_are_escaped(place, tmp_path):
    if place == "descriptor":
        thing = bs.Codebook(np.eye(3), description={"name": NASTY})
    else:
        thing = bs.read_run(made_run(tmp_path))
        for cell in thing.cells:
            cell[place] = NASTY
    assert NASTY in "".join(parsed(thing).itertext())
