"""The options that commands share, and the checks of what a user gave them.

Defaults are read from the signatures of the functions that the options are for. Everything that can
be found wrong before the work begins is reported before it begins.
"""

from __future__ import annotations

import argparse
import glob
import inspect
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import (
    Checkpoint,
    NpzReader,
    begins_as,
    exclusive,
    is_checkpoint,
    make_folder,
    remove_checkpoint,
    translate_write_errors,
)
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import BowsawError, DataError, LeakError, ParameterError
from bowsaw.evaluation.leaks import leaked_images, own_split
from bowsaw.formats.classifier import is_classifier
from bowsaw.formats.registry import load
from bowsaw.formats.safetensors import FORMAT
from bowsaw.images.folder import ImageFolder
from bowsaw.images.folder import check_output as check_output_folder
from bowsaw.images.split import Split, auto_sizes
from bowsaw.images.split import check_sizes as check_class_sizes
from bowsaw.store import Store
from bowsaw.store.histograms import FIELDS

PARTS = ("all", "codebook", "train", "test")
CODING = "hard: a descriptor counts for its nearest word; soft: it is shared among all words"
_ALSO = {"jobs": ("-j",)}
"""Other spellings of options."""
_SIZES = re.compile(r"([0-9]{1,9})/([1-9][0-9]{0,8})/rest")
_ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


def default(function: Any, name: str) -> Any:
    """Return the default of a parameter, so that the command line never has one of its own."""
    return inspect.signature(function).parameters[name].default


def reader(
    kind: Callable[[str], Any], allowed: str, holds: Callable[[Any], bool] = lambda _: True
) -> Callable[[str], Any]:
    """Return a reader of texts that ``kind`` converts to values that ``holds`` accepts."""

    def read(text: str) -> Any:
        with suppress(ValueError, OverflowError):
            value = kind(text)
            if holds(value):
                return value
        raise argparse.ArgumentTypeError(f"must be {allowed}; got {text!r}")

    return read


def int_from(least: int) -> Callable[[str], int]:
    """Return a reader of integers of at least ``least``."""
    return reader(int, f"an integer of at least {least}", lambda value: value >= least)


