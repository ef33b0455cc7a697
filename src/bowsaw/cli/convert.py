"""``bowsaw convert``: a vocabulary from the format of one tool to that of another."""

from __future__ import annotations

import argparse
from pathlib import Path

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.formats.reader import LAYOUTS
from bowsaw.formats.registry import load, lost_in, save, writer_of
from bowsaw.formatting import format_bytes, format_count

EXAMPLE = "bowsaw convert book.safetensors vocabulary.yml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = (
        "safetensors, .npy, .npz, OpenCV's .yml, .xml or .json (or .gz of these), faiss's index, "
        ".skops or .mat; the content decides, not the name"
    )
    parser.add_argument("input", metavar="IN", help=text)
    parser.add_argument("output", metavar="OUT", help="the file to write; its suffix is the format")
    text = "the matrix with the words, where IN holds several"
    opt.add(parser, "--variable", opt.identifier, text, metavar="NAME")
    text = "whether a word is a row or a column of IN, where that is in doubt"
    opt.add(parser, "--layout", tuple(LAYOUTS), text)
    text = (
        "the unit of IN's words: value / S is in unit-norm units; 512 for SIFT of bowsaw, OpenCV "
        "and VLFeat (default: unknown)"
    )
    opt.add(parser, "--scale", opt.number, text, metavar="S")


def run(command: Command) -> None:
    options = command.options
    source, target = Path(options.input), Path(options.output)
    writer_of(target)
    opt.check_output(options.output, target.suffix, input=options.input)
    book = load(source, variable=options.variable, layout=options.layout, scale=options.scale)
    save(book, target)
    lost = lost_in(book, target)
    command.result(
        f"{target}: {format_count(book.n_words, 'word')} of {book.n_dims} dimensions "
        f"({format_bytes(target.stat().st_size)}) from {source} ({_source_text(book)}); "
        + (f"not kept: {', '.join(lost)}" if lost else "nothing is lost")
    )


def _source_text(book: Codebook) -> str:
    about = book.provenance.get("read_from")
    scale = "scale unknown" if book.scale_is_unknown else f"scale {book.scale:g}"
    if not isinstance(about, dict):
        return f"bowsaw's own, {scale}"
    way = "row" if about.get("layout") == "rows" else "column"
    return f"{about.get('format')}, {about.get('variable')}, one word per {way}, {scale}"
