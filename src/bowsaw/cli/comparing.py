"""What ``compare`` needs: images to collections, cells to a live table.

On a terminal a table of mean accuracies grows while cells are measured, with the time left; where
standard error is no terminal, one line is written for each split of a panel.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bowsaw.cli.command import Command, counted, duration, printable
from bowsaw.cli.options import whole
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.methods import METHODS
from bowsaw.comparison.records import Cell
from bowsaw.comparison.run import Step
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ParameterError
from bowsaw.images.folder import ImageFolder
from bowsaw.images.split import split_by_class
from bowsaw.parallel import effective_jobs
from bowsaw.progress import color_system, live_display
from bowsaw.report.page_details import Painter
from bowsaw.store import Store, extract
from bowsaw.store.catalog import CATALOG_NAME

MOST_WORKERS = 8
"""Processes unless more are asked for: each has memory of its own."""

Shown = tuple[str, str, int]
"""Set, coding and full words: a panel."""


def listed(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a reader of values between commas.

    Examples
    --------
    >>> listed(int)("10,20")
    [10, 20]
    """

    def read(text: str) -> list[Any]:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise argparse.ArgumentTypeError(f"must be values between commas; got {text!r}")
        return [kind(part) for part in parts]

    return read


def check_folder(path: str, *images: str | None) -> Path:
    """Return the folder of a run, or say why it cannot be one; it is not made yet."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ParameterError(f"the output {path} is a file. Name a folder.")
    for source in images:
        if source and target.resolve().is_relative_to(Path(source).resolve()):
            raise ParameterError(
                f"the output {path} would lie among the images of {source} and be taken for a "
                "class. Choose a folder beside them."
            )
    has_run = (target / "run.json").exists()
    if target.is_dir() and not has_run:
        others = [p.name for p in target.iterdir() if p.name not in ("work", "writer.lock")]
        if others:
            raise ParameterError(
                f"the folder {path} holds {printable(others[0])} and no run. Choose another output."
            )
    return target


def make_folder(folder: Path) -> None:
    """Make the folder of a run, or say that it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ParameterError(
            f"nothing can be written in the folder {folder} ({error.strerror}). Choose another "
            "output."
        ) from error


def collection(
    command: Command,
    name: str,
    source: str,
    folder: Path,
    *,
    codebook_images: int,
    train: int,
    preset: str | None = None,
    n_jobs: int | None = -1,
) -> tuple[Collection, Store, Path | None]:
    """Return a set of images, its store, and the folder of its images where that is known."""
    root: Path | None = None
    begin = time.perf_counter()
    if (Path(source) / CATALOG_NAME).exists():
        store = Store(source)
        make_folder(folder)
    else:
        root = Path(source)
        images = ImageFolder.from_preset(preset, source) if preset else ImageFolder(source)
        if len(images.classes) < 2:
            raise DataError(
                f"{source} has {counted(len(images.classes), 'class', 'classes')}, and a "
                "comparison needs at least 2 to tell apart. Give a folder with one sub-folder a "
                "class."
            )
        # Images that cannot be used make it fewer; that is told when they have been read.
        split_by_class(images.y, images.classes, codebook=codebook_images, train=train)
        make_folder(folder)
        command.note(
            f"{name}: {counted(len(images), 'file')} in "
            f"{counted(len(images.classes), 'class', 'classes')}"
        )
        place = folder / "work" / f"{name}.store"
        place.parent.mkdir(parents=True, exist_ok=True)
        store = extract(images, DenseSift(), place, n_jobs=n_jobs, verbose=not command.quiet)
    y = np.asarray(store.y, dtype=np.int64)
    if len(np.unique(y)) < 2:
        raise DataError(
            f"{source} has usable images of {counted(len(np.unique(y)), 'class', 'classes')}, and "
            "a comparison needs at least 2 to tell apart. Give more classes."
        )
    about = {
        "descriptor": dict(store.description or {}),
        "n_set_aside": len(store.set_aside),
        "extract_seconds": round(time.perf_counter() - begin, 2),
    }
    found = Collection(name, store.bags, y, store.classes, codebook_images, train, about, store)
    return found, store, root


