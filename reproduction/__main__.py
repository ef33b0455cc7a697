"""The paper's experiments on its benchmarks, with a verdict for each claim.

Eight panels: 15-Scenes and Caltech-10, hard and soft coding, from 1000 and from 5000 words. The
paper's protocol: 50 images per class for the codebook, 50 others to choose words and to train
(25 and 25 on Caltech-10), the rest to test.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bowsaw.comparison.collection import Collection
from bowsaw.comparison.compare import compare
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.images.folder import ImageFolder
from bowsaw.report import write_page
from bowsaw.selection.baselines import RandomSubset
from bowsaw.selection.refinement import Refinement
from bowsaw.store import extract
from reproduction.probing import probe
from reproduction.section import claims_section
from reproduction.verdicts import verdicts

WORDS, QUICK_WORDS = (5000, 1000), (1000,)
SIZES, QUICK_SIZES = (10, 20, 50, 100, 500), (10, 20, 50, 100)
CODINGS = ("hard", "soft")
SETS = (("15-Scenes", "scene15", 50, None), ("Caltech-10", "caltech101", 25, "caltech10"))
"""Name, option, images per class for the codebook and to train with, preset."""
METHODS = ("paper", "presence", "bottleneck", "random", "kmeans")
STEPS = ((100, 150), (200, 80), (500, 40))
"""Steps of the refinement: at most this many words, and so many steps."""


def steps_for(size: int) -> int:
    """Return the steps of the refinement at a size; a step costs more with more words."""
    return next((n_steps for most, n_steps in STEPS if size <= most), 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the panels and probes, write the page and print the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("--scene15", metavar="DIR", help="the folder of the 15 scene classes")
    parser.add_argument("--caltech101", metavar="DIR", help="the folder of Caltech-101")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the run's folder")
    parser.add_argument("--quick", action="store_true", help="one split, from 1000 words")
    parser.add_argument("--splits", type=int, help="random splits (default: 5; 1 with --quick)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--workers", type=int, default=1)
    typed = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(typed)
    given = [(*one, getattr(options, one[1])) for one in SETS if getattr(options, one[1])]
    if not given:
        parser.error("name the folder of a benchmark: --scene15 DIR, --caltech101 DIR, or both.")
    work = options.output / "work"
    work.mkdir(parents=True, exist_ok=True)
    collections = []
    for name, _, n_each, preset, path in given:
        images = ImageFolder.from_preset(preset, path) if preset else ImageFolder(path)
        store = extract(images, DenseSift(), work / f"{name}.store", n_jobs=options.jobs)
        collections.append(Collection.from_store(store, name, codebook_images=n_each, train=n_each))
    words = QUICK_WORDS if options.quick else WORDS
    sizes = QUICK_SIZES if options.quick else SIZES
    for n_steps in dict.fromkeys(map(steps_for, sizes)):
        start = RandomSubset(None)
        refinement = Refinement(None, start=start, n_steps=n_steps, n_folds=0)
        compare(
            collections,
            options.output,
            methods={"refinement": refinement, **dict.fromkeys(METHODS)},
            sizes=[size for size in sizes if steps_for(size) == n_steps],
            n_words=words,
            coding=CODINGS,
            n_splits=options.splits or (1 if options.quick else 5),
            seed=options.seed,
            raw=("full", "paper"),
            n_jobs=options.jobs,
            n_workers=options.workers,
            command=shlex.join(["python", "-m", "reproduction", *typed]),
            on_cell=lambda step: print(f"{step.n_done} of {step.n_cells} cells", file=sys.stderr),
        )
    run = probe(collections, options.output, words=words, seed=options.seed, n_jobs=options.jobs)
    found = verdicts(run)
    page = write_page(options.output, extra=[claims_section(found)])
    for verdict in found:
        print(f"{verdict.answer}: {verdict.claim}")
    print(f"{len(run.cells)} cells in {options.output}; the page: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
