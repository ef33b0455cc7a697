"""The documentation in a browser, from disk: first screens, both schemes, search."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.assets import measured
from tests.browser.visiting import DESK, PHONE, Visit, visit

TOP = Path(__file__).resolve().parents[2]
VIEWS = [(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-d", folder],
        cwd=TOP,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(TOP / "src")},
        capture_output=True,
        check=True,
    )
    return folder


def figures(seen: Visit) -> list[dict[str, float | str]]:
    """Return the drawn figures of the page: where they end, and from which file."""
    return seen.page.locator("article img").evaluate_all(
        """all => all.filter(one => one.getClientRects().length && one.naturalWidth)
            .map(one => ({ file: one.src.split('/').pop(),
                           bottom: one.getBoundingClientRect().bottom,
                           background: getComputedStyle(one).backgroundColor }))"""
    )


@pytest.mark.parametrize(("screen", "scheme"), VIEWS)
def test_the_first_screen_of_the_home_page_has_the_number_and_the_figure(
    browser, site, screen, scheme
):
    with visit(browser, site / "index.html", screen=screen, dark=scheme == "dark") as seen:
        (accuracy,) = re.findall(r"\*\*(0\.\d+) with 100 words", measured.block("home"))
        number = seen.page.get_by_text(f"{accuracy} with 100 words").first.bounding_box()
        assert number["y"] + number["height"] < screen[1]
        (figure,) = figures(seen)
        assert figure["bottom"] < screen[1]
        assert scheme in figure["file"]
        assert seen.overflow() == []
        assert seen.complaints == []
        assert seen.outside() == []
        assert seen.barriers() == []


@pytest.mark.parametrize(
    "page", ["experiments.html", "findings.html", "gallery/index.html", "inference.html"]
)
def test_figures_follow_the_scheme_and_have_no_frame(browser, site, page):
    with visit(browser, site / page, screen=PHONE, dark=True) as seen:
        for figure in figures(seen):
            assert "dark" in figure["file"]
            assert figure["background"] == "rgba(0, 0, 0, 0)"
        assert seen.overflow() == []
        assert seen.barriers() == []


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("how many words", "size.html"),
        ("choose a method", "choosing.html"),
        ("shrink", "tutorial.html"),
        ("onnx", "device.html"),
    ],
)
def test_a_question_is_found_from_disk(browser, site, question, page):
    with visit(browser, site / "index.html") as seen:
        seen.page.click(".md-search__input")
        seen.page.keyboard.type(question, delay=20)
        # Results follow each letter; the last ones count.
        seen.page.wait_for_function(
            """page => {
                const links = [...document.querySelectorAll("a.md-search-result__link")];
                const pages = links.map(one => new URL(one.href).pathname);
                return [...new Set(pages)].slice(0, 3).some(one => one.endsWith("/" + page));
            }""",
            arg=page,
            timeout=10_000,
        )
        assert seen.outside() == []
        assert seen.complaints == []
