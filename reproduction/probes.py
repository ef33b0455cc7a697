"""What the paper claims and no cell of a comparison holds, measured by itself.

====================  =============================================================================
``iterations``        does Algorithm 1 do well after few steps? (section 4.1)
``transfer-error``    does the error of Ψ fall with the descriptors of an image? (Proposition 1)
``cost-shares``       which share of an image's time does coding take? (sections 1 and 2)
``brute-force``       what does one question cost, inferred and re-coded? (section 4.1.1)
====================  =============================================================================

Each probe of a set is one line, ``{"probe", "set", "split", …, "rows": [...], "seconds"}``, so that
a line that is there is a probe that is done. A probe works on one split, with the smallest full
codebook of the run unless it says otherwise; accuracies and errors are the same on any number of
threads, times are of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.evaluation.measures import mean_class_accuracy
from bowsaw.inference.sampled import EmpiricalState
from bowsaw.inference.transfer import TransferState
from bowsaw.inference.uniform import POLICIES, UniformState
from bowsaw.nearest.search import nearest_words
from bowsaw.random_streams import stream
from bowsaw.scores.base import make_score
from bowsaw.selection.annealing import Annealing
from reproduction.costs import brute_force, cost_shares
from reproduction.probe_split import SHARPNESS, Probed, Row

WORDS = (1000, 5000)

PUBLISHED_STEPS = {"hard": 100, "soft": 500}
"""Moves of the search in the paper, by coding."""


def probe_line(name: str, bench: Probed, words: Sequence[int] = WORDS) -> Row:
    """Return the one line of a probe.

    Parameters
    ----------
    name : str
        One of ``PROBES``.
    bench : Probed
        The split to measure on.
    words : sequence of int, default=(1000, 5000)
        The sizes of the full codebooks that the run has.
    """
    known = dict(PROBES)
    if name not in known:
        raise ParameterError(f"a probe is one of {', '.join(known)}; got {name!r}.")
    begin = time.perf_counter()
    found = known[name](bench, words)
    return {
        "probe": name,
        "set": bench.name,
        "split": bench.split.index,
        **found,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def iterations(
    bench: Probed,
    words: Sequence[int] = WORDS,
    *,
    size: int = 100,
    steps: Sequence[int] = (0, 25, 50, 100, 200, 400),
    soft_steps: Sequence[int] = (0, 100, 500),
    n_starts: int = 3,
    n_soft_starts: int = 2,
) -> Row:
    """Measure Algorithm 1 as published, stopped after more and more steps.

    The published temperature depends on the step alone, so a shorter search is the beginning of a
    longer one from the same start. ``score`` is what the search saw, on inferred histograms;
    ``recoded_score`` is the same of the words coded anew; ``accuracy`` is that of the protocol. One
    entry a start.
    """
    book = bench.book(min(words))
    n_kept = min(size, book.n_words // 2)
    train = bench.bags[bench.split.train]
    rows = []
    plans: tuple[tuple[Any, Sequence[int], int], ...] = (
        ("hard", steps, n_starts),
        ("soft", soft_steps, n_soft_starts),
    )
    for coding, counts, n_seeds in plans:
        for n_steps in counts:
            told = (n_kept, coding, n_steps)
            found = [_annealed(bench, book, train, *told, i) for i in range(n_seeds)]
            row: Row = {"coding": coding, "n_steps": int(n_steps)}
            rows.append(row | {key: [one[key] for one in found] for key in found[0]})
    published = {coding: PUBLISHED_STEPS[coding] for coding, *_ in plans}
    about = {"full_words": book.n_words, "size": n_kept, "sharpness": SHARPNESS}
    return {**about, "published_steps": published, "rows": rows}


def _annealed(
    bench: Probed, book: Any, train: Any, n_kept: int, coding: Any, n_steps: int, seed: int
) -> dict[str, float]:
    """Search so many steps, and return the score and the test accuracy of what was found."""
    split, y = bench.split, bench.y
    told = {"coding": coding, "sharpness": SHARPNESS, "n_jobs": bench.n_jobs}
    saw = Annealing.paper(book, n_kept, random_state=seed, **told)
    saw.set_params(n_steps=n_steps).fit(train, y[split.train])
    coder = BagOfWords(saw.codebook_, **told)
    X = coder.transform(train)
    score = make_score("relevance").begin(y[split.train], len(bench.classes), train.counts)
    held: tuple[NDArray[Any], ...] = ()
    if len(split.codebook):
        held = coder.transform(bench.bags[split.codebook]), y[split.codebook]
    model = HistogramClassifier(n_jobs=bench.n_jobs, random_state=0).fit(X, y[split.train], *held)
    guess = model.predict(coder.transform(bench.bags[split.test]))
    return {
        "score": float(saw.score_),
        "recoded_score": float(score.update(X)),
        "accuracy": mean_class_accuracy(y[split.test], guess, len(bench.classes)),
    }


def transfer_error(
    bench: Probed,
    words: Sequence[int] = WORDS,
    *,
    kept: Sequence[int] = (900, 500, 100, 50),
    counts: Sequence[int] = (50, 100, 200, 400),
    n_images: int = 200,
    n_samples: int = 200,
) -> Row:
    """Measure how far Ψ is from re-coding as images have more descriptors.

    The same training images throughout, each with a random part of its descriptors (the smaller
    part inside the larger) and with all of them; counts that half of the images do not reach are
    left out. ``error`` is the mean L1 distance of inferred and
    re-coded histograms, from 0 to 2. ``limit`` is what would be left of it if the transfer were
    right: by Proposition 1 an entry then errs with the variance that it states, so by Jensen's
    inequality the expected L1 error is at most the sum of the standard deviations. ``moved`` is the
    share of mass that had to find another word. The empirical transfer learns from the codebook's
    images, at most ``n_samples`` descriptors a word.
    """
    book = bench.book(min(words))
    split = bench.split
    there = bench.bags.counts[split.train]
    fewer = [n for n in counts if n < np.median(there)]
    enough = split.train[there > max(fewer, default=0)]
    chosen = enough[np.linspace(0, len(enough) - 1, min(n_images, len(enough))).astype(int)]
    bags = bench.bags[chosen]
    order = _shuffled(bags.counts)
    sizes = [*fewer, int(bags.counts.max())]
    before = nearest_words(bags, book.words_for(bags), n_jobs=bench.n_jobs)
    full = [_histograms(before, order, n, bags.offsets, book.n_words) for n in sizes]
    ways: dict[str, TransferState] = {
        f"uniform, {policy}": UniformState(book, full[-1], policy=policy, n_jobs=bench.n_jobs)
        for policy in POLICIES
    }
    if len(split.codebook):
        ways["empirical"] = EmpiricalState(
            book,
            full[-1],
            learn_from=bench.bags[split.codebook],
            n_samples=n_samples,
            n_jobs=bench.n_jobs,
        )
    rows = []
    for n_kept in sorted({min(n, book.n_words - 1) for n in kept}, reverse=True):
        drawn = stream(split.seed, "probe", "kept", n_kept).choice(book.n_words, n_kept, False)
        survivors = book.only(book.ids[np.sort(drawn)])
        after = nearest_words(bags, survivors.words_for(bags), n_jobs=bench.n_jobs)
        truth = [_histograms(after, order, n, bags.offsets, n_kept) for n in sizes]
        pruned = np.setdiff1d(np.arange(book.n_words), drawn)
        for name, state in ways.items():
            # Who gets what does not depend on the histograms, so one matrix serves every count.
            matrix = state.reset(survivors.ids).transfer_matrix()
            spread = matrix * (1 - matrix.toarray())
            for n, f, recoded in zip(sizes, full, truth, strict=True):
                n_each = np.minimum(bags.counts, n)[:, None]
                error = np.abs(f @ matrix - recoded).sum(axis=1)
                limit = np.sqrt(np.maximum(f @ spread, 0) / n_each).sum(axis=1)
                rows.append(
                    {
                        "way": name,
                        "n_kept": n_kept,
                        "n_descriptors": float(n_each.mean()),
                        "error": float(error.mean()),
                        "limit": float(limit.mean()),
                        "moved": float(f[:, pruned].sum(axis=1).mean()),
                    }
                )
    about = {"full_words": book.n_words, "n_images": len(chosen), "n_samples": n_samples}
    return {**about, "rows": rows}


def _shuffled(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a random rank for each descriptor within its bag, ``(n_descriptors,)``."""
    rng = stream(0, "probe", "descriptors")
    return np.concatenate([rng.permutation(int(n)) for n in counts])


def _histograms(
    codes: NDArray[np.int32],
    ranks: NDArray[np.int64],
    n: int,
    offsets: NDArray[np.int64],
    n_words: int,
) -> NDArray[np.float64]:
    """Return the histograms of the descriptors of rank below ``n``, ``(n_bags, n_words)``."""
    n_bags = len(offsets) - 1
    bag = np.repeat(np.arange(n_bags), np.diff(offsets))
    taken = ranks < n
    places = bag[taken] * n_words + codes[taken]
    table = np.bincount(places, minlength=n_bags * n_words).reshape(n_bags, n_words)
    shares: NDArray[np.float64] = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return shares


PROBES: tuple[tuple[str, Callable[[Probed, Sequence[int]], Row]], ...] = (
    ("iterations", iterations),
    ("transfer-error", transfer_error),
    ("cost-shares", cost_shares),
    ("brute-force", brute_force),
)
"""The probes by name, in the order in which they are taken."""
