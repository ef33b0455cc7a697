"""``bowsaw fit``: a codebook and labelled descriptors to a classifier of histograms.

With ``--part train`` this is what ``bowsaw evaluate`` does in one split, so that the accuracy that
``evaluate`` reports is that of the classifier written here.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.checkpoint import exclusive
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError
from bowsaw.evaluation.classifier import MAPPINGS, HistogramClassifier
from bowsaw.formats.classifier import save_classifier
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count, format_seconds

EXAMPLE = "bowsaw fit small.safetensors scenes.store --part train --seed 0 -o model.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "codebook", "store", output="the classifier to write (.safetensors)")
    text = "what is done to each entry of a histogram: its square root, or nothing"
    C = "penalty of an error: a number, or auto (on part codebook with --part train, or by folds)"
    opt.add_from(
        parser,
        HistogramClassifier,
        ("--mapping", "mapping", MAPPINGS, text),
        ("--C", "C", opt.number_or_auto, C),
    )
    opt.add_jobs(parser, BagOfWords)
    opt.add_coding(parser, "the images that it learns from")
    opt.add_split(parser)


def run(command: Command) -> None:
    options = command.options
    opt.check_output(options.output, ".safetensors", codebook=options.codebook)
    store = opt.open_store(options.store)
    # Words of another tool have no description; the classifier then carries it for predict.
    book = load(options.codebook).with_description(store.description)
    coder = opt.coder_of(book, store, options, verbose=not command.quiet)
    classifier = HistogramClassifier(options.mapping, C=options.C, n_jobs=options.jobs)
    classifier.validate()
    rows, held = opt.part_rows(store, options), np.empty(0, dtype=np.int64)
    seeds = {"coding": options.seed, "classifier": options.seed}
    if options.part != "all":
        split = opt.split_of(store, options)
        held = split.codebook if options.part == "train" else held
        seeds = {purpose: split.seed_for(purpose) for purpose in seeds}
    y = np.array(store.classes)[store.y]
    if len(np.unique(y[rows])) < 2:
        raise DataError(
            f"a classifier needs images of 2 classes or more; the part {options.part} of "
            f"{options.store} has {len(np.unique(y[rows]))}. Choose another part or store."
        )
    begin = time.perf_counter()
    with exclusive(options.output):
        coder.set_params(random_state=seeds["coding"]).fit(store.bags[rows], y[rows])
        X = coder.transform(store.bags[rows])
        more = (coder.transform(store.bags[held]), y[held]) if len(held) else ()
        classifier.set_params(random_state=seeds["classifier"]).fit(X, y[rows], *more)
        chosen_on = "part codebook" if len(held) else "cross-validation"
        provenance: dict[str, Any] = {
            "store": store.digest,
            **opt.part_record(options),
            "n_images": len(rows),
            "C": classifier.C_,
            "C_chosen_on": chosen_on if options.C == "auto" else None,
            "version": __version__,
        }
        save_classifier(classifier, options.output, coder, provenance=provenance)
    accuracy = ""
    if len(classifier.scores_):
        images = format_count(len(held), "image")
        where = f"on the {images} that chose it" if len(held) else "of folds"
        accuracy = f" (mean per-class accuracy {classifier.scores_.max():.4f} {where})"
    command.status(
        f"{options.output}: {format_count(len(classifier.classes_), 'class', 'classes')} from "
        f"{format_count(len(rows), 'image')}, {format_count(book.n_words, 'word')}, "
        f"{opt.coding_text(coder)}, C {classifier.C_:g}{accuracy}, "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    command.hint(f"next: bowsaw predict {shlex.join([options.codebook, options.output])} image.jpg")
