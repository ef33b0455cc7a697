"""The command: parses, calls one verb, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from bowsaw._version import __version__
from bowsaw.cli.options import Command, Verb
from bowsaw.errors import BowsawError

VERBS = ("extract", "train", "encode", "evaluate", "inspect")
INTERRUPTED = 130

_DESCRIPTION = "Build visual vocabularies from folders of images, measure them, prune them."
_EPILOG = """\
example, from a folder with one sub-folder a class to an accuracy:
  bowsaw extract scenes/ -o scenes.store
  bowsaw evaluate scenes.store --words 1000 --train-codebook 50 --train 50 --splits 5
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        "bowsaw",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"bowsaw {__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in VERBS:
        verb: Verb = import_module(f"bowsaw.cli.{name}").VERB
        sub = verbs.add_parser(
            name,
            help=verb.help,
            description=verb.help[:1].upper() + verb.help[1:] + ".",
            epilog=f"example:\n  {verb.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.add_arguments(sub)
        common = sub.add_argument_group("common options")
        common.add_argument("-q", "--quiet", action="store_true", help="print errors only")
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        sub.set_defaults(verb=verb)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        options.verb.run(Command(options))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("bowsaw: interrupted. " + options.verb.after_interrupt, file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in «bowsaw inspect … | head». Nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (BowsawError, OSError, MemoryError) as error:
        if options.debug:
            raise
        text = str(error).encode("utf-8", "backslashreplace").decode() or type(error).__name__
        print("bowsaw: " + " ".join(text.split()), file=sys.stderr)  # noqa: T201
        return error.exit_code if isinstance(error, BowsawError) else 1
    return 0
