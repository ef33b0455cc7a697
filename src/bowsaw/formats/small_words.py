"""Words in 8 bits: a quarter of the bytes, and by how much each has moved.

An entry c is stored as a whole number q with c ≈ step · (q − zero). It moves by step / 2 at most,
so a word of n_dims entries by √n_dims · step / 2; the largest move that there is, is told. By the
triangle inequality no descriptor's distance to a word changes by more.

The step has at most 12 binary digits: step · (q − zero) is then exact in float32, and every
compiler restores the same words. Beside descriptors that are bytes, words between 0 and 255 (those
of dense SIFT) become bytes of the same unit, with the step 1, and distances are whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_STEP_DIGITS = 12
_SMALLEST = 2.0**-126
"""Smaller steps would have fewer digits in float32."""


@dataclass(frozen=True)
class SmallWords:
    """Words in 8 bits: entry = step · (values − zero).

    Attributes
    ----------
    values : ndarray of uint8 or int8, shape (n_words, n_dims)
        What is stored.
    step, zero : float, int
        What it means.
    error : float
        The largest distance between a word and what is stored of it, in the words' units.
    """

    values: NDArray[Any]
    step: float
    zero: int
    error: float

    def restored(self) -> NDArray[np.float32]:
        """Return the words as the header has them."""
        wide = self.values.astype(np.float64) - self.zero
        return (self.step * wide).astype(np.float32)


def small_words(
    words: NDArray[np.float32],
    kind: Literal["uint8", "int8"],
    descriptors: Literal["float32", "uint8"] = "float32",
) -> SmallWords:
    """Return words rounded to 8 bits.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_dims), float32
        In any unit.
    kind : {"uint8", "int8"}
        int8 is symmetric about 0, uint8 reaches from the smallest entry (or 0) to the largest.
    descriptors : {"float32", "uint8"}, default="float32"
        What they are compared with: beside bytes, words between 0 and 255 become bytes.

    Examples
    --------
    >>> found = small_words(np.float32([[0.0, 100.2], [254.6, 7.0]]), "uint8", "uint8")
    >>> found.values.tolist(), found.step, found.zero, round(found.error, 3)
    ([[0, 100], [255, 7]], 1.0, 0, 0.4)
    """
    wide = words.astype(np.float64)
    low, high = min(float(wide.min()), 0.0), max(float(wide.max()), 0.0)
    if kind == "uint8" and descriptors == "uint8" and low >= 0 and high <= 255:
        step, zero = 1.0, 0
    elif kind == "uint8":
        # A zero in between is a whole number of steps away from both ends, which takes one more.
        step = _rounded_up((high - low) / (254 if low < 0 < high else 255))
        zero = min(math.ceil(-low / step), 255)
    else:
        step, zero = _rounded_up(max(-low, high) / 127), 0
    limits = np.iinfo(kind)
    places = np.clip(np.rint(wide / step) + zero, limits.min, limits.max)
    moved = step * (places - zero) - wide
    error = float(np.sqrt(np.einsum("kd,kd->k", moved, moved)).max())
    return SmallWords(places.astype(kind), step, zero, error)


def _rounded_up(step: float) -> float:
    """Return the next number of few binary digits, so that products with bytes are exact."""
    if step == 0:
        return 1.0
    step = max(step, _SMALLEST)
    exponent = math.frexp(step)[1] - _STEP_DIGITS
    return math.ldexp(math.ceil(math.ldexp(step, -exponent)), exponent)
