"""HTML and SVG as text, escaped.

Everything passes through :func:`tag`, which escapes attributes and text; only :class:`Markup` goes
in unchanged. Data for the script are JSON in which ``<``, ``>`` and ``&`` are written as escapes,
so no class or file name can end the element that holds them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

VOID = {"input", "meta", "link", "br", "img", "hr"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | int | float | None | Iterable["Content"]


def text(content: Content) -> Markup:
    """Return content as HTML: markup unchanged, anything else escaped, lists concatenated."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return Markup(html.escape(str(content)))
    return Markup("".join(text(part) for part in content))


def tag(element: str, /, *content: Content, **attributes: Any) -> Markup:
    """Return an element as escaped HTML.

    In an attribute's name ``_`` becomes ``-`` and a trailing ``_`` is dropped (``class_``,
    ``data_word``). None and False leave the attribute out; True gives it an empty value.

    Examples
    --------
    >>> tag("p", "a < b", class_="note", data_word=3, hidden=False)
    '<p class="note" data-word="3">a &lt; b</p>'
    >>> tag("td", tag("b", "</script>"))
    '<td><b>&lt;/script&gt;</b></td>'
    """
    parts = [element]
    for key, value in attributes.items():
        if value is not None and value is not False:
            escaped = "" if value is True else html.escape(str(value))
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escaped}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if element in VOID else f"{opening}{text(content)}</{element}>")


def table(
    caption: str, header: Iterable[Content], rows: Iterable[Iterable[Content]], class_: str = ""
) -> Markup:
    """Return a table that scrolls by itself; the first cell of a row is its heading.

    Parameters
    ----------
    caption : str
        Title of the table.
    header : iterable of Content
        Text or markup per column.
    rows : iterable of iterable of Content
        Cells per row.
    class_ : str, default=""
        Class of the table element.

    Returns
    -------
    Markup

    Examples
    --------
    >>> "<td>0.719</td>" in table("Accuracy", ["Words", "Mean"], [["20", "0.719"]])
    True
    """
    body = []
    for first, *rest in rows:
        body.append(tag("tr", tag("th", first, scope="row"), [tag("td", cell) for cell in rest]))
    head = tag("tr", [tag("th", cell, scope="col") for cell in header])
    inner = [tag("caption", caption), tag("thead", head), tag("tbody", body)]
    made = tag("table", inner, class_=class_ or None)
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def script_json(data: Any) -> Markup:
    """Return JSON that is safe inside a script element."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A script treats U+2028 and U+2029 as ends of lines.
    for character in "<>&\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    # File names may hold lone surrogates, which UTF-8 cannot encode.
    return Markup(plain.encode("utf-8", "replace").decode("utf-8"))
