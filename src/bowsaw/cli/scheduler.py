"""The option that sends work to a cluster."""

from __future__ import annotations

import argparse
import re

_ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


def address(text: str) -> str:
    """Read the address of a scheduler.

    Examples
    --------
    >>> address("tcp://10.0.0.1:8786"), address("head-node:8786")
    ('tcp://10.0.0.1:8786', 'head-node:8786')
    """
    if not _ADDRESS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"must be the address of a scheduler, such as tcp://10.0.0.1:8786; got {text!r}"
        )
    return text


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """Add ``--scheduler``."""
    parser.add_argument(
        "--scheduler",
        type=address,
        metavar="ADDRESS",
        help="let the workers of this Dask scheduler do it, such as tcp://10.0.0.1:8786; they "
        "must see the same folders, and the result is the same",
    )
