"""``bowsaw compare``: methods × sizes × codings × splits on a folder of classes, and their page."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bowsaw.checkpoint import make_folder
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command, printable
from bowsaw.cli.extract import image_folder
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import Step, compare, plan
from bowsaw.comparison.methods import DEFAULT, METHODS
from bowsaw.comparison.records import Cell, Run, margin_of
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, MismatchError
from bowsaw.formatting import format_count, format_seconds
from bowsaw.images.folder import PRESETS
from bowsaw.images.split import split_by_class
from bowsaw.parallel import effective_jobs
from bowsaw.progress import color_system, live_display
from bowsaw.report.page import write_page
from bowsaw.store import extract
from bowsaw.store.catalog import CATALOG_NAME

EXAMPLE = (
    "bowsaw compare scenes/ --words 1000 --sizes 10,20,50,100,200,500 --coding hard,soft "
    "--splits 5 -o run/"
)
AFTER_INTERRUPT = "Finished cells are kept; run the same command again to continue."
MAX_WORKERS = 8
"""Processes unless more are asked for: each has memory of its own."""

Panel = tuple[str, str, int]  # set, coding, full words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder with one sub-folder per class, or a store made by bowsaw extract"
    parser.add_argument("images", metavar="IMAGES", help=text)
    text = "the folder of records and page"
    parser.add_argument("-o", "--output", required=True, metavar="RUN", help=text)
    integers, names = opt.comma_list(opt.int_from(1)), opt.comma_list(str)
    for flag, name, kind, values, text in (
        ("--words", "n_words", integers, [opt.default(compare, "n_words")], "full codebooks"),
        ("--sizes", "sizes", integers, opt.default(compare, "sizes"), "how many words to keep"),
        ("--coding", "coding", names, [opt.default(compare, "coding")], "hard, soft or both"),
        ("--methods", "methods", names, DEFAULT, f"among {', '.join(METHODS)}; full always is"),
    ):
        opt.add(parser, flag, kind, text, ",".join(map(str, values)), dest=name, metavar="A,B")
    opt.add_from(
        parser,
        compare,
        ("--splits", "n_splits", opt.int_from(1), "number of random splits"),
        ("--sharpness", "sharpness", opt.number, "of soft coding"),
    )
    opt.add(parser, "--preset", tuple(sorted(PRESETS)), "a known collection: selects its classes")
    text = "keep no patch and no image in the page; words are drawn as glyphs"
    opt.add(parser, "--no-pixels", bool, text)
    text = "the folder that a store's images came from, for patches and images in the page"
    opt.add(parser, "--images", str, text, dest="image_folder", metavar="FOLDER")
    text = (
        "processes that share the threads and measure cells in parallel; any number gives the same "
        f"records (default: one per thread, at most {MAX_WORKERS})"
    )
    opt.add(parser, "--workers", opt.int_from(1), text)
    opt.add_overwrite(parser)
    opt.add_jobs(parser, compare)
    opt.add_split_sizes(parser)


def run(command: Command) -> None:
    options = command.options
    names = ("n_words", "sizes", "coding", "methods", "n_splits", "sharpness")
    settings = {name: getattr(options, name) for name in names}
    # Wrong settings are refused before images are read.
    plan([], **settings)
    if "soft" not in options.coding:
        reason = "it belongs to soft coding, and the coding is hard. Add --coding soft"
        opt.refuse_options(options, ("sharpness",), reason)
    collection = _read_collection(command)
    folder = Path(options.output)
    watcher = Watcher(command)
    with live_display(watcher.live):
        result = compare(
            collection,
            folder,
            seed=options.seed,
            raw=None,
            n_jobs=options.jobs,
            n_workers=options.workers or min(effective_jobs(options.jobs), MAX_WORKERS),
            overwrite=options.overwrite,
            command=shlex.join(["bowsaw", *options.typed]),
            on_cell=watcher,
            **settings,
        )
    page = write_page(folder)
    print_tables(command, result)
    command.status("")
    command.status(
        f"{format_count(len(result.cells), 'cell')} in {folder}; the page: {page}; the descriptors "
        f"and codebooks in {folder / 'work'} may be deleted"
    )


def _read_collection(command: Command) -> Collection:
    """Return the images of a store, or of a folder after extraction into the run's folder."""
    options, begin = command.options, time.perf_counter()
    source, root = Path(options.images), None
    name = source.resolve().name.removesuffix(".store") or "images"
    if (source / CATALOG_NAME).exists():
        reason = "the images are in a store already. Leave it out"
        opt.refuse_options(options, ("preset", "no_pixels"), reason)
        store = opt.open_store(options.images)
        opt.check_folder(options.output, options.images)
        root = None if options.image_folder is None else Path(options.image_folder)
        if root is None:
            command.note("the page shows no pixels: a store has none. --images FOLDER adds them")
        elif not all((root / path).is_file() for path in store.paths[:1]):
            raise MismatchError(
                f"{root} has no {store.paths[0]}, the first image of {options.images}. Give the "
                "folder that was given to bowsaw extract."
            )
    else:
        reason = "it belongs to a store, and IMAGES is a folder. Leave it out"
        opt.refuse_options(options, ("images",), reason)
        images = image_folder(options.images, options.preset)
        if len(images.classes) < 2:
            raise DataError(
                f"{options.images} has 1 class, and a comparison needs at least 2. Give a folder "
                "with one sub-folder per class."
            )
        # Images that cannot be used make it fewer; that is checked again after reading them.
        sizes = {"codebook": options.train_codebook, "train": options.train}
        split_by_class(images.y, images.classes, **sizes)
        folder = opt.check_folder(options.output, options.images)
        classes = format_count(len(images.classes), "class", "classes")
        command.note(f"{name}: {format_count(len(images), 'file')} in {classes}")
        place = folder / "work" / f"{name}.store"
        make_folder(place.parent)
        store = extract(images, DenseSift(), place, n_jobs=options.jobs, verbose=not command.quiet)
        root = None if options.no_pixels else source
    return Collection.from_store(
        store,
        name,
        codebook_images=options.train_codebook,
        train=options.train,
        images=root,
        extract_seconds=round(time.perf_counter() - begin, 2),
    )


class Means:
    """Mean accuracies of cells, panel by panel, with their 95 % intervals."""

    def __init__(self, methods: Mapping[str, Any]) -> None:
        self._methods = methods
        self.panels: dict[Panel, dict[tuple[str, int], list[Cell]]] = {}

    def add(self, cell: Cell) -> Panel:
        """Add a cell and return its panel."""
        panel = (cell["set"], cell["coding"], cell["full_words"])
        found = self.panels.setdefault(panel, defaultdict(list))
        found[cell["method"], cell["size"]].append(cell)
        return panel

    def table(self, panel: Panel) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of a panel: a method's title, its coding, its means."""
        found = self.panels[panel]
        whole = ("full", "given")
        sizes = sorted({size for method, size in found if method not in whole})
        rows = []
        for name, method in self._methods.items():
            means = [_mean(found.get((name, size), [])) for size in sizes]
            if name not in whole and any(means):
                rows.append([method["title"], method["codes_with"], *means])
        return ["words kept", "codes with", *map(str, sizes)], rows


class Watcher:
    """Shows cells as they are measured; ``live`` is the table, None where there is no terminal."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._means = Means({name: method.record() for name, method in METHODS.items()})
        self._last: tuple[Any, ...] | None = None
        self._begin = time.perf_counter()
        self.live: Live | None = None
        if not command.quiet and sys.stderr is not None and sys.stderr.isatty():
            console = Console(stderr=True, color_system=color_system())
            self.live = Live(console=console, refresh_per_second=4, transient=True)

    def __call__(self, step: Step) -> None:
        """Show one more cell."""
        panel = self._means.add(step.cell)
        if self.live is not None:
            header, rows = self._means.table(panel)
            # Text, not markup: a set may be named "[old]".
            table = Table(box=None, pad_edge=False, title=Text(_title(panel)))
            table.title_justify = table.caption_justify = "left"
            for i, name in enumerate(("accuracy so far", *header[2:])):
                table.add_column(name, justify="right" if i else "left")
            for row in rows:
                table.add_row(row[0], *row[2:])
            seconds = format_seconds(time.perf_counter() - self._begin)
            table.caption = Text(f"{progress_text(step)}, {seconds} so far")
            self.live.update(table)
        elif (*panel, step.cell["split"]) != self._last:
            self._last = (*panel, step.cell["split"])
            split = f"split {step.cell['split']} ({progress_text(step)})"
            self._command.note(f"{_title(panel)}, {split}")


def progress_text(step: Step) -> str:
    """Return how many cells are done, and the time left."""
    text = f"{step.n_done} of {step.n_cells} cells"
    if step.seconds_left is not None and step.n_done < step.n_cells:
        text += f", about {format_seconds(step.seconds_left)} left"
    return text


def print_tables(command: Command, run: Run) -> None:
    """Print the mean accuracy of each method and size with its interval, panel by panel."""
    means = Means(run.about["methods"])
    for cell in run.cells:
        means.add(cell)
    for i, (panel, found) in enumerate(means.panels.items()):
        if i:
            command.result()
        command.result(_title(panel))
        header, rows = means.table(panel)
        if rows:
            command.table(rows, header)
        for name, text in (("full", "all"), ("given", "the given")):
            accuracy = _mean(found.get((name, panel[2]), []))
            if accuracy:
                command.result(f"{text} {panel[2]:,} words: {accuracy}")
    command.result("mean per-class accuracy on the test images ± half of its 95 % interval")


def _title(panel: Panel) -> str:
    name, coding, full_words = panel
    return printable(f"{name}, {coding} coding, from {full_words:,} words")


def _mean(cells: Sequence[Cell]) -> str:
    if not cells:
        return ""
    mean = np.mean([cell["results"]["sqrt"]["accuracy"] for cell in cells])
    return f"{mean:.3f} ± {margin_of(cells):.3f}"
