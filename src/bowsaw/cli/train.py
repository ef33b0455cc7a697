"""``bowsaw train``: descriptors to a codebook."""

from __future__ import annotations

import argparse
import time

from bowsaw.cli.options import (
    Command,
    Verb,
    add_jobs,
    add_split,
    default,
    split_of,
    split_record,
)
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.formats.safetensors import save
from bowsaw.store import Store


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the codebook to write (.safetensors)"
    )
    for name, flag, kind, text in (
        ("n_words", "words", int, "how many words"),
        ("max_iter", "max-iter", int, "rounds of k-means at most"),
        ("tol", "tol", float, "stop when the objective falls by less than this share"),
        ("sample", "sample", int, "learn from so many descriptors drawn at random"),
    ):
        fallback = default(KMeansCodebook, name)
        shown = "every descriptor" if fallback is None else "%(default)s"
        parser.add_argument(
            f"--{flag}",
            dest=name,
            type=kind,
            default=fallback,
            metavar="N",
            help=f"{text} (default: {shown})",
        )
    add_split(parser)
    add_jobs(parser)


def _run(command: Command) -> None:
    options = command.options
    store = Store(options.store)
    bags = store.bags
    if options.part != "all":
        bags = bags[split_of(store, options).part(options.part)]
    command.note(
        f"{options.n_words} words from {len(bags)} images ({options.part}), "
        f"{bags.n_descriptors} descriptors"
    )
    begin = time.perf_counter()
    trained = KMeansCodebook(
        n_words=options.n_words,
        max_iter=options.max_iter,
        tol=options.tol,
        sample=options.sample,
        random_state=options.seed,
        checkpoint=f"{options.output}.partial",
        n_jobs=options.jobs,
        verbose=not command.quiet,
    ).fit(bags)
    book = trained.codebook_.with_provenance(store=store.digest, **split_record(options))
    save(book, options.output)
    command.say(
        f"{options.output}: {book.n_words} words of {book.n_dims}, mean squared distance "
        f"{trained.objective_:.4f}, {trained.n_iter_} rounds in {time.perf_counter() - begin:.1f} s"
    )


VERB = Verb(
    help="learn a codebook from a store by k-means; resumable",
    example="bowsaw train scenes.store --words 1000 --part codebook --seed 0 -o book.safetensors",
    add_arguments=_add_arguments,
    run=_run,
)
