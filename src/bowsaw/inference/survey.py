"""Error and speed of each way of inferring, measured on the user's own data.

- *The error.* Re-encoding of sampled bags against what the state infers (``fidelity``), after all
  the timed moves and their way back: a state that follows moves badly shows it here.
- *A move.* The median time of ``swap`` with random words, the same for every way.
- *Re-encoding.* The median of three passes over the same bags with the same kept words and threads.
- *The build.* From the bags to a state, the full histograms included where the way needs them.

A way may refuse the data, such as too many dimensions. When all ways are surveyed a refusal is a
result, kept with its reason; when a way was asked for by name it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bowsaw.bags import Bags
from bowsaw.codebook import Codebook
from bowsaw.coding.hard import hard_histograms
from bowsaw.errors import BowsawError, DataError, ParameterError, did_you_mean
from bowsaw.inference.fidelity import Fidelity
from bowsaw.inference.sampled import COVARIANCES
from bowsaw.inference.state import HistogramState
from bowsaw.inference.uniform import POLICIES
from bowsaw.inference.whatif import TRANSFERS, whatif
from bowsaw.progress import Progress
from bowsaw.random_streams import stream

ALL = "all"
_VARIANTS = {"uniform": ("policy", POLICIES), "gaussian": ("covariance", COVARIANCES)}
_N_PASSES, _FEW_WORDS, _FEW_BAGS = 3, 12, 2


@dataclass(frozen=True)
class Way:
    """One way of inferring: a transfer with the options that make it one of several."""

    name: str
    transfer: str
    options: Mapping[str, Any] = field(default_factory=dict)


def ways_of(coding: str, transfers: Sequence[str]) -> list[Way]:
    """Return the ways of the named transfers, one per variant; ``["all"]`` names every one."""
    known = TRANSFERS[coding]
    names = list(known) if list(transfers) == [ALL] else list(dict.fromkeys(transfers))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ParameterError(
            f"transfer must be one of {', '.join(known)} for {coding} coding, several with commas "
            f"between, or {ALL}; got {','.join(transfers)!r}"
            f"{did_you_mean(unknown[0], known) if unknown else ''}"
        )
    ways = []
    for name in names:
        option, values = _VARIANTS.get(name, ("", ()))
        ways += [Way(f"{name}, {value}", name, {option: value}) for value in values]
        ways += [] if values else [Way(name, name)]
    return ways


def draw_words(codebook: Codebook, n_kept: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the ids of random words to keep, in the codebook's order, ``(n_kept,)``."""
    n_words = codebook.n_words
    if not 1 <= n_kept < n_words:
        raise ParameterError(
            f"the number of words to keep must be from 1 to {n_words - 1} (the codebook has "
            f"{n_words} words); got {n_kept}. Keep fewer words, or train a larger codebook."
        )
    chosen = stream(seed, "survey", "kept").choice(n_words, n_kept, replace=False)
    return codebook.ids[np.sort(chosen)]


@dataclass(frozen=True)
class Measurement:
    """The results of one way; None for what was not reached before ``refusal``, its reason."""

    way: Way
    build_seconds: float | None = None
    n_bytes: int | None = None
    move_seconds: float | None = None
    fidelity: Fidelity | None = None
    refusal: str | None = None

    def record(self) -> dict[str, Any]:
        """Return plain data, as JSON holds it."""
        way = {"transfer": self.way.transfer, "options": dict(self.way.options)}
        fidelity = None if self.fidelity is None else self.fidelity.record()
        return {**vars(self), **way, "way": self.way.name, "fidelity": fidelity}


