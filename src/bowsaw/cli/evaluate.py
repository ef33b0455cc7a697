"""``bowsaw evaluate``: how well a codebook recognises classes; ``compare`` without methods."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.cli.compare import progress_text
from bowsaw.comparison.compare import Step, evaluate
from bowsaw.comparison.records import Run
from bowsaw.evaluation.classifier import CALLED
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count
from bowsaw.report.page import write_page

EXAMPLE = "bowsaw evaluate scenes.store --words 1000 --splits 5"
AFTER_INTERRUPT = "With -o RUN, finished splits are kept, and the same command continues."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "store")
    text = (
        "words of the codebook that each split trains on its part codebook, or on its part train "
        f"if that is empty (default: {opt.default(evaluate, 'n_words')})"
    )
    opt.add(parser, "--words", opt.int_from(1), text)
    text = "use this codebook instead of training one; refused if it has seen test images"
    opt.add(parser, "--codebook", None, text)
    text = (
        "random splits of the sizes of the store's split, which is the first of them (default: "
        f"{opt.default(evaluate, 'n_splits')}; only the store's own with --codebook)"
    )
    opt.add(parser, "--splits", opt.int_from(1), text)
    text = "keep records and a page in this folder; the same command then continues"
    opt.add(parser, "-o --output", None, text, metavar="RUN")
    opt.add_overwrite(parser)
    opt.add(parser, "--json", bool, "print JSON instead of tables")
    opt.add(parser, "--confusion", bool, "print the confusion matrix as well")
    opt.add_jobs(parser, evaluate)
    opt.add_coding(parser)


def run(command: Command) -> None:
    options = command.options
    if options.codebook:
        opt.refuse_options(options, ("words",), "--codebook brings its own words. Give one of them")
        reason = "a codebook is tested on the store's own split. Leave it out, or give --words N"
        opt.refuse_options(options, ("splits",), reason)
    if not options.output:
        opt.refuse_options(options, ("overwrite",), "nothing is kept without -o. Leave it out")
    if options.json:
        opt.refuse_options(options, ("confusion",), "--json has every confusion. Leave it out")
    coding = opt.coding_of(options)
    book = load(options.codebook) if options.codebook else None
    store = opt.open_store(options.store)
    split = opt.split_of(store, "accuracy is measured on its test images")
    if options.output:
        opt.check_folder(options.output, options.store)
    if book is not None:
        opt.check_split(book, store, options)
    n_splits = options.splits or (1 if book else opt.default(evaluate, "n_splits"))
    command.note(
        f"{format_count(store.n_usable, 'image')} in "
        f"{format_count(len(store.classes), 'class', 'classes')}; per class "
        f"{split.n_codebook} for the codebook, {split.n_train} to train, the rest to test"
    )

    def show(step: Step) -> None:
        found = step.cell["results"].items()
        accuracies = ", ".join(f"{CALLED[name]} {one['accuracy']:.4f}" for name, one in found)
        command.note(f"split {step.cell['split']}: {accuracies} ({progress_text(step)})")

    result = evaluate(
        store,
        options.output,
        codebook=book,
        n_words=options.words or opt.default(evaluate, "n_words"),
        n_splits=n_splits,
        n_jobs=options.jobs,
        overwrite=options.overwrite,
        verbose=not command.quiet,
        command=shlex.join(["bowsaw", *options.typed]),
        on_cell=show,
        **coding,
    )
    where = {"coding": options.coding, "method": "given" if book else "full"}
    page = write_page(options.output) if options.output else None
    if options.json:
        command.json({"summary": result.table(), **result.about, "cells": result.cells})
        return
    _print_accuracies(command, result, where)
    _print_classes(command, result, where)
    if page is not None:
        command.result()
        command.result(f"records in {options.output}; the page: {page}")


def _print_accuracies(command: Command, run: Run, where: dict[str, Any]) -> None:
    rows = [row for row in run.table() if where.items() <= row.items()]
    n_splits = rows[0]["n_splits"]
    columns = {
        "histograms": [CALLED[row["mapping"]] for row in rows],
        "words": [f"{row['n_columns']:,}" for row in rows],
        "accuracy": [f"{row['mean']:.4f}" for row in rows],
        "± 95 %": [f"{row['margin']:.4f}" for row in rows],
    }
    if n_splits > 1:
        for name, key in (("spread", "std"), ("lowest", "lowest"), ("highest", "highest")):
            columns[name] = [f"{row[key]:.4f}" for row in rows]
    columns["C"] = [" ".join(f"{c:g}" for c in row["C"]) for row in rows]
    cells = run.select(**where)
    if cells[0]["sharpness"] is not None:
        chosen = [f"{cell['sharpness']:.4g}" for cell in cells]
        columns["sharpness"] = [" ".join(dict.fromkeys(chosen))] * len(rows)
    command.table(list(zip(*columns.values(), strict=True)), list(columns))
    images = format_count(cells[0]["n_test"], "test image")
    images += f" of each of {n_splits} splits" if n_splits > 1 else ""
    command.result(f"accuracy: mean per-class accuracy on the {images}")
    how = "over the test images"
    if n_splits > 1:
        how = "over splits that overlap, or over the test images if that is more"
    command.result(f"± 95 %: half of its 95 % interval, {how}")
    if n_splits > 1:
        command.result("spread: its standard deviation over the splits")


def _print_classes(command: Command, run: Run, where: dict[str, Any]) -> None:
    # Not the mapping with the higher accuracy: the test images would have chosen it.
    mapping = next(iter(CALLED))
    (about,) = run.about["sets"].values()
    classes = about["classes"]
    found = zip(classes, run.class_accuracy(mapping, **where), strict=True)
    command.result()
    command.result(f"per class, {CALLED[mapping]} histograms:")
    command.table(
        [(name, f"{value:.3f}") for name, value in sorted(found, key=lambda pair: -pair[1])],
        ("class", "accuracy"),
    )
    if command.options.confusion:
        command.result()
        command.result(f"confusion, {CALLED[mapping]} histograms (rows: truth, columns: answer):")
        width = len(str(len(classes) - 1))
        rows = []
        for i, counts in enumerate(run.confusion(mapping, **where).tolist()):
            rows.append([f"{i:>{width}} {classes[i]}", *(str(count or ".") for count in counts)])
        command.table(rows, ("class", *map(str, range(len(classes)))))
