"""Records of a run: plain files from which the page is made.

A run is a folder.

==================  ============================================================================
``run.json``        one object: settings, images, methods, command, machine, versions
``cells.jsonl``     one line per *cell*: a method at a size, in a panel, on a split
``codebooks/``      the pruned codebooks, ``SET/SPLIT-CODING-FULLWORDS-METHOD-SIZE.safetensors``
``samples/``        per set, about 40 test images with their descriptors, ``SET.npz``
``index.html``      the page, made of these files alone
``work/``           full codebooks and checkpoints; may be deleted when the run is done
==================  ============================================================================

A *panel* is a set of images, a coding and the size of the full codebook. All text is ASCII (a file
name may hold what UTF-8 cannot), and no number is NaN (``null`` instead). Everything in a cell but
``costs`` is the same for any number of threads, workers and interruptions.

Lines are appended and reach the disk one by one. A line that was cut short by a kill or a full disk
is the last one; it is dropped when the run continues. Of a cell that occurs twice, the later
line counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import ConfusionMatrixDisplay

from bowsaw.checkpoint import JsonLines, atomic_write, regular_bytes
from bowsaw.errors import FormatError, ParameterError
from bowsaw.evaluation.measures import class_accuracies
from bowsaw.evaluation.significance import accuracy_margin
from bowsaw.formatting import format_count
from bowsaw.markup import table
from bowsaw.validation import Number, misfit, parse_json

FORMAT, SCHEMA = "bowsaw-run", 2
USUAL_C = 1.0
"""Of the classifiers of folds, unless another one is better."""

Outcome = dict[str, Any]
"""How well histograms recognise the test images: ``accuracy`` (mean over classes),
``class_accuracy``, ``confusion``, ``C``, ``C_grid`` and ``C_scores``. Of a fold, ``by_C`` has the
confusions and answers of every C; the others are for C = 1 in the file, and when it is read for the
C that the other folds choose."""


def outcome_of(matrix: Sequence[Sequence[int]]) -> Outcome:
    """Return accuracy, accuracy per class and confusion of a confusion matrix."""
    shares = class_accuracies(np.array(matrix))
    return {
        "accuracy": float(np.nanmean(shares)),
        "class_accuracy": [None if np.isnan(share) else float(share) for share in shares],
        "confusion": matrix,
    }


class Cell(TypedDict):
    """One line of ``cells.jsonl``.

    ``size`` is the number of words asked for, ``n_columns`` that of the histograms (merging may
    find fewer groups), and ``n_coding_words`` how many words a new descriptor is compared with.
    ``n_folds`` is there where splits are the folds of a cross-validation.
    ``results`` has a key per mapping ("sqrt", "raw"). ``codebook_bytes`` are those of the words to
    code with, four per number. ``trace`` is the path of a search (``step``, ``score``, ...), at
    most 200 points; ``answers`` the predicted classes of the sample images. Both may be null.
    ``costs`` are ``select_seconds``, ``codebook_seconds``, ``code_ms`` per image,
    ``classify_seconds`` and ``threads``.
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
    n_folds: NotRequired[int]
    sharpness: float | None
    results: dict[str, Outcome]
    score: float | None
    certificate: dict[str, Any] | None
    seed: int | None
    parameters: dict[str, Any]
    trace: dict[str, Any] | None
    answers: list[str] | None
    costs: dict[str, Any]
    fingerprint: str


class Key(NamedTuple):
    """What identifies a cell."""

    set: str
    split: int
    coding: str
    full_words: int
    method: str
    size: int


def key_of(cell: Mapping[str, Any]) -> Key:
    """Return what identifies a cell."""
    return Key(*(cell[name] for name in Key._fields))


def codebook_path(folder: Path, key: Key) -> Path:
    """Return the file of a cell's pruned codebook."""
    return folder / "codebooks" / key.set / f"{'-'.join(map(str, key[1:]))}.safetensors"


@dataclass(repr=False)
class Run:
    """The records of a run.

    Attributes
    ----------
    about : dict
        The content of ``run.json``.
    cells : list of Cell
        One per method, size, panel and split.
    probes, details : list of dict
        The lines of ``probes.jsonl`` and ``details.jsonl``, if there are any.

    Examples
    --------
    >>> outcome = {"accuracy": 0.75, "confusion": [[2, 0], [1, 1]], "class_accuracy": [1.0, 0.5]}
    >>> where = {"set": "toys", "coding": "hard", "full_words": 9, "method": "full", "size": 9}
    >>> cells = [{**where, "split": i, "results": {"sqrt": outcome}} for i in range(2)]
    >>> run = Run({}, cells)
    >>> run.accuracies(method="full"), run.confusion().tolist()
    (array([0.75, 0.75]), [[4, 0], [2, 2]])
    """

    about: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    probes: list[dict[str, Any]] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)

    def select(self, mapping: str = "sqrt", **where: Any) -> list[Cell]:
        """Return the cells that were measured with a mapping ("sqrt" or "raw"), split by split.

        ``where`` names values of set, split, coding, full_words, method and size.
        """
        unknown = where.keys() - set(Key._fields)
        if unknown:
            raise ParameterError(
                f"cells are selected by {', '.join(Key._fields)}; got {', '.join(sorted(unknown))}."
            )
        found = [
            cell
            for cell in self.cells
            if mapping in cell["results"] and where.items() <= key_of(cell)._asdict().items()
        ]
        if not found:
            raise ParameterError(f"no cell was measured with {mapping} histograms and {where}.")
        return sorted(found, key=lambda cell: cell["split"])

    def accuracies(self, mapping: str = "sqrt", **where: Any) -> NDArray[np.float64]:
        """Return the mean per-class accuracy of each selected cell, see :meth:`select`."""
        return self._stacked("accuracy", mapping, where)

    def confusion(self, mapping: str = "sqrt", **where: Any) -> NDArray[np.int64]:
        """Return the confusion matrix of the selected cells, ``(n_classes, n_classes)``, summed."""
        return np.asarray(self._stacked("confusion", mapping, where).sum(axis=0), dtype=np.int64)

    def class_accuracy(self, mapping: str = "sqrt", **where: Any) -> NDArray[np.float64]:
        """Return the accuracy per class, averaged over the selected cells, ``(n_classes,)``."""
        return np.asarray(np.nanmean(self._stacked("class_accuracy", mapping, where), axis=0))

    def _stacked(self, name: str, mapping: str, where: Any) -> NDArray[np.float64]:
        results: list[Any] = [cell["results"][mapping] for cell in self.select(mapping, **where)]
        return np.array([outcome[name] for outcome in results], dtype=np.float64)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per panel, method, size and mapping, with statistics over the splits.

        ``margin`` is half of the mean's 95 % interval (:mod:`bowsaw.evaluation.significance`);
        ``std`` is None for a single split; ``C`` is a list with one value per split.
        """
        groups: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell["split"]):
            name, _, *rest = key_of(cell)
            for mapping in cell["results"]:
                groups.setdefault((name, *rest, mapping), []).append(cell)
        rows = []
        names = [*(name for name in Key._fields if name != "split"), "mapping"]
        for where, cells in groups.items():
            outcomes = [cell["results"][where[-1]] for cell in cells]
            values = np.array([outcome["accuracy"] for outcome in outcomes])
            rows.append(
                {
                    **dict(zip(names, where, strict=True)),
                    "n_columns": cells[0]["n_columns"],
                    "n_coding_words": cells[0]["n_coding_words"],
                    "n_splits": len(cells),
                    "mean": float(values.mean()),
                    "margin": margin_of(cells, where[-1]),
                    "std": float(values.std(ddof=1)) if len(cells) > 1 else None,
                    "lowest": float(values.min()),
                    "highest": float(values.max()),
                    "C": [outcome["C"] for outcome in outcomes],
                }
            )
        return rows

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(cell["method"] for cell in self.cells))
        return f"Run({format_count(len(self.cells), 'cell')}: {methods})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a table per panel, a row per method, a column per size."""
        panels: dict[str, dict[str, dict[int, str]]] = {}
        unit = "fold" if any("n_folds" in cell for cell in self.cells) else "split"
        for row in self.table():
            panel = (
                f"{row['set']}, {row['coding']} coding, {row['mapping']} histograms of "
                f"{row['full_words']} words: accuracy with 95 % interval, "
                f"{format_count(row['n_splits'], unit)}"
            )
            found = panels.setdefault(panel, {}).setdefault(row["method"], {})
            found[row["size"]] = f"{row['mean']:.3f} ± {row['margin']:.3f}"
        tables = []
        for panel, methods in panels.items():
            sizes = sorted({size for found in methods.values() for size in found})
            rows = [[name, *map(found.get, sizes)] for name, found in methods.items()]
            tables.append(table(panel, ["method", *(f"{size} words" for size in sizes)], rows))
        return "".join(tables) or "a run without cells"

    def plot_confusion(self, mapping: str = "sqrt", *, ax: Any = None, **where: Any) -> Any:
        """Draw the confusion matrix of one method and size by scikit-learn's display; return that.

        ``where`` is as in :meth:`select`. Needs matplotlib: ``pip install 'bowsaw[plots]'``.
        """
        cells = self.select(mapping, **where)
        if len({key_of(cell)._replace(split=0) for cell in cells}) > 1:
            raise ParameterError(
                f"a confusion matrix is of one set, coding, full_words, method and size; {where} "
                "selects several. Name more of them."
            )
        names = self.about["sets"][cells[0]["set"]]["classes"]
        display = ConfusionMatrixDisplay(self.confusion(mapping, **where), display_labels=names)
        return display.plot(ax=ax, values_format="d", xticks_rotation="vertical", colorbar=False)


