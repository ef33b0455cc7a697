"""What ``bowsaw prune`` was asked to do, and doing it.

A task knows the codebook, the images and the estimator; it says what it depends on, so that an
interrupted one can go on, and what is to be written.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.checkpoint import estimator_settings
from bowsaw.cli.command import counted
from bowsaw.cli.options import coding_of, open_store, part_record, split_of
from bowsaw.cli.pruned_file import LONGEST, most_words, pruned_codebook
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import DataError, ParameterError
from bowsaw.evaluation.path import PruningPath
from bowsaw.evaluation.recommendation import Recommendation
from bowsaw.formats.vocabulary import load
from bowsaw.inference.fidelity import Fidelity
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selection, Selector
from bowsaw.selection.coverage import Coverage
from bowsaw.selection.nested import Check
from bowsaw.selection.refinement import Refinement
from bowsaw.store import Store

METHODS: dict[str, type[Selector]] = {
    "refinement": Refinement,
    "annealing": Annealing,
    "coverage": Coverage,
}
"""What chooses the words of one size, the best first."""
SEARCH = {"score": "score", "steps": "n_steps", "folds": "n_folds", "refine": "refine"}
"""Options of the search and the parameters that they set."""

_ESTIMATED = ("accuracy", "accuracy_se", "loss", "loss_se")


@dataclass(frozen=True)
class Result:
    """What was chosen: the score first and last, the moves tried and left, the estimated cost.

    A score that there is at the end alone is the only one.
    """

    selection: Selection
    scores: tuple[float, ...]
    n_moves: int = 0
    n_left: int = 0
    estimate: Recommendation | None = None
    check: Check | None = None


@dataclass(frozen=True)
class Task:
    """What to prune, by which images, and how."""

    options: argparse.Namespace
    book: Codebook
    store: Store
    bags: Bags
    labels: NDArray[np.int64]
    coding: dict[str, Any]

    @cached_property
    def saw(self) -> Selector:
        """The estimator that the options name."""
        options = self.options
        given = {
            parameter: getattr(options, name)
            for name, parameter in SEARCH.items()
            if getattr(options, name) is not None
        }
        common = {**self.coding, "random_state": options.seed, "n_jobs": options.jobs}
        if options.max_loss is not None:
            return PruningPath(self.book, **common, **given)
        make = Annealing.paper if options.paper else METHODS[options.method]
        saw: Selector = make(self.book, **common).set_params(**given)
        return saw

    @cached_property
    def n_kept(self) -> int | None:
        """How many words to keep, where it is known before."""
        if self.options.max_bytes is not None:
            return most_words(self.options.max_bytes, self.book, self._longest)
        keep: int | None = self.options.keep
        return keep

    def run(self, checkpoint: Path, verbose: bool) -> Result:
        """Choose the words."""
        saw = self.saw
        if isinstance(saw, PruningPath):
            saw.set_params(checkpoint=checkpoint, verbose=verbose)
            saw.fit(self.bags, self.labels, estimate=True)
            advice = saw.recommend(max_loss=self.options.max_loss)
            found = saw.selection_at(advice.n_words)
            return Result(found, (found.scores[0], found.scores[-1]), estimate=advice)
        if isinstance(saw, Annealing):
            saw.set_params(n_kept=self.n_kept, checkpoint=checkpoint, verbose=verbose)
            saw.fit(self.bags, self.labels)
            n_moves = len(saw.accepted_)
            n_left = 0 if self.n_kept == self.book.n_words else saw.n_steps - n_moves
            found = saw.selection_
            return Result(found, (found.scores[0], saw.score_), n_moves, n_left)
        if isinstance(saw, Refinement):
            saw.set_params(n_kept=self.n_kept, checkpoint=checkpoint, verbose=verbose)
            found = saw.fit(self.bags, self.labels).selection_
            n_moves = len(saw.errors_)
            planned = saw.n_steps if saw.check_ is None else saw.check_.n_steps
            left = max(planned - n_moves, 1) if saw.interrupted_ else 0
            scores = (*found.scores[:1], *filter(None, [found.final_score]))
            return Result(found, scores, n_moves, left, check=saw.check_)
        found = saw.set_params(n_kept=self.n_kept).fit(self.bags).selection_
        return Result(found, found.scores[-1:])

    # -- what is said of it ----------------------------------------------------------------------

    @property
    def part(self) -> str:
        """Which images, for people."""
        return "all of them" if self.options.part == "all" else f"part {self.options.part}"

    def summary(self) -> str:
        """Return what is going to be done."""
        words = counted(self.book.n_words, "word")
        kept = f"some of {words}" if self.n_kept is None else f"{self.n_kept:,} of {words}"
        classes = counted(len(np.unique(self.labels)), "class", "classes")
        text = f"{kept} by {counted(len(self.bags), 'image')}"
        if self.options.method != "coverage":
            text += f" of {classes}"
        text += f" ({self.part}); {self.coding['coding']} coding"
        if self.coding["coding"] == "soft":
            text += f" of sharpness {self.coding['sharpness']:.4g}"
        return text

    def asked(self) -> dict[str, Any]:
        """Return all that the result depends on, as JSON holds it."""
        return {
            "version": __version__,
            "method": self.saw.__class__.__name__,
            "codebook": self.book.digest,
            "store": self.store.digest,
            "seed": self.options.seed,
            **part_record(self.options),
            **estimator_settings(self.saw),
            "n_kept": self.n_kept,
        }

    def pruned(self, result: Result) -> Codebook:
        """Return the codebook to write."""
        options = self.options
        limits = ("keep", "max_bytes", "max_loss")
        record = {
            **part_record(options),
            "store": self.store.digest,
            "codebook": self.book.digest,
            "n_words": self.book.n_words,
            # Its name alone: with the number, allowing more bytes would need more bytes.
            "limit": next(name for name in limits if getattr(options, name) is not None),
            **self.coding,
            "scores": [*result.scores[:1], *result.scores[1:][-1:]],
            "moves_left": result.n_left,
            "selection": result.selection.record(),
            "version": __version__,
        }
        if result.estimate is not None:
            told = vars(result.estimate)
            record["estimate"] = {name: told[name] for name in _ESTIMATED}
            record["max_loss"] = options.max_loss
        return pruned_codebook(self.book, result.selection.codebook, self.bags, record)

    def _longest(self, n_kept: int) -> Codebook:
        """Return a codebook of so many words that says as much as there can be to say."""
        told = {
            **estimator_settings(self.saw),
            "n_kept": n_kept,
            "moved": LONGEST,
            "start": "annealing",
            "n_steps_at_most": len(self.bags),
        }
        scores = (LONGEST,) * (max(told.get("n_steps", 0), n_kept) + 1)
        words = self.book.only(self.book.ids[:n_kept])
        selection = Selection(
            method=self.options.method,
            codes_with="pruned",
            codebook=words,
            kept=words.ids,
            scores=scores,
            seed=self.options.seed,
            certificate=Fidelity(len(self.bags), LONGEST, LONGEST, LONGEST).record(),
            parameters=told,
        )
        return self.pruned(Result(selection, scores[:2], n_left=len(scores)))


def task_of(options: argparse.Namespace) -> Task:
    """Read what the options name, and refuse what cannot be pruned."""
    coding = coding_of(options)
    book, store = load(options.codebook), open_store(options.store)
    if options.keep is not None and options.keep > book.n_words:
        raise ParameterError(
            f"--keep must be from 1 to {book.n_words} (the words of {options.codebook}); got "
            f"{options.keep}. Ask for fewer words, or train a larger codebook."
        )
    book.words_for(store.bags)
    rows = np.arange(store.n_usable)
    if options.part != "all":
        rows = split_of(store, options).part(options.part)
    bags, labels = store.bags[rows], store.y[rows]
    if options.method != "coverage":
        _check_classes(labels, store)
    if options.coding == "soft":
        # Learned where it must be from the very images that choose the words: no others are seen.
        coder = BagOfWords(book, random_state=0, n_jobs=options.jobs, **coding).fit(bags, labels)
        coding = {"coding": "soft", "sharpness": coder.sharpness_in_use()}
    return Task(options, book, store, bags, labels, coding)


def _check_classes(labels: NDArray[np.int64], store: Store) -> None:
    """Refuse images that say nothing about classes."""
    present, counts = np.unique(labels, return_counts=True)
    if len(present) < 2:
        raise DataError(
            f"words are chosen by at least two classes, and the images have {len(present)} "
            f"({store.classes[present[0]]!r}). Extract a folder with a sub-folder a class, or "
            "choose without classes by --method coverage."
        )
    if counts.min() < 2:
        raise DataError(
            f"class {store.classes[present[counts.argmin()]]!r} has 1 image to choose words by, "
            "and needs at least 2. Use a larger part, or leave the class out."
        )
