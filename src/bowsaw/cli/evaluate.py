"""``bowsaw evaluate``: how well a codebook of a size recognises classes."""

from __future__ import annotations

import argparse
from typing import Any

from bowsaw.cli.options import (
    Command,
    Verb,
    add_coding,
    add_jobs,
    add_split_sizes,
    default,
)
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.evaluation.result import Evaluation
from bowsaw.formats.safetensors import load
from bowsaw.store import Store

_NAMES = {"sqrt": "square-rooted", "raw": "raw"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "--words",
        type=int,
        metavar="K",
        help=f"words of the codebook that each split trains (default: "
        f"{default(evaluate, 'n_words')})",
    )
    parser.add_argument(
        "--codebook",
        metavar="FILE",
        help="use this codebook instead of training one; refused if it has seen test images",
    )
    add_split_sizes(parser)
    parser.add_argument(
        "--splits",
        type=int,
        metavar="N",
        help=f"how many random splits (default: {default(evaluate, 'splits')}, 1 with --codebook)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the results there as JSON after each split; run again to go on",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--confusion", action="store_true", help="print the confusion matrix as well"
    )
    add_coding(parser, BagOfWords)
    add_jobs(parser)


def _run(command: Command) -> None:
    options = command.options
    if options.codebook and options.words is not None:
        raise ParameterError("give --words or --codebook, not both: a codebook has its words.")
    store = Store(options.store)
    book = load(options.codebook) if options.codebook else None
    splits = options.splits or (1 if book is not None else default(evaluate, "splits"))
    more: dict[str, Any] = {} if options.words is None else {"n_words": options.words}

    def tell(records: list[Any]) -> None:
        for record in records:
            command.note(
                f"split {record['split'] + 1} of {splits}, {_NAMES[record['mapping']]}: "
                f"{record['accuracy']:.4f}"
            )

    with command.warnings_as_notes():
        result = evaluate(
            store.bags,
            store.y,
            store.classes,
            codebook=book,
            codebook_images=options.train_codebook,
            train=options.train,
            splits=splits,
            seed=options.seed,
            coding=options.coding,
            sharpness=options.sharpness,
            perplexity=options.perplexity,
            paths=store.paths,
            resume=options.output,
            on_split=tell,
            n_jobs=options.jobs,
            verbose=not command.quiet,
            **more,
        )
    if options.json:
        command.json(_plain(result))
        return
    _show(command, result)
    if options.output:
        command.say(f"\nresults: {options.output}")


def _show(command: Command, result: Evaluation) -> None:
    command.table(
        [
            (
                _NAMES[row["mapping"]],
                str(row["n_words"]),
                str(row["n_splits"]),
                f"{row['mean']:.4f}",
                "" if row["std"] is None else f"{row['std']:.4f}",
                f"{row['lowest']:.4f}",
                f"{row['highest']:.4f}",
                " ".join(f"{c:g}" for c in row["C"]),
            )
            for row in result.table()
        ],
        ("histograms", "words", "splits", "accuracy", "spread", "lowest", "highest", "C"),
    )
    command.say(
        "\naccuracy: mean per-class accuracy on test images; spread: its standard deviation"
    )
    best = max(result.mappings, key=result.mean)
    shares = result.class_accuracy(best)
    command.say(f"\nby class, {_NAMES[best]}:")
    command.table(
        [
            (name, f"{share:.3f}")
            for name, share in sorted(
                zip(result.classes, shares, strict=True), key=lambda pair: -pair[1]
            )
        ],
        ("class", "accuracy"),
    )
    if command.options.confusion:
        command.say(f"\nconfusion, {_NAMES[best]}: rows are the truth, columns the answer")
        matrix = result.confusion(best)
        numbers = tuple(str(i) for i in range(len(result.classes)))
        command.table(
            [
                (f"{i} {name}", *(str(count) for count in matrix[i]))
                for i, name in enumerate(result.classes)
            ],
            ("class", *numbers),
        )


def _plain(result: Evaluation) -> dict[str, Any]:
    return {
        "summary": result.table(),
        "parameters": result.parameters,
        "classes": list(result.classes),
        "confusion": {name: result.confusion(name).tolist() for name in result.mappings},
        "records": list(result.records),
    }


VERB = Verb(
    help="measure the mean per-class accuracy of a codebook size over random splits",
    example="bowsaw evaluate scenes.store --words 1000 --train-codebook 50 --train 50 --splits 5",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="With -o FILE, finished splits are kept, and the same command goes on.",
)