def margin_of(cells: Sequence[Cell], mapping: str = "sqrt") -> float:
    """Return half of the 95 % interval of the mean accuracy of a method's cells, one per split."""
    cell, outcomes = cells[0], [cell["results"][mapping] for cell in cells]
    n_seen = cell["n_train"] + cell.get("n_codebook", 0)
    # Folds test different images, random splits mostly the same.
    tests = outcomes if cell.get("n_folds") else outcomes[:1]
    counts = np.sum([np.sum(outcome["confusion"], axis=1) for outcome in tests], axis=0)
    accuracies = [outcome["accuracy"] for outcome in outcomes]
    return accuracy_margin(accuracies, cell["n_test"] / n_seen, counts)


def choose_c(cells: Sequence[Mapping[str, Any]], mapping: str = "sqrt") -> int:
    """Return the position in the grid of the C that is best over folds.

    That is 1, unless another one gains more than half a standard error of its accuracy: with 100 to
    150 images, the best of eleven is chosen by noise, and costs 1 to 2 points on other images.
    """
    outcomes = [cell["results"][mapping]["by_C"] for cell in cells]
    found = [[outcome_of(one)["accuracy"] for one in each["confusions"]] for each in outcomes]
    # Equal shares of right answers may differ in the last bit of their mean.
    means, grid = np.mean(found, axis=0).round(12), outcomes[0]["C"]
    best, usual = int(np.argmax(means)), grid.index(USUAL_C) if USUAL_C in grid else 0
    error = np.sqrt(means[best] * (1 - means[best]) / sum(cell["n_test"] for cell in cells))
    return best if means[best] - means[usual] > error / 2 else usual


