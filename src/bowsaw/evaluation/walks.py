"""Walks from all words to a few, all told the same: the path itself, and one in every fold.

A walk is an elimination (:mod:`bowsaw.selection.elimination`) that keeps its stops in a file, where
there is a checkpoint. The file's fingerprint holds everything that the stops depend on: bags,
labels, words, and what the walk was told. So a fold can only go on from a walk of the same bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bowsaw._version import __version__
from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.evaluation.fingerprint import data_digest
from bowsaw.inference.state import HistogramState
from bowsaw.progress import Task
from bowsaw.scores.base import Score, make_score
from bowsaw.selection.base import SharedCodes
from bowsaw.selection.elimination import eliminate
from bowsaw.selection.trail import Trail, TrailFile
from bowsaw.validation import json_value


@dataclass(frozen=True)
class Walks:
    """What all walks are told.

    Attributes
    ----------
    sizes : sequence of int
        The stops, falling, the first is all words.
    classes : sequence of str
        Names of the classes.
    score, repair, coding, sharpness, checkpoint, n_jobs
        As in :class:`bowsaw.evaluation.path.PruningPath`.
    seed : int
        Draws swaps.
    """

    sizes: Sequence[int]
    classes: Sequence[str]
    score: str | Score
    repair: int
    coding: Literal["hard", "soft"]
    sharpness: float
    checkpoint: str | PathLike[str] | None
    seed: int
    n_jobs: int | None

    def walk(
        self,
        book: Codebook,
        bags: Bags,
        labels: NDArray[np.int64],
        name: str = "",
        *,
        shared: SharedCodes | None = None,
        show: bool = False,
        task: Task | None = None,
    ) -> tuple[Trail, HistogramState]:
        """Walk, and return the trail and the state at its end.

        Parameters
        ----------
        book : Codebook
            All words.
        bags, labels : Bags, ndarray of int64
            What to choose by.
        name : str, default=""
            What is added to the name of the checkpoint, of a fold.
        shared : SharedCodes, optional
            Codes of the same bags and words that other selectors use.
        show : bool, default=False
            Show progress on a terminal.
        task : Task, optional
            The fit that this is a part of, for callbacks.
        """
        if shared is None or not shared.describes(book, bags):
            shared = SharedCodes(book, bags)
        state = shared.state(self.coding, "exact", self.sharpness, self.n_jobs, show)
        state.reset(book.ids)
        score = make_score(self.score).begin(labels, len(self.classes), bags.counts)
        trail = eliminate(
            state,
            score,
            self.sizes,
            repair=self.repair,
            seed=self.seed,
            file=self.file(name, self._fingerprint(book, bags, labels, score)),
            show=show,
            task=task,
        )
        return trail, state

    def file(self, name: str = "", fingerprint: dict[str, Any] | None = None) -> TrailFile:
        """Return the checkpoint of the path or of a fold; to be removed, none need be known."""
        if self.checkpoint is None:
            return TrailFile(None)
        path = Path(self.checkpoint)
        return TrailFile(path.with_name(path.name + name), fingerprint)

    def _fingerprint(
        self, book: Codebook, bags: Bags, labels: NDArray[np.int64], score: Score
    ) -> dict[str, Any] | None:
        """Return what a trail depends on; None where no file needs it, for hashing takes time."""
        if self.checkpoint is None:
            return None
        # What the score was told, and nothing that it has learned.
        options = {key: told for key, told in vars(score).items() if "_" not in (key[0], key[-1])}
        return {
            "bags": data_digest(bags, labels, list(self.classes)),
            "codebook": book.digest,
            "sizes": list(self.sizes),
            "score": [score.name, json_value(options)],
            "repair": int(self.repair),
            "coding": self.coding,
            "sharpness": float(self.sharpness) if self.coding == "soft" else None,
            "seed": self.seed,
            "version": __version__,
        }
