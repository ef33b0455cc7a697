"""``bowsaw compare``: methods × sizes × codings × splits on a folder of classes, and their page.

On a terminal a table of mean accuracies grows while cells are measured, with the time left; where
standard error is no terminal, one line is written per split of a panel.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command, printable
from bowsaw.cli.extract import image_folder
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import Step, compare, plan
from bowsaw.comparison.methods import DEFAULT, METHODS
from bowsaw.comparison.records import Cell
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ParameterError
from bowsaw.formatting import format_count, format_seconds
from bowsaw.images.folder import PRESETS
from bowsaw.images.split import split_by_class
from bowsaw.parallel import effective_jobs
from bowsaw.progress import color_system, live_display
from bowsaw.report.page import write_page
from bowsaw.store import Store, extract
from bowsaw.store.catalog import CATALOG_NAME

EXAMPLE = (
    "bowsaw compare scenes/ --words 1000 --sizes 10,20,50,100,200,500 --coding hard,soft "
    "--splits 5 -o run/"
)
AFTER_INTERRUPT = "Finished cells are kept; run the same command again to continue."
MAX_WORKERS = 8
"""Processes unless more are asked for: each has memory of its own."""

Panel = tuple[str, str, int]
"""Set, coding and full words."""
Means = dict[Panel, dict[tuple[str, int], list[float]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "images",
        metavar="IMAGES",
        help="a folder with one sub-folder per class, or a store made by bowsaw extract",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="RUN", help="the folder of records and page"
    )
    numbers, names = opt.comma_list(opt.int_from(1)), opt.comma_list(str)
    for flag, kind, values, text in (
        ("--words", numbers, [opt.default(compare, "n_words")], "sizes of the full codebooks"),
        ("--sizes", numbers, opt.default(compare, "sizes"), "how many words to keep"),
        ("--coding", names, [opt.default(compare, "coding")], "hard, soft or both"),
        ("--methods", names, DEFAULT, f"among {', '.join(METHODS)}; full always is"),
    ):
        parser.add_argument(
            flag,
            type=kind,
            default=list(values),
            metavar="A,B",
            help=f"{text} (default: {','.join(map(str, values))})",
        )
    parser.add_argument(
        "--splits",
        type=opt.int_from(1),
        default=opt.default(compare, "n_splits"),
        metavar="N",
        help="number of random splits (default: %(default)s)",
    )
    parser.add_argument(
        "--sharpness",
        type=opt.number,
        default=opt.default(compare, "sharpness"),
        metavar="S",
        help="of soft coding (default: %(default)s)",
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a known collection: selects its classes"
    )
    parser.add_argument(
        "--no-pixels",
        action="store_true",
        help="keep no patch and no image in the page; words are drawn as glyphs",
    )
    parser.add_argument(
        "--workers",
        type=opt.int_from(1),
        metavar="N",
        help="processes that share the threads and measure cells in parallel; any number gives "
        f"the same records (default: one per thread, at most {MAX_WORKERS})",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="start again where the folder holds a run"
    )
    opt.add_jobs(parser, compare)
    opt.add_split_sizes(parser)


def run(command: Command) -> None:
    """Measure all cells, write the page and print the accuracies."""
    options = command.options
    settings = {
        "n_words": options.words,
        "sizes": options.sizes,
        "coding": options.coding,
        "methods": options.methods,
        "n_splits": options.splits,
        "sharpness": options.sharpness,
    }
    # A wrong plan is refused before images are read.
    plan([], **settings)
    folder = check_folder(options.output, options.images)
    found = read_collection(command, options.images, folder)
    with watch_cells(command) as watcher:
        result = compare(
            found,
            folder,
            seed=options.seed,
            raw=None,
            n_jobs=options.jobs,
            overwrite=options.overwrite,
            n_workers=options.workers or min(effective_jobs(options.jobs), MAX_WORKERS),
            command=shlex.join(["bowsaw", *options.typed]),
            on_cell=watcher,
            **settings,
        )
    page = write_page(folder)
    print_tables(command, result.cells)
    command.status("")
    command.status(
        f"{format_count(len(result.cells), 'cell')} in {folder}; the page: {page}; the descriptors "
        f"and codebooks in {folder / 'work'} may be deleted"
    )


# -- the data ------------------------------------------------------------------------------------


def check_folder(path: str, source: str) -> Path:
    """Return the folder of a run, not made yet, or raise a ParameterError."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise ParameterError(f"the output {path} is a file. Name a folder.")
    if target.resolve().is_relative_to(Path(source).resolve()):
        raise ParameterError(
            f"the output {path} would lie among the images of {source} and be taken for a class. "
            "Choose a folder beside them."
        )
    if target.is_dir() and not (target / "run.json").exists():
        others = [p.name for p in target.iterdir() if p.name not in ("work", "writer.lock")]
        if others:
            raise ParameterError(
                f"the folder {path} holds {printable(others[0])} and no run. Choose another output."
            )
    return target


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"the folder {folder} cannot be made ({error.strerror}). Choose another output."
        ) from error
    opt.check_writable(folder)


