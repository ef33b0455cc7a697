"""Choosing words of every size, trees of merges and Beta fits, each against its peer.

The corpus is that of the issue's table: the 750 training images of 15-Scenes (crops of packaged
pictures where there is no 15-Scenes), words trained on others. A row says what was asked and what
was measured; times are in seconds. Searches are in ``benchmarks.searches``.
"""

from __future__ import annotations

import time
import warnings
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.stats import FitError, beta
from tests.oracles.bottleneck import row_scan

import bowsaw as bs
from benchmarks import data
from benchmarks.inference import Result, result
from benchmarks.timing import alternate
from bowsaw.coding.hard import hard_histograms
from bowsaw.evaluation.path import PruningPath
from bowsaw.scores._beta_kernel import fit_group, sum_up
from bowsaw.scores.leave_one_out import LeaveOneOut
from bowsaw.scores.relevance import Relevance
from bowsaw.selection.merging import bottleneck_tree, word_class_table

PATH, LEAST_SIZES = 3.0, 20
"""At most so many times a k-means training, for at least so many sizes."""
TREE, BETA_FITS = 5.0, 150.0
"""How many times faster than the other side is asked."""
TREE_SECONDS = 8.0


def path(n_images: int = 750, n_words: int = 1000, rounds: int = 3) -> Result:
    """PruningPath from all words to 10, leave-one-out, against one k-means training.

    Ours is all of ``fit``: the exact state, the words that go, the swaps, each stop's certificate.
    Cross-validated estimates, which run the path once a fold, are no part of it.
    """
    corpus, book = data.corpus(n_images, n_words)
    y = data.labels(n_images)

    def ours(bags: bs.Bags, labels: NDArray[np.int64]) -> PruningPath:
        return PruningPath(book, random_state=0).fit(bags, labels)

    def peer(bags: bs.Bags) -> None:
        bs.KMeansCodebook(n_words, random_state=0).fit(bags)

    few = slice(None, None, max(1, len(corpus) // 30))
    ours(corpus[few], y[few])
    peer(corpus[few])
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        before = _clocks()
        found = ours(corpus, y)
        between = _clocks()
        peer(corpus)
        after = _clocks()
        times["ours"].append((between[0] - before[0], between[1] - before[1]))
        times["peer"].append((after[0] - between[0], after[1] - between[1]))
    sizes = found.sizes_
    middle = sizes[len(sizes) // 2]
    random = np.random.default_rng(0).choice(book.ids, middle, replace=False)
    score, chance = (
        LeaveOneOut()
        .begin(y, int(y.max()) + 1)
        .update(hard_histograms(corpus, words.words_for(corpus)))
        for words in (found.codebook_at(middle), book.only(random))
    )
    seconds = {name: median(wall for wall, _ in values) for name, values in times.items()}
    used = {name: median(spent for _, spent in values) for name, values in times.items()}
    row = {
        "work": f"a path of {len(sizes)} sizes, {sizes[0]} to {sizes[-1]} words",
        "against": f"one k-means training to {n_words} words",
        **seconds,
        "value": seconds["ours"] / seconds["peer"],
        "asked": PATH,
        "unit": "×",
        "at_most": True,
        "answer": f"re-coded at {middle} words, leave-one-out {score:.3f}, at random {chance:.3f}; "
        f"processor time {used['ours']:.3g} s against {used['peer']:.3g} s",
        "same": len(sizes) >= LEAST_SIZES and score > chance,
    }
    return result(corpus, [row])


def _clocks() -> tuple[float, float]:
    """Return the time, and the processor time of all threads."""
    return time.perf_counter(), time.process_time()


def bottleneck(n_images: int = 750, n_words: int = 5000, repeats: int = 3) -> Result:
    """Bottleneck tree against rows scanned by NumPy, O(n_words²); all cores."""
    corpus, book = data.corpus(n_images, n_words)
    y = data.labels(n_images)
    histograms = hard_histograms(corpus, book.words_for(corpus))
    n_classes = int(y.max()) + 1
    table = word_class_table(histograms, y)
    times = alternate(repeats, ours=lambda: bottleneck_tree(table, n_jobs=-1))
    tree = bottleneck_tree(table, n_jobs=-1)
    begin = time.perf_counter()
    losses = row_scan(table)
    peer = time.perf_counter() - begin
    # Nearly equal pairs may be merged in another order; what is lost in all is the same.
    gap = float(np.abs(np.cumsum(tree.losses) - np.cumsum(losses)).max() / losses.sum())
    row = {
        "work": f"bottleneck tree, {n_words} words × {n_classes} classes",
        "ours": times["ours"],
        "answer": f"the information lost differs by {gap:.0e} of all of it at most",
        "same": bool(gap < 1e-6),
    }
    faster = {
        "against": "each row's best partner kept, rows scanned by NumPy; one run",
        "peer": peer,
        "value": peer / times["ours"],
        "asked": TREE,
        "unit": "×",
    }
    alone = {
        "against": None,
        "peer": None,
        "value": times["ours"],
        "asked": TREE_SECONDS,
        "unit": "s",
        "at_most": True,
    }
    return result(corpus, [row | faster, row | alone])


def beta_fits(
    n_images: int = 750, n_words: int = 5000, n_sampled: int = 200, repeats: int = 3
) -> Result:
    """Beta fits of every word in all bags and in each class against scipy.stats, one core.

    A fit is a group of values with a most likely Beta. Ours are timed as the score does them, from
    histograms to relevances, and divided by the number of fits: flooring, summing, entropies and
    the words and groups that need no fit are counted against us. scipy gets floored values.
    """
    corpus, book = data.corpus(n_images, n_words)
    y = data.labels(n_images)
    n_classes = int(y.max()) + 1
    # Column-major, as states hold them.
    histograms = np.asfortranarray(hard_histograms(corpus, book.words_for(corpus)))
    score = Relevance().begin(y, n_classes, corpus.counts)
    least = (score.least_deviation * score.floor_) ** 2
    floored = np.clip(histograms.astype(np.float64), score.floor_, 1 - score.floor_)
    groups = [np.ones(len(y), dtype=bool), *(y == c for c in range(n_classes))]
    spread = np.array([floored[rows].var(axis=0) for rows in groups])
    scored = (histograms > 0).sum(axis=0) >= score.min_documents
    fits = np.argwhere((spread > least) & scored & (spread[0] > least))
    chosen = np.random.default_rng(0).choice(fits, min(n_sampled, len(fits)), replace=False)
    values = [floored[groups[g], word] for g, word in chosen]
    times = alternate(
        repeats,
        ours=lambda: score.update(histograms),
        peer=lambda: [_by_scipy(some) for some in values],
    )
    shortfalls, failed = [], 0
    for some in values:
        theirs = _by_scipy(some)
        failed += theirs is None
        if theirs is not None:
            sums = np.empty(4)
            sum_up(some, sums)
            a, b = fit_group(len(some), *sums, least)
            shortfalls.append(beta.logpdf(some, *theirs).mean() - beta.logpdf(some, a, b).mean())
    ours, peer = times["ours"] / len(fits), times["peer"] / len(chosen)
    row = {
        "work": f"Beta fits, {n_words} words × {n_classes + 1} groups, {len(fits)} of them fitted",
        "against": f"scipy.stats.beta.fit(floc=0, fscale=1), {len(chosen)} of the fits",
        "ours": ours,
        "peer": peer,
        "value": peer / ours,
        "asked": BETA_FITS,
        "unit": "×",
        "answer": f"a fit's mean log-likelihood is at most {max(shortfalls):.0e} below scipy's; "
        f"scipy gave up on {failed}",
        "same": bool(max(shortfalls) < 1e-8),
    }
    return result(corpus, [row]) | {"threads": 1}


def _by_scipy(values: NDArray[np.float64]) -> tuple[float, float] | None:
    with warnings.catch_warnings():
        # Where its solver makes no progress it says so, and returns what it has.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            a, b, _, _ = beta.fit(values, floc=0, fscale=1)
        except FitError:
            return None
    return float(a), float(b)
