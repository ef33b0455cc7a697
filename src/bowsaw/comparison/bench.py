"""The bench: one split of one set of images, and everything that its cells share.

Shared by all cells of a split: descriptors, the full codebooks, k-means at each small size.
Shared by the cells of a panel: the histograms of all words and the states of searches
(:class:`~bowsaw.selection.base.SharedCodes`), merge trees, which one fit cuts at every size.

**The cell**: choose words on the training images, code all images with the codebook that the choice
codes with, choose C on the codebook's images, train on the training images, classify the test
images. Histograms are re-coded, never inferred.

**Times** are those of somebody who runs the cell alone: what was shared is added, though it took no
time again. ``code_ms`` is the coding and pooling of one image, the mean over all of them, with
``threads`` threads. Peak memory is that of the whole process while words were chosen, on systems
that tell.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.checkpoint import estimator_settings, fingerprint
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.comparison.collection import Collection, Panel
from bowsaw.comparison.memory import PeakMemory
from bowsaw.comparison.methods import METHODS, RETRAINED, Effort, Task, told_of
from bowsaw.comparison.records import Cell, Outcome
from bowsaw.comparison.shelf import Shelf
from bowsaw.evaluation.classify import HistogramClassifier, Mapped
from bowsaw.evaluation.measures import class_accuracies, confusion
from bowsaw.images.split import Split, split_by_class
from bowsaw.parallel import effective_jobs
from bowsaw.selection.base import Selection, Selector, SharedCodes
from bowsaw.selection.merging import MergingSelector

CHUNK = 500
"""Images that are coded at a time."""


@dataclass(frozen=True)
class _Coded:
    """Histograms of the three parts of a split, and how long an image took."""

    train: NDArray[np.float32]
    codebook: NDArray[np.float32]
    test: NDArray[np.float32]
    code_ms: float


@dataclass
class Chosen:
    """What a method chose, what that took, and what test images are then taken for.

    ``guess`` holds the class of each test image by the first mapping, once the cell is measured.
    """

    selection: Selection | None
    codebook: Codebook
    selector: Selector | None
    seconds: float
    peak: int | None
    guess: NDArray[np.int64] | None = None


class Bench:
    """One split of a collection.

    Parameters
    ----------
    collection : Collection
        The images.
    index, seed : int
        Which split of which seed.
    work : path-like
        A folder to keep codebooks in.
    effort : {"usual", "bounded"}
        How long searches may take.
    kmeans : mapping
        Further parameters of ``KMeansCodebook``.
    n_jobs : int or None
        Threads; nothing but times depends on it.
    verbose : bool
        Show the progress of k-means on a terminal.
    max_bytes : int or None
        The most memory that a state of soft codes may take before it goes to disk.
    """

    def __init__(
        self,
        collection: Collection,
        index: int,
        seed: int,
        work: Path,
        *,
        effort: Effort = "usual",
        kmeans: Mapping[str, Any] | None = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self.collection = collection
        self.name, self.bags, self.y = collection.name, collection.bags, collection.y
        self.classes = collection.classes
        self.index, self.seed, self.effort = index, seed, effort
        self.n_jobs, self.verbose, self._max_bytes = n_jobs, verbose, max_bytes
        self.split: Split = split_by_class(
            self.y,
            self.classes,
            codebook=collection.codebook_images,
            train=collection.train,
            seed=seed,
            index=index,
        )
        self.train_bags = self.bags[self.split.train]
        self.train_labels = self.y[self.split.train]
        self._shelf = Shelf(
            collection,
            self.split,
            work,
            KMeansCodebook(
                random_state=self.split.seed_for("kmeans"), n_jobs=n_jobs, **dict(kmeans or {})
            ),
            verbose=verbose,
        )
        self._panel: Panel | None = None

    # -- what cells share ------------------------------------------------------------------------

    def book(self, n_words: int) -> Codebook:
        """Return k-means on the codebook's images, trained once and kept."""
        return self._shelf.take(n_words)[0]

    def enter(self, panel: Panel) -> None:
        """Begin a panel: what was shared by the cells of another is let go."""
        if panel == self._panel:
            return
        self._panel = panel
        self._full: _Coded | None = None
        self._known: SharedCodes | None = None
        self._trees: dict[str, tuple[MergingSelector, float, int | None]] = {}

    def known(self) -> SharedCodes:
        """Return what is known of the training images in the present panel."""
        assert self._panel is not None
        if self._known is None:
            book = self.book(self._panel.full_words)
            self._known = SharedCodes(book, self.train_bags, max_bytes=self._max_bytes)
        return self._known

    # -- the cell --------------------------------------------------------------------------------

    def fingerprint_of(self, panel: Panel, method: str, size: int, maps: list[Mapped]) -> str:
        """Return a digest of all that the cell depends on, known before it is measured."""
        task = self._task(panel, size, None)
        make = METHODS[method].make
        return fingerprint(
            data=self.collection.digest,
            split=[self.seed, self.index, self.split.n_codebook, self.split.n_train],
            kmeans=estimator_settings(self._shelf.trainer(panel.full_words)),
            full_words=panel.full_words,
            coding=panel.coding,
            sharpness=panel.sharpness if panel.coding == "soft" else None,
            method=method,
            size=size,
            told=dict(told_of(None if make is None else make(task))),
            maps=maps,
            classifier=estimator_settings(HistogramClassifier()),
            version=__version__,
        )

    def cell(self, panel: Panel, method: str, size: int, maps: list[Mapped]) -> tuple[Cell, Chosen]:
        """Measure one method at one size."""
        self.enter(panel)
        chosen = self.choose(method, size)
        coded = self._code(chosen)
        watch = time.perf_counter()
        results: dict[str, Outcome] = {}
        guesses = []
        for name in maps:
            results[name], guess = self._classify(name, coded)
            guesses.append(guess)
        classify = time.perf_counter() - watch
        chosen.guess = guesses[0]
        selection = chosen.selection
        record = {} if selection is None else selection.record()
        _, seconds = self._shelf.take(size if method == RETRAINED else panel.full_words)
        cell = Cell(
            set=self.name,
            split=self.index,
            coding=panel.coding,
            full_words=panel.full_words,
            method=method,
            size=size,
            n_columns=coded.train.shape[1],
            n_coding_words=chosen.codebook.n_words,
            codes_with=METHODS[method].codes_with,
            codebook_bytes=4 * chosen.codebook.n_words * chosen.codebook.n_dims,
            n_codebook=len(self.split.codebook),
            n_train=len(self.split.train),
            n_test=len(self.split.test),
            sharpness=panel.sharpness if panel.coding == "soft" else None,
            results=results,
            score=record.get("score"),
            certificate=record.get("certificate"),
            seed=record.get("seed"),
            parameters=record.get("parameters", {}),
            costs={
                "select_seconds": round(chosen.seconds, 3),
                "codebook_seconds": seconds,
                "code_ms": round(coded.code_ms, 4),
                "classify_seconds": round(classify, 3),
                "peak_bytes": chosen.peak,
                "threads": effective_jobs(self.n_jobs),
            },
            fingerprint=self.fingerprint_of(panel, method, size, maps),
        )
        return cell, chosen

    def choose(self, method: str, size: int) -> Chosen:
        """Let a method choose its words in the present panel."""
        panel = self._panel
        assert panel is not None
        make = METHODS[method].make
        if make is None:
            return Chosen(None, self.book(size), None, 0.0, None)
        if method in self._trees:
            merged, seconds, peak = self._trees[method]
            selection = merged.selection_at(size)
            return Chosen(selection, selection.codebook, merged, seconds, peak)
        selector = make(self._task(panel, size, self.book(panel.full_words)))
        begin = time.perf_counter()
        with PeakMemory() as memory:
            selector._fit_shared(self.train_bags, self.train_labels, self.known())
        seconds = time.perf_counter() - begin
        if getattr(selector, "interrupted_", False):
            # A search that keeps its best on Ctrl-C has caught it; a cell is whole or not at all.
            raise KeyboardInterrupt
        if isinstance(selector, MergingSelector):
            self._trees[method] = selector, seconds, memory.peak
        selection = selector.selection_
        return Chosen(selection, selection.codebook, selector, seconds, memory.peak)

    def full(self) -> _Coded:
        """Return the histograms of all words in the present panel."""
        panel = self._panel
        assert panel is not None
        if self._full is None:
            train = self.known().histograms(panel.coding, panel.sharpness, self.n_jobs)
            begin = time.perf_counter()
            book = self.book(panel.full_words)
            held, test = (self._histograms(book, r) for r in (self.split.codebook, self.split.test))
            n_coded = len(held) + len(test)
            code_ms = 1000 * (time.perf_counter() - begin) / max(n_coded, 1)
            self._full = _Coded(train, held, test, code_ms)
        return self._full

    def _code(self, chosen: Chosen) -> _Coded:
        selection = chosen.selection
        assert self._panel is not None
        if chosen.codebook.n_words == self._panel.full_words and (
            selection is None or selection.codes_with == "full"
        ):
            full = self.full()
            if selection is None:
                return full
            return _Coded(
                selection.reduce(full.train),
                selection.reduce(full.codebook),
                selection.reduce(full.test),
                full.code_ms,
            )
        begin = time.perf_counter()
        train, held, test = (
            self._histograms(chosen.codebook, rows)
            for rows in (self.split.train, self.split.codebook, self.split.test)
        )
        n_coded = len(train) + len(held) + len(test)
        return _Coded(train, held, test, 1000 * (time.perf_counter() - begin) / n_coded)

    def _histograms(self, book: Codebook, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        panel = self._panel
        assert panel is not None
        coder = BagOfWords(book, coding=panel.coding, sharpness=panel.sharpness, n_jobs=self.n_jobs)
        out = np.empty((len(rows), book.n_words), dtype=np.float32)
        for start in range(0, len(rows), CHUNK):
            some = slice(start, start + CHUNK)
            out[some] = coder.transform(self.bags[rows[some]])
        return out

    def _classify(self, name: Mapped, coded: _Coded) -> tuple[Outcome, NDArray[np.int64]]:
        held: tuple[NDArray[Any], ...] = ()
        if len(self.split.codebook):
            held = (coded.codebook, self.y[self.split.codebook])
        model = HistogramClassifier(
            name, n_jobs=self.n_jobs, random_state=self.split.seed_for("classifier")
        ).fit(coded.train, self.train_labels, *held)
        guess = np.asarray(model.predict(coded.test), dtype=np.int64)
        matrix = confusion(self.y[self.split.test], guess, len(self.classes))
        shares = class_accuracies(matrix)
        outcome = Outcome(
            accuracy=float(np.nanmean(shares)),
            class_accuracy=[None if np.isnan(s) else float(s) for s in shares],
            confusion=matrix.tolist(),
            C=float(model.C_),
            C_grid=model.grid_.tolist(),
            C_scores=model.scores_.tolist(),
        )
        return outcome, guess

    def _task(self, panel: Panel, size: int, book: Codebook | None) -> Task:
        return Task(
            book,  # type: ignore[arg-type]  # a selector that is only described needs no words
            size,
            panel.coding,
            panel.sharpness,
            self.split.seed_for("selection"),
            self.n_jobs,
            self.effort,
        )
