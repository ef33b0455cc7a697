"""The entry point: parses, runs one command, and turns errors into one line and an exit code.

Only the module of the chosen command is imported, so ``bowsaw --help`` is quick. Such a module has
``EXAMPLE``, ``add_arguments(parser)``, ``run(command)`` and, where the default does not hold,
``AFTER_INTERRUPT``: what to do after Ctrl-C.
"""

from __future__ import annotations

import _thread
import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn, Self

from bowsaw._version import __version__
from bowsaw.errors import BowsawError

COMMANDS = {
    "shrink": "turn a folder of photos into a small recogniser and a page about it; resumable",
    "extract": "describe the images of a folder and keep the descriptors in a store; resumable",
    "split": "show or change which images of a store learn words, learn classes and test",
    "train": "learn a codebook from the descriptors of a store by k-means; resumable",
    "prune": "keep only the words of a codebook that separate the classes best; resumable",
    "encode": "turn each image of a store into a histogram of a codebook's words; resumable",
    "evaluate": "measure how well a codebook recognises classes, over random splits; resumable",
    "fit": "learn a classifier of a codebook's histograms from the images of a store",
    "predict": "classify images with a recogniser, or with a codebook and a classifier",
    "export": "write a codebook and a classifier for devices: an ONNX graph or a C header",
    "compare": "measure pruning methods at many sizes, and write a page about them; resumable",
    "report": "build the page of a comparison again from its records",
    "whatif": "compare ways to infer the histograms of fewer words without re-encoding images",
    "convert": "convert a vocabulary from the format of one tool to that of another",
    "inspect": "show what a store, a codebook, a classifier or a histogram file holds",
    "completion": "print a script for Tab completion in bash, zsh or fish",
}
"""The commands, each a module beside this one, and what they do."""

USAGE, INTERRUPTED, TERMINATED = 2, 130, 143
"""Exit codes beside those of ``bowsaw.errors``, as argparse and shells have them."""

SAME_REQUEST = 1.0
"""Seconds after a signal in which another one does not disturb the orderly end."""

_EXPECTED = (BowsawError, OSError, MemoryError)
_DESCRIPTION = "Build visual vocabularies from folders of images, measure them, prune them."
_EPILOG = """\
from a folder with one sub-folder per class to an accuracy:
  bowsaw extract scenes/ -o scenes.store
  bowsaw evaluate scenes.store --words 1000 --splits 5

how small the codebook can be, and what that costs, as a page:
  bowsaw compare scenes/ --words 1000 --sizes 20,50,100 -o run/

"bowsaw COMMAND --help" describes each command.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with the help to read."""

    help_command = ""

    def error(self, message: str) -> NoReturn:
        from bowsaw.cli.command import printable

        text = " ".join(printable(message).split())
        self.exit(USAGE, f'bowsaw: {text}. See "{self.help_command or self.prog} --help".\n')


class _Signals:
    """Lets SIGTERM end the work as Ctrl-C does: files closed, the terminal restored."""

    def __init__(self, is_process: bool) -> None:
        self.received: int | None = None
        self._is_process = is_process
        self._last = -math.inf
        self._before: dict[int, Any] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_process:
            return
        sys.unraisablehook = self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def finish(self) -> None:
        """Ignore what comes from now on: only messages are left."""
        self._last = math.inf

    def install(self) -> None:
        """Receive signals until the end of the ``with`` block, or of the process."""
        sys.unraisablehook = self._raise_again
        # Signals belong to the main thread, and one that is ignored (nohup) stays ignored.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before != signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._receive)

    def _receive(self, number: int, _: object) -> None:
        # One that follows at once (the shell and a parent both send it) is the same request.
        if time.monotonic() < self._last + SAME_REQUEST:
            return
        self.received, self._last = number, time.monotonic()
        raise KeyboardInterrupt

    def _raise_again(self, unraisable: Any) -> None:
        """Repeat a signal that arrived in a destructor, where Python drops the exception."""
        if self.received is None:
            self._hook(unraisable)
        elif isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._last = -math.inf
            threading.Timer(0.01, _thread.interrupt_main, (self.received,)).start()
        # Else an object was half made when the signal came; the message says all there is to say.


def parser(*chosen: str) -> argparse.ArgumentParser:
    """Return the parser of the command line, complete for the chosen commands only."""
    top = _Parser(
        "bowsaw",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"bowsaw {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="name", required=True)
    for name, text in COMMANDS.items():
        if name not in chosen:
            commands.add_parser(name, help=text)
            continue
        module = import_module(f"bowsaw.cli.{name}")
        sub = commands.add_parser(
            name,
            help=text,
            description=text[:1].upper() + text[1:] + ".",
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
        common = sub.add_argument_group("common options")
        common.add_argument(
            "-q", "--quiet", action="store_true", help="no progress and no notes, only results"
        )
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        sub.set_defaults(module=module)
        top.help_command = sub.prog
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        parser().print_help(sys.stderr)
        return USAGE
    with _Signals(is_process=arguments is None) as signals:
        return _main(words, signals)


def _main(words: list[str], signals: _Signals) -> int:
    options = None
    try:
        signals.install()
        top = parser(words[0])
        _check_names(top, words)
        options = top.parse_args(words)
        options.typed = words
        if signals.received is not None:
            # Python has lost the exception in an import.
            raise KeyboardInterrupt
        _run(options)
        signals.finish()
    except BaseException as error:
        signals.finish()
        expected = isinstance(error, _EXPECTED)
        # A signal in the middle of an import may surface as any exception of Python's.
        if isinstance(error, KeyboardInterrupt) or (signals.received is not None and not expected):
            message = str(error) if isinstance(error, KeyboardInterrupt) else ""
            return _report_stop(signals.received, options, message)
        if options is None or options.debug or not expected:
            raise
        _print_error(_message(error))
        return error.exit_code if isinstance(error, BowsawError) else 1
    return 0


def _check_names(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuse text that no shell passes, but Python may: every system call would fail."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            top.error(f"{word!r} has a character that no file can be named with here")


def _run(options: argparse.Namespace) -> None:
    from bowsaw.cli.command import Command, is_closed_pipe, redirect_to_null

    command = Command(options)
    try:
        with command.warnings_as_notes():
            options.module.run(command)
        command.flush()
    except OSError as error:
        # As in "bowsaw inspect ... | head". Commands print when all is done: nothing is missing.
        if not is_closed_pipe(error):
            raise
        redirect_to_null(sys.stdout)


def _report_stop(number: int | None, options: argparse.Namespace | None, message: str) -> int:
    """Print how to continue: the command's own message, or what always holds for it."""
    if options is not None:
        default = "Run the same command again to continue."
        message = message or getattr(options.module, "AFTER_INTERRUPT", default)
    if number == signal.SIGTERM:
        _print_error(f"terminated. {message}")
        return TERMINATED
    _print_error(f"interrupted. {message}")
    return INTERRUPTED


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"out of memory. {error}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        # Python would begin with "[Errno 13]".
        return f"{error.filename}: {error.strerror}." if error.filename else error.strerror
    return str(error) or type(error).__name__


def _print_error(text: str) -> None:
    from bowsaw.cli.command import printable

    if sys.stderr is not None:
        # A replaced stream may have no encoding.
        line = printable(" ".join(text.split()), getattr(sys.stderr, "encoding", None) or "utf-8")
        sys.stderr.write(f"bowsaw: {line}\n")
