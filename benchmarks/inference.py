"""Inference against re-coding: what a move costs, and what a true answer costs without a state.

The corpus is that of the issue's table: the 750 training images of 15-Scenes (crops of packaged
pictures where there is no 15-Scenes). Re-coding is the faster of ours and faiss's flat search, told
its CPU, on descriptors that are in memory as float32 already, its codes pooled by our kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from statistics import median
from typing import Any, TypeVar

import faiss
import numpy as np
from numpy.typing import NDArray

import bowsaw as bs
from benchmarks import data
from benchmarks.timing import peak_during
from bowsaw.coding._pooling_kernel import count_codes
from bowsaw.coding.hard import hard_histograms
from bowsaw.coding.soft import soft_histograms
from bowsaw.inference.exact import ExactState
from bowsaw.inference.soft import SoftState
from bowsaw.inference.state import HistogramState
from bowsaw.inference.uniform import UniformState
from bowsaw.parallel import available_cores

Result = dict[str, Any]
S = TypeVar("S", bound=HistogramState)

HARD_ROWS = ((2500, 10, 1000.0), (500, 10, 100.0), (50, 1, 20.0), (50, 10, 4.0))
"""Kept words, words that a move replaces, and how many times faster than re-coding is asked."""

UNIFORM_ROWS = ((2500, 10, 1000.0),)
SOFT_ROWS = ((500, 10, 10.0),)
SHARPNESS = 40.0


def whatif_hard(
    n_images: int = 750, n_words: int = 5000, rounds: int = 5, moves: int = 8
) -> Result:
    """Exact and uniform states: building, and moves against re-coding with the kept words."""
    corpus, book = data.corpus(n_images, n_words)
    scale = n_words / 5000
    ExactState(book, corpus[:2])
    hard_histograms(corpus[:2], book.words)
    state, building, coding, peak = _built(
        lambda: ExactState(book, corpus), lambda: hard_histograms(corpus, book.words)
    )
    rows = [_building("hard, exact", n_words, building, coding, 3.0, peak, 2**30)]
    rivals = Rivals(corpus)
    for kept, move, asked in HARD_ROWS:
        row = _moves(state, rivals.hard, max(2, int(kept * scale)), move, rounds, moves)
        same = np.array_equal(state.histograms, state.recode(corpus))
        row |= {"state": "hard, exact", "asked": asked, "same": same}
        rows.append(row | {"answer": "identical histograms" if same else "histograms differ"})
    del state
    full = hard_histograms(corpus, book.words)
    uniform = UniformState(book, full, bags=corpus)
    for kept, move, asked in UNIFORM_ROWS:
        row = _moves(uniform, rivals.hard, max(2, int(kept * scale)), move, rounds, moves)
        error = uniform.fidelity(50)
        row |= {"state": "hard, uniform", "asked": asked, "same": True}
        rows.append(row | {"answer": f"mean L1 error {error.mean:.2f}, worst {error.worst:.2f}"})
    return result(corpus, rows)


def whatif_soft(
    n_images: int = 750, n_words: int = 1000, rounds: int = 5, moves: int = 4
) -> Result:
    """Soft state in 16 bits: building, and moves against re-coding with the kept words."""
    corpus, book = data.corpus(n_images, n_words)
    SoftState(book, corpus[:2], storage="uint16")
    soft_histograms(corpus[:2], book.words, SHARPNESS)
    state, building, coding, peak = _built(
        lambda: SoftState(book, corpus, sharpness=SHARPNESS, storage="uint16"),
        lambda: soft_histograms(corpus, book.words, SHARPNESS),
    )
    room = int(1.1 * 2 * corpus.n_descriptors * n_words)
    rows = [_building("soft, 16-bit", n_words, building, coding, None, peak, room)]
    for kept, move, asked in SOFT_ROWS:
        n_kept = max(2, int(kept * n_words / 1000))
        row = _moves(
            state,
            lambda words: Rivals(corpus).soft(words),
            n_kept,
            move,
            rounds,
            moves,
        )
        errors = np.abs(state.histograms - state.recode(corpus)).sum(axis=1)
        bound = state.bound()
        assert bound is not None
        allowed = bound + state.recoding_error(corpus)
        same = bool((errors <= allowed).all() and errors.max() <= 1e-4)
        rows.append(
            row
            | {
                "state": "soft, 16-bit",
                "asked": asked,
                "same": same,
                "answer": f"worst L1 error {errors.max():.1e} of {len(corpus)} images; stated "
                f"bound {bound.max():.1e}",
            }
        )
    return result(corpus, rows)


class Rivals:
    """True re-coding of the corpus, by us and by faiss."""

    def __init__(self, corpus: bs.Bags) -> None:
        self.corpus = corpus
        self.values: NDArray[np.float32] | None = None

    def hard(self, words: NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
        """Return the ways of coding hard with these words, each ready to be called."""
        if self.values is None:
            self.values = self.corpus.values.astype(np.float32)
        values = self.values
        faiss.omp_set_num_threads(available_cores())
        index = faiss.IndexFlatL2(words.shape[1])
        index.add(words)
        offsets, sizes = self.corpus.offsets, self.corpus.counts[:, None].astype(np.float32)

        def by_faiss() -> Any:
            codes = index.search(values, 1)[1][:, 0].astype(np.int32)
            histograms = np.zeros((len(self.corpus), len(words)), dtype=np.float32)
            count_codes(codes, 0, offsets, 0, histograms)
            return np.divide(histograms, sizes, out=histograms)

        return {"bowsaw": lambda: hard_histograms(self.corpus, words), "faiss": by_faiss}

    def soft(self, words: NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
        """Return the way of coding softly with these words, ready to be called."""
        return {"bowsaw": lambda: soft_histograms(self.corpus, words, SHARPNESS)}


def _moves(
    state: HistogramState,
    rivals: Callable[[NDArray[np.float32]], dict[str, Callable[[], Any]]],
    n_kept: int,
    n_replaced: int,
    rounds: int,
    moves: int,
) -> Result:
    """Time moves and re-coding in turn, each round from another random set of kept words."""
    rng = np.random.default_rng(0)
    ids = state.codebook.ids
    n_replaced = min(n_replaced, n_kept, len(ids) - n_kept)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        time.sleep(0.1)
        state.reset(rng.choice(ids, n_kept, replace=False))
        times = []
        for _ in range(moves):
            out = rng.choice(state.kept, n_replaced, replace=False)
            in_ = rng.choice(np.setdiff1d(ids, state.kept), n_replaced, replace=False)
            begin = time.perf_counter()
            state.swap(remove=out, add=in_)
            times.append(time.perf_counter() - begin)
        for name, rival in rivals(state.pruned_codebook().words).items():
            if not number:
                rival()
                continue
            time.sleep(0.1)
            begin = time.perf_counter()
            rival()
            theirs.setdefault(name, []).append(time.perf_counter() - begin)
        # The first round warms up: it compiles, and fills the caches.
        ours += times if number else []
    recoding = {name: median(values) for name, values in theirs.items()}
    fastest = min(recoding, key=lambda name: recoding[name])
    return {
        "kept": n_kept,
        "of": len(ids),
        "replaced": n_replaced,
        "ours": median(ours),
        "peer": recoding[fastest],
        "fastest": fastest,
        "recoding": recoding,
    }


def _building(
    name: str,
    n_words: int,
    seconds: float,
    coding: float,
    asked: float | None,
    peak: int,
    room: int,
) -> Result:
    return {
        "state": name,
        "building": seconds,
        "coding": coding,
        "asked": asked,
        "of": n_words,
        "peak": peak,
        "room": room,
        "same": True,
    }


def result(corpus: bs.Bags, rows: list[Result]) -> Result:
    """Return rows with what they share; ``same`` where each side of each row agrees."""
    return {
        "rows": rows,
        "size": f"{len(corpus)} images, {corpus.n_descriptors} descriptors",
        "threads": available_cores(),
        "same": all(row["same"] for row in rows),
    }


def _built(
    build: Callable[[], S], code: Callable[[], Any], repeats: int = 3
) -> tuple[S, float, float, int]:
    """Build and code in turn; return a state, the median times, and the peak of the first build."""
    building, coding = [], []
    peak = 0
    for number in range(repeats):
        begin = time.perf_counter()
        code()
        coding.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        state, grown = peak_during(build)
        building.append(time.perf_counter() - begin)
        peak = peak if number else grown
        if number < repeats - 1:
            del state
    return state, median(building), median(coding), peak


def whatif_curves(scale: float = 1.0, moves: int = 12) -> Result:
    """How a move's cost grows with images, words, kept words and the size of the move."""
    lines: dict[str, dict[str, list[tuple[int, float]]]] = {}
    n_images, n_words, n_kept, n_moved = (
        max(least, int(scale * full)) for least, full in ((8, 750), (40, 2000), (10, 500), (2, 10))
    )

    @lru_cache(maxsize=1)
    def states(images: int, words: int) -> dict[str, HistogramState]:
        corpus, book = data.corpus(images, words)
        return {
            "exact": ExactState(book, corpus),
            "uniform": UniformState(book, hard_histograms(corpus, book.words), bags=corpus),
            "soft, 16-bit": SoftState(
                book, corpus, sharpness=SHARPNESS, storage="uint16", max_bytes=2**33
            ),
        }

    def point(images: int, words: int, kept: int, moved: int) -> dict[str, float]:
        return {name: cost(s, kept, moved) for name, s in states(images, words).items()}

    def cost(state: HistogramState, kept: int, moved: int) -> float:
        rng = np.random.default_rng(0)
        ids = state.codebook.ids
        state.reset(rng.choice(ids, kept, replace=False))
        times = []
        for _ in range(moves):
            out = rng.choice(state.kept, moved, replace=False)
            in_ = rng.choice(np.setdiff1d(ids, state.kept), moved, replace=False)
            begin = time.perf_counter()
            state.swap(remove=out, add=in_)
            times.append(time.perf_counter() - begin)
        return median(times[2:])

    def line(name: str, sizes: list[int], at: Callable[[int], dict[str, float]]) -> None:
        for size in sorted(set(sizes)):
            for state, seconds in at(size).items():
                lines.setdefault(name, {}).setdefault(state, []).append((size, seconds))

    def some(*sizes: int, least: int = 1) -> list[int]:
        return [max(least, int(size * scale)) for size in sizes]

    line(
        "images",
        some(94, 188, 375, 750, least=4),
        lambda n: point(n, n_words, n_kept, n_moved),
    )
    line(
        "words of the codebook",
        some(1000, 1400, 2000, 2800, least=2 * n_kept),
        lambda n: point(n_images, n, n_kept, n_moved),
    )
    line(
        "kept words",
        some(50, 200, 500, 1000, least=4),
        lambda n: point(n_images, n_words, n, min(n_moved, n)),
    )
    line(
        "words that a move replaces",
        some(1, 3, 10, 30, 100),
        lambda n: point(n_images, n_words, n_kept, min(n, n_kept)),
    )
    return {
        "lines": lines,
        "fixed": {
            "images": n_images,
            "words of the codebook": n_words,
            "kept words": n_kept,
            "words that a move replaces": n_moved,
        },
        "threads": available_cores(),
        "same": True,
    }
