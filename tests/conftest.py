"""What every test shares: the same surroundings everywhere, and a folder of small pictures."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from importlib.resources import as_file, files
from pathlib import Path

import cv2
import pytest
from hypothesis import settings
from tests.browser.chromium import LEFT_OUT, find_chromium, is_required

IMAGE_SETS = ("BOWSAW_SCENE15", "BOWSAW_CALTECH101")
"""Where the two benchmark image sets lie; without them, the tests on them are left out."""
BROWSER = ("BOWSAW_CHROMIUM", "BOWSAW_BROWSER")
"""Which browser opens the page, and whether its tests may be left out."""
LONG = ("tests/real/", "tests/test_documents.py")
"""Where single tests take a minute: they begin first, so that no worker ends on one alone."""

# No other variable changes what the tests do.
for _name in [name for name in os.environ if name.startswith("BOWSAW_")]:
    if _name not in IMAGE_SETS + BROWSER:
        del os.environ[_name]

# Tables are drawn for this terminal, whatever the caller's is.
os.environ.pop("FORCE_COLOR", None)
os.environ.update(NO_COLOR="1", COLUMNS="120")

# A shell that starts the tests in the background tells them, and so the commands that they start,
# to ignore Ctrl-C: tests that interrupt a command would wait for its end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a failure is always news about the code;
# `--hypothesis-profile explore` looks for new ones.
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("repeat")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass over what all tests together have imported.

    Nothing of that ever becomes garbage, and each look at all of it takes a quarter of a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, and leave the order of all others."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say at the end of a run that would have opened a browser that there was none."""
    browser = Path(__file__).parent / "browser"
    asked = (Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args)
    if not (find_chromium() or is_required()) and any(
        browser.is_relative_to(path) or path.is_relative_to(browser) for path in asked
    ):
        terminalreporter.write_line(LEFT_OUT, yellow=True)


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 144 real pictures, 40 × 40 pixels, cut side by side from photographs."""
    folder = tmp_path_factory.mktemp("scenes")
    for name in ("brick", "grass", "gravel"):
        (folder / name).mkdir()
        with as_file(files("skimage") / "data" / f"{name}.png") as source:
            photograph = cv2.imread(str(source), cv2.IMREAD_GRAYSCALE)
        for i in range(144):
            y, x = 40 * (i // 12), 40 * (i % 12)
            cv2.imwrite(str(folder / name / f"{i:03}.png"), photograph[y : y + 40, x : x + 40])
    return folder
