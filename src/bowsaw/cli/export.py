"""``bowsaw export``: a codebook, and a classifier if there is one, for other devices.

The end of the output's name says what is written: ``.onnx`` a graph, ``.h`` a C header.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from bowsaw.cli.command import Command, Verb, counted, file_size
from bowsaw.cli.options import check_output, default, number
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.formats.c_header import WORDS, write_c_header
from bowsaw.formats.classifier import load_classifier
from bowsaw.formats.linear_model import DESCRIPTORS, LinearModel, as_recogniser, unit_of
from bowsaw.formats.onnx import write_onnx
from bowsaw.formats.vocabulary import load

_TYPES = {"float": "float32", **{name: name for name in WORDS}}


def _name(text: str) -> str:
    """Read the beginning of names in C, which is not a path."""
    return text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train or prune")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="what to write: an ONNX graph (.onnx) or a C header (.h)",
    )
    parser.add_argument(
        "--classifier",
        metavar="FILE",
        help="made by bowsaw fit with this codebook; brings its coding (default: histograms only)",
    )
    parser.add_argument(
        "--descriptors",
        choices=DESCRIPTORS,
        default=default(write_onnx, "descriptors"),
        help="the type of the descriptors that go in, always in the codebook's unit "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--type",
        choices=tuple(_TYPES),
        help="how a C header stores words; 8 bits move them a little, as it tells "
        f"(default: {default(write_c_header, 'words')})",
    )
    parser.add_argument(
        "--name",
        type=_name,
        metavar="NAME",
        help="what all that a C header defines begins with, so that several fit into one program "
        f"(default: {default(write_c_header, 'name')})",
    )
    group = parser.add_argument_group("coding", "Without a classifier:")
    group.add_argument(
        "--coding",
        choices=("hard", "soft"),
        help="hard: a descriptor counts for its nearest word; soft: it is shared among all words "
        f"(default: {default(BagOfWords, 'coding')})",
    )
    group.add_argument(
        "--sharpness",
        type=number,
        metavar="S",
        help=f"of soft coding (default: {default(BagOfWords, 'sharpness'):g})",
    )


def _run(command: Command) -> None:
    options = command.options
    suffix = Path(options.output).suffix
    if suffix not in (".onnx", ".h"):
        raise ParameterError(
            f"the output must be a file name that ends in .onnx or .h; got {options.output}."
        )
    check_output(options.output, suffix, codebook=options.codebook, classifier=options.classifier)
    for flag in ("type", "name"):
        if getattr(options, flag) is not None and suffix != ".h":
            raise ParameterError(
                f"--{flag} is for C headers (.h), and the output is a graph. Drop it."
            )
    coding = _coding(options)
    book = load(options.codebook)
    if coding.get("coding") == "soft" and book.scale_is_unknown:
        raise ParameterError(
            f"a sharpness counts in unit-norm units, and {options.codebook} does not tell its "
            "scale. Tell it with «bowsaw convert --scale», or choose hard coding."
        )
    coder, model = BagOfWords(book, **coding), None
    if options.classifier:
        coder, model = as_recogniser(book, load_classifier(options.classifier))
    # A wrong sharpness is told like everywhere.
    coder.transform([])
    if suffix == ".onnx":
        write_onnx(coder, options.output, model, descriptors=options.descriptors)
    else:
        kind: Any = _TYPES[options.type or default(write_c_header, "words")]
        called = {} if options.name is None else {"name": options.name}
        write_c_header(
            coder, options.output, model, words=kind, descriptors=options.descriptors, **called
        )
    command.say(
        f"{options.output}: {_told(coder, model)} ({file_size(Path(options.output).stat().st_size)}"
        f"); takes {options.descriptors} descriptors {unit_of(book)}"
    )
    if model is None:
        command.hint(
            f"with classes: bowsaw fit {shlex.quote(options.codebook)} STORE -o model.safetensors, "
            "then export --classifier model.safetensors"
        )


def _coding(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        name: getattr(options, name)
        for name in ("coding", "sharpness")
        if getattr(options, name) is not None
    }
    if given and options.classifier:
        raise ParameterError(
            f"--{next(iter(given))} is for histograms alone, and the classifier brings the coding "
            "that it was fitted to. Drop one of them."
        )
    if "sharpness" in given and given.get("coding") != "soft":
        raise ParameterError(
            "--sharpness belongs to soft coding, and the coding is hard. Add --coding soft, or "
            "leave it out."
        )
    return given


def _told(coder: BagOfWords, model: LinearModel | None) -> str:
    book = coder.words_in_use()
    soft = coder.coding == "soft"
    sharpness = f" of sharpness {coder.sharpness_in_use():.4g}" if soft else ""
    classes = f", {counted(len(model.classes), 'class', 'classes')}" if model else ""
    words = f"{counted(book.n_words, 'word')} of {counted(book.n_dims, 'dimension')}"
    return f"{words}, {coder.coding} coding{sharpness}{classes}"


VERB = Verb(
    example="bowsaw export small.safetensors --classifier model.safetensors -o recogniser.onnx",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Nothing was written. Run the same command again.",
)
