"""``bowsaw extract``: images to descriptors on disk."""

from __future__ import annotations

import argparse
import time

from bowsaw.cli.options import Command, Verb, add_jobs, default, megabytes
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.images.folder import PRESETS, ImageFolder
from bowsaw.store import extract

_LISTED = 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", metavar="IMAGES", help="a folder with one sub-folder a class")
    parser.add_argument("-o", "--output", required=True, metavar="STORE", help="the store to make")
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a known collection: which classes are taken"
    )
    parser.add_argument("--strict", action="store_true", help="stop at a file that cannot be used")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a store made with other parameters"
    )
    add_jobs(parser)
    group = parser.add_argument_group("dense SIFT")
    for name, kind, text in (
        ("patch", int, "side of a patch in pixels"),
        ("step", int, "distance between patches in pixels"),
        ("max_side", int, "longest side of a picture in pixels; larger ones are made smaller"),
        ("min_contrast", float, "patches of less contrast are not amplified"),
        ("max_pixels", int, "files that claim more pixels are set aside"),
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
    command.note(f"{len(images)} images in {len(images.classes)} classes")
    begin = time.perf_counter()
    store = extract(
        images,
        descriptor,
        options.output,
        n_jobs=options.jobs,
        strict=options.strict,
        overwrite=options.overwrite,
        verbose=not command.quiet,
    )
    seconds = time.perf_counter() - begin
    bags = store.bags
    size = bags.n_descriptors * bags.n_dims * bags.dtype.itemsize
    command.say(
        f"{options.output}: {store.n_usable} images, {len(store.classes)} classes, "
        f"{bags.n_descriptors} descriptors ({megabytes(size)}) in {seconds:.1f} s"
    )
    if store.set_aside:
        command.say(f"set aside: {len(store.set_aside)} of {store.n_images} files")
        for path, reason in store.set_aside[:_LISTED]:
            command.say(f"  {path}: {reason}")
        if len(store.set_aside) > _LISTED:
            command.say(
                f"  and {len(store.set_aside) - _LISTED} more: bowsaw inspect {options.output}"
            )


VERB = Verb(
    help="describe the images of a folder and keep the descriptors in a store; resumable",
    example="bowsaw extract scenes/ -o scenes.store",
    add_arguments=_add_arguments,
    run=_run,
)
