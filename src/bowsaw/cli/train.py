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

EXAMPLE = "bowsaw train scenes.store --words 1000 -o book.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "store", output="the codebook to write (.safetensors)")
    words = ("--words", "n_words", opt.int_from(1), "words of the full codebook")
    opt.add_from(parser, KMeansCodebook, words)
    text = "project descriptors to N principal directions, and learn the words there"
    opt.add(parser, "--components", opt.int_from(1), text)
    opt.add_overwrite(parser)
    opt.add_jobs(parser, KMeansCodebook, scheduler=True)
    text = "stop when an iteration improves the fit by less than this fraction; larger is quicker"
    sample = "learn from N random descriptors: quicker, slightly worse words (default: all)"
    opt.add_from(
        opt.advanced(parser),
        KMeansCodebook,
        ("--sample", "sample", opt.int_from(1), sample),
        ("--max-iter", "max_iter", opt.int_from(1), "iterations of k-means at most"),
        ("--tol", "tol", opt.number, text),
    )
    opt.add_seed(opt.advanced(parser), "k-means")
    opt.add_part(parser, "codebook, or train if that is empty")


def run(command: Command) -> None:
    options = command.options
    opt.check_output(options.output, ".safetensors")
    store = opt.open_store(options.store)
    part, seed = opt.part_of(command, store, "codebook"), opt.seed_of(store, options)
    bags = store.bags if part.name == "all" else store.bags[part.rows]
    command.note(
        f"{format_count(options.n_words, 'word')} from "
        f"{format_count(bags.n_descriptors, 'descriptor')} of {format_count(len(bags), 'image')} "
        f"({part})"
    )
    begin = time.perf_counter()
    trained = KMeansCodebook(
        **{name: getattr(options, name) for name in ("n_words", "max_iter", "tol", "sample")},
        n_components=options.components,
        random_state=seed,
        n_jobs=options.jobs,
        parallel=options.scheduler,
        verbose=not command.quiet,
    )
    about = {"store": store.digest, **part.record()}
    settings = {**estimator_settings(trained), "seed": seed, **about}
    with opt.resumable(options, settings) as checkpoint:
        trained.set_params(checkpoint=checkpoint).fit(bags)
        book = trained.codebook_.with_provenance(**about)
        save(book, options.output)
    command.result(
        f"{options.output}: {format_count(book.n_words, 'word')} of {book.n_dims} dimensions, mean "
        f"squared distance {trained.objective_:.4f} after "
        f"{format_count(trained.n_iter_, 'iteration')}, "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    following = f"bowsaw encode {shlex.join([options.output, options.store])} -o histograms.npz"
    if part.name in ("codebook", "train"):
        following = opt.evaluate_command(options.store, options.output, {})
    command.hint(f"next: {following}")
