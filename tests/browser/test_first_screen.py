"""The first screen has the figure and the number; figures are legible and tables complete."""

from itertools import combinations

import cv2
import numpy as np
import pytest
from tests.browser.visiting import DESK, PHONE, Visit, visit
from tests.report.made_run import made_run

from bowsaw.report import write_page

PAGES = ("small", "recogniser", "results")
LABELS = """all => all.filter(one => one.getClientRects().length).map(one => {
    const { x, y, width, height } = one.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
    return { text: one.textContent, size, box: [x, y, x + width, y + height] };
})"""
MIN_TYPE = 10
"""Pixels of the smallest letters of a figure."""


def picture(seen: Visit, box: dict[str, float]) -> np.ndarray:
    """Return the pixels of a part of the screen."""
    png = seen.page.screenshot(clip=box)
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR).astype(int)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", PAGES)
def test_the_first_screen_has_the_figure_and_the_number(browser, page_of, name, screen, dark):
    with visit(browser, page_of(name), screen=screen, dark=dark) as seen:
        width, height = screen
        for place in ("#answer .headline:visible", "#answer svg.chart:visible"):
            box = seen.at(place).bounding_box()
            assert box["x"] >= 0
            assert box["y"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] + box["height"] <= height, place
            shown = picture(seen, box)
            paper = shown[0, -1]
            assert (paper.max() < 60) if dark else (paper.min() > 240)
            # Letters and lines: a few percent of the pixels are not paper.
            drawn = (np.abs(shown - paper).max(axis=2) > 80).mean()
            assert 0.01 < drawn < 0.4
        assert seen.overflow() == []
        assert seen.complaints == []
        assert seen.barriers() == []


@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", [*PAGES, "large"])
def test_figures_have_axis_names_and_labels_that_can_be_read(browser, page_of, name, screen):
    with visit(browser, page_of(name), screen=screen) as seen:
        for place in ("#answer", "#curves"):
            figure = f"{place} svg.chart:visible"
            texts = seen.at(f"{figure} text").evaluate_all(LABELS)
            assert {"accuracy", "words used in coding"} <= {text["text"] for text in texts}
            assert min(text["size"] for text in texts) >= MIN_TYPE
            box = seen.at(figure).bounding_box()
            labels = seen.at(f"{figure} .curve .label text").evaluate_all(LABELS)
            methods = set(seen.seen(f"{figure} .curve")) - {"full"}
            assert {label["text"] for label in labels} == methods
            for label in labels:
                assert label["box"][2] <= box["x"] + box["width"] + 1, label
            for one, other in combinations(labels, 2):
                (left, top, right, foot), (x, y, x_end, y_end) = one["box"], other["box"]
                across, down = min(right, x_end) - max(left, x), min(foot, y_end) - max(top, y)
                assert min(across, down) <= 3, (one, other)


def test_a_table_of_methods_is_sorted_by_mouse_and_keyboard(browser, page_of, records_of):
    means = records_of("small").means(("scenes", "hard", 200), "sqrt")
    with visit(browser, page_of("small")) as seen:
        table = seen.at("#numbers table.sortable:visible").first
        head = table.locator("thead th").nth(2)
        assert head.get_attribute("aria-sort") is None
        methods = {m for m, _ in means if m != "full"}
        falling = sorted(methods, key=lambda m: -means[m, 10])

        def rows() -> list[str]:
            found = table.locator("tbody th").all_text_contents()
            return [name for name in found if name != "all words"]

        head.locator("button").click()
        assert (head.get_attribute("aria-sort"), rows()) == ("descending", falling)
        head.locator("button").press("Enter")
        assert (head.get_attribute("aria-sort"), rows()) == ("ascending", falling[::-1])
        table.locator("thead button").first.press("Space")
        assert rows() == sorted(methods)
        assert head.get_attribute("aria-sort") is None
        # Classes keep their numbers when the size changes after sorting.
        classes = seen.at("#confusion table.classes:visible")
        classes.locator("thead button").nth(2).click()
        order = classes.locator("tbody th").all_text_contents()
        seen.at("#size").press("Home")
        shown = dict(
            zip(order, classes.locator("td:nth-child(3)").all_text_contents(), strict=True)
        )
        labels = sorted(order)
        percent = records_of("small").percentages(("scenes", "hard", 200), "sqrt", "refinement", 10)
        for i, name in enumerate(labels):
            assert float(shown[name]) == pytest.approx(int(percent[i][i]) / 100, abs=0.0051)


@pytest.mark.parametrize("n_classes", [15, 30])
def test_every_column_of_a_confusion_table_is_on_the_screen(browser, tmp_path, n_classes):
    names = [f"class with a long name {i}" for i in range(n_classes)]
    folder = made_run(tmp_path, classes=names, splits=1, sizes=[10], details=False)
    with visit(browser, write_page(folder), screen=DESK) as seen:
        grids = seen.at("#confusion .scroll:visible:has(table.grid)")
        assert grids.count() == 2
        hidden = grids.evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)")
        assert hidden == [0, 0]


def test_what_is_missing_without_pixels_is_explained(browser, page_of):
    with visit(browser, page_of("results")) as seen:
        assert "--images FOLDER" in seen.text("#words-text")
        assert seen.text("#image-note").startswith("The photograph is missing.")
        flat = seen.at("#pruned svg.face text").all_text_contents()
        assert set(flat) == {"flat"}
        assert '"flat": a word of patches without gradients' in seen.text("#words-text")
    with visit(browser, page_of("small")) as seen:
        assert seen.at("#image-note").text_content() == ""
