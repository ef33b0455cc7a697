"""The options that verbs share, and the checks of what a user gave them.

Defaults are read from the signatures of the functions that the options are for. Whatever can be
found wrong before the work begins, is: nobody should learn after minutes that a folder is missing.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.protocol import evaluate
from bowsaw.images.split import Split
from bowsaw.store import Store

PARTS = ("all", "codebook", "train", "test")


def default(function: Any, name: str) -> Any:
    """Return the default of a parameter, so that the command line never has one of its own."""
    return inspect.signature(function).parameters[name].default


# -- numbers ---------------------------------------------------------------------------------------


def whole(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` up.

    Examples
    --------
    >>> whole(1)("12")
    12
    """

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} up; got {text!r}"
            )
        return value

    return read


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def number_or_auto(text: str) -> float | str:
    """Read a number or the word auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or auto; got {text!r}") from None


def share(text: str) -> float:
    """Read a number from 0 to 1.

    Examples
    --------
    >>> share("0.01")
    0.01
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1; got {text!r}")
    return value


def n_bytes(text: str) -> int:
    """Read a size in bytes, where k, M and G stand for powers of 1024.

    Examples
    --------
    >>> n_bytes("500"), n_bytes("64k"), n_bytes("1.5M")
    (500, 65536, 1572864)
    """
    units = {"k": 2**10, "M": 2**20, "G": 2**30}
    try:
        value = int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(
            f"must be a number of bytes above 0, such as 65536, 64k or 1.5M; got {text!r}"
        )
    return value


def threads(text: str) -> int:
    """Read a number of threads, where -1 stands for every core, -2 for all but one, and so on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value == 0:
        raise argparse.ArgumentTypeError(
            f"must be a whole number other than 0 (-1 for every core); got {text!r}"
        )
    return value


def add_jobs(parser: argparse.ArgumentParser, function: Any) -> None:
    """Add ``-j`` with the default of ``function``."""
    parser.add_argument(
        "-j",
        "--jobs",
        type=threads,
        default=default(function, "n_jobs"),
        metavar="N",
        help="threads; any number gives the same result (default: %(default)s, every core)",
    )


# -- which images ----------------------------------------------------------------------------------


def add_split(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a split and one of its parts."""
    group = add_split_sizes(parser, "--codebook")
    group.add_argument(
        "--split",
        type=whole(0),
        default=default(Store.split, "index"),
        metavar="I",
        help="which of the seed's splits, counted from 0 (default: %(default)s)",
    )
    group.add_argument(
        "--part", choices=PARTS, default="all", help="the part to use (default: %(default)s images)"
    )


def add_split_sizes(parser: argparse.ArgumentParser, *shorter: str) -> Any:
    """Add the sizes of a split's parts and the seed, in a group of their own.

    ``shorter`` are other names of ``--train-codebook``, where ``--codebook`` is not a file.
    """
    group = parser.add_argument_group(
        "which images",
        "A split deals the images of each class into three disjoint parts:\n"
        "codebook (to learn words), train (to learn classes) and test (the rest).",
    )
    for flags, name, least, text in (
        (
            ("--train-codebook", *shorter),
            "codebook_images",
            0,
            "images a class in the part codebook",
        ),
        (("--train",), "train", 1, "images a class in the part train"),
        (("--seed",), "seed", 0, "drives every random choice"),
    ):
        group.add_argument(
            *flags,
            type=whole(least),
            default=default(evaluate, name),
            metavar="N",
            help=f"{text} (default: %(default)s)",
        )
    return group


def split_of(store: Store, options: argparse.Namespace) -> Split:
    """Return the split that the options name."""
    return store.split(
        codebook=options.train_codebook,
        train=options.train,
        seed=options.seed,
        index=options.split,
    )


def split_record(options: argparse.Namespace) -> dict[str, int]:
    """Return the options that name a split, as provenance and metadata record it."""
    return {
        "codebook": options.train_codebook,
        "train": options.train,
        "seed": options.seed,
        "index": options.split,
    }


def part_record(options: argparse.Namespace) -> dict[str, Any]:
    """Return what provenance and metadata say of the images that were used."""
    if options.part == "all":
        return {"part": "all"}
    return {"part": options.part, "split": split_record(options)}


# -- coding ----------------------------------------------------------------------------------------


def add_coding(parser: argparse.ArgumentParser, learned_on: str = "the part train") -> None:
    """Add coding, sharpness and perplexity with the coder's own defaults."""
    group = parser.add_argument_group("coding")
    group.add_argument(
        "--coding",
        choices=("hard", "soft"),
        default=default(BagOfWords, "coding"),
        help="hard: a descriptor counts for its nearest word; soft: it is shared among all words "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--sharpness",
        type=number_or_auto,
        metavar="S",
        help=f"of soft coding: a number, or auto to choose it by the labels of {learned_on} "
        f"(default: {default(BagOfWords, 'sharpness'):g})",
    )
    group.add_argument(
        "--perplexity",
        type=number,
        metavar="P",
        help="instead of a sharpness: how many words share a descriptor on average",
    )


def coding_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of coding that were given, or say which do not go together."""
    given = {
        name: getattr(options, name)
        for name in ("sharpness", "perplexity")
        if getattr(options, name) is not None
    }
    if given and options.coding == "hard":
        raise ParameterError(
            f"--{next(iter(given))} belongs to soft coding, and the coding is hard. Add --coding "
            "soft, or leave it out."
        )
    if len(given) > 1:
        raise ParameterError("--sharpness and --perplexity set the same thing. Give one of them.")
    return {"coding": options.coding, **given}


# -- files -----------------------------------------------------------------------------------------


def open_store(path: str) -> Store:
    """Return a store that has something to work on."""
    store = Store(path)
    if not store.n_usable:
        raise DataError(
            f"the store {path} has no usable image. See why with «bowsaw inspect {path}»."
        )
    return store


def check_output(path: str, suffix: str, **read: str | None) -> None:
    """Raise a ParameterError when a file could not be written at the end of the work.

    ``read`` are the files that the work begins with, by what they are: the output must not be one
    of them, by any name, since it would take its place.
    """
    target = Path(path)
    if target.suffix != suffix:
        raise ParameterError(f"the output must be a file name that ends in {suffix}; got {path}.")
    if target.is_dir():
        raise ParameterError(f"the output {path} is a folder. Choose another name.")
    for what, source in read.items():
        if source is not None and _are_one_file(target, Path(source)):
            raise ParameterError(
                f"the output {path} is the {what} itself ({source}), which would be lost. Choose "
                "another output."
            )
    if not target.absolute().parent.is_dir():
        raise ParameterError(f"{target.parent} is not a folder. Make it, or choose another output.")
    try:
        with tempfile.TemporaryFile(dir=target.absolute().parent):
            pass
    except OSError as error:
        raise ParameterError(
            f"nothing can be written in the folder {target.parent} ({error.strerror}). Choose "
            "another output."
        ) from error


def _are_one_file(one: Path, other: Path) -> bool:
    """Return whether two names are of one file, also through links."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        # One is not there, or cannot be looked at: whoever reads it says so.
        return False
