"""The shelf: codebooks of one split, each trained once and kept in a folder of work.

A codebook is kept with a fingerprint of what it depends on; one of another fingerprint, or a
damaged one, is trained again. Training can be interrupted and goes on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from sklearn.base import clone

from bowsaw._version import __version__
from bowsaw.checkpoint import (
    estimator_settings,
    fingerprint,
    remove_checkpoint,
    short_digest,
)
from bowsaw.clustering.kmeans import KMeansCodebook
from bowsaw.codebook import Codebook
from bowsaw.comparison.collection import Collection
from bowsaw.errors import BowsawError
from bowsaw.formats.registry import load, save
from bowsaw.images.split import Split


class Shelf:
    """Codebooks of any size for one split of a collection.

    Parameters
    ----------
    collection : Collection
        The images.
    split : Split
        Whose codebook images to learn from, or whose training images where it has none.
    work : Path
        The folder.
    kmeans : KMeansCodebook
        How to train, but for the number of words.
    verbose : bool
        Show the progress of k-means on a terminal.
    """

    def __init__(
        self,
        collection: Collection,
        split: Split,
        work: Path,
        kmeans: KMeansCodebook,
        *,
        verbose: bool = False,
    ) -> None:
        self._collection, self._split, self._work = collection, split, work
        self._kmeans, self._verbose = kmeans, verbose
        self._taken: dict[int, tuple[Codebook, float]] = {}

    def take(self, n_words: int) -> tuple[Codebook, float]:
        """Return k-means with so many words, and the seconds that training it took."""
        if n_words not in self._taken:
            self._taken[n_words] = self._load(n_words) or self._train(n_words)
        return self._taken[n_words]

    def trainer(self, n_words: int) -> KMeansCodebook:
        """Return the estimator that trains so many words."""
        trainer: KMeansCodebook = clone(self._kmeans).set_params(n_words=n_words)
        return trainer

    def _place(self, n_words: int) -> tuple[Path, str]:
        split = self._split
        name = fingerprint(
            data=self._collection.digest,
            split=[split.seed, split.index, split.n_codebook, split.n_train],
            kmeans=estimator_settings(self.trainer(n_words)),
            n_words=n_words,
            version=__version__,
        )
        called = self._collection.name
        readable = "".join(c if c.isalnum() or c in "-_" else "_" for c in called)
        tag = f"{short_digest(os.fsencode(called)):016x}"[:6]
        return self._work / f"{readable}-{tag}-{split.index}-{n_words}.safetensors", name

    def _load(self, n_words: int) -> tuple[Codebook, float] | None:
        path, name = self._place(n_words)
        try:
            book = load(path)
        except (BowsawError, OSError):
            return None
        known = book.provenance.get("arena")
        if not isinstance(known, dict) or known.get("fingerprint") != name:
            return None
        return book, float(known["seconds"])

    def _train(self, n_words: int) -> tuple[Codebook, float]:
        path, name = self._place(n_words)
        path.parent.mkdir(parents=True, exist_ok=True)
        split = self._split
        rows = split.codebook if len(split.codebook) else split.train
        partial = path.with_suffix(".partial")
        trainer = self.trainer(n_words).set_params(verbose=self._verbose, checkpoint=partial)
        begin = time.perf_counter()
        book: Codebook = trainer.fit(self._collection.bags[rows]).codebook_
        seconds = round(time.perf_counter() - begin, 3)
        save(book.with_provenance(arena={"fingerprint": name, "seconds": seconds}), path)
        remove_checkpoint(partial)
        return load(path), seconds
