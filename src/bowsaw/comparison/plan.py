"""The plan of a run: which cells, in which order, and how long the rest may take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bowsaw.coding.soft import check_sharpness
from bowsaw.comparison.methods import EFFORTS, FULL, Effort, check_methods
from bowsaw.comparison.records import Key
from bowsaw.errors import ParameterError
from bowsaw.evaluation.classify import MAPPINGS, Mapped
from bowsaw.validation import check_int


@dataclass(frozen=True)
class Plan:
    """What is asked of the arena.

    Attributes
    ----------
    words : tuple of int
        Sizes of the full codebooks.
    sizes : tuple of int
        Words to keep; a size that a full codebook does not exceed is left out there.
    codings : tuple of {"hard", "soft"}
        How descriptors are coded.
    methods : tuple of str
        Names of ``METHODS``, ``full`` among them.
    splits : int
        How many random splits.
    seed : int
        Drives everything.
    sharpness : float
        Of soft coding.
    raw : tuple of str
        Methods that are measured with raw histograms too; square-rooted ones always are.
    effort : {"usual", "bounded"}
        How long searches may take.
    """

    words: tuple[int, ...]
    sizes: tuple[int, ...]
    codings: tuple[Literal["hard", "soft"], ...]
    methods: tuple[str, ...]
    splits: int
    seed: int = 0
    sharpness: float = 40.0
    raw: tuple[str, ...] = ()
    effort: Effort = "usual"

    def maps(self, method: str) -> list[Mapped]:
        """Return the mappings that a method is measured with."""
        return list(MAPPINGS) if method in self.raw else ["sqrt"]

    def cells(self, sets: Sequence[str]) -> Iterator[Key]:
        """Yield the keys of all cells: panel by panel, then split by split."""
        for full_words in self.words:
            for coding in self.codings:
                for name in sets:
                    for split in range(self.splits):
                        for method in self.methods:
                            kept = [size for size in self.sizes if size < full_words]
                            for size in [full_words] if method == FULL else kept:
                                yield name, split, coding, full_words, method, size

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` says of it."""
        return {
            "words": list(self.words),
            "sizes": list(self.sizes),
            "codings": list(self.codings),
            "methods": list(self.methods),
            "splits": self.splits,
            "seed": self.seed,
            "sharpness": self.sharpness,
            "raw": list(self.raw),
            "effort": self.effort,
        }


def make_plan(
    *,
    words: Sequence[int],
    sizes: Sequence[int],
    codings: Sequence[str],
    methods: Sequence[str],
    splits: int,
    seed: int,
    sharpness: float,
    raw: Sequence[str] | None,
    effort: str,
) -> Plan:
    """Return the plan, or say what is wrong with it.

    Examples
    --------
    >>> plan = make_plan(words=[30], sizes=[20, 10, 40], codings=["hard"], methods=["random"],
    ...                  splits=1, seed=0, sharpness=40.0, raw=None, effort="usual")
    >>> [key[4:] for key in plan.cells(["scenes"])]
    [('full', 30), ('random', 10), ('random', 20)]
    """
    for name, values in (("words", words), ("sizes", sizes)):
        if not values:
            raise ParameterError(f"{name} must name at least one number of words.")
        for value in values:
            check_int(value, name, 1)
    if min(sizes) >= min(words):
        raise ParameterError(
            f"sizes must hold a number below that of every full codebook ({min(words)} words); got "
            f"{', '.join(map(str, sorted(sizes)))}. Ask for fewer words, or a larger codebook."
        )
    if not codings or not set(codings) <= {"hard", "soft"}:
        raise ParameterError(f"codings are hard and soft; got {', '.join(map(str, codings))}.")
    check_sharpness(sharpness)
    if effort not in EFFORTS:
        raise ParameterError(f"effort must be one of {', '.join(EFFORTS)}; got {effort!r}.")
    chosen = check_methods(methods)
    with_raw = chosen if raw is None else [name for name in chosen if name in raw]
    order: tuple[Literal["hard", "soft"], ...] = ("hard", "soft")
    return Plan(
        tuple(sorted({int(n) for n in words}, reverse=True)),
        tuple(sorted({int(n) for n in sizes})),
        tuple(coding for coding in order if coding in codings),
        tuple(chosen),
        check_int(splits, "splits", 1),
        seed,
        float(sharpness),
        tuple(with_raw),
        effort,
    )


class Outlook:
    """Foretells how long cells will take from those that are done.

    A cell takes what cells of its panel, method and size took; where there are none yet, what its
    method and size took elsewhere, its method, any cell.

    Examples
    --------
    >>> outlook = Outlook()
    >>> outlook.tell(("a", 0, "hard", 100, "random", 10), 2.0)
    >>> outlook.seconds([("a", 1, "hard", 100, "random", 10), ("b", 1, "soft", 100, "full", 100)])
    4.0
    """

    def __init__(self) -> None:
        self._seen: Mapping[Any, list[float]] = defaultdict(list)

    def tell(self, key: Key, seconds: float) -> None:
        """Learn what a cell took."""
        for name in self._names(key):
            self._seen[name].append(seconds)

    def seconds(self, keys: Sequence[Key]) -> float | None:
        """Return how long these cells may take; None where nothing is known."""
        if not self._seen:
            return None
        return sum(self._one(key) for key in keys)

    def _one(self, key: Key) -> float:
        for name in self._names(key):
            seen = self._seen.get(name)
            if seen:
                return sum(seen) / len(seen)
        return 0.0

    @staticmethod
    def _names(key: Key) -> list[tuple[Any, ...]]:
        name, _, coding, full_words, method, size = key
        return [
            (name, coding, full_words, method, size),
            (coding, full_words, method, size),
            (coding, method, size),
            (method,),
            (),
        ]
