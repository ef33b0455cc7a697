"""``bowsaw prune``: a codebook to a smaller one that codes alone.

``--keep`` and ``--max-bytes`` search at one size, ``--max-loss`` walks a path of sizes. A search
that is interrupted leaves the best words so far, and files to go on with beside them.
"""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from bowsaw.cli.command import Command, Verb, counted, duration, file_size
from bowsaw.cli.options import (
    add_coding,
    add_jobs,
    add_split,
    check_output,
    default,
    n_bytes,
    share,
    whole,
)
from bowsaw.cli.partial import PartialFiles
from bowsaw.cli.pruning import METHODS, SEARCH, Result, Task, task_of
from bowsaw.errors import ParameterError, SpaceError
from bowsaw.evaluation.path import PruningPath
from bowsaw.formats.vocabulary import save
from bowsaw.scores.base import SCORES
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.refinement import Refinement


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train")
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the smaller codebook to write (.safetensors)",
    )
    limit = parser.add_mutually_exclusive_group(required=True)
    limit.add_argument("--keep", type=whole(1), metavar="N", help="keep N words")
    limit.add_argument(
        "--max-bytes",
        type=n_bytes,
        metavar="SIZE",
        help="keep as many words as a file of this size holds: 65536, 64k, 1.5M (k is 1024)",
    )
    limit.add_argument(
        "--max-loss",
        type=share,
        metavar="X",
        help="keep as few words as cost at most this much accuracy (0.01: one point in a hundred), "
        "by cross-validation with the choice of words inside the folds",
    )
    search = parser.add_argument_group("search")
    search.add_argument(
        "--method",
        choices=tuple(METHODS),
        default=next(iter(METHODS)),
        help="refinement: words of the codebook are moved until they tell the classes best; "
        "annealing: words stay as they are, swaps raise a score of the classes; coverage: words "
        "that lie near the descriptors, without looking at classes (default: %(default)s)",
    )
    search.add_argument(
        "--steps",
        type=whole(0),
        metavar="N",
        help=f"steps of the refinement (default: {default(Refinement, 'n_steps')}), or swaps that "
        f"annealing tries (default: {default(Annealing, 'n_steps')})",
    )
    search.add_argument(
        "--folds",
        type=whole(0),
        metavar="N",
        help="times that a fifth of the images is held out to decide how many steps of the "
        "refinement to do; 0 does all of them unchecked (default: 1 with many images, up to 5 with "
        "few)",
    )
    search.add_argument(
        "--score",
        choices=tuple(SCORES),
        help="what annealing and --max-loss maximise (default: "
        f"{default(Annealing, 'score')}); refinement knows leave-one-out alone",
    )
    search.add_argument(
        "--paper",
        action="store_true",
        help="with --method annealing: the search as published, to compare with",
    )
    search.add_argument(
        "--refine",
        type=whole(0),
        metavar="N",
        help="with --max-loss: steps by which the words of each size are moved, in the folds too, "
        f"which takes long (default: {default(PruningPath, 'refine')}: words stay as they are)",
    )
    search.add_argument(
        "--resume",
        action="store_true",
        help="go on with what was interrupted; without it, all begins anew",
    )
    add_jobs(parser, Annealing)
    add_coding(parser, "the images that choose the words")
    add_split(parser)


def _run(command: Command) -> None:
    options = command.options
    _check_options(options)
    begin = time.perf_counter()
    task = task_of(options)
    command.note(task.summary())
    files = PartialFiles(options.output, task.asked())
    files.begin(command)
    try:
        result = task.run(files.search, verbose=not command.quiet)
    except BaseException as error:
        if not files.there:
            files.remove()
        elif isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(
                f"What was done is in {files.search}; the same command with --resume goes on."
            ) from None
        elif isinstance(error, SpaceError):
            raise _no_space(error, files) from error
        raise
    try:
        save(task.pruned(result), options.output)
    except SpaceError as error:
        raise (_no_space(error, files) if files.there else error) from error
    if result.n_left:
        raise KeyboardInterrupt(
            f"{result.n_moves:,} of {counted(result.n_moves + result.n_left, 'step')} were done; "
            f"the best words so far are in {options.output}, and the same command with --resume "
            "goes on."
        )
    files.remove()
    _tell(command, task, result, time.perf_counter() - begin)


