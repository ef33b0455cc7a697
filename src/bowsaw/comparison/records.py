"""Records of the arena: plain files that outlive the run, and everything that the page is made of.

A run is a folder.

==================  ============================================================================
``run.json``        one object: what was asked, of which images, by which command, on which machine
``cells.jsonl``     one line a *cell*: a method at a size, in a panel, on a split
``probes.jsonl``    one line for each measurement beside the cells (``probes/``)
``details.jsonl``   one line for each thing to draw (``drawing/``)
``index.html``      the page, made of these files alone
``work/``           descriptors and codebooks; may be deleted when the run is done
==================  ============================================================================

A *panel* is a set of images, a coding and the size of the full codebook. All text is ASCII (a file
name may hold what UTF-8 cannot), and no number is NaN (``null`` instead). ``Cell`` lists the keys
of a cell; everything in it but ``costs`` is the same whenever, and on however many threads, the
cell is measured.

Lines are appended and reach the disk one by one. A line that a kill or a full disk has cut is the
last one, and is dropped when the run goes on. Where a cell stands twice, the later line counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast

from bowsaw.checkpoint import atomic_write, regular_bytes, translate_enospc
from bowsaw.errors import FormatError
from bowsaw.validation import parse_json

FORMAT = "bowsaw-arena"
SCHEMA = 1
KEY = ("set", "split", "coding", "full_words", "method", "size")
"""What a cell is told from others by."""


class Outcome(TypedDict):
    """How well one mapping of a cell's histograms recognises the test images."""

    accuracy: float
    class_accuracy: list[float | None]
    confusion: list[list[int]]
    C: float
    C_grid: list[float]
    C_scores: list[float]


class Costs(TypedDict):
    """What a cell took; the only part of it that differs from run to run."""

    select_seconds: float
    codebook_seconds: float
    code_ms: float
    classify_seconds: float
    peak_bytes: int | None
    threads: int


class Cell(TypedDict):
    """One line of ``cells.jsonl``.

    ``size`` is what was asked for, ``n_columns`` what came out (merging may find fewer groups), and
    ``n_coding_words`` how many words a new descriptor is compared with. ``results`` has a key for
    each mapping that was measured. ``codebook_bytes`` are those of the words to code with, four a
    number.
    """

    set: str
    split: int
    coding: str
    full_words: int
    method: str
    size: int
    n_columns: int
    n_coding_words: int
    codes_with: str
    codebook_bytes: int
    n_codebook: int
    n_train: int
    n_test: int
    sharpness: float | None
    results: dict[str, Outcome]
    score: float | None
    certificate: dict[str, Any] | None
    seed: int | None
    parameters: dict[str, Any]
    costs: Costs
    fingerprint: str


Key = tuple[str, int, str, int, str, int]
Line = dict[str, Any]


def key_of(cell: Mapping[str, Any]) -> Key:
    """Return what a cell is told from others by."""
    return cast(Key, tuple(cell[name] for name in KEY))


