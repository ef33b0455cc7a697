"""What every test shares: the same surroundings everywhere, and a folder of small images."""

import gc
import os
import signal
from collections.abc import Generator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import cv2
import pytest
from hypothesis import settings
from tests.browser.chromium import LEFT_OUT, find_chromium, is_required

IMAGE_SETS = ("BOWSAW_SCENE15", "BOWSAW_CALTECH101")
"""Where the two benchmark image sets lie; without them, the tests on them are left out."""
BROWSER = ("BOWSAW_CHROMIUM", "BOWSAW_BROWSER")
"""Which browser opens the page, and whether its tests may be left out."""
FAULTS = ("BOWSAW_FAULTS",)
"""Whether all trials of the fault matrix are made; a tenth of them otherwise."""
SLOW = {
    "tests/real/": "real images",
    "tests/browser/": "browser",
    "tests/cluster/": "cluster",
    "tests/fuzz/test_fuzz.py::test_inputs": "fuzzing",
    "tests/test_documents.py::test_python_and_commands_run": "documents",
    "tests/test_site.py": "documents",
    "tests/examples/": "examples",
    "tests/benchmarks/": "benchmarks",
    "tests/faults/": "faults",
    "tests/test_release.py::test_packages": "packages",
}
"""Where every test belongs to ``make test-all``, and what it is about."""

# No other variable changes what the tests do.
for _name in [name for name in os.environ if name.startswith("BOWSAW_")]:
    if _name not in IMAGE_SETS + BROWSER + FAULTS:
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


left: dict[str, int] = {}
"""How many tests ``-m "not slow"`` leaves to ``make test-all``, by what they are about."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that belong to ``make test-all``; they begin first, the longest before all."""
    for item in items:
        about = [name for start, name in SLOW.items() if item.nodeid.startswith(start)]
        if about:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and config.getoption("-m") == "not slow":
            name = about[0] if about else "signals, kills and terminals"
            left[name] = left.get(name, 0) + 1
    first = ("tests/real/", "tests/test_documents.py")
    items.sort(key=lambda item: not item.nodeid.startswith(first))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what is left from a worker of xdist, which collects, to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of xdist has left; every worker collects the same tests."""
    left.update(getattr(node, "workeroutput", {}).get("left", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report what is left to ``make test-all``, and browser tests that had no browser."""
    if left:
        listed = ", ".join(f"{name} {n}" for name, n in sorted(left.items()))
        terminalreporter.write_line(f"left to make test-all: {sum(left.values())} tests ({listed})")
    if config.getoption("-m") == "not slow":
        return
    browser = Path(__file__).parent / "browser"
    asked = (Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args)
    if not (find_chromium() or is_required()) and any(
        browser.is_relative_to(path) or path.is_relative_to(browser) for path in asked
    ):
        terminalreporter.write_line(LEFT_OUT, yellow=True)


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 144 real images, 40 × 40 pixels, cut side by side from photographs."""
    folder = tmp_path_factory.mktemp("scenes")
    for name in ("brick", "grass", "gravel"):
        (folder / name).mkdir()
        with as_file(files("skimage") / "data" / f"{name}.png") as source:
            photograph = cv2.imread(str(source), cv2.IMREAD_GRAYSCALE)
        for i in range(144):
            y, x = 40 * (i // 12), 40 * (i % 12)
            cv2.imwrite(str(folder / name / f"{i:03}.png"), photograph[y : y + 40, x : x + 40])
    return folder
