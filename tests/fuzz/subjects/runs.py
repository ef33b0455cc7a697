"""Evaluations and the records of runs, and the page that is made of them."""

from __future__ import annotations

import json
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.engine import Reader
from tests.fuzz.mutations import change_json, change_json_line, mixed
from tests.fuzz.structures import in_files, pack, unpack
from tests.fuzz.subjects.stores import fill
from tests.report.made_run import WORDS, made_run

from bowsaw.comparison.records import Run, read_run
from bowsaw.errors import FormatError
from bowsaw.evaluation.result import Evaluation
from bowsaw.report.page import write_page

_FILES = ("run.json", "cells.jsonl", "probes.jsonl", "details.jsonl")
_WAYS = {".jsonl": mixed(change_json_line, share=0.9), ".json": mixed(change_json, share=0.9)}


def _packed(folder: Path) -> bytes:
    return pack({n: (folder / n).read_bytes() for n in _FILES if (folder / n).exists()})


_STEPS, _POINTS = 24, 12


def _thinned(data: bytes) -> bytes:
    """Keep the first cells, and one short line of each kind of detail.

    A small run is read sooner, and a change is more often one to its structure than to one of
    a thousand numbers.
    """
    files = unpack(data)
    files["cells.jsonl"] = b"".join(files["cells.jsonl"].splitlines(keepends=True)[:2])
    if "details.jsonl" in files:
        kinds: dict[str, Any] = {}
        for line in files["details.jsonl"].splitlines():
            detail = json.loads(line)
            kinds.setdefault(detail["kind"], detail)
        for name in ("score", "accepted", "temperature"):
            kinds["trace"][name] = (kinds["trace"].get(name) or [])[:_STEPS] or None
        image = kinds["image"]
        for holder, name in ((image, "x"), (image, "y"), (image, "before"), (image["after"], "3")):
            holder[name] = holder[name][:_POINTS]
        lines = (json.dumps(detail) + "\n" for detail in kinds.values())
        files["details.jsonl"] = "".join(lines).encode()
    return pack(files)


@cache
def run_seeds(*, details: bool) -> list[bytes]:
    """Return two small runs, with one panel and with several."""
    found = []
    with tempfile.TemporaryDirectory() as place, patch.dict(WORDS, {False: [12], True: [12]}):
        for large, method in ((False, "refinement"), (True, "paper")):
            run = made_run(
                Path(place) / method,
                large=large,
                details=details,
                classes=["sea", "sky"],
                splits=1,
                sizes=[3],
                methods=["full", method],
                raw=None if large else (),
            )
            found.append(_thinned(_packed(run)))
    return found


def _in_folder(data: bytes, folder: Path) -> Path:
    place = folder / "run"
    place.mkdir(exist_ok=True)
    fill(unpack(data), place)
    return place


def _read_records(data: bytes, folder: Path) -> Run:
    return read_run(_in_folder(data, folder))


def _check_records(data: bytes, found: Run, folder: Path) -> None:
    assert found.about == json.loads(unpack(data)["run.json"]) or "NaN" in str(data)
    lines = unpack(data).get("cells.jsonl", b"").count(b"\n")
    assert len(found.cells) <= lines


def _read_page(data: bytes, folder: Path) -> str:
    return write_page(_in_folder(data, folder), folder / "page.html").read_text("utf-8")


def _check_page(data: bytes, found: str, folder: Path) -> None:
    assert found.rstrip().endswith("</html>")
    assert found.count("<script") == found.count("</script"), "a record has ended a script"


@cache
def _evaluation_seeds() -> list[bytes]:
    record: Any = {
        "split": 0,
        "mapping": "sqrt",
        "accuracy": 0.75,
        "class_accuracy": [1.0, 0.5],
        "confusion": [[2, 0], [1, 1]],
        "C": 1.0,
        "C_grid": [1.0],
        "C_scores": [0.7],
        "n_words": 4,
        "sharpness": None,
        "n_codebook": 2,
        "n_train": 2,
        "n_test": 4,
        "seconds": {"coding": 0.1},
    }
    return [Evaluation([record, record | {"split": 1}], ("cat", "dog")).to_json().encode()]


def _read_evaluation(data: bytes, folder: Path) -> Evaluation:
    found = Evaluation.from_json(data)
    found.table()
    return found


def _check_evaluation(data: bytes, found: Evaluation, folder: Path) -> None:
    assert Evaluation.from_json(found.to_json()) == found


READERS = [
    Reader(
        "evaluation",
        _evaluation_seeds,
        _read_evaluation,
        mixed(change_json, share=0.85),
        (FormatError,),
        _check_evaluation,
    ),
    Reader(
        "run-records",
        partial(run_seeds, details=False),
        _read_records,
        in_files(_WAYS),
        (FormatError,),
        _check_records,
        spliced=False,
    ),
    Reader(
        "run-page",
        partial(run_seeds, details=True),
        _read_page,
        in_files(_WAYS),
        (FormatError,),
        _check_page,
        spliced=False,
        watched=8,
    ),
]
