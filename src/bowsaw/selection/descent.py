"""Descent: moving words down the gradient of the leave-one-out error, step by step.

The chapter is that of :mod:`bowsaw.selection.refinement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowsaw.bags import Bags
from bowsaw.checkpoint import Checkpoint
from bowsaw.codebook import Codebook
from bowsaw.coding._pooling_kernel import weigh
from bowsaw.errors import DataError, Interrupted
from bowsaw.parallel import ordered_map, single_threaded_blas
from bowsaw.progress import Progress, Task
from bowsaw.random_streams import stream
from bowsaw.scores.leave_one_out import leave_one_out_gradient
from bowsaw.selection._refine_kernel import count_nearest, normalise, pull
from bowsaw.selection.base import Coding
from bowsaw.validation import check_int, check_real

Labels = NDArray[np.int64]
KEEP_FIRST, KEEP_SECOND = 0.9, 0.99
LEAST_SHARE = 1e-6
"""Gradients below this share of the largest word's are rounding, not to be followed."""
POOL, MAX_BAGS = 2048, 1500
"""Descriptors of a bag that are held at most; bags that a step uses, drawn when there are more."""
BLOCK_ROWS, FEW_WORDS = 2048, 32
SOFTNESS = 20.0
"""Sharpness times mean squared distance to the nearest word; sharper codes give no direction."""


class DescentPlan(NamedTuple):
    """Settings of a descent, as in ``Refinement``."""

    n_steps: int = 150
    rate: float = 0.15
    per_bag: int = 128
    coding: Coding = "hard"
    sharpness: float = 40.0
    n_jobs: int | None = -1

    def checked(self) -> DescentPlan:
        """Return plain values, or raise a ParameterError."""
        return self._replace(
            n_steps=check_int(self.n_steps, "n_steps", 0),
            rate=check_real(self.rate, "rate", 0, open_low=True),
            per_bag=check_int(self.per_bag, "per_bag", 1),
        )


def usual_steps(n_words: int) -> int:
    """Return the steps for a number of words; more of them only fit many words more closely."""
    return 300 if n_words <= FEW_WORDS else 150


class Refined(NamedTuple):
    """Words that were moved, how far on average, and the error of each step's sample before it."""

    codebook: Codebook
    moved: float
    errors: NDArray[np.float64]


def refine_words(
    codebook: Codebook,
    bags: Bags,
    labels: Labels,
    plan: DescentPlan,
    *,
    seed: int = 0,
    stop: int | None = None,
    checkpoint: Checkpoint | None = None,
    show: bool = False,
    task: Task | None = None,
) -> Refined:
    """Move words so that the leave-one-out error of their histograms falls.

    ``labels`` are integers from 0; ``seed`` shuffles descriptors and draws bags; it ends after
    ``stop`` steps. An interrupted call continues from ``checkpoint`` and gives the same words.
    A callback of ``task`` ends it with the words so far; Ctrl-C raises ``Interrupted`` with them.
    """
    bags = codebook.project(bags)
    n_done = plan.n_steps if stop is None else min(stop, plan.n_steps)
    if n_done == 0:
        return Refined(codebook.learned_from(bags), 0.0, np.empty(0))
    saved = checkpoint or Checkpoint(None, {})
    record = saved.load()
    descent = Descent(codebook, bags, labels, plan, seed)
    if record is not None:
        descent.restore(*record)
    with (
        (task or Task()).part("refining", n_done) as steps,
        Progress("refining", n_done, show=show) as bar,
        single_threaded_blas(),
    ):
        bar.begin_at(len(descent.errors))
        interrupted = False
        try:
            while len(descent.errors) < n_done and not steps.stopped:
                with steps.part("step"):
                    error = descent.step()
                bar.step(note=f"error {error:.4f}")
                if saved.due:
                    saved.save(*descent.record())
        except KeyboardInterrupt:
            if not descent.errors:
                raise
            interrupted = True
        saved.save(*descent.record())
    codebook = codebook.learned_from(bags)
    words, errors = descent.words, np.array(descent.errors)
    moved = float(np.linalg.norm(words - descent.start, axis=1).mean())
    made = {"n_steps": len(errors), "rate": float(plan.rate), "moved": moved, "seed": seed}
    book = Codebook(
        words * codebook.scale,
        codebook.ids,
        **{n: getattr(codebook, n) for n in ("scale", "metric", "description", "projection")},
        provenance={**codebook.provenance, "refined": made},
        trained_on=codebook.trained_on,
    )
    refined = Refined(book, moved, errors)
    if interrupted:
        raise Interrupted(refined)
    return refined


