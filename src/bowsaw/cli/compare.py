"""``bowsaw compare``: methods × sizes × codings × splits on a folder of classes, and their page."""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli.command import Command, Verb, counted
from bowsaw.cli.comparing import (
    add_workers,
    check_folder,
    collection,
    listed,
    painter_of,
    show_tables,
    typed,
    watched,
    workers_of,
)
from bowsaw.cli.options import add_jobs, add_split_sizes, default, number, whole
from bowsaw.comparison.methods import EFFORTS, METHODS
from bowsaw.comparison.plan import make_plan
from bowsaw.comparison.run import arena
from bowsaw.images.folder import PRESETS
from bowsaw.report.page import write_page


def _shown(values: object) -> str:
    return ",".join(map(str, values)) if isinstance(values, tuple | list) else str(values)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "images",
        metavar="IMAGES",
        help="a folder with one sub-folder a class, or a store made by bowsaw extract",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="RUN", help="the folder of records and page"
    )
    for flag, kind, name, text in (
        ("--words", listed(whole(1)), "words", "sizes of the full codebooks"),
        ("--sizes", listed(whole(1)), "sizes", "how many words to keep"),
        ("--coding", listed(str), "codings", "hard, soft or both"),
        ("--methods", listed(str), "methods", f"among {', '.join(METHODS)}; full always is"),
    ):
        parser.add_argument(
            flag,
            type=kind,
            default=list(default(arena, name)),
            dest=name,
            metavar="A,B",
            help=f"{text} (default: {_shown(default(arena, name))})",
        )
    parser.add_argument(
        "--splits",
        type=whole(1),
        default=default(arena, "splits"),
        metavar="N",
        help="how many random splits (default: %(default)s)",
    )
    parser.add_argument(
        "--sharpness",
        type=number,
        default=default(arena, "sharpness"),
        metavar="S",
        help="of soft coding (default: %(default)s)",
    )
    parser.add_argument(
        "--effort",
        choices=EFFORTS,
        default=default(arena, "effort"),
        help="how long searches may take: usual as in bowsaw prune, bounded for many cells "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a known collection: which classes are taken"
    )
    parser.add_argument(
        "--no-pixels",
        action="store_true",
        help="keep no patch and no image in the page; words are drawn as glyphs",
    )
    add_jobs(parser, arena)
    add_workers(parser)
    add_split_sizes(parser)


def _run(command: Command) -> None:
    options = command.options
    told = {
        "words": options.words,
        "sizes": options.sizes,
        "codings": options.codings,
        "methods": options.methods,
        "splits": options.splits,
        "seed": options.seed,
        "sharpness": options.sharpness,
        "effort": options.effort,
    }
    # What is wrong with the plan is told before images are read.
    make_plan(raw=None, **told)
    folder = check_folder(options.output, options.images)
    found, store, root = collection(
        command,
        Path(options.images).resolve().name.removesuffix(".store") or "images",
        options.images,
        folder,
        codebook_images=options.train_codebook,
        train=options.train,
        preset=options.preset,
        n_jobs=options.jobs,
    )
    roots = {} if root is None or options.no_pixels else {found.name: root}
    with watched(command) as watch:
        run = arena(
            [found],
            folder,
            n_jobs=options.jobs,
            workers=workers_of(options),
            command=typed(command),
            painter=painter_of({found.name: store}, roots, options.codings),
            on_cell=watch,
            **told,
        )
    page = write_page(folder)
    show_tables(command, run.cells)
    command.say("")
    command.say(
        f"{counted(len(run.cells), 'cell')} in {folder}; the page: {page}; the descriptors and "
        f"codebooks in {folder / 'work'} may be deleted"
    )


VERB = Verb(
    example="bowsaw compare scenes/ --words 1000 --sizes 10,20,50,100,200,500 --coding hard,soft "
    "--splits 5 -o run/",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Finished cells are kept; run the same command again to go on.",
)
