"""A short run of each reader, the same in every run of the tests; ``make fuzz`` makes long ones."""

import json
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from tests.fuzz.engine import Finding, Reader, Search, attempt
from tests.fuzz.mutations import change_bytes, mixed
from tests.fuzz.readers import READERS

from bowsaw.errors import FormatError

FINDINGS = sorted((Path(__file__).parent / "findings").iterdir())
FEW = {"run-page": 4, "command-line": 12, "run-records": 40, "store": 60}
"""Inputs of the readers that take long."""


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_inputs_that_coverage_leads_to(reader, tmp_path):
    search = Search(reader, 1, tmp_path)
    assert search.accepted, "no seed file is valid"
    for index in range(FEW.get(reader.name, 120)):
        search.step(search.draw(index), index)
    assert search.findings == []


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.name)
def test_what_was_found_stays_fixed(path, tmp_path):
    reader = READERS[path.name.partition("--")[0]]
    found = attempt(reader, path.read_bytes(), tmp_path)
    assert not isinstance(found, Finding)
    assert (found == "accepted") == (path.suffix == ".accepted")


def test_the_figures_in_the_documents_are_those_that_were_kept():
    lines = (Path(__file__).parent / "figures.jsonl").read_text("utf-8").splitlines()
    shown = (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text("utf-8")
    figures = {line["reader"]: line for line in map(json.loads, lines)}
    not_measured = shown.partition("Not measured again")[2].partition("\n\n")[0]
    assert set(figures) == {name for name in READERS if f"`{name}`" not in not_measured}
    for name, line in figures.items():
        numbers = (line[k] for k in ("inputs", "accepted", "refused", "new_edges", "findings"))
        row = [f"`{name}`", str(line["seed"]), *(f"{number:,}" for number in numbers)]
        assert f"| {' | '.join(row)} |" in shown
        assert line["findings"] == 0
        assert line["accepted"] + line["refused"] == line["inputs"]


def signed(content: bytes) -> bytes:
    return crc32(content).to_bytes(4, "big") + content


def read_planted(data: bytes, folder: Path) -> bytes:
    """Read a file with a checksum, and fail where its length is not checked."""
    if len(data) < 5 or crc32(data[4:]).to_bytes(4, "big") != data[:4]:
        raise FormatError("the checksum is wrong")
    return data[5 : 5 + data[4]][data[4] - 1 : data[4]] or data[4:][data[4]].to_bytes(1, "big")


def change_inside(data: bytes, rng: Random) -> bytes:
    return signed(change_bytes(data[4:], rng))


PLANTED = Reader("planted", lambda: [signed(b"\x03abc")], read_planted, mixed(change_inside))


def run_of(reader, folder, n_inputs=200):
    search = Search(reader, 0, folder)
    drawn = []
    for index in range(n_inputs):
        drawn.append(search.draw(index))
        search.step(drawn[-1], index)
    return drawn, search


def test_a_mistake_behind_a_checksum_is_found(tmp_path):
    findings = run_of(PLANTED, tmp_path)[1].findings
    assert {finding.detail.partition(":")[0] for finding in findings} == {"IndexError"}


def test_a_run_that_continues_draws_the_same_inputs(tmp_path):
    drawn, whole = run_of(READERS["checkpoint"], tmp_path)
    again, first = run_of(READERS["checkpoint"], tmp_path, 100)
    assert again == drawn[:100]
    second = Search(READERS["checkpoint"], 0, tmp_path)
    second.begin(first.corpus)
    for index in range(100, 200):
        data = second.draw(index)
        assert data == drawn[index]
        second.step(data, index)
    assert second.corpus == whole.corpus
