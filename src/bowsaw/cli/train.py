"""``bowsaw train``: descriptors to a codebook."""

from __future__ import annotations

import argparse
import shlex
import time

from bowsaw.checkpoint import remove_checkpoint
from bowsaw.cli.command import Command, Verb, counted, duration
from bowsaw.cli.options import (
    add_jobs,
    add_split,
    check_output,
    default,
    number,
    open_store,
    part_record,
    split_of,
    whole,
)
from bowsaw.cli.scheduler import add_scheduler
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.formats.vocabulary import save


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the codebook to write (.safetensors)"
    )
    for flag, name, kind, text in (
        ("--words", "n_words", whole(1), "how many words"),
        ("--max-iter", "max_iter", whole(1), "rounds of k-means at most"),
        ("--tol", "tol", number, "stop when the objective falls by less than this share"),
        ("--sample", "sample", whole(1), "learn from so many descriptors drawn at random"),
    ):
        fallback = default(KMeansCodebook, name)
        shown = "every descriptor" if fallback is None else "%(default)s"
        parser.add_argument(
            flag,
            dest=name,
            type=kind,
            default=fallback,
            metavar="N",
            help=f"{text} (default: {shown})",
        )
    parser.add_argument(
        "--overwrite", action="store_true", help="start again instead of continuing"
    )
    add_jobs(parser, KMeansCodebook)
    add_scheduler(parser)
    add_split(parser)


def _run(command: Command) -> None:
    options = command.options
    check_output(options.output, ".safetensors")
    store = open_store(options.store)
    bags = store.bags
    if options.part != "all":
        bags = bags[split_of(store, options).part(options.part)]
    command.note(
        f"{counted(options.n_words, 'word')} from {counted(bags.n_descriptors, 'descriptor')} of "
        f"{counted(len(bags), 'image')} "
        f"({'all of them' if options.part == 'all' else 'part ' + options.part})"
    )
    begin = time.perf_counter()
    partial = f"{options.output}.partial"
    if options.overwrite:
        remove_checkpoint(partial)
    trained = KMeansCodebook(
        n_words=options.n_words,
        max_iter=options.max_iter,
        tol=options.tol,
        sample=options.sample,
        random_state=options.seed,
        checkpoint=partial,
        n_jobs=options.jobs,
        parallel=options.scheduler,
        verbose=not command.quiet,
    ).fit(bags)
    book = trained.codebook_.with_provenance(store=store.digest, **part_record(options))
    save(book, options.output)
    remove_checkpoint(partial)
    command.say(
        f"{options.output}: {counted(book.n_words, 'word')} of {book.n_dims} dimensions, mean "
        f"squared distance {trained.objective_:.4f} after {counted(trained.n_iter_, 'round')}, "
        f"{duration(time.perf_counter() - begin)}"
    )
    command.hint(
        f"next: bowsaw encode {shlex.quote(options.output)} {shlex.quote(options.store)} "
        "-o histograms.npz"
    )


VERB = Verb(
    example="bowsaw train scenes.store --words 1000 --part codebook --seed 0 -o book.safetensors",
    add_arguments=_add_arguments,
    run=_run,
)
