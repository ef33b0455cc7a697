"""``bowsaw export``: a codebook, and a classifier if there is one, as ONNX graph or C header."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.c_header import WORDS, write_c_header
from bowsaw.formats.classifier import DESCRIPTORS, as_recogniser, load_classifier, unit_of
from bowsaw.formats.onnx import write_onnx
from bowsaw.formats.registry import load
from bowsaw.formatting import format_bytes, format_count

EXAMPLE = "bowsaw export small.safetensors --classifier model.safetensors -o recogniser.onnx"
_TYPES = {"float": "float32", **{name: name for name in WORDS}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output = "what to write: an ONNX graph (.onnx) or a C header (.h)"
    opt.add_files(parser, "codebook", output=output)
    text = "made by bowsaw fit with this codebook; brings its coding (default: histograms only)"
    opt.add(parser, "--classifier", None, text)
    text = "the type of the descriptors that go in, always in the codebook's unit"
    opt.add_from(parser, write_onnx, ("--descriptors", "descriptors", DESCRIPTORS, text))
    words, name = (opt.default(write_c_header, option) for option in ("words", "name"))
    text = "how a C header stores words; 8 bits move them a little, and the header says how far"
    opt.add(parser, "--type", tuple(_TYPES), f"{text} (default: {words})")
    text = "prefix of all names in a C header, so that several fit into one program"
    opt.add(parser, "--name", opt.identifier, f"{text} (default: {name})", metavar="NAME")
    group = parser.add_argument_group("coding", "Without a classifier:")
    hard, sharpness = (opt.default(BagOfWords, option) for option in ("coding", "sharpness"))
    opt.add(group, "--coding", ("hard", "soft"), f"{opt.CODING} (default: {hard})")
    opt.add(group, "--sharpness", opt.number, f"of soft coding (default: {sharpness:g})")


def run(command: Command) -> None:
    options = command.options
    suffix = Path(options.output).suffix
    if suffix not in (".onnx", ".h"):
        raise ParameterError(
            f"the output must be a file name that ends in .onnx or .h; got {options.output}."
        )
    opt.check_output(
        options.output, suffix, "export", codebook=options.codebook, classifier=options.classifier
    )
    if suffix != ".h":
        reason = "it is for C headers (.h), and the output is a graph. Leave it out"
        opt.refuse_options(options, ("type", "name"), reason)
    coding = _coding(options)
    book = load(options.codebook)
    if coding.get("coding") == "soft" and book.scale_is_unknown:
        raise ParameterError(
            f"a sharpness counts in unit-norm units, and the scale of {options.codebook} is "
            'unknown. Set it with "bowsaw convert --scale", or choose hard coding.'
        )
    coder, model = BagOfWords(book, **coding), None
    if options.classifier:
        coder, model = as_recogniser(book, load_classifier(options.classifier))
    # A wrong sharpness is refused as everywhere.
    coder.transform([])
    if suffix == ".onnx":
        write_onnx(coder, options.output, model, descriptors=options.descriptors)
    else:
        more: dict[str, Any] = {} if options.name is None else {"name": options.name}
        more["words"] = _TYPES[options.type or opt.default(write_c_header, "words")]
        write_c_header(coder, options.output, model, descriptors=options.descriptors, **more)
    classes = f", {format_count(len(model.classes), 'class', 'classes')}" if model else ""
    command.status(
        f"{options.output}: {format_count(book.n_words, 'word')} of "
        f"{format_count(book.n_dims, 'dimension')}, {opt.coding_text(coder)}{classes} "
        f"({format_bytes(Path(options.output).stat().st_size)}); takes {options.descriptors} "
        f"descriptors {unit_of(book)}"
    )
    if model is None:
        command.hint(
            f"with classes: bowsaw fit {shlex.quote(options.codebook)} STORE -o model.safetensors, "
            "then export --classifier model.safetensors"
        )


def _coding(options: argparse.Namespace) -> dict[str, Any]:
    if options.classifier:
        reason = "the classifier brings the coding that it was fitted to. Leave one of them out"
        opt.refuse_options(options, ("coding", "sharpness"), reason)
    if options.coding != "soft":
        reason = "it belongs to soft coding, and the coding is hard. Add --coding soft"
        opt.refuse_options(options, ("sharpness",), reason)
    found = {name: getattr(options, name) for name in ("coding", "sharpness")}
    return {name: value for name, value in found.items() if value is not None}
