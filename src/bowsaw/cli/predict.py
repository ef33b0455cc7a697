"""``bowsaw predict``: images to classes, with a codebook and a classifier.

An image is described as the codebook's own descriptors were. A file that cannot be used is set
aside with the reason; the others get their classes. One that was named itself makes the command
fail at the end, one of a folder does not, as in ``bowsaw extract``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.bags import Bags
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.errors import DataError, ImageError, ParameterError
from bowsaw.formats.classifier import LinearModel, load_classifier
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count
from bowsaw.images.folder import files_in
from bowsaw.parallel import ordered_map
from bowsaw.progress import Progress

EXAMPLE = "bowsaw predict small.safetensors model.safetensors photo.jpg folder/"
_CHUNK = 64
_MAX_LISTED = 20

Answer = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "codebook", "classifier")
    parser.add_argument(
        "images", metavar="IMAGE", nargs="+", help="an image file, or a folder of them"
    )
    opt.add(parser, "--json", bool, "print one line of JSON per image, with every score")
    opt.add_jobs(parser, DenseSift)


def run(command: Command) -> None:
    options = command.options
    book, model = load(options.codebook), load_classifier(options.classifier)
    coder = model.coder(book, n_jobs=options.jobs)
    sift = descriptor_of(coder.words_in_use())
    files = [file for given in options.images for file in _files(given)]

    def describe(file: str) -> Any:
        try:
            return sift.describe(sift.load(file).grey)[0]
        except ImageError as error:
            return error

    answers: list[Answer] = []
    with Progress("predicting", len(files), show=not command.quiet) as bar:
        for start in range(0, len(files), _CHUNK):
            chunk = files[start : start + _CHUNK]
            found = list(bar.track(ordered_map(describe, chunk, options.jobs)))
            usable = [rows for rows in found if not isinstance(rows, ImageError)]
            bags = Bags.from_list(usable, scale=sift.scale, description=sift.description())
            scores = iter(model.scores(coder.transform(bags)))
            for file, rows in zip(chunk, found, strict=True):
                if isinstance(rows, ImageError):
                    answers.append({"path": file, "error": rows.reason})
                else:
                    answers.append(_answer(file, model, next(scores)))
    _print_answers(command, answers)


def descriptor_of(book: Codebook) -> DenseSift:
    """Return the descriptor that a codebook was trained on, or raise a ParameterError."""
    about = book.description or {}
    parameters = {name: about.get(name) for name in ("patch", "step", "max_side", "min_contrast")}
    dtype = "float32" if book.scale == 1 else "uint8"
    try:
        sift = DenseSift(**parameters, dtype=dtype)  # type: ignore[arg-type]
        sift.validate()
        known = sift.description() == about
    except (ParameterError, TypeError):
        known = False
    if not known:
        name = about.get("name", "unknown descriptors")
        raise ParameterError(
            f"predict describes images by dense SIFT, and the codebook was trained on {name}. "
            "Describe them in Python, encode them with BagOfWords, and use load_classifier."
        )
    return sift


def _files(given: str) -> list[str]:
    """Return a file, or all files of a folder as ``ImageFolder`` lists them."""
    root = Path(given)
    if not root.is_dir():
        return [given]
    inside = files_in(root)
    if not inside:
        raise DataError(f"the folder {given} has no files. Name images, or a folder of them.")
    return [str(root / path) for path in inside]


def _answer(file: str, model: LinearModel, scores: np.ndarray[Any, Any]) -> Answer:
    second, best = np.partition(scores, -2)[-2:].tolist()
    named = {str(name): float(score) for name, score in zip(model.classes, scores, strict=True)}
    label = model.classes[int(np.argmax(scores))]
    return {"path": file, "class": label, "margin": best - second, "scores": named}


def _print_answers(command: Command, answers: list[Answer]) -> None:
    broken = [answer for answer in answers if "error" in answer]
    if len(broken) == len(answers):
        more = f" and {len(broken) - 1:,} more" if len(broken) > 1 else ""
        raise DataError(
            f"no image could be used: {broken[0]['path']}: {broken[0]['error']}{more}. Name "
            "other files."
        )
    if command.options.json:
        for answer in answers:
            command.result(json.dumps(answer))
    else:
        good = [answer for answer in answers if "error" not in answer]
        command.table(
            [(a["path"], str(a["class"]), f"{a['margin']:.3f}") for a in good],
            ("image", "class", "margin"),
        )
    reasons = {answer["path"]: answer["error"] for answer in broken}
    for path, reason in reasons.items():
        if path not in command.options.images:
            command.note(f"set aside: {path}: {reason}")
    if broken:
        command.note(f"{format_count(len(broken), 'file')} of {len(answers):,} could not be used")
    named = [f"{path}: {reasons[path]}" for path in command.options.images if path in reasons]
    if named:
        more = f" and {len(named) - _MAX_LISTED:,} more" if len(named) > _MAX_LISTED else ""
        raise DataError(
            f"{format_count(len(named), 'named file')} could not be used: "
            f"{'; '.join(named[:_MAX_LISTED])}{more}. The others were; name other files instead."
        )
