"""``bowsaw encode``: descriptors and a codebook to histograms."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from typing import Any

from bowsaw._version import __version__
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.formats.registry import load
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.progress import Progress
from bowsaw.store.histograms import HistogramWriter

EXAMPLE = "bowsaw encode book.safetensors scenes.store -o histograms.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "codebook", "store", output="the histograms to write (.npz)")
    opt.add_overwrite(parser)
    opt.add_jobs(parser, BagOfWords, scheduler=True)
    opt.add_coding(parser)
    opt.add_part(parser, "all")


def run(command: Command) -> None:
    options = command.options
    if options.scheduler and not opt.learns_sharpness(options):
        opt.refuse_options(options, ["jobs"], "the workers of --scheduler code. Leave it out")
    opt.check_output(options.output, ".npz", "histogram file", codebook=options.codebook)
    book, store = load(options.codebook), opt.open_store(options.store)
    coder = opt.coder_of(book, store, options, parallel=options.scheduler)
    part = opt.part_of(command, store, "all")
    if part.split is not None and (part.name != "all" or opt.learns_sharpness(coder)):
        opt.check_split(book, store, options)
    rows = part.rows
    begin = time.perf_counter()
    metadata: dict[str, Any] = {
        "coding": coder.coding,
        "sharpness": None,
        "codebook": {"digest": book.digest, "provenance": book.provenance},
        "store": store.digest,
        **part.record(),
        "version": __version__,
    }
    if (learned_on := opt.learn_sharpness(coder, store)) is not None:
        metadata["sharpness_learned_on"] = learned_on
    if coder.coding == "soft":
        metadata["sharpness"] = coder.sharpness_in_use()
    shape = (len(rows), book.n_words)
    writer = HistogramWriter(options.output, shape, metadata, overwrite=options.overwrite)
    done = writer.n_done
    with (
        writer,
        Progress("encoding", len(rows), show=not command.quiet) as bar,
        closing(coder.transform_chunks(store.bags[rows[done:]])) as chunks,
    ):
        bar.begin_at(done)
        for start, histograms in chunks:
            stop = done + start + len(histograms)
            writer.rows[done + start : stop] = histograms
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
    command.result(
        f"{options.output}: {format_count(len(rows), 'histogram')} of "
        f"{format_count(book.n_words, 'word')} ({format_bytes(4 * len(rows) * book.n_words)}), "
        f"{opt.coding_text(coder)}, {format_seconds(time.perf_counter() - begin)}"
    )
    command.hint("next: numpy.load reads it: histograms, y, classes, paths, words, metadata")
