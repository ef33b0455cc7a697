"""``bowsaw extract``: images to descriptors on disk."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

import numpy as np

from bowsaw.cli.command import Command
from bowsaw.cli.options import add_jobs, add_numbers, default, int_from, number
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.images.folder import PRESETS, ImageFolder
from bowsaw.store import Store, extract

EXAMPLE = "bowsaw extract scenes/ -o scenes.store"
_MAX_LISTED = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("images", metavar="IMAGES", help="a folder with one sub-folder per class")
    parser.add_argument(
        "-o", "--output", required=True, metavar="STORE", help="the store to make, a folder"
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a known collection: selects its classes"
    )
    parser.add_argument("--strict", action="store_true", help="stop at a file that cannot be used")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a store made with other parameters"
    )
    add_jobs(parser, extract, scheduler=True)
    group = parser.add_argument_group("dense SIFT")
    add_numbers(
        group,
        DenseSift,
        ("--patch", "patch", int_from(1), "side of a patch in pixels"),
        ("--step", "step", int_from(1), "distance between patches in pixels"),
        ("--max-side", "max_side", int_from(1), "larger images are scaled to this longest side"),
        ("--min-contrast", "min_contrast", number, "patches of less contrast are not amplified"),
        ("--max-pixels", "max_pixels", int_from(1), "files that claim more pixels are set aside"),
    )
    group.add_argument(
        "--dtype",
        choices=("uint8", "float32"),
        default=default(DenseSift, "dtype"),
        help="how descriptors are stored (default: %(default)s)",
    )


def image_folder(path: str, preset: str | None) -> ImageFolder:
    """Return the images of a folder, or those that a preset selects."""
    return ImageFolder.from_preset(preset, path) if preset else ImageFolder(path)


def run(command: Command) -> None:
    """Extract the descriptors of a folder of images."""
    options = command.options
    if Path(options.output).resolve().is_relative_to(Path(options.images).resolve()):
        raise ParameterError(
            f"the store {options.output} would lie among the images of {options.images} and be "
            "taken for a class. Choose an output beside them."
        )
    images = image_folder(options.images, options.preset)
    names = ("patch", "step", "max_side", "min_contrast", "dtype", "max_pixels")
    classes = format_count(len(images.classes), "class", "classes")
    command.note(f"{format_count(len(images), 'file')} in {classes}")
    begin = time.perf_counter()
    store = extract(
        images,
        DenseSift(**{name: getattr(options, name) for name in names}),
        options.output,
        n_jobs=options.jobs,
        strict=options.strict,
        overwrite=options.overwrite,
        parallel=options.scheduler,
        verbose=not command.quiet,
    )
    bags = store.bags
    size = bags.n_descriptors * bags.n_dims * bags.dtype.itemsize
    command.status(
        f"{options.output}: {format_count(store.n_usable, 'image')} in {classes}, "
        f"{format_count(bags.n_descriptors, 'descriptor')} ({format_bytes(size)}), "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    _report_set_aside(command, store)
    _report_copies(command, store)
    if not store.n_usable:
        raise DataError(f"none of the files in {options.images} could be used. Give other images.")
    _suggest_evaluation(command, store)


def _report_set_aside(command: Command, store: Store) -> None:
    found = store.set_aside
    if found:
        command.status(f"set aside, {len(found):,} of {format_count(store.n_images, 'file')}:")
        for path, reason in found[:_MAX_LISTED]:
            command.status(f"  {path}: {reason}")
        if len(found) > _MAX_LISTED:
            command.status(f"  and {len(found) - _MAX_LISTED:,} more: bowsaw inspect {store.path}")


def _report_copies(command: Command, store: Store) -> None:
    """Report images that the folder holds twice: a split may train on one and test on another."""
    found = store.copies
    if found:
        by_class = [{path.partition("/")[0]: path for path in paths} for paths in found]
        split = [list(paths.values()) for paths in by_class if len(paths) > 1]
        many = "" if len(split) == len(found) else f"{len(split):,} of them "
        among = f", {many}in several classes" if split else ""
        example = " and ".join((split or found)[0][:2])
        command.status(
            f"more than once: {format_count(len(found), 'image')}{among}, such as {example}; a "
            "split may train on one and test on another"
        )


def _suggest_evaluation(command: Command, store: Store) -> None:
    """Suggest an evaluation whose split the smallest class can fill."""
    smallest = int(np.bincount(store.y, minlength=len(store.classes)).min())
    sizes = ""
    if smallest <= default(evaluate, "codebook_images") + default(evaluate, "train"):
        sizes = f" --train-codebook {smallest // 3} --train {smallest // 3}"
    if smallest >= 3:
        command.hint(f"next: bowsaw evaluate {shlex.quote(command.options.output)}{sizes}")
