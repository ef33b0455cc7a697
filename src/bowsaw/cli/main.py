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
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from textwrap import wrap
from typing import Any, NoReturn, Self

from bowsaw._version import __version__
from bowsaw.errors import BowsawError, did_you_mean

GROUPS = {
    "start here": {
        "shrink": "turn a folder of photos into a small recogniser: words, classifier, ONNX and a "
        "page; resumable",
        "predict": "classify images with a recogniser, or with a codebook and a classifier",
        "compare": "measure pruning methods at many sizes, and write a page about them; resumable",
    },
    "step by step": {
        "extract": "describe the images of a folder and keep the descriptors in a store; resumable",
        "split": "show or change which images of a store learn words, learn classes and test",
        "train": "learn a codebook from the descriptors of a store by k-means; resumable",
        "prune": "keep only the words of a codebook that separate the classes best; resumable",
        "encode": "turn each image of a store into a histogram of a codebook's words; resumable",
        "evaluate": "measure how well a codebook recognises classes, over random splits; resumable",
        "fit": "learn a classifier of a codebook's histograms from the images of a store",
        "export": "write a codebook and a classifier for devices: an ONNX graph or a C header",
        "whatif": "compare ways to infer the histograms of fewer words without re-encoding images",
    },
    "files": {
        "inspect": "show what a store, a codebook, a classifier or a histogram file holds",
        "convert": "convert a vocabulary from the format of one tool to that of another",
        "report": "build the page of a comparison again from its records",
        "completion": "print a script for Tab completion in bash, zsh or fish",
    },
}
"""What the commands do, in the order of the help."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""The commands, each a module beside this one, and what they do."""

USAGE, INTERRUPTED, TERMINATED = 2, 130, 143
"""Exit codes beside those of ``bowsaw.errors``, as argparse and shells have them."""

SAME_REQUEST = 1.0
"""Seconds after a signal in which another one does not disturb the orderly end."""

_EXPECTED = (BowsawError, OSError, MemoryError)
_DESCRIPTION = "Make visual vocabularies small: words that a small recogniser needs, and no others."
_EXAMPLES = """\
  bowsaw shrink photos/ --keep 50 -o recogniser/     one sub-folder per class
  bowsaw predict recogniser/ new.jpg
  bowsaw compare photos/ -o run/                     how small it can be, as a page
"""
_AT_SPACES: Any = {"break_long_words": False, "break_on_hyphens": False}
_TITLE = re.compile(r"^(?=\S)([^:\n]+:)$|^(usage:)", re.MULTILINE)
_NAME = re.compile(r"^  ((?:-{1,2}[\w-]+(?:, )?)+|[a-z]+(?=  ))", re.MULTILINE)
_CHOICE = re.compile(r"(?:argument (\S+): )?invalid choice: '(.*?)' \(choose from (.*)\)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps help at spaces only, so that no path and no flag is cut."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(_columns(), 100))

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines = (wrap(line, width, **_AT_SPACES) for line in text.splitlines())
        return [line for some in lines for line in some]


def _columns() -> int:
    return max(shutil.get_terminal_size().columns - 2, 40)


class _Parser(argparse.ArgumentParser):
    """A parser with colours that reports an error in one line, with the help to read."""

    help_command = ""
    known: tuple[str, ...] = ()
    """The options of the chosen command."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Formatter, "allow_abbrev": False, **options})
        # Python 3.14 colours help too, in other places.
        self.color = False

    def print_help(self, file: Any = None) -> None:
        stream, text = sys.stdout if file is None else file, self.format_help()
        if _has_colours(stream):
            text = _TITLE.sub("\x1b[1m\\g<0>\x1b[0m", text)
            text = _NAME.sub("  \x1b[36m\\1\x1b[0m", text)
        self._print_message(text, stream)

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.split())
        found = _CHOICE.fullmatch(text)
        if found is not None:
            choices = re.findall(r"[\w-]+", found[3])
            name = "command" if found[1] == "COMMAND" else found[1]
            near = did_you_mean(found[2], choices)
            text = f"there is no {name} {found[2]!r}{near or '. Choose from ' + ', '.join(choices)}"
        text += "" if text.endswith("?") else "."
        _print_error(f'{text} See "{self.help_command or self.prog} --help".')
        raise SystemExit(USAGE)


class _TopParser(_Parser):
    """The parser of all commands; its help shows them in groups."""

    def format_help(self) -> str:
        lines = ["usage: bowsaw COMMAND ...", "", _DESCRIPTION, ""]
        for title, commands in GROUPS.items():
            lines.append(f"{title}:")
            for name, text in commands.items():
                shown = wrap(text, _columns() - 14, **_AT_SPACES)
                starts = [f"  {name:<12}", *[" " * 14] * len(shown)]
                lines += [start + line for start, line in zip(starts, shown, strict=False)]
            lines.append("")
        lines += ["examples:", _EXAMPLES, '"bowsaw COMMAND --help" describes each command.']
        return "\n".join([*lines, '"bowsaw --version" prints the version.', ""])


def _has_colours(stream: Any) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and hasattr(stream, "isatty") and bool(stream.isatty())


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
    top = _TopParser("bowsaw")
    top.add_argument("--version", action="version", version=f"bowsaw {__version__}")
    commands = top.add_subparsers(
        metavar="COMMAND", dest="name", required=True, parser_class=_Parser
    )
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
        )
        module.add_arguments(sub)
        sub._positionals.title, sub.usage = "arguments", _usage(sub)
        common = sub.add_argument_group("common options")
        common.add_argument(
            "-q", "--quiet", action="store_true", help="no progress and no notes, only results"
        )
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        sub.set_defaults(module=module)
        top.help_command = sub.prog
        top.known = tuple(sub._option_string_actions)
    return top


def _usage(sub: argparse.ArgumentParser) -> str:
    """Return what a command needs; the other options are listed below it."""
    groups = [group._group_actions for group in sub._mutually_exclusive_groups if group.required]
    needed = [[action] for action in sub._actions if action.required and action.option_strings]
    words = [sub.prog]
    for action in sub._get_positional_actions():
        more = {"+": "{} ...", "?": "[{}]"}.get(str(action.nargs), "{}")
        words.append(more.format(action.metavar or action.dest))
    for actions in (*groups, *needed):
        names = " | ".join(f"{a.option_strings[0]} {a.metavar or ''}".strip() for a in actions)
        words.append(f"({names})" if len(actions) > 1 else names)
    return " ".join([*words, "[options]"]).replace("%", "%%")


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
        _check_words(top, words)
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


def _check_words(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuse unknown options, before those that are missing, and text that no shell passes."""
    known = getattr(top, "known", ())
    for word in takewhile("--".__ne__, words if known else ()):
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            top.error(f"there is no option {flag}{did_you_mean(flag, known)}")
    # Python may pass what no file can be named with: every system call would fail.
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
    from bowsaw.cli.command import printable, wrapped

    if sys.stderr is not None:
        # A replaced stream may have no encoding.
        line = printable(" ".join(text.split()), getattr(sys.stderr, "encoding", None) or "utf-8")
        is_terminal = hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
        line = f"bowsaw: {line}"
        sys.stderr.write((wrapped(line, _columns()) if is_terminal else line) + "\n")
