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
        "bytes": {"safetensors": 30_100, "onnx": 32_000, "c_float32": 28_600, "c_uint8": 9_400},
        "seconds": {"python": 0.0012, "onnx": 0.00214, "c_float32": 0.0123},
        "error": 0.0,
        "same": True,
    }
    soft = {**row, "coding": "soft", "error": 2.5e-7}
    device = {
        "rows": [row, soft],
        "size": "9 rows",
        "runtime": "r 1",
        "compiler": "c",
        "same": True,
    }
    hardware = {"processor": "abacus", "system": "wood", "python": "3"}
    return {"measured": {"device": device}, "hardware": hardware}


def test_the_page_shows_what_was_measured():
    measured = json.loads((TOP / "benchmarks" / "results.json").read_text("utf-8"))
    assert f"{MARKS[0]}\n{device_block(measured)}{MARKS[1]}" in PAGE.read_text("utf-8")


def test_the_table_has_bytes_and_times(results):
    table = device_section(results["measured"]["device"])
    assert (
        "| hard | 50 | 30.1 kB | 32.0 kB | 28.6 kB | 9.4 kB | 1.2 ms | 2.14 ms | 12.3 ms |  |"
        in table
    )
    assert "differ by 2.5e-07 at most" in table
    results["measured"]["device"]["same"] = False
    assert "THE SIDES DISAGREE" in device_section(results["measured"]["device"])
