"""What the page should say, worked out from the lines of a run in the plainest way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Panel = tuple[str, str, int]
Key = tuple[str, int]


class Recomputed:
    """The numbers of a run folder; a panel is (set, coding, full words), a key (method, size)."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "run.json").read_text("utf-8"))
        self.cells = _lines(folder / "cells.jsonl")
        self.details = _lines(folder / "details.jsonl")

    def panels(self) -> list[Panel]:
        return list(dict.fromkeys(map(_panel, self.cells)))

    def means(self, panel: Panel, view: str) -> dict[Key, float]:
        """Return accuracies, means over splits."""
        found: dict[Key, list[float]] = {}
        for cell in self.cells:
            if _panel(cell) == panel:
                values = found.setdefault((cell["method"], cell["size"]), [])
                values.append(cell["results"][view]["accuracy"])
        return {key: sum(values) / len(values) for key, values in found.items()}

    def places(self, panel: Panel, name: str) -> dict[Key, int]:
        """Return ``n_coding_words`` or ``n_columns``: where a point stands on the x axis."""
        chosen = (cell for cell in self.cells if _panel(cell) == panel)
        return {(cell["method"], cell["size"]): cell[name] for cell in chosen}

    def percentages(self, panel: Panel, view: str, method: str, size: int) -> list[list[str]]:
        """Return the confusion over all splits as it is printed: rows in percent, no zeros."""
        total: list[list[int]] = []
        for cell in self.cells:
            if (*_panel(cell), cell["method"], cell["size"]) == (*panel, method, size):
                table = cell["results"][view]["confusion"]
                total = [
                    [a + b for a, b in zip(*rows, strict=True)]
                    for rows in zip(total or [[0] * len(table)] * len(table), table, strict=True)
                ]
        return [[f"{100 * n / sum(row):.0f}" if n else "" for n in row] for row in total]

    def detail(self, **wanted: Any) -> dict[str, Any]:
        """Return the first line of the details that has these fields."""
        return next(d for d in self.details if wanted.items() <= d.items())


def _lines(path: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if path.is_file()
        else []
    )


def _panel(cell: dict[str, Any]) -> Panel:
    return cell["set"], cell["coding"], cell["full_words"]
