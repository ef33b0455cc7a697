"""``bowsaw report``: the page of a run, built again from its folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli.command import Command
from bowsaw.cli.compare import print_tables
from bowsaw.cli.options import check_output
from bowsaw.comparison.records import read_run
from bowsaw.formatting import format_bytes
from bowsaw.report.page import write_page

EXAMPLE = "bowsaw report run/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="made by bowsaw compare or bowsaw evaluate")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write the page (default: RUN/index.html)"
    )


def run(command: Command) -> None:
    options = command.options
    found = read_run(options.run)
    check_output(options.output or str(Path(options.run) / "index.html"), ".html", "page")
    page = write_page(options.run, options.output)
    print_tables(command, found)
    command.result()
    command.result(f"{page}: {format_bytes(Path(page).stat().st_size)}")
