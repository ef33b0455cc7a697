"""Page and figure of the recorded experiments are those of the records."""

from collections import defaultdict
from pathlib import Path

import pytest

import bowsaw as bs
from bowsaw.report import write_figure, write_page
from reproduction.claims import verdicts
from reproduction.section import claims_section

TOP = Path(__file__).resolve().parents[1]
RESULTS = TOP / "results"


@pytest.fixture(scope="module")
def run():
    return bs.read_run(RESULTS)


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
