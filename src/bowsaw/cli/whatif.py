"""``bowsaw whatif``: how well and how fast smaller histograms are told without coding again."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.cli.command import Command, Verb, counted, duration, file_size
from bowsaw.cli.options import (
    add_coding,
    add_jobs,
    add_split,
    coding_of,
    default,
    open_store,
    part_record,
    split_of,
    whole,
)
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import MismatchError
from bowsaw.formats.vocabulary import load
from bowsaw.inference.survey import ALL, Measurement, Survey, draw_words, ways_of
from bowsaw.inference.whatif import TRANSFERS, whatif
from bowsaw.store import Store

_NOTHING = "-"
_HEADER = (
    "way",
    "mean error",
    "worst error",
    "verdict",
    "build",
    "memory",
    "a move",
    "re-coding",
    "speed-up",
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codebook", metavar="CODEBOOK", help="made by bowsaw train")
    parser.add_argument("store", metavar="STORE", help="made by bowsaw extract")
    kept = parser.add_mutually_exclusive_group(required=True)
    kept.add_argument("--keep", type=whole(1), metavar="N", help="keep N random words")
    kept.add_argument(
        "--kept", metavar="FILE", help="keep the words of this codebook, pruned from CODEBOOK"
    )
    names = "; ".join(f"{coding} coding: {', '.join(TRANSFERS[coding])}" for coding in TRANSFERS)
    parser.add_argument(
        "--transfer",
        type=lambda text: text.split(","),
        default=[default(whatif, "transfer")],
        metavar="NAME",
        help=f"ways of inferring, with commas between, or {ALL}. {names} (default: "
        f"{default(whatif, 'transfer')})",
    )
    for flag, name, text in (
        ("--move", "move_size", "words that a timed move replaces, or as many as can be"),
        ("--moves", "n_moves", "timed moves of each way; their median is told"),
        ("--sample", "sample", "images that are coded again to know the error"),
    ):
        parser.add_argument(
            flag,
            dest=name,
            type=whole(1),
            default=default(Survey, name),
            metavar="N",
            help=f"{text} (default: %(default)s)",
        )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_jobs(parser, Survey)
    add_coding(parser)
    add_split(parser)


def _run(command: Command) -> None:
    options = command.options
    coding = coding_of(options)
    ways = ways_of(options.coding, options.transfer)
    book = load(options.codebook)
    store = open_store(options.store)
    kept = _kept(book, options)
    coder = BagOfWords(codebook=book, random_state=0, n_jobs=options.jobs, **coding)
    # A wrong sharpness should be told before a way refuses it.
    coder.transform(store.bags[:0])
    book.words_for(store.bags)
    bags = store.bags
    if options.part != "all":
        bags = bags[split_of(store, options).part(options.part)]
    survey = Survey(
        book,
        bags,
        kept,
        coding=options.coding,
        sharpness=_sharpness(coder, store, options),
        move_size=options.move_size,
        n_moves=options.n_moves,
        sample=options.sample,
        seed=options.seed,
        n_jobs=options.jobs,
        verbose=not command.quiet,
    )
    command.note(
        f"{counted(len(bags), 'image')} with {counted(bags.n_descriptors, 'descriptor')}; "
        f"{len(kept):,} of {counted(book.n_words, 'word')} kept; {options.coding} coding"
        + (f" of sharpness {survey.sharpness:.4g}" if options.coding == "soft" else "")
    )
    try:
        survey.run(ways, refusals=options.transfer == [ALL])
    finally:
        # An error or Ctrl-C in a later way takes nothing from those that are done.
        if survey.rows:
            _tell(command, survey)


def _kept(book: Codebook, options: argparse.Namespace) -> NDArray[np.int64]:
    """Return the ids of the words to keep."""
    if options.kept is None:
        return draw_words(book, options.keep, options.seed)
    small = load(options.kept)
    strange = np.setdiff1d(small.ids, book.ids)
    same = not len(strange) and np.array_equal(book.only(small.ids).words, small.words)
    if not same or small.scale != book.scale:
        told = f"has no word {int(strange[0])}" if len(strange) else "has other words of these ids"
        raise MismatchError(
            f"{options.kept} was not pruned from {options.codebook}, which {told}. Give a codebook "
            "of some of its words, or --keep N."
        )
    if small.n_words == book.n_words:
        raise MismatchError(
            f"{options.kept} has all {book.n_words} words of {options.codebook}, so nothing would "
            "be pruned. Give a smaller codebook, or --keep N."
        )
    return small.ids


def _sharpness(coder: BagOfWords, store: Store, options: argparse.Namespace) -> float:
    """Return the sharpness as ``encode`` would have it: given, or learned on the part train."""
    if options.coding == "soft" and (coder.sharpness == "auto" or coder.perplexity is not None):
        learn = split_of(store, options).train
        coder.fit(store.bags[learn], store.y[learn])
    return coder.sharpness_in_use()


def _tell(command: Command, survey: Survey) -> None:
    if command.options.json:
        command.json(_plain(survey, command.options))
        return
    command.table([_row(survey, row) for row in survey.rows], _HEADER)
    command.show()
    command.facts(_legend(survey))


def _row(survey: Survey, row: Measurement) -> tuple[str, ...]:
    fidelity = row.fidelity
    return (
        row.way.name,
        _NOTHING if fidelity is None else f"{fidelity.mean:.2g}",
        _NOTHING if fidelity is None else f"{fidelity.worst:.2g}",
        _verdict(row),
        _NOTHING if row.build_seconds is None else duration(row.build_seconds),
        _NOTHING if row.n_bytes is None else file_size(row.n_bytes),
        _milliseconds(row.move_seconds),
        _milliseconds(None if row.refusal else survey.recode_seconds),
        _times(survey.speed_up(row)),
    )


def _verdict(row: Measurement) -> str:
    if row.fidelity is None:
        return "not possible"
    if row.fidelity.allowed is None:
        return "approximate"
    if row.fidelity.worst == 0:
        return "identical"
    return f"{'within' if row.fidelity.holds else 'BEYOND'} {row.fidelity.allowed:.2g}"


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return _NOTHING
    value = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _times(ratio: float | None) -> str:
    if ratio is None:
        return _NOTHING
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"


def _legend(survey: Survey) -> list[tuple[str, str]]:
    """Return what the columns mean, and why some ways have none."""
    checked = [row.fidelity for row in survey.rows if row.fidelity is not None]
    lines = []
    if checked:
        lines = [
            (
                "error",
                "how far the histogram that a way infers is from the one that coding the image "
                "again gives: 0 is the same, 2 has nothing in common "
                f"({counted(checked[0].n_bags, 'image')} compared)",
            ),
            (
                "verdict",
                "identical; within a limit that is proven; or approximate, where nothing is "
                "promised and the errors found are all there is",
            ),
            (
                "a move",
                f"replacing {survey.move_size:,} of {counted(len(survey.kept), 'kept word')} "
                f"in the histograms of {counted(survey.n_bags, 'image')}",
            ),
            (
                "speed-up",
                "how many moves take the time of re-coding, which is coding these images again",
            ),
        ]
    return [*lines, *((row.way.name, row.refusal) for row in survey.rows if row.refusal)]


def _plain(survey: Survey, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "codebook": options.codebook,
        "store": options.store,
        **part_record(options),
        **survey.record(),
    }


VERB = Verb(
    example="bowsaw whatif book.safetensors scenes.store --keep 100 --transfer all",
    add_arguments=_add_arguments,
    run=_run,
    after_interrupt="Ways that were measured by then are shown; --transfer chooses fewer.",
)
