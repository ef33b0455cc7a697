"""Choosing defaults without test images.

python -m benchmarks.tuning --scene15 DIR --caltech101 DIR -o DIR   measure, or continue
python -m benchmarks.tuning --table -o DIR                           the table alone

**The question.** Which settings of ``Annealing``, ``Refinement`` and ``PruningPath`` give the best
words on images that took no part? The answer may not depend on test images, or the accuracies that
are published of the defaults would be too high.

**The protocol.** The parts of a split are those of ``bs.compare``; its test images are never read.
The codebook's images learn all words, without labels. The training images choose the words, then
train the classifier. The codebook's images, whose labels nothing has used, measure its accuracy:
one half of each class chooses C, the other half is classified, and the other way round. The small
sets are the gallery's data and scikit-learn's digits, divided in the same way.

**The cost** is processor time on one thread. Each line of ``tuning.jsonl`` is one fit.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits

import bowsaw as bs
from bowsaw.evaluation.classifier import HistogramClassifier, labels_by_c
from bowsaw.scores.leave_one_out import RIDGES, LeaveOneOut, leave_one_out_gradient
from bowsaw.selection import descent
from bowsaw.selection.base import SharedCodes
from reproduction.panels import SETS

EXAMPLES = Path(__file__).parents[1] / "examples"
SPLITS, SIZES, N_WORDS, ROUNDS = 5, (20, 50, 100), 5000, 10
SMALL: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "digits": (40, 500, (10, 20, 50)),
    "sounds": (30, 200, (10, 20, 50)),
    "series": (40, 200, (10, 20, 50)),
    "embeddings": (40, 500, (10, 20, 50)),
}
"""Small sets: bags per class in each of the two parts, words of the full codebook, sizes."""


DEFAULTS: dict[str, Any] = {
    "random": bs.RandomSubset(None),
    "kmeans": None,
    "bottleneck": bs.Bottleneck(None),
    "annealing": bs.Annealing(None),
    "refinement": bs.Refinement(None),
    "elimination": bs.PruningPath(None),
}


def _ridges(values: Sequence[float]) -> dict[str, Any]:
    return {"leave_one_out_gradient": partial(leave_one_out_gradient, ridges=values)}


_RANDOM: dict[str, Any] = {"start": bs.RandomSubset(None), "n_folds": 0}
_REFINEMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unchecked": ({}, {}),
    "150 steps, ridge of the grid": ({"n_steps": 150}, _ridges(RIDGES)),
    "75 steps": ({"n_steps": 75}, {}),
    "150 steps": ({"n_steps": 150}, {}),
    "300 steps": ({"n_steps": 300}, {}),
    "ridge 1": ({}, _ridges([1.0])),
    "ridge 10": ({}, _ridges([10.0])),
    "rate 0.05": ({"rate": 0.05}, {}),
    "rate 0.3": ({"rate": 0.3}, {}),
    "64 descriptors": ({"per_bag": 64}, {}),
    "256 descriptors": ({"per_bag": 256}, {}),
    "softness 10": ({}, {"SOFTNESS": 10.0}),
    "softness 40": ({}, {"SOFTNESS": 40.0}),
    "from annealing": ({"start": bs.Annealing(None, n_steps=500)}, {}),
    "from coverage": ({"start": bs.Coverage(None)}, {}),
}
_ANNEALINGS: dict[str, dict[str, Any]] = {
    "500 swaps": {"n_steps": 500},
    "2,000 swaps": {"n_steps": 2000},
    "ridge 1": {"score": LeaveOneOut(ridges=[1.0])},
    "ridge 3": {"score": LeaveOneOut(ridges=[3.0])},
    "ridge 10": {"score": LeaveOneOut(ridges=[10.0])},
    "climbing": {"start_temperature": 0.0},
    "hot": {"start_temperature": 1.0},
}
VARIANTS: dict[str, Any] = {
    **{
        f"refinement, {k}": bs.Refinement(None, **_RANDOM | how)
        for k, (how, _) in _REFINEMENTS.items()
    },
    **{f"annealing, {k}": bs.Annealing(None, **how) for k, how in _ANNEALINGS.items()},
}
"""Each differs from a default in what its name says; refinements are unchecked."""
PATCHES = {f"refinement, {k}": constants for k, (_, constants) in _REFINEMENTS.items()}
"""Constants of ``bowsaw.selection.descent`` that a variant has otherwise."""
ALL = {**DEFAULTS, **VARIANTS}
RECORDS = "tuning.jsonl"


@dataclass(frozen=True)
class Parts:
    """Bags and labels that choose words and train, and those that learn all words and validate."""

    train: bs.Bags
    y: NDArray[np.int64]
    others: bs.Bags
    others_y: NDArray[np.int64]


@cache
def gallery(name: str) -> tuple[bs.Bags, NDArray[np.int64]]:
    """Return the bags of a small set and their classes."""
    files = {"digits": "demo", "sounds": "gallery/sounds", "series": "gallery/time_series"}
    path = EXAMPLES / f"{files.get(name, 'gallery/patch_embeddings')}.py"
    spec = importlib.util.spec_from_file_location(f"tuning_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng, digits = np.random.default_rng(0), load_digits()
    if name == "digits":
        images = [module.enlarge(digit) for digit in digits.images]
        return bs.DenseSift().transform(images), digits.target.astype(np.int64)
    if name == "embeddings":
        tokens = module.embed(module.cut(digits.images)).astype(np.float32)
        return bs.Bags.from_list(list(tokens)), digits.target.astype(np.int64)
    y = np.repeat(np.arange(len(module.KINDS)), 160)
    make = module.play if name == "sounds" else module.make_series
    found = [module.describe(make(module.KINDS[kind], rng)) for kind in y]
    return bs.Bags.from_list([bag.astype(np.float32) for bag in found]), y


def parts_of(name: str, split: int, images: dict[str, Path], output: Path) -> Parts:
    """Return the parts of one split, without its test images."""
    if name in SMALL:
        bags, y = gallery(name)
        n_codebook = n_train = SMALL[name][0]
    else:
        kind = SETS[name]
        folder = bs.ImageFolder(images[name])
        if kind.preset is not None:
            folder = bs.ImageFolder.from_preset(kind.preset, images[name])
        store = bs.extract(folder, bs.DenseSift(), output / f"{name}.store")
        bags, y, n_codebook, n_train = store.bags, store.y, kind.n_images, kind.n_images
    drawn = bs.Collection(name, bags, y, np.unique(y), n_codebook, n_train).split(0, split)
    return Parts(bags[drawn.train], y[drawn.train], bags[drawn.codebook], y[drawn.codebook])


def codebook_of(name: str, split: int, parts: Parts, output: Path) -> bs.Codebook:
    """Return the full codebook of a split, learned once."""
    path = output / f"{name}-{split}.safetensors"
    if not path.exists():
        n_words = SMALL[name][1] if name in SMALL else N_WORDS
        model = bs.KMeansCodebook(n_words, max_iter=ROUNDS, random_state=split)
        bs.save(model.fit(parts.others).codebook_, path)
    return bs.load(path)


def accuracy(train: Any, y: NDArray[np.int64], others: Any, truth: NDArray[np.int64]) -> float:
    """Return the mean per-class accuracy on the others; each half has the C of the other half."""
    half = np.zeros(len(truth), dtype=bool)
    for number in np.unique(truth):
        half[np.flatnonzero(truth == number)[::2]] = True
    _, guesses = labels_by_c(HistogramClassifier(n_jobs=1), train, y, others)

    def mean(guess: NDArray[Any], rows: NDArray[np.bool_]) -> float:
        return float(np.mean([(guess == truth)[rows & (truth == c)].mean() for c in set(truth)]))

    best = [int(np.argmax([mean(guess, rows) for guess in guesses])) for rows in (half, ~half)]
    return (mean(guesses[best[0]], ~half) + mean(guesses[best[1]], half)) / 2


def measure(
    template: Any, size: int, split: int, parts: Parts, shared: SharedCodes
) -> dict[str, Any]:
    """Choose words and return their accuracy on the others, and the processor time of the fit."""
    begun, reduce = time.process_time(), np.asarray
    how: dict[str, Any] = {"random_state": split, "n_jobs": 1}
    if template is None:
        model: Any = bs.KMeansCodebook(size, **how).fit(parts.others)
    else:
        sized = {"sizes": [size]} if isinstance(template, bs.PruningPath) else {"n_kept": size}
        given = {"codebook": shared.codebook, **how, **sized}
        model = clone(template)
        model.set_params(**{k: v for k, v in given.items() if k in model.get_params()})
        model._fit_shared(parts.train, parts.y, shared)
        reduce = model.selection_.reduce
    seconds = time.process_time() - begun
    coder = bs.BagOfWords(model.codebook_, n_jobs=1)
    train, others = (reduce(coder.transform(bags)) for bags in (parts.train, parts.others))
    holdout = getattr(model, "holdout_", None)
    return {
        "accuracy": accuracy(train, parts.y, others, parts.others_y),
        "seconds": round(seconds, 2),
        **({} if holdout is None else {"n_steps": holdout.n_steps}),
    }


def run(
    names: list[str], sets: list[str], splits: int, images: dict[str, Path], output: Path
) -> None:
    """Measure what the records lack."""
    output.mkdir(parents=True, exist_ok=True)
    known = {(r["variant"], r["set"], r["split"], r["size"]) for r in records(output)}
    for split in range(splits):
        for name in sets:
            sizes = SMALL[name][2] if name in SMALL else SIZES
            todo = [(v, m) for v in names for m in sizes if (v, name, split, m) not in known]
            if not todo:
                continue
            parts = parts_of(name, split, images, output)
            shared = SharedCodes(codebook_of(name, split, parts, output), parts.train)
            for variant, size in todo:
                key = {"variant": variant, "set": name, "split": split, "size": size}
                with patch.dict(vars(descent), PATCHES.get(variant, {})):
                    found = {**key, **measure(ALL[variant], size, split, parts, shared)}
                with (output / RECORDS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                print(*found.values(), flush=True)


def records(output: Path) -> list[dict[str, Any]]:
    """Return the measurements so far."""
    path = output / RECORDS
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.exists() else []


def table(found: list[dict[str, Any]]) -> str:
    """Return the mean accuracy of each variant at each size, and the seconds of a fit."""
    order = [*SETS, *SMALL]
    columns = sorted(
        {(r["set"], r["size"]) for r in found}, key=lambda c: (order.index(c[0]), c[1])
    )
    by_variant: dict[str, dict[Any, list[Any]]] = {}
    for r in found:
        cell = by_variant.setdefault(r["variant"], {}).setdefault((r["set"], r["size"]), [])
        cell.append(r)
    lines = ["| variant | " + " | ".join(f"{name} {size}" for name, size in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for variant in (name for name in ALL if name in by_variant):
        texts = []
        for column in columns:
            cells = by_variant[variant].get(column, [])
            accuracies = [r["accuracy"] for r in cells]
            error = np.std(accuracies, ddof=1) / np.sqrt(len(cells)) if len(cells) > 1 else np.nan
            seconds = np.mean([r["seconds"] for r in cells]) if cells else np.nan
            text = f"{np.mean(accuracies):.3f} ± {error:.3f}, {seconds:.1f} s" if cells else ""
            texts.append(text)
        lines.append(f"| {variant} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.tuning", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--scene15", type=Path)
    parser.add_argument("--caltech101", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/tuning"))
    parser.add_argument("--only", action="append", choices=sorted(ALL), help="a variant")
    parser.add_argument("--set", action="append", choices=[*SETS, *SMALL], help="a set")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    images = {key: getattr(options, key) for key in SETS if getattr(options, key) is not None}
    if not options.table:
        sets = options.set or [*images, *SMALL]
        run(options.only or list(ALL), sets, options.splits, images, options.output)
    print(table(records(options.output)))


if __name__ == "__main__":
    main()
