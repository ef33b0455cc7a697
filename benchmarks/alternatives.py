"""Pruning beside other ways to make coding small and fast: accuracy, bytes and milliseconds.

python -m benchmarks.alternatives --scene15 DIR --caltech101 DIR     measure what is missing, draw
python -m benchmarks.alternatives --scene15 DIR --validate           which projection, without test
python -m benchmarks.alternatives --draw                             only the figures

Protocol of the study: 50 images per class for the codebook (25 on Caltech-10), 50 (25) others to
choose words and to train, the rest to test; hard coding, square roots, a linear SVM whose C is
chosen on the codebook's images. k-means has 5000 words and 10 rounds on 200,000 descriptors.

**Bytes** are those of words, index or projection, and of the classifier in float32. **Time** is the
coding of an image's descriptors, projection included and SIFT excluded, on one core. With
``--validate`` words and classifier are learned from a part of the training images (all but a fifth,
or 10 per class), and the others test them: no test image is seen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numba import njit
from numpy.typing import NDArray

import bowsaw as bs
from benchmarks.figures import draw_alternatives
from benchmarks.planes import planes
from benchmarks.timing import hardware, in_turn
from bowsaw.checkpoint import atomic_write
from bowsaw.evaluation.measures import mean_class_accuracy

HERE = Path(__file__).parent
RECORDS, VALIDATED = HERE / "alternatives.json", HERE / "projections.json"
SETS = {"scene15": ("15-Scenes", 50, None), "caltech101": ("Caltech-10", 25, "caltech10")}
KMEANS = {"max_iter": 10, "sample": 200_000}
N_WORDS, SIZES, N_TIMED = 5000, (20, 50, 100), 40
BRANCHES, LEVELS = 17, 3
Floats = NDArray[np.float32]


# -- coders ---------------------------------------------------------------------------------------


@dataclass
class Words:
    """Exact search; ``bits`` of each number of the words and the projection: 32, or 8."""

    book: bs.Codebook
    bits: int = 32

    def __post_init__(self) -> None:
        if self.bits == 8:
            known = self.book.projection
            if known is not None:
                matrix = _rounded(known.matrix, np.abs(known.matrix).max() / 127)
                known = bs.Projection(np.rint(known.mean), matrix, known.scale)
            low = self.book.words.min()
            words = low + _rounded(self.book.words - low, np.ptp(self.book.words) / 255)
            about: dict[str, Any] = {"scale": self.book.scale, "projection": known}
            self.book = bs.Codebook(words, description=self.book.description, **about)

    def code(self, bags: bs.Bags) -> Floats:
        """Return the histograms."""
        return np.asarray(bs.BagOfWords(self.book, n_jobs=1).transform(bags))

    @property
    def n_bytes(self) -> int:
        """Bytes of words and projection."""
        known = self.book.projection
        size = self.book.words.size + (0 if known is None else known.matrix.size + known.mean.size)
        return size * self.bits // 8


@dataclass
class Index:
    """The codes of a faiss index, or of whatever else finds a word for each row."""

    n_words: int
    n_bytes: int
    find: Callable[[Floats], NDArray[Any]]

    def code(self, bags: bs.Bags) -> Floats:
        """Return the histograms."""
        out = np.zeros((len(bags), self.n_words), dtype=np.float32)
        for row, values in zip(out, bags, strict=True):
            found = self.find(np.ascontiguousarray(values, dtype=np.float32))
            row += np.bincount(found.ravel(), minlength=self.n_words) / max(len(values), 1)
        return out


def _rounded(values: Floats, step: float) -> Floats:
    return np.asarray(np.rint(values / step) * step, dtype=np.float32)


def faiss_index(index: Any, words: Floats) -> Index:
    """Return the coder of an index, which is trained on the words and filled with them."""
    index.train(words)
    index.add(words)
    size = len(faiss.serialize_index(index))
    return Index(len(words), size, lambda rows: index.search(rows, 1)[1])


def ivf(words: Floats) -> Index:
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(words.shape[1]), words.shape[1], 64)
    index.nprobe = 2
    return faiss_index(index, words)


def tree(rows: Floats, seed: int) -> Index:
    """Learn a vocabulary tree (Nistér and Stewénius 2006): k-means in k-means, greedy search."""
    levels: list[Floats] = []
    groups = [rows]
    for _ in range(LEVELS):
        centres, parts = [], []
        for group in groups:
            mine = np.full((BRANCHES, rows.shape[1]), np.float32(1e6))
            distinct = np.unique(group, axis=0)
            if len(distinct) <= BRANCHES:
                mine[: len(distinct)] = distinct
            else:
                how = {"niter": 10, "seed": seed, "min_points_per_centroid": 1}
                kmeans = faiss.Kmeans(rows.shape[1], BRANCHES, **how)
                kmeans.train(group)
                mine[:] = kmeans.centroids
            near = faiss.knn(group, mine, 1)[1].ravel() if len(group) else np.empty(0, int)
            centres.append(mine)
            parts += [group[near == branch] for branch in range(BRANCHES)]
        levels.append(np.concatenate(centres))
        groups = parts
    nodes = np.ascontiguousarray(np.concatenate(levels))
    return Index(BRANCHES**LEVELS, nodes.nbytes, lambda values: _descend(values, nodes))


@njit(nogil=True, fastmath=True, cache=True)
def _descend(rows: Floats, nodes: Floats) -> NDArray[np.int64]:
    """Return the leaf of each row: from the root on, the nearest child."""
    out = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        node, first = 0, 0
        for level in range(LEVELS):
            best, chosen = np.float32(np.inf), 0
            for child in range(BRANCHES):
                at, total = first + node * BRANCHES + child, np.float32(0)
                for d in range(rows.shape[1]):
                    gap = rows[i, d] - nodes[at, d]
                    total += gap * gap
                if total < best:
                    best, chosen = total, child
            node = node * BRANCHES + chosen
            first += BRANCHES ** (level + 1)
        out[i] = node
    return out


# -- one split ------------------------------------------------------------------------------------


@dataclass
class Part:
    """Images of a set that learn words, train and test, and the codebooks learned from them."""

    name: str
    bags: bs.Bags
    y: NDArray[np.int64]
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    seed: int
    work: Path
    _known: dict[tuple[int, int | None], bs.Codebook] = field(default_factory=dict)

    def book(self, n_words: int = N_WORDS, n_components: int | None = None) -> bs.Codebook:
        """Return k-means on the codebook's images, which the folder of work keeps."""
        key = n_words, n_components
        if key not in self._known:
            path = self.work / f"{self.name}-{self.seed}-{n_words}-{n_components}.safetensors"
            if not path.exists():
                how = {"random_state": self.seed, "n_jobs": 1, **KMEANS}
                trainer = bs.KMeansCodebook(n_words, n_components=n_components, **how)
                bs.save(trainer.fit(self.bags[self.rows[0]]).codebook_, path)
            self._known[key] = bs.load(path)
        return self._known[key]

    @cached_property
    def sample(self) -> Floats:
        """Descriptors of the codebook's images, as many as k-means learns from."""
        values = self.bags[self.rows[0]].values
        n = min(KMEANS["sample"], len(values))
        chosen = np.random.default_rng(self.seed).choice(len(values), n, replace=False)
        return np.asarray(values[np.sort(chosen)], dtype=np.float32)

    def chosen(self, selector: Any, n_kept: int, n_components: int | None, n_words: int) -> Any:
        """Return the words that a method chooses on the training images."""
        selector = selector.set_params(
            codebook=self.book(n_words, n_components), n_kept=n_kept, random_state=self.seed
        )
        return selector.set_params(n_jobs=1).fit(self.bags[self.rows[1]], self.y[self.rows[1]])

    def measure(self, make: Callable[[Part], Words | Index]) -> dict[str, Any]:
        """Return accuracy, C and bytes of an alternative."""
        coder = make(self)
        begin = time.perf_counter()
        known, train, test = (coder.code(self.bags[rows]) for rows in self.rows)
        took = time.perf_counter() - begin
        seen, y, truth = (self.y[rows] for rows in self.rows)
        model = bs.HistogramClassifier("sqrt", n_jobs=1, random_state=self.seed)
        model.fit(train, y, known, seen)
        n_classes = len(np.unique(y))
        accuracy = mean_class_accuracy(truth, model.predict(test), n_classes)
        return {
            "accuracy": round(float(accuracy), 5),
            "C": float(model.C_),
            "bytes": coder.n_bytes,
            "classifier_bytes": 4 * n_classes * (train.shape[1] + 1),
            "n_columns": train.shape[1],
            "coding_seconds": round(took, 2),
        }


