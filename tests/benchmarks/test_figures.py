"""What docs/inference.md shows: the figures are computed, and its numbers are those measured."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.figures import AXES, LINES, draw_cell, draw_costs
from benchmarks.inheritance import WAYS, Inheritance, cell_of
from benchmarks.report import MARKS, measured_block, write_measured
from scipy.spatial import Voronoi

from benchmarks import __main__ as command

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs" / "inference.md"
FIGURES = TOP / "docs" / "figures"
MEASURED = json.loads((TOP / "benchmarks" / "results.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def example() -> Inheritance:
    return Inheritance()


def texts(path: Path) -> list[str]:
    """Return what a figure says, in the order in which it is drawn."""
    tree = ElementTree.fromstring(path.read_text("utf-8"))
    return ["".join(node.itertext()).strip() for node in tree.iter() if node.tag.endswith("}text")]


def made_up_costs(slope: float = 1.0) -> dict[str, Any]:
    """Return curves of t = size^slope milliseconds."""
    points = [[size, 1e-3 * size**slope] for size in (10, 20, 40)]
    lines = {axis: dict.fromkeys(LINES, points) for axis in AXES}
    curves = {"lines": lines, "fixed": dict.fromkeys(AXES, 20), "threads": 2, "same": True}
    return {"measured": {"whatif_curves": curves}}


def made_up_moves() -> dict[str, Any]:
    move = {"kept": 50, "of": 5000, "replaced": 10, "ours": 0.002, "peer": 3.0, "same": True}
    build = {"of": 5000, "building": 20.0, "coding": 8.0, "peak": 2**29, "same": True}
    hard = [
        {"state": "hard, exact"} | build,
        {"state": "hard, exact", "answer": "identical histograms"} | move,
        {"state": "hard, uniform", "answer": "mean L1 error 0.60"} | move,
    ]
    soft = [{"state": "soft, 16-bit", "answer": "too far", **move, "same": False}]
    facts = {"size": "3 images", "threads": 2}
    measured = {"whatif_hard": {"rows": hard, **facts}, "whatif_soft": {"rows": soft, **facts}}
    return {
        "hardware": {"processor": "an abacus", "images": "a wall"},
        "measured": measured,
    }


def test_exact_shares_are_counts_of_coding_again(example):
    own = example.descriptors[example.codes == example.pruned]
    away = np.linalg.norm(own[:, None] - example.words[example.kept], axis=2)
    goes_to = example.kept[away.argmin(axis=1)]
    counts = np.bincount(goes_to, minlength=len(example.words))
    np.testing.assert_allclose(example.shares["exact"], counts / len(own), atol=1e-5)
    np.testing.assert_array_equal(
        np.bincount(example.codes_after[example.codes == example.pruned], minlength=12), counts
    )


def test_the_example_shows_what_the_page_says_of_it(example):
    # "A fifth to a word that inherits nothing, and nothing to one that does."
    exact, uniform = example.shares["exact"], example.shares["uniform"]
    assert ((exact == 0) & (uniform > 0.19)).sum() == 1
    assert ((exact > 0.02) & (uniform == 0)).any()
    assert example.misplaced("exact") == 0
    assert 0 < example.misplaced("voronoi") < example.misplaced("uniform")


def test_cells_are_those_of_a_voronoi_diagram(example):
    # Cells far from the rim have all their corners among scipy's; the box must not cut them.
    diagram = Voronoi(example.words)
    box = 50.0 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    everyone = np.arange(len(example.words))
    n_compared = 0
    for word in everyone:
        region = diagram.regions[diagram.point_region[word]]
        corners = diagram.vertices[region]
        if -1 in region or np.abs(corners).max() > 50:
            continue
        ours = cell_of(word, everyone, example.words, box)
        order = [np.abs(ours - corner).sum(axis=1).argmin() for corner in corners]
        assert sorted(order) == list(range(len(ours)))
        np.testing.assert_allclose(ours[order], corners, atol=1e-9)
        n_compared += 1
    assert n_compared >= 3


def test_the_cell_is_drawn_with_every_share_in_words(example, tmp_path):
    said = texts(draw_cell(tmp_path / "figures"))
    for way in WAYS:
        assert way in said
        assert {f"{100 * heir.shares[way]:.0f} %" for heir in example.heirs} <= set(said)
    for heir in example.heirs:
        assert f"{heir.letter} {100 * heir.shares['exact']:.0f} %" in said


def test_drawings_are_the_same_bytes_every_time(tmp_path):
    for draw in (draw_cell, lambda folder: draw_costs(made_up_costs(), folder)):
        first, second = (draw(tmp_path / name).read_bytes() for name in "ab")
        assert first == second
        assert b"<dc:date>" not in first
        assert b" \n" not in first


@pytest.mark.parametrize(("slope", "shown"), [(1.0, "1.0"), (-0.5, "−0.5"), (-0.01, "0.0")])
def test_every_line_shows_its_slope(tmp_path, slope, shown):
    said = texts(draw_costs(made_up_costs(slope), tmp_path))
    for label in AXES.values():
        assert label in said
    for name, *_ in LINES.values():
        assert said.count(f"{name} ({shown})") == len(AXES)


def test_the_page_shows_the_committed_measurements():
    assert f"{MARKS[0]}\n{measured_block(MEASURED)}{MARKS[1]}" in PAGE.read_text("utf-8")


def test_the_committed_figures_say_what_fresh_ones_say(tmp_path):
    assert texts(FIGURES / "pruned-cell.svg") == texts(draw_cell(tmp_path))
    fresh = draw_costs(MEASURED, tmp_path)
    committed = FIGURES / "move-cost.svg"
    assert committed.exists() == (fresh is not None)
    if fresh is not None:
        assert texts(committed) == texts(fresh)


def test_the_block_has_the_papers_costs_beside_ours():
    block = measured_block(made_up_moves())
    rows = [re.split(r"(?<!\\)\|", line) for line in block.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {11, 7}
    by_state = {row[1].strip(): [cell.strip() for cell in row[2:-1]] for row in rows[:5]}
    assert by_state["hard, uniform"] == [
        "50 of 5000",
        "10",
        r"O(d\|T\|N)",
        r"O(\|S\|\|N_δ\|) per image",
        "3000 ms",
        "2 ms",
        "**1500**",
        "mean L1 error 0.60",
    ]
    assert by_state["soft, 16-bit"][3] == r"O(N\|T\|)"
    assert by_state["soft, 16-bit"][-1] == "NO: too far"
    assert "| hard, exact | 5000 | 20 s | 8 s | 512 MiB |" in block
    assert "move-cost.svg" not in block
    assert "move-cost.svg" in measured_block(made_up_moves() | made_up_costs())


def test_writing_the_block_leaves_the_rest_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n", encoding="utf-8")
    write_measured(made_up_moves(), page)
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n{MARKS[0]}\n3 images of a wall")
    assert text.endswith(f"|\n{MARKS[1]}\nafter\n")
    assert "old" not in text
    write_measured({}, page)
    assert page.read_text("utf-8").count("\n") == 5


def test_results_at_home_bring_the_documents_up_to_date(tmp_path, monkeypatch):
    home, docs = tmp_path / "benchmarks", tmp_path / "docs"
    home.mkdir()
    docs.mkdir()
    (home / "results.json").write_text(json.dumps(made_up_costs()), encoding="utf-8")
    (docs / "inference.md").write_text(f"{MARKS[0]}\n{MARKS[1]}\n", encoding="utf-8")
    monkeypatch.setattr(command, "HERE", home)
    monkeypatch.setattr(command, "DOCS", docs)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--draw", "--output", str(home)])
    assert command.main() == 0
    assert "(figures/move-cost.svg)" in (docs / "inference.md").read_text("utf-8")
    assert (docs / "figures" / "move-cost.svg").exists()
