"""The records of ``benchmarks.alternatives`` as points of two planes, with their Pareto fronts."""

from __future__ import annotations

from statistics import fmean
from typing import Any


def planes(records: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return, per set, each alternative's mean accuracy, bytes in all and milliseconds.

    ``by_bytes`` and ``by_ms`` mark the Pareto fronts: nothing else is at least as accurate and at
    most as large (or slow).
    """
    ms = {(row["set"], row["name"]): row["ms"] for row in records["times"]}
    found: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys(row["set"] for row in records["rows"]):
        mine = [row for row in records["rows"] if row["set"] == name]
        points = []
        for title in dict.fromkeys(row["name"] for row in mine):
            rows = [row for row in mine if row["name"] == title]
            points.append(
                {
                    "name": title,
                    "group": rows[0]["group"],
                    "accuracy": fmean(row["accuracy"] for row in rows),
                    "n_splits": len(rows),
                    "bytes": fmean(row["bytes"] + row["classifier_bytes"] for row in rows),
                    "words_bytes": fmean(row["bytes"] for row in rows),
                    "ms": ms.get((name, title)),
                }
            )
        for cost in ("bytes", "ms"):
            for point in points:
                point[f"by_{cost}"] = point[cost] is not None and not any(
                    other is not point
                    and other[cost] is not None
                    and other[cost] <= point[cost]
                    and other["accuracy"] >= point["accuracy"]
                    for other in points
                )
        found[name] = points
    return found
