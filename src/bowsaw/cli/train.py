"""``bowsaw train``: descriptors to a codebook."""

from __future__ import annotations

import argparse
import shlex
import time

from bowsaw.checkpoint import estimator_settings
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.formats.registry import save
from bowsaw.formatting import format_count, format_seconds

EXAMPLE = "bowsaw train scenes.store --words 1000 --part codebook --seed 0 -o book.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "store", output="the codebook to write (.safetensors)")
    opt.add_from(
        parser,
        KMeansCodebook,
        ("--words", "n_words", opt.int_from(1), "number of words"),
        ("--max-iter", "max_iter", opt.int_from(1), "most iterations of k-means"),
        ("--tol", "tol", opt.number, "stop when the objective falls by less than this fraction"),
        ("--sample", "sample", opt.int_from(1), "learn from N random descriptors, not from all"),
    )
    opt.add_overwrite(parser)
    opt.add_jobs(parser, KMeansCodebook, scheduler=True)
    opt.add_split(parser)


def run(command: Command) -> None:
    options = command.options
    opt.refuse_split(options)
    opt.check_output(options.output, ".safetensors")
    store = opt.open_store(options.store)
    bags = store.bags if options.part == "all" else store.bags[opt.part_rows(store, options)]
    command.note(
        f"{format_count(options.n_words, 'word')} from "
        f"{format_count(bags.n_descriptors, 'descriptor')} of {format_count(len(bags), 'image')} "
        f"({'all of them' if options.part == 'all' else 'part ' + options.part})"
    )
    begin = time.perf_counter()
    trained = KMeansCodebook(
        **{name: getattr(options, name) for name in ("n_words", "max_iter", "tol", "sample")},
        random_state=options.seed,
        n_jobs=options.jobs,
        parallel=options.scheduler,
        verbose=not command.quiet,
    )
    about = {"store": store.digest, **opt.part_record(options)}
    settings = {**estimator_settings(trained), "seed": options.seed, **about}
    with opt.resumable(options, settings) as checkpoint:
        trained.set_params(checkpoint=checkpoint).fit(bags)
        book = trained.codebook_.with_provenance(**about)
        save(book, options.output)
    command.status(
        f"{options.output}: {format_count(book.n_words, 'word')} of {book.n_dims} dimensions, mean "
        f"squared distance {trained.objective_:.4f} after "
        f"{format_count(trained.n_iter_, 'iteration')}, "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    following = f"bowsaw encode {shlex.join([options.output, options.store])} -o histograms.npz"
    if options.part == "codebook":
        split = opt.split_record(options)
        following = opt.evaluate_command(options.store, options.output, split, {})
    command.hint(f"next: {following}")
