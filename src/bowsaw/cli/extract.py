"""``bowsaw extract``: images to descriptors on disk."""

from __future__ import annotations

import argparse
import shlex
import time

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.images.folder import PRESETS, ImageFolder, check_outside
from bowsaw.store import Store, extract

EXAMPLE = "bowsaw extract scenes/ -o scenes.store --split 50/50/rest --seed 0"
_MAX_LISTED = 20
_PURPOSES = {"codebook": "images for the codebook", "train": "to train", "test": "to test"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "images", output="the store to make, a folder", metavar="STORE")
    opt.add_sizes(parser, "auto, or the split that the store has")
    opt.add(parser, "--overwrite", bool, "replace a store made with other parameters")
    opt.add_jobs(parser, extract, scheduler=True)
    add_dense_sift(parser)
    add_preset(parser)
    text = "stop at a file that cannot be used, instead of setting it aside"
    opt.add(opt.advanced(parser), "--strict", bool, text)


def add_preset(parser: argparse.ArgumentParser) -> None:
    """Add ``--preset``."""
    text = "select the classes of a known collection: the 10 largest of Caltech-101"
    opt.add(opt.advanced(parser), "--preset", tuple(sorted(PRESETS)), text)


def add_dense_sift(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of dense SIFT."""
    integer = opt.int_from(1)
    opt.add_from(
        parser.add_argument_group("dense SIFT"),
        DenseSift,
        ("--patch", "patch", integer, "side of a patch in pixels"),
        ("--patch-step", "step", integer, "pixels between patches; fewer: more descriptors"),
        ("--max-side", "max_side", integer, "larger images are scaled to this longest side"),
    )
    contrast = "patches of less contrast stay weak, so that flat areas are no noise; 0: none does"
    dtype = "type of the descriptors; float32 takes 4 times the space of uint8"
    opt.add_from(
        opt.advanced(parser),
        DenseSift,
        ("--min-contrast", "min_contrast", opt.number, contrast),
        ("--max-pixels", "max_pixels", integer, "a file that claims more pixels is set aside"),
        ("--dtype", "dtype", ("uint8", "float32"), dtype),
    )


def dense_sift_of(options: argparse.Namespace) -> DenseSift:
    """Return the descriptor that the options name."""
    names = ("patch", "step", "max_side", "min_contrast", "dtype", "max_pixels")
    return DenseSift(**{name: getattr(options, name) for name in names})


def image_folder(path: str, preset: str | None) -> ImageFolder:
    """Return the images of a folder, or those that a preset selects."""
    return ImageFolder.from_preset(preset, path) if preset else ImageFolder(path)


def run(command: Command) -> None:
    options = command.options
    if options.scheduler:
        opt.refuse_options(options, ["jobs"], "the workers of --scheduler describe. Leave it out")
    check_outside(options.output, options.images)
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
    if not store.n_usable:
        path, reason = store.set_aside[0]
        raise DataError(
            f"none of the files in {options.images} could be used ({store.n_images:,} in all, such "
            f"as {path}: {reason}). Give other images."
        )
    bags = store.bags
    size = bags.n_descriptors * bags.n_dims * bags.dtype.itemsize
    classes = format_count(len(store.classes), "class", "classes")
    command.result(
        f"{options.output}: {format_count(store.n_usable, 'image')} in {classes}, "
        f"{format_count(bags.n_descriptors, 'descriptor')} ({format_bytes(size)}), "
        f"{format_seconds(time.perf_counter() - begin)}"
    )
    report_set_aside(command, store)
    _report_copies(command, store)
    _report_split(command, store)


def report_set_aside(command: Command, store: Store) -> None:
    found = store.set_aside
    if found:
        command.result(f"set aside, {len(found):,} of {format_count(store.n_images, 'file')}:")
        for path, reason in found[:_MAX_LISTED]:
            command.result(f"  {path}: {reason}")
        if len(found) > _MAX_LISTED:
            command.result(f"  and {len(found) - _MAX_LISTED:,} more: bowsaw inspect {store.path}")


def _report_copies(command: Command, store: Store) -> None:
    """Report images that the folder holds twice: a split may train on one and test on another."""
    found = store.copies
    if found:
        by_class = [{path.partition("/")[0]: path for path in paths} for paths in found]
        split = [list(paths.values()) for paths in by_class if len(paths) > 1]
        many = "" if len(split) == len(found) else f"{len(split):,} of them "
        among = f", {many}in several classes" if split else ""
        example = " and ".join((split or found)[0][:2])
        command.result(
            f"more than once: {format_count(len(found), 'image')}{among}, such as {example}; a "
            "split may train on one and test on another"
        )


def _report_split(command: Command, store: Store) -> None:
    """Report the split that is kept with the store, and suggest an evaluation."""
    split = store.split
    if split is None:
        command.result("no split: a class has fewer than 3 images, so that commands use all images")
        return
    sizes = [f"{len(split.part(name)):,} {to}" for name, to in _PURPOSES.items()]
    command.result(f"split {split.sizes}, seed {split.seed}: {', '.join(sizes)}")
    command.hint(f"next: bowsaw evaluate {shlex.quote(command.options.output)}")