def words(
    n_components: int | None = None, n_words: int = N_WORDS, bits: int = 32
) -> Callable[[Part], Words]:
    return lambda part: Words(part.book(n_words, n_components), bits)


def ours(
    method: Callable[[], Any],
    n_kept: int,
    n_components: int | None = None,
    bits: int = 32,
    n_words: int = N_WORDS,
) -> Callable[[Part], Words]:
    """Return what chooses words by a method; its result is kept beside the codebooks."""

    def make(part: Part) -> Words:
        name = f"{part.name}-{part.seed}-{method().name}-{n_kept}-{n_components}-{n_words}"
        path = part.work / f"{name}.safetensors"
        if not path.exists():
            bs.save(part.chosen(method(), n_kept, n_components, n_words).codebook_, path)
        return Words(bs.load(path), bits)

    return make


def flat(build: Callable[[Floats], Index]) -> Callable[[Part], Index]:
    return lambda part: build(np.array(part.book().words))


ALTERNATIVES: dict[str, tuple[str, Callable[[Part], Words | Index]]] = {
    "all words": ("all words", words()),
    "vocabulary tree": ("all words", lambda part: tree(part.sample, part.seed)),
    "HNSW": ("all words", flat(lambda w: faiss_index(faiss.IndexHNSWFlat(w.shape[1], 16), w))),
    "IVF": ("all words", flat(ivf)),
    **{f"PCA {n}": ("PCA", words(n)) for n in (64, 32, 16)},
    "8 bits": ("fewer bits", words(bits=8)),
    "PCA 32, 8 bits": ("fewer bits", words(32, bits=8)),
    "PCA 16, 8 bits": ("fewer bits", words(16, bits=8)),
    "PQ 16": ("fewer bits", flat(lambda w: faiss_index(faiss.IndexPQ(w.shape[1], 16, 8), w))),
    **{f"k-means {n}": ("k-means", words(n_words=n)) for n in (20, 50, 100, 200)},
    **{f"annealing {n}": ("annealing", ours(partial(bs.Annealing, None), n)) for n in SIZES},
    **{f"refinement {n}": ("refinement", ours(partial(bs.Refinement, None), n)) for n in SIZES},
    **{
        f"refinement {n}, PCA {dims}, 8 bits": (
            "refinement, PCA, 8 bits",
            ours(partial(bs.Refinement, None), n, dims, 8),
        )
        for dims in (32, 16)
        for n in SIZES
    },
}
"""Each alternative: its name, its group in the figures, and what makes its coder."""
TUNED = partial(bs.Refinement, start=bs.RandomSubset(None), n_steps=150, n_folds=0)
PROJECTIONS: dict[str, tuple[str, Callable[[Part], Words | Index]]] = {
    f"refinement {n}, {dims or 'no'} components": (
        str(dims or "none"),
        ours(TUNED, n, dims, n_words=1000),
    )
    for n in SIZES
    for dims in (None, 64, 32, 16, 8)
}
"""What ``--validate`` measures: the default of ``shrink``."""