def painter_of(
    stores: Mapping[str, Store], roots: Mapping[str, Path], codings: Sequence[str]
) -> Callable[[Path], Painter]:
    """Return what makes the painter of a run."""
    coding = "hard" if "hard" in codings else codings[0]
    return partial(Painter, stores=stores, roots=roots, coding=coding)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add ``--workers``."""
    parser.add_argument(
        "--workers",
        type=whole(1),
        metavar="N",
        help="processes that share the threads and measure cells side by side; any number gives "
        f"the same records (default: one a thread, at most {MOST_WORKERS})",
    )


def workers_of(options: argparse.Namespace) -> int:
    """Return how many processes measure cells."""
    if options.workers is not None:
        return int(options.workers)
    return min(effective_jobs(options.jobs), MOST_WORKERS)


def typed(command: Command) -> str:
    """Return the command as it was typed, to be kept with the records."""
    return shlex.join(["bowsaw", *command.options.typed])


class Watcher:
    """Shows cells as they are measured; ``live`` is the table, None where nobody looks."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._accuracies: dict[Shown, dict[tuple[str, int], list[float]]] = {}
        self._last: tuple[Any, ...] | None = None
        self.live: Live | None = None
        self._step: Step | None = None
        self._begin = time.perf_counter()
        if not command.quiet and sys.stderr is not None and sys.stderr.isatty():
            console = Console(stderr=True, color_system=color_system())
            self.live = Live(console=console, refresh_per_second=4, transient=True)

    def __call__(self, step: Step) -> None:
        """Show one cell more."""
        cell = step.cell
        panel = (cell["set"], cell["coding"], cell["full_words"])
        found = self._accuracies.setdefault(panel, defaultdict(list))
        found[cell["method"], cell["size"]].append(cell["results"]["sqrt"]["accuracy"])
        self._step = step
        if self.live is not None:
            self.live.update(self._drawn(panel, step))
        now = (*panel, cell["split"])
        if now != self._last:
            self._last = now
            if self.live is None:
                self._command.note(
                    f"{panel_name(panel)}, split {cell['split']} "
                    f"({step.n_done} of {step.n_cells} cells{_left(step)})"
                )

    def _drawn(self, panel: Shown, step: Step) -> Table:
        found = self._accuracies[panel]
        sizes = sorted({size for method, size in found if method != "full"})
        table = Table(box=None, pad_edge=False, title=panel_name(panel), title_justify="left")
        table.add_column("accuracy so far")
        for size in sizes:
            table.add_column(str(size), justify="right")
        for method in METHODS:
            if method != "full" and any((method, size) in found for size in sizes):
                row = [_mean(found.get((method, size), [])) for size in sizes]
                table.add_row(METHODS[method].title, *row)
        full = found.get(("full", panel[2]), [])
        if full:
            table.add_row(f"all {panel[2]} words: {_mean(full)}")
        table.caption = Text(
            f"{step.n_done} of {step.n_cells} cells, "
            f"{duration(time.perf_counter() - self._begin)}{_left(step)}"
        )
        table.caption_justify = "left"
        return table


@contextmanager
def watched(command: Command) -> Iterator[Watcher]:
    """Show cells meanwhile: give what it yields to ``arena`` as ``on_cell``."""
    watcher = Watcher(command)
    with live_display(watcher.live):
        yield watcher


def show_tables(command: Command, cells: list[Cell]) -> None:
    """Print the mean accuracy of each method and size, panel by panel."""
    panels: dict[Shown, dict[tuple[str, int], list[float]]] = {}
    for cell in cells:
        panel = (cell["set"], cell["coding"], cell["full_words"])
        found = panels.setdefault(panel, defaultdict(list))
        found[cell["method"], cell["size"]].append(cell["results"]["sqrt"]["accuracy"])
    for number, (panel, found) in enumerate(panels.items()):
        sizes = sorted({size for method, size in found if method != "full"})
        if number:
            command.show()
        command.show(panel_name(panel))
        rows = [
            (
                METHODS[method].title,
                METHODS[method].codes_with,
                *(_mean(found.get((method, size), [])) for size in sizes),
            )
            for method in METHODS
            if method != "full" and any((method, size) in found for size in sizes)
        ]
        command.table(rows, ("words kept", "codes with", *map(str, sizes)))
        full = found.get(("full", panel[2]), [])
        if full:
            command.show(f"all {panel[2]:,} words: {_mean(full)}")


def panel_name(panel: Shown) -> str:
    """Return a panel as people call it.

    Examples
    --------
    >>> panel_name(("scenes", "hard", 1000))
    'scenes, hard coding, from 1,000 words'
    """
    name, coding, full_words = panel
    return printable(f"{name}, {coding} coding, from {full_words:,} words")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" if values else ""


def _left(step: Step) -> str:
    if step.seconds_left is None or step.n_done == step.n_cells:
        return ""
    return f", about {duration(step.seconds_left)} left"
