"""One browser for all tests here; without one, only the tests that need none are collected."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.browser.chromium import REQUIRED, find_chromium, is_required
from tests.browser.visiting import Records
from tests.report.made_run import made_run

from bowsaw.report import Section, table, write_page

FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]

collect_ignore = (
    []
    if find_chromium() or is_required()
    else [p.name for p in Path(__file__).parent.glob("test_*.py") if p.name != "test_chromium.py"]
)
RUNS: dict[str, dict[str, Any]] = {
    "small": {},
    "large": {"large": True, "sizes": [10, 20, 50], "splits": 2},
    "without details": {"details": False, "splits": 2},
    "one split": {"splits": 1, "sizes": [20]},
    "recogniser": {
        "methods": ["full", "refinement", "random", "kmeans"],
        "sizes": [50],
        "splits": 5,
        "folds": True,
        "raw": [],
    },
}
"""Runs that the page must be able to show, and how they are made."""


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the page of a run by name, in the run's folder.

    "large" has an additional section, "recogniser" one before the curves, and "results" is the page
    of the recorded results.
    """

    @cache
    def page_of(name: str) -> Path:
        if name == "results":
            return Path(__file__).resolve().parents[2] / "results" / "index.html"
        folder = made_run(tmp_path_factory.mktemp("run"), **RUNS[name])
        rows = table("Answers", ["Claim", "Found"], [["a", "b"]])
        extra = {
            "large": Section("Claims", "Of the paper.", rows),
            "recogniser": Section("Recogniser", "Learned from all images.", rows, first=True),
        }
        title = "photos: 50 of 200 words" if name == "recogniser" else None
        added = [extra[name]] if name in extra else []
        pick = ("refinement", 50) if name == "recogniser" else None
        return write_page(folder, extra=added, title=title, pick=pick)

    return page_of


@pytest.fixture(scope="session")
def records_of(page_of: Callable[[str], Path]) -> Callable[[str], Records]:
    """Return the records of a run by name."""
    return lambda name: Records(page_of(name).parent)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the machine's own Chromium, headless, with a temporary profile."""
    program = find_chromium()
    if program is None:
        pytest.fail(REQUIRED)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=FLAGS
        )
        yield chromium
        chromium.close()
