"""The running command: its options, and how it prints.

Results go to standard output, everything else to standard error, so that a pipe or a file gets
results only. File names may hold any character, so text is made printable first.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from textwrap import wrap
from typing import Any, NoReturn, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bowsaw.progress import color_system, shown_console, watch_compiling

_PAGE = 100
"""Columns of running text where no terminal sets a narrower limit."""

_NO_LIMIT = 100_000
_GAP = 2
_COMMAND = re.compile(r"(?<=[:;,] )bowsaw [a-z]+ .*$")


class Command:
    """The parsed options of one call, and the methods to print with."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.quiet: bool = options.quiet
        self._out, self._err = _Console(), _Console(stderr=True)
        self._columns = self._out.width if self._out.is_terminal else _NO_LIMIT
        self._err_columns = self._err.width if self._err.is_terminal else _NO_LIMIT
        # Rich cuts and folds at the width of a console; columns of numbers are cut here instead.
        self._out.width = self._err.width = _NO_LIMIT

    def result(self, text: str = "") -> None:
        """Print one line of the result."""
        self._out.print(wrapped(printable(text, self._out.encoding), self._columns))

    def raw(self, text: str) -> None:
        """Print one line that programs read."""
        self._out.file.write(printable(text, self._out.encoding) + "\n")

    def note(self, text: str) -> None:
        """Print one line on standard error, unless quiet."""
        if self.quiet:
            return
        try:
            # Above a bar, if there is one, not into it.
            console = shown_console() or self._err
            line = wrapped(printable(text, self._err.encoding), self._err_columns)
            console.print(Text(line), style="dim", soft_wrap=True)
        except OSError as error:
            if not is_closed_pipe(error):
                raise
            # A closed standard error is no reason to stop the work.
            redirect_to_null(sys.stderr)

    def hint(self, text: str) -> None:
        """Print a note that is useful only at a terminal."""
        if self._err.is_terminal:
            self.note(text)

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and values; long values are wrapped."""
        indent = max(cell_len(name) for name, _ in rows) + _GAP
        width = max(min(self._columns, _PAGE) - indent, 20)
        for name, value in rows:
            lines = wrap(
                printable(value, self._out.encoding),
                width,
                subsequent_indent=" " * _GAP,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for title, line in zip([name, *[""] * len(lines)], lines, strict=False):
                self._out.print(f"{title:<{indent}}{line}")

    def table(self, rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
        """Print rows of a name and numbers; columns beyond the terminal's edge follow below."""
        lines = [[printable(cell, self._out.encoding) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) + _GAP for column in zip(header, *lines, strict=True)]
        for number, columns in enumerate(_column_blocks(widths, self._columns)):
            table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
            for i in columns:
                table.add_column(header[i], justify="right" if i else "left")
            for line in lines:
                table.add_row(*(line[i] for i in columns))
            if number:
                self.result()
            self._out.print(table)

    def json(self, value: Any) -> None:
        """Print a value as JSON, in ASCII so that no encoding can spoil it."""
        self._out.file.write(json.dumps(value, indent=1, allow_nan=False) + "\n")

    def flush(self) -> None:
        """Flush standard output, so that a closed pipe is noticed now."""
        self._out.file.flush()

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Show each warning as one line, once, without the code; and that kernels are compiled."""
        shown = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = " ".join(str(message).split())
            if text not in shown:
                shown.add(text)
                self.note(f"warning: {text}")

        announce = partial(self.note, "compiling kernels (first run only)")
        with warnings.catch_warnings(), watch_compiling(announce):
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
            yield


class _Console(Console):
    """A console that prints text unchanged and raises on a broken pipe."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(
            stderr=stderr,
            color_system=color_system(),
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def _column_blocks(widths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Yield the columns of each table that fits: the first column and some of the others."""
    block, used = [0], widths[0]
    for i, width in enumerate(widths[1:], start=1):
        if len(block) > 1 and used + width - _GAP > limit:
            yield block
            block, used = [0], widths[0]
        block.append(i)
        used += width
    yield block


def is_closed_pipe(error: OSError) -> bool:
    """Return whether a pipe was closed at its other end; Windows calls that an invalid argument."""
    gone = (errno.EPIPE, errno.EINVAL) if os.name == "nt" else (errno.EPIPE,)
    return isinstance(error, BrokenPipeError) or (error.errno in gone and error.filename is None)


def redirect_to_null(stream: TextIO) -> None:
    """Let a stream with a closed pipe write to the null device, so that Python can close it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def wrapped(text: str, columns: int) -> str:
    """Return text in lines broken at spaces; a command at its end stays whole, to be copied."""
    if cell_len(text) <= columns:
        return text
    found = _COMMAND.search(text)
    head, command = (text, "") if found is None else (text[: found.start()], found[0])
    indent = " " * (len(text) - len(text.lstrip()))
    how: Any = {"break_long_words": False, "break_on_hyphens": False}
    lines = wrap(head, columns, subsequent_indent=indent, **how)
    return "\n".join([*lines, *([f"  {command}"] if command else [])])


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Return text that is safe to print: other characters become escapes."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)
