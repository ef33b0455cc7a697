"""``bowsaw extract``: images to descriptors on disk."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ParameterError
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.images.folder import PRESETS, ImageFolder
from bowsaw.store import Store, extract

EXAMPLE = "bowsaw extract scenes/ -o scenes.store --split 50/50/rest --seed 0"
_MAX_LISTED = 20
_PURPOSES = {"codebook": "images for the codebook", "train": "to train", "test": "to test"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "images", output="the store to make, a folder")
    opt.add_sizes(parser, "auto, or the split that the store has")
    opt.add(parser, "--preset", tuple(sorted(PRESETS)), "a known collection: selects its classes")
    opt.add(parser, "--strict", bool, "stop at a file that cannot be used")
    opt.add(parser, "--overwrite", bool, "replace a store made with other parameters")
    opt.add_jobs(parser, extract, scheduler=True)
    add_dense_sift(parser)


def add_dense_sift(parser: argparse.ArgumentParser) -> None:
    integer = opt.int_from(1)
    opt.add_from(
        parser.add_argument_group("dense SIFT"),
        DenseSift,
        ("--patch", "patch", integer, "side of a patch in pixels"),
        ("--step", "step", integer, "distance between patches in pixels"),
        ("--max-side", "max_side", integer, "larger images are scaled to this longest side"),
        ("--min-contrast", "min_contrast", opt.number, "below, patches are not amplified"),
        ("--max-pixels", "max_pixels", integer, "files that claim more are set aside"),
        ("--dtype", "dtype", ("uint8", "float32"), "how descriptors are stored"),
    )


def dense_sift_of(options: argparse.Namespace) -> DenseSift:
    names = ("patch", "step", "max_side", "min_contrast", "dtype", "max_pixels")
    return DenseSift(**{name: getattr(options, name) for name in names})


def image_folder(path: str, preset: str | None) -> ImageFolder:
    """Return the images of a folder, or those that a preset selects."""
    return ImageFolder.from_preset(preset, path) if preset else ImageFolder(path)


def run(command: Command) -> None:
    options = command.options
    if options.scheduler:
        opt.refuse_options(options, ["jobs"], "the workers of --scheduler describe. Leave it out")
    if Path(options.output).resolve().is_relative_to(Path(options.images).resolve()):
        raise ParameterError(
            f"the store {options.output} would lie among the images of {options.images} and be "
            "taken for a class. Choose an output beside them."
        )
    images = image_folder(options.images, options.preset)
    opt.check_sizes(images, options)
    classes = format_count(len(images.classes), "class", "classes")
    command.note(f"{format_count(len(images), 'file')} in {classes}")
    begin = time.perf_counter()
    store = extract(
        images,
        dense_sift_of(options),
        options.output,
        split="auto" if options.split is None and options.seed is not None else options.split,
        seed=options.seed or 0,
        n_jobs=options.jobs,
        strict=options.strict,
        overwrite=options.overwrite,
        parallel=options.scheduler,
        verbose=not command.quiet,
    )
    bags = store.bags
    size = bags.n_descriptors * bags.n_dims * bags.dtype.itemsize
    classes = format_count(len(store.classes), "class", "classes")
    command.status(
        f"{options.output}: {format_count(store.n_usable, 'image')} in {classes}, "
        f"{format_count(bags.n_descriptors, 'descriptor')} ({format_bytes(size)}), "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    report_set_aside(command, store)
    _report_copies(command, store)
    if not store.n_usable:
        raise DataError(f"none of the files in {options.images} could be used. Give other images.")
    _report_split(command, store)


def report_set_aside(command: Command, store: Store) -> None:
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


def _report_split(command: Command, store: Store) -> None:
    """Report the split that is kept with the store, and suggest an evaluation."""
    split = store.split
    if split is None:
        command.status("no split: a class has fewer than 3 images, so that commands use all images")
        return
    sizes = [f"{len(split.part(name)):,} {to}" for name, to in _PURPOSES.items()]
    command.status(f"split {split.sizes}, seed {split.seed}: {', '.join(sizes)}")
    command.hint(f"next: bowsaw evaluate {shlex.quote(command.options.output)}")
