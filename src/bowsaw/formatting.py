"""Numbers as people read them: counts, bytes, seconds and signed differences.

The command line, the page and error messages use these functions, so that a number looks the same
everywhere.
"""

from __future__ import annotations


def format_count(n: int, singular: str, plural: str = "") -> str:
    """Return a number with the noun that it counts.

    Examples
    --------
    >>> format_count(1, "image"), format_count(1200, "image"), format_count(2, "class", "classes")
    ('1 image', '1,200 images', '2 classes')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def format_bytes(n_bytes: float) -> str:
    """Return a size in decimal units.

    Examples
    --------
    >>> format_bytes(512), format_bytes(512_000), format_bytes(98_000_000)
    ('512 B', '512 kB', '98.0 MB')
    """
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"


def format_seconds(seconds: float) -> str:
    """Return a duration.

    Examples
    --------
    >>> format_seconds(0.52), format_seconds(47.3), format_seconds(150), format_seconds(7500)
    ('0.5 s', '47 s', '2 min 30 s', '2 h 5 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    return f"{total // 3600} h {total % 3600 // 60} min"


def format_signed(value: float, digits: int = 3) -> str:
    """Return a difference with its sign; zero has none.

    Examples
    --------
    >>> format_signed(0.0214), format_signed(-0.5, 2), format_signed(0.0001)
    ('+0.021', '\N{MINUS SIGN}0.50', '0.000')
    """
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return ("+" if value > 0 else "\N{MINUS SIGN}") + text
