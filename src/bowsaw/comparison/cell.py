"""Measuring cells: one split of one set of images, and everything that its cells share.

All cells of a split share descriptors and codebooks; the cells of a panel share the histograms of
all words, the states of searches (``SharedCodes``) and merge trees, which one fit cuts at any size.

**A cell**: choose words on the training images, code all images with the codebook that the choice
codes with, choose C on the codebook's images (by cross-validation on the training images if there
are none), train on the training images, classify the test images. Histograms are re-coded, never
inferred.

**Folds.** Where splits are the folds of a cross-validation, no images are left to choose C: the
training images have chosen the words, so by cross-validation among them a C that is too large wins
(0.704 instead of 0.738 on images of text in ten fonts). A fold is classified with every C, and the
other folds choose (:func:`bowsaw.comparison.records.choose_c`).

**Costs.** ``select_seconds`` is the time of the fit; what an earlier cell of the split has computed
takes no time again. ``code_ms`` is coding and pooling per image, averaged over all images, with
``threads`` threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import estimator_settings, fingerprint, make_folder, remove_checkpoint
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords, coded
from bowsaw.comparison.collection import Collection
from bowsaw.comparison.methods import FULL, GIVEN, KMEANS, Method, prepare, settings
from bowsaw.comparison.records import USUAL_C, Cell, Key, Outcome, codebook_path, outcome_of
from bowsaw.errors import BowsawError, ParameterError
from bowsaw.evaluation.classifier import HistogramClassifier, Mapped, labels_by_c
from bowsaw.evaluation.measures import confusion
from bowsaw.formats.registry import load, save
from bowsaw.parallel import effective_jobs
from bowsaw.selection.annealing import Annealing
from bowsaw.selection.base import Selection, Selector, SharedCodes
from bowsaw.selection.refinement import Refinement

MAX_TRACE = 200
"""Points of a trace."""
N_SAMPLES = 40
"""Test images whose descriptors are kept for the page, unless there are more classes."""


@dataclass(frozen=True)
class Experiment:
    """What cells depend on beside their key; it can be sent to another process."""

    folder: Path
    collections: Mapping[str, Collection]
    methods: Mapping[str, Method]
    seed: int
    sharpness: Any
    perplexity: float | None = None
    raw: frozenset[str] = frozenset()
    kmeans: Mapping[str, Any] = field(default_factory=dict)
    codebook: Codebook | None = None
    n_jobs: int | None = -1
    n_workers: int = 1
    verbose: bool = False

    def split(self, name: str, index: int) -> SplitRun:
        """Return one split of a set."""
        return SplitRun(self, self.collections[name], index)

    def mappings(self, method: str) -> list[Mapped]:
        """Return the mappings that a method is measured with."""
        return ["sqrt", "raw"] if method in self.raw else ["sqrt"]


class _Chosen(NamedTuple):
    """The words of a method: a selection, or None and a codebook, and their cost."""

    selection: Selection | None
    codebook: Codebook
    trace: dict[str, Any] | None = None
    seconds: float = 0.0


class _Coded(NamedTuple):
    """Histograms of the three parts of a split, and the time per image."""

    train: NDArray[np.float32]
    codebook: NDArray[np.float32]
    test: NDArray[np.float32]
    code_ms: float
    sharpness: float | None


class SplitRun:
    """One split of a collection, and what its cells share."""

    def __init__(self, experiment: Experiment, collection: Collection, index: int) -> None:
        self.experiment, self.collection, self.index = experiment, collection, index
        self.split = collection.split(experiment.seed, index)
        self.train_bags = collection.bags[self.split.train]
        self.train_labels = collection.y[self.split.train]
        self._codebooks: dict[int, Codebook] = {}
        self._panel: tuple[str, int] | None = None
        free = set(KMeansCodebook().get_params()) - {"n_words", "random_state", "n_jobs", "verbose"}
        if not set(experiment.kmeans) <= free:
            raise ParameterError(
                f"kmeans may set {', '.join(sorted(free))}; got "
                f"{', '.join(sorted(set(experiment.kmeans) - free))}. The words, the seed and the "
                "threads are parameters of the comparison."
            )

    def _drawn(self) -> list[int]:
        """Return what identifies the split among those of its images."""
        split = self.split
        found = [split.seed, split.index, split.n_codebook, split.n_train]
        return [*found, split.n_folds] if split.n_folds else found

    def _kmeans(self, n_words: int) -> KMeansCodebook:
        run, seed = self.experiment, self.split.seed_for("kmeans")
        return KMeansCodebook(n_words, random_state=seed, n_jobs=run.n_jobs, **run.kmeans)

    def codebook(self, n_words: int) -> Codebook:
        """Return k-means on the codebook's images, trained once and kept in the folder of work.

        A file's name has the digest of all that its words depend on, so a file of other settings
        is never taken. Training that was interrupted continues.
        """
        if n_words in self._codebooks:
            return self._codebooks[n_words]
        split, name, trainer = self.split, self.collection.name, self._kmeans(n_words)
        digest = fingerprint(
            data=self.collection.digest,
            split=self._drawn(),
            kmeans=estimator_settings(trainer),
            version=__version__,
        )
        file = f"{name}-{split.index}-{n_words}-{digest[:16]}.safetensors"
        path = self.experiment.folder / "work" / "codebooks" / file
        partial = path.with_suffix(".partial")
        try:
            book = load(path)
        except (BowsawError, OSError):
            make_folder(path.parent)
            trainer.set_params(verbose=self.experiment.verbose, checkpoint=partial)
            rows = split.codebook if len(split.codebook) else split.train
            begin = time.perf_counter()
            book = trainer.fit(self.collection.bags[rows]).codebook_
            save(book.with_provenance(seconds=round(time.perf_counter() - begin, 3)), path)
            book = load(path)
        remove_checkpoint(partial)
        self._codebooks[n_words] = book
        return book

    def sample_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first test image of each class, and further ones: about 40 together."""
        test = self.split.test
        classes, first = np.unique(self.collection.y[test], return_index=True)
        n_each = -(-N_SAMPLES // len(classes))
        places = [np.flatnonzero(self.collection.y[test] == label)[1:n_each] for label in classes]
        return test[np.sort(first)], test[np.sort(np.concatenate(places))]

    # -- the cell --------------------------------------------------------------------------------

    def fingerprint(self, key: Key) -> str:
        """Return a digest of all that a cell depends on, known before it is measured."""
        run = self.experiment
        given = run.codebook if key.method == GIVEN else None
        return fingerprint(
            data=self.collection.digest,
            split=self._drawn(),
            kmeans=estimator_settings(self._kmeans(key.full_words)),
            codebook=None if given is None else given.digest,
            panel=[key.full_words, key.coding],
            sharpness=[run.sharpness, run.perplexity] if key.coding == "soft" else None,
            method=[key.method, key.size, settings(run.methods[key.method].estimator)],
            mappings=run.mappings(key.method),
            classifier=estimator_settings(HistogramClassifier()),
            version=__version__,
        )

    def measure(self, key: Key) -> Cell:
        """Measure a cell and keep its pruned codebook."""
        run, split = self.experiment, self.split
        if self._panel != (key.coding, key.full_words):
            self._panel = (key.coding, key.full_words)
            self._full: _Coded | None = None
            self._shared: SharedCodes | None = None
            self._trees: dict[str, tuple[Any, float]] = {}
            self._sharpness = self._panel_sharpness(key)
        chosen = self._choose(key)
        coded = self._code(key, chosen)
        is_sampled = self.index == 0
        shown = self.sample_rows()[0] if is_sampled else split.test[:0]
        places = np.searchsorted(split.test, shown)
        begin = time.perf_counter()
        found = {name: self._classify(name, coded, places) for name in run.mappings(key.method)}
        classify = time.perf_counter() - begin
        record = {} if chosen.selection is None else chosen.selection.record()
        codes_with = record.get("codes_with", run.methods[key.method].codes_with)
        if (codes_with == "pruned" and key.method != GIVEN) or (key.method == FULL and is_sampled):
            path = codebook_path(run.folder, key)
            make_folder(path.parent)
            save(chosen.codebook, path)
        book, seconds = chosen.codebook, 0.0
        if key.method != GIVEN:
            trained = self.codebook(key.size if key.method == KMEANS else key.full_words)
            seconds = float(trained.provenance.get("seconds", 0.0))
        cell: Any = {
            **key._asdict(),
            "n_columns": coded.train.shape[1],
            "n_coding_words": book.n_words,
            "codes_with": codes_with,
            "codebook_bytes": 4 * book.n_words * book.n_dims,
            "n_codebook": len(split.codebook),
            "n_train": len(split.train),
            "n_test": len(split.test),
            **({"n_folds": split.n_folds} if split.n_folds else {}),
            "sharpness": coded.sharpness,
            "results": {name: outcome for name, (outcome, _) in found.items()},
            "score": record.get("score"),
            "certificate": record.get("certificate"),
            "seed": record.get("seed"),
            "parameters": record.get("parameters", {}),
            "trace": chosen.trace,
            "answers": found["sqrt"][1] if is_sampled else None,
            "costs": {
                "select_seconds": round(chosen.seconds, 3),
                "codebook_seconds": seconds,
                "code_ms": round(coded.code_ms, 4),
                "classify_seconds": round(classify, 3),
                "threads": effective_jobs(run.n_jobs),
            },
            "fingerprint": self.fingerprint(key),
        }
        return cast(Cell, cell)

    def _panel_sharpness(self, key: Key) -> float:
        """Return the sharpness of a panel: the given one, or that of its full codebook."""
        run = self.experiment
        if key.coding == "hard" or (run.perplexity is None and run.sharpness != "auto"):
            return 40.0 if run.sharpness == "auto" else float(run.sharpness)
        coder = BagOfWords(
            run.codebook if key.method == GIVEN else self.codebook(key.full_words),
            coding="soft",
            sharpness=run.sharpness,
            perplexity=run.perplexity,
            random_state=self.split.seed_for("coding"),
            n_jobs=run.n_jobs,
        )
        return float(coder.fit(self.train_bags, self.train_labels).sharpness_in_use())

    def _choose(self, key: Key) -> _Chosen:
        run, template = self.experiment, self.experiment.methods[key.method].estimator
        if key.method == GIVEN:
            assert run.codebook is not None
            return _Chosen(None, run.codebook)
        if template is None:
            return _Chosen(None, self.codebook(key.size))
        if key.method in self._trees:
            merged, seconds = self._trees[key.method]
            selection = merged.selection_at(key.size)
            return _Chosen(selection, selection.codebook, None, seconds)
        selector = prepare(
            template,
            codebook=self.codebook(key.full_words),
            n_kept=key.size,
            coding=key.coding,
            sharpness=self._sharpness,
            random_state=self.split.seed_for("selection"),
            n_jobs=run.n_jobs,
        )
        shared = self._shared_codes(key)
        begin = time.perf_counter()
        if isinstance(selector, Selector):
            selector._fit_shared(self.train_bags, self.train_labels, shared)
        else:
            selector.fit(self.train_bags, self.train_labels)
        seconds = time.perf_counter() - begin
        if hasattr(selector, "tree_") and hasattr(selector, "selection_at"):
            self._trees[key.method] = selector, seconds
        selection = getattr(selector, "selection_", None)
        book = getattr(selector, "codebook_", None) if selection is None else selection.codebook
        if not isinstance(book, Codebook):
            raise ParameterError(
                f"the method {key.method!r} must set selection_ (a Selection) or codebook_ (a "
                f"Codebook) in fit; {type(selector).__name__} does not."
            )
        return _Chosen(selection, book, trace_of(selector), seconds)

    def _shared_codes(self, key: Key) -> SharedCodes:
        """Return what the panel's selectors share; its histograms are not part of any's time."""
        if self._shared is None:
            run = self.experiment
            # Soft weights beyond the limit go to a file, which is slower.
            limit = max(2 << 30, (memory_bytes() or 0) * 3 // (5 * run.n_workers))
            self._shared = SharedCodes(self.codebook(key.full_words), self.train_bags, limit)
            self._shared.histograms(key.coding, self._sharpness, run.n_jobs)  # type: ignore[arg-type]
        return self._shared

    def _code(self, key: Key, chosen: _Chosen) -> _Coded:
        selection = chosen.selection
        if selection is not None and selection.codes_with == "full":
            full = self._full or self._histograms(key, self.codebook(key.full_words))
            self._full = full
            train, held, test = (selection.reduce(part) for part in full[:3])
            return full._replace(train=train, codebook=held, test=test)
        if key.method != FULL:
            return self._histograms(key, chosen.codebook)
        self._full = self._full or self._histograms(key, chosen.codebook)
        return self._full

    def _histograms(self, key: Key, book: Codebook) -> _Coded:
        begin, coding = time.perf_counter(), cast(Literal["hard", "soft"], key.coding)
        parts = [
            coded(self.collection.bags[rows], book, coding, self._sharpness, self.experiment.n_jobs)
            for rows in (self.split.train, self.split.codebook, self.split.test)
        ]
        code_ms = 1000 * (time.perf_counter() - begin) / max(sum(map(len, parts)), 1)
        sharpness = self._sharpness if key.coding == "soft" else None
        return _Coded(parts[0], parts[1], parts[2], code_ms, sharpness)

    def _classify(
        self, name: Mapped, coded: _Coded, places: NDArray[np.int64]
    ) -> tuple[Outcome, list[str]]:
        """Choose C, train, and return the outcome and the answers at some places of the test."""
        y, split = self.collection.y, self.split
        held = (coded.codebook, y[split.codebook]) if len(split.codebook) else ()
        model = HistogramClassifier(
            name, n_jobs=self.experiment.n_jobs, random_state=split.seed_for("classifier")
        )
        if split.n_folds:
            return self._classify_fold(model, coded, places)
        model.fit(coded.train, self.train_labels, *held)
        guess = np.asarray(model.predict(coded.test), dtype=np.int64)
        outcome = {
            **outcome_of(confusion(y[split.test], guess, len(self.collection.classes)).tolist()),
            "C": float(model.C_),
            "C_grid": model.grid_.tolist(),
            "C_scores": model.scores_.tolist(),
        }
        return outcome, self._names(guess[places])

    def _classify_fold(
        self, model: HistogramClassifier, coded: _Coded, places: NDArray[np.int64]
    ) -> tuple[Outcome, list[str]]:
        """Train with every C; the other folds choose among them when the records are read."""
        truth, n_classes = self.collection.y[self.split.test], len(self.collection.classes)
        grid, labels = labels_by_c(model, coded.train, self.train_labels, coded.test)
        matrices = [confusion(truth, row, n_classes).tolist() for row in labels]
        at = grid.index(USUAL_C)
        answers = [self._names(row[places]) for row in labels]
        by_C = {"C": grid, "confusions": matrices, "answers": answers}
        return {**outcome_of(matrices[at]), "C": grid[at], "by_C": by_C}, answers[at]

    def _names(self, labels: NDArray[np.int64]) -> list[str]:
        return [str(self.collection.classes[label]) for label in labels.tolist()]


def trace_of(selector: Any) -> dict[str, Any] | None:
    """Return at most 200 points of a search's path, or None for a method without one.

    ``accepted`` (share of moves since the point before) and ``temperature`` have one entry less.
    """
    if not isinstance(selector, Annealing | Refinement) or len(selector.selection_.scores) < 2:
        return None
    path = selector.selection_.scores
    points = np.unique(np.linspace(0, len(path) - 1, min(len(path), MAX_TRACE)).astype(int))
    accepted, heat = None, None
    if isinstance(selector, Annealing):
        taken = np.concatenate(([0], np.cumsum(selector.accepted_)))[points]
        accepted = _rounded(np.diff(taken) / np.diff(points))
        heat = _rounded(np.asarray(selector.temperatures_)[points[1:] - 1])
    return {
        "step": points.tolist(),
        "score": _rounded(np.asarray(path)[points]),
        "accepted": accepted,
        "temperature": heat,
        "score_name": selector.selection_.parameters["score"],
    }


def _rounded(values: NDArray[Any]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def memory_bytes() -> int | None:
    """Return the memory of the machine, or of its container if that is less."""
    found: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return min(found, default=None)
