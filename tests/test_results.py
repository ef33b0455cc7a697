"""Page, figure and README of the recorded experiments agree with the records."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import bowsaw as bs
from bowsaw.report import write_figure, write_page
from reproduction.claims import verdicts
from reproduction.section import claims_section

TOP = Path(__file__).resolve().parents[1]
RESULTS = TOP / "results"
ROWS = {
    "refined": "refinement",
    "Algorithm 1 as published": "paper",
    "k-means at that size": "kmeans",
    "random subset": "random",
    "bottleneck, codes with all 5000": "bottleneck",
}
COLUMNS = [
    (name, coding, size)
    for name in ("15-Scenes", "Caltech-10")
    for coding in ("hard", "soft")
    for size in (20, 50, 100)
]


@pytest.fixture(scope="module")
def run():
    return bs.read_run(RESULTS)


@pytest.fixture(scope="module")
def means(run):
    found = defaultdict(list)
    for cell in run.cells:
        key = (cell["method"], cell["set"], cell["coding"], cell["full_words"], cell["size"])
        found[key].append(cell["results"]["sqrt"]["accuracy"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def test_there_is_no_pixel_of_the_benchmarks(run):
    assert not [line for line in run.details if line.get("png") or line.get("jpeg")]
    assert "data:image" not in (RESULTS / "accuracy.svg").read_text("utf-8")


def test_the_page_and_the_figure_are_those_of_the_records(tmp_path):
    claims = claims_section(verdicts(bs.read_run(RESULTS)))
    page = write_page(RESULTS, tmp_path / "index.html", extra=[claims])
    assert page.read_bytes() == (RESULTS / "index.html").read_bytes()
    figure = write_figure(RESULTS, tmp_path / "accuracy.svg", only={"full_words": 5000})
    assert figure.read_bytes() == (RESULTS / "accuracy.svg").read_bytes()


def test_every_cell_of_a_panel_has_five_splits(run):
    splits = defaultdict(set)
    for cell in run.cells:
        key = (cell["set"], cell["coding"], cell["full_words"], cell["method"], cell["size"])
        splits[key].add(cell["split"])
    assert set(map(frozenset, splits.values())) == {frozenset(range(5))}


def test_the_table_on_the_first_page_is_what_was_measured(means):
    readme = (TOP / "README.md").read_text("utf-8")
    for title, method in ROWS.items():
        (line,) = [row for row in readme.splitlines() if row.startswith(f"| {title} |")]
        shown = [cell.strip() for cell in line.strip("|").split("|")][1:]
        found = [means[method, name, coding, 5000, size] for name, coding, size in COLUMNS]
        assert shown == [f"{value:.3f}".lstrip("0") for value in found], title
    (line,) = [row for row in readme.splitlines() if row.startswith("| all 5000 words |")]
    shown = [cell.strip() for cell in line.strip("|").split("|")][1:]
    full = [means["full", name, coding, 5000, 5000] for name, coding, _ in COLUMNS[::3]]
    assert [cell for cell in shown if cell] == [f"{value:.3f}".lstrip("0") for value in full]
