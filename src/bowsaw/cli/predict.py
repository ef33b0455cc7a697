"""``bowsaw predict``: images to classes, with a recogniser, or a codebook and a classifier.

An image is described as the codebook's own descriptors were. A file that cannot be used is set
aside with the reason; the others get their classes. One that was named itself makes the command
fail at the end, one of a folder does not, as in ``bowsaw extract``.

Where sub-folders of a folder are named like classes, they are taken for the truth, and the accuracy
on those images is shown. Images that the recogniser has learned from do not count.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.measures import class_accuracies, confusion
from bowsaw.evaluation.significance import accuracy_margin
from bowsaw.formats.classifier import load_classifier
from bowsaw.formats.registry import load
from bowsaw.formatting import format_count
from bowsaw.images.folder import files_in
from bowsaw.progress import Progress
from bowsaw.recogniser import Answer, Recogniser

EXAMPLE = "bowsaw predict recogniser/ photo.jpg folder/"
_MAX_LISTED, _MAX_CONFUSIONS = 20, 10

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder made by bowsaw shrink, or a codebook with --classifier"
    parser.add_argument("recogniser", metavar="RECOGNISER", help=text)
    text = "an image file, or a folder of them; sub-folders named like classes are the truth"
    parser.add_argument("images", metavar="IMAGE", nargs="+", help=text)
    opt.add(parser, "--classifier", None, "made by bowsaw fit with the codebook RECOGNISER")
    shape = parser.add_mutually_exclusive_group()
    opt.add(shape, "--json", bool, "print one line of JSON per image, with every score")
    opt.add(shape, "--csv", bool, "print CSV: path, class, margin, truth, error")
    opt.add_jobs(parser, Recogniser.predict)


def open_recogniser(path: str, classifier: str | None) -> Recogniser:
    """Return a recogniser from its folder, or from a codebook and a classifier."""
    if Path(path).is_dir():
        if classifier is not None:
            raise ParameterError(
                f"--classifier does not apply: the folder {path} has its own. Leave it out."
            )
        return Recogniser.load(path)
    if classifier is None:
        raise ParameterError(
            f"{path} is not a folder made by bowsaw shrink. Name one, or a codebook together with "
            "--classifier FILE, made by bowsaw fit."
        )
    return Recogniser(load(path), load_classifier(classifier))


def run(command: Command) -> None:
    options = command.options
    recogniser = open_recogniser(options.recogniser, options.classifier)
    files = [pair for given in options.images for pair in _files(given, recogniser)]
    rows: list[Row] = []
    with Progress("predicting", len(files), show=not command.quiet) as bar:
        found = recogniser.answers([path for path, _ in files], n_jobs=options.jobs)
        for (path, truth), answer in zip(files, bar.track(found), strict=True):
            rows.append(_row(path, truth, answer, recogniser))
    broken = [row for row in rows if "error" in row]
    if len(broken) == len(rows):
        more = f" and {len(broken) - 1:,} more" if len(broken) > 1 else ""
        raise DataError(
            f"no image could be used: {broken[0]['path']}: {broken[0]['error']}{more}. Name "
            "other files."
        )
    _print_rows(command, rows)
    if not (options.json or options.csv):
        _print_accuracy(command, [row for row in rows if row.get("truth")], recogniser)
    _report_broken(command, rows)


def _files(given: str, recogniser: Recogniser) -> list[tuple[str, str | None]]:
    """Return a file, or all files of a folder as ``ImageFolder`` lists them, and their classes."""
    root = Path(given)
    if not root.is_dir():
        return [(given, None)]
    inside = files_in(root)
    if not inside:
        raise DataError(f"the folder {given} has no files. Name images, or a folder of them.")
    known = set(map(str, recogniser.classes_))
    tops = [(path, path.split("/")[0] if "/" in path else None) for path in inside]
    return [(str(root / path), top if top in known else None) for path, top in tops]


def _row(path: str, truth: str | None, answer: Answer, recogniser: Recogniser) -> Row:
    if answer.scores is None:
        return {"path": path, "error": answer.error}
    second, best = np.partition(answer.scores, -2)[-2:].tolist()
    label = recogniser.model_.classes[int(np.argmax(answer.scores))]
    names = map(str, recogniser.model_.classes)
    row = {
        "path": path,
        "class": label,
        "margin": best - second,
        "scores": dict(zip(names, answer.scores.tolist(), strict=True)),
    }
    if truth is not None:
        seen = recogniser.codebook_.trained_on
        row["truth"] = truth
        row["learned_from"] = None if seen is None else bool((seen == answer.digest).any())
    return row


def _print_rows(command: Command, rows: list[Row]) -> None:
    if command.options.json:
        for row in rows:
            command.raw(json.dumps(row))
    elif command.options.csv:
        names = ("path", "class", "margin", "truth", "error")
        out = io.StringIO()
        writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        for line in out.getvalue().splitlines():
            command.raw(line)
    else:
        good = [row for row in rows if "error" not in row]
        command.table(
            [(row["path"], str(row["class"]), f"{row['margin']:.3f}") for row in good],
            ("image", "class", "margin"),
        )


def _print_accuracy(command: Command, rows: list[Row], recogniser: Recogniser) -> None:
    """Print the accuracy on labelled images that the recogniser has not learned from."""
    unseen = [row for row in rows if not row["learned_from"]]
    n_seen = len(rows) - len(unseen)
    if n_seen:
        score = recogniser.score_
        estimate = "" if score is None else f"; its estimated accuracy is {score:.3f}"
        command.result()
        command.result(
            f"{format_count(n_seen, 'image')} of {len(rows):,} do not count: the recogniser has "
            f"learned from them{estimate}"
        )
    if not unseen:
        return
    classes = [str(name) for name in recogniser.classes_]
    truth, guess = (
        np.array([classes.index(str(row[name])) for row in unseen]) for name in ("truth", "class")
    )
    matrix = confusion(truth, guess, len(classes))
    shares = class_accuracies(matrix)
    margin = accuracy_margin([float(np.nanmean(shares))], 0.0, matrix.sum(axis=1))
    wrong = Counter((row["truth"], str(row["class"])) for row in unseen)
    pairs = [(pair, n) for pair, n in wrong.most_common() if pair[0] != pair[1]][:_MAX_CONFUSIONS]
    command.result()
    command.result(
        f"accuracy: {np.nanmean(shares):.3f} ± {margin:.3f} (mean per class, 95 % interval); "
        f"{int(np.trace(matrix)):,} of {format_count(len(unseen), 'image')} are right"
    )
    if unseen[0]["learned_from"] is None:
        command.note("the codebook does not record its images: some of these may be among them")
    if pairs:
        command.result()
        command.table(
            [(a, b, f"{n:,}", f"{matrix[classes.index(a)].sum():,}") for (a, b), n in pairs],
            ("truth", "taken for", "images", "of"),
        )


def _report_broken(command: Command, rows: list[Row]) -> None:
    reasons = {row["path"]: row["error"] for row in rows if "error" in row}
    for path, reason in reasons.items():
        if path not in command.options.images:
            command.note(f"set aside: {path}: {reason}")
    if reasons:
        command.note(f"{format_count(len(reasons), 'file')} of {len(rows):,} could not be used")
    named = [f"{path}: {reasons[path]}" for path in command.options.images if path in reasons]
    if named:
        more = f" and {len(named) - _MAX_LISTED:,} more" if len(named) > _MAX_LISTED else ""
        raise DataError(
            f"{format_count(len(named), 'named file')} could not be used: "
            f"{'; '.join(named[:_MAX_LISTED])}{more}. The others were; name other files instead."
        )
