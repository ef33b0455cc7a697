"""``bowsaw encode``: descriptors and a codebook to histograms."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from typing import Any

import numpy as np

from bowsaw._version import __version__
from bowsaw.cli.options import (
    Command,
    Verb,
    add_coding,
    add_jobs,
    add_split,
    megabytes,
    split_of,
    split_record,
)
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.safetensors import load
from bowsaw.progress import Progress
from bowsaw.store import Store
from bowsaw.store.histograms import HistogramWriter

_CHUNK_BAGS = 128


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train")
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the histograms to write (.npz)"
    )
    add_coding(parser, BagOfWords)
    add_split(parser)
    add_jobs(parser)


def _run(command: Command) -> None:
    options = command.options
    if not options.output.endswith(".npz"):
        raise ParameterError(f"the output must end in .npz; got {options.output}.")
    store, book = Store(options.store), load(options.codebook)
    rows = np.arange(store.n_usable)
    if options.part != "all":
        rows = split_of(store, options).part(options.part)
    bags, labels = store.bags[rows], store.y[rows]
    coder = BagOfWords(
        codebook=book,
        coding=options.coding,
        sharpness=options.sharpness,
        perplexity=options.perplexity,
        n_jobs=options.jobs,
    )
    begin = time.perf_counter()
    with command.warnings_as_notes():
        if options.coding == "soft" and (options.sharpness == "auto" or options.perplexity):
            learn = split_of(store, options).train
            coder.fit(store.bags[learn], store.y[learn])
        metadata = _metadata(coder, book, store, options)
        text = json.dumps(metadata, sort_keys=True)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        writer = HistogramWriter(options.output, (len(rows), book.n_words), fingerprint)
        with Progress("encoding", len(rows), show=not command.quiet) as bar:
            bar.step(writer.n_done)
            for start in range(writer.n_done, len(rows), _CHUNK_BAGS):
                stop = min(start + _CHUNK_BAGS, len(rows))
                coder.transform_into(bags[start:stop], writer.rows[start:stop])
                writer.mark_done(stop)
                bar.step(stop - start)
    paths = [store.paths[row].encode("utf-8", "backslashreplace").decode() for row in rows]
    writer.finish(y=labels, classes=store.classes, paths=paths, words=book.ids, metadata=metadata)
    command.say(
        f"{options.output}: {len(rows)} histograms of {book.n_words} words "
        f"({megabytes(4 * len(rows) * book.n_words)}), {options.coding} coding, "
        f"{time.perf_counter() - begin:.1f} s"
    )


def _metadata(
    coder: BagOfWords, book: Codebook, store: Store, options: argparse.Namespace
) -> dict[str, Any]:
    words = hashlib.sha256(book.words.tobytes() + book.ids.tobytes()).hexdigest()
    return {
        "coding": options.coding,
        "sharpness": coder.sharpness_in_use() if options.coding == "soft" else None,
        "codebook": {"digest": words, "provenance": book.provenance},
        "store": store.digest,
        **split_record(options),
        "version": __version__,
    }


VERB = Verb(
    help="code every image of a store with a codebook and pool the codes; resumable",
    example="bowsaw encode book.safetensors scenes.store -o histograms.npz",
    add_arguments=_add_arguments,
    run=_run,
)
