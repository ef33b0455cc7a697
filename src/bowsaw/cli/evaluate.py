"""``bowsaw evaluate``: how well a codebook of a size recognises classes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classify import CALLED
from bowsaw.evaluation.protocol import evaluate
from bowsaw.evaluation.result import Evaluation, Record
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count, format_seconds

EXAMPLE = "bowsaw evaluate scenes.store --words 1000 --train-codebook 50 --train 50 --splits 5"
AFTER_INTERRUPT = "With -o FILE, finished splits are kept, and the same command continues."


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
        help=f"number of splits (default: {opt.default(evaluate, 'splits')}, 1 with --codebook)",
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
        metavar="FILE",
        help="write the results there (.json) after each split; run again to go on",
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
    if options.output:
        opt.check_output(options.output, ".json", codebook=options.codebook)
    book = load(options.codebook) if options.codebook else None
    store = opt.open_store(options.store)
    splits = options.splits
    if splits is None:
        splits = 1 if book is not None else opt.default(evaluate, "splits")
    more: dict[str, Any] = {} if options.words is None else {"n_words": options.words}
    command.note(
        f"{format_count(store.n_usable, 'image')} in "
        f"{format_count(len(store.classes), 'class', 'classes')}; of each class "
        f"{options.train_codebook} for the codebook, {options.train} to train, the rest to test"
    )
    result = evaluate(
        store.bags,
        store.y,
        store.classes,
        codebook=book,
        codebook_images=options.train_codebook,
        train=options.train,
        splits=splits,
        first_split=options.first_split,
        seed=options.seed,
        paths=store.paths,
        resume=options.output,
        on_split=_Teller(command, splits),
        n_jobs=options.jobs,
        verbose=not command.quiet,
        **opt.coding_of(options),
        **more,
    )
    if options.json:
        command.json(_plain(result))
        return
    _show(command, result)
    if options.output:
        command.status("")
        command.status(f"results: {options.output}")


class _Teller:
    """Tells the accuracy of each split when it is done, and how long the others may take."""

    def __init__(self, command: Command, n_splits: int) -> None:
        self._command, self._n_splits = command, n_splits
        self._seconds: list[float] = []

    def __call__(self, records: list[Record]) -> None:
        # Codebook and coding are shared by the records of a split; each has its own classifier.
        spent = records[0]["seconds"]
        classifiers = sum(record["seconds"]["classifier"] for record in records)
        self._seconds.append(spent["codebook"] + spent["coding"] + classifiers)
        n_done = len(self._seconds)
        left = (self._n_splits - n_done) * sum(self._seconds) / n_done
        accuracies = ", ".join(f"{CALLED[r['mapping']]} {r['accuracy']:.4f}" for r in records)
        self._command.note(
            f"split {records[0]['split']}: {accuracies} ({n_done} of {self._n_splits} done"
            + (f", about {format_seconds(left)} left)" if n_done < self._n_splits else ")")
        )


def _show(command: Command, result: Evaluation) -> None:
    _show_accuracies(command, result)
    # Not the better one: the test images would have chosen it.
    shown = result.mappings[0]
    shares = zip(result.classes, result.class_accuracy(shown), strict=True)
    command.result()
    command.result(f"each class, {CALLED[shown]} histograms:")
    command.table(
        [(name, f"{share:.3f}") for name, share in sorted(shares, key=lambda pair: -pair[1])],
        ("class", "accuracy"),
    )
    if command.options.confusion:
        command.result()
        command.result(f"confusion, {CALLED[shown]} histograms (rows: truth, columns: answer):")
        matrix = result.confusion(shown)
        width = len(str(len(result.classes) - 1))
        command.table(
            [
                (f"{i:>{width}} {name}", *(str(count or ".") for count in matrix[i].tolist()))
                for i, name in enumerate(result.classes)
            ],
            ("class", *map(str, range(len(result.classes)))),
        )


def _show_accuracies(command: Command, result: Evaluation) -> None:
    rows = result.table()
    columns = {
        "histograms": [CALLED[row["mapping"]] for row in rows],
        "words": [f"{row['n_words']:,}" for row in rows],
        "accuracy": [f"{row['mean']:.4f}" for row in rows],
    }
    if result.n_splits > 1:
        columns["spread"] = [f"{row['std']:.4f}" for row in rows]
        columns["lowest"] = [f"{row['lowest']:.4f}" for row in rows]
        columns["highest"] = [f"{row['highest']:.4f}" for row in rows]
    columns["C"] = [" ".join(f"{c:g}" for c in row["C"]) for row in rows]
    if result.records[0]["sharpness"] is not None:
        chosen = [f"{record['sharpness']:.4g}" for record in result.of(result.mappings[0])]
        columns["sharpness"] = [" ".join(dict.fromkeys(chosen))] * len(rows)
    command.table(list(zip(*columns.values(), strict=True)), list(columns))
    tests = format_count(result.records[0]["n_test"], "test image")
    where = f"{tests} of each of {result.n_splits} splits" if result.n_splits > 1 else tests
    command.result(f"accuracy: mean per-class accuracy on the {where}")
    if result.n_splits > 1:
        command.result("spread: its standard deviation over the splits")


def _plain(result: Evaluation) -> dict[str, Any]:
    """Return what ``-o`` writes, with the means over splits."""
    return {
        "summary": result.table(),
        "confusion": {name: result.confusion(name).tolist() for name in result.mappings},
        **json.loads(result.to_json()),
    }
