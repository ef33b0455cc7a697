"""``bowsaw prune``: a codebook to a smaller one that codes alone.

A search that is interrupted writes the best words so far, and the same command continues it. The
output records the images that chose its words, so that ``bowsaw evaluate`` refuses to test on them.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.checkpoint import estimator_settings
from bowsaw.cli import options as opt
from bowsaw.cli.command import Command
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.comparison.methods import FULL, KMEANS, prepare
from bowsaw.comparison.methods import METHODS as ALL_METHODS
from bowsaw.errors import BowsawError, DataError, Interrupted, ParameterError
from bowsaw.evaluation.path import PruningPath
from bowsaw.formats.registry import load, save
from bowsaw.formats.safetensors import n_bytes
from bowsaw.formatting import format_bytes, format_count, format_seconds
from bowsaw.scores.base import SCORES
from bowsaw.selection.annealing import USUAL_STEPS, Annealing
from bowsaw.selection.base import Selection, Selector
from bowsaw.selection.baselines import KMeansAtSize
from bowsaw.selection.descent import FEW_WORDS, usual_steps
from bowsaw.selection.ranking import PresenceRanking
from bowsaw.selection.refinement import Refinement
from bowsaw.store import Store
from bowsaw.validation import canonical_json

EXAMPLE = "bowsaw prune book.safetensors scenes.store --keep 50 -o small.safetensors"
METHODS = {name: m for name, m in ALL_METHODS.items() if name not in (FULL, "bottleneck")}
"""The methods by name, the default first."""
_UNLABELLED = ("coverage", "random", "farthest", KMEANS)
_OPTIONS: dict[str, dict[str, str]] = {
    "refinement": {"steps": "n_steps", "folds": "n_folds"},
    "annealing": {"steps": "n_steps", "score": "score"},
    "elimination": {"steps": "refine", "score": "score"},
}
"""The options of methods, and the parameters that they set."""
_TEMPLATES = {KMEANS: KMeansAtSize(None), "presence": PresenceRanking(None, recode=True)}
"""Estimators whose words code alone, where those of ``compare`` do not."""
_RESERVED = 2048
"""Bytes of a file under ``--max-bytes`` that are left for the record of the search."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "the smaller codebook to write (.safetensors)"
    opt.add_files(parser, "codebook", "store", output=text)
    limit = parser.add_mutually_exclusive_group(required=True)
    opt.add(limit, "--keep", opt.int_from(1), "keep N words")
    text = "fill a file of this size (65536, 64k, 1.5M), less 2 kB for the record of the search"
    opt.add(limit, "--max-bytes", opt.n_bytes, text, metavar="SIZE")
    text = "fewest words that cost at most X of accuracy (0.01): nested cross-validation, the loss "
    text += "plus one standard error"
    opt.add(limit, "--max-loss", opt.fraction, text, metavar="X")
    search = parser.add_argument_group("search")
    summaries = (f"{name}: {_lower(method.summary)}" for name, method in METHODS.items())
    text = "\n".join([f"how words are chosen (default: {next(iter(METHODS))})", *summaries])
    search.add_argument(
        "--method", type=_read_method, choices=tuple(METHODS), metavar="NAME", help=text
    )
    text = (
        f"iterations of the search: of refinement (default: {usual_steps(1)}; with more than "
        f"{FEW_WORDS} words {usual_steps(FEW_WORDS + 1)}), swaps of annealing (default: "
        f"{USUAL_STEPS}), or of refinement at each size of elimination and --max-loss (default: "
        f"{opt.default(PruningPath, 'refine')})"
    )
    opt.add(search, "--steps", opt.int_from(0), text)
    opt.add_overwrite(parser)
    opt.add_jobs(parser, Annealing)
    opt.add_coding(parser, "the images that choose the words")
    advanced = opt.advanced(parser)
    text = (
        "times that a fifth of the images is held out to decide how many steps of refinement help;"
        " 0 does all steps (default: 1 to 5, more for fewer images)"
    )
    opt.add(advanced, "--folds", opt.int_from(0), text)
    text = (
        "what annealing and elimination maximise. leave-one-out: how well the words together "
        "recognise left-out images; relevance: how far classes lie apart, word by word, as in the "
        "paper; presence: what having a word says about the class (default: "
        f"{opt.default(Annealing, 'score')})"
    )
    opt.add(advanced, "--score", tuple(SCORES), text)
    opt.add_seed(opt.advanced(parser), "the search")
    opt.add_part(parser, "train")


