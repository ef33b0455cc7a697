"""What a run of pytest says and returns where there is no browser. These tests need none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.browser.chromium import LEFT_OUT, REQUIRED

TOP = Path(__file__).resolve().parents[2]


def run(*arguments: str, **surroundings: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    nowhere = {"BOWSAW_CHROMIUM": "no-such-browser", "BOWSAW_BROWSER": "", **surroundings}
    done = subprocess.run(
        command, cwd=TOP, env=os.environ | nowhere, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_run_without_a_browser_ends_by_saying_so():
    # With a worker, as make test runs it: the process that speaks collects nothing itself.
    code, said = run("tests/browser", "-k", "require_requires", "-n", "1")
    assert code == 0
    assert said.count(LEFT_OUT) == 1
    assert "1 passed" in said
    assert "skipped" not in said


def test_a_run_that_requires_a_browser_fails():
    code, said = run("tests/browser", "-k", "sound_page", BOWSAW_BROWSER="require")
    assert code == 1
    assert REQUIRED in said
    assert LEFT_OUT not in said
