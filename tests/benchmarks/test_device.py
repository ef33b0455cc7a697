"""What docs/device.md shows of bytes and milliseconds is what was measured."""

import json
from pathlib import Path

import pytest
from benchmarks.device import device_block, device_section
from benchmarks.report import MARKS

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs" / "device.md"


@pytest.fixture
def results():
    row = {
        "coding": "hard",
        "n_words": 50,
        "bytes": {"onnx": 44_000, "page": 65_000, "c_float32": 28_600, "c_uint8": 9_400},
        "memory": {"c_float32": 67_176, "onnx": 81_000_000},
        "seconds": {"python": 0.0012, "onnx": 0.00214, "c_float32": 0.0123},
        "same": True,
    }
    device = {
        "rows": [row, {**row, "coding": "soft"}],
        "size": "9 rows",
        "runtime": "r 1",
        "compiler": "c",
        "machine": "abacus, wood, Python 3",
        "same": True,
    }
    return {"measured": {"device": device}}


def test_the_page_shows_what_was_measured():
    measured = json.loads((TOP / "benchmarks" / "results.json").read_text("utf-8"))
    assert f"{MARKS[0]}\n{device_block(measured)}{MARKS[1]}" in PAGE.read_text("utf-8")


def test_the_table_has_bytes_and_times(results):
    table = device_section(results["measured"]["device"])
    assert "| hard | 50 | 44.0 kB | 65.0 kB | 28.6 kB | 9.4 kB | 67.2 kB |  | 81 MB |" in table
    assert "| hard | 50 | 1.2 ms |  | 2.14 ms |  | 12.3 ms |  |  |  |" in table
    assert "gave the same classes" in table
    results["measured"]["device"]["same"] = False
    assert "THE SIDES DISAGREE" in device_section(results["measured"]["device"])
