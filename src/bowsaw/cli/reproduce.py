"""``bowsaw reproduce``: the paper's experiments on its benchmarks, a verdict for each claim.

Eight panels: 15-Scenes and Caltech-10, hard and soft coding, from 1000 and from 5000 words. The
paper's protocol: 50 images a class for the codebook, 50 others to choose words and to train
(25 and 25 on Caltech-10), the rest to test.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli.command import Command, Verb, counted
from bowsaw.cli.comparing import (
    add_workers,
    check_folder,
    collection,
    painter_of,
    show_tables,
    typed,
    watched,
    workers_of,
)
from bowsaw.cli.options import add_jobs, default, whole
from bowsaw.errors import ParameterError
from bowsaw.evaluation.arena.claims.verdicts import verdicts
from bowsaw.evaluation.arena.methods import FULL, PUBLISHED
from bowsaw.evaluation.arena.probes.probing import probe
from bowsaw.evaluation.arena.run import arena
from bowsaw.report.page import write_page

WORDS, QUICK_WORDS = (5000, 1000), (1000,)
SIZES, QUICK_SIZES = (10, 20, 50, 100, 500), (10, 20, 50, 100)
CODINGS = ("hard", "soft")
SETS = (("15-Scenes", "scene15", 50, None), ("Caltech-10", "caltech101", 25, "caltech10"))
"""Name, option, images a class for the codebook and to train with, preset."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scene15", metavar="DIR", help="the folder of the 15 scene classes")
    parser.add_argument(
        "--caltech101", metavar="DIR", help="the folder of Caltech-101, or of ten of its classes"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="RUN", help="the folder of records and page"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one split, from 1000 words, at most 100 kept: about ten minutes",
    )
    parser.add_argument(
        "--splits",
        type=whole(1),
        metavar="N",
        help=f"how many random splits (default: {default(arena, 'splits')}, 1 with --quick)",
    )
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=default(arena, "seed"),
        metavar="N",
        help="drives every random choice (default: %(default)s)",
    )
    add_jobs(parser, arena)
    add_workers(parser)


def _run(command: Command) -> None:
    options = command.options
    given = [(*one, getattr(options, one[1])) for one in SETS if getattr(options, one[1])]
    if not given:
        raise ParameterError(
            "name the folder of a benchmark: --scene15 DIR, --caltech101 DIR, or both."
        )
    for *_, path in given:
        if not Path(path).is_dir():
            raise ParameterError(f"{path} is not a folder. Name one with a sub-folder a class.")
    folder = check_folder(options.output, *(path for *_, path in given))
    collections, stores = [], {}
    for name, _, n_each, preset, path in given:
        found, store, _ = collection(
            command,
            name,
            path,
            folder,
            codebook_images=n_each,
            train=n_each,
            preset=preset,
            n_jobs=options.jobs,
        )
        collections.append(found)
        stores[name] = store
    words = QUICK_WORDS if options.quick else WORDS
    splits = options.splits or (1 if options.quick else default(arena, "splits"))
    with watched(command) as watch:
        run = arena(
            collections,
            folder,
            words=words,
            sizes=QUICK_SIZES if options.quick else SIZES,
            codings=CODINGS,
            methods=PUBLISHED,
            splits=splits,
            seed=options.seed,
            raw=(FULL, "published"),
            effort="bounded",
            n_jobs=options.jobs,
            workers=workers_of(options),
            kind="reproduce",
            command=typed(command),
            painter=painter_of(stores, {}, CODINGS),
            on_cell=watch,
        )
    run = probe(
        collections,
        folder,
        words=words,
        seed=options.seed,
        n_jobs=options.jobs,
        on_probe=lambda name, of: command.note(f"measuring {name} on {of}"),
    )
    page = write_page(folder)
    show_tables(command, run.cells)
    command.say("")
    for verdict in verdicts(run):
        command.say(f"{verdict.answer}: {verdict.claim}")
    command.say("")
    command.say(f"{counted(len(run.cells), 'cell')} in {folder}; the page: {page}")


VERB = Verb(
    example="bowsaw reproduce --scene15 scenes/ --caltech101 caltech/ -o paper/",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Finished cells are kept; run the same command again to go on.",
)
