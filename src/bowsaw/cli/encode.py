"""``bowsaw encode``: descriptors and a codebook to histograms."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.cli.command import Command, Verb, counted, duration, file_size
from bowsaw.cli.options import (
    add_coding,
    add_jobs,
    add_split,
    check_output,
    coding_of,
    open_store,
    part_record,
    split_of,
    split_record,
)
from bowsaw.cli.scheduler import add_scheduler
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.formats.vocabulary import load
from bowsaw.progress import Progress
from bowsaw.store import Store
from bowsaw.store.histograms import HistogramWriter


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train")
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the histograms to write (.npz)"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="start again where an interrupted run had other settings",
    )
    add_jobs(parser, BagOfWords)
    add_scheduler(parser)
    add_coding(parser)
    add_split(parser)


def _run(command: Command) -> None:
    options = command.options
    check_output(options.output, ".npz", codebook=options.codebook)
    book, store = load(options.codebook), open_store(options.store)
    coder = BagOfWords(
        codebook=book,
        random_state=0,
        n_jobs=options.jobs,
        parallel=options.scheduler,
        **coding_of(options),
    )
    # What does not fit should be told before a file is begun.
    coder.transform(store.bags[:0])
    book.words_for(store.bags)
    rows = np.arange(store.n_usable)
    if options.part != "all":
        rows = split_of(store, options).part(options.part)
    begin = time.perf_counter()
    if _learns(coder):
        learn = split_of(store, options).train
        coder.fit(store.bags[learn], store.y[learn])
    metadata = _metadata(coder, book, store, options)
    shape = (len(rows), book.n_words)
    writer = HistogramWriter(options.output, shape, metadata, overwrite=options.overwrite)
    begun = writer.n_done
    with (
        writer,
        Progress("encoding", len(rows), show=not command.quiet) as bar,
        closing(coder.transform_chunks(store.bags[rows[begun:]])) as chunks,
    ):
        bar.step(begun)
        for start, histograms in chunks:
            stop = begun + start + len(histograms)
            writer.rows[begun + start : stop] = histograms
            writer.mark_done(stop)
            bar.step(len(histograms))
        paths = store.paths
        writer.finish(
            y=store.y[rows],
            classes=store.classes,
            paths=[paths[row] for row in rows],
            words=book.ids,
            metadata=metadata,
        )
    sharpness = "" if coder.coding == "hard" else f" of sharpness {coder.sharpness_in_use():.4g}"
    command.say(
        f"{options.output}: {counted(len(rows), 'histogram')} of {counted(book.n_words, 'word')} "
        f"({file_size(4 * len(rows) * book.n_words)}), {coder.coding} coding{sharpness}, "
        f"{duration(time.perf_counter() - begin)}"
    )
    command.hint("next: numpy.load reads it: histograms, y, classes, paths, words, metadata")


def _learns(coder: BagOfWords) -> bool:
    return coder.coding == "soft" and (coder.sharpness == "auto" or coder.perplexity is not None)


def _metadata(
    coder: BagOfWords, book: Codebook, store: Store, options: argparse.Namespace
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "coding": coder.coding,
        "sharpness": coder.sharpness_in_use() if coder.coding == "soft" else None,
        "codebook": {"digest": book.digest, "provenance": book.provenance},
        "store": store.digest,
        **part_record(options),
        "version": __version__,
    }
    if _learns(coder):
        metadata["sharpness_learned_on"] = {"part": "train", "split": split_record(options)}
    return metadata


VERB = Verb(
    example="bowsaw encode book.safetensors scenes.store -o histograms.npz",
    add_arguments=_add_arguments,
    run=_run,
)
