"""``bowsaw report``: the page of a run, built again from its records."""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli.command import Command, Verb, file_size
from bowsaw.cli.comparing import show_tables
from bowsaw.cli.options import check_output
from bowsaw.comparison.records import read_run
from bowsaw.report.page import write_page


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="made by bowsaw compare")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write the page (default: RUN/index.html)"
    )


def _run(command: Command) -> None:
    options = command.options
    if options.output:
        check_output(options.output, ".html")
    run = read_run(options.run)
    page = write_page(options.run, options.output)
    if not command.quiet:
        show_tables(command, run.cells)
        command.say("")
    command.say(f"{page}: {file_size(Path(page).stat().st_size)}")


VERB = Verb(
    example="bowsaw report run/",
    add_arguments=_add_arguments,
    run=_run,
)
