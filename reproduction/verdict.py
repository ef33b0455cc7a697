"""A verdict on a claim, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Answer = Literal["yes", "no", "partly", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """What the records say of one claim of the paper.

    Attributes
    ----------
    id : str
        A short name.
    claim : str
        What the paper says, in our words.
    where : str
        Where it says so.
    answer : {"yes", "no", "partly", "not measured"}
        Whether the records bear it out.
    summary : str
        The numbers, in sentences, and the rule that turned them into the answer.
    header : list of str
        Names of the table's columns.
    rows : list of list of str
        The table.
    """

    id: str
    claim: str
    where: str
    answer: Answer
    summary: str
    header: list[str]
    rows: list[list[str]]


def together(answers: Iterable[Answer]) -> Answer:
    """Return the one answer of several cases: theirs where all agree, else partly.

    Cases that were not measured have no say.

    Examples
    --------
    >>> together(["yes", "yes"]), together(["yes", "no"]), together(["no", "not measured"])
    ('yes', 'partly', 'no')
    >>> together([])
    'not measured'
    """
    different = set(answers) - {"not measured"}
    if not different:
        return "not measured"
    return different.pop() if len(different) == 1 else "partly"


def share(value: float | None) -> str:
    """Write an accuracy or an error.

    Examples
    --------
    >>> share(0.70712), share(None)
    ('0.707', '—')
    """
    return "—" if value is None else f"{value:.3f}"


def between(values: Iterable[float], write: Callable[[float], str] = share) -> str:
    """Write the least and the largest of several numbers.

    Examples
    --------
    >>> between([0.5, 0.25, 0.3]), between([5, 5], str)
    ('0.250 to 0.500', '5')
    """
    some = sorted(values)
    ends = [write(value) for value in (some[0], some[-1])]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def amount(value: float) -> str:
    """Write a time, a size or a factor, as short as it can be read.

    Examples
    --------
    >>> amount(2961.4), amount(15.12), amount(0.0921)
    ('2961', '15.1', '0.0921')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def signed(value: float | None) -> str:
    """Write a difference.

    Examples
    --------
    >>> signed(0.0312), signed(-0.0004)
    ('+0.031', '−0.000')
    """
    return "—" if value is None else f"{value:+.3f}".replace("-", "−")


def chance(p: float | None) -> str:
    """Write a p value.

    Examples
    --------
    >>> chance(0.0123), chance(0.0002), chance(None)
    ('0.012', '< 0.001', '—')
    """
    if p is None:
        return "—"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def listed(names: Iterable[str]) -> str:
    """Join names as a sentence does.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
