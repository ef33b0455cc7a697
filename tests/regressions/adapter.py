"""Every call of bowsaw that the regression tests share: a rename changes this file alone."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.made_run import made_run

import bowsaw as bs
from bowsaw.errors import BowsawError, DataError, FormatError, ParameterError
from bowsaw.evaluation.path import SizeEstimate
from bowsaw.report.summary import differences, panels_of
from bowsaw.scores._beta_kernel import beta_entropy
from bowsaw.scores.base import Score
from bowsaw.scores.presence import word_scores
from bowsaw.scores.relevance import Relevance

PAGE_FUNCTION = "bowsaw.report.page.page_html"
"""What makes the page, to be replaced by a bug."""
PRUNE_ANNEALING = ("--method", "annealing")
PART_ALL = ("--part", "all")
FORMAT_ERROR = FormatError

__all__ = ["BowsawError", "DataError", "Relevance", "beta_entropy", "word_scores"]


def checkpoint_of(output: Path) -> Path:
    """Return where a command keeps the checkpoint of an output."""
    return output.with_name(f"{output.name}.partial")


def fail_rename(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the system refuse to put a file of this name in its place."""
    replace = os.replace

    def failing(source: Any, target: Any, **options: Any) -> None:
        if Path(target).name == name:
            raise OSError(number, os.strerror(number), str(target))
        return replace(source, target, **options)

    monkeypatch.setattr("os.replace", failing)


def is_refused(call: Any, *args: Any, **options: Any) -> bool:
    """Return whether bowsaw refuses a call with an error of its own."""
    try:
        call(*args, **options)
    except BowsawError:
        return True
    return False


def interrupt_score(
    monkeypatch: pytest.MonkeyPatch, calls: int, *, by_signal: bool = False
) -> None:
    """Let Ctrl-C come while the score is computed for the given time."""
    update, n_calls = Score.update, [0]

    def interrupted(self: Score, *args: Any, **options: Any) -> float:
        n_calls[0] += 1
        if n_calls[0] == calls:
            if by_signal:
                signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt
        return update(self, *args, **options)

    monkeypatch.setattr(Score, "update", interrupted)


def stop(*_: Any, **__: Any) -> None:
    """Be interrupted."""
    raise KeyboardInterrupt


def refuse_swaps(monkeypatch: pytest.MonkeyPatch, state: type, call: int) -> None:
    """Let a state refuse one move."""
    swap, n_calls = state.swap, [0]

    def refusing(self: Any, *args: Any, **options: Any) -> Any:
        n_calls[0] += 1
        if n_calls[0] == call:
            raise ParameterError("this move leaves a bag without words.")
        return swap(self, *args, **options)

    monkeypatch.setattr(state, "swap", refusing)


def run_with(folder: Path, accuracies: dict[tuple[str, int], list[float]], full_words: int) -> Path:
    """Write a run whose methods have these accuracies, split by split; at "full", of all words."""
    sizes = sorted({size for method, size in accuracies if method != "full"})
    methods = list(dict.fromkeys(method for method, _ in accuracies))
    n_splits = len(next(iter(accuracies.values())))
    made_run(folder, details=False, splits=n_splits, sizes=sizes, methods=methods)
    lines = []
    for line in (folder / "cells.jsonl").read_text("utf-8").splitlines():
        cell = json.loads(line)
        key = (cell["method"], 0 if cell["method"] == "full" else cell["size"])
        if cell["coding"] != "hard" or cell["full_words"] != full_words:
            continue
        for result in cell["results"].values():
            result["accuracy"] = accuracies[key][cell["split"]]
        lines.append(json.dumps(cell) + "\n")
    (folder / "cells.jsonl").write_text("".join(lines), "utf-8")
    return folder


def p_of_difference(folder: Path, method: str, peer: str) -> tuple[float, dict[str, Any]]:
    """Return the p of one method against another, and a cell of the run."""
    run = bs.read_run(folder)
    (panel,) = panels_of(run.about, run.cells)
    found = differences(panel, "sqrt", method)
    (one,) = [d for d in found if d.peer == peer]
    return float(one.p or 0.0), dict(run.cells[0])


def recommend(table: list[tuple[int, float, float, float]], **limits: float) -> Any:
    """Return what a path recommends where its estimates are (size, accuracy, loss, error)."""
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    bags = [rng.normal([label, 0.0], 1.0, size=(20, 2)) for label in y]
    book = bs.Codebook(rng.normal(size=(table[0][0], 2)))
    sizes = [row[0] for row in table[1:]]
    path = bs.PruningPath(book, sizes=sizes, cv=2, random_state=0, n_jobs=1).fit(bags, y)
    path._table = tuple(
        SizeEstimate(n, a, error, 2 * error, loss, error, 8 * n) for n, a, loss, error in table
    )
    return path.recommend(**limits)


def images_seen(selection: Any) -> np.ndarray:
    """Return the digests of the images that chose or taught the words of a selection."""
    seen = selection.codebook.trained_on
    return np.empty(0, np.uint64) if seen is None else seen


def ranking_by_chi2(codebook: Any, n_kept: int) -> Any:
    return bs.PresenceRanking(codebook, n_kept, measure="chi2", n_jobs=1)