def _no_space(error: SpaceError, files: PartialFiles) -> SpaceError:
    return SpaceError(
        error.errno,
        f"the disk is full. Free some space; what was done is in {files.search}, and the same "
        "command with --resume goes on.",
    )


def _check_options(options: argparse.Namespace) -> None:
    """Refuse what cannot be done together, before anything is read."""
    check_output(options.output, ".safetensors", codebook=options.codebook)
    if options.max_loss is not None and options.sharpness == "auto":
        raise ParameterError(
            "--sharpness auto is chosen by the labels of all the images, and --max-loss tests on "
            "some of them. Give a number."
        )
    given = [f"--{name}" for name in SEARCH if getattr(options, name) is not None]
    if options.paper:
        given.append("--paper")
    if options.max_loss is not None:
        asked, allowed = "--max-loss", {"--score", "--refine"}
        if options.method != next(iter(METHODS)):
            given.append("--method")
    else:
        asked = f"--method {options.method}"
        allowed = {
            "refinement": {"--steps", "--folds"},
            "annealing": {"--steps", "--score"},
            "coverage": set(),
        }[options.method]
        if options.paper and options.method == "annealing":
            asked, allowed = "--paper", set()
            given.remove("--paper")
    wrong = [flag for flag in given if flag not in allowed]
    if wrong:
        usable = (
            f"it takes {' and '.join(sorted(allowed))}" if allowed else "it takes no such option"
        )
        raise ParameterError(
            f"{wrong[0]} is not an option of {asked}: {usable}. Leave one of them out, or choose "
            "another --method."
        )


def _tell(command: Command, task: Task, result: Result, seconds: float) -> None:
    options, selection = command.options, result.selection
    first, last = (result.scores or (0.0,))[0], (result.scores or (0.0,))[-1]
    before, after = (Path(path).stat().st_size for path in (options.codebook, options.output))
    command.say(
        f"{options.output}: {selection.n_columns:,} of {counted(task.book.n_words, 'word')}, "
        f"{file_size(after)} instead of {file_size(before)}, {duration(seconds)}"
    )
    if options.max_bytes is not None:
        command.say(f"size: {after:,} of {options.max_bytes:,} bytes")
    if options.method == "coverage":
        command.say(f"mean squared distance of a descriptor to its nearest word: {-last:.4g}")
    else:
        how = f" in {counted(result.n_moves, 'step')}" if result.n_moves else ""
        score = selection.parameters.get("score", LeaveOneOut.name)
        command.say(f"score: {score}, from {first:.4g} to {last:.4g}{how} (higher is better)")
    if selection.parameters.get("moved"):
        command.say(
            f"refined: the words moved by {selection.parameters['moved']:.2g} on average "
            "(a descriptor has length 1)"
        )
    elif options.method == "refinement" and options.max_loss is None:
        command.say("refined: not at all, the words are as they were chosen")
    if result.check is not None:
        errors = result.check.errors.mean(axis=0)
        best = int(errors.argmin())
        command.say(
            f"on images held out: error {errors[0]:.4f} where the words began, {errors[best]:.4f} "
            f"after {counted(int(result.check.marks[best]), 'step')}, which is as far as they went"
        )
    if result.estimate is not None:
        command.say(f"estimate: {result.estimate}")
    else:
        command.note("accuracy: not known yet; the images that chose the words cannot test them")
    if options.max_bytes is not None and after > options.max_bytes:
        raise ParameterError(
            f"{options.output} is whole, but has {after:,} bytes and --max-bytes allows "
            f"{options.max_bytes:,}: its record is longer than foreseen. Allow fewer bytes."
        )
    command.hint(f"next: {_next(task)}")


def _next(task: Task) -> str:
    """Return a command to go on with."""
    options = task.options
    small, store = shlex.quote(options.output), shlex.quote(options.store)
    if options.part not in ("codebook", "train"):
        return f"bowsaw encode {small} {store} -o histograms.npz"
    coding = ""
    if task.coding["coding"] == "soft":
        coding = f" --coding soft --sharpness {task.coding['sharpness']:.6g}"
    return (
        f"bowsaw evaluate {store} --codebook {small} --train-codebook {options.train_codebook} "
        f"--train {options.train} --seed {options.seed} --first-split {options.split}{coding}"
    )


VERB = Verb(
    example="bowsaw prune book.safetensors scenes.store --part train --keep 50 "
    "-o small.safetensors",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Nothing was chosen yet; run the same command again.",
)
