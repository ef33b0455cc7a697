"""What coding costs: its share of an image's time, and a question inferred against re-coded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.bag_of_words import BagOfWords
from bowsaw.coding.soft import soft_histograms
from bowsaw.descriptors.dense_sift import DenseSift
from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.inference.survey import Survey, draw_words, ways_of
from bowsaw.nearest.search import WordSearch, find_blocks, nearest_words
from bowsaw.random_streams import stream
from reproduction.probe_split import SHARPNESS, Probed, Row

N_ROUNDS = 5
WIDTH = 300
"""Pixels across the picture that is described: the longest side of the protocol."""


def cost_shares(
    bench: Probed, words: Sequence[int] = (1000, 5000), *, small: int = 50, n_timed: int = 20
) -> Row:
    """Measure where the time of one image goes: describe, code, pool, classify.

    With one thread, in milliseconds of the processor an image, the best of some rounds over test
    images; ``small`` words beside the full codebooks, to see what pruning leaves. What is made once
    a codebook (the directions of the search for words) is not counted. Describing is timed on a
    made picture of 300 pixels with as many patches as the images have on average (reading the file
    is not counted); it is None where the descriptor is not dense SIFT. Pooling is timed on codes
    that are ready; bowsaw pools soft codes while it makes them, so there the rest of the pass is
    coding. Classifying is the decision of a trained machine.
    """
    counts = bench.bags.counts[bench.split.test]
    n_each = max(2, round(float(counts.mean())))
    some = bench.split.test[np.linspace(0, len(counts) - 1, min(n_timed, len(counts))).astype(int)]
    bags = bench.bags[some]
    describing = _describing(bench.bags, n_each)
    rows = []
    for n_words in sorted({small, *words}):
        book = _book(bench, n_words, words)
        for coding in ("hard", "soft"):
            pooling = _pooling(bags, book, coding)
            rows.append(
                {
                    "coding": coding,
                    "n_words": book.n_words,
                    "full": n_words in words,
                    "describe_ms": describing,
                    "code_ms": _coding(bags, book, coding, pooling),
                    "pool_ms": pooling,
                    "classify_ms": _classifying(bench, bags, book, coding),
                }
            )
    return {"n_descriptors": n_each, "threads": 1, "sharpness": SHARPNESS, "rows": rows}


def brute_force(
    bench: Probed,
    words: Sequence[int] = (1000, 5000),
    *,
    kept: Sequence[int] = (500, 50),
    soft_kept: Sequence[int] = (500,),
    n_moves: int = 5,
) -> Row:
    """Measure one question, a move of 10 words, inferred and by coding the training images anew.

    By :class:`bowsaw.inference.survey.Survey`, for Eq. 6 and exact lists (hard) and for Claim 2
    (soft). ``n_bytes`` is what a state holds; ``corpus_bytes`` are the descriptors that re-coding
    reads at every step, ``words_bytes`` the kept words.
    """
    book = bench.book(min(words))
    bags = bench.bags[bench.split.train]
    rows: list[Row] = []
    for coding, sizes in (("hard", kept), ("soft", soft_kept)):
        ways = ways_of(coding, ["uniform", "exact"] if coding == "hard" else ["exact"])
        # Of Eq. 6 the policy whose moves cost what they touch: the one that Algorithm 1 uses here.
        chosen = [way for way in ways if way.options.get("policy") in (None, "nearest-surviving")]
        for n_kept in sorted({min(n, book.n_words // 2) for n in sizes}, reverse=True):
            survey = Survey(
                book,
                bags,
                draw_words(book, n_kept),
                coding=coding,  # type: ignore[arg-type]
                sharpness=SHARPNESS,
                n_moves=n_moves,
                n_jobs=bench.n_jobs,
            ).run(chosen, refusals=True)
            for row in survey.rows:
                error = None if row.fidelity is None else row.fidelity.mean
                rows.append(
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
                        "error": error,
                        "refusal": row.refusal,
                    }
                )
    return {
        "full_words": book.n_words,
        "n_images": len(bags),
        "n_descriptors": bags.n_descriptors,
        "corpus_bytes": bags.n_descriptors * bags.n_dims * bags.dtype.itemsize,
        "sharpness": SHARPNESS,
        "rows": rows,
    }


def _book(bench: Probed, n_words: int, full: Sequence[int]) -> Codebook:
    """Return a full codebook, or random words of the smallest where it is not one of them."""
    if n_words in full:
        return bench.book(n_words)
    book = bench.book(min(full))
    return book.only(draw_words(book, min(n_words, book.n_words - 1)))


def _describing(bags: Bags, n_each: int) -> float | None:
    about = bags.description or {}
    if about.get("name") != "dense-sift":
        return None
    keys = ("patch", "step", "max_side", "min_contrast")
    sift = DenseSift(**{key: about[key] for key in keys})
    across = max(1, (WIDTH - sift.patch) // sift.step + 1)
    height = sift.patch + sift.step * (max(1, round(n_each / across)) - 1)
    rng = stream(0, "probe", "picture")
    picture = rng.integers(0, 256, (height, WIDTH), dtype=np.uint8)
    return _best(lambda: sift.describe(picture))


def _coding(bags: Bags, book: Codebook, coding: str, pooling: float) -> float:
    words = book.words_for(bags)
    if coding == "hard":
        search = WordSearch(words)
        return _best(lambda: deque(find_blocks(bags, search, n_jobs=1), maxlen=0)) / len(bags)
    both = _best(lambda: soft_histograms(bags, words, SHARPNESS, n_jobs=1)) / len(bags)
    return max(both - pooling, 0.0)


def _pooling(bags: Bags, book: Codebook, coding: str) -> float:
    """Average codes that are ready: count nearest words, or take the mean of soft codes."""
    n = int(bags.counts.max())
    if coding == "hard":
        codes = nearest_words(bags[:1], book.words_for(bags), n_jobs=1)
        ready = np.resize(codes, n)
        return _best(lambda: np.bincount(ready, minlength=book.n_words) / n)
    shares: NDArray[np.float32] = np.full((n, book.n_words), 1 / book.n_words, dtype=np.float32)
    return _best(lambda: shares.mean(axis=0))


def _classifying(bench: Probed, bags: Bags, book: Codebook, coding: Any) -> float:
    """Time the decision alone: how the machine was trained does not change what it costs."""
    split, y = bench.split, bench.y
    few = np.concatenate([split.train[y[split.train] == c][:2] for c in range(len(bench.classes))])
    coder = BagOfWords(book, coding=coding, sharpness=SHARPNESS, n_jobs=bench.n_jobs)
    model = HistogramClassifier(C=1.0).fit(coder.transform(bench.bags[few]), y[few])
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
