"""``bowsaw shrink``: a folder of classes to a small recogniser and its estimated accuracy."""

from __future__ import annotations

import argparse
import shlex
import time
from contextlib import ExitStack
from pathlib import Path

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.cli.compare import MAX_WORKERS, Watcher
from bowsaw.cli.extract import add_dense_sift, dense_sift_of, report_set_aside
from bowsaw.formatting import format_seconds
from bowsaw.parallel import effective_jobs
from bowsaw.progress import live_display
from bowsaw.recogniser import ALONE, N_FOLDS, ONNX, PAGE, TRY, shrink
from bowsaw.store import Store

EXAMPLE = "bowsaw shrink photos/ --keep 50 -o recogniser/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "images", output="the folder of the recogniser", metavar="FOLDER")
    limit = parser.add_mutually_exclusive_group()
    opt.add(limit, "--keep", opt.int_from(1), "keep N words (default: 50)")
    text = "keep as many words as an ONNX file of this size holds (65536, 64k, 1.5M)"
    opt.add(limit, "--max-bytes", opt.n_bytes, text, metavar="SIZE")
    text = "keep the fewest words that lose at most X of accuracy (0.02), standard error included"
    opt.add(limit, "--max-loss", opt.fraction, text, metavar="X")
    text = "project descriptors to N principal directions: a smaller and quicker recogniser"
    opt.add(parser, "--components", opt.int_from(1), text)
    opt.add_coding(parser, "the images that it learns from")
    advanced = opt.advanced(parser)
    text = "words of the full codebook (default: 1000, fewer for few images)"
    opt.add(advanced, "--words", opt.int_from(2), text)
    opt.add(advanced, "--method", ALONE, "how words are chosen", opt.default(shrink, "method"))
    text = f"folds of the estimate (default: {N_FOLDS}, of which many images measure 2)"
    opt.add(advanced, "--folds", opt.int_from(2), text)
    opt.add(advanced, "--seed", opt.int_from(0), "drives every random choice", 0)
    opt.add_overwrite(parser)
    opt.add_jobs(parser, shrink)
    add_dense_sift(parser)


def run(command: Command) -> None:
    options, begin = command.options, time.perf_counter()
    coding = opt.coding_of(options)
    folder = Path(options.output)
    watcher = Watcher(command)
    with ExitStack() as shown:

        def begin_stage(name: str) -> None:
            shown.close()
            command.note(f"{name} …")
            if name.startswith("measuring"):
                shown.enter_context(live_display(watcher.live))

        made = shrink(
            options.images,
            options.keep,
            max_bytes=options.max_bytes,
            max_loss=options.max_loss,
            folder=folder,
            n_words=options.words,
            n_components=options.components,
            method=options.method,
            n_folds=options.folds,
            descriptor=dense_sift_of(options),
            seed=options.seed,
            n_jobs=options.jobs,
            n_workers=min(effective_jobs(options.jobs), MAX_WORKERS),
            overwrite=options.overwrite,
            verbose=not command.quiet,
            command=shlex.join(["bowsaw", *options.typed]),
            on_stage=begin_stage,
            on_cell=watcher,
            **coding,
        )
    for place in (folder / "work").glob("*.store"):
        report_set_aside(command, Store(place))
    command.facts(made.facts())
    command.result()
    command.facts(
        [
            ("page", str(folder / PAGE)),
            ("in a browser", str(folder / TRY)),
            ("on a device", str(folder / ONNX)),
            ("to use it", f"bowsaw predict {shlex.quote(str(folder))} IMAGE"),
            ("took", f"{format_seconds(time.perf_counter() - begin)}; {folder / 'work'} may go"),
        ]
    )