def comma_list(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a reader of values between commas."""

    def read(text: str) -> list[Any]:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise argparse.ArgumentTypeError(f"must be values between commas; got {text!r}")
        return [kind(part) for part in parts]

    return read


def _bytes(text: str) -> int:
    units = {"k": 2**10, "M": 2**20, "G": 2**30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)


number = reader(float, "a number")
number_or_auto = reader(lambda text: text if text == "auto" else float(text), "a number or auto")
fraction = reader(float, "a number from 0 to 1", lambda value: 0 <= value <= 1)
n_bytes = reader(_bytes, "a size above 0, such as 65536, 64k or 1.5M", lambda value: value > 0)
threads = reader(int, "an integer other than 0 (-1 for every core)", lambda value: value != 0)
identifier = reader(str, "a name")  # not a path: completion offers no files
address = reader(
    str,
    "the address of a scheduler, such as tcp://10.0.0.1:8786",
    lambda text: _ADDRESS.fullmatch(text) is not None,
)


def add(
    parser: Any,
    flags: str,
    kind: Any,
    text: str,
    value: Any = None,
    *,
    dest: str | None = None,
    metavar: str | None = None,
) -> None:
    """Add an option, with its default in the help.

    ``kind`` is a reader of values, a tuple of choices, ``bool`` for a switch, or None for a path.
    """
    more: dict[str, Any] = {"help": text if value is None else f"{text} (default: %(default)s)"}
    if kind is bool:
        more["action"] = "store_true"
    elif isinstance(kind, tuple):
        more |= {"choices": kind, "default": value}
    else:
        metavar = metavar or ("FILE" if kind is None else "N")
        more |= {"type": kind, "default": value, "metavar": metavar}
    if dest is not None:
        more["dest"] = dest
    parser.add_argument(*flags.split(), **more)


def add_from(parser: Any, function: Any, *rows: tuple[str, str, Any, str]) -> None:
    """Add options (flags, parameter, kind, help) with the defaults of ``function``."""
    for flags, name, kind, text in rows:
        add(parser, flags, kind, text, default(function, name), dest=name)


def add_files(
    parser: argparse.ArgumentParser, *names: str, output: str = "", metavar: str = "FILE"
) -> None:
    """Add the positional arguments of the given names, and ``-o`` with this help."""
    texts = {
        "codebook": "made by bowsaw train or prune",
        "classifier": "made by bowsaw fit",
        "store": "made by bowsaw extract",
        "images": "a folder with one sub-folder per class",
    }
    for name in names:
        parser.add_argument(name, metavar=name.upper(), help=texts[name])
    if output:
        parser.add_argument("-o", "--output", required=True, metavar=metavar, help=output)


def add_jobs(parser: argparse.ArgumentParser, function: Any, scheduler: bool = False) -> None:
    """Add ``-j`` with the default of ``function``, and ``--scheduler`` where it can be used."""
    value = default(function, "n_jobs")
    add(parser, "-j --jobs", threads, "cores to use, -1 for all; the result is the same", value)
    if scheduler:
        text = (
            "run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786; they must see "
            "the same folders, and the result is the same"
        )
        add(parser, "--scheduler", address, text, metavar="ADDRESS")


def refuse_options(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise a ParameterError if one of these options was typed: it does not apply."""
    for name in names:
        for flag in (f"--{name.replace('_', '-')}", *_ALSO.get(name, ())):
            typed = takewhile("--".__ne__, options.typed)
            if flag in (w.partition("=")[0] if flag.startswith("--") else w[:2] for w in typed):
                raise ParameterError(f"{flag} does not apply: {reason}.")


def advanced(parser: argparse.ArgumentParser) -> Any:
    """Return the group of the options that few people need, which is shown last."""
    made = [group for group in parser._action_groups if group.title == "advanced"]
    return made[0] if made else parser.add_argument_group("advanced")


def read_sizes(text: str) -> tuple[int, int] | str:
    """Return the sizes of ``--split``: images per class in parts codebook and train, or "auto"."""
    found = _SIZES.fullmatch(text)
    if found is None and text != "auto":
        raise argparse.ArgumentTypeError(
            "must be images per class for the codebook, to train and to test, such as "
            f"50/50/rest, or auto; got {text!r}"
        )
    return "auto" if found is None else (int(found[1]), int(found[2]))


def add_sizes(parser: argparse.ArgumentParser, text: str = "auto") -> None:
    """Add ``--split`` and ``--seed``; ``text`` describes the default."""
    help_text = (
        "images per class for the codebook, to train, and the rest to test; auto: 50/50/rest where "
        f"every class has 150 images, else a third of the smallest class each (default: {text})"
    )
    add(parser, "--split", read_sizes, help_text, metavar="A/B/rest")
    add_seed(parser, "the split", "0")


def check_sizes(images: ImageFolder, options: argparse.Namespace) -> None:
    """Refuse sizes of ``--split`` that a class cannot fill, before its images are read."""
    if isinstance(options.split, tuple):
        codebook, train = options.split
        check_class_sizes(images.y, images.classes, codebook, train, "--split")


def add_part(parser: argparse.ArgumentParser, usual: str) -> None:
    """Add ``--part``, which replaces the part of the store's split that a command uses."""
    text = f"the images to use: a part of the store's split, or all (default: {usual})"
    add(advanced(parser), "--part", PARTS, text)


def add_seed(parser: Any, text: str, usual: str = "that of the store's split") -> None:
    """Add ``--seed`` without a value, so that the split can give one."""
    add(parser, "--seed", int_from(0), f"the seed of {text} (default: {usual})")


def seed_of(store: Store, options: argparse.Namespace) -> int:
    """Return the seed that was given, or that of the store's split."""
    kept = 0 if store.split is None else store.split.seed
    return kept if options.seed is None else int(options.seed)


class Part(NamedTuple):
    """The images that a command uses: a part of the store's split, or all of them."""

    name: str
    rows: NDArray[np.int64]
    split: Split | None

    def record(self) -> dict[str, Any]:
        """Return what provenance and metadata say about the images that were used."""
        if self.name == "all" or self.split is None:
            return {"part": "all"}
        return {"part": self.name, "split": self.split.record()}

    def __str__(self) -> str:
        return "all of them" if self.name == "all" else f"part {self.name}"


def part_of(command: Command, store: Store, usual: str) -> Part:
    """Return the images of ``--part``, else of the ``usual`` part, else all with a note."""
    options, kept = command.options, store.split
    name = options.part or ("all" if kept is None else usual)
    if kept is None and options.part is None and usual != "all":
        why = "a class has fewer than 3 images"
        if auto_sizes(store.y, store.classes) is not None:
            why = f"keep one with: {shlex.join(['bowsaw', 'split', options.store, 'auto'])}"
        command.note(f"{options.store} has no split, so all images are used; {why}")
    if name == "all":
        return Part(name, np.arange(store.n_usable), kept)
    kept = split_of(store, f"--part {name} is one of its parts")
    if options.part is None and not len(kept.part(name)):
        # The paper's protocol has a part for the codebook; without one, words and classes share.
        name = "train"
    return Part(name, kept.part(name), kept)


def split_of(store: Store, why: str) -> Split:
    """Return the split of a store, or raise a DataError that says why it is needed."""
    if store.split is None:
        words = shlex.join(["bowsaw", "split", str(store.path), "auto"])
        raise DataError(f"the store {store.path} has no split, and {why}. Run: {words}")
    return store.split


def check_split(book: Codebook, store: Store, options: argparse.Namespace) -> None:
    """Refuse a codebook of another split than the store's, and one that has seen test images.

    The advice is a command that works: one that gives the store the codebook's own split; or, where
    no split can test it, one that trains a codebook that can be tested.
    """
    kept = split_of(store, "a codebook belongs to a split")
    seen = leaked_images(book, store.bags, kept)
    n_leaked = 0 if seen is None else int(seen.sum())
    record = book.provenance.get("split")
    digest = record.get("digest") if isinstance(record, Mapping) else None
    differs = digest not in (None, kept.digest) and book.provenance.get("store") == store.digest
    if not n_leaked and not differs:
        return
    own = own_split(book, store.bags, store.draw_split)
    if own is not None and own["index"] == 0:
        seen_text = f", of which it has seen {n_leaked} test images" if n_leaked else ""
        sizes, seed = f"{own['codebook']}/{own['train']}/rest", str(own["seed"])
        words = ["bowsaw", "split", options.store, sizes, "--seed", seed]
        raise LeakError(
            f"the codebook belongs to another split ({sizes}, seed {seed}) than the store's "
            f"({kept.sizes}, seed {kept.seed}){seen_text}. Train another codebook, or go back to "
            f"its split: {shlex.join(words)}"
        )
    if options.name != "encode":
        what = "belongs to another split"
        if n_leaked:
            what = f"was trained on {n_leaked} test images of the split"
        raise LeakError(
            f"the codebook {what}, and no split that the store can have tests it. Train one on "
            f"part codebook: {train_command(book, options)}"
        )


def evaluate_command(store: str, codebook: str, coding: Mapping[str, Any]) -> str:
    """Return the command that tests a codebook on the store's split."""
    words = ["bowsaw", "evaluate", store, "--codebook", codebook]
    if coding.get("coding") == "soft":
        sharpness = coding["sharpness"]
        value = sharpness if isinstance(sharpness, str) else f"{sharpness:.6g}"
        words += ["--coding", "soft", "--sharpness", value]
    return shlex.join(words)


def train_command(book: Codebook, options: argparse.Namespace) -> str:
    """Return a command that trains a codebook as large as the first one on part codebook."""
    n_words = book.provenance.get("n_words", book.n_words)
    path = Path(options.codebook)
    output = str(path.with_name(f"{path.stem}-split.safetensors"))
    return shlex.join(["bowsaw", "train", options.store, "--words", str(n_words), "-o", output])


def add_coding(
    parser: argparse.ArgumentParser, learned_on: str = "the part train", several: bool = False
) -> None:
    """Add coding, sharpness and perplexity with the defaults of ``BagOfWords``.

    ``learned_on`` names the images that choose a sharpness; ``several`` allows a list of codings.
    """
    group = parser.add_argument_group("coding")
    usual = default(BagOfWords, "coding")
    if several:
        text = f"hard, soft or both, with a comma between. {CODING}"
        add(group, "--coding", comma_list(str), text, usual, metavar="A,B")
    else:
        add(group, "--coding", ("hard", "soft"), CODING, usual)
    text = (
        f"of soft coding: a number, or auto to choose it by the labels of {learned_on} "
        f"(default: {default(BagOfWords, 'sharpness'):g})"
    )
    add(group, "--sharpness", number_or_auto, text)
    text = "instead of a sharpness: how many words share a descriptor on average"
    add(group, "--perplexity", number, text)


def coding_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of coding that were given; refuse those that exclude each other."""
    if "soft" not in options.coding:
        refuse_options(
            options,
            ("sharpness", "perplexity"),
            "it belongs to soft coding, and the coding is hard. Add --coding soft, or leave it out",
        )
    found = {name: getattr(options, name) for name in ("sharpness", "perplexity")}
    given = {name: value for name, value in found.items() if value is not None}
    if len(given) > 1:
        raise ParameterError("--sharpness and --perplexity set the same thing. Give one of them.")
    return {"coding": options.coding, **given}


def coder_of(book: Codebook, store: Store, options: argparse.Namespace, **more: Any) -> BagOfWords:
    """Return the coder that the options name; refuse what does not fit before the work begins."""
    coder = BagOfWords(book, random_state=0, n_jobs=options.jobs, **coding_of(options), **more)
    coder.transform(store.bags[:0])
    book.project(store.bags)
    return coder


def learn_sharpness(coder: BagOfWords, store: Store) -> dict[str, Any] | None:
    """Fit the coder if its sharpness is not given, and return the record of the images it saw.

    They are the part train of the store's split, or all images where it has none.
    """
    if not learns_sharpness(coder):
        return None
    kept = store.split
    rows = np.arange(store.n_usable) if kept is None else kept.train
    coder.fit(store.bags[rows], store.y[rows])
    return Part("all" if kept is None else "train", rows, kept).record()


def learns_sharpness(coder: BagOfWords | argparse.Namespace) -> bool:
    """Return whether a coder, or that of the options, must learn its sharpness from images."""
    return coder.coding == "soft" and (coder.sharpness == "auto" or coder.perplexity is not None)


def coding_text(coder: BagOfWords) -> str:
    """Return the coding in words, such as "soft coding of sharpness 40"."""
    soft = f" of sharpness {coder.sharpness_in_use():.4g}" if coder.coding == "soft" else ""
    return f"{coder.coding} coding{soft}"


def open_store(path: str) -> Store:
    """Return a store with at least one usable image."""
    store = Store(path)
    if not store.n_usable:
        raise DataError(f'the store {path} has no usable image: see "bowsaw inspect {path}".')
    return store


def _is_codebook(path: Path) -> bool:
    if begins_as(FORMAT, path):
        # Also a damaged one.
        return True
    with suppress(BowsawError):
        load(path)
        return True
    return False


def _has_histograms(path: Path) -> bool:
    # As in NpzReader: damaged bytes raise many kinds of exceptions.
    with suppress(Exception), NpzReader(path) as arrays:
        return set(FIELDS) <= set(arrays.names)
    return False


def _begins_with(marks: tuple[bytes, ...], path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return any(mark in head for mark in marks)


_HEAD = 4096
_KINDS: dict[str, Callable[[Path], bool]] = {
    "codebook": _is_codebook,
    "classifier": is_classifier,
    "histogram file": _has_histograms,
    "page": partial(_begins_with, (b"<title>bowsaw: ",)),
    # The producer of a graph, the first comment of a header, or the generator of a page.
    "device file": partial(
        _begins_with, (b"\x12\x06bowsaw", b"written by bowsaw", b'="bowsaw export"')
    ),
}
"""What commands write, and how a file of that kind is known."""


def check_output(path: str, suffix: str, kind: str = "codebook", **inputs: str | None) -> None:
    """Raise a ParameterError when a file could not be written, or would be lost by writing it.

    A file is replaced only by one of its kind, and an empty file by any.
    """
    target = Path(path)
    if target.suffix != suffix:
        raise ParameterError(f"the output must be a file name that ends in {suffix}; got {path}.")
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "not a regular file"
        raise ParameterError(f"the output {path} is {what}. Choose another name.")
    for name, source in inputs.items():
        is_same = False
        # Reading an input that is missing or unreadable reports that.
        with suppress(OSError, ValueError):
            is_same = source is not None and target.samefile(source)
        if is_same:
            raise ParameterError(
                f"the output {path} is the {name} itself ({source}), which would be lost. Choose "
                "another output."
            )
    if target.exists():
        if not target.stat().st_mode & stat.S_IWUSR:
            raise ParameterError(
                f"the output {path} is write-protected. Choose another name, or allow writing it."
            )
        if target.stat().st_size and not _KINDS[kind](target):
            raise ParameterError(
                f"the output {path} is a file of another kind, not a {kind} of bowsaw, and would "
                "be lost. Choose another name, or move it away."
            )
    # A symbolic link is followed, so the file appears in the folder that the link leads to.
    folder = Path(os.path.realpath(target)).parent if target.is_symlink() else target.parent
    if not folder.absolute().is_dir():
        raise ParameterError(f"{folder} is not a folder. Make it, or choose another output.")
    _check_writable(folder)


def _check_writable(folder: Path) -> None:
    with translate_write_errors(folder), tempfile.TemporaryFile(dir=folder.absolute()):
        pass


def check_folder(path: str, source: str) -> Path:
    """Make and return the folder of a run of these images, or raise a ParameterError."""
    target = Path(path)
    check_output_folder(target, source, "run", "run.json")
    make_folder(target)
    _check_writable(target)
    return target


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add ``--overwrite``, which starts again where a checkpoint could be continued."""
    text = "start again, even if an interrupted run of this output could be continued"
    add(parser, "--overwrite", bool, text)


@contextmanager
def resumable(options: argparse.Namespace, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Lock the output and yield the checkpoint for its estimator; remove it if the block succeeds.

    ``OUTPUT.partial`` stores the settings and ``OUTPUT.partial.search`` the state of the estimator.
    Other settings than those of an interrupted run are refused, unless nothing was done yet or
    ``--overwrite`` is given.
    """
    path = Path(f"{options.output}.partial")
    with exclusive(options.output):
        head = Checkpoint(path, {"command": options.name, **settings, "version": __version__})
        if options.overwrite or (is_checkpoint(path) and not _stages(path)):
            remove_checkpoint(path)
        if head.load() is None:
            head.save({})
        try:
            yield path.with_name(f"{path.name}.search")
        except BaseException:
            if not _stages(path):
                remove_checkpoint(path)
            raise
        remove_checkpoint(path)


def _stages(path: Path) -> list[Path]:
    return list(path.absolute().parent.glob(f"{glob.escape(path.name)}.*"))