def read_collection(command: Command, source: str, folder: Path) -> Collection:
    """Return a set of images."""
    options = command.options
    name = Path(source).resolve().name.removesuffix(".store") or "images"
    root: Path | None = None
    begin = time.perf_counter()
    if (Path(source) / CATALOG_NAME).exists():
        store = Store(source)
        _make_folder(folder)
    else:
        root = Path(source)
        images = image_folder(source, options.preset)
        _check_classes(source, len(images.classes))
        # Images that cannot be used make it fewer; that is checked again after reading them.
        split_by_class(
            images.y, images.classes, codebook=options.train_codebook, train=options.train
        )
        _make_folder(folder)
        classes = format_count(len(images.classes), "class", "classes")
        command.note(f"{name}: {format_count(len(images), 'file')} in {classes}")
        place = folder / "work" / f"{name}.store"
        place.parent.mkdir(parents=True, exist_ok=True)
        store = extract(images, DenseSift(), place, n_jobs=options.jobs, verbose=not command.quiet)
    _check_classes(source, len(np.unique(store.y)))
    return Collection.from_store(
        store,
        name,
        codebook_images=options.train_codebook,
        train=options.train,
        images=None if options.no_pixels else root,
        extract_seconds=round(time.perf_counter() - begin, 2),
    )


def _check_classes(source: str, n_classes: int) -> None:
    if n_classes < 2:
        raise DataError(
            f"{source} has usable images of {format_count(n_classes, 'class', 'classes')}, and a "
            "comparison needs at least 2. Give a folder with one sub-folder per class."
        )


# -- the tables ----------------------------------------------------------------------------------


class Watcher:
    """Shows cells as they are measured; ``live`` is the table, None where there is no terminal."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._means: Means = {}
        self._last: tuple[Any, ...] | None = None
        self.live: Live | None = None
        self._begin = time.perf_counter()
        if not command.quiet and sys.stderr is not None and sys.stderr.isatty():
            console = Console(stderr=True, color_system=color_system())
            self.live = Live(console=console, refresh_per_second=4, transient=True)

    def __call__(self, step: Step) -> None:
        """Show one more cell."""
        cell = step.cell
        panel = _collect(self._means, cell)
        progress = f"{step.n_done} of {step.n_cells} cells"
        if step.seconds_left is not None and step.n_done < step.n_cells:
            progress += f", about {format_seconds(step.seconds_left)} left"
        if self.live is not None:
            header, rows = _rows(self._means[panel])
            # Text, not markup: a set may be named "[old]".
            table = Table(box=None, pad_edge=False, title=Text(_title(panel)))
            table.title_justify = table.caption_justify = "left"
            for i, name in enumerate(("accuracy so far", *header[2:])):
                table.add_column(name, justify="right" if i else "left")
            for row in rows:
                table.add_row(row[0], *row[2:])
            seconds = format_seconds(time.perf_counter() - self._begin)
            table.caption = Text(f"{progress}, {seconds} so far")
            self.live.update(table)
        elif (*panel, cell["split"]) != self._last:
            self._last = (*panel, cell["split"])
            self._command.note(f"{_title(panel)}, split {cell['split']} ({progress})")


@contextmanager
def watch_cells(command: Command) -> Iterator[Watcher]:
    """Show cells inside the block: pass the value as ``on_cell``."""
    watcher = Watcher(command)
    with live_display(watcher.live):
        yield watcher


def print_tables(command: Command, cells: Sequence[Cell]) -> None:
    """Print the mean accuracy of each method and size, panel by panel."""
    means: Means = {}
    for cell in cells:
        _collect(means, cell)
    for number_, (panel, found) in enumerate(means.items()):
        if number_:
            command.result()
        command.result(_title(panel))
        header, rows = _rows(found)
        command.table(rows, header)
        full = found.get(("full", panel[2]), [])
        if full:
            command.result(f"all {panel[2]:,} words: {_mean(full)}")


def _collect(means: Means, cell: Cell) -> Panel:
    panel = (cell["set"], cell["coding"], cell["full_words"])
    found = means.setdefault(panel, defaultdict(list))
    found[cell["method"], cell["size"]].append(cell["results"]["sqrt"]["accuracy"])
    return panel


def _rows(found: dict[tuple[str, int], list[float]]) -> tuple[list[str], list[list[str]]]:
    sizes = sorted({size for method, size in found if method != "full"})
    rows = [
        [
            METHODS[method].title,
            METHODS[method].codes_with,
            *(_mean(found.get((method, size), [])) for size in sizes),
        ]
        for method in METHODS
        if method != "full" and any((method, size) in found for size in sizes)
    ]
    return ["words kept", "codes with", *map(str, sizes)], rows


def _title(panel: Panel) -> str:
    """Return the title of a panel.

    Examples
    --------
    >>> _title(("scenes", "hard", 1000))
    'scenes, hard coding, from 1,000 words'
    """
    name, coding, full_words = panel
    return printable(f"{name}, {coding} coding, from {full_words:,} words")


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" if values else ""
