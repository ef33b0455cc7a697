"""Docstrings as Markdown: roles become links, and types stand as they are written."""

from __future__ import annotations

import re
from typing import Any

import griffe

import bowsaw

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([\w.]+)`")
_MATH = re.compile(r":math:`([^`]*)`")
_TYPE = re.compile(r"^(\w[\w, *]*) : (.+?)(?:, (?:default=.*|optional))?$", re.M)


def _linked(role: re.Match[str]) -> str:
    """Return a link to a public name, or the name alone: the site has public names only."""
    name = role[1].rsplit(".", 1)[-1]
    return f"[`{name}`][bowsaw.{name}]" if name in bowsaw.__all__ else f"`{name}`"


class Docstrings(griffe.Extension):
    """Rewrites each docstring when its object has been read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace roles, and keep types such as ``{"hard", "soft"}`` from being read as Python."""
        if not obj.docstring:
            return
        text = _ROLE.sub(_linked, obj.docstring.value)
        obj.docstring.value = _MATH.sub(r"`\1`", text)
        written = {
            name.strip(): kind
            for names, kind in _TYPE.findall(obj.docstring.value)
            for name in names.split(",")
        }
        sections = obj.docstring.parse(
            griffe.Parser.numpy, warn_unknown_params=False, warnings=False
        )
        for section in sections:
            if section.kind in (
                griffe.DocstringSectionKind.parameters,
                griffe.DocstringSectionKind.attributes,
            ):
                for item in section.value:
                    if re.search(r"[{,]", written.get(item.name, "")):
                        item.annotation = written[item.name]
        obj.docstring.__dict__["parsed"] = sections