def _lower(sentence: str) -> str:
    # Here the words of presence code alone too.
    return (sentence[:1].lower() + sentence[1:-1]).replace("the columns of words", "words")


def _read_method(text: str) -> str:
    if text == "bottleneck":
        # The means of merged words, coded alone, are no better than random words (15-Scenes, 50 of
        # 1000 words: 0.645 against 0.642).
        raise argparse.ArgumentTypeError(
            "bottleneck merges columns of the histogram and codes with all words, so that there is "
            "no smaller codebook to write. Choose another method; bowsaw compare --methods "
            "bottleneck measures it"
        )
    return text


def run(command: Command) -> None:
    options = command.options
    _check_options(options)
    begin = time.perf_counter()
    task = _read_task(command)
    command.note(task.summary())
    if options.method == "presence":
        command.note(
            "presence: as published it keeps columns of the full histogram; here the kept words "
            "code alone, as those of every other method"
        )
    with opt.resumable(options, task.settings()) as checkpoint:
        result = task.run(checkpoint, verbose=not command.quiet)
        small = _within_limit(task.pruned(result), options.max_bytes)
        where = f"the best words so far are in {options.output}"
        if result.n_left and _is_finished(options.output):
            where = f"{options.output} is a finished codebook and stays as it is"
        else:
            save(small, options.output)
        if result.n_left:
            raise KeyboardInterrupt(
                f"{result.n_moves:,} of {format_count(result.n_moves + result.n_left, 'step')} "
                f"were done; {where}. Run the same command again to continue."
            )
    _report(command, task, result, time.perf_counter() - begin)


