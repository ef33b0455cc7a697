"""Where a number stands on a picture: scales, and the ticks that a reader can read.

A scale maps numbers to a stretch of pixels, in proportion or by their logarithm; beyond its ends it
stops, so nothing is ever drawn outside the picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Scale:
    """Numbers from ``low`` to ``high`` onto pixels from ``start`` to ``end``.

    Examples
    --------
    >>> Scale(10, 1000, 0, 100, log=True)(100)
    50.0
    >>> Scale(0, 10, 100, 0)(20)
    0.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = 0.5 if high == low else (at - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)


def round_step(span: float, most: int) -> float:
    """Return the smallest step of 1, 2 or 5 × a power of ten with at most ``most`` in ``span``.

    Examples
    --------
    >>> round_step(0.23, 6), round_step(4000, 5)
    (0.05, 1000.0)
    """
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    # Dividing by a negative power loses less than multiplying by it: 0.05, not 0.05000000000000001.
    return next(
        step * power if power >= 1 else step / round(1 / power)
        for step in STEPS
        if step * power * most >= span * (1 - 1e-9)
    )


def round_limits(values: Sequence[float], most: int = 6) -> tuple[float, float, list[float]]:
    """Return round ends around ``values``, and the ticks from one to the other.

    Examples
    --------
    >>> round_limits([0.62, 0.71])
    (0.62, 0.72, [0.62, 0.64, 0.66, 0.68, 0.7, 0.72])
    """
    low, high = min(values), max(values)
    if high - low < 1e-9:
        low, high = low - 0.01, high + 0.01
    step = round_step(high - low, most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(i * step, 10) for i in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def apart(values: Sequence[float], scale: Scale, room: float) -> list[float]:
    """Return the values whose pixels leave ``room`` between them; the two ends always stay.

    Examples
    --------
    >>> apart([10, 11, 100, 990, 1000], Scale(10, 1000, 0, 100, log=True), 20)
    [10, 100, 1000]
    """
    ordered = sorted(set(values))
    if len(ordered) < 3:
        return ordered
    chosen = [ordered[0]]
    for value in ordered[1:-1]:
        if min(scale(value) - scale(chosen[-1]), scale(ordered[-1]) - scale(value)) >= room:
            chosen.append(value)
    return [*chosen, ordered[-1]]
