"""``bowsaw fit``: a codebook and labelled descriptors to a classifier of histograms.

With ``--part train`` this is what ``bowsaw evaluate`` does in one split: the machines learn from
the part train, and C is chosen on the part codebook. So the accuracy that ``evaluate`` tells is
that of the classifier written here.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.cli.command import Command, Verb, counted, duration
from bowsaw.cli.options import (
    add_coding,
    add_jobs,
    add_split,
    check_output,
    coding_of,
    default,
    number_or_auto,
    open_store,
    part_record,
    split_of,
)
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError
from bowsaw.evaluation.classify import MAPPINGS, HistogramClassifier
from bowsaw.formats.classifier import save_classifier
from bowsaw.formats.vocabulary import load


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train or prune")
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the classifier to write (.safetensors)",
    )
    parser.add_argument(
        "--mapping",
        choices=MAPPINGS,
        default=default(HistogramClassifier, "mapping"),
        help="what is done to each entry of a histogram first: its square root, or nothing "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--C",
        type=number_or_auto,
        default=default(HistogramClassifier, "C"),
        metavar="C",
        help="the price of an error: a number, or auto to choose it on the part codebook "
        "(--part train) or by cross-validation (default: %(default)s)",
    )
    add_jobs(parser, BagOfWords)
    add_coding(parser, "the images that it learns from")
    add_split(parser)


def _run(command: Command) -> None:
    options = command.options
    check_output(options.output, ".safetensors", codebook=options.codebook)
    book, store = load(options.codebook), open_store(options.store)
    # The words of another tool do not know what they code; the classifier then tells predict.
    book = book.with_description(store.description)
    coder = BagOfWords(book, random_state=0, n_jobs=options.jobs, **coding_of(options))
    classifier = HistogramClassifier(options.mapping, C=options.C, n_jobs=options.jobs)
    # What does not fit should be told before the work begins.
    coder.transform(store.bags[:0])
    book.words_for(store.bags)
    classifier.validate()
    rows, held = np.arange(store.n_usable), np.empty(0, dtype=np.int64)
    seeds = {"coding": options.seed, "classifier": options.seed}
    if options.part != "all":
        split = split_of(store, options)
        rows = split.part(options.part)
        held = split.codebook if options.part == "train" else held
        seeds = {purpose: split.seed_for(purpose) for purpose in seeds}
    y = np.array(store.classes)[store.y]
    if len(np.unique(y[rows])) < 2:
        raise DataError(
            f"a classifier needs images of 2 classes or more; the part {options.part} of "
            f"{options.store} has {len(np.unique(y[rows]))}. Choose another part or store."
        )
    begin = time.perf_counter()
    coder.set_params(random_state=seeds["coding"], verbose=not command.quiet)
    coder.fit(store.bags[rows], y[rows])
    X = coder.transform(store.bags[rows])
    more = (coder.transform(store.bags[held]), y[held]) if len(held) else ()
    classifier.set_params(random_state=seeds["classifier"]).fit(X, y[rows], *more)
    chosen_on = "part codebook" if len(held) else "cross-validation"
    provenance: dict[str, Any] = {
        "store": store.digest,
        **part_record(options),
        "n_images": len(rows),
        "C": classifier.C_,
        "C_chosen_on": chosen_on if options.C == "auto" else None,
        "version": __version__,
    }
    save_classifier(classifier, options.output, coder, provenance=provenance)
    sharpness = "" if coder.coding == "hard" else f" of sharpness {coder.sharpness_in_use():.4g}"
    told = ""
    if len(classifier.scores_):
        where = f"on the {counted(len(held), 'image')} that chose it" if len(held) else "of folds"
        told = f" (mean per-class accuracy {classifier.scores_.max():.4f} {where})"
    command.say(
        f"{options.output}: {counted(len(classifier.classes_), 'class', 'classes')} from "
        f"{counted(len(rows), 'image')}, {counted(book.n_words, 'word')}, {coder.coding} coding"
        f"{sharpness}, C {classifier.C_:g}{told}, {duration(time.perf_counter() - begin)}"
    )
    command.hint(
        f"next: bowsaw predict {shlex.quote(options.codebook)} {shlex.quote(options.output)} "
        "picture.jpg"
    )


VERB = Verb(
    example="bowsaw fit small.safetensors scenes.store --part train --seed 0 -o model.safetensors",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Nothing was written. Run the same command again.",
)
