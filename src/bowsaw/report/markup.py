"""Text that becomes HTML or SVG, safely: whatever a class or a file is called.

Everything passes through :func:`tag`, which escapes attributes and text; only what is already
:class:`Markup` goes in as it is. Data for the script are JSON in which ``<``, ``>`` and ``&`` are
written as escapes, so no name can end the element that holds them.
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
    """Return content as HTML: markup as it is, anything else escaped, lists one after another."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return Markup(html.escape(str(content)))
    return Markup("".join(text(part) for part in content))


def tag(element: str, /, *content: Content, **attributes: Any) -> Markup:
    """Return an element.

    An attribute's ``_`` is written ``-`` and one at its end is left out, so ``class_`` and
    ``data_word`` can be said. None and False leave the attribute out; True gives it an empty
    value, which XML wants as well.

    Examples
    --------
    >>> tag("p", "a < b", class_="note", data_word=3, hidden=False)
    '<p class="note" data-word="3">a &lt; b</p>'
    >>> tag("td", tag("b", "</script>"))
    '<td><b>&lt;/script&gt;</b></td>'
    """
    parts = [element]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        # SVG has names with capitals (viewBox), which pass through as they are.
        shown = key.rstrip("_").replace("_", "-")
        said = "" if value is True else html.escape(str(value))
        parts.append(f'{shown}="{said}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if element in VOID else f"{opening}{text(content)}</{element}>")


def script_json(data: Any) -> Markup:
    """Return JSON that can stand inside a script element.

    Examples
    --------
    >>> "<" in script_json({"name": "</script>"})
    False
    """
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Lone surrogates, which file names may hold, cannot be encoded; two line separators are
    # ends of lines to a script.
    for character in "<>&\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return Markup(plain.encode("utf-8", "replace").decode("utf-8"))


def joined(parts: Iterable[Content], between: str = "\n") -> Markup:
    """Return parts as one markup, with ``between`` between them."""
    return Markup(between.join(text(part) for part in parts))
