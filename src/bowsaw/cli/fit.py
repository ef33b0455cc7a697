"""``bowsaw fit``: a codebook and labelled descriptors to a classifier of histograms.

With the part train this is what ``bowsaw evaluate`` does in one split, so that the accuracy that
``evaluate`` reports is that of the classifier written here.

An accuracy is shown only if the images had no part in the words and in the sharpness: by folds, in
each of which C is chosen without the images that test (it is chosen again, or on part codebook).
Otherwise the command that measures a true one is shown.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bowsaw._version import __version__
from bowsaw.checkpoint import exclusive
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError
from bowsaw.evaluation.classifier import MAPPINGS, HistogramClassifier, nested_accuracy
from bowsaw.evaluation.leaks import own_split, seen_by
from bowsaw.formats.classifier import save_classifier
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count, format_seconds
from bowsaw.store import Store

EXAMPLE = "bowsaw fit small.safetensors scenes.store -o model.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "codebook", "store", output="the classifier to write (.safetensors)")
    text = "sqrt: square roots of the histogram, so that frequent words weigh less; raw: as it is"
    C = (
        "how much errors on training images count: larger fits them more closely; auto takes the "
        "best of a grid, on part codebook or by folds"
    )
    opt.add_from(
        opt.advanced(parser),
        HistogramClassifier,
        ("--mapping", "mapping", MAPPINGS, text),
        ("--C", "C", opt.number_or_auto, C),
    )
    opt.add_jobs(parser, BagOfWords)
    opt.add_coding(parser, "the images that it learns from")
    opt.add_part(parser, "train")


def run(command: Command) -> None:
    options = command.options
    opt.check_output(options.output, ".safetensors", "classifier", codebook=options.codebook)
    store = opt.open_store(options.store)
    # Words of another tool have no description; the classifier then carries it for predict.
    book = load(options.codebook).with_description(store.description)
    coder = opt.coder_of(book, store, options, verbose=not command.quiet)
    classifier = HistogramClassifier(options.mapping, C=options.C, n_jobs=options.jobs)
    classifier.validate()
    part, held = opt.part_of(command, store, "train"), np.empty(0, dtype=np.int64)
    rows, seeds = part.rows, {"coding": 0, "classifier": 0}
    if part.split is not None and part.name != "all":
        held = part.split.codebook if part.name == "train" else held
        seeds = {purpose: part.split.seed_for(purpose) for purpose in seeds}
    y = np.array(store.classes)[store.y]
    if len(np.unique(y[rows])) < 2:
        raise DataError(
            f"a classifier needs images of 2 classes or more; the part {part.name} of "
            f"{options.store} has {len(np.unique(y[rows]))}. Choose another part or store."
        )
    if part.name != "all":
        opt.check_split(book, store, options)
    begin = time.perf_counter()
    with exclusive(options.output):
        coder.set_params(random_state=seeds["coding"]).fit(store.bags[rows], y[rows])
        X = coder.transform(store.bags[rows])
        more = (coder.transform(store.bags[held]), y[held]) if len(held) else ()
        classifier.set_params(random_state=seeds["classifier"]).fit(X, y[rows], *more)
        chosen_on = "part codebook" if len(held) else "cross-validation"
        accuracy, unknown = None, _why_unknown(book, store, options, rows, held)
        if unknown is None:
            # Part codebook tests nothing, so the C that it chose may serve every fold.
            again = classifier if not len(held) else clone(classifier).set_params(C=classifier.C_)
            accuracy = nested_accuracy(again, X, y[rows], seed=seeds["classifier"])
        provenance: dict[str, Any] = {
            "store": store.digest,
            **part.record(),
            "n_images": len(rows),
            "C": classifier.C_,
            "C_chosen_on": chosen_on if options.C == "auto" else None,
            "accuracy": accuracy and dict(zip(("mean", "margin"), accuracy, strict=True)),
            "accuracy_by": "folds of these images" if accuracy else unknown,
            "version": __version__,
        }
        save_classifier(classifier, options.output, coder, provenance=provenance)
    command.result(
        f"{options.output}: {format_count(len(classifier.classes_), 'class', 'classes')} from "
        f"{format_count(len(rows), 'image')}, {format_count(book.n_words, 'word')}, "
        f"{opt.coding_text(coder)}, C {classifier.C_:g}, "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    if accuracy is not None:
        how = {"part codebook": "chosen on part codebook", None: "as given"}
        command.result(
            f"accuracy: {accuracy[0]:.4f} ± {accuracy[1]:.4f} (95 % interval), mean per class, by "
            f"folds of these images; C {how.get(provenance['C_chosen_on'], 'chosen in each fold')}"
        )
    else:
        command.result(
            f"accuracy: not shown, {unknown}. {_true_accuracy(book, store, coder, options)}"
        )
    files = shlex.join([options.codebook, "--classifier", options.output])
    command.hint(f"next: bowsaw predict {files} image.jpg")


def _why_unknown(
    book: Codebook,
    store: Store,
    options: argparse.Namespace,
    rows: NDArray[np.int64],
    held: NDArray[np.int64],
) -> str | None:
    """Return why no fold of these images can test the classifier; None if the folds can."""
    seen = seen_by(book, store.bags, rows, held)
    counts = np.bincount(store.y[rows])
    if seen is None:
        return "the codebook does not record the images that made its words"
    if seen.any():
        return f"{int(seen.sum())} of these images made or chose the words"
    if options.sharpness == "auto":
        return "these images chose the sharpness"
    if counts[counts > 0].min() < (2 if len(held) or options.C != "auto" else 3):
        return "a class has too few images for folds"
    return None


def _true_accuracy(
    book: Codebook, store: Store, coder: BagOfWords, options: argparse.Namespace
) -> str:
    """Return how to measure an accuracy, with a command that works."""
    if own_split(book, store.bags, store.draw_split) is None or store.split is None:
        begin = opt.train_command(book, options)
        if store.split is None:
            begin = shlex.join(["bowsaw", "split", options.store, "auto"])
        return (
            "A true one needs a codebook of part codebook, pruned by part train, and evaluate: "
            f"begin with {begin}"
        )
    soft = options.sharpness or (coder.sharpness_in_use() if coder.coding == "soft" else None)
    coding = {"coding": coder.coding, "sharpness": soft}
    return f"For a true one: {opt.evaluate_command(options.store, options.codebook, coding)}"
