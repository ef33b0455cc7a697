"""``bowsaw export``: a codebook, and a classifier if there is one, for a device or a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.c_header import WORDS, write_c_header
from bowsaw.formats.classifier import (
    DESCRIPTORS,
    as_recogniser,
    load_classifier,
    sift_of,
    unit_of,
)
from bowsaw.formats.onnx import write_onnx
from bowsaw.formats.registry import load
from bowsaw.formatting import format_bytes, format_count
from bowsaw.recogniser import FILES, Recogniser
from bowsaw.report import write_recogniser_page

EXAMPLE = "bowsaw export recogniser/ -o recogniser.h"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output = "what to write: an ONNX graph (.onnx), a C header (.h) or a web page (.html)"
    text = "a folder made by bowsaw shrink, or a codebook"
    parser.add_argument("codebook", metavar="RECOGNISER", help=text)
    opt.add_files(parser, output=output)
    text = "made by bowsaw fit with this codebook; brings its coding (default: histograms only)"
    opt.add(parser, "--classifier", None, text)
    text = "begin at descriptors of this type, in the codebook's unit (default: at grey pixels)"
    opt.add_from(parser, write_onnx, ("--dtype", "descriptors", DESCRIPTORS, text))
    words, name = (opt.default(write_c_header, option) for option in ("words", "name"))
    text = "type of the words in a C header: 8 bits move them a little, and the header says how far"
    opt.add(parser, "--word-dtype", WORDS, f"{text} (default: {words})")
    text = "prefix of all names in a C header, so that several fit into one program"
    opt.add(parser, "--name", opt.identifier, f"{text} (default: {name})", metavar="NAME")
    opt.add_coding(parser, "the part train of --store")
    text = "images to choose the sharpness by, for --sharpness auto and --perplexity"
    opt.add(opt.advanced(parser), "--store", None, text, metavar="STORE")


def run(command: Command) -> None:
    options = command.options
    facts: list[tuple[str, str]] = []
    if Path(options.codebook).is_dir():
        folder = options.codebook
        opt.refuse_options(
            options, ("classifier",), f"the folder {folder} has its own. Leave it out"
        )
        facts = Recogniser.load(folder).facts()
        options.codebook, options.classifier = (f"{folder}/{name}" for name in FILES[:2])
    suffix = Path(options.output).suffix
    if suffix not in (".onnx", ".h", ".html"):
        raise ParameterError(
            f"the output must be a file name that ends in .onnx, .h or .html; got {options.output}."
        )
    opt.check_output(
        options.output,
        suffix,
        "device file",
        codebook=options.codebook,
        classifier=options.classifier,
    )
    if suffix != ".h":
        reason = "it is for C headers (.h). Leave it out"
        opt.refuse_options(options, ("word_dtype", "name"), reason)
    if suffix == ".html":
        opt.refuse_options(options, ("dtype",), "a page begins at images. Leave it out")
    coding = _coding(options)
    book = load(options.codebook)
    if coding.get("coding") == "soft" and book.scale_is_unknown:
        raise ParameterError(
            f"a sharpness counts in unit-norm units, and the scale of {options.codebook} is "
            'unknown. Set it with "bowsaw convert --scale", or choose hard coding.'
        )
    coder, model = BagOfWords(book, random_state=0, n_jobs=-1, **coding), None
    if options.classifier:
        coder, model = as_recogniser(book, load_classifier(options.classifier))
    if options.store:
        opt.learn_sharpness(coder, opt.open_store(options.store))
    # A wrong sharpness is refused as everywhere.
    coder.transform([])
    if suffix == ".html":
        write_recogniser_page(coder, options.output, model, facts=facts)
    elif suffix == ".onnx":
        write_onnx(coder, options.output, model, descriptors=options.descriptors)
    else:
        more: dict[str, Any] = {} if options.name is None else {"name": options.name}
        more["words"] = options.word_dtype or opt.default(write_c_header, "words")
        write_c_header(coder, options.output, model, descriptors=options.descriptors, **more)
    taken = f"{options.descriptors or 'float32'} descriptors {unit_of(book)}"
    if options.descriptors is None and sift_of(book) is not None:
        taken = "images" if suffix == ".html" else "grey images"
    classes = f", {format_count(len(model.classes), 'class', 'classes')}" if model else ""
    command.result(
        f"{options.output}: {format_count(book.n_words, 'word')} of "
        f"{format_count(book.n_dims, 'dimension')}, {opt.coding_text(coder)}{classes} "
        f"({format_bytes(Path(options.output).stat().st_size)}); takes {taken}"
    )
    if model is None:
        command.hint("with classes: give a classifier of bowsaw fit as --classifier")


def _coding(options: argparse.Namespace) -> dict[str, Any]:
    if options.classifier:
        reason = "the classifier brings the coding that it was fitted to. Leave one of them out"
        opt.refuse_options(options, ("coding", "sharpness", "perplexity", "store"), reason)
        return {}
    found = opt.coding_of(options)
    if opt.learns_sharpness(options) and not options.store:
        raise ParameterError(
            "--sharpness auto and --perplexity choose the sharpness by images, and export has "
            "none. Add --store STORE, or give a number as --sharpness."
        )
    if not opt.learns_sharpness(options):
        opt.refuse_options(options, ("store",), "the sharpness is a number. Leave it out")
    return found
