"""``bowsaw extract``: images to descriptors on disk."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

import numpy as np

from bowsaw.cli.command import Command, Verb, counted, duration, file_size
from bowsaw.cli.options import add_jobs, default, number, whole
from bowsaw.cli.scheduler import add_scheduler
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.images.folder import PRESETS, ImageFolder
from bowsaw.store import Store, extract

_LISTED = 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", metavar="IMAGES", help="a folder with one sub-folder a class")
    parser.add_argument(
        "-o", "--output", required=True, metavar="STORE", help="the store to make, a folder"
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a known collection: which classes are taken"
    )
    parser.add_argument("--strict", action="store_true", help="stop at a file that cannot be used")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a store made with other parameters"
    )
    add_jobs(parser, extract)
    add_scheduler(parser)
    group = parser.add_argument_group("dense SIFT")
    for name, kind, text in (
        ("patch", whole(1), "side of a patch in pixels"),
        ("step", whole(1), "distance between patches in pixels"),
        ("max_side", whole(1), "longest side of a picture in pixels; larger ones are made smaller"),
        ("min_contrast", number, "patches of less contrast are not amplified"),
        ("max_pixels", whole(1), "files that claim more pixels are set aside"),
    ):
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            default=default(DenseSift, name),
            metavar="N",
            help=f"{text} (default: %(default)s)",
        )
    group.add_argument(
        "--dtype",
        choices=("uint8", "float32"),
        default=default(DenseSift, "dtype"),
        help="how descriptors are stored (default: %(default)s)",
    )


def _run(command: Command) -> None:
    options = command.options
    if Path(options.output).resolve().is_relative_to(Path(options.images).resolve()):
        raise ParameterError(
            f"the store {options.output} would lie among the images of {options.images} and be "
            "taken for a class. Choose an output beside them."
        )
    if options.preset:
        images = ImageFolder.from_preset(options.preset, options.images)
    else:
        images = ImageFolder(options.images)
    descriptor = DenseSift(
        patch=options.patch,
        step=options.step,
        max_side=options.max_side,
        min_contrast=options.min_contrast,
        dtype=options.dtype,
        max_pixels=options.max_pixels,
    )
    classes = counted(len(images.classes), "class", "classes")
    command.note(f"{counted(len(images), 'file')} in {classes}")
    begin = time.perf_counter()
    store = extract(
        images,
        descriptor,
        options.output,
        n_jobs=options.jobs,
        strict=options.strict,
        overwrite=options.overwrite,
        parallel=options.scheduler,
        verbose=not command.quiet,
    )
    bags = store.bags
    size = bags.n_descriptors * bags.n_dims * bags.dtype.itemsize
    command.say(
        f"{options.output}: {counted(store.n_usable, 'image')} in {classes}, "
        f"{counted(bags.n_descriptors, 'descriptor')} ({file_size(size)}), "
        f"{duration(time.perf_counter() - begin)}"
    )
    _say_set_aside(command, store)
    _say_copies(command, store)
    if not store.n_usable:
        raise DataError(f"none of the files in {options.images} could be used. Give other images.")
    _say_next(command, store)


def _say_set_aside(command: Command, store: Store) -> None:
    found = store.set_aside
    if found:
        command.say(f"set aside, {len(found):,} of {counted(store.n_images, 'file')}:")
        for path, reason in found[:_LISTED]:
            command.say(f"  {path}: {reason}")
        if len(found) > _LISTED:
            command.say(f"  and {len(found) - _LISTED:,} more: bowsaw inspect {store.path}")


def _say_copies(command: Command, store: Store) -> None:
    """Tell of pictures that the folder holds twice: they may be trained on and tested on."""
    found = store.copies
    if found:
        by_class = [{path.partition("/")[0]: path for path in paths} for paths in found]
        split = [list(paths.values()) for paths in by_class if len(paths) > 1]
        many = "" if len(split) == len(found) else f"{len(split):,} of them "
        among = f", {many}in several classes" if split else ""
        example = " and ".join((split or found)[0][:2])
        command.say(
            f"more than once: {counted(len(found), 'picture')}{among}, such as {example}; a split "
            "may train on one and test on another"
        )


def _say_next(command: Command, store: Store) -> None:
    """Suggest an evaluation whose split the smallest class can fill."""
    name = shlex.quote(command.options.output)
    smallest = int(np.bincount(store.y, minlength=len(store.classes)).min())
    sizes = ""
    if smallest <= default(evaluate, "codebook_images") + default(evaluate, "train"):
        sizes = f" --train-codebook {smallest // 3} --train {smallest // 3}"
    if smallest >= 3:
        command.hint(f"next: bowsaw evaluate {name}{sizes}")


VERB = Verb(
    example="bowsaw extract scenes/ -o scenes.store",
    add_arguments=_add_arguments,
    run=_run,
)
