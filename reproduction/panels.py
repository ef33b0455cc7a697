"""The panels of the study: sets, codebooks, sizes and methods, measured by ``bowsaw.compare``.

Eight panels: 15-Scenes and Caltech-10, hard and soft coding, from 1000 and from 5000 words. The
paper's protocol: 50 images per class for the codebook, 50 others to choose words and to train
(25 and 25 on Caltech-10), the rest to test. Other methods that the paper cites are measured in the
two hard panels of 1000 words.

All methods have the library's defaults, as a user gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bowsaw as bs
from bowsaw.comparison import Run
from reproduction.methods import (
    BoostedStumps,
    RidgeReconstruction,
    SeparabilityMerging,
    SvmRanking,
    WinnMerging,
)
from reproduction.probes import ProbedSplit, measure_probes

CODINGS = ("hard", "soft")
METHODS = ("refinement", "annealing", "paper", "presence", "bottleneck", "random", "kmeans")
CITED = {
    "svm": SvmRanking(None),
    "winn": WinnMerging(None),
    "boosting": BoostedStumps(None),
    "ridge": RidgeReconstruction(None),
    "separability": SeparabilityMerging(None),
}
"""Other methods that the paper cites."""
CITED_WORDS = 1000


@dataclass(frozen=True)
class ImageSet:
    """A benchmark: its name, images per class for each part, and the preset of its folder."""

    name: str
    n_images: int
    preset: str | None = None


SETS = {
    "scene15": ImageSet("15-Scenes", 50),
    "caltech101": ImageSet("Caltech-10", 25, "caltech10"),
}
"""The benchmarks by the name of their option."""


@dataclass(frozen=True)
class Study:
    """The settings of the study."""

    n_words: Sequence[int] = (5000, 1000)
    sizes: Sequence[int] = (10, 20, 50, 100, 500)
    n_splits: int = 5
    seed: int = 0
    n_jobs: int | None = -1
    n_workers: int = 1

    def run(
        self,
        images: Mapping[str, str],
        folder: Path,
        command: str = "",
        on_cell: Callable[[Any], None] | None = None,
    ) -> Run:
        """Measure panels and probes into a folder; a run that is there continues.

        ``images`` holds the folders of the benchmarks by their keys in ``SETS``; ``command`` goes
        to ``run.json``; ``on_cell`` is called after each cell, as in ``bowsaw.compare``.
        """
        work = folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        collections = [self._collection(SETS[key], path, work) for key, path in images.items()]
        options: dict[str, Any] = {
            "sizes": self.sizes,
            "n_splits": self.n_splits,
            "seed": self.seed,
            "raw": ("full", "paper"),
            "n_jobs": self.n_jobs,
            "n_workers": self.n_workers,
            "command": command,
            "on_cell": on_cell,
        }
        panels: dict[str, Any] = {"n_words": self.n_words, "coding": CODINGS}
        bs.compare(collections, folder, methods=METHODS, **panels, **options)
        if CITED_WORDS in self.n_words:
            panels = {"n_words": CITED_WORDS, "coding": "hard"}
            bs.compare(collections, folder, methods=CITED, **panels, **options)
        measure_probes(folder, [self._probed(collection, folder) for collection in collections])
        return bs.read_run(folder)

    def _collection(self, images: ImageSet, path: str, work: Path) -> bs.Collection:
        found = bs.ImageFolder(path)
        if images.preset is not None:
            found = bs.ImageFolder.from_preset(images.preset, path)
        store = bs.extract(found, bs.DenseSift(), work / f"{images.name}.store", n_jobs=self.n_jobs)
        n_images = images.n_images
        return bs.Collection.from_store(
            store, images.name, codebook_images=n_images, train=n_images
        )

    def _probed(self, collection: bs.Collection, folder: Path) -> ProbedSplit:
        """Return the first split with its full codebooks, which the run's folder keeps."""
        assert collection.store is not None
        split = collection.store.draw_split(
            codebook=collection.codebook_images, train=collection.train, seed=self.seed
        )
        books = {
            n: bs.load(folder / "codebooks" / collection.name / f"0-hard-{n}-full-{n}.safetensors")
            for n in self.n_words
        }
        return ProbedSplit(collection, split, books, self.n_jobs)