@dataclass
class Run:
    """The records of one folder.

    Attributes
    ----------
    about : dict
        What ``run.json`` holds.
    cells, probes, details : list of dict
        The lines of the other files, in the order in which they were measured; of a cell that
        stands twice, the later.
    """

    about: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    probes: list[Line] = field(default_factory=list)
    details: list[Line] = field(default_factory=list)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read the records of a run.

    Parameters
    ----------
    folder : path-like
        What ``bowsaw compare -o`` has made.

    Returns
    -------
    Run

    Raises
    ------
    FormatError
        Where a file is missing, damaged or of another version.
    """
    where = Path(folder)
    about = read_about(where)
    cells = {key_of(cell): cell for cell in _cells(where / "cells.jsonl")}
    return Run(
        about,
        list(cells.values()),
        read_lines(where / "probes.jsonl", {"probe": str}),
        _latest(read_lines(where / "details.jsonl", {"kind": str})),
    )


def _latest(lines: list[Line]) -> list[Line]:
    """Return the lines, of those with the same key the last alone."""
    found = {json.dumps([line.get(name) for name in ("kind", *KEY)]): line for line in lines}
    return list(found.values())


def read_about(folder: Path) -> dict[str, Any]:
    """Return what ``run.json`` holds, or say why it is not one."""
    path = folder / "run.json"
    try:
        about = parse_json(regular_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        raise FormatError(
            f"{folder} is not a run: it has no run.json. Give the folder that bowsaw compare -o "
            "or bowsaw evaluate -o has made."
        ) from None
    except ValueError as error:
        raise FormatError(f"{path} is not JSON ({error}). Run the comparison again.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise FormatError(f"{path} is not the record of a run of bowsaw.")
    if about.get("schema") != SCHEMA:
        raise FormatError(
            f"{path} has schema {about.get('schema')!r}, and this bowsaw reads {SCHEMA}. Run the "
            "comparison again, or use the version of bowsaw that wrote it."
        )
    missing = {"kind", "command", "parameters", "sets", "methods"} - about.keys()
    if missing:
        raise FormatError(f"{path} lacks {', '.join(sorted(missing))}. Run the comparison again.")
    return about


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    text = json.dumps(about, indent=1, allow_nan=False) + "\n"
    with atomic_write(folder / "run.json") as file:
        file.write(text.encode())


class Ledger:
    """A file of lines that only grows; whole lines survive whatever happens to the process.

    Parameters
    ----------
    path : path-like
        The file; made when the first line is added.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "probes.jsonl"
    >>> Ledger(path).add({"probe": "cost"})
    >>> with path.open("ab") as file:
    ...     _ = file.write(b'{"probe": "cu')
    >>> Ledger(path).mend()
    >>> path.read_text().splitlines()
    ['{"probe": "cost"}']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def mend(self) -> None:
        """Drop a last line that was cut."""
        if not self.path.is_file():
            return
        with self.path.open("r+b") as file:
            content = file.read()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                file.truncate(whole)

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line and wait until it is on disk."""
        text = json.dumps(line, allow_nan=False) + "\n"
        with translate_enospc(self.path), self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Put these lines in place of all."""
        with atomic_write(self.path) as file:
            for line in lines:
                text = json.dumps(line, allow_nan=False) + "\n"
                file.write(text.encode())


_CELL_KINDS: dict[str, Any] = {
    "set": str,
    "split": int,
    "coding": str,
    "full_words": int,
    "method": str,
    "size": int,
    "n_columns": int,
    "n_coding_words": int,
    "codes_with": str,
    "codebook_bytes": int,
    "n_train": int,
    "n_test": int,
    "results": dict,
    "parameters": dict,
    "costs": dict,
    "fingerprint": str,
}
_OUTCOME_KINDS: dict[str, Any] = {"accuracy": float, "confusion": list, "C": float}


def _cells(path: Path) -> list[Cell]:
    lines = read_lines(path, _CELL_KINDS)
    for number, line in enumerate(lines, start=1):
        for name, outcome in line["results"].items():
            _check(path, number, outcome, _OUTCOME_KINDS, f"results.{name}")
    return cast(list[Cell], lines)


def read_lines(path: Path, kinds: Mapping[str, Any]) -> list[Line]:
    """Return the whole lines of a file, or say which of them lacks a key."""
    if not path.exists():
        return []
    lines = []
    try:
        content = regular_bytes(path)
    except FileNotFoundError:
        raise FormatError(
            f"{path} is not a file. Move it away, and run the same command."
        ) from None
    for number, text in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            line = parse_json(text)
        except ValueError as error:
            raise FormatError(
                f"{path}, line {number}, is not JSON ({error}). Delete that line; the same command "
                "measures it again."
            ) from error
        _check(path, number, line, kinds)
        lines.append(line)
    return lines


def _check(path: Path, number: int, line: Any, kinds: Mapping[str, Any], where: str = "") -> None:
    """Refuse a line whose keys are missing or of another kind."""
    for name, kind in kinds.items():
        value = line.get(name) if isinstance(line, dict) else None
        # JSON writes 1.0 as it pleases.
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not fits or (isinstance(value, bool) and kind is not bool):
            place = f"{where}.{name}" if where else name
            raise FormatError(
                f"{path}, line {number}: {place} is missing or of the wrong kind. Delete that "
                "line; the same command measures it again."
            )
