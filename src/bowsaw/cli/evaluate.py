"""``bowsaw evaluate``: how well a codebook of a size recognises classes."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.cli.compare import check_folder
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import Step, evaluate
from bowsaw.comparison.records import Run
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classifier import CALLED
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count, format_seconds
from bowsaw.report.page import write_page

EXAMPLE = "bowsaw evaluate scenes.store --words 1000 --train-codebook 50 --train 50 --splits 5"
AFTER_INTERRUPT = "With -o RUN, finished splits are kept, and the same command continues."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "--words",
        type=opt.int_from(1),
        metavar="N",
        help=f"words of the codebook that each split trains on its part codebook, or on its part "
        f"train if that is empty (default: {opt.default(evaluate, 'n_words')})",
    )
    parser.add_argument(
        "--codebook",
        metavar="FILE",
        help="use this codebook instead of training one; refused if it has seen test images",
    )
    parser.add_argument(
        "--splits",
        type=opt.int_from(1),
        metavar="N",
        help=f"random splits (default: {opt.default(evaluate, 'n_splits')}, 1 with --codebook)",
    )
    parser.add_argument(
        "--first-split",
        type=opt.int_from(0),
        default=opt.default(evaluate, "first_split"),
        metavar="I",
        help="the number of the first split: that of train --split, to test its codebook "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="RUN",
        help="a folder for the records and their page; run again to continue",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="start again where the folder holds a run"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--confusion", action="store_true", help="print the confusion matrix as well"
    )
    opt.add_jobs(parser, evaluate)
    opt.add_coding(parser)
    opt.add_split_sizes(parser)


def run(command: Command) -> None:
    """Evaluate a codebook and print the accuracies."""
    options = command.options
    if options.codebook and options.words is not None:
        raise ParameterError(
            "--words is for codebooks that are trained here, and --codebook brings its own words. "
            "Give one of them."
        )
    folder = check_folder(options.output, options.store) if options.output else None
    book = load(options.codebook) if options.codebook else None
    store = opt.open_store(options.store)
    splits = options.splits
    if splits is None:
        splits = 1 if book is not None else opt.default(evaluate, "n_splits")
    more: dict[str, Any] = {} if options.words is None else {"n_words": options.words}
    command.note(
        f"{format_count(store.n_usable, 'image')} in "
        f"{format_count(len(store.classes), 'class', 'classes')}; of each class "
        f"{options.train_codebook} for the codebook, {options.train} to train, the rest to test"
    )
    result = evaluate(
        Collection.from_store(store, codebook_images=options.train_codebook, train=options.train),
        folder,
        codebook=book,
        n_splits=splits,
        first_split=options.first_split,
        seed=options.seed,
        overwrite=options.overwrite,
        command=shlex.join(["bowsaw", *options.typed]),
        on_cell=lambda step: _report_split(command, step),
        n_jobs=options.jobs,
        verbose=not command.quiet,
        **opt.coding_of(options),
        **more,
    )
    page = None if folder is None else write_page(folder)
    if options.json:
        command.json({"summary": result.table(), **result.about, "cells": result.cells})
        return
    _print_tables(command, result)
    if page is not None:
        command.status("")
        command.status(f"records in {folder}; the page: {page}")


def _report_split(command: Command, step: Step) -> None:
    results = step.cell["results"].items()
    found = ", ".join(f"{CALLED[name]} {one['accuracy']:.4f}" for name, one in results)
    left = f", about {format_seconds(step.seconds_left)} left" if step.seconds_left else ""
    done = f"{step.n_done} of {step.n_cells} done"
    command.note(f"split {step.cell['split']}: {found} ({done}{left})")


def _print_tables(command: Command, result: Run) -> None:
    _print_accuracies(command, result)
    # Not the better one: the test images would have chosen it.
    (about,) = result.about["sets"].values()
    shares = zip(about["classes"], result.class_accuracy("sqrt"), strict=True)
    command.result()
    command.result(f"each class, {CALLED['sqrt']} histograms:")
    command.table(
        [(name, f"{share:.3f}") for name, share in sorted(shares, key=lambda pair: -pair[1])],
        ("class", "accuracy"),
    )
    if command.options.confusion:
        command.result()
        command.result(f"confusion, {CALLED['sqrt']} histograms (rows: truth, columns: answer):")
        matrix = result.confusion("sqrt")
        width = len(str(len(matrix) - 1))
        command.table(
            [
                (f"{i:>{width}} {name}", *(str(count or ".") for count in matrix[i].tolist()))
                for i, name in enumerate(about["classes"])
            ],
            ("class", *map(str, range(len(matrix)))),
        )


def _print_accuracies(command: Command, result: Run) -> None:
    rows, n_splits = result.table(), len({cell["split"] for cell in result.cells})
    columns = {
        "histograms": [CALLED[row["mapping"]] for row in rows],
        "words": [f"{row['n_coding_words']:,}" for row in rows],
        "accuracy": [f"{row['mean']:.4f}" for row in rows],
    }
    if n_splits > 1:
        columns["spread"] = [f"{row['std']:.4f}" for row in rows]
        columns["lowest"] = [f"{row['lowest']:.4f}" for row in rows]
        columns["highest"] = [f"{row['highest']:.4f}" for row in rows]
    columns["C"] = [" ".join(f"{c:g}" for c in row["C"]) for row in rows]
    if result.cells[0]["sharpness"] is not None:
        chosen = [f"{cell['sharpness']:.4g}" for cell in result.cells]
        columns["sharpness"] = [" ".join(dict.fromkeys(chosen))] * len(rows)
    command.table(list(zip(*columns.values(), strict=True)), list(columns))
    tests = format_count(result.cells[0]["n_test"], "test image")
    where = f"{tests} of each of {n_splits} splits" if n_splits > 1 else tests
    command.result(f"accuracy: mean per-class accuracy on the {where}")
    if n_splits > 1:
        command.result("spread: its standard deviation over the splits")
