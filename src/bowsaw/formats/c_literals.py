"""Numbers, rows and texts as they stand in C."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def c_row(entries: Iterable[str], ending: str = "") -> str:
    """Return entries as the initialiser of an array.

    Examples
    --------
    >>> c_row(["1", "2"], "u")
    '{1u, 2u}'
    """
    return "{" + ", ".join(entry + ending for entry in entries) + "}"


def c_numbers(row: NDArray[Any]) -> Iterable[str]:
    """Return the texts of whole numbers, or of float32."""
    if row.dtype.kind in "iu":
        return map(str, row.tolist())
    return (c_number(float(value)) for value in row)


def c_number(value: float) -> str:
    """Return the shortest text that a compiler reads as this float32.

    Examples
    --------
    >>> c_number(0.1), c_number(1e-20)
    ('0.1f', '1.0e-20f')
    """
    text = np.format_float_scientific(np.float32(value), trim="0", exp_digits=1)
    plain = str(np.float32(value))
    return f"{plain if len(plain) <= len(text) and '.' in plain else text}f"


def float_above(value: float) -> float:
    """Return the float32 from ``value`` up."""
    rounded = np.float32(value)
    # NumPy would compare in float32, where the two are equal.
    return float(rounded if float(rounded) >= value else np.nextafter(rounded, np.float32(np.inf)))


def c_text(value: str) -> str:
    r"""Return a C string of ASCII letters, whatever the name of a class holds.

    Examples
    --------
    >>> print(c_text('a "?"'))
    "a \042\077\042"
    """
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode("utf-8", "surrogateescape")
    )
    return f'"{shown}"'
