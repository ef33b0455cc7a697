"""One browser for all tests here; without one, only the tests that need none are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.browser.chromium import REQUIRED, find_chromium, is_required
from tests.browser.recomputing import Recomputed
from tests.report.made_run import made_run

from bowsaw.comparison.records import read_run
from bowsaw.report.page import write_page
from reproduction.section import claims_section
from reproduction.verdicts import verdicts

HERE = Path(__file__).parent
WITHOUT_BROWSER = {"test_chromium.py", "test_left_out.py"}
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

collect_ignore = (
    []
    if find_chromium() or is_required()
    else [path.name for path in HERE.glob("test_*.py") if path.name not in WITHOUT_BROWSER]
)
RUNS: dict[str, dict[str, Any]] = {
    "compare": {},
    "reproduce": {"large": True, "sizes": [10, 20, 50], "splits": 2},
    "without details": {"details": False, "splits": 2},
    "one split": {"splits": 1, "sizes": [20]},
}
"""Runs that the page must be able to show, and how they are made."""


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the page of a run by name; it lies in its run's folder and is made when first asked."""

    @cache
    def page_of(name: str) -> Path:
        folder = made_run(tmp_path_factory.mktemp("run"), **RUNS[name])
        claims = [claims_section(verdicts(read_run(folder)))] if name == "reproduce" else []
        return write_page(folder, extra=claims)

    return page_of


@pytest.fixture(scope="session")
def numbers_of(page_of: Callable[[str], Path]) -> Callable[[str], Recomputed]:
    """Give what the page of a run should say."""
    return lambda name: Recomputed(page_of(name).parent)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Give the machine's own Chromium, without a window, with a profile that is thrown away."""
    program = find_chromium()
    if program is None:
        pytest.fail(REQUIRED)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=False, args=FLAGS
        )
        yield chromium
        chromium.close()
