"""Where the numbers come from, to the last parameter: everything that ``run.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bowsaw.report.markup import Content, Markup, tag
from bowsaw.report.tables import table
from bowsaw.report.wording import seconds, size_of

KNOWN = {"machine", "versions", "parameters", "sets", "methods", "format", "schema", "command"}


def provenance(about: Mapping[str, Any]) -> Markup:
    """Return the command, and every value of ``run.json`` in tables."""
    parts: list[Content] = [
        tag("h3", "The command"),
        tag(
            "div",
            tag("pre", tag("code", about["command"], id="command"), tabindex="0"),
            tag("button", "Copy", type="button", id="copy"),
            tag("span", class_="vh", role="status", id="copied"),
            class_="command",
        ),
    ]
    rest = {key: value for key, value in about.items() if key not in KNOWN}
    groups = [
        ("The run", {**rest, "format": f"{about.get('format')}, schema {about.get('schema')}"}),
        ("Parameters", about.get("parameters") or {}),
        ("Machine", about.get("machine") or {}),
        ("Versions", about.get("versions") or {}),
        *((f"Images: {name}", facts) for name, facts in about.get("sets", {}).items()),
        *((f"Method: {name}", facts) for name, facts in about.get("methods", {}).items()),
    ]
    for title, facts in groups:
        rows = [[name, value] for name, value in flat(facts)]
        if rows:
            shown = table(title, ["What", "Value"], rows, "facts")
            parts.append(tag("details", tag("summary", title), shown))
    return tag("div", parts)


def flat(facts: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested facts as pairs of a dotted name and a text.

    Examples
    --------
    >>> flat({"kmeans": {"seed": 0}, "sizes": [10, 20], "note": None})
    [('kmeans.seed', '0'), ('sizes', '10, 20'), ('note', 'none')]
    """
    pairs: list[tuple[str, str]] = []
    for key, value in facts.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            pairs += flat(value, f"{name}.") or [(name, "none")]
        else:
            pairs.append((name, _told(name, value)))
    return pairs


def _told(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_told("", part) for part in value) or "none"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return f"{value} ({size_of(value)})"
    if name.endswith("seconds") and isinstance(value, int | float):
        return f"{value:g} ({seconds(value)})"
    return str(value)