def parts(key: str, folder: str, work: Path, splits: int, validate: bool) -> Iterator[Part]:
    """Yield the parts of each split; for ``validate`` without its test images, in two sizes."""
    name, n, preset = SETS[key]
    images = bs.ImageFolder.from_preset(preset, folder) if preset else bs.ImageFolder(folder)
    store = bs.extract(images, bs.DenseSift(), work / f"{name}.store", n_jobs=1)
    y = np.asarray(store.y, dtype=np.int64)
    for index in range(splits):
        split = store.draw_split(codebook=n, train=n, seed=0, index=index)
        if not validate:
            yield Part(name, store.bags, y, (split.codebook, split.train, split.test), index, work)
            continue
        place = np.arange(len(split.train)) % n
        for least, many in ((n * 4 // 5, "all but a fifth"), (10, "10")):
            known = split.codebook[place < least] if least == 10 else split.codebook
            rows = (known, split.train[place < least], split.train[place >= least])
            called = f"{name}, {many} of the training images"
            yield Part(called, store.bags, y, rows, index, work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the records lack, one alternative after another."""
    parser = argparse.ArgumentParser("python -m benchmarks.alternatives")
    for key in SETS:
        parser.add_argument(f"--{key}", metavar="DIR", help="the folder of its images")
    parser.add_argument("--work", type=Path, default=Path("build/alternatives"))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", action="append", help="alternatives that begin so")
    parser.add_argument("--validate", action="store_true", help="projections, without test images")
    parser.add_argument("--time", action="store_true", help="measure the time again")
    parser.add_argument("--draw", action="store_true", help="only the figures")
    parser.add_argument("--output", type=Path, help="the records")
    options = parser.parse_args(arguments)
    path = options.output or (VALIDATED if options.validate else RECORDS)
    options.work.mkdir(parents=True, exist_ok=True)
    faiss.omp_set_num_threads(1)
    tried = PROJECTIONS if options.validate else ALTERNATIVES
    tried = {
        name: tried[name]
        for name in tried
        if not options.only or name.startswith(tuple(options.only))
    }
    for key in [] if options.draw else SETS:
        if getattr(options, key) is None:
            continue
        for part in parts(
            key, getattr(options, key), options.work, options.splits, options.validate
        ):
            for name, (group, make) in tried.items():
                found = _read(path)
                about = {"set": part.name, "split": part.seed, "name": name}
                if any(about.items() <= row.items() for row in found["rows"]):
                    continue
                row = {**about, "group": group, **part.measure(make)}
                _add(path, "rows", row)
                print(*row.values(), flush=True)
            if part.seed == 0 and options.time:
                _time(part, tried, path)
    if not options.validate and path.exists():
        draw_alternatives(planes(_read(path)), HERE.parent / "docs" / "figures")
    return 0


def _time(part: Part, tried: dict[str, Any], path: Path) -> None:
    """Measure the time per image, every alternative in turn."""
    bags = part.bags[part.rows[2][:: max(1, len(part.rows[2]) // N_TIMED)][:N_TIMED]]
    coders = {name: make(part) for name, (_, make) in tried.items()}
    sides = {name: partial(coder.code, bags) for name, coder in coders.items()}
    for name, times in in_turn(3, clock=time.process_time, **sides).items():
        ms = 1000 * min(times) / len(bags)
        _add(path, "times", {"set": part.name, "name": name, "ms": round(ms, 4)})


def _read(path: Path) -> dict[str, Any]:
    if path.exists():
        return dict(json.loads(path.read_text("utf-8")))
    return {
        "kmeans": {"n_words": N_WORDS, **KMEANS},
        "hardware": hardware(),
        "rows": [],
        "times": [],
    }


def _add(path: Path, table: str, row: dict[str, Any]) -> None:
    """Add a row to the records, in place of one of the same name."""
    found, names = _read(path), ("set", "split", "name")
    key = [row.get(name) for name in names]
    others = [old for old in found[table] if [old.get(name) for name in names] != key]
    found[table] = sorted([*others, row], key=lambda one: (one["set"], one.get("split", 0)))
    with atomic_write(path) as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    raise SystemExit(main())
