"""The records of runs, and the page that is made from them."""

import json
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.engine import Reader
from tests.fuzz.mutations import change_json, change_json_line, mixed
from tests.fuzz.structures import in_files, pack, unpack
from tests.fuzz.subjects.stores import files_in, fill
from tests.report.made_run import WORDS, made_run

from bowsaw.comparison.records import Run, read_run
from bowsaw.errors import FormatError
from bowsaw.report.page import write_page

_WAYS = {".jsonl": mixed(change_json_line, share=0.9), ".json": mixed(change_json, share=0.9)}
_STEPS, _POINTS = 24, 12


def _thinned(files: dict[str, bytes]) -> bytes:
    """Keep the first cells and one short line of each kind of detail, to be read sooner."""
    files = {name: content for name, content in files.items() if name.endswith((".json", ".jsonl"))}
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
    found = []
    with tempfile.TemporaryDirectory() as place, patch.dict(WORDS, {False: [12], True: [12]}):
        for large, method in ((False, "refinement"), (True, "paper")):
            size = {"classes": ["sea", "sky"], "splits": 1, "sizes": [3]}
            options = {"methods": ["full", method], "raw": None if large else (), **size}
            run = made_run(Path(place) / method, large=large, details=details, **options)
            found.append(_thinned(files_in(run)))
    return found


def _read_records(data: bytes, folder: Path) -> Run:
    return read_run(fill(unpack(data), folder / "run"))


def _check_records(data: bytes, found: Run, folder: Path) -> None:
    assert found.about == json.loads(unpack(data)["run.json"]) or "NaN" in str(data)
    assert len(found.cells) <= unpack(data).get("cells.jsonl", b"").count(b"\n")


def _read_page(data: bytes, folder: Path) -> str:
    run = fill(unpack(data), folder / "run")
    return write_page(run, folder / "page.html").read_text("utf-8")


def _check_page(data: bytes, found: str, folder: Path) -> None:
    assert found.rstrip().endswith("</html>")
    assert found.count("<script") == found.count("</script"), "a record has ended a script"


_RUN = Reader("", run_seeds, _read_records, in_files(_WAYS), (FormatError,), spliced=False)
READERS = [
    replace(_RUN, name=name, seeds=partial(run_seeds, details=pages), read=read, check=check)
    for name, pages, read, check in (
        ("run-records", False, _read_records, _check_records),
        ("run-page", True, _read_page, _check_page),
    )
]
