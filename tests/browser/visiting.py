"""One look at a page in a browser: what it complained of, asked for, and has wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

PHONE, DESK = (375, 812), (1440, 900)
"""Width and height in pixels of the two screens that the page promises to fit."""

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@dataclass
class Visit:
    """A page that is open, and what was seen of it since it began to load."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def at(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        """What a reader sees at the first match, on one line."""
        return " ".join(self.page.locator(selector).first.inner_text().split())

    def seen(self, selector: str) -> list[str]:
        """The data-method, data-word or id of each match that takes up room on the screen."""
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
        """What axe-core calls serious or critical, a line for each rule and element.

        What is hidden bars nobody's way; it is taken out of the page first, to be quick.
        """
        self.page.evaluate("document.querySelectorAll('[hidden]').forEach(one => one.remove())")
        self.page.evaluate(AXE)
        results: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {' '.join(map(str, node['target']))}"
            for violation in results["violations"]
            if violation["impact"] in {"serious", "critical"}
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
        # A colour that is still fading has not the contrast that it will have.
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
