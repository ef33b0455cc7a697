"""``bowsaw whatif``: how exact and how fast the histograms of fewer words can be inferred."""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.errors import MismatchError, ParameterError
from bowsaw.formats.registry import load
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.inference.survey import ALL, Measurement, Survey, draw_words, ways_of
from bowsaw.inference.whatif import TRANSFERS, whatif

EXAMPLE = "bowsaw whatif book.safetensors scenes.store --keep 100 --transfer all"
AFTER_INTERRUPT = "What was measured by then is shown; --transfer chooses fewer ways."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opt.add_files(parser, "codebook", "store")
    kept = parser.add_mutually_exclusive_group(required=True)
    opt.add(kept, "--keep", opt.int_from(1), "keep N random words")
    opt.add(kept, "--subset", None, "keep the words of this codebook, pruned from CODEBOOK")
    names = "; ".join(f"{coding} coding: {', '.join(TRANSFERS[coding])}" for coding in TRANSFERS)
    text = f"ways to infer the histograms of the kept words, between commas, or {ALL}. {names}"
    value = opt.default(whatif, "transfer")
    opt.add(parser, "--transfer", opt.comma_list(str), text, value, metavar="NAME")
    opt.add(parser, "--json", bool, "print JSON instead of a table")
    opt.add_jobs(parser, Survey)
    opt.add_coding(parser)
    opt.add_from(
        opt.advanced(parser),
        Survey,
        ("--swap", "move_size", opt.int_from(1), "words that a timed swap replaces, at most"),
        ("--repeats", "n_moves", opt.int_from(1), "timed swaps of each way; the median is shown"),
        ("--checked", "sample", opt.int_from(1), "images re-encoded to measure the error"),
    )
    opt.add_seed(opt.advanced(parser), "the random words and swaps")
    opt.add_part(parser, "all")


def run(command: Command) -> None:
    options = command.options
    ways = ways_of(options.coding, options.transfer)
    book, store = load(options.codebook), opt.open_store(options.store)
    seed, part = opt.seed_of(store, options), opt.part_of(command, store, "all")
    kept = _kept_words(book, options, seed)
    coder = opt.coder_of(book, store, options)
    bags = store.bags if part.name == "all" else store.bags[part.rows]
    opt.learn_sharpness(coder, store)
    survey = Survey(
        book,
        bags,
        kept,
        sharpness=coder.sharpness_in_use(),
        seed=seed,
        n_jobs=options.jobs,
        verbose=not command.quiet,
        **{name: getattr(options, name) for name in ("coding", "move_size", "n_moves", "sample")},
    )
    command.note(
        f"{format_count(len(bags), 'image')} with "
        f"{format_count(bags.n_descriptors, 'descriptor')}; {len(kept):,} of "
        f"{format_count(book.n_words, 'word')} kept; {options.coding} coding"
        + (f" of sharpness {survey.sharpness:.4g}" if options.coding == "soft" else "")
    )
    try:
        survey.run(ways, refusals=options.transfer == [ALL])
    finally:
        # An error or Ctrl-C in a later way loses no row.
        if survey.rows:
            _print_survey(command, survey, part)


def _kept_words(book: Codebook, options: argparse.Namespace, seed: int) -> NDArray[np.int64]:
    if options.keep is not None and options.keep >= book.n_words:
        raise ParameterError(
            f"--keep must be from 1 to {book.n_words - 1} (the codebook has {book.n_words} words); "
            f"got {options.keep}. Keep fewer words, or train a larger codebook."
        )
    if options.subset is None:
        return draw_words(book, options.keep, seed)
    small = load(options.subset)
    unknown = np.setdiff1d(small.ids, book.ids)
    reason = ""
    if len(unknown):
        reason = f"its word {int(unknown[0])} is not there"
    elif small.n_words == book.n_words:
        reason = f"it has all {book.n_words} words"
    elif small.scale != book.scale or (book.only(small.ids).words != small.words).any():
        reason = "its words have other values"
    if reason:
        raise MismatchError(
            f"{options.subset} was not pruned from {options.codebook}: {reason}. Give a codebook "
            "of some of its words, or --keep N."
        )
    return small.ids


def _print_survey(command: Command, survey: Survey, part: opt.Part) -> None:
    options = command.options
    if options.json:
        files = {"codebook": options.codebook, "store": options.store}
        command.json({**files, **part.record(), **survey.record()})
        return
    rows = [_row(survey, row) for row in survey.rows]
    command.table([list(row.values()) for row in rows], list(rows[0]))
    command.result()
    command.facts(_legend(survey))


def _row(survey: Survey, row: Measurement) -> dict[str, str]:
    recode = None if row.refusal else survey.recode_seconds
    found = {
        "way": row.way.name,
        "mean error": row.fidelity and f"{row.fidelity.mean:.2g}",
        "worst error": row.fidelity and f"{row.fidelity.worst:.2g}",
        "verdict": _verdict(row),
        "build": row.build_seconds is not None and format_seconds(row.build_seconds),
        "memory": row.n_bytes is not None and format_bytes(row.n_bytes),
        "a swap": row.move_seconds and f"{_short(1000 * row.move_seconds)} ms",
        "re-encoding": recode and f"{_short(1000 * recode)} ms",
        "speed-up": (ratio := survey.speed_up(row)) and f"{_short(ratio)} x",
    }
    return {name: text or "-" for name, text in found.items()}


def _verdict(row: Measurement) -> str:
    if row.fidelity is None:
        return "not possible"
    if row.fidelity.allowed is None:
        return "approximate"
    if row.fidelity.worst == 0:
        return "identical"
    return f"{'within' if row.fidelity.holds else 'BEYOND'} {row.fidelity.allowed:.2g}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _legend(survey: Survey) -> list[tuple[str, str]]:
    """Return what the columns mean, and why some ways are not possible."""
    checked = [row.fidelity for row in survey.rows if row.fidelity is not None]
    lines = {}
    if checked:
        images = format_count(checked[0].n_bags, "image")
        lines["error"] = (
            "distance between the inferred histogram of an image and the re-encoded one: 0 is "
            f"equal, 2 has nothing in common ({images} compared)"
        )
        lines["verdict"] = (
            "identical; within a proven limit; or approximate, where no limit is proven and only "
            "the measured errors are known"
        )
        words = f"{survey.move_size:,} of {format_count(len(survey.kept), 'kept word')}"
        images = format_count(survey.n_bags, "image")
        lines["a swap"] = f"replacing {words} in the histograms of {images}"
        lines["speed-up"] = "the time to re-encode these images, divided by the time of a swap"
    return [*lines.items(), *((row.way.name, row.refusal) for row in survey.rows if row.refusal)]
