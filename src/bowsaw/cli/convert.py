"""``bowsaw convert``: a vocabulary from one tool's file into another's.

What a foreign file does not tell stays unknown, and what the new file cannot keep is named.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli.command import Command, Verb, counted, file_size
from bowsaw.cli.options import check_output, number
from bowsaw.codebook import Codebook
from bowsaw.formats.matrices import LAYOUTS
from bowsaw.formats.vocabulary import load, lost_in, save, writer_of


def _name(text: str) -> str:
    """Read the name of a matrix, which is not a path."""
    return text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input",
        metavar="IN",
        help="safetensors, .npy, .npz, OpenCV's .yml, .xml or .json (or .gz of these), faiss's "
        "index, .skops or .mat; the content decides, not the name",
    )
    parser.add_argument(
        "output", metavar="OUT", help="the file to write; its name's end tells the format"
    )
    parser.add_argument(
        "--variable",
        type=_name,
        metavar="NAME",
        help="the matrix with the words, where IN holds several",
    )
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="whether a word is a row or a column of IN, where that is in doubt",
    )
    parser.add_argument(
        "--scale",
        type=number,
        metavar="S",
        help="the unit of IN's words: value / S is in unit-norm units; 512 for SIFT of bowsaw's, "
        "OpenCV's and VLFeat's (default: unknown)",
    )


def _run(command: Command) -> None:
    options = command.options
    source, target = Path(options.input), Path(options.output)
    writer_of(target)
    check_output(options.output, target.suffix, input=options.input)
    book = load(source, variable=options.variable, layout=options.layout, scale=options.scale)
    save(book, target)
    lost = lost_in(book, target)
    command.say(
        f"{target}: {counted(book.n_words, 'word')} of {book.n_dims} dimensions "
        f"({file_size(target.stat().st_size)}) from {source} ({_told(book)}); "
        + (f"not kept: {', '.join(lost)}" if lost else "nothing is lost")
    )


def _told(book: Codebook) -> str:
    about = book.provenance.get("read_from")
    scale = "scale unknown" if book.scale_is_unknown else f"scale {book.scale:g}"
    if not isinstance(about, dict):
        return f"bowsaw's own, {scale}"
    way = "row" if about.get("layout") == "rows" else "column"
    return f"{about.get('format')}, {about.get('variable')}, a word a {way}, {scale}"


VERB = Verb(
    example="bowsaw convert book.safetensors vocabulary.yml",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Nothing was written.",
)
