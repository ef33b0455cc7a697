"""Measurements for claims of the paper that no cell of a comparison answers.

====================  =============================================================================
``iterations``        does Algorithm 1 do well after few steps? (section 4.1)
``transfer-error``    does the error of Ψ fall with the descriptors of an image? (Proposition 1)
``cost-shares``       which share of an image's time does coding take? (sections 1 and 2)
``brute-force``       what does one move cost, inferred and re-encoded? (section 4.1.1)
====================  =============================================================================

Each probe of a set is one line of ``probes.jsonl``, ``{"probe", "set", "split", …, "rows": [...],
"seconds"}``; a line that is there is done. A probe uses one split and the smallest full codebook of
the run unless its docstring says otherwise. Accuracies and errors are the same on any number of
threads; times depend on the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bowsaw as bs
from bowsaw.evaluation import mean_class_accuracy
from bowsaw.inference import (
    POLICIES,
    EmpiricalState,
    Survey,
    TransferState,
    UniformState,
    draw_words,
    ways_of,
)
from bowsaw.nearest import nearest_words
from bowsaw.scores import make_score

SHARPNESS = 40.0
"""Sharpness of soft coding; the paper gives none."""
PUBLISHED_STEPS = {"hard": 100, "soft": 500}
"""t_max of Algorithm 1 in the paper; t = 0 judges the start, so there is one move fewer."""
N_ROUNDS = 5
WIDTH = 300
"""Pixels across the image that is described: the longest side of the protocol."""

Row = dict[str, Any]


@dataclass(frozen=True)
class ProbedSplit:
    """The first split of a set, with its full codebooks by number of words."""

    collection: bs.Collection
    split: bs.Split
    codebooks: Mapping[int, bs.Codebook]
    n_jobs: int | None = -1

    @property
    def smallest(self) -> bs.Codebook:
        """The smallest full codebook."""
        return self.codebooks[min(self.codebooks)]

    def bags(self, part: str) -> bs.Bags:
        """Return the bags of a part of the split."""
        return self.collection.bags[self.split.part(part)]

    def y(self, part: str) -> NDArray[np.int64]:
        """Return the labels of a part of the split."""
        return self.collection.y[self.split.part(part)]


def measure_probes(folder: Path, splits: Sequence[ProbedSplit]) -> None:
    """Append the probes that the run of a folder lacks to its ``probes.jsonl``."""
    done = {(line["probe"], line["set"]) for line in bs.read_run(folder).probes}
    for probed in splits:
        name = probed.collection.name
        for probe, measure in PROBES.items():
            if (probe, name) in done:
                continue
            begin = time.perf_counter()
            found = measure(probed)
            seconds = round(time.perf_counter() - begin, 2)
            about = {"probe": probe, "set": name, "split": probed.split.index}
            line = json.dumps({**about, **found, "seconds": seconds}, allow_nan=False) + "\n"
            with (folder / "probes.jsonl").open("a", encoding="ascii") as file:
                file.write(line)


# -- the search ----------------------------------------------------------------------------------


def iterations(
    probed: ProbedSplit,
    *,
    size: int = 100,
    steps: Sequence[int] = (0, 25, 50, 100, 200, 400),
    soft_steps: Sequence[int] = (0, 100, 500, 1000),
    n_starts: int = 3,
    n_soft_starts: int = 3,
) -> Row:
    """Measure Algorithm 1 as published, stopped after more and more steps.

    The published temperature depends on the step alone, so a shorter search is the beginning of a
    longer one from the same start. ``score`` is that of the search, on inferred histograms;
    ``recoded_score`` the same after re-encoding; ``accuracy`` follows the protocol. One entry per
    start.
    """
    book = probed.smallest
    n_kept = min(size, book.n_words // 2)
    plans: tuple[tuple[Any, Sequence[int], int], ...] = (
        ("hard", steps, n_starts),
        ("soft", soft_steps, n_soft_starts),
    )
    rows = []
    for coding, counts, n_seeds in plans:
        for n_steps in counts:
            found = [_anneal(probed, n_kept, coding, n_steps, seed) for seed in range(n_seeds)]
            row: Row = {"coding": coding, "n_steps": int(n_steps)}
            rows.append(row | {key: [one[key] for one in found] for key in found[0]})
    about = {"full_words": book.n_words, "size": n_kept, "sharpness": SHARPNESS}
    return {**about, "published_steps": PUBLISHED_STEPS, "rows": rows}


def _anneal(
    probed: ProbedSplit, n_kept: int, coding: Any, n_steps: int, seed: int
) -> dict[str, float]:
    """Search for a number of steps, and return the score and test accuracy of the words found."""
    train, y, n_classes = probed.bags("train"), probed.y("train"), len(probed.collection.classes)
    options = {"coding": coding, "sharpness": SHARPNESS, "n_jobs": probed.n_jobs}
    search = bs.Annealing.paper(probed.smallest, n_kept, random_state=seed, **options)
    search.set_params(n_steps=n_steps).fit(train, y)
    coder = bs.BagOfWords(search.codebook_, **options)
    X = coder.transform(train)
    held: tuple[NDArray[Any], ...] = ()
    if len(probed.split.codebook):
        held = coder.transform(probed.bags("codebook")), probed.y("codebook")
    model = bs.HistogramClassifier(n_jobs=probed.n_jobs, random_state=0).fit(X, y, *held)
    guess = model.predict(coder.transform(probed.bags("test")))
    score = make_score("relevance").begin(y, n_classes, train.counts, coding)
    return {
        "score": float(search.score_),
        "recoded_score": float(score.update(X)),
        "accuracy": mean_class_accuracy(probed.y("test"), guess, n_classes),
    }


# -- the inference -------------------------------------------------------------------------------


def transfer_error(
    probed: ProbedSplit,
    *,
    kept: Sequence[int] = (900, 500, 100, 50),
    counts: Sequence[int] = (50, 100, 200, 400),
    n_images: int = 200,
    n_samples: int = 200,
) -> Row:
    """Measure how far Ψ is from re-encoding as images have more descriptors.

    The same training images throughout, each with a random part of its descriptors (the smaller
    part inside the larger) and with all of them; counts that half of the images do not reach are
    left out. ``error`` is the mean L1 distance of inferred and re-encoded histograms, from 0 to 2.
    ``limit`` is what would be left of it if the transfer were right: by Proposition 1 an entry then
    errs with the stated variance, so by Jensen's inequality the expected L1 error is at most the
    sum of the standard deviations. ``moved`` is the share of mass of the pruned words. The
    empirical transfer learns from the codebook's images, at most ``n_samples`` descriptors per
    word.
    """
    book, split, all_bags = probed.smallest, probed.split, probed.collection.bags
    there = all_bags.counts[split.train]
    fewer = [n for n in counts if n < np.median(there)]
    enough = split.train[there > max(fewer, default=0)]
    chosen = enough[np.linspace(0, len(enough) - 1, min(n_images, len(enough))).astype(int)]
    bags = all_bags[chosen]
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(int(n)) for n in bags.counts])
    sizes = [*fewer, int(bags.counts.max())]
    before = nearest_words(bags, book.words_for(bags), n_jobs=probed.n_jobs)
    full = [_histograms(before, order, n, bags.offsets, book.n_words) for n in sizes]
    ways: dict[str, TransferState] = {
        f"uniform, {policy}": UniformState(book, full[-1], policy=policy, n_jobs=probed.n_jobs)
        for policy in POLICIES
    }
    if len(split.codebook):
        learn_from = probed.bags("codebook")
        options: Row = {"n_samples": n_samples, "n_jobs": probed.n_jobs}
        ways["empirical"] = EmpiricalState(book, full[-1], learn_from=learn_from, **options)
    rows = []
    for n_kept in sorted({min(n, book.n_words - 1) for n in kept}, reverse=True):
        drawn = np.random.default_rng([split.seed, n_kept]).choice(book.n_words, n_kept, False)
        survivors = book.only(book.ids[np.sort(drawn)])
        after = nearest_words(bags, survivors.words_for(bags), n_jobs=probed.n_jobs)
        truth = [_histograms(after, order, n, bags.offsets, n_kept) for n in sizes]
        pruned = np.setdiff1d(np.arange(book.n_words), drawn)
        for name, state in ways.items():
            # The transfer does not depend on the histograms, so one matrix serves every count.
            matrix = state.reset(survivors.ids).transfer_matrix()
            spread = matrix * (1 - matrix.toarray())
            for n, f, recoded in zip(sizes, full, truth, strict=True):
                n_each = np.minimum(bags.counts, n)[:, None]
                error = np.abs(f @ matrix - recoded).sum(axis=1)
                limit = np.sqrt(np.maximum(f @ spread, 0) / n_each).sum(axis=1)
                means = {"error": error, "limit": limit, "moved": f[:, pruned].sum(axis=1)}
                about = {"way": name, "n_kept": n_kept, "n_descriptors": float(n_each.mean())}
                rows.append(about | {key: float(value.mean()) for key, value in means.items()})
    about = {"full_words": book.n_words, "n_images": len(chosen), "n_samples": n_samples}
    return {**about, "rows": rows}


def _histograms(
    codes: NDArray[Any], ranks: NDArray[Any], n: int, offsets: NDArray[Any], n_words: int
) -> NDArray[np.float64]:
    """Return the histograms of the descriptors of rank below ``n``, ``(n_bags, n_words)``."""
    n_bags, taken = len(offsets) - 1, ranks < n
    bag = np.repeat(np.arange(n_bags), np.diff(offsets))
    places = bag[taken] * n_words + codes[taken]
    table = np.bincount(places, minlength=n_bags * n_words).reshape(n_bags, n_words)
    shares: NDArray[np.float64] = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return shares


# -- the costs -----------------------------------------------------------------------------------


def cost_shares(probed: ProbedSplit, *, small: int = 50, n_timed: int = 20) -> Row:
    """Measure where the time of one image goes: describe, code, pool, classify.

    With one thread, in milliseconds of processor time per image, the best of some rounds over test
    images; ``small`` words beside the full codebooks, to see what pruning leaves. Describing is
    timed on a generated image of 300 pixels with as many patches as the images have on average
    (reading the file is not counted); it is None where the descriptor is not dense SIFT. Pooling is
    timed on codes that are ready, and coding is the rest of a transform. Classifying is the
    decision of a trained classifier.
    """
    bags = probed.bags("test")
    n_each = max(2, round(float(bags.counts.mean())))
    bags = bags[np.linspace(0, len(bags) - 1, min(n_timed, len(bags))).astype(int)]
    describing = _describing(bags, n_each)
    rows = []
    for n_words in sorted({small, *probed.codebooks}):
        book = probed.codebooks.get(n_words)
        if book is None:
            book = probed.smallest
            book = book.only(draw_words(book, min(n_words, book.n_words - 1)))
        for coding in ("hard", "soft"):
            coder = bs.BagOfWords(book, coding=coding, sharpness=SHARPNESS, n_jobs=1)
            pooling = _pooling(bags, book, coding)
            both = _best(partial(coder.transform, bags)) / len(bags)
            rows.append(
                {
                    "coding": coding,
                    "n_words": book.n_words,
                    "full": n_words in probed.codebooks,
                    "describe_ms": describing,
                    "code_ms": max(both - pooling, 0.0),
                    "pool_ms": pooling,
                    "classify_ms": _classifying(probed, bags, coder),
                }
            )
    return {"n_descriptors": n_each, "threads": 1, "sharpness": SHARPNESS, "rows": rows}


def _describing(bags: bs.Bags, n_each: int) -> float | None:
    about = bags.description or {}
    if about.get("name") != "dense-sift":
        return None
    keys = ("patch", "step", "max_side", "min_contrast")
    sift = bs.DenseSift(**{key: about[key] for key in keys})
    across = max(1, (WIDTH - sift.patch) // sift.step + 1)
    height = sift.patch + sift.step * (max(1, round(n_each / across)) - 1)
    image = np.random.default_rng(0).integers(0, 256, (height, WIDTH), dtype=np.uint8)
    return _best(lambda: sift.describe(image))


def _pooling(bags: bs.Bags, book: bs.Codebook, coding: str) -> float:
    """Time the average of codes that are ready: counts of nearest words, or means of soft codes."""
    n = int(bags.counts.max())
    if coding == "hard":
        ready = np.resize(nearest_words(bags[:1], book.words_for(bags), n_jobs=1), n)
        return _best(lambda: np.bincount(ready, minlength=book.n_words) / n)
    shares: NDArray[np.float32] = np.full((n, book.n_words), 1 / book.n_words, dtype=np.float32)
    return _best(lambda: shares.mean(axis=0))


def _classifying(probed: ProbedSplit, bags: bs.Bags, coder: bs.BagOfWords) -> float:
    """Time the decision alone: how the classifier was trained does not change its cost."""
    y = probed.y("train")
    few = np.concatenate([np.flatnonzero(y == label)[:2] for label in np.unique(y)])
    model = bs.HistogramClassifier(C=1.0).fit(coder.transform(probed.bags("train")[few]), y[few])
    X = coder.transform(bags)
    return _best(lambda: model.predict(X)) / len(X)


def _best(work: Callable[[], Any]) -> float:
    """Return the processor's milliseconds of the fastest of some rounds, after one to warm up."""
    work()
    times = []
    for _ in range(N_ROUNDS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return 1000 * min(times)


def brute_force(
    probed: ProbedSplit,
    *,
    kept: Sequence[int] = (500, 50),
    soft_kept: Sequence[int] = (500,),
    n_moves: int = 5,
) -> Row:
    """Measure a move of 10 words, inferred and by re-encoding the training images.

    For Eq. 6 and exact lists (hard) and for Claim 2 (soft). ``n_bytes`` is the memory of a state;
    ``corpus_bytes`` are the descriptors that re-encoding reads at every step, ``words_bytes`` the
    kept words.
    """
    book, bags = probed.smallest, probed.bags("train")
    rows: list[Row] = []
    for coding, sizes in (("hard", kept), ("soft", soft_kept)):
        ways = ways_of(coding, ["uniform", "exact"] if coding == "hard" else ["exact"])
        # Of Eq. 6 the policy of Algorithm 1, whose moves cost what they touch.
        chosen = [way for way in ways if way.options.get("policy") in (None, "nearest-surviving")]
        for n_kept in sorted({min(n, book.n_words // 2) for n in sizes}, reverse=True):
            survey = Survey(
                book,
                bags,
                draw_words(book, n_kept),
                coding=coding,  # type: ignore[arg-type]
                sharpness=SHARPNESS,
                n_moves=n_moves,
                n_jobs=probed.n_jobs,
            ).run(chosen, refusals=True)
            rows += [
                {
                    "coding": coding,
                    "transfer": row.way.transfer,
                    "n_kept": n_kept,
                    "move_size": survey.move_size,
                    "move_seconds": row.move_seconds,
                    "recode_seconds": survey.recode_seconds,
                    "build_seconds": row.build_seconds,
                    "n_bytes": row.n_bytes,
                    "words_bytes": n_kept * book.n_dims * 4,
                    "error": None if row.fidelity is None else row.fidelity.mean,
                    "refusal": row.refusal,
                }
                for row in survey.rows
            ]
    return {
        "full_words": book.n_words,
        "n_images": len(bags),
        "n_descriptors": bags.n_descriptors,
        "corpus_bytes": bags.n_descriptors * bags.n_dims * bags.dtype.itemsize,
        "sharpness": SHARPNESS,
        "rows": rows,
    }


PROBES: dict[str, Callable[[ProbedSplit], Row]] = {
    "iterations": iterations,
    "transfer-error": transfer_error,
    "cost-shares": cost_shares,
    "brute-force": brute_force,
}
"""The probes by name, in order."""
