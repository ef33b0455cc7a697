"""Numbers as a reader wants them: three figures, a unit, and no more."""

from __future__ import annotations

NARROW = "\u202f"
"""A narrow space that no line breaks at."""


def grouped(number: float) -> str:
    """Return a whole number with a narrow space between thousands.

    Examples
    --------
    >>> grouped(5000).split()
    ['5', '000']
    """
    return f"{round(number):,}".replace(",", NARROW)


def figures(number: float, n: int = 3) -> str:
    """Return a number with ``n`` figures, never as a power of ten.

    Examples
    --------
    >>> figures(0.2345), figures(12.0), figures(2985.0).split()
    ('0.234', '12.0', ['2', '985'])
    """
    if number == 0:
        return "0"
    whole = len(str(int(abs(number)))) if abs(number) >= 1 else 0
    return grouped(number) if whole >= n else f"{number:.{n - max(whole, 0)}f}"


def size_of(n_bytes: float | None) -> str:
    """Return bytes in the unit that suits them.

    Examples
    --------
    >>> size_of(25600).split(), size_of(2_560_000).split()
    (['25.6', 'kB'], ['2.56', 'MB'])
    """
    if n_bytes is None:
        return "—"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{figures(n_bytes / scale)}{NARROW}{unit}"
    return f"{grouped(n_bytes)}{NARROW}bytes"


def milliseconds(value: float | None) -> str:
    """Return a time in milliseconds, of two figures below ten."""
    return "—" if value is None else f"{figures(value, 2)}{NARROW}ms"


def seconds(value: float | None) -> str:
    """Return a time: seconds, then minutes and hours.

    Examples
    --------
    >>> [seconds(x).split() for x in (0.05, 12.4, 320, 9000)]
    [['0.05', 's'], ['12', 's'], ['5.3', 'min'], ['2.5', 'h']]
    >>> seconds(0.0004).split(), seconds(0).split()
    (['<', '0.01', 's'], ['0', 's'])
    """
    if value is None:
        return "—"
    for unit, scale, least in (("h", 3600, 5400), ("min", 60, 100)):
        if value >= least:
            return f"{figures(value / scale, 2)}{NARROW}{unit}"
    if 0 < value < 0.01:
        return f"<{NARROW}0.01{NARROW}s"
    return f"{figures(value, 2) if value >= 0.095 or not value else f'{value:.2f}'}{NARROW}s"


def times(ratio: float) -> str:
    """Return a ratio as «24 ×».

    Examples
    --------
    >>> [times(x).split() for x in (2.44, 4.0, 24.4)]
    [['2.4', '×'], ['4', '×'], ['24', '×']]
    """
    return f"{figures(ratio, 2).removesuffix('.0')}{NARROW}×"


def signed(value: float) -> str:
    """Return an accuracy's difference with its sign, a true minus and three places.

    Examples
    --------
    >>> signed(0.0251), signed(-0.01)
    ('+0.025', '−0.010')
    """
    return f"{value:+.3f}".replace("-", "−")


def chance(p: float | None) -> str:
    """Return a p value.

    Examples
    --------
    >>> chance(0.0004), chance(0.0312), chance(None)
    ('p < 0.001', 'p = 0.031', '')
    """
    if p is None:
        return ""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