class Descent:
    """Moving words, and the moments that smooth their steps; arguments as in ``refine_words``."""

    def __init__(
        self, codebook: Codebook, bags: Bags, labels: Labels, plan: DescentPlan, seed: int
    ) -> None:
        self.start = codebook.words_for(bags) / np.float32(bags.scale)
        self.words = self.start.astype(np.float64)
        self.errors: list[float] = []
        self._plan = plan
        with single_threaded_blas():
            pool = Pool(bags, labels, plan.per_bag, MAX_BAGS, seed)
            self._slopes = Slopes(pool, self.start, plan)
        self._first = np.zeros_like(self.words)
        self._second = np.zeros((len(self.words), 1))

    def step(self) -> float:
        """Move down as far as the gradient agrees with those before; return the error before it."""
        t = len(self.errors)
        error, slopes = self._slopes.gradient(self.words.astype(np.float32), t)
        squares = (slopes**2).sum(axis=1, keepdims=True)
        first = self._first + (1 - KEEP_FIRST) * (slopes - self._first)
        second = self._second + (1 - KEEP_SECOND) * (squares - self._second)
        direction = first / (1 - KEEP_FIRST ** (t + 1))
        size = np.sqrt(second / (1 - KEEP_SECOND ** (t + 1)))
        # A word that no descriptor comes near has next to no gradient, and stays.
        size = np.maximum(size, LEAST_SHARE * size.max() or 1.0)
        length = self._plan.rate * self._slopes.unit * (1 - t / self._plan.n_steps)
        # All at once, so that Ctrl-C finds a complete step or none.
        moved, errors = self.words - length * direction / size, [*self.errors, error]
        self.words, self._first, self._second, self.errors = moved, first, second, errors
        return error

    def record(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """Return the state as a checkpoint holds it, to the last bit."""
        arrays = {"words": self.words, "first": self._first, "second": self._second}
        return {"errors": self.errors}, arrays

    def restore(self, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a record."""
        self.errors = list(record["errors"])
        self.words, self._first, self._second = (arrays[n] for n in ("words", "first", "second"))


class Pool:
    """The descriptors that steps draw from: ``per_bag`` of each bag per step, in turn."""

    def __init__(self, bags: Bags, labels: Labels, per_bag: int, max_bags: int, seed: int) -> None:
        full = np.flatnonzero(bags.counts)
        if not len(full):
            raise DataError(f"the {len(bags)} bags have no descriptors. Give bags with some.")
        draw = stream(seed, "refinement", "descriptors")
        all_rows = (bags[int(bag)] for bag in full)
        rows = [values[draw.permutation(len(values))[:POOL]] for values in all_rows]
        self._counts = np.array([len(values) for values in rows])
        self._first = np.concatenate(([0], np.cumsum(self._counts)[:-1]))
        self._values = np.concatenate(rows)
        self._labels = labels[full]
        self._n_classes = int(labels.max()) + 1
        self._seed = seed
        self._scale = np.float32(bags.scale)
        self.per_bag, self.n_dims = per_bag, bags.n_dims
        self.n_bags = min(len(full), max_bags)

    def draw(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return rows of ``n_bags`` bags, ``(n_bags, per_bag)``, and their classes as 0 and 1."""
        chosen = np.arange(len(self._labels))
        if self.n_bags < len(chosen):
            # A stream per step, so that a resumed run draws the same.
            draw = stream(self._seed, "refinement", "bags", step)
            chosen = np.sort(draw.choice(len(chosen), self.n_bags, replace=False))
        turn = step * self.per_bag + np.arange(self.per_bag)
        rows = self._first[chosen][:, None] + turn % self._counts[chosen][:, None]
        return rows, np.eye(self._n_classes)[self._labels[chosen]]

    def read_into(self, rows: NDArray[np.int64], out: NDArray[np.float32]) -> None:
        """Write descriptors in unit-norm units, one per row."""
        np.multiply(self._values[rows.ravel()], np.float32(1) / self._scale, out=out)


class Slopes:
    """The gradient of the error by the words, on a sample."""

    def __init__(self, pool: Pool, start: NDArray[np.float32], plan: DescentPlan) -> None:
        self._pool = pool
        self._hard = plan.coding == "hard"
        self._n_jobs = plan.n_jobs
        size = max(1, BLOCK_ROWS // pool.per_bag)
        self._blocks = [slice(b, min(b + size, pool.n_bags)) for b in range(0, pool.n_bags, size)]
        n_rows = pool.n_bags * pool.per_bag
        self._values = np.empty((n_rows, pool.n_dims), dtype=np.float32)
        self._codes = np.empty(len(start) * n_rows, dtype=np.float32)
        square = self._mean_square(start)
        self.unit = np.sqrt(square)
        self._coding_sharpness = plan.sharpness
        softest = SOFTNESS / square
        self._sharpness = softest if self._hard else min(plan.sharpness, softest)

    def _mean_square(self, words: NDArray[np.float32]) -> float:
        """Return the mean squared distance of a descriptor from its nearest word."""
        half = np.float32(0.5) * np.einsum("ij,ij->i", words, words)
        rows = self._pool.draw(0)[0]

        def block(bags: slice) -> float:
            values = self._values_of(bags)
            self._pool.read_into(rows[bags], values)
            best = (words @ values.T - half[:, None]).max(axis=0)
            squares = np.einsum("ij,ij->i", values, values) - 2 * best
            return float(np.maximum(squares, 0).sum(dtype=np.float64))

        total = sum(ordered_map(block, self._blocks, self._n_jobs))
        # Where every descriptor is a word, any unit serves.
        return total / rows.size or 1.0

    def gradient(self, words: NDArray[np.float32], step: int) -> tuple[float, NDArray[np.float64]]:
        """Return the error of a sample and its slopes by the words, ``(n_words, n_dims)``."""
        pool = self._pool
        rows, targets = pool.draw(step)
        half = np.float32(0.5) * np.einsum("ij,ij->i", words, words)
        histograms = np.zeros((pool.n_bags, len(words)))

        def forward(bags: slice) -> None:
            values = self._values_of(bags)
            pool.read_into(rows[bags], values)
            codes = self._codes_of(bags, len(words))
            np.matmul(words, values.T, out=codes)
            total = np.empty(len(values), dtype=np.float32)
            into = histograms[bags]
            if self._hard:
                count_nearest(codes, half, pool.per_bag, into)
            elif self._sharpness < self._coding_sharpness:
                sharp = codes.copy()
                weigh(sharp, half, 2 * self._coding_sharpness, total)
                normalise(sharp, total, pool.per_bag, into)
            weigh(codes, half, 2 * self._sharpness, total)
            direct = not self._hard and self._sharpness == self._coding_sharpness
            normalise(codes, total, pool.per_bag, into if direct else np.empty_like(into))

        for _ in ordered_map(forward, self._blocks, self._n_jobs):
            pass
        histograms /= pool.per_bag
        error, by_entry = leave_one_out_gradient(histograms, targets)
        slopes = (by_entry * (2 * self._sharpness / pool.per_bag)).astype(np.float32)

        def backward(bags: slice) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            codes = self._codes_of(bags, len(words))
            pull(codes, slopes[bags], pool.per_bag)
            return codes @ self._values_of(bags), codes.sum(axis=1)

        total, weight = np.zeros(words.shape), np.zeros(len(words))
        for part, share in ordered_map(backward, self._blocks, self._n_jobs):
            total += part
            weight += share
        return error, total - weight[:, None] * words

    def _values_of(self, bags: slice) -> NDArray[np.float32]:
        per_bag = self._pool.per_bag
        return self._values[bags.start * per_bag : bags.stop * per_bag]

    def _codes_of(self, bags: slice, n_words: int) -> NDArray[np.float32]:
        first, last = (n_words * b * self._pool.per_bag for b in (bags.start, bags.stop))
        return self._codes[first:last].reshape(n_words, -1)