class Survey:
    """Measures ways of inferring for one corpus and one set of kept words.

    Parameters
    ----------
    codebook, bags, coding, sharpness, n_jobs, verbose
        As in :func:`bowsaw.whatif`.
    kept : array-like of int
        The ids of the kept words; at least one, and not all.
    move_size, n_moves : int, default=10, 5
        Words that a timed move replaces (fewer where fewer are kept or pruned), and timed moves.
    sample : int, default=50
        Bags that are re-encoded to measure the error.
    seed : int, default=0
        Draws the moves, the bags, and the samples of ways that have some.

    Examples
    --------
    >>> from bowsaw import Bags, Codebook
    >>> book = Codebook([[0.0], [1.0], [2.5]])
    >>> survey = Survey(book, Bags([[0.1], [0.9], [1.2], [3.0]]), [0, 2])
    >>> survey.run(ways_of("hard", ["exact"])).rows[0].fidelity.worst
    0.0
    """

    def __init__(
        self,
        codebook: Codebook,
        bags: Bags,
        kept: ArrayLike,
        *,
        coding: Literal["hard", "soft"] = "hard",
        sharpness: float = 40.0,
        move_size: int = 10,
        n_moves: int = 5,
        sample: int = 50,
        seed: int = 0,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        positions = np.sort(codebook.positions(kept))
        if not 0 < len(positions) < codebook.n_words:
            raise ParameterError(
                f"kept names {len(positions)} of the {codebook.n_words} words; a survey needs at "
                "least one kept and one pruned word."
            )
        if not bags.n_descriptors:
            raise DataError("a survey needs bags with descriptors; all are empty.")
        self._book, self._bags, self.seed = codebook, codebook.project(bags), seed
        self.kept, self.n_bags = codebook.ids[positions], len(bags)
        self.coding, self.sharpness = coding, sharpness
        self.n_moves, self.sample = n_moves, sample
        self.move_size = min(move_size, len(positions), codebook.n_words - len(positions))
        # Time to re-encode the corpus with the kept words; None until a way was timed.
        self.recode_seconds: float | None = None
        self.rows: list[Measurement] = []
        self.n_jobs, self._verbose = n_jobs, verbose
        self._full: tuple[NDArray[np.float32], float] | None = None

    def run(self, ways: Sequence[Way], *, refusals: bool = False) -> Survey:
        """Add a row per way; with ``refusals`` also for one that refuses, which else raises."""
        with Progress("measuring", len(ways), show=self._verbose) as bar:
            for way in ways:
                self.rows.append(self._measure(way, refusals, lambda status: bar.step(0, status)))
                bar.step()
        return self

    def speed_up(self, row: Measurement) -> float | None:
        """Return how many moves take the time of re-encoding the corpus once."""
        if self.recode_seconds is None or row.move_seconds is None:
            return None
        return self.recode_seconds / max(row.move_seconds, 1e-9)

    def record(self) -> dict[str, Any]:
        """Return plain data, as JSON holds it."""
        names = ("coding", "n_bags", "move_size", "n_moves", "seed", "n_jobs", "recode_seconds")
        return {
            **{name: getattr(self, name) for name in names},
            "sharpness": self.sharpness if self.coding == "soft" else None,
            "n_descriptors": self._bags.n_descriptors,
            "n_words": self._book.n_words,
            "kept": self.kept.tolist(),
            "ways": [{**row.record(), "speed_up": self.speed_up(row)} for row in self.rows],
        }

    def _measure(self, way: Way, refusals: bool, status: Callable[[str], None]) -> Measurement:
        known: dict[str, Any] = {}
        try:
            for name, value in self._steps(way, status):
                known[name] = value
        except (BowsawError, MemoryError) as error:
            if not refusals:
                raise
            short = "out of memory. " if isinstance(error, MemoryError) else ""
            known["refusal"] = f"{short}{error}".strip()
        return Measurement(way, **known)

    def _steps(self, way: Way, status: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
        """Yield each field of a Measurement as soon as it is known."""
        status(f"{way.name}: loading")
        self._warm_up(way)
        status(f"{way.name}: building")
        given, seconds = self._given(way)
        begin = perf_counter()
        state = self._state(way, self._book, self._bags, **given)
        yield "build_seconds", seconds + perf_counter() - begin
        yield "n_bytes", state.n_bytes
        state.reset(self.kept)
        if self.recode_seconds is None:
            status("re-encoding, to compare")
            passes = [_seconds(lambda: state.recode(self._bags)) for _ in range(_N_PASSES + 1)]
            # The first warms up.
            self.recode_seconds = median(passes[1:])
        status(f"{way.name}: moving")
        yield "move_seconds", self._time_moves(state)
        status(f"{way.name}: checking")
        yield "fidelity", state.fidelity(self.sample, random_state=self.seed)

    def _given(self, way: Way) -> tuple[dict[str, Any], float]:
        """Return what the ways of one coding share, and the time it took to make."""
        # Of hard coding, only the exact state reads descriptors instead of full histograms.
        if self.coding == "soft" or way.transfer == "exact":
            return {}, 0.0
        if self._full is None:
            words, begin = self._book.words_for(self._bags), perf_counter()
            histograms = hard_histograms(self._bags, words, n_jobs=self.n_jobs)
            self._full = histograms, perf_counter() - begin
        return {"histograms": self._full[0]}, self._full[1]

    def _state(self, way: Way, book: Codebook, bags: Bags, **more: Any) -> HistogramState:
        if self.coding == "soft":
            more["sharpness"] = self.sharpness
        if way.transfer in ("gaussian", "empirical"):
            more["random_state"] = self.seed
        more |= {"coding": self.coding, "transfer": way.transfer, "n_jobs": self.n_jobs}
        return whatif(book, bags, **way.options, **more)

    def _warm_up(self, way: Way) -> None:
        """Run the way on a few words and bags, so that no clock counts the loading of kernels."""
        few = self._book.only(self._book.ids[:_FEW_WORDS])
        bags = self._bags[np.flatnonzero(self._bags.counts)[:_FEW_BAGS]]
        # A refusal of a few words does not show that of the whole codebook.
        with suppress(BowsawError):
            state = self._state(way, few, bags).reset(few.ids[: (few.n_words + 1) // 2])
            state.swap(remove=few.ids[:1], add=few.ids[-1:]).fidelity(1)

    def _time_moves(self, state: HistogramState) -> float:
        pruned = np.setdiff1d(self._book.ids, self.kept)
        seconds = []
        for i in range(self.n_moves + 1):
            rng = stream(self.seed, "survey", "move", i)
            remove = rng.choice(self.kept, self.move_size, replace=False)
            add = rng.choice(pruned, self.move_size, replace=False)
            seconds.append(_seconds(partial(state.swap, remove, add)))
            state.swap(add, remove)
        return median(seconds[1:])


def _seconds(work: Callable[[], Any]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin
