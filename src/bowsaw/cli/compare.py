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
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from bowsaw.checkpoint import make_folder
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command, printable
from bowsaw.cli.extract import add_preset, image_folder
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import Step, compare, plan
from bowsaw.comparison.methods import DEFAULT, METHODS
from bowsaw.comparison.records import Cell, Run, margin_of
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, MismatchError
from bowsaw.formatting import format_count, format_seconds
from bowsaw.images.split import auto_sizes
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
"""Processes at most: each has memory of its own."""

Panel = tuple[str, str, int]  # set, coding, full words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder with one sub-folder per class, or a store made by bowsaw extract"
    parser.add_argument("images", metavar="IMAGES", help=text)
    text = "the folder of records and page"
    parser.add_argument("-o", "--output", required=True, metavar="RUN", help=text)
    integers, names = opt.comma_list(opt.int_from(1)), opt.comma_list(str)
    n_words, sizes = (opt.default(compare, name) for name in ("n_words", "sizes"))
    among = f"among {', '.join(METHODS)}; full always is"
    for flag, name, kind, values, text in (
        ("--words", "n_words", integers, [n_words], "words of full codebooks"),
        ("--sizes", "sizes", integers, sizes, "words to keep"),
        ("--methods", "methods", names, DEFAULT, among),
    ):
        opt.add(parser, flag, kind, text, ",".join(map(str, values)), dest=name, metavar="A,B")
    opt.add_from(parser, compare, ("--splits", "n_splits", opt.int_from(1), "random splits"))
    opt.add_overwrite(parser)
    opt.add_jobs(parser, compare)
    opt.add_sizes(parser, "auto; a store has its own")
    opt.add_coding(parser, "the training images of each split", several=True)
    text = "keep no patch and no image in the page; words are drawn as glyphs"
    opt.add(opt.advanced(parser), "--no-pixels", bool, text)
    text = "the folder that a store's images came from, for patches and images in the page"
    opt.add(parser, "--images", str, text, dest="image_folder", metavar="FOLDER")
    add_preset(parser)


def run(command: Command) -> None:
    options = command.options
    names = ("n_words", "sizes", "methods", "n_splits")
    settings = {**{name: getattr(options, name) for name in names}, **opt.coding_of(options)}
    # Wrong settings are refused before images are read.
    plan([], **settings)
    collection = _read_collection(command)
    folder = Path(options.output)
    watcher = Watcher(command)
    with live_display(watcher.live):
        result = compare(
            collection,
            folder,
            seed=options.seed or 0,
            raw=None,
            n_jobs=options.jobs,
            n_workers=min(effective_jobs(options.jobs), MAX_WORKERS),
            overwrite=options.overwrite,
            command=shlex.join(["bowsaw", *options.typed]),
            on_cell=watcher,
            **settings,
        )
    store = collection.store
    if store is not None and Path(options.images).resolve() != store.path.resolve():
        # Commands that use the store of the run's folder find its split there.
        store.set_split(
            codebook=collection.codebook_images, train=collection.train, seed=options.seed or 0
        )
    page = write_page(folder)
    print_tables(command, result)
    command.result()
    command.result(
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
        words = shlex.join(["bowsaw", "split", options.images])
        reason = f"the store has its split. Change it with: {words} A/B/rest --seed N"
        opt.refuse_options(options, ("split", "seed"), reason)
        store = opt.open_store(options.images)
        split = opt.split_of(store, "accuracy is measured on its test images")
        sizes, options.seed = (split.n_codebook, split.n_train), split.seed
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
        opt.check_sizes(images, options)
        folder = opt.check_folder(options.output, options.images)
        classes = format_count(len(images.classes), "class", "classes")
        command.note(f"{name}: {format_count(len(images), 'file')} in {classes}")
        place = folder / "work" / f"{name}.store"
        make_folder(place.parent)
        store = extract(images, DenseSift(), place, n_jobs=options.jobs, verbose=not command.quiet)
        given = options.split
        found = given if isinstance(given, tuple) else auto_sizes(store.y, store.classes)
        if found is None:
            raise DataError(
                f"a class of {options.images} has fewer than 3 images that can be used, and a "
                "comparison needs at least 3 per class. Add images, or move its folder away."
            )
        sizes = found
        root = None if options.no_pixels else source
    return Collection.from_store(
        store,
        name,
        codebook_images=sizes[0],
        train=sizes[1],
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
        self.panels.setdefault(panel, defaultdict(list))[cell["method"], cell["size"]].append(cell)
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
        self._begin = self._at = time.perf_counter()
        self._step: Step | None = None
        self._spinner = Spinner("dots")
        self.live: Live | None = None
        if not command.quiet and sys.stderr is not None and sys.stderr.isatty():
            console = Console(stderr=True, color_system=color_system())
            self.live = Live(console=console, get_renderable=self._render, transient=True)

    def __call__(self, step: Step) -> None:
        """Show one more cell."""
        panel = self._means.add(step.cell)
        self._step, self._at = step, time.perf_counter()
        if self.live is None and (*panel, step.cell["split"]) != self._last:
            self._last = (*panel, step.cell["split"])
            unit = "fold" if "n_folds" in step.cell else "split"
            done = " ".join(progress_text(step).split())
            self._command.note(f"{_title(panel)}, {unit} {step.cell['split']} ({done})")

    def _render(self) -> Group:
        """Return the table of the last panel that was begun, and below it what moves."""
        parts: list[Any] = []
        now = time.perf_counter()
        text = "the first cell is being measured"
        if self._step is not None:
            panel = list(self._means.panels)[-1]
            header, rows = self._means.table(panel)
            table = Table(box=None, pad_edge=False)
            for i, name in enumerate(("accuracy so far", *header[2:])):
                table.add_column(name, justify="right" if i else "left")
            for row in rows:
                table.add_row(row[0], *row[2:])
            # Text, not markup: a set may be named "[old]".
            parts = [Text(_title(panel)), table]
            left = self._step.seconds_left
            left = None if left is None else max(left - (now - self._at), 0.0)
            text = progress_text(self._step._replace(seconds_left=left))
        # Fixed widths: what follows a number stays where it is.
        self._spinner.text = Text(f"{format_seconds(now - self._begin):>12} so far, {text}")
        return Group(*parts, self._spinner)


def progress_text(step: Step) -> str:
    """Return how many cells are done, and the time left."""
    n_cells = f"{step.n_cells:,}"
    text = f"{step.n_done:>{len(n_cells)},} of {n_cells} cells"
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
