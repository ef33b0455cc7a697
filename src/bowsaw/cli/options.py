"""What the verbs share: their shape, common options, and printing."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bowsaw.images.split import Split
from bowsaw.store import Store

PARTS = ("all", "codebook", "train", "test")


@dataclass(frozen=True)
class Verb:
    """One command: its help, an example, its arguments and what it does."""

    help: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Command], None]
    after_interrupt: str = "Run the same command again to go on."


class Command:
    """The parsed options of one call, and the way to print.

    Results go to standard output, everything else to standard error.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.quiet: bool = options.quiet
        self._out = Console(highlight=False, soft_wrap=True, file=sys.stdout)
        self._err = Console(highlight=False, soft_wrap=True, stderr=True)

    def say(self, text: str) -> None:
        """Print one line of result, unless quiet."""
        if not self.quiet:
            self._out.print(escape(printable(text)))

    def note(self, text: str) -> None:
        """Print one line beside the result, on standard error, unless quiet."""
        if not self.quiet:
            self._err.print(escape(printable(text)), style="dim")

    def table(self, rows: list[tuple[str, ...]], header: tuple[str, ...] | None = None) -> None:
        """Print rows as a table; without a header, as names and values."""
        if self.quiet:
            return
        table = Table(
            show_header=header is not None, box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for i, title in enumerate(header or ("",) * len(rows[0])):
            numeric = header is not None and i > 0
            table.add_column(title, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(escape(printable(cell)) for cell in row))
        self._out.print(table, soft_wrap=False)

    def json(self, value: Any) -> None:
        """Print a value as JSON, quiet or not: it was asked for."""
        self._out.print(json.dumps(value, indent=1, ensure_ascii=False), markup=False)

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Show our own warnings as one line each, without the code that raised them."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.note(f"warning: {text}")


def printable(text: str) -> str:
    """Return text that any terminal can print: file names may hold bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def default(function: Any, name: str) -> Any:
    """Return the default of a parameter, so that the command line never has one of its own."""
    return inspect.signature(function).parameters[name].default


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add ``-j``."""
    parser.add_argument(
        "-j", "--jobs", type=int, default=-1, metavar="N", help="threads (default: every core)"
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a split and one of its parts."""
    group = parser.add_argument_group(
        "which images",
        "A split deals the images of each class into three disjoint parts: codebook, train, test.",
    )
    group.add_argument(
        "--part", choices=PARTS, default="all", help="the part to use (default: all images)"
    )
    add_split_sizes(group)
    group.add_argument(
        "--split", type=int, default=0, metavar="I", help="which split of the seed (default: 0)"
    )


def add_split_sizes(parser: Any) -> None:
    """Add the sizes of a split's parts and the seed."""
    parser.add_argument(
        "--train-codebook",
        type=int,
        default=50,
        metavar="N",
        help="images a class in the part codebook (default: 50)",
    )
    parser.add_argument(
        "--train",
        type=int,
        default=50,
        metavar="N",
        help="images a class in the part train (default: 50)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="drives every random choice (default: 0)"
    )


def split_of(store: Store, options: argparse.Namespace) -> Split:
    """Return the split that the options name."""
    return store.split(
        codebook=options.train_codebook,
        train=options.train,
        seed=options.seed,
        index=options.split,
    )


def split_record(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a codebook's provenance says of the images that were used."""
    if options.part == "all":
        return {"part": "all"}
    return {
        "part": options.part,
        "split": {
            "codebook": options.train_codebook,
            "train": options.train,
            "seed": options.seed,
            "index": options.split,
        },
    }


def add_coding(parser: argparse.ArgumentParser, coder: Any) -> None:
    """Add coding, sharpness and perplexity with the coder's own defaults."""
    parser.add_argument(
        "--coding",
        choices=("hard", "soft"),
        default=default(coder, "coding"),
        help="hard: a descriptor counts for its nearest word; soft: it is shared among all words "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--sharpness",
        type=number_or_auto,
        default=default(coder, "sharpness"),
        metavar="S",
        help="of soft coding: a number, or auto to choose it by the training labels "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--perplexity",
        type=float,
        default=default(coder, "perplexity"),
        metavar="P",
        help="instead of a sharpness: how many words share a descriptor on average",
    )


def number_or_auto(text: str) -> float | str:
    """Read a number or the word auto."""
    return text if text == "auto" else float(text)


def megabytes(n_bytes: int) -> str:
    """Return a size as a person reads it.

    Examples
    --------
    >>> megabytes(512), megabytes(512_000), megabytes(98_000_000)
    ('512 B', '512 kB', '98.0 MB')
    """
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"
