"""A page in a browser (errors, requests, overflow, barriers), and the numbers it should show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Locator, Page

PHONE, DESK = (375, 812), (1440, 900)
"""Width and height in pixels of the two screens that the page must fit."""
Panel = tuple[str, str, int]
Key = tuple[str, int]

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@dataclass
class Visit:
    """An open page, with its errors and requests since it began to load."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        """What a reader sees at the first match, on one line."""
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def seen(self, selector: str) -> list[str]:
        """The data-method, data-word or id of each visible match."""
        return self.page.locator(selector).evaluate_all(
            """all => all.filter(one => one.getClientRects().length)
                .map(one => one.dataset.method ?? one.dataset.word ?? one.id)"""
        )

    def outside(self) -> list[str]:
        """What the page asked for that is neither a file nor in the page itself."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def overflow(self) -> list[str]:
        """By how much the page is wider than its window, and some elements that stick out."""
        return self.page.evaluate(
            """() => {
                const root = document.scrollingElement;
                const excess = root.scrollWidth - root.clientWidth;
                if (excess <= 0) return [];
                const scrolls = one => one && one !== root && one !== document.body
                    && (getComputedStyle(one).overflowX !== 'visible'
                        || scrolls(one.parentElement));
                const wide = [...document.body.querySelectorAll('*')]
                    .filter(one => one.getBoundingClientRect().right > root.clientWidth + .5)
                    .filter(one => !scrolls(one.parentElement))
                    .map(one => one.tagName.toLowerCase() + (one.id && '#' + one.id));
                return [excess + ' px too wide', ...wide.slice(0, 5)];
            }"""
        )

    def barriers(self) -> list[str]:
        """What axe-core finds; hidden elements are removed first, for speed."""
        self.page.evaluate("document.querySelectorAll('[hidden]').forEach(one => one.remove())")
        self.page.evaluate(AXE)
        results: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {' '.join(map(str, node['target']))}"
            for violation in results["violations"]
            for node in violation["nodes"]
        ]


@contextmanager
def visit(
    browser: Browser,
    path: Path,
    *,
    screen: tuple[int, int] = DESK,
    dark: bool = False,
    scripts: bool = True,
) -> Iterator[Visit]:
    """Open a file in a window of its own, with nothing left from other visits."""
    context = browser.new_context(
        viewport={"width": screen[0], "height": screen[1]},
        color_scheme="dark" if dark else "light",
        # Contrast is measured when no colour is fading.
        reduced_motion="reduce",
        java_script_enabled=scripts,
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    seen = Visit(page)

    def hear(message: Any) -> None:
        if message.type in {"error", "warning"}:
            seen.complaints.append(f"{message.type}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: seen.complaints.append(f"uncaught: {error}"))
    page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    try:
        page.goto(path.as_uri(), wait_until="load")
        yield seen
    finally:
        context.close()


class Records:
    """The records of a run; a panel is (set, coding, full words), a key (method, size)."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "run.json").read_text("utf-8"))
        self.cells, self.details = (
            [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            if path.is_file()
            else []
            for path in (folder / "cells.jsonl", folder / "details.jsonl")
        )

    def panels(self) -> list[Panel]:
        return list(dict.fromkeys(map(_panel, self.cells)))

    def means(self, panel: Panel, view: str) -> dict[Key, float]:
        """Return mean accuracies over splits."""
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
        """Return the confusion over all splits as printed: rows in percent, no zeros."""
        key = (*panel, method, size)
        tables = [
            cell["results"][view]["confusion"]
            for cell in self.cells
            if (*_panel(cell), cell["method"], cell["size"]) == key
        ]
        total = np.sum(tables, axis=0)
        return [[f"{100 * n / sum(row):.0f}" if n else "" for n in row] for row in total]

    def detail(self, **wanted: Any) -> dict[str, Any]:
        """Return the first drawing with these fields."""
        return next(d for d in self.details if wanted.items() <= d.items())


def _panel(cell: dict[str, Any]) -> Panel:
    return cell["set"], cell["coding"], cell["full_words"]