def _by_other_folds(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, those of folds with the C that the other folds of their method choose."""
    if not any("n_folds" in cell for cell in cells):
        return list(cells)
    alike: dict[Any, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(key_of(cell)._replace(split=0), []).append(cell)
    made = []
    for cell in cells:
        others = [one for one in alike[key_of(cell)._replace(split=0)] if one is not cell]
        results, answers = dict(cell["results"]), cell.get("answers")
        for name, outcome in results.items():
            if "by_C" in outcome and others:
                at = choose_c([one for one in others if name in one["results"]], name)
                found = outcome["by_C"]
                C = found["C"][at]
                results[name] = {**outcome, **outcome_of(found["confusions"][at]), "C": C}
                answers = None if answers is None else found["answers"][at]
        made.append(cast(Cell, {**cell, "results": results, "answers": answers}))
    return made


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read the records of a run.

    Parameters
    ----------
    folder : path-like
        The output of ``compare`` or ``evaluate``.

    Returns
    -------
    Run

    Raises
    ------
    FormatError
        A file is missing, damaged or of another version; the message names file and line.
    """
    where = Path(folder)
    about = read_about(where)
    path, cells = where / "cells.jsonl", dict[Key, Cell]()
    for number, line in JsonLines(path).read():
        check_line(path, number, line, _CELL, "the same command measures it again.")
        n_classes = len(about["sets"].get(line["set"], {"classes": ()})["classes"])
        for name, outcome in line["results"].items():
            tables = [outcome["confusion"], *outcome.get("by_C", {}).get("confusions", [])]
            if not all(_is_table(table, n_classes) for table in tables):
                raise FormatError(
                    f"{path}, line {number}: results.{name}.confusion is not a table of the "
                    f"classes of {line['set']!r}. Remove that line; the same command measures it "
                    "again."
                )
        cells[key_of(line)] = cast(Cell, line)
    others = ("probes.jsonl", "details.jsonl")
    probes, details = ([line for _, line in JsonLines(where / name).read()] for name in others)
    return Run(about, _by_other_folds(list(cells.values())), probes, details)


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of ``run.json``, or raise a FormatError."""
    path = folder / "run.json"
    try:
        about = parse_json(regular_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        raise FormatError(
            f"{folder} is not a run: it has no run.json. Give a folder that bowsaw compare -o or "
            "bowsaw evaluate -o has made."
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
    part = misfit(about, _ABOUT)
    if part is not None:
        raise FormatError(
            f"{path}: {part} is missing or of the wrong type. Run the comparison again."
        )
    return about


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    with atomic_write(folder / "run.json") as file:
        file.write((json.dumps(about, indent=1, allow_nan=False) + "\n").encode())


_COUNT, _NATURAL = Number(1, whole=True), Number(0, whole=True)
_OUTCOME = {
    "accuracy": Number(0, 1),
    "confusion": [list],
    "C": Number(0),
    "C_scores?": [Number(0, 1)],
    "by_C?": {"C": [Number(0)], "confusions": [list], "answers": [[str]]},
}
_CERTIFICATE = {
    "n_bags": _NATURAL,
    **dict.fromkeys(("mean", "worst"), Number(0)),
    "allowed?": (None, Number(0)),
    "holds?": (None, bool),
}
_CELL = {
    **dict.fromkeys(("set", "coding", "method", "codes_with", "fingerprint"), str),
    **dict.fromkeys(("full_words", "size", "n_columns", "n_coding_words"), _COUNT),
    **dict.fromkeys(("codebook_bytes", "n_train"), _COUNT),
    **dict.fromkeys(("split", "n_codebook", "n_test", "n_folds?"), _NATURAL),
    "results": {"*": _OUTCOME},
    "parameters": dict,
    "costs": {"*": (None, Number(0))},
    "certificate?": (None, _CERTIFICATE),
    "trace?": (None, dict),
    "answers?": (None, [str]),
}
_ABOUT = {
    "command": str,
    "parameters": dict,
    "sets": {"*": {"classes": [str], "n_images?": _NATURAL}},
    "methods": {"*": {"title?": str, "summary?": str, "codes_with?": str}},
}


def _is_table(rows: Sequence[Sequence[object]], n: int) -> bool:
    flat = (type(count) is int and 0 <= count < 2**53 for row in rows for count in row)
    return {n, *map(len, rows)} == {len(rows)} and all(flat)


def check_line(path: Path, number: int, line: Any, shape: Any, remedy: str) -> None:
    """Refuse a line of records with a value that is missing or cannot be."""
    part = misfit(line, shape)
    if part is not None:
        raise FormatError(
            f"{path}, line {number}: {part or 'the line'} is missing, of the wrong type or out of "
            f"range. Remove that line; {remedy}"
        )
