"""The command: parses, calls one verb, and turns errors into one line and an exit code.

Only the module of the verb that is asked for is imported, so ``bowsaw --help`` is quick, and
whatever goes wrong from then on, Ctrl-C during a slow import included, ends in one line.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from bowsaw._version import __version__
from bowsaw.errors import BowsawError

if TYPE_CHECKING:
    from bowsaw.cli.command import Verb

VERBS = {
    "extract": "describe the images of a folder and keep the descriptors in a store; resumable",
    "train": "learn a codebook from the descriptors of a store by k-means; resumable",
    "prune": "keep only those words of a codebook that tell classes apart best; resumable",
    "encode": "turn each image of a store into a histogram of a codebook's words; resumable",
    "evaluate": "measure how well a codebook recognises classes, over random splits; resumable",
    "fit": "learn a classifier of a codebook's histograms from the images of a store",
    "predict": "tell the classes of pictures with a codebook and a classifier",
    "export": "write a codebook and a classifier for devices: an ONNX graph or a C header",
    "compare": "measure methods that prune, at many sizes, and write a page of it; resumable",
    "report": "build the page of a comparison again from its records",
    "whatif": "compare ways to tell the histograms of fewer words without coding images again",
    "convert": "turn a vocabulary of one tool into a file of another's",
    "inspect": "tell what a store, a codebook, a classifier or a histogram file holds",
    "completion": "print a script that lets the Tab key finish commands in bash, zsh or fish",
}
"""The verbs, each a module beside this one, and what they do."""

USAGE, INTERRUPTED, TERMINATED = 2, 130, 143
"""Exit codes beside those of ``bowsaw.errors``: as argparse and as shells have them."""

_EXPECTED = (BowsawError, OSError, MemoryError)

_DESCRIPTION = "Build visual vocabularies from folders of images, measure them, prune them."
_EPILOG = """\
from a folder with one sub-folder a class to an accuracy:
  bowsaw extract scenes/ -o scenes.store
  bowsaw evaluate scenes.store --words 1000 --train-codebook 50 --train 50 --splits 5

how small the codebook can be, and what that costs, as a page:
  bowsaw compare scenes/ --words 1000 --sizes 20,50,100 -o run/

"bowsaw COMMAND --help" tells more of each.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and where to read on."""

    helper = ""

    def error(self, message: str) -> NoReturn:
        from bowsaw.cli.command import printable

        # What was typed may hold anything, and is quoted here.
        told = " ".join(printable(message).split())
        self.exit(USAGE, f'bowsaw: {told}. See "{self.helper or self.prog} --help".\n')


class _Signals:
    """Lets SIGTERM end the work like Ctrl-C does: files closed, the terminal as it was.

    ``received`` tells which of the two came. An exception that is raised while Python imports
    modules may get lost there, so ``check`` raises it again.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        # Signals belong to the main thread, and one that is ignored (nohup) stays ignored.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self.received = number
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise if a signal came."""
        if self.received is not None:
            raise KeyboardInterrupt


def parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, complete for the chosen verb alone."""
    top = _Parser(
        "bowsaw",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"bowsaw {__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", dest="name", required=True)
    for name, text in VERBS.items():
        if name != chosen:
            verbs.add_parser(name, help=text)
            continue
        verb: Verb = import_module(f"bowsaw.cli.{name}").VERB
        sub = verbs.add_parser(
            name,
            help=text,
            description=text[:1].upper() + text[1:] + ".",
            epilog=f"example:\n  {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.add_arguments(sub)
        common = sub.add_argument_group("common options")
        common.add_argument(
            "-q", "--quiet", action="store_true", help="no progress and no notes, only results"
        )
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        sub.set_defaults(verb=verb)
        top.helper = sub.prog
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        parser().print_help(sys.stderr)
        return USAGE
    options, signals = None, _Signals()
    try:
        with signals:
            top = parser(words[0])
            _check_names(top, words)
            options = top.parse_args(words)
            options.typed = words
            signals.check()
            _run(options)
    except BaseException as error:
        # What a signal breaks in the middle of an import may come out as anything.
        if signals.received is not None or isinstance(error, KeyboardInterrupt):
            said = str(error) if isinstance(error, KeyboardInterrupt) else ""
            return _stopped(signals.received, options, said)
        if options is None or options.debug or not isinstance(error, _EXPECTED):
            raise
        _complain(_text(error))
        return error.exit_code if isinstance(error, BowsawError) else 1
    return 0


def _check_names(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuse what no shell hands over, but a caller in Python may: every system call would fail."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            top.error(f"{word!r} has a character that no file can be named with here")


def _run(options: argparse.Namespace) -> None:
    from bowsaw.cli.command import Command, reader_has_gone, to_nowhere

    command = Command(options)
    try:
        with command.warnings_as_notes():
            options.verb.run(command)
        command.flush()
    except OSError as error:
        # As in "bowsaw inspect … | head". Verbs print when all is done, so nothing is missing.
        if not reader_has_gone(error):
            raise
        to_nowhere(sys.stdout)


def _stopped(number: int | None, options: argparse.Namespace | None, said: str) -> int:
    """Tell what became of the work: as the verb said when it was stopped, or as it says always."""
    advice = said or ("" if options is None else options.verb.after_interrupt)
    if number == signal.SIGTERM:
        _complain(f"terminated. {advice}")
        return TERMINATED
    _complain(f"interrupted. {advice}")
    return INTERRUPTED


def _text(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"out of memory. {error}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        # Python would begin with "[Errno 13]", which helps nobody.
        return f"{error.filename}: {error.strerror}." if error.filename else error.strerror
    return str(error) or type(error).__name__


def _complain(text: str) -> None:
    from bowsaw.cli.command import printable

    if sys.stderr is not None:
        # What stands in for a stream may have no encoding.
        line = printable(" ".join(text.split()), getattr(sys.stderr, "encoding", None) or "utf-8")
        sys.stderr.write(f"bowsaw: {line}\n")