def _is_finished(path: str) -> bool:
    """Return whether a file is a codebook, and not the best words of an interrupted search."""
    try:
        return not load(path).provenance.get("pruned", {}).get("moves_left")
    except (BowsawError, OSError):
        return False


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other, before anything is read."""
    opt.check_output(options.output, ".safetensors", codebook=options.codebook)
    chosen, method = "--max-loss", "elimination"
    if options.max_loss is not None:
        opt.refuse_options(options, ["method"], "--max-loss follows a path. Leave one of them out")
        if options.sharpness == "auto":
            raise ParameterError(
                "--sharpness auto is chosen by the labels of all the images, and --max-loss tests "
                "on some of them. Give a number."
            )
    else:
        options.method = method = options.method or next(iter(METHODS))
        chosen = f"--method {method}"
    allowed = _OPTIONS.get(method, {})
    takes = " and ".join(f"--{name}" for name in allowed) or "no such option"
    wrong = [name for name in ("steps", "score", "folds") if name not in allowed]
    opt.refuse_options(options, wrong, f"{chosen} takes {takes}. Leave one of them out")


@dataclass(frozen=True)
class _Result:
    """The words, their first and last score, the steps done and left, and the estimated cost."""

    selection: Selection
    scores: tuple[float, ...]
    n_moves: int = 0
    n_left: int = 0
    estimate: Any = None
    holdout: Any = None


@dataclass(frozen=True, eq=False)
class _Task:
    """What to prune, by which images, and how."""

    options: argparse.Namespace
    book: Codebook
    store: Store
    part: opt.Part
    bags: Bags
    labels: NDArray[np.int64]
    coding: dict[str, Any]
    selector: Selector
    n_kept: int | None

    def run(self, checkpoint: Path, verbose: bool) -> _Result:
        """Choose the words."""
        selector = self.selector
        more = {"checkpoint": checkpoint, "verbose": verbose}
        selector.set_params(**{k: v for k, v in more.items() if k in selector.get_params()})
        if isinstance(selector, PruningPath):
            advice, loss = None, self.options.max_loss
            found = selector.fit(self.bags, self.labels, estimate=loss is not None).selection_
            if loss is not None:
                advice = selector.recommend(max_loss=loss)
                found = selector.selection_at(advice.n_words)
            return _Result(found, (found.scores[0], found.scores[-1]), estimate=advice)
        interrupted = False
        try:
            found = selector.fit(self.bags, self.labels).selection_
        except Interrupted as ended:
            found, interrupted = ended.so_far, True
        if isinstance(selector, Annealing):
            n_moves = len(selector.accepted_)
            left = 0 if self.n_kept == self.book.n_words else selector.n_steps_ - n_moves
            return _Result(found, (found.scores[0], selector.score_), n_moves, left)
        if isinstance(selector, Refinement):
            n_moves, holdout = len(selector.errors_), selector.holdout_
            planned = selector.n_steps_ if holdout is None else holdout.n_steps
            left = max(planned - n_moves, 1) if interrupted else 0
            scores = (*found.scores[:1], *filter(None, [found.final_score]))
            return _Result(found, scores, n_moves, left, holdout=holdout)
        return _Result(found, found.scores[-1:])

    def summary(self) -> str:
        """Return what is going to be done."""
        words = format_count(self.book.n_words, "word")
        kept = "some" if self.n_kept is None else f"{self.n_kept:,}"
        classes = format_count(len(np.unique(self.labels)), "class", "classes")
        coding, sharpness = self.coding["coding"], self.coding.get("sharpness")
        soft = "" if sharpness is None else f" of sharpness {sharpness:.4g}"
        images = f"{format_count(len(self.bags), 'image')} of {classes} ({self.part})"
        return f"{kept} of {words} by {images}; {coding} coding{soft}"

    def _source(self) -> dict[str, Any]:
        files = {"store": self.store.digest, "codebook": self.book.digest}
        return {**self.part.record(), **files}

    def settings(self) -> dict[str, Any]:
        """Return everything that the result depends on."""
        seed = opt.seed_of(self.store, self.options)
        about = {"method": self.options.method or "elimination", "seed": seed}
        return {**about, **self._source(), **estimator_settings(self.selector)}

    def pruned(self, result: _Result) -> Codebook:
        """Return the codebook to write, with its record."""
        options, chosen = self.options, result.selection.codebook
        limits = ("keep", "max_bytes", "max_loss")
        record = {
            **self._source(),
            "n_words": self.book.n_words,
            "limit": next(name for name in limits if getattr(options, name) is not None),
            **self.coding,
            "scores": [*result.scores[:1], *result.scores[1:][-1:]],
            "moves_left": result.n_left,
            "selection": result.selection.record(),
            "version": __version__,
        }
        if result.estimate is not None:
            names = ("accuracy", "accuracy_se", "accuracy_margin", "loss", "loss_se")
            record["estimate"] = {name: getattr(result.estimate, name) for name in names}
            record["max_loss"] = options.max_loss
        if "pruned" in self.book.provenance:
            record["before"] = self.book.provenance["pruned"]
        provenance = {**self.book.provenance, **chosen.provenance, "pruned": _rounded(record)}
        if self.part.name != "all":
            # The split whose test images can still test the words.
            provenance |= {"store": self.store.digest, "split": self.part.record()["split"]}
        return chosen.learned_from(self.bags).with_provenance(**provenance)


def _read_task(command: Command) -> _Task:
    """Read what the options name, and refuse what cannot be pruned."""
    options = command.options
    coding = opt.coding_of(options)
    book, store = load(options.codebook), opt.open_store(options.store)
    if options.keep is not None and options.keep > book.n_words:
        raise ParameterError(
            f"--keep must be from 1 to {book.n_words} (the words of {options.codebook}); got "
            f"{options.keep}. Ask for fewer words, or train a larger codebook."
        )
    book.project(store.bags)
    part = opt.part_of(command, store, "codebook" if options.method == KMEANS else "train")
    if part.name != "all":
        opt.check_split(book, store, options)
    bags, labels = store.bags[part.rows], store.y[part.rows]
    if options.method not in _UNLABELLED:
        _check_classes(labels, store)
    if options.coding == "soft":
        # The sharpness is learned, where it must be, from the images that choose the words.
        coder = BagOfWords(book, random_state=0, n_jobs=options.jobs, **coding).fit(bags, labels)
        coding = {"coding": "soft", "sharpness": coder.sharpness_in_use()}
    n_kept = options.keep
    if options.max_bytes is not None:
        n_kept = _words_within(options.max_bytes, book, bags)
    method = options.method or "elimination"
    selector = prepare(
        _TEMPLATES.get(method, METHODS[method].estimator),
        codebook=book,
        n_kept=n_kept,
        random_state=opt.seed_of(store, options),
        n_jobs=options.jobs,
        **coding,
    )
    found = _OPTIONS.get(method, {}).items()
    given = {name: getattr(options, option) for option, name in found}
    selector.set_params(**{name: value for name, value in given.items() if value is not None})
    return _Task(options, book, store, part, bags, labels, coding, selector, n_kept)


def _check_classes(labels: NDArray[np.int64], store: Store) -> None:
    """Refuse labels that cannot choose words."""
    present, counts = np.unique(labels, return_counts=True)
    if len(present) < 2:
        raise DataError(
            f"words are chosen by at least two classes, and the images have {len(present)} "
            f"({store.classes[present[0]]!r}). Extract a folder with one sub-folder per class, or "
            "choose without classes by --method coverage."
        )
    if counts.min() < 2:
        raise DataError(
            f"class {store.classes[present[counts.argmin()]]!r} has 1 image to choose words by, "
            f"and needs at least 2. Give --part all, or larger parts: bowsaw split {store.path} "
            "A/B/rest"
        )


def _words_within(limit: int, book: Codebook, bags: Bags) -> int:
    """Return how many words fit into ``limit`` bytes beside the record."""
    per_word = 4 * book.n_dims + 8
    seen = book.learned_from(bags).trained_on
    known = len(canonical_json([book.description, book.provenance]))
    if book.projection is not None:
        known += book.projection.mean.nbytes + book.projection.matrix.nbytes
    fixed = _RESERVED + known + (0 if seen is None else seen.nbytes)
    if limit < fixed + per_word:
        raise ParameterError(
            f"--max-bytes must be at least {fixed + per_word} (one word, and {fixed} bytes for the "
            f"record and the images seen); got {limit}. Allow more."
        )
    return min(book.n_words, (limit - fixed) // per_word)


def _within_limit(small: Codebook, limit: int | None) -> Codebook:
    """Return the codebook, without the details of its search where the file would be too large."""
    if limit is None or n_bytes(small) <= limit:
        return small
    record = {**small.provenance["pruned"], "selection": None, "before": None}
    return small.with_provenance(pruned=record)


def _rounded(value: Any) -> Any:
    """Return a record with its numbers rounded to six digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _report(command: Command, task: _Task, result: _Result, seconds: float) -> None:
    options, selection = command.options, result.selection
    scores = result.scores or (0.0,)
    before, after = (Path(path).stat().st_size for path in (options.codebook, options.output))
    command.result(
        f"{options.output}: {selection.n_columns:,} of {format_count(task.book.n_words, 'word')}, "
        f"{format_bytes(after)} instead of {format_bytes(before)}, {format_seconds(seconds)}"
    )
    if options.max_bytes is not None:
        command.result(f"size: {after:,} of {options.max_bytes:,} bytes")
    if options.method in ("coverage", KMEANS):
        command.result(
            f"mean squared distance of a descriptor to its nearest word: {-scores[-1]:.4g}"
        )
    elif score := selection.parameters.get("score"):
        how = f" in {format_count(result.n_moves, 'step')}" if result.n_moves else ""
        command.result(
            f"score: {score}, from {scores[0]:.4g} to {scores[-1]:.4g}{how} (higher is better)"
        )
    if result.holdout is not None and result.holdout.n_steps:
        errors, n_steps = result.holdout.errors.mean(axis=0), result.holdout.n_steps
        after = errors[int(np.searchsorted(result.holdout.marks, n_steps))]
        shares = np.bincount(task.labels) / len(task.labels)
        command.result(
            f"squared error on held-out images: {errors[0]:.3f} before refinement, {after:.3f} "
            f"after {format_count(n_steps, 'step')} (0 is perfect, {1 - (shares**2).sum():.3f} is "
            "guessing; optimistic, because these images decided the number of steps)"
        )
    if selection.parameters.get("moved"):
        command.result(
            f"refinement: {format_count(result.n_moves, 'step')}, words moved by "
            f"{selection.parameters['moved']:.2g} on average (a descriptor has length 1)"
        )
    elif options.method == "refinement":
        reason = "" if result.holdout is None else " (no reliable gain on held-out images)"
        command.result(f"refinement: 0 steps{reason}")
    if result.estimate is not None:
        command.result(f"estimate: {result.estimate}")
        if selection.n_columns == task.book.n_words:
            command.result(
                "no smaller size loses at most this with its standard error: allow a larger "
                "--max-loss, or choose by more images, which make the error smaller"
            )
    else:
        command.note("accuracy: unknown; the images that chose the words cannot test them")
    command.hint(f"next: {_next_command(task)}")


def _next_command(task: _Task) -> str:
    options = task.options
    if task.part.name not in ("codebook", "train"):
        files = shlex.join([options.output, options.store])
        return f"bowsaw encode {files} -o histograms.npz"
    return opt.evaluate_command(options.store, options.output, task.coding)
